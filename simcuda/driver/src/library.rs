//! Libraries: device code that belongs to no context; a context gets it as a module when it first
//! uses a kernel or a global of it.

use crate::context::{self, Context};
use crate::entry::{Done, Sim};
use crate::module::{self, Code, Module};
use crate::registry::Registry;
use crate::{image, jit_options, raw};
use shim_cuda_headers::*;
use std::collections::BTreeMap;
use std::ffi::{CString, c_char, c_uint, c_void};
use std::sync::{Arc, Mutex, PoisonError};

static LIBRARIES: Registry<Library> = Registry::new(0x62);
static KERNELS: Registry<LibraryKernel> = Registry::new(0x63);

#[derive(Debug)]
struct Library {
    handle: usize,
    code: Arc<Code>,
    /// By context.
    modules: Mutex<BTreeMap<usize, Arc<Module>>>,
    /// Kernel handles by name.
    kernels: Mutex<BTreeMap<String, usize>>,
}

#[derive(Debug)]
struct LibraryKernel {
    library: Arc<Library>,
    name: String,
    c_name: CString,
}

impl Library {
    fn module(&self, context: &Context) -> Result<Arc<Module>, CUresult> {
        let mut modules = self.modules.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = modules.get(&context.handle)
            && module::find(CUmodule(found.handle)).is_ok()
        {
            return Ok(Arc::clone(found));
        }
        let loaded = module::load(&self.code, context)?;
        modules.insert(context.handle, Arc::clone(&loaded));
        Ok(loaded)
    }
}

fn find(library: CUlibrary) -> Result<Arc<Library>, CUresult> {
    LIBRARIES.get(library.0).ok_or(CUresult::INVALID_HANDLE)
}

fn kernel_of(library: &Arc<Library>, name: &str) -> Result<CUkernel, CUresult> {
    library.code.0.kernel(name).ok_or(CUresult::NOT_FOUND)?;
    let mut kernels = library.kernels.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(handle) = kernels.get(name) {
        return Ok(CUkernel(*handle));
    }
    let c_name = CString::new(name).map_err(|_| CUresult::INVALID_VALUE)?;
    let library = Arc::clone(library);
    let handle = KERNELS.add(LibraryKernel { library, name: name.to_owned(), c_name });
    kernels.insert(name.to_owned(), handle);
    Ok(CUkernel(handle))
}

/// The kernel as a function of the current context.
pub(crate) fn function_of(kernel: CUkernel) -> Result<CUfunction, CUresult> {
    let kernel = KERNELS.get(kernel.0).ok_or(CUresult::INVALID_HANDLE)?;
    let module = kernel.library.module(&*context::working()?)?;
    module::function(&module, &kernel.name)
}

fn load(to: *mut CUlibrary, image: &[u8], options: &jit_options::Options) -> Done {
    let code = Code::read(image, options)?;
    let handle = LIBRARIES.fresh();
    let library = Library { handle, code, modules: Mutex::default(), kernels: Mutex::default() };
    LIBRARIES.insert(handle, Arc::new(library));
    raw::put(to, CUlibrary(handle))
}

impl Sim {
    #[allow(clippy::too_many_arguments, reason = "the vendor's own signature")]
    pub(crate) fn cuLibraryLoadData(
        library: *mut CUlibrary,
        from: *const c_void,
        names: *mut CUjit_option,
        values: *mut *mut c_void,
        count: c_uint,
        _: *mut CUlibraryOption,
        _: *mut *mut c_void,
        _: c_uint,
    ) -> Done {
        if library.is_null() || from.is_null() {
            return Err(CUresult::INVALID_VALUE);
        }
        let options = jit_options::Options::read(count, names, values)?;
        load(library, &image::bytes(from)?, &options)
    }

