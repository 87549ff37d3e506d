//! The driver beneath, opened at the first call: `libcuda.so.1`, and from it nothing but
//! `cuGetProcAddress_v2`, which is asked for everything else.

use std::{
    ffi::{CStr, c_char, c_int, c_uint, c_void},
    mem,
    ptr::null_mut,
    sync::OnceLock,
};

use crate::{Code, NO_DRIVER};

/// A device address.
pub(crate) type Address = u64;
/// A context, stream, event, library, kernel or function.
pub(crate) type Handle = *mut c_void;

type GetProcAddress =
    unsafe extern "C" fn(*const c_char, *mut *mut c_void, c_int, u64, *mut c_uint) -> Code;

macro_rules! driver {
    ($($field:ident $name:literal $version:literal ($($ty:ty),*);)*) => {
        /// The driver's functions.
        #[derive(Debug)]
        pub(crate) struct Driver {
            $(pub(crate) $field: unsafe extern "C" fn($($ty),*) -> Code,)*
        }

        impl Driver {
            fn open() -> Option<Self> {
                let get = get_proc_address()?;
                Some(Self {
                    $($field: {
                        let address = find(get, $name, $version)?;
                        // SAFETY: the driver's function of this name and version, of this type.
                        unsafe {
                            mem::transmute::<*mut c_void, unsafe extern "C" fn($($ty),*) -> Code>(
                                address,
                            )
                        }
                    },)*
                })
            }
        }
    };
}

driver! {
    init c"cuInit" 2000 (c_uint);
    version c"cuDriverGetVersion" 2020 (*mut c_int);
    device_count c"cuDeviceGetCount" 2000 (*mut c_int);
    device_attribute c"cuDeviceGetAttribute" 2000 (*mut c_int, c_int, c_int);
    error_name c"cuGetErrorName" 6000 (Code, *mut *const c_char);
    error_text c"cuGetErrorString" 6000 (Code, *mut *const c_char);
    primary_retain c"cuDevicePrimaryCtxRetain" 7000 (*mut Handle, c_int);
    primary_reset c"cuDevicePrimaryCtxReset" 11000 (c_int);
    current c"cuCtxGetCurrent" 4000 (*mut Handle);
    set_current c"cuCtxSetCurrent" 4000 (Handle);
    synchronize c"cuCtxSynchronize" 2000 ();
    memory_info c"cuMemGetInfo" 3020 (*mut usize, *mut usize);
    alloc c"cuMemAlloc" 3020 (*mut Address, usize);
    alloc_pitch c"cuMemAllocPitch" 3020 (*mut Address, *mut usize, usize, usize, c_uint);
    alloc_managed c"cuMemAllocManaged" 6000 (*mut Address, usize, c_uint);
    alloc_async c"cuMemAllocAsync" 11020 (*mut Address, usize, Handle);
    free c"cuMemFree" 3020 (Address);
    free_async c"cuMemFreeAsync" 11020 (Address, Handle);
    alloc_host c"cuMemAllocHost" 3020 (*mut *mut c_void, usize);
    free_host c"cuMemFreeHost" 2000 (*mut c_void);
    to_device c"cuMemcpyHtoD" 3020 (Address, *const c_void, usize);
    to_host c"cuMemcpyDtoH" 3020 (*mut c_void, Address, usize);
    on_device c"cuMemcpyDtoD" 3020 (Address, Address, usize);
    to_device_async c"cuMemcpyHtoDAsync" 3020 (Address, *const c_void, usize, Handle);
    to_host_async c"cuMemcpyDtoHAsync" 3020 (*mut c_void, Address, usize, Handle);
    on_device_async c"cuMemcpyDtoDAsync" 3020 (Address, Address, usize, Handle);
    fill c"cuMemsetD8" 3020 (Address, u8, usize);
    fill_async c"cuMemsetD8Async" 3020 (Address, u8, usize, Handle);
    stream_create c"cuStreamCreate" 2000 (*mut Handle, c_uint);
    stream_destroy c"cuStreamDestroy" 4000 (Handle);
    stream_synchronize c"cuStreamSynchronize" 2000 (Handle);
    stream_query c"cuStreamQuery" 2000 (Handle);
    stream_wait c"cuStreamWaitEvent" 3020 (Handle, Handle, c_uint);
    event_create c"cuEventCreate" 2000 (*mut Handle, c_uint);
    event_destroy c"cuEventDestroy" 4000 (Handle);
    event_record c"cuEventRecord" 2000 (Handle, Handle);
    event_synchronize c"cuEventSynchronize" 2000 (Handle);
    event_query c"cuEventQuery" 2000 (Handle);
    event_elapsed c"cuEventElapsedTime" 2000 (*mut f32, Handle, Handle);
    library_load c"cuLibraryLoadData" 12000 (*mut Handle, *const c_void, *mut c_uint, *mut *mut c_void, c_uint, *mut c_uint, *mut *mut c_void, c_uint);
    library_unload c"cuLibraryUnload" 12000 (Handle);
    library_kernel c"cuLibraryGetKernel" 12000 (*mut Handle, Handle, *const c_char);
    launch c"cuLaunchKernel" 4000 (Handle, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, Handle, *mut *mut c_void, *mut *mut c_void);
}

/// The driver, initialised.
pub(crate) fn driver() -> Result<&'static Driver, Code> {
    static DRIVER: OnceLock<Option<Driver>> = OnceLock::new();
    let driver = DRIVER.get_or_init(Driver::open).as_ref().ok_or(NO_DRIVER)?;
    // SAFETY: no pointer is passed. Each call asks again, as a forked child must.
    match unsafe { (driver.init)(0) } {
        crate::SUCCESS => Ok(driver),
        code => Err(code),
    }
}

/// A call of the driver as a `Result`.
pub(crate) fn done(code: Code) -> Result<(), Code> {
    if code == crate::SUCCESS { Ok(()) } else { Err(code) }
}

fn get_proc_address() -> Option<GetProcAddress> {
    // SAFETY: a NUL-terminated name.
    let library = unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW) };
    if library.is_null() {
        return None;
    }
    // SAFETY: a live handle and a NUL-terminated name.
    let found = unsafe { libc::dlsym(library, c"cuGetProcAddress_v2".as_ptr()) };
    // SAFETY: null is None; anything else is the driver's function of that name and type.
    unsafe { mem::transmute::<*mut c_void, Option<GetProcAddress>>(found) }
}

fn find(get: GetProcAddress, name: &CStr, version: c_int) -> Option<*mut c_void> {
    let (mut found, mut status) = (null_mut(), 0);
    // SAFETY: a NUL-terminated name and outputs of ours.
    let code = unsafe { get(name.as_ptr(), &raw mut found, version, 0, &raw mut status) };
    (code == crate::SUCCESS && !found.is_null()).then_some(found)
}
