//! `ex2`, `lg2`, `sin`, `cos`, `tanh`, `rsqrt` and the other approximations. PTX bounds their error;
//! here they are computed in double and rounded once, which is inside every bound.

use crate::half::{to_bf16, to_f16, widen_bf16, widen_f16};
use crate::lanes::{AluFn, unary};
use crate::rounding::{finish, flush};
use crate::types::Ty;

pub(crate) fn unary_op(opcode: &str, ty: Ty) -> Option<AluFn> {
    macro_rules! single {
        (|$x:ident| $e:expr) => {
            unary!(f32, |x, k| {
                let $x = f64::from(flush(x, k));
                finish($e as f32, k)
            })
        };
    }
    Some(match (opcode, ty) {
        ("ex2", Ty::F32) => single!(|x| x.exp2()),
        ("lg2", Ty::F32) => single!(|x| x.log2()),
        ("sin", Ty::F32) => single!(|x| x.sin()),
        ("cos", Ty::F32) => single!(|x| x.cos()),
        ("tanh", Ty::F32) => single!(|x| x.tanh()),
        ("rsqrt", Ty::F32) => single!(|x| 1.0 / x.sqrt()),
        ("rsqrt", Ty::F64) => unary!(f64, |x, k| finish(1.0 / x.sqrt(), k)),
        ("ex2", Ty::F16) => unary!(u16, |x| half(x, f64::exp2)),
        ("tanh", Ty::F16) => unary!(u16, |x| half(x, f64::tanh)),
        ("ex2", Ty::F16x2) => unary!(u32, |x| both(x, |h| half(h, f64::exp2))),
        ("tanh", Ty::F16x2) => unary!(u32, |x| both(x, |h| half(h, f64::tanh))),
        ("ex2", Ty::Bf16) => unary!(u16, |x| bhalf(x, f64::exp2)),
        ("tanh", Ty::Bf16) => unary!(u16, |x| bhalf(x, f64::tanh)),
        ("ex2", Ty::Bf16x2) => unary!(u32, |x| both(x, |h| bhalf(h, f64::exp2))),
        ("tanh", Ty::Bf16x2) => unary!(u32, |x| both(x, |h| bhalf(h, f64::tanh))),
        _ => return None,
    })
}

fn half(x: u16, f: fn(f64) -> f64) -> u16 {
    to_f16(f(f64::from(widen_f16(x))))
}

fn bhalf(x: u16, f: fn(f64) -> f64) -> u16 {
    to_bf16(f(f64::from(widen_bf16(x))))
}

fn both(x: u32, f: impl Fn(u16) -> u16) -> u32 {
    u32::from(f((x >> 16) as u16)) << 16 | u32::from(f(x as u16))
}
