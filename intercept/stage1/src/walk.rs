//! Finds a function by reading the symbol tables of the loaded objects: the next one after us that
//! exports the name. For the two look-up functions that we export ourselves, where asking the loader
//! is no way: a library cannot look up the `dlvsym` it stands before, and musl has none to find
//! `dlsym` with.

use core::{
    ffi::{c_int, c_void},
    ptr,
};

use crate::open::own_base;

const DT_HASH: i64 = 4;
const DT_STRTAB: i64 = 5;
const DT_SYMTAB: i64 = 6;
const DT_GNU_HASH: i64 = 0x6fff_fef5;

/// An entry of a dynamic section.
#[repr(C)]
struct Dynamic {
    tag: i64,
    value: usize,
}

/// A symbol, as ELF64 has it.
#[repr(C)]
struct Symbol {
    name: u32,
    info: u8,
    other: u8,
    section: u16,
    value: u64,
    size: u64,
}

/// What is looked for, and how far the walk has come.
struct Walk {
    name: *const u8,
    past_us: bool,
    found: usize,
}

/// Address of the function `name` (NUL-terminated) in the first object after ours that has it; 0 if
/// none has.
pub(crate) fn next_function(name: &core::ffi::CStr) -> usize {
    let mut walk = Walk { name: name.as_ptr().cast(), past_us: false, found: 0 };
    // SAFETY: `each` has the type asked for, and `walk` outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(each), (&raw mut walk).cast()) };
    walk.found
}

unsafe extern "C" fn each(info: *mut libc::dl_phdr_info, _: usize, walk: *mut c_void) -> c_int {
    // SAFETY: the pointer that `next_function` passes, used by nobody else meanwhile.
    let walk = unsafe { &mut *walk.cast::<Walk>() };
    // SAFETY: the loader passes a readable struct.
    let info = unsafe { &*info };
    let base = info.dlpi_addr as usize;
    if !walk.past_us {
        walk.past_us = base == own_base() as usize;
        return 0;
    }
    let mut i = 0;
    while i < usize::from(info.dlpi_phnum) {
        // SAFETY: the loader's table has that many entries.
        let header = unsafe { &*info.dlpi_phdr.add(i) };
        if header.p_type == libc::PT_DYNAMIC {
            // SAFETY: the dynamic section of a loaded object, at its place in memory.
            walk.found = unsafe { find_in(base, base + header.p_vaddr as usize, walk.name) };
        }
        i += 1;
    }
    c_int::from(walk.found != 0)
}

/// The tables of one object's dynamic section.
#[derive(Clone, Copy)]
struct Tables {
    texts: *const u8,
    symbols: *const Symbol,
    gnu_hash: *const u32,
    hash: *const u32,
}

/// # Safety
/// `dynamic` is the dynamic section of an object that is loaded at `base`.
unsafe fn find_in(base: usize, dynamic: usize, name: *const u8) -> usize {
    let mut tables = Tables {
        texts: ptr::null(),
        symbols: ptr::null(),
        gnu_hash: ptr::null(),
        hash: ptr::null(),
    };
    let mut entry = dynamic as *const Dynamic;
    loop {
        // SAFETY: entries up to the one with tag 0 are readable.
        let Dynamic { tag, value } = unsafe { ptr::read(entry) };
        // glibc has relocated these in memory, musl and the vDSO have not.
        let at = if value < base { base + value } else { value };
        match tag {
            0 => break,
            DT_STRTAB => tables.texts = at as *const u8,
            DT_SYMTAB => tables.symbols = at as *const Symbol,
            DT_GNU_HASH => tables.gnu_hash = at as *const u32,
            DT_HASH => tables.hash = at as *const u32,
            _ => {}
        }
        // SAFETY: not past the last entry, which has tag 0.
        entry = unsafe { entry.add(1) };
    }
    if tables.texts.is_null() || tables.symbols.is_null() {
        return 0;
    }
    // SAFETY: the tables of a loaded object, as its dynamic section names them.
    let value = unsafe {
        if tables.gnu_hash.is_null() { by_hash(tables, name) } else { by_gnu_hash(tables, name) }
    };
    if value == 0 { 0 } else { base + value }
}

/// # Safety
/// As [`find_in`], with a GNU hash table.
unsafe fn by_gnu_hash(tables: Tables, name: *const u8) -> usize {
    let word = |at: usize| {
        // SAFETY: within the table by its own header.
        unsafe { ptr::read(tables.gnu_hash.add(at)) }
    };
    let (buckets, first, bloom) = (word(0) as usize, word(1) as usize, word(2) as usize);
    let chains = 4 + 2 * bloom + buckets;
    // SAFETY: a NUL-terminated name.
    let wanted = unsafe { gnu_hash(name) };
    if buckets == 0 {
        return 0;
    }
    let mut i = word(4 + 2 * bloom + wanted as usize % buckets) as usize;
    if i < first {
        return 0;
    }
    loop {
        let hash = word(chains + i - first);
        if hash | 1 == wanted | 1 {
            // SAFETY: a symbol that the table lists.
            let value = unsafe { value_if_named(tables, i, name) };
            if value != 0 {
                return value;
            }
        }
        if hash & 1 != 0 {
            return 0;
        }
        i += 1;
    }
}

/// # Safety
/// As [`find_in`], with a table of the older kind: every symbol is tried.
unsafe fn by_hash(tables: Tables, name: *const u8) -> usize {
    if tables.hash.is_null() {
        return 0;
    }
    // SAFETY: the second word is the number of symbols.
    let count = unsafe { ptr::read(tables.hash.add(1)) } as usize;
    let mut i = 1;
    while i < count {
        // SAFETY: below the number of symbols.
        let value = unsafe { value_if_named(tables, i, name) };
        if value != 0 {
            return value;
        }
        i += 1;
    }
    0
}

/// # Safety
/// `i` is an index of the object's symbol table.
unsafe fn value_if_named(tables: Tables, i: usize, name: *const u8) -> usize {
    // SAFETY: within the symbol table.
    let symbol = unsafe { &*tables.symbols.add(i) };
    if symbol.section == 0 {
        return 0;
    }
    // SAFETY: the symbol's text lies in the object's text table.
    let text = unsafe { tables.texts.add(symbol.name as usize) };
    let mut at = 0;
    loop {
        // SAFETY: both texts are readable up to their NUL, and they have been equal so far.
        let (a, b) = unsafe { (*text.add(at), *name.add(at)) };
        if a != b {
            return 0;
        }
        if a == 0 {
            return symbol.value as usize;
        }
        at += 1;
    }
}

/// # Safety
/// `name` is NUL-terminated.
unsafe fn gnu_hash(name: *const u8) -> u32 {
    let mut hash = 5381u32;
    let mut at = 0;
    loop {
        // SAFETY: readable up to its NUL.
        let byte = unsafe { *name.add(at) };
        if byte == 0 {
            return hash;
        }
        hash = hash.wrapping_mul(33).wrapping_add(u32::from(byte));
        at += 1;
    }
}