    #[allow(clippy::too_many_arguments, reason = "the vendor's own signature")]
    pub(crate) fn cuLibraryLoadFromFile(
        library: *mut CUlibrary,
        path: *const c_char,
        names: *mut CUjit_option,
        values: *mut *mut c_void,
        count: c_uint,
        _: *mut CUlibraryOption,
        _: *mut *mut c_void,
        _: c_uint,
    ) -> Done {
        let path = raw::text(path)?;
        if library.is_null() {
            return Err(CUresult::INVALID_VALUE);
        }
        let options = jit_options::Options::read(count, names, values)?;
        let bytes = std::fs::read(path).map_err(|_| CUresult::FILE_NOT_FOUND)?;
        load(library, &bytes, &options)
    }

    pub(crate) fn cuLibraryUnload(library: CUlibrary) -> Done {
        let gone = LIBRARIES.remove(library.0).ok_or(CUresult::INVALID_HANDLE)?;
        KERNELS.remove_all(|kernel| kernel.library.handle == gone.handle);
        let modules =
            std::mem::take(&mut *gone.modules.lock().unwrap_or_else(PoisonError::into_inner));
        for (context, module) in modules {
            if let Some(context) = context::CONTEXTS.get(context) {
                context.engine.wait_idle();
                module::unload(&module, &context);
            }
        }
        Ok(())
    }

    pub(crate) fn cuLibraryGetKernel(
        kernel: *mut CUkernel,
        library: CUlibrary,
        name: *const c_char,
    ) -> Done {
        let (library, name) = (find(library)?, raw::text(name)?);
        raw::put(kernel, kernel_of(&library, &name)?)
    }

    pub(crate) fn cuLibraryGetKernelCount(count: *mut c_uint, library: CUlibrary) -> Done {
        raw::put(count, find(library)?.code.0.kernels().count() as c_uint)
    }

    pub(crate) fn cuLibraryEnumerateKernels(
        to: *mut CUkernel,
        room: c_uint,
        library: CUlibrary,
    ) -> Done {
        let library = find(library)?;
        for (index, kernel) in library.code.0.kernels().take(room as usize).enumerate() {
            raw::put_at(to, index, kernel_of(&library, kernel.name())?)?;
        }
        Ok(())
    }

    pub(crate) fn cuLibraryGetModule(module: *mut CUmodule, library: CUlibrary) -> Done {
        let loaded = find(library)?.module(&*context::working()?)?;
        raw::put(module, CUmodule(loaded.handle))
    }

    pub(crate) fn cuLibraryGetGlobal(
        address: *mut CUdeviceptr,
        bytes: *mut usize,
        library: CUlibrary,
        name: *const c_char,
    ) -> Done {
        let loaded = find(library)?.module(&*context::working()?)?;
        let (at, size) = module::global(&loaded, &raw::text(name)?)?;
        raw::put_if_wanted(address, at);
        raw::put_if_wanted(bytes, size);
        Ok(())
    }

    pub(crate) fn cuLibraryGetManaged(
        address: *mut CUdeviceptr,
        bytes: *mut usize,
        library: CUlibrary,
        name: *const c_char,
    ) -> Done {
        Self::cuLibraryGetGlobal(address, bytes, library, name)
    }

    pub(crate) fn cuKernelGetFunction(function: *mut CUfunction, kernel: CUkernel) -> Done {
        raw::put(function, function_of(kernel)?)
    }

    pub(crate) fn cuKernelGetLibrary(library: *mut CUlibrary, kernel: CUkernel) -> Done {
        let kernel = KERNELS.get(kernel.0).ok_or(CUresult::INVALID_HANDLE)?;
        raw::put(library, CUlibrary(kernel.library.handle))
    }

    pub(crate) fn cuKernelGetName(name: *mut *const c_char, kernel: CUkernel) -> Done {
        let kernel = KERNELS.get(kernel.0).ok_or(CUresult::INVALID_HANDLE)?;
        // Good as long as the library is loaded: the registry keeps the kernel.
        raw::put(name, kernel.c_name.as_ptr())
    }
}
