//! Golden results, one instruction at a time, from the definitions of the PTX ISA: integers, bits,
//! moves and memory.

mod common;

use common::{b16, b32, b64, eval, f32s, f64s, truth};

const MIN: u32 = i32::MIN as u32;
const NAN: u32 = 0x7fff_ffff;

#[test]
fn sums_and_differences_wrap_and_saturate() {
    assert_eq!(b32("add.u32 %d, %a, %b;", [u32::MAX, 2, 0]), 1);
    assert_eq!(b32("add.sat.s32 %d, %a, %b;", [i32::MAX as u32, 2, 0]), i32::MAX as u32);
    assert_eq!(b32("sub.sat.s32 %d, %a, %b;", [MIN, 2, 0]), MIN);
    assert_eq!(b32("sub.s32 %d, %a, %b;", [3, 5, 0]), -2_i32 as u32);
    assert_eq!(b64("add.s64 %d, %a, %b;", [u64::MAX, 1, 0]), 0);
    assert_eq!(b16("add.u16 %d, %a, %b;", [0xffff, 2, 0]), 1);
    assert_eq!(b32("sub.u32 %d, %a, -7;", [3, 0, 0]), 10);
}

#[test]
fn products_keep_the_part_asked_for() {
    assert_eq!(b32("mul.lo.u32 %d, %a, %b;", [0x8000_0001, 2, 0]), 2);
    assert_eq!(b32("mul.hi.u32 %d, %a, %b;", [u32::MAX, u32::MAX, 0]), 0xffff_fffe);
    assert_eq!(b32("mul.hi.s32 %d, %a, %b;", [-2_i32 as u32, 3, 0]), u32::MAX);
    assert_eq!(b64("mul.hi.u64 %d, %a, %b;", [u64::MAX, 16, 0]), 15);
    assert_eq!(b64("mul.hi.s64 %d, %a, %b;", [u64::MAX, 16, 0]), u64::MAX);
    let wide = |op: &str, a: u32, b: u32| eval(op, "b32", "b64", [a.into(), b.into(), 5]);
    assert_eq!(wide("mul.wide.u32 %d, %a, %b;", u32::MAX, 2), 0x1_ffff_fffe);
    assert_eq!(wide("mul.wide.s32 %d, %a, %b;", u32::MAX, 2), -2_i64 as u64);
    assert_eq!(
        wide("cvt.u64.u32 %d, %c; mad.wide.s32 %d, %a, %b, %d;", u32::MAX, 2),
        3,
        "the addend is wide too"
    );
    assert_eq!(b32("mad.lo.s32 %d, %a, %b, %c;", [7, 6, 100]), 142);
    assert_eq!(b32("mad.hi.u32 %d, %a, %b, %c;", [1 << 31, 6, 100]), 103);
    assert_eq!(
        b32("mad.hi.sat.s32 %d, %a, %b, %c;", [1 << 30, 1 << 30, i32::MAX as u32]),
        i32::MAX as u32
    );
    assert_eq!(b32("mul24.lo.u32 %d, %a, %b;", [0xff00_0003, 5, 0]), 15);
    assert_eq!(b32("mad24.lo.s32 %d, %a, %b, %c;", [0x00ff_ffff, 5, 7]), 2);
}

#[test]
fn division_truncates_and_division_by_zero_gives_ones() {
    assert_eq!(b32("div.s32 %d, %a, %b;", [-7_i32 as u32, 2, 0]), -3_i32 as u32);
    assert_eq!(b32("rem.s32 %d, %a, %b;", [-7_i32 as u32, 2, 0]), -1_i32 as u32);
    assert_eq!(b32("div.u32 %d, %a, %b;", [7, 0, 0]), u32::MAX);
    assert_eq!(b32("rem.u32 %d, %a, %b;", [7, 0, 0]), u32::MAX);
    assert_eq!(b64("div.s64 %d, %a, %b;", [7, 0, 0]), u64::MAX);
    assert_eq!(b32("div.s32 %d, %a, %b;", [MIN, u32::MAX, 0]), MIN);
    assert_eq!(b32("rem.s32 %d, %a, %b;", [MIN, u32::MAX, 0]), 0);
}

