//! The type suffixes of PTX (`.u32`, `.f16x2`, …) and the state spaces. No values here.

/// A fundamental type as instructions and declarations name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Ty {
    B8,
    B16,
    B32,
    B64,
    U8,
    U16,
    U32,
    U64,
    S8,
    S16,
    S32,
    S64,
    F16,
    F16x2,
    Bf16,
    Bf16x2,
    Tf32,
    F32,
    F64,
    Pred,
}

impl Ty {
    /// The type a modifier names, without its dot.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "b8" => Self::B8,
            "b16" => Self::B16,
            "b32" => Self::B32,
            "b64" => Self::B64,
            "u8" => Self::U8,
            "u16" => Self::U16,
            "u32" => Self::U32,
            "u64" => Self::U64,
            "s8" => Self::S8,
            "s16" => Self::S16,
            "s32" => Self::S32,
            "s64" => Self::S64,
            "f16" => Self::F16,
            "f16x2" => Self::F16x2,
            "bf16" => Self::Bf16,
            "bf16x2" => Self::Bf16x2,
            "tf32" => Self::Tf32,
            "f32" => Self::F32,
            "f64" => Self::F64,
            "pred" => Self::Pred,
            _ => return None,
        })
    }

    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::B8 | Self::U8 | Self::S8 | Self::Pred => 1,
            Self::B16 | Self::U16 | Self::S16 | Self::F16 | Self::Bf16 => 2,
            Self::B32 | Self::U32 | Self::S32 | Self::F32 => 4,
            Self::F16x2 | Self::Bf16x2 | Self::Tf32 => 4,
            Self::B64 | Self::U64 | Self::S64 | Self::F64 => 8,
        }
    }

    /// All bits that a value of this type may set.
    pub(crate) fn mask(self) -> u64 {
        match self {
            Self::Pred => 1,
            _ => u64::MAX >> (64 - 8 * self.bytes() as u32),
        }
    }

    pub(crate) fn is_signed(self) -> bool {
        matches!(self, Self::S8 | Self::S16 | Self::S32 | Self::S64)
    }

    /// A scalar floating-point type with a value of its own (the packed ones are not).
    pub(crate) fn is_float(self) -> bool {
        matches!(self, Self::F16 | Self::Bf16 | Self::F32 | Self::F64)
    }

    /// The integer type of the same size that arithmetic on bits uses: `.bN` counts as unsigned.
    pub(crate) fn as_int(self) -> Self {
        match self {
            Self::B8 => Self::U8,
            Self::B16 => Self::U16,
            Self::B32 => Self::U32,
            Self::B64 => Self::U64,
            other => other,
        }
    }
}

/// Where a variable lives, or where an access goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Space {
    Generic,
    Global,
    Const,
    Shared,
    Local,
    Param,
    Reg,
}

impl Space {
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "global" => Self::Global,
            "const" => Self::Const,
            "shared" | "shared::cta" => Self::Shared,
            "local" => Self::Local,
            "param" | "param::entry" | "param::func" => Self::Param,
            "reg" => Self::Reg,
            _ => return None,
        })
    }
}

/// Generic addresses of what lives inside the interpreter. All lie above every user-space address
/// of a host, so none can be confused with memory of the implementer.
pub(crate) mod window {
    pub(crate) const BYTES: u64 = 1 << 32;
    pub(crate) const SHARED: u64 = 0xffff_0000_0000_0000;
    pub(crate) const LOCAL: u64 = SHARED + BYTES;
    pub(crate) const PARAM: u64 = LOCAL + BYTES;
    /// Addresses of functions: only compared, stored and called.
    pub(crate) const CODE: u64 = PARAM + BYTES;

    pub(crate) fn holds(base: u64, address: u64) -> bool {
        address.wrapping_sub(base) < BYTES
    }
}
