//! Modules: device code loaded into a context, with memory for its globals.

use crate::context::{self, Context};
use crate::entry::{Done, Sim};
use crate::function::{self, Function};
use crate::registry::Registry;
use crate::space::{Kind, SPACE};
use crate::{image, jit_options, linear, pages, raw};
use shim_cuda_headers::*;
use simcuda_protocol::Charge;
use simcuda_ptx as ptx;
use std::collections::BTreeMap;
use std::ffi::{c_char, c_uint, c_void};
use std::sync::{Arc, Mutex, PoisonError};

static MODULES: Registry<Module> = Registry::new(0x60);

/// Code that was read, before it is loaded anywhere.
#[derive(Debug)]
pub(crate) struct Code(pub(crate) ptx::Module);

/// Code in a context.
#[derive(Debug)]
pub(crate) struct Module {
    pub(crate) handle: usize,
    pub(crate) context: usize,
    pub(crate) code: Arc<Code>,
    /// Address of each global, in the code's order.
    pub(crate) globals: Vec<u64>,
    /// Function handles by kernel name.
    functions: Mutex<BTreeMap<String, usize>>,
}

impl Code {
    /// Reads an image; what is wrong with it goes into the caller's error log.
    pub(crate) fn read(
        image: &[u8],
        options: &jit_options::Options,
    ) -> Result<Arc<Self>, CUresult> {
        image::module(image, options).map(|module| Arc::new(Self(module)))
    }
}

/// Loads code into a context: its globals get memory, with their first values in it.
pub(crate) fn load(code: &Arc<Code>, context: &Context) -> Result<Arc<Module>, CUresult> {
    let mut globals = Vec::new();
    for global in code.0.globals() {
        let size = global.size.max(1) as u64;
        match linear::allocate(context, size, Kind::Module, Charge::Module) {
            Ok(address) => globals.push(address),
            Err(code) => {
                free_globals(context, &globals);
                return Err(code);
            }
        }
    }
    for (global, address) in code.0.globals().iter().zip(&globals) {
        let mut bytes = global.init.clone();
        for pointer in &global.pointers {
            let target = globals[pointer.global].wrapping_add(pointer.addend);
            bytes[pointer.offset..pointer.offset + 8].copy_from_slice(&target.to_le_bytes());
        }
        pages::write(*address, &bytes);
        zero(*address + bytes.len() as u64, global.size - bytes.len());
    }
    let handle = MODULES.fresh();
    let code = Arc::clone(code);
    let functions = Mutex::default();
    let module = Arc::new(Module { handle, context: context.handle, code, globals, functions });
    MODULES.insert(handle, Arc::clone(&module));
    Ok(module)
}

/// What an initialiser does not say is zero. Piece by piece: a variable may be as large as a card.
fn zero(mut address: u64, mut bytes: usize) {
    static PIECE: [u8; 1 << 16] = [0; 1 << 16];
    while bytes > 0 {
        let piece = bytes.min(PIECE.len());
        pages::write(address, &PIECE[..piece]);
        address += piece as u64;
        bytes -= piece;
    }
}

pub(crate) fn unload(module: &Module, context: &Context) {
    MODULES.remove(module.handle);
    function::forget_all(module.handle);
    free_globals(context, &module.globals);
}

/// The context ends, and its modules with it.
pub(crate) fn unload_all(context: &Context) {
    for module in MODULES.remove_all(|module| module.context == context.handle) {
        unload(&module, context);
    }
}

fn free_globals(context: &Context, globals: &[u64]) {
    for address in globals {
        if let Some(region) = SPACE.remove(*address, |region| region.kind == Kind::Module) {
            linear::give_back(context, &region, Charge::Module);
        }
    }
}

pub(crate) fn find(module: CUmodule) -> Result<Arc<Module>, CUresult> {
    MODULES.get(module.0).ok_or(CUresult::INVALID_HANDLE)
}