#[test]
fn least_greatest_absolute_and_distance() {
    assert_eq!(b32("min.s32 %d, %a, %b;", [u32::MAX, 1, 0]), u32::MAX);
    assert_eq!(b32("min.u32 %d, %a, %b;", [u32::MAX, 1, 0]), 1);
    assert_eq!(b32("max.s32 %d, %a, %b;", [u32::MAX, 1, 0]), 1);
    assert_eq!(b32("abs.s32 %d, %a;", [-9_i32 as u32, 0, 0]), 9);
    assert_eq!(b32("abs.s32 %d, %a;", [MIN, 0, 0]), MIN);
    assert_eq!(b64("neg.s64 %d, %a;", [5, 0, 0]), -5_i64 as u64);
    assert_eq!(b32("sad.u32 %d, %a, %b, %c;", [3, 10, 100]), 107);
    assert_eq!(b32("sad.s32 %d, %a, %b, %c;", [-3_i32 as u32, 10, 100]), 113);
    assert_eq!(b32("dp4a.u32.s32 %d, %a, %b, %c;", [0x0403_0201, 0xff01_01ff, 10]), 10);
}

#[test]
fn carries_run_through_a_chain() {
    let low = "add.cc.u32 %x, %a, %b; addc.cc.u32 %y, %a, %b; addc.u32 %d, %c, 0;";
    assert_eq!(b32(low, [u32::MAX, 1, 5]), 6);
    assert_eq!(b32(low, [1, 1, 5]), 5);
    let borrow = "sub.cc.u32 %x, %a, %b; subc.u32 %d, %c, 0;";
    assert_eq!(b32(borrow, [1, 2, 5]), 4);
    assert_eq!(b32(borrow, [2, 2, 5]), 5);
    let mad = "mad.lo.cc.u32 %x, %a, %b, %c; madc.hi.u32 %d, %a, %b, 7;";
    assert_eq!(b32(mad, [u32::MAX, u32::MAX, u32::MAX]), 6);
}

#[test]
fn logic_works_bit_by_bit() {
    assert_eq!(b32("and.b32 %d, %a, %b;", [12, 10, 0]), 8);
    assert_eq!(b32("or.b32 %d, %a, %b;", [12, 10, 0]), 14);
    assert_eq!(b32("xor.b32 %d, %a, %b;", [12, 10, 0]), 6);
    assert_eq!(b32("not.b32 %d, %a;", [0, 0, 0]), u32::MAX);
    assert_eq!(b16("not.b16 %d, %a;", [1, 0, 0]), 0xfffe);
    assert_eq!(b32("cnot.b32 %d, %a;", [0, 0, 0]), 1);
    assert_eq!(b32("cnot.b32 %d, %a;", [9, 0, 0]), 0);
    // 0x96 is a ^ b ^ c, 0xca is a ? b : c, 0xe8 the majority.
    let (a, b, c) = (0xf0f0_1234, 0xcccc_5678, 0xaaaa_9abc);
    assert_eq!(b32("lop3.b32 %d, %a, %b, %c, 0x96;", [a, b, c]), a ^ b ^ c);
    assert_eq!(b32("lop3.b32 %d, %a, %b, %c, 0xca;", [a, b, c]), (a & b) | (!a & c));
    assert_eq!(b32("lop3.b32 %d, %a, %b, %c, 0xe8;", [a, b, c]), (a & b) | (a & c) | (b & c));
}

#[test]
fn shifts_clamp_beyond_the_width() {
    assert_eq!(b32("shl.b32 %d, %a, %b;", [1, 31, 0]), MIN);
    assert_eq!(b32("shl.b32 %d, %a, %b;", [1, 32, 0]), 0);
    assert_eq!(b32("shl.b32 %d, %a, %b;", [1, u32::MAX, 0]), 0);
    assert_eq!(b32("shr.u32 %d, %a, %b;", [MIN, 40, 0]), 0);
    assert_eq!(b32("shr.s32 %d, %a, %b;", [MIN, 40, 0]), u32::MAX);
    assert_eq!(b16("shr.s16 %d, %a, 20;", [0x8000, 0, 0]), 0xffff);
    assert_eq!(b16("shl.b16 %d, %a, 17;", [0xffff, 0, 0]), 0);
    assert_eq!(b64("shr.s64 %d, %a, 100;", [1 << 63, 0, 0]), u64::MAX);
    assert_eq!(b32("shf.l.wrap.b32 %d, %a, %b, %c;", [0x8000_0000, 1, 33]), 3);
    assert_eq!(b32("shf.l.clamp.b32 %d, %a, %b, %c;", [0x1234_5678, 1, 40]), 0x1234_5678);
    assert_eq!(b32("shf.r.wrap.b32 %d, %a, %b, %c;", [2, 1, 1]), MIN | 1);
    assert_eq!(b32("shf.r.clamp.b32 %d, %a, %b, %c;", [2, 7, 99]), 7);
}

