//! Loads, stores and atomics on memory of the thread's own: its input, and a scratch of 64 bytes in
//! global, local or shared memory that starts as zeros.

use crate::form::Kind;
use crate::program::Register;

/// Bytes of a thread's scratch in each memory.
pub(crate) const SCRATCH_BYTES: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Space {
    Global,
    Local,
    Shared,
    /// Any of them by a generic address.
    GenericGlobal,
    GenericLocal,
    GenericShared,
}

pub(crate) const SPACES: [Space; 6] = [
    Space::Global,
    Space::Local,
    Space::Shared,
    Space::GenericGlobal,
    Space::GenericLocal,
    Space::GenericShared,
];

impl Space {
    /// Modifier, and the register that holds the scratch's address.
    pub(crate) fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Global => (".global", "%scratch"),
            Self::Local => (".local", "%local"),
            Self::Shared => (".shared", "%shared"),
            Self::GenericGlobal => ("", "%scratch"),
            Self::GenericLocal => ("", "%glocal"),
            Self::GenericShared => ("", "%gshared"),
        }
    }

    /// Which of the three scratches is meant.
    pub(crate) fn place(self) -> usize {
        match self {
            Self::Global | Self::GenericGlobal => 0,
            Self::Local | Self::GenericLocal => 1,
            Self::Shared | Self::GenericShared => 2,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Access {
    /// A type narrower than its register or as wide, one to four elements.
    Load {
        space: Space,
        ty: &'static str,
        offset: usize,
        to: Vec<Register>,
    },
    Store {
        space: Space,
        ty: &'static str,
        offset: usize,
        from: Vec<Register>,
    },
    /// `None` is `red`. `swap` is only for `cas`.
    Atomic {
        space: Space,
        op: &'static str,
        ty: &'static str,
        offset: usize,
        d: Option<Register>,
        value: Register,
        swap: Register,
    },
}

pub(crate) const TYPES: [&str; 12] =
    ["u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64", "b8", "b16", "b32", "b64"];

pub(crate) const ATOMICS: [(&str, &str); 26] = [
    ("add", "u32"),
    ("add", "s32"),
    ("add", "u64"),
    ("add", "f32"),
    ("add", "f64"),
    ("and", "b32"),
    ("and", "b64"),
    ("or", "b32"),
    ("or", "b64"),
    ("xor", "b32"),
    ("xor", "b64"),
    ("exch", "b32"),
    ("exch", "b64"),
    ("cas", "b32"),
    ("cas", "b64"),
    ("inc", "u32"),
    ("dec", "u32"),
    ("min", "u32"),
    ("min", "s32"),
    ("min", "u64"),
    ("min", "s64"),
    ("max", "u32"),
    ("max", "s32"),
    ("max", "u64"),
    ("max", "s64"),
    ("cas", "b16"),
];

pub(crate) fn bits_of(ty: &str) -> u32 {
    ty[1..].parse().unwrap_or(32)
}

/// Registers that may take a value of a type: as wide or wider.
pub(crate) fn kinds_for(ty: &str) -> &'static [Kind] {
    match bits_of(ty) {
        8 | 16 => &[Kind::B16, Kind::B32, Kind::B64],
        32 => &[Kind::B32, Kind::B64],
        _ => &[Kind::B64],
    }
}

pub(crate) fn is_signed(ty: &str) -> bool {
    ty.starts_with('s')
}

pub(crate) fn vector(count: usize) -> &'static str {
    match count {
        2 => ".v2",
        4 => ".v4",
        _ => "",
    }
}

/// Opcode and type, as in the table of what was reached.
pub(crate) fn name(access: &Access) -> String {
    match access {
        Access::Load { space, ty, to, .. } => {
            format!("ld{}{}.{ty}", space.words().0, vector(to.len()))
        }
        Access::Store { space, ty, from, .. } => {
            format!("st{}{}.{ty}", space.words().0, vector(from.len()))
        }
        Access::Atomic { op, ty, d, .. } => {
            format!("{}.{op}.{ty}", if d.is_some() { "atom" } else { "red" })
        }
    }
}
