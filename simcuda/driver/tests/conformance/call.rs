//! Calling any function of the driver by its exported name, with words for arguments, and keeping
//! account of what was called.
//!
//! All parameters of the driver's functions but a few are integers or pointers of at most eight
//! bytes, each of which has a register or a place on the stack of its own: a word stands for any.
#![allow(unsafe_code, reason = "calling exported functions by name")]

use libloading::Library;
use std::collections::BTreeSet;
use std::ffi::c_void;
use std::sync::{Mutex, OnceLock, PoisonError};

/// Names that the present rule has called.
static CALLED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

pub(crate) fn take_called() -> BTreeSet<String> {
    std::mem::take(&mut *CALLED.lock().unwrap_or_else(PoisonError::into_inner))
}

/// The exported function of that name.
fn symbol(name: &str) -> *const c_void {
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    CALLED.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned());
    let library = LIBRARY.get_or_init(|| {
        // SAFETY: the library is the driver that the test is about; loading it runs no code.
        unsafe { Library::new(crate::api::library_file()) }.expect("the driver's file")
    });
    // SAFETY: the address is only called by `invoke` or `typed`, with the header's parameters.
    *unsafe { library.get::<*const c_void>(name.as_bytes()) }.expect(name)
}

/// The function under its own type, where words will not do.
pub(crate) fn typed<F: Copy>(name: &str) -> F {
    assert_eq!(size_of::<F>(), size_of::<*const c_void>());
    // SAFETY: `F` is a function pointer of the type that the header gives this name.
    unsafe { std::mem::transmute_copy(&symbol(name)) }
}

/// An argument as a word.
pub(crate) trait Word {
    fn word(self) -> u64;
}

macro_rules! numbers {
    ($($number:ty),*) => {
        $(impl Word for $number {
            fn word(self) -> u64 {
                self as u64
            }
        })*
    };
}
numbers!(u8, u16, u32, u64, usize);

impl Word for i32 {
    fn word(self) -> u64 {
        self.cast_unsigned().into()
    }
}

impl<T: ?Sized> Word for &mut T {
    fn word(self) -> u64 {
        std::ptr::from_mut(self).cast::<c_void>().expose_provenance() as u64
    }
}

impl<T: ?Sized> Word for &T {
    fn word(self) -> u64 {
        std::ptr::from_ref(self).cast::<c_void>().expose_provenance() as u64
    }
}

/// No pointer.
pub(crate) const NULL: u64 = 0;

macro_rules! arities {
    (@word $index:literal) => { u64 };
    ($function:expr, $words:expr; $($count:literal: $($index:literal)*;)*) => {
        match $words.len() {
            $($count => {
                type Function = extern "C" fn($(arities!(@word $index)),*) -> u32;
                // SAFETY: the rule gives the words that the header asks for under this name.
                let function: Function = unsafe { std::mem::transmute($function) };
                function($($words[$index]),*)
            })*
            other => panic!("no function has {other} parameters"),
        }
    };
}

/// Calls the function.
pub(crate) fn invoke(name: &str, words: &[u64]) -> u32 {
    let function = symbol(name);
    arities!(function, words;
        0: ; 1: 0; 2: 0 1; 3: 0 1 2; 4: 0 1 2 3; 5: 0 1 2 3 4; 6: 0 1 2 3 4 5;
        7: 0 1 2 3 4 5 6; 8: 0 1 2 3 4 5 6 7; 9: 0 1 2 3 4 5 6 7 8; 10: 0 1 2 3 4 5 6 7 8 9;
        11: 0 1 2 3 4 5 6 7 8 9 10;)
}

/// Bytes of this process at an address that the driver gave it.
pub(crate) fn bytes_at(at: *const u8, count: usize) -> Vec<u8> {
    // SAFETY: the rule names memory that the driver mapped for the host.
    unsafe { std::slice::from_raw_parts(at, count) }.to_vec()
}

/// A descriptor of this process that nobody else here closes.
pub(crate) fn own(number: i32) -> std::os::fd::OwnedFd {
    // SAFETY: the rule was given the number and gives it to nobody else.
    unsafe { std::os::fd::FromRawFd::from_raw_fd(number) }
}

/// The code of a call: `code!("cuInit", 0_u32)`.
macro_rules! code {
    ($name:expr $(, $argument:expr)* $(,)?) => {
        $crate::call::invoke($name, &[$($crate::call::Word::word($argument)),*])
    };
}

/// A call that must succeed.
macro_rules! ok {
    ($name:expr $(, $argument:expr)* $(,)?) => {{
        let name = $name;
        assert_eq!(code!(name $(, $argument)*), 0, "{name}");
    }};
}

/// Calls that must fail with this code.
macro_rules! fails {
    ($code:expr, $name:expr $(, $argument:expr)* $(,)?) => {{
        let name = $name;
        assert_eq!(code!(name $(, $argument)*), $code, "{name}");
    }};
}

pub(crate) use {code, fails, ok};