#[test]
fn bits_are_counted_found_and_reversed() {
    assert_eq!(b32("popc.b32 %d, %a;", [0xf00f, 0, 0]), 8);
    assert_eq!(eval("popc.b64 %d, %a;", "b64", "b32", [u64::MAX, 0, 0]) as u32, 64);
    assert_eq!(b32("clz.b32 %d, %a;", [0, 0, 0]), 32);
    assert_eq!(b32("brev.b32 %d, %a;", [1, 0, 0]), MIN);
    assert_eq!(b32("bfind.u32 %d, %a;", [0, 0, 0]), u32::MAX);
    assert_eq!(b32("bfind.u32 %d, %a;", [0x100, 0, 0]), 8);
    assert_eq!(b32("bfind.shiftamt.u32 %d, %a;", [0x100, 0, 0]), 23);
    assert_eq!(b32("bfind.s32 %d, %a;", [!0x100, 0, 0]), 8);
    assert_eq!(b32("bfind.s32 %d, %a;", [u32::MAX, 0, 0]), u32::MAX);
}

#[test]
fn fields_are_taken_out_and_put_in() {
    assert_eq!(b32("bfe.u32 %d, %a, %b, %c;", [0xabcd_1234, 8, 8]), 0x12);
    assert_eq!(b32("bfe.s32 %d, %a, %b, %c;", [0x0000_f000, 12, 4]), u32::MAX);
    assert_eq!(b32("bfe.s32 %d, %a, %b, %c;", [0x8000_0000, 28, 32]), 0xffff_fff8);
    assert_eq!(b32("bfe.u32 %d, %a, %b, %c;", [u32::MAX, 4, 0]), 0);
    assert_eq!(b32("bfe.s32 %d, %a, %b, %c;", [MIN, 64, 4]), u32::MAX);
    assert_eq!(b32("bfi.b32 %d, %a, %b, 8, 4;", [0xff, 0, 0]), 0xf00);
    assert_eq!(b32("bfi.b32 %d, %a, %b, %c, 16;", [0xabcd, 0x1111_1111, 24]), 0xcd11_1111);
    assert_eq!(b32("bfi.b32 %d, %a, %b, 40, 4;", [0xff, 7, 0]), 7);
    assert_eq!(b32("bmsk.clamp.b32 %d, %a, %b;", [4, 8, 0]), 0xff0);
    assert_eq!(b32("szext.clamp.s32 %d, %a, %b;", [0xff, 8, 0]), u32::MAX);
    assert_eq!(b32("szext.clamp.u32 %d, %a, %b;", [0xfff, 8, 0]), 0xff);
}

#[test]
fn bytes_are_permuted() {
    let (a, b) = (0x4433_2211, 0x8877_6655);
    assert_eq!(b32("prmt.b32 %d, %a, %b, %c;", [a, b, 0x7531]), 0x8866_4422);
    assert_eq!(b32("prmt.b32 %d, %a, %b, 0x0123;", [a, b, 0]), 0x1122_3344);
    assert_eq!(b32("prmt.b32 %d, %a, %b, 0xf008;", [a, b, 0]), 0xff11_1100);
    assert_eq!(b32("prmt.b32.f4e %d, %a, %b, 1;", [a, b, 0]), 0x5544_3322);
    assert_eq!(b32("prmt.b32.rc16 %d, %a, %b, 1;", [a, b, 0]), 0x4433_4433);
}

