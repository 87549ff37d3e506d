//! Kernels by handle: as functions of a module, and what may be asked of them.

use crate::entry::{Done, Sim};
use crate::library;
use crate::module::Module;
use crate::raw;
use crate::registry::Registry;
use shim_cuda_headers::*;
use simcuda_ptx::Kernel;
use std::ffi::{CString, c_char, c_int, c_uint};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

static FUNCTIONS: Registry<Function> = Registry::new(0x61);

/// Shared memory that a block may have without asking, and with.
pub(crate) const SHARED_BYTES: usize = 48 << 10;
pub(crate) const SHARED_OPT_IN_BYTES: usize = 64 << 10;
pub(crate) const THREADS_PER_BLOCK: u32 = 1024;

#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) module: Arc<Module>,
    pub(crate) name: String,
    c_name: CString,
    /// What `cuFuncSetAttribute` allowed.
    pub(crate) dynamic_shared_bytes: AtomicU32,
    carveout: AtomicU32,
}

impl Function {
    pub(crate) fn new(module: Arc<Module>, name: &str) -> Self {
        Self {
            module,
            name: name.to_owned(),
            c_name: CString::new(name).unwrap_or_default(),
            dynamic_shared_bytes: AtomicU32::new(SHARED_BYTES as u32),
            carveout: AtomicU32::new(u32::MAX),
        }
    }

    pub(crate) fn kernel(&self) -> Result<&Kernel, CUresult> {
        self.module.code.0.kernel(&self.name).ok_or(CUresult::NOT_FOUND)
    }

    fn attribute(&self, attribute: CUfunction_attribute) -> Result<c_int, CUresult> {
        let kernel = self.kernel()?;
        let value = match attribute {
            0 => kernel.max_threads().unwrap_or(THREADS_PER_BLOCK),
            1 => kernel.shared_bytes() as u32,
            // Constants and local memory: not known apart; registers: a plain kernel's.
            2 | 3 | 7 => 0,
            4 => 32,
            5 | 6 => 75,
            8 => self.dynamic_shared_bytes.load(Ordering::Relaxed),
            9 => self.carveout.load(Ordering::Relaxed),
            // Clusters do not exist before compute capability 9.
            10..=15 => 0,
            _ => return Err(CUresult::INVALID_VALUE),
        };
        Ok(value.cast_signed())
    }

    fn set_attribute(&self, attribute: CUfunction_attribute, value: c_int) -> Done {
        let static_bytes = self.kernel()?.shared_bytes();
        match attribute {
            8 => {
                let wanted = u32::try_from(value).map_err(|_| CUresult::INVALID_VALUE)?;
                if wanted as usize + static_bytes > SHARED_OPT_IN_BYTES {
                    return Err(CUresult::INVALID_VALUE);
                }
                self.dynamic_shared_bytes.store(wanted, Ordering::Relaxed);
            }
            9 if (-1..=100).contains(&value) => {
                self.carveout.store(value.cast_unsigned(), Ordering::Relaxed);
            }
            _ => return Err(CUresult::INVALID_VALUE),
        }
        Ok(())
    }
}

pub(crate) fn register(function: Function) -> usize {
    FUNCTIONS.add(function)
}

/// The module goes, and its functions with it.
pub(crate) fn forget_all(module: usize) {
    FUNCTIONS.remove_all(|function| function.module.handle == module);
}

/// A handle that this kernel of a module goes by.
pub(crate) fn handle_of(module: usize, name: &str) -> Option<usize> {
    FUNCTIONS.find_handle(|function| function.module.handle == module && function.name == name)
}

/// What the handle stands for: a function, or a library's kernel in the current context.
pub(crate) fn find(function: CUfunction) -> Result<Arc<Function>, CUresult> {
    match FUNCTIONS.get(function.0) {
        Some(found) => Ok(found),
        None => {
            let function = library::function_of(CUkernel(function.0))?;
            FUNCTIONS.get(function.0).ok_or(CUresult::INVALID_HANDLE)
        }
    }
}

impl Sim {
    pub(crate) fn cuFuncGetAttribute(
        value: *mut c_int,
        attribute: CUfunction_attribute,
        function: CUfunction,
    ) -> Done {
        raw::put(value, find(function)?.attribute(attribute)?)
    }

    pub(crate) fn cuFuncSetAttribute(
        function: CUfunction,
        attribute: CUfunction_attribute,
        value: c_int,
    ) -> Done {
        find(function)?.set_attribute(attribute, value)
    }

    /// Partial: accepted, changes nothing.
    pub(crate) fn cuFuncSetCacheConfig(function: CUfunction, _: CUfunc_cache) -> Done {
        find(function).map(drop)
    }

    /// Partial: accepted, changes nothing.
    pub(crate) fn cuFuncSetSharedMemConfig(function: CUfunction, _: CUsharedconfig) -> Done {
        find(function).map(drop)
    }

    pub(crate) fn cuFuncGetModule(module: *mut CUmodule, function: CUfunction) -> Done {
        raw::put(module, CUmodule(find(function)?.module.handle))
    }