/// The handle of a kernel, the same each time.
pub(crate) fn function(module: &Arc<Module>, name: &str) -> Result<CUfunction, CUresult> {
    module.code.0.kernel(name).ok_or(CUresult::NOT_FOUND)?;
    let mut functions = module.functions.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(handle) = functions.get(name) {
        return Ok(CUfunction(*handle));
    }
    let handle = function::register(Function::new(Arc::clone(module), name));
    functions.insert(name.to_owned(), handle);
    Ok(CUfunction(handle))
}

/// Address and size of a global.
pub(crate) fn global(module: &Module, name: &str) -> Result<(u64, usize), CUresult> {
    let globals = module.code.0.globals().iter().zip(&module.globals);
    let found = globals.clone().find(|(global, _)| global.name == name);
    found.map(|(global, address)| (*address, global.size)).ok_or(CUresult::NOT_FOUND)
}

fn load_image(module: *mut CUmodule, image: &[u8], options: &jit_options::Options) -> Done {
    let context = context::working()?;
    let code = Code::read(image, options)?;
    raw::put(module, CUmodule(load(&code, &context)?.handle))
}

impl Sim {
    pub(crate) fn cuModuleLoadDataEx(
        module: *mut CUmodule,
        from: *const c_void,
        count: c_uint,
        names: *mut CUjit_option,
        values: *mut *mut c_void,
    ) -> Done {
        context::working()?;
        if module.is_null() {
            return Err(CUresult::INVALID_VALUE);
        }
        let options = jit_options::Options::read(count, names, values)?;
        load_image(module, &image::bytes(from)?, &options)
    }

    pub(crate) fn cuModuleLoadData(module: *mut CUmodule, from: *const c_void) -> Done {
        Self::cuModuleLoadDataEx(module, from, 0, std::ptr::null_mut(), std::ptr::null_mut())
    }

    pub(crate) fn cuModuleLoadFatBinary(module: *mut CUmodule, from: *const c_void) -> Done {
        Self::cuModuleLoadData(module, from)
    }

    pub(crate) fn cuModuleLoad(module: *mut CUmodule, path: *const c_char) -> Done {
        context::working()?;
        let path = raw::text(path)?;
        if module.is_null() {
            return Err(CUresult::INVALID_VALUE);
        }
        let bytes = std::fs::read(path).map_err(|_| CUresult::FILE_NOT_FOUND)?;
        load_image(module, &bytes, &jit_options::Options::default())
    }

    pub(crate) fn cuModuleUnload(module: CUmodule) -> Done {
        let found = find(module)?;
        let context = context::CONTEXTS.get(found.context).ok_or(CUresult::CONTEXT_IS_DESTROYED)?;
        context.engine.wait_idle();
        unload(&found, &context);
        Ok(())
    }

    pub(crate) fn cuModuleGetFunction(
        to: *mut CUfunction,
        module: CUmodule,
        name: *const c_char,
    ) -> Done {
        context::current()?;
        let (module, name) = (find(module)?, raw::text(name)?);
        raw::put(to, function(&module, &name)?)
    }

    pub(crate) fn cuModuleGetFunctionCount(count: *mut c_uint, module: CUmodule) -> Done {
        raw::put(count, find(module)?.code.0.kernels().count() as c_uint)
    }

    pub(crate) fn cuModuleEnumerateFunctions(
        to: *mut CUfunction,
        room: c_uint,
        module: CUmodule,
    ) -> Done {
        let module = find(module)?;
        for (index, kernel) in module.code.0.kernels().take(room as usize).enumerate() {
            raw::put_at(to, index, function(&module, kernel.name())?)?;
        }
        Ok(())
    }

    pub(crate) fn cuModuleGetGlobal_v2(
        address: *mut CUdeviceptr,
        bytes: *mut usize,
        module: CUmodule,
        name: *const c_char,
    ) -> Done {
        context::current()?;
        let (at, size) = global(&*find(module)?, &raw::text(name)?)?;
        raw::put_if_wanted(address, at);
        raw::put_if_wanted(bytes, size);
        Ok(())
    }
}
