//! Golden results, one instruction at a time, from the definitions of the PTX ISA: floating point.

mod common;

use common::{b16, b32, eval, f32s, f64s};

const NAN: u32 = 0x7fff_ffff;

#[test]
fn floats_round_the_way_they_are_told() {
    let third = |mode: &str| f32s(&format!("div.{mode}.f32 %d, %a, %b;"), [1.0, 3.0, 0.0]);
    assert_eq!(third("rn"), 1.0 / 3.0);
    assert!(third("rz") < third("rp") && third("rz") == third("rm"));
    assert_eq!(third("rz").next_up(), third("rp"));
    let tiny = 2.0_f32.powi(-30);
    assert_eq!(f32s("add.rz.f32 %d, %a, %b;", [1.0, tiny, 0.0]), 1.0);
    assert_eq!(f32s("add.rp.f32 %d, %a, %b;", [1.0, tiny, 0.0]), 1.0_f32.next_up());
    assert_eq!(f32s("sub.rz.f32 %d, %a, %b;", [1.0, tiny, 0.0]), 1.0_f32.next_down());
    assert_eq!(f32s("add.rm.f32 %d, %a, %b;", [-1.0, -tiny, 0.0]), -1.0_f32.next_up());
    assert_eq!(f32s("mul.rz.f32 %d, %a, %b;", [f32::MAX, 2.0, 0.0]), f32::MAX);
    assert_eq!(f32s("mul.rp.f32 %d, %a, %b;", [f32::MAX, 2.0, 0.0]), f32::INFINITY);
    assert_eq!(f32s("fma.rp.f32 %d, %a, %b, %c;", [tiny, tiny, 1.0]), 1.0_f32.next_up());
    assert_eq!(f32s("sqrt.rp.f32 %d, %a;", [2.0, 0.0, 0.0]), 2.0_f32.sqrt().next_up());
    assert_eq!(f32s("sqrt.rz.f32 %d, %a;", [2.0, 0.0, 0.0]), 2.0_f32.sqrt());
    assert_eq!(f64s("add.rp.f64 %d, %a, %b;", [1.0, 1e-30, 0.0]), 1.0_f64.next_up());
    assert_eq!(f64s("fma.rz.f64 %d, %a, %b, %c;", [1e-30, -1e-30, 1.0]), 1.0_f64.next_down());
    assert_eq!(f64s("div.rm.f64 %d, %a, %b;", [1.0, 3.0, 0.0]), 1.0 / 3.0);
    assert_eq!(f64s("div.rp.f64 %d, %a, %b;", [1.0, 3.0, 0.0]), (1.0_f64 / 3.0).next_up());
    assert!(f32s("add.rm.f32 %d, %a, %b;", [1.0, -1.0, 0.0]).is_sign_negative());
    assert!(f32s("add.rn.f32 %d, %a, %b;", [1.0, -1.0, 0.0]).is_sign_positive());
}

#[test]
fn fused_products_round_once() {
    let a = 1.0 + f32::EPSILON;
    let exact = f64::from(a) * f64::from(a) - 1.0;
    assert_eq!(f32s("fma.rn.f32 %d, %a, %b, %c;", [a, a, -1.0]), exact as f32);
    let (x, y, z) = (0.1_f64, 10.0, -1.0);
    assert_eq!(f64s("fma.rn.f64 %d, %a, %b, %c;", [x, y, z]), x.mul_add(y, z));
}

#[test]
fn nan_is_one_and_subnormals_flush_when_asked() {
    assert_eq!(b32("add.f32 %d, %a, %b;", [0x7f80_0000, 0xff80_0000, 0]), NAN);
    assert_eq!(b32("mul.f32 %d, %a, %b;", [0xffc0_1234, 0, 0]), NAN);
    assert_eq!(b32("add.f32 %d, %a, %b;", [1, 1, 0]), 2);
    assert_eq!(b32("add.ftz.f32 %d, %a, %b;", [1, 1, 0]), 0);
    assert_eq!(b32("mul.ftz.f32 %d, %a, %b;", [0x8000_0001, 0x3f80_0000, 0]), 0x8000_0000);
    assert_eq!(f32s("add.sat.f32 %d, %a, %b;", [3.0, 1.0, 0.0]), 1.0);
    assert_eq!(f32s("mul.sat.f32 %d, %a, %b;", [-3.0, 1.0, 0.0]), 0.0);
    assert_eq!(b32("add.sat.f32 %d, %a, %b;", [NAN, 0, 0]), 0);
}

