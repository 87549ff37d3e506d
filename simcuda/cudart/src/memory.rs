//! Memory and copies.

use std::ffi::{c_int, c_uint, c_void};

use crate::{
    Code, INVALID_VALUE,
    driver::{Address, Driver, Handle, done},
    thread::{answer, ready},
};

/// `cudaMemcpyKind`.
const HOST_TO_HOST: c_int = 0;
const HOST_TO_DEVICE: c_int = 1;
const DEVICE_TO_HOST: c_int = 2;
const DEVICE_TO_DEVICE: c_int = 3;

/// Writes an address where the program wants it; nothing on failure.
fn give(
    to: *mut *mut c_void,
    make: impl FnOnce(&Driver, *mut Address) -> Code,
) -> Result<(), Code> {
    if to.is_null() {
        return Err(INVALID_VALUE);
    }
    let mut address: Address = 0;
    done(make(ready()?, &raw mut address))?;
    // SAFETY: not null, and the program says it is writable.
    unsafe { to.write(address as *mut c_void) };
    Ok(())
}

#[unsafe(no_mangle)]
extern "C" fn cudaMalloc(to: *mut *mut c_void, bytes: usize) -> Code {
    answer(|| {
        // SAFETY: a writable address.
        give(to, |driver, address| unsafe { (driver.alloc)(address, bytes) })
    })
}

#[unsafe(no_mangle)]
extern "C" fn cudaMallocPitch(
    to: *mut *mut c_void,
    pitch: *mut usize,
    width: usize,
    height: usize,
) -> Code {
    answer(|| {
        // SAFETY: a writable address, and the program's pitch.
        give(to, |driver, address| unsafe {
            (driver.alloc_pitch)(address, pitch, width, height, 4)
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn cudaMallocManaged(to: *mut *mut c_void, bytes: usize, flags: c_uint) -> Code {
    answer(|| {
        // SAFETY: a writable address.
        give(to, |driver, address| unsafe { (driver.alloc_managed)(address, bytes, flags) })
    })
}

#[unsafe(no_mangle)]
extern "C" fn cudaMallocAsync(to: *mut *mut c_void, bytes: usize, stream: Handle) -> Code {
    answer(|| {
        // SAFETY: a writable address, the program's stream.
        give(to, |driver, address| unsafe { (driver.alloc_async)(address, bytes, stream) })
    })
}

#[unsafe(no_mangle)]
extern "C" fn cudaFree(address: *mut c_void) -> Code {
    answer(|| {
        let driver = ready()?;
        if address.is_null() {
            return Ok(());
        }
        // SAFETY: an address is only compared with those the driver gave.
        done(unsafe { (driver.free)(address as Address) })
    })
}

#[unsafe(no_mangle)]
extern "C" fn cudaFreeAsync(address: *mut c_void, stream: Handle) -> Code {
    // SAFETY: as `cudaFree`; the program's stream.
    answer(|| done(unsafe { (ready()?.free_async)(address as Address, stream) }))
}

#[unsafe(no_mangle)]
extern "C" fn cudaMallocHost(to: *mut *mut c_void, bytes: usize) -> Code {
    // SAFETY: the program's output.
    answer(|| done(unsafe { (ready()?.alloc_host)(to, bytes) }))
}

#[unsafe(no_mangle)]
extern "C" fn cudaFreeHost(address: *mut c_void) -> Code {
    // SAFETY: an address that the driver gave, or one that it refuses.
    answer(|| done(unsafe { (ready()?.free_host)(address) }))
}

#[unsafe(no_mangle)]
extern "C" fn cudaMemGetInfo(free: *mut usize, total: *mut usize) -> Code {
    // SAFETY: the program's outputs.
    answer(|| done(unsafe { (ready()?.memory_info)(free, total) }))
}

#[unsafe(no_mangle)]
extern "C" fn cudaMemcpy(to: *mut c_void, from: *const c_void, bytes: usize, kind: c_int) -> Code {
    answer(|| {
        let driver = ready()?;
        done(match kind {
            // SAFETY: the program's own addresses and length.
            HOST_TO_HOST => return copy_here(to, from, bytes),
            // SAFETY: as above.
            HOST_TO_DEVICE => unsafe { (driver.to_device)(to as Address, from, bytes) },
            // SAFETY: as above.
            DEVICE_TO_HOST => unsafe { (driver.to_host)(to, from as Address, bytes) },
            // SAFETY: as above.
            DEVICE_TO_DEVICE => unsafe {
                (driver.on_device)(to as Address, from as Address, bytes)
            },
            _ => INVALID_VALUE,
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn cudaMemcpyAsync(
    to: *mut c_void,
    from: *const c_void,
    bytes: usize,
    kind: c_int,
    stream: Handle,
) -> Code {
    answer(|| {
        let driver = ready()?;
        let (on, off) = (to as Address, from as Address);
        done(match kind {
            // SAFETY: the program's own addresses, length and stream.
            HOST_TO_DEVICE => unsafe { (driver.to_device_async)(on, from, bytes, stream) },
            // SAFETY: as above.
            DEVICE_TO_HOST => unsafe { (driver.to_host_async)(to, off, bytes, stream) },
            // SAFETY: as above.
            DEVICE_TO_DEVICE => unsafe { (driver.on_device_async)(on, off, bytes, stream) },
            _ => INVALID_VALUE,
        })
    })
}

fn copy_here(to: *mut c_void, from: *const c_void, bytes: usize) -> Result<(), Code> {
    // SAFETY: the program's own buffers of this length.
    unsafe { std::ptr::copy(from.cast::<u8>(), to.cast::<u8>(), bytes) };
    Ok(())
}

#[unsafe(no_mangle)]
extern "C" fn cudaMemset(to: *mut c_void, value: c_int, bytes: usize) -> Code {
    // SAFETY: the program's own address and length.
    answer(|| done(unsafe { (ready()?.fill)(to as Address, value as u8, bytes) }))
}

#[unsafe(no_mangle)]
extern "C" fn cudaMemsetAsync(to: *mut c_void, value: c_int, bytes: usize, stream: Handle) -> Code {
    // SAFETY: as above; the program's stream.
    answer(|| done(unsafe { (ready()?.fill_async)(to as Address, value as u8, bytes, stream) }))
}