#[test]
fn comparisons_know_signs_and_nan() {
    let t = |op: &str, a: u32, b: u32| {
        truth(&format!("{op} %p, %a, %b;"), "b32", [a.into(), b.into(), 0])
    };
    assert!(t("setp.lt.s32", u32::MAX, 0) && !t("setp.lt.u32", u32::MAX, 0));
    assert!(t("setp.hi.u32", u32::MAX, 0) && t("setp.ls.u32", 3, 3) && t("setp.ne.s32", 1, 2));
    let (one, two) = (1.0_f32.to_bits(), 2.0_f32.to_bits());
    for (name, less, equal, nan) in [
        ("eq", false, true, false),
        ("ne", true, false, false),
        ("lt", true, false, false),
        ("le", true, true, false),
        ("gt", false, false, false),
        ("ge", false, true, false),
        ("equ", false, true, true),
        ("neu", true, false, true),
        ("ltu", true, false, true),
        ("leu", true, true, true),
        ("gtu", false, false, true),
        ("geu", false, true, true),
        ("num", true, true, false),
        ("nan", false, false, true),
    ] {
        let op = format!("setp.{name}.f32");
        assert_eq!(t(&op, one, two), less, "{op} of 1 and 2");
        assert_eq!(t(&op, one, one), equal, "{op} of 1 and 1");
        assert_eq!(t(&op, one, NAN), nan, "{op} of 1 and NaN");
    }
    assert!(truth("setp.lt.f16 %p, %a, %b;", "b16", [0xc000, 0x3c00, 0]));
    assert!(truth("setp.eq.s32 %q, %a, %a; setp.lt.and.s32 %p|%q, %a, %b, %q;", "b32", [1, 2, 0]));
    assert!(!truth("setp.lt.s32 %q|%p, %a, %b;", "b32", [1, 2, 0]));
    assert!(truth("setp.ne.s32 %q, %a, %a; setp.lt.or.s32 %p, %a, %b, !%q;", "b32", [5, 2, 0]));
    assert_eq!(b32("set.lt.u32.s32 %d, %a, %b;", [1, 2, 0]), u32::MAX);
    assert_eq!(b32("set.lt.f32.s32 %d, %a, %b;", [1, 2, 0]), one);
    assert_eq!(b32("slct.b32.s32 %d, %a, %b, %c;", [7, 9, u32::MAX]), 9);
    assert_eq!(b32("slct.b32.f32 %d, %a, %b, %c;", [7, 9, 0x8000_0000]), 7);
    assert!(truth("testp.subnormal.f32 %p, %a;", "b32", [1, 0, 0]));
}

#[test]
fn a_guard_is_read_before_its_own_instruction_writes_it() {
    let body = "setp.eq.s32 %p, %a, %a; mov.pred %q, 0; @%p setp.ne.s32 %p|%q, %a, %a;
        selp.b32 %x, 1, 0, %p; selp.b32 %y, 2, 0, %q; add.u32 %d, %x, %y;";
    assert_eq!(b32(body, [1, 0, 0]), 2);
}

#[test]
fn moves_pack_and_unpack() {
    assert_eq!(
        b64("cvt.u32.u64 %x, %a; cvt.u32.u64 %y, %b; mov.b64 %d, {%x, %y};", [1, 2, 0]),
        2 << 32 | 1
    );
    assert_eq!(
        b32("mov.b32 {%h, %i}, %a; mov.b32 %d, {%i, %h};", [0x1234_5678, 0, 0]),
        0x5678_1234
    );
    assert_eq!(b64("mov.b64 {%x, %y}, %a; cvt.u64.u32 %d, %y;", [7 << 32, 0, 0]), 7);
    assert_eq!(b64("mov.b64 {_, %y}, %a; cvt.u64.u32 %d, %y;", [7 << 32, 0, 0]), 7);
    assert_eq!(f32s("mov.f32 %d, 1.5;", [0.0; 3]), 1.5);
    assert_eq!(f32s("add.f32 %d, %a, -0f3F800000;", [3.0, 0.0, 0.0]), 2.0);
    assert_eq!(f64s("mov.f64 %d, 0d4000000000000000;", [0.0; 3]), 2.0);
    assert_eq!(b32("mov.u32 %d, WARP_SZ;", [0; 3]), 32);
    assert_eq!(b32("mov.u32 %d, %lanemask_ge;", [0; 3]), u32::MAX);
}

