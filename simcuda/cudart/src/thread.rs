//! What a thread has: its device, a current context, the last error.

use std::{cell::Cell, ffi::c_int, ptr::null_mut, sync::Mutex};

use crate::{
    Code, SUCCESS,
    driver::{Driver, Handle, done, driver},
};

thread_local! {
    static DEVICE: Cell<c_int> = const { Cell::new(0) };
    static LAST: Cell<Code> = const { Cell::new(SUCCESS) };
}

/// Devices whose primary context this process has retained, with it.
static RETAINED: Mutex<Vec<(c_int, usize)>> = Mutex::new(Vec::new());

pub(crate) fn device() -> c_int {
    DEVICE.get()
}

/// Runs a call of the runtime: its error is the thread's last one.
pub(crate) fn answer(call: impl FnOnce() -> Result<(), Code>) -> Code {
    let code = call().err().unwrap_or(SUCCESS);
    if code != SUCCESS {
        LAST.set(code);
    }
    code
}

/// The last error; with `forget` there is none from now on.
pub(crate) fn last_error(forget: bool) -> Code {
    if forget { LAST.replace(SUCCESS) } else { LAST.get() }
}

/// The driver, with a context current on this thread: the one that is there, else the primary one of
/// the thread's device.
pub(crate) fn ready() -> Result<&'static Driver, Code> {
    let driver = driver()?;
    let mut current: Handle = null_mut();
    // SAFETY: a writable handle.
    done(unsafe { (driver.current)(&raw mut current) })?;
    if current.is_null() {
        make_current(driver, device())?;
    }
    Ok(driver)
}

/// Makes a device this thread's, its primary context current.
pub(crate) fn set_device(device: c_int) -> Result<(), Code> {
    make_current(driver()?, device)?;
    DEVICE.set(device);
    Ok(())
}

/// The primary context of a device is gone; the next call makes it anew.
pub(crate) fn forget(device: c_int) {
    retained().retain(|(known, _)| *known != device);
}

fn retained() -> std::sync::MutexGuard<'static, Vec<(c_int, usize)>> {
    RETAINED.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn make_current(driver: &Driver, device: c_int) -> Result<(), Code> {
    let known = retained().iter().find(|(known, _)| *known == device).map(|(_, context)| *context);
    let context = match known {
        Some(context) => context as Handle,
        None => {
            let mut context: Handle = null_mut();
            // SAFETY: a writable handle.
            done(unsafe { (driver.primary_retain)(&raw mut context, device) })?;
            retained().push((device, context as usize));
            context
        }
    };
    // SAFETY: a context that the driver gave.
    done(unsafe { (driver.set_current)(context) })
}
