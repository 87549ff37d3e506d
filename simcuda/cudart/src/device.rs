//! Devices, versions and errors.

use std::ffi::{c_char, c_int};

use crate::{
    Code, INVALID_VALUE,
    driver::{done, driver},
    thread::{self, answer, last_error, ready},
};

/// The runtime that this one answers as: major * 1000 + minor * 10.
const VERSION: c_int = 13000;

/// Writes a number where the program wants it.
fn put(to: *mut c_int, value: c_int) -> Result<(), Code> {
    if to.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: not null, and the program says it is writable.
    unsafe { to.write(value) };
    Ok(())
}

#[unsafe(no_mangle)]
extern "C" fn cudaRuntimeGetVersion(to: *mut c_int) -> Code {
    answer(|| put(to, VERSION))
}

#[unsafe(no_mangle)]
extern "C" fn cudaDriverGetVersion(to: *mut c_int) -> Code {
    // SAFETY: the program's output.
    answer(|| done(unsafe { (driver()?.version)(to) }))
}

#[unsafe(no_mangle)]
extern "C" fn cudaGetDeviceCount(to: *mut c_int) -> Code {
    // SAFETY: the program's output.
    answer(|| done(unsafe { (driver()?.device_count)(to) }))
}

#[unsafe(no_mangle)]
extern "C" fn cudaDeviceGetAttribute(to: *mut c_int, attribute: c_int, device: c_int) -> Code {
    // SAFETY: the program's output.
    answer(|| done(unsafe { (driver()?.device_attribute)(to, attribute, device) }))
}

#[unsafe(no_mangle)]
extern "C" fn cudaSetDevice(device: c_int) -> Code {
    answer(|| thread::set_device(device))
}

#[unsafe(no_mangle)]
extern "C" fn cudaGetDevice(to: *mut c_int) -> Code {
    answer(|| put(to, thread::device()))
}

#[unsafe(no_mangle)]
extern "C" fn cudaDeviceSynchronize() -> Code {
    // SAFETY: no pointer is passed.
    answer(|| done(unsafe { (ready()?.synchronize)() }))
}

#[unsafe(no_mangle)]
extern "C" fn cudaDeviceReset() -> Code {
    answer(|| {
        let device = thread::device();
        // SAFETY: no pointer is passed.
        done(unsafe { (driver()?.primary_reset)(device) })?;
        thread::forget(device);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cudaGetLastError() -> Code {
    last_error(true)
}

#[unsafe(no_mangle)]
extern "C" fn cudaPeekAtLastError() -> Code {
    last_error(false)
}

/// The driver's name of the code: the runtime's own names differ, its codes do not.
#[unsafe(no_mangle)]
extern "C" fn cudaGetErrorName(code: Code) -> *const c_char {
    let mut text = c"unrecognized error code".as_ptr();
    if let Ok(driver) = driver() {
        // SAFETY: a writable text; the driver's texts live for ever.
        let _ = unsafe { (driver.error_name)(code, &raw mut text) };
    }
    if text.is_null() { c"unrecognized error code".as_ptr() } else { text }
}

#[unsafe(no_mangle)]
extern "C" fn cudaGetErrorString(code: Code) -> *const c_char {
    let mut text = c"unrecognized error code".as_ptr();
    if let Ok(driver) = driver() {
        // SAFETY: as above.
        let _ = unsafe { (driver.error_text)(code, &raw mut text) };
    }
    if text.is_null() { c"unrecognized error code".as_ptr() } else { text }
}