#[test]
fn narrow_loads_extend_to_their_register() {
    let body = ".local .align 8 .b8 m[8]; st.local.b32 [m], %a; ld.local";
    assert_eq!(b32(&format!("{body}.s8 %d, [m];"), [0x80, 0, 0]), 0xffff_ff80);
    assert_eq!(b32(&format!("{body}.u8 %d, [m];"), [0x1ff, 0, 0]), 0xff);
    assert_eq!(b32(&format!("{body}.s16 %d, [m];"), [0x8000, 0, 0]), 0xffff_8000);
    assert_eq!(
        b32(&format!("{body}.v2.u16 {{%h, %i}}, [m]; cvt.u32.u16 %d, %i;"), [0xabcd_0000, 0, 0]),
        0xabcd
    );
}

#[test]
fn atomics_compute_what_they_say() {
    let atom = |op: &str, old: u32, b: u32, c: u32| {
        let text = format!(
            ".shared .align 4 .b32 cell[1]; st.shared.b32 [cell], %a; {op} ld.shared.b32 %d, [cell];"
        );
        b32(&text, [old, b, c])
    };
    assert_eq!(atom("atom.shared.add.u32 %x, [cell], %b;", 5, 6, 0), 11);
    assert_eq!(atom("atom.shared.inc.u32 %x, [cell], %b;", 5, 5, 0), 0);
    assert_eq!(atom("atom.shared.inc.u32 %x, [cell], %b;", 4, 5, 0), 5);
    assert_eq!(atom("atom.shared.dec.u32 %x, [cell], %b;", 0, 5, 0), 5);
    assert_eq!(atom("atom.shared.dec.u32 %x, [cell], %b;", 3, 5, 0), 2);
    assert_eq!(atom("atom.shared.min.s32 %x, [cell], %b;", 3, u32::MAX, 0), u32::MAX);
    assert_eq!(atom("atom.shared.max.u32 %x, [cell], %b;", 3, u32::MAX, 0), u32::MAX);
    assert_eq!(atom("atom.shared.cas.b32 %x, [cell], %b, %c;", 3, 3, 9), 9);
    assert_eq!(atom("atom.shared.cas.b32 %x, [cell], %b, %c;", 3, 4, 9), 3);
    assert_eq!(atom("atom.shared.exch.b32 %x, [cell], %b;", 3, 4, 0), 4);
    assert_eq!(atom("red.shared.xor.b32 [cell], %b;", 12, 10, 0), 6);
    assert_eq!(
        atom("red.shared.add.noftz.f16x2 [cell], %b;", 0x3c00_3c00, 0x3c00_4000, 0),
        0x4000_4200
    );
    assert_eq!(
        atom(
            "mov.b32 {%h, %i}, %b; atom.shared.cas.b16 %h, [cell+2], %i, %h;",
            0x0007_1111,
            0x0007_2222,
            0
        ),
        0x2222_1111
    );
}

#[test]
fn integers_convert_by_cutting_extending_or_saturating() {
    assert_eq!(
        eval("cvt.s64.s32 %d, %a;", "b32", "b64", [0x8000_0000, 0, 0]),
        0xffff_ffff_8000_0000
    );
    assert_eq!(eval("cvt.u64.u32 %d, %a;", "b32", "b64", [0x8000_0000, 0, 0]), 0x8000_0000);
    assert_eq!(b32("cvt.u16.u32 %h, %a; cvt.u32.u16 %d, %h;", [0x12345, 0, 0]), 0x2345);
    assert_eq!(b32("cvt.s8.s32 %d, %a;", [0x180, 0, 0]), 0xffff_ff80);
    assert_eq!(b32("cvt.u8.u32 %d, %a;", [0x180, 0, 0]), 0x80);
    assert_eq!(b32("cvt.sat.s8.s32 %d, %a;", [1000, 0, 0]), 127);
    assert_eq!(b32("cvt.sat.u8.s32 %d, %a;", [-5_i32 as u32, 0, 0]), 0);
    assert_eq!(b32("cvt.sat.u32.s32 %d, %a;", [-5_i32 as u32, 0, 0]), 0);
}
