//! A register of a warp is a row of 32 lanes of 64 bits; this file applies a function to the active
//! lanes of rows. A value narrower than its row is kept zero-extended.

pub(crate) const WARP: usize = 32;
pub(crate) const ALL: u32 = u32::MAX;

/// Index of a row in the registers of a frame.
pub(crate) type Reg = u32;
pub(crate) type Row = [u64; WARP];

/// Operands of a computation: destination, up to three sources, and a constant.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Alu {
    pub(crate) d: Reg,
    pub(crate) a: Reg,
    pub(crate) b: Reg,
    pub(crate) c: Reg,
    pub(crate) k: u32,
}

/// One computation for the lanes of a mask.
pub(crate) type AluFn = fn(&mut [Row], u32, &Alu);

/// The lanes of a mask, lowest first.
pub(crate) fn lanes(mask: u32) -> impl Iterator<Item = usize> {
    let mut rest = mask;
    std::iter::from_fn(move || {
        let lane = rest.trailing_zeros() as usize;
        rest &= rest.wrapping_sub(1);
        (lane < WARP).then_some(lane)
    })
}

// The three functions below copy their sources when all lanes are active: the loop then has no
// aliasing to fear and is compiled to vector instructions. With few lanes the copies would cost
// more than the work.

#[inline(always)]
pub(crate) fn map1(rows: &mut [Row], mask: u32, o: &Alu, f: impl Fn(u64, u32) -> u64) {
    if mask == ALL {
        let a = rows[o.a as usize];
        let d = &mut rows[o.d as usize];
        for lane in 0..WARP {
            d[lane] = f(a[lane], o.k);
        }
    } else {
        for lane in lanes(mask) {
            rows[o.d as usize][lane] = f(rows[o.a as usize][lane], o.k);
        }
    }
}

#[inline(always)]
pub(crate) fn map2(rows: &mut [Row], mask: u32, o: &Alu, f: impl Fn(u64, u64, u32) -> u64) {
    if mask == ALL {
        let (a, b) = (rows[o.a as usize], rows[o.b as usize]);
        let d = &mut rows[o.d as usize];
        for lane in 0..WARP {
            d[lane] = f(a[lane], b[lane], o.k);
        }
    } else {
        for lane in lanes(mask) {
            let (a, b) = (rows[o.a as usize][lane], rows[o.b as usize][lane]);
            rows[o.d as usize][lane] = f(a, b, o.k);
        }
    }
}

#[inline(always)]
pub(crate) fn map3(rows: &mut [Row], mask: u32, o: &Alu, f: impl Fn(u64, u64, u64, u32) -> u64) {
    if mask == ALL {
        let (a, b, c) = (rows[o.a as usize], rows[o.b as usize], rows[o.c as usize]);
        let d = &mut rows[o.d as usize];
        for lane in 0..WARP {
            d[lane] = f(a[lane], b[lane], c[lane], o.k);
        }
    } else {
        for lane in lanes(mask) {
            let (a, b) = (rows[o.a as usize][lane], rows[o.b as usize][lane]);
            let c = rows[o.c as usize][lane];
            rows[o.d as usize][lane] = f(a, b, c, o.k);
        }
    }
}

/// A value that a lane can hold.
pub(crate) trait Lane: Copy {
    fn of(bits: u64) -> Self;
    fn bits(self) -> u64;
}

macro_rules! integer_lanes {
    ($($ty:ty as $unsigned:ty),*) => { $(
        impl Lane for $ty {
            #[inline(always)]
            fn of(bits: u64) -> Self { bits as Self }
            #[inline(always)]
            fn bits(self) -> u64 { u64::from(self as $unsigned) }
        }
    )* };
}
integer_lanes!(u8 as u8, u16 as u16, u32 as u32, i8 as u8, i16 as u16, i32 as u32);

impl Lane for u64 {
    #[inline(always)]
    fn of(bits: u64) -> Self {
        bits
    }
    #[inline(always)]
    fn bits(self) -> u64 {
        self
    }
}

impl Lane for i64 {
    #[inline(always)]
    fn of(bits: u64) -> Self {
        bits as Self
    }
    #[inline(always)]
    fn bits(self) -> u64 {
        self as u64
    }
}

impl Lane for bool {
    #[inline(always)]
    fn of(bits: u64) -> Self {
        bits & 1 != 0
    }
    #[inline(always)]
    fn bits(self) -> u64 {
        u64::from(self)
    }
}

impl Lane for f32 {
    #[inline(always)]
    fn of(bits: u64) -> Self {
        Self::from_bits(bits as u32)
    }
    #[inline(always)]
    fn bits(self) -> u64 {
        u64::from(self.to_bits())
    }
}

impl Lane for f64 {
    #[inline(always)]
    fn of(bits: u64) -> Self {
        Self::from_bits(bits)
    }
    #[inline(always)]
    fn bits(self) -> u64 {
        self.to_bits()
    }
}

/// `unary!(ty, |x, k| …)`: an `AluFn` of one source.
macro_rules! unary {
    ($ty:ty, |$x:ident| $e:expr) => {
        unary!($ty, |$x, _k| $e)
    };
    ($ty:ty, |$x:ident, $k:ident| $e:expr) => {
        (|rows: &mut [$crate::lanes::Row], mask: u32, o: &$crate::lanes::Alu| {
            $crate::lanes::map1(rows, mask, o, |x, $k| {
                let $x = <$ty as $crate::lanes::Lane>::of(x);
                $crate::lanes::Lane::bits($e)
            })
        }) as $crate::lanes::AluFn
    };
}

/// `binary!(ty, |x, y, k| …)`: an `AluFn` of two sources of one type.
macro_rules! binary {
    ($ty:ty, |$x:ident, $y:ident| $e:expr) => {
        binary!($ty, |$x, $y, _k| $e)
    };
    ($ty:ty, |$x:ident, $y:ident, $k:ident| $e:expr) => {
        (|rows: &mut [$crate::lanes::Row], mask: u32, o: &$crate::lanes::Alu| {
            $crate::lanes::map2(rows, mask, o, |x, y, $k| {
                let $x = <$ty as $crate::lanes::Lane>::of(x);
                let $y = <$ty as $crate::lanes::Lane>::of(y);
                $crate::lanes::Lane::bits($e)
            })
        }) as $crate::lanes::AluFn
    };
}

/// `ternary!(ty, |x, y, z, k| …)`: an `AluFn` of three sources of one type.
macro_rules! ternary {
    ($ty:ty, |$x:ident, $y:ident, $z:ident| $e:expr) => {
        ternary!($ty, |$x, $y, $z, _k| $e)
    };
    ($ty:ty, |$x:ident, $y:ident, $z:ident, $k:ident| $e:expr) => {
        (|rows: &mut [$crate::lanes::Row], mask: u32, o: &$crate::lanes::Alu| {
            $crate::lanes::map3(rows, mask, o, |x, y, z, $k| {
                let $x = <$ty as $crate::lanes::Lane>::of(x);
                let $y = <$ty as $crate::lanes::Lane>::of(y);
                let $z = <$ty as $crate::lanes::Lane>::of(z);
                $crate::lanes::Lane::bits($e)
            })
        }) as $crate::lanes::AluFn
    };
}

pub(crate) use {binary, ternary, unary};
