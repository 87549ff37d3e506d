//! Rules: arrays.

use crate::api::{MIB, Shape, Turn};
use crate::call::{NULL, code, fails, ok};
use crate::rule::rules;

/// 64 by 4 bytes.
const SHAPE: Shape = Shape { sides: [64, 4, 0], format: 1, channels: 1, flags: 0 };

fn array() -> usize {
    let mut array = 0_usize;
    ok!("cuArray3DCreate_v2", &mut array, &SHAPE);
    array
}

fn settle(turn: &Turn) {
    assert_eq!(turn.driver.cuCtxSynchronize(), 0);
}

rules! {
    /// cuda.h, cuArrayCreate, cuArray3DCreate: an array of the described size and format in device
    /// memory; a width of 0 is CUDA_ERROR_INVALID_VALUE; cuArrayDestroy frees it.
    fn an_array_is_what_was_described_and_costs_memory(turn) covers [
        cuArrayCreate, cuArrayCreate_v2, cuArray3DCreate, cuArray3DCreate_v2, cuArrayDestroy
    ] {
        let before = turn.free_bytes();
        for (name, wide, deep) in [
            ("cuArrayCreate", false, false), ("cuArrayCreate_v2", true, false),
            ("cuArray3DCreate", false, true), ("cuArray3DCreate_v2", true, true),
        ] {
            let mut array = 0_usize;
            // 4096 by 4096 bytes: 16 MiB.
            match (wide, deep) {
                (false, false) => ok!(name, &mut array, &[4096_u32, 4096, 1, 1]),
                (true, false) => ok!(name, &mut array, &[4096_u64, 4096, 1 | 1 << 32]),
                (false, true) => ok!(name, &mut array, &[4096_u32, 4096, 0, 1, 1, 0]),
                (true, true) => ok!(name, &mut array, &[4096_u64, 4096, 0, 1 | 1 << 32, 0]),
            }
            assert_eq!(turn.free_bytes(), before - 16 * MIB, "{name}");
            let mut seen = Shape::default();
            ok!("cuArray3DGetDescriptor_v2", &mut seen, array);
            assert_eq!((seen.sides[0], seen.sides[1], seen.format), (4096, 4096, 1));
            ok!("cuArrayDestroy", array);
            fails!(400, "cuArrayDestroy", array);
            assert_eq!(turn.free_bytes(), before);
        }
        let mut array = 0_usize;
        fails!(1, "cuArray3DCreate_v2", &mut array, &[0_u64, 4, 0, 1 | 1 << 32, 0]);
        fails!(1, "cuArrayCreate_v2", NULL, &[4_u64, 4, 1 | 1 << 32]);
    }

    /// cuda.h, cuMipmappedArrayCreate: levels of half the sides of the one before.
    fn a_mipmap_has_levels_that_halve(_turn) covers [cuMipmappedArrayCreate, cuMipmappedArrayDestroy] {
        let (mut mipmap, mut level) = (0_usize, 0_usize);
        ok!("cuMipmappedArrayCreate", &mut mipmap, &SHAPE, 3_u32);
        ok!("cuMipmappedArrayGetLevel", &mut level, mipmap, 1_u32);
        let mut seen = Shape::default();
        ok!("cuArray3DGetDescriptor_v2", &mut seen, level);
        assert_eq!(seen.sides, [32, 2, 0]);
        fails!(400, "cuArrayDestroy", level);
        ok!("cuMipmappedArrayDestroy", mipmap);
        fails!(400, "cuMipmappedArrayDestroy", mipmap);
        fails!(400, "cuArrayDestroy", level);
        fails!(1, "cuMipmappedArrayCreate", NULL, &SHAPE, 3_u32);
    }

    /// cuda.h, cuMemcpyHtoA, cuMemcpyAtoH, cuMemcpyAtoA, cuMemcpyDtoA, cuMemcpyAtoD: offset and
    /// count in bytes of a 1D array or of an array's first row.
    fn bytes_go_through_arrays(turn) covers [
        cuMemcpyHtoA, cuMemcpyHtoA_v2, cuMemcpyHtoA_v2_ptds, cuMemcpyHtoAAsync,
        cuMemcpyHtoAAsync_v2, cuMemcpyHtoAAsync_v2_ptsz, cuMemcpyAtoH, cuMemcpyAtoH_v2,
        cuMemcpyAtoH_v2_ptds, cuMemcpyAtoHAsync, cuMemcpyAtoHAsync_v2, cuMemcpyAtoHAsync_v2_ptsz,
        cuMemcpyAtoA, cuMemcpyAtoA_v2, cuMemcpyAtoA_v2_ptds, cuMemcpyDtoA_v2, cuMemcpyDtoA_v2_ptds,
        cuMemcpyAtoD_v2, cuMemcpyAtoD_v2_ptds
    ] {
        let (a, b, memory, stream) = (array(), array(), turn.allocate(MIB), turn.stream());
        for (round, form) in ["", "_v2", "_v2_ptds", "Async", "Async_v2", "Async_v2_ptsz"].iter().enumerate() {
            let sent = [round as u8 + 1; 8];
            let mut seen = [0_u8; 8];
            let (into, out) = (format!("cuMemcpyHtoA{form}"), format!("cuMemcpyAtoH{form}"));
            let between = format!("cuMemcpyAtoA{}", form.replace("Async", "").replace("ptsz", "ptds"));
            if form.starts_with("Async") {
                ok!(&into, a, 4_u64, &sent, 8_u64, stream);
                settle(turn);
                ok!(&between, b, 16_u64, a, 4_u64, 8_u64);
                ok!(&out, &mut seen, b, 16_u64, 8_u64, stream);
            } else {
                ok!(&into, a, 4_u64, &sent, 8_u64);
                ok!(&between, b, 16_u64, a, 4_u64, 8_u64);
                ok!(&out, &mut seen, b, 16_u64, 8_u64);
            }
            settle(turn);
            assert_eq!(seen, sent, "{form}");
            fails!(400, &out, &mut seen, 0xDEAD_u64, 0_u64, 8_u64, stream);
        }
        for form in ["_v2", "_v2_ptds"] {
            turn.write(memory, &[9; 8]);
            ok!(&format!("cuMemcpyDtoA{form}"), a, 0_u64, memory, 8_u64);
            ok!(&format!("cuMemcpyAtoD{form}"), memory + 64, a, 0_u64, 8_u64);
            assert_eq!(turn.read(memory + 64, 8), [9; 8]);
            fails!(1, &format!("cuMemcpyDtoA{form}"), a, 60_u64, memory, 8_u64);
        }
    }
}