#[test]
fn float_min_and_max_prefer_numbers_to_nan() {
    let two = 2.0_f32.to_bits();
    assert_eq!(b32("min.f32 %d, %a, %b;", [NAN, two, 0]), two);
    assert_eq!(b32("max.f32 %d, %a, %b;", [two, 0xffc0_0001, 0]), two);
    assert_eq!(b32("max.f32 %d, %a, %b;", [0xffc0_0001, 0x7fc0_0000, 0]), NAN);
    assert_eq!(b32("max.NaN.f32 %d, %a, %b;", [NAN, two, 0]), NAN);
    assert_eq!(b32("min.f32 %d, %a, %b;", [0, 0x8000_0000, 0]), 0x8000_0000);
    assert_eq!(b32("max.f32 %d, %a, %b;", [0x8000_0000, 0, 0]), 0);
    assert_eq!(f64s("max.f64 %d, %a, %b;", [f64::NAN, 3.0, 0.0]), 3.0);
}

#[test]
fn approximations_are_better_than_their_bounds() {
    let close = |a: f32, b: f32| (a - b).abs() <= b.abs() * 2.0 * f32::EPSILON;
    assert!(close(f32s("rcp.approx.f32 %d, %a;", [3.0, 0.0, 0.0]), 1.0 / 3.0));
    assert!(close(f32s("rsqrt.approx.f32 %d, %a;", [2.0, 0.0, 0.0]), 0.707_106_77));
    assert!(close(f32s("ex2.approx.ftz.f32 %d, %a;", [0.5, 0.0, 0.0]), std::f32::consts::SQRT_2));
    assert!(close(f32s("lg2.approx.f32 %d, %a;", [10.0, 0.0, 0.0]), std::f32::consts::LOG2_10));
    assert!(close(f32s("sin.approx.f32 %d, %a;", [1.0, 0.0, 0.0]), 1.0_f32.sin()));
    assert!(close(f32s("cos.approx.f32 %d, %a;", [1.0, 0.0, 0.0]), 1.0_f32.cos()));
    assert!(close(f32s("tanh.approx.f32 %d, %a;", [1.0, 0.0, 0.0]), 1.0_f32.tanh()));
    assert!(close(f32s("div.full.f32 %d, %a, %b;", [1.0, 7.0, 0.0]), 1.0 / 7.0));
    assert_eq!(f32s("lg2.approx.f32 %d, %a;", [0.0, 0.0, 0.0]), f32::NEG_INFINITY);
    assert_eq!(b32("sqrt.rn.f32 %d, %a;", [(-1.0_f32).to_bits(), 0, 0]), NAN);
    assert_eq!(f32s("copysign.f32 %d, %a, %b;", [-1.0, 5.0, 0.0]), -5.0);
}

#[test]
fn halves_add_multiply_fuse_and_compare() {
    // 1 + 2^-11 is a tie and goes to even; 1.0009766 + 2^-11 goes up.
    assert_eq!(b16("add.f16 %d, %a, %b;", [0x3c00, 0x1000, 0]), 0x3c00);
    assert_eq!(b16("add.rn.f16 %d, %a, %b;", [0x3c01, 0x1000, 0]), 0x3c02);
    assert_eq!(b16("mul.f16 %d, %a, %b;", [0x7bff, 0x4000, 0]), 0x7c00);
    assert_eq!(b16("sub.f16 %d, %a, %b;", [0x3c00, 0x3c00, 0]), 0);
    // 1.0009766 * 1.0009766 - 1.0019531 = 2^-20, which two roundings would lose.
    assert_eq!(b16("fma.rn.f16 %d, %a, %b, %c;", [0x3c01, 0x3c01, 0xbc02]), 0x0010);
    assert_eq!(b16("neg.f16 %d, %a;", [0x3c00, 0, 0]), 0xbc00);
    assert_eq!(b16("min.f16 %d, %a, %b;", [0x7e00, 0x4000, 0]), 0x4000);
    assert_eq!(b16("add.sat.f16 %d, %a, %b;", [0x4000, 0x4000, 0]), 0x3c00);
    assert_eq!(b32("add.f16x2 %d, %a, %b;", [0x3c00_4000, 0x3c00_bc00, 0]), 0x4000_3c00);
    assert_eq!(
        b32("fma.rn.f16x2 %d, %a, %b, %c;", [0x4000_4000, 0x4200_3c00, 0x3c00_0000]),
        0x4700_4000
    );
    assert_eq!(b16("ex2.approx.f16 %d, %a;", [0x4000, 0, 0]), 0x4400);
    assert_eq!(b16("add.bf16 %d, %a, %b;", [0x3f80, 0x3f80, 0]), 0x4000);
}