    pub(crate) fn cuFuncGetName(name: *mut *const c_char, function: CUfunction) -> Done {
        // The pointer is good as long as the module is loaded: the registry keeps the function.
        raw::put(name, find(function)?.c_name.as_ptr())
    }

    pub(crate) fn cuFuncGetParamInfo(
        function: CUfunction,
        index: usize,
        offset: *mut usize,
        size: *mut usize,
    ) -> Done {
        let function = find(function)?;
        let param = function.kernel()?.params().get(index).ok_or(CUresult::INVALID_VALUE)?;
        raw::put(offset, param.offset)?;
        raw::put_if_wanted(size, param.size);
        Ok(())
    }

    pub(crate) fn cuFuncGetParamCount(function: CUfunction, count: *mut usize) -> Done {
        raw::put(count, find(function)?.kernel()?.params().len())
    }

    /// Partial: functions are always loaded.
    pub(crate) fn cuFuncIsLoaded(state: *mut CUfunctionLoadingState, function: CUfunction) -> Done {
        find(function)?;
        raw::put(state, 1)
    }

    /// Partial: functions are always loaded.
    pub(crate) fn cuFuncLoad(function: CUfunction) -> Done {
        find(function).map(drop)
    }

    pub(crate) fn cuKernelGetAttribute(
        value: *mut c_int,
        attribute: CUfunction_attribute,
        kernel: CUkernel,
        device: CUdevice,
    ) -> Done {
        crate::process::card(device)?;
        raw::put(value, find(CUfunction(kernel.0))?.attribute(attribute)?)
    }

    pub(crate) fn cuKernelSetAttribute(
        attribute: CUfunction_attribute,
        value: c_int,
        kernel: CUkernel,
        device: CUdevice,
    ) -> Done {
        crate::process::card(device)?;
        find(CUfunction(kernel.0))?.set_attribute(attribute, value)
    }

    /// Partial: accepted, changes nothing.
    pub(crate) fn cuKernelSetCacheConfig(
        kernel: CUkernel,
        config: CUfunc_cache,
        _: CUdevice,
    ) -> Done {
        Self::cuFuncSetCacheConfig(CUfunction(kernel.0), config)
    }

    pub(crate) fn cuKernelGetParamInfo(
        kernel: CUkernel,
        index: usize,
        offset: *mut usize,
        size: *mut usize,
    ) -> Done {
        Self::cuFuncGetParamInfo(CUfunction(kernel.0), index, offset, size)
    }

    pub(crate) fn cuKernelGetParamCount(kernel: CUkernel, count: *mut usize) -> Done {
        Self::cuFuncGetParamCount(CUfunction(kernel.0), count)
    }

    pub(crate) fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
        blocks: *mut c_int,
        function: CUfunction,
        threads: c_int,
        shared: usize,
    ) -> Done {
        let function = find(function)?;
        let shared = function.kernel()?.shared_bytes() + shared;
        raw::put(blocks, occupancy(threads, shared)?)
    }

    pub(crate) fn cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        blocks: *mut c_int,
        function: CUfunction,
        threads: c_int,
        shared: usize,
        _: c_uint,
    ) -> Done {
        Self::cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, threads, shared)
    }

    pub(crate) fn cuOccupancyAvailableDynamicSMemPerBlock(
        bytes: *mut usize,
        function: CUfunction,
        blocks: c_int,
        threads: c_int,
    ) -> Done {
        let function = find(function)?;
        let blocks = usize::try_from(blocks.max(1)).unwrap_or(1);
        if threads <= 0 {
            return Err(CUresult::INVALID_VALUE);
        }
        raw::put(
            bytes,
            (SHARED_OPT_IN_BYTES / blocks).saturating_sub(function.kernel()?.shared_bytes()),
        )
    }

    pub(crate) fn cuOccupancyMaxPotentialBlockSize(
        grid: *mut c_int,
        block: *mut c_int,
        function: CUfunction,
        _: CUoccupancyB2DSize,
        _: usize,
        limit: c_int,
    ) -> Done {
        let function = find(function)?;
        let device = crate::context::current()?.device;
        let most = function.attribute(0)?;
        let threads = if limit > 0 { limit.min(most) } else { most };
        let each = occupancy(threads, function.kernel()?.shared_bytes())?;
        raw::put(block, threads)?;
        let multiprocessors = crate::process::card(device)?.device.multiprocessors.cast_signed();
        raw::put(grid, multiprocessors.saturating_mul(each))
    }
}

/// How many blocks a multiprocessor of compute capability 7.5 holds.
pub(crate) fn occupancy(threads: c_int, shared_bytes: usize) -> Result<c_int, CUresult> {
    let threads = u32::try_from(threads).ok().filter(|threads| *threads > 0);
    let threads = threads.ok_or(CUresult::INVALID_VALUE)?.next_multiple_of(32);
    let by_shared = SHARED_OPT_IN_BYTES.checked_div(shared_bytes).unwrap_or(usize::MAX);
    Ok((THREADS_PER_BLOCK / threads)
        .min(16)
        .min(u32::try_from(by_shared).unwrap_or(u32::MAX))
        .cast_signed())
}
