//! What a process must know of faults when it loads the driver, before it can ask: functions that
//! this driver does not have must not be found by `dlsym` either, as with an older library.
//!
//! A constructor reads what the environment and the machine's folder say, and takes the symbols out
//! of this library's own symbol table in memory. Without faults it looks for one file.
#![allow(unsafe_code, reason = "a constructor, and this library's own symbol table")]

use crate::{exports, fault_page};
use rustix::mm::MprotectFlags;
use shim_cuda_headers::DriverFn;
use simcuda_protocol::fault::Fault;
use simcuda_protocol::fault_text::parse_all;
use simcuda_protocol::place::Place;
use std::collections::BTreeSet;
use std::ffi::{CStr, c_int, c_void};

/// A symbol as ELF has it.
#[repr(C)]
struct Symbol {
    name: u32,
    info: u8,
    other: u8,
    section: u16,
    value: u64,
    size: u64,
}

unsafe extern "C" {
    /// As `dladdr`, and the entry of the symbol table (glibc).
    fn dladdr1(
        address: *const c_void,
        info: *mut libc::Dl_info,
        extra: *mut *mut c_void,
        flags: c_int,
    ) -> c_int;
}
const RTLD_DL_SYMENT: c_int = 1;

// SAFETY: the loader calls what stands in this section once, after this library's relocations.
#[unsafe(link_section = ".init_array")]
#[used]
static AT_LOAD: extern "C" fn() = at_load;

extern "C" fn at_load() {
    let _ = std::panic::catch_unwind(|| {
        let faults = early_faults();
        if !faults.is_empty() {
            fault_page::expect_faults();
            hidden_by(&faults).into_iter().for_each(hide);
        }
    });
}

/// The machine's, and those that the environment begins a machine with.
fn early_faults() -> Vec<Fault> {
    let file = Place::from_environment().ok().map(|place| place.early_faults());
    let of_machine = file.and_then(|file| std::fs::read_to_string(file).ok()).unwrap_or_default();
    let of_environment = std::env::var("SIMCUDA_FAULTS").unwrap_or_default();
    // What cannot be read is said by the server, which reads it too.
    let read = |text: &str| parse_all(text).unwrap_or_default();
    let mut faults = read(&of_machine);
    faults.extend(read(&of_environment));
    faults
}

fn hidden_by(faults: &[Fault]) -> BTreeSet<DriverFn> {
    let mut hidden = BTreeSet::new();
    for fault in faults {
        match fault {
            Fault::Hide { function } => hidden.extend(DriverFn::named(function)),
            Fault::Driver { version } => {
                let all = DriverFn::ALL.iter().copied();
                hidden.extend(all.filter(|row| row.row().version > *version));
            }
            _ => {}
        }
    }
    hidden
}

/// Makes the symbol one that this library does not define.
fn hide(function: DriverFn) {
    let address = exports::address(function);
    let mut info = libc::Dl_info {
        dli_fname: std::ptr::null(),
        dli_fbase: std::ptr::null_mut(),
        dli_sname: std::ptr::null(),
        dli_saddr: std::ptr::null_mut(),
    };
    let mut entry: *mut c_void = std::ptr::null_mut();
    // SAFETY: both results are our own and writable.
    let found = unsafe { dladdr1(address, &raw mut info, &raw mut entry, RTLD_DL_SYMENT) };
    if found == 0 || entry.is_null() || info.dli_sname.is_null() {
        return;
    }
    // SAFETY: the loader's string table ends each name.
    let name = unsafe { CStr::from_ptr(info.dli_sname) };
    if name.to_bytes() != function.row().symbol.as_bytes() {
        return;
    }
    let symbol: *mut Symbol = entry.cast();
    let page = 4096;
    let start = entry.addr() & !(page - 1);
    let bytes = (entry.addr() + size_of::<Symbol>()).next_multiple_of(page) - start;
    let first = entry.wrapping_byte_sub(entry.addr() - start);
    let writable = MprotectFlags::READ | MprotectFlags::WRITE;
    // SAFETY: the pages hold this library's symbol table, which is mapped private and has no code.
    if unsafe { rustix::mm::mprotect(first, bytes, writable) }.is_err() {
        return;
    }
    // SAFETY: the entry is there and was made writable; nobody else writes symbol tables.
    unsafe { (&raw mut (*symbol).section).write(0) };
    // SAFETY: as above.
    unsafe { (&raw mut (*symbol).value).write(0) };
    // SAFETY: the pages were only readable before.
    let _ = unsafe { rustix::mm::mprotect(first, bytes, MprotectFlags::READ) };
}