#[test]
fn floats_convert_to_integers_rounded_and_clamped() {
    let to = |op: &str, x: f32| b32(&format!("{op} %d, %a;"), [x.to_bits(), 0, 0]) as i32;
    assert_eq!(to("cvt.rzi.s32.f32", -2.7), -2);
    assert_eq!(to("cvt.rni.s32.f32", 2.5), 2);
    assert_eq!(to("cvt.rmi.s32.f32", -2.1), -3);
    assert_eq!(to("cvt.rpi.s32.f32", 2.1), 3);
    assert_eq!(to("cvt.rzi.s32.f32", 1e20), i32::MAX);
    assert_eq!(to("cvt.rzi.u32.f32", -1.0), 0);
    assert_eq!(to("cvt.rzi.u32.f32", 4e9) as u32, 4_000_000_000);
    assert_eq!(to("cvt.rzi.s32.f32", f32::NAN), 0);
    assert_eq!(to("cvt.rzi.s8.f32", 300.0), 127);
    assert_eq!(
        eval("cvt.rzi.s64.f64 %d, %a;", "b64", "b64", [(-1e300_f64).to_bits(), 0, 0]),
        1 << 63
    );
    assert_eq!(
        eval("cvt.rzi.u64.f32 %d, %a;", "b32", "b64", [1e19_f32.to_bits().into(), 0, 0]),
        1e19_f32 as u64
    );
}

#[test]
fn integers_convert_to_floats_rounded() {
    let odd = (1 << 24) + 1;
    assert_eq!(f32::from_bits(b32("cvt.rn.f32.s32 %d, %a;", [odd, 0, 0])), 16_777_216.0);
    assert_eq!(f32::from_bits(b32("cvt.rp.f32.u32 %d, %a;", [odd, 0, 0])), 16_777_218.0);
    assert_eq!(f32::from_bits(b32("cvt.rz.f32.u32 %d, %a;", [u32::MAX, 0, 0])), 4_294_967_040.0);
    assert_eq!(
        f64s("cvt.rn.f64.u64 %d, %a;", [f64::from_bits(u64::MAX), 0.0, 0.0]),
        u64::MAX as f64
    );
    assert_eq!(
        f64s("cvt.rz.f64.u64 %d, %a;", [f64::from_bits(u64::MAX), 0.0, 0.0]),
        (u64::MAX as f64).next_down()
    );
    assert_eq!(b16("cvt.rn.f16.s16 %d, %a;", [-2_i16 as u16, 0, 0]), 0xc000);
}

#[test]
fn floats_convert_to_floats() {
    let half = |op: &str, x: f32| {
        eval(&format!("{op} %d, %a;"), "b32", "b16", [x.to_bits().into(), 0, 0]) as u16
    };
    assert_eq!(half("cvt.rn.f16.f32", 1.0 + 2.0_f32.powi(-11)), 0x3c00);
    assert_eq!(half("cvt.rp.f16.f32", 1.0 + 2.0_f32.powi(-11)), 0x3c01);
    assert_eq!(half("cvt.rz.f16.f32", 1e9), 0x7bff);
    assert_eq!(half("cvt.rn.bf16.f32", 1.0), 0x3f80);
    assert_eq!(eval("cvt.f32.f16 %d, %a;", "b16", "b32", [0x0001, 0, 0]) as u32, 0x3380_0000);
    assert_eq!(eval("cvt.f64.f32 %d, %a;", "b32", "b64", [0x3f80_0000, 0, 0]), 1.0_f64.to_bits());
    let narrow = |mode: &str, x: f64| {
        f32::from_bits(eval(
            &format!("cvt.{mode}.f32.f64 %d, %a;"),
            "b64",
            "b32",
            [x.to_bits(), 0, 0],
        ) as u32)
    };
    assert_eq!(narrow("rn", 0.1), 0.1);
    assert_eq!(narrow("rz", 0.1), 0.1_f32.next_down());
    assert_eq!(narrow("rp", 1e300), f32::INFINITY);
    assert_eq!(narrow("rm", 1e300), f32::MAX);
    assert_eq!(f32s("cvt.rni.f32.f32 %d, %a;", [2.5, 0.0, 0.0]), 2.0);
    assert_eq!(f32s("cvt.sat.f32.f32 %d, %a;", [2.5, 0.0, 0.0]), 1.0);
    assert_eq!(b32("cvt.rn.f16x2.f32 %d, %a, %b;", [0x3f80_0000, 0x4000_0000, 0]), 0x3c00_4000);
    assert_eq!(b32("cvt.rna.tf32.f32 %d, %a;", [0x3f80_1000, 0, 0]), 0x3f80_2000);
}
