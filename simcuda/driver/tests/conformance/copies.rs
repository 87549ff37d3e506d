//! Rules: copies and fills of linear memory.

use crate::api::{Copy3d, MIB, Side3d, Turn};
use crate::call::{NULL, code, fails, ok};
use crate::rule::rules;

/// `CUDA_MEMCPY2D`: two sides of seven words, then width and height.
#[derive(Clone, Copy)]
struct Flat2d {
    words: [u64; 16],
}

/// A device side that begins at a byte of a row.
fn side2d(at: u64, pitch: u64, x: u64, y: u64) -> [u64; 7] {
    [x, y, 2, 0, at, 0, pitch]
}

fn copy2d(from: [u64; 7], to: [u64; 7], width: u64, height: u64) -> Flat2d {
    let mut words = [0; 16];
    words[..7].copy_from_slice(&from);
    words[7..14].copy_from_slice(&to);
    words[14..].copy_from_slice(&[width, height]);
    Flat2d { words }
}

/// The waiting forms of a copy, and those that a stream is given; both with their twins.
fn forms(waiting: &str, later: &str) -> [(String, bool); 4] {
    [
        (waiting.to_owned(), true),
        (format!("{waiting}_ptds"), true),
        (later.to_owned(), false),
        (format!("{later}_ptsz"), false),
    ]
}

fn settle(turn: &Turn) {
    assert_eq!(turn.driver.cuCtxSynchronize(), 0);
}

/// Runs a fill by both of its names and their twins, and says what 12 bytes at `at` are then.
fn filled(turn: &Turn, base: &str, old: &str, at: u64, words: &[u64]) -> Vec<Vec<u8>> {
    let names = forms(&format!("{base}{old}"), &format!("{base}Async"));
    let run = |(name, waits): (String, bool)| {
        turn.write(at, &[0; 64]);
        let stream = turn.stream();
        let mut words = words.to_vec();
        if !waits {
            words.push(stream as u64);
        }
        assert_eq!(crate::call::invoke(&name, &words), 0, "{name}");
        settle(turn);
        turn.read(at, 12)
    };
    names.into_iter().map(run).collect()
}

rules! {
    /// cuda.h, cuMemcpyHtoD, cuMemcpyDtoH, cuMemcpyDtoD: copies ByteCount bytes from source to
    /// destination; the forms with a stream are asynchronous, in the stream's order.
    fn bytes_arrive_whichever_call_carries_them(turn) covers [
        cuMemcpyHtoD_v2, cuMemcpyHtoD_v2_ptds, cuMemcpyHtoDAsync_v2, cuMemcpyHtoDAsync_v2_ptsz,
        cuMemcpyDtoD_v2, cuMemcpyDtoD_v2_ptds, cuMemcpyDtoDAsync_v2, cuMemcpyDtoDAsync_v2_ptsz,
        cuMemcpyDtoH_v2, cuMemcpyDtoH_v2_ptds, cuMemcpyDtoHAsync_v2, cuMemcpyDtoHAsync_v2_ptsz,
        cuMemcpy, cuMemcpy_ptds, cuMemcpyAsync, cuMemcpyAsync_ptsz
    ] {
        let (a, b, stream) = (turn.allocate(MIB), turn.allocate(MIB), turn.stream());
        for (round, waits) in [true, true, false, false].into_iter().enumerate() {
            let name = |base: &str, plain: bool| {
                let names = match plain {
                    true => forms(base, &format!("{base}Async")),
                    false => forms(&format!("{base}_v2"), &format!("{base}Async_v2")),
                };
                names[round].0.clone()
            };
            let sent: Vec<u8> = (0..200).map(|n| n + round as u8).collect();
            let mut seen = vec![0_u8; 200];
            let last: &[u64] = if waits { &[] } else { &[stream as u64] };
            let run = |name: &str, words: [u64; 3]| {
                let words: Vec<u64> = words.into_iter().chain(last.iter().copied()).collect();
                assert_eq!(crate::call::invoke(name, &words), 0, "{name}");
            };
            run(&name("cuMemcpyHtoD", false), [a, sent.as_ptr() as u64, 200]);
            run(&name("cuMemcpyDtoD", false), [b, a, 200]);
            run(&name("cuMemcpy", true), [a + 512, b, 200]);
            run(&name("cuMemcpyDtoH", false), [seen.as_mut_ptr() as u64, a + 512, 200]);
            settle(turn);
            assert_eq!(seen, sent);
        }
        fails!(1, "cuMemcpyHtoD_v2", NULL, &[0_u8; 4], 4_u64);
        fails!(1, "cuMemcpyDtoH_v2", NULL, a, 4_u64);
        fails!(1, "cuMemcpyDtoD_v2", a, b, 2 * MIB);
        fails!(400, "cuMemcpyDtoDAsync_v2", a, b, 4_u64, 0xDEAD_u64);
    }

    /// cuda.h, cuMemcpyPeer: copies from device memory in one context to device memory in another;
    /// the contexts may be of two devices.
    fn bytes_arrive_on_the_other_card(turn) covers [
        cuMemcpyPeer, cuMemcpyPeer_ptds, cuMemcpyPeerAsync, cuMemcpyPeerAsync_ptsz
    ] {
        let (mut other, mut there) = (0_usize, 0_u64);
        ok!("cuDevicePrimaryCtxRetain", &mut other, 1_u32);
        ok!("cuCtxSetCurrent", other);
        ok!("cuMemAlloc_v2", &mut there, MIB);
        ok!("cuCtxSetCurrent", turn.context);
        let (here, stream) = (turn.allocate(MIB), turn.stream());
        for (round, (name, waits)) in forms("cuMemcpyPeer", "cuMemcpyPeerAsync").into_iter().enumerate() {
            turn.write(here, &[round as u8 + 1; 16]);
            if waits {
                ok!(&name, there, other, here, turn.context, 16_u64);
                ok!(&name, here + 64, turn.context, there, other, 16_u64);
            } else {
                ok!(&name, there, other, here, turn.context, 16_u64, stream);
                ok!(&name, here + 64, turn.context, there, other, 16_u64, stream);
            }
            settle(turn);
            assert_eq!(turn.read(here + 64, 16), [round as u8 + 1; 16]);
        }
        fails!(201, "cuMemcpyPeer", there, 0xDEAD_u64, here, turn.context, 16_u64);
        ok!("cuDevicePrimaryCtxRelease_v2", 1_u32);
    }

    /// cuda.h, CUDA_MEMCPY2D: rows of WidthInBytes, each a pitch after the other, Height of them.
    fn a_rectangle_is_copied_and_nothing_beside_it(turn) covers [
        cuMemcpy2D_v2, cuMemcpy2D_v2_ptds, cuMemcpy2DUnaligned_v2, cuMemcpy2DUnaligned_v2_ptds,
        cuMemcpy2DAsync_v2, cuMemcpy2DAsync_v2_ptsz
    ] {
        let (a, b, stream) = (turn.allocate(MIB), turn.allocate(MIB), turn.stream());
        let mut names = forms("cuMemcpy2D_v2", "cuMemcpy2DAsync_v2").to_vec();
        names.extend(forms("cuMemcpy2DUnaligned_v2", "")[..2].iter().cloned());
        let sent: Vec<u8> = (0..64).collect();
        turn.write(a, &sent);
        for (name, waits) in names {
            turn.write(b, &[0; 64]);
            // Two rows of four bytes out of rows of 16, from byte 4 of row 1.
            let copy = copy2d(side2d(a, 16, 4, 1), side2d(b, 8, 0, 1), 4, 2);
            if waits {
                ok!(&name, &copy.words);
            } else {
                ok!(&name, &copy.words, stream);
            }
            settle(turn);
            let want = [[0; 8], [20, 21, 22, 23, 0, 0, 0, 0], [36, 37, 38, 39, 0, 0, 0, 0]];
            assert_eq!(turn.read(b, 24), want.concat(), "{name}");
        }
        let narrow = copy2d(side2d(a, 2, 0, 0), side2d(b, 8, 0, 0), 4, 2);
        fails!(1, "cuMemcpy2D_v2", &narrow.words);
        fails!(1, "cuMemcpy2D_v2", NULL);
    }

    /// cuda.h, CUDA_MEMCPY3D: slices of Height rows, each a pitch times a height after the other;
    /// cuMemcpy3DPeer: the same, each side in a context of its own.
    fn a_box_is_copied_and_nothing_beside_it(turn) covers [
        cuMemcpy3D_v2, cuMemcpy3D_v2_ptds, cuMemcpy3DAsync_v2, cuMemcpy3DAsync_v2_ptsz,
        cuMemcpy3DPeer, cuMemcpy3DPeer_ptds, cuMemcpy3DPeerAsync, cuMemcpy3DPeerAsync_ptsz
    ] {
        let (a, b, stream) = (turn.allocate(MIB), turn.allocate(MIB), turn.stream());
        turn.write(a, &(0..64).collect::<Vec<u8>>());
        for peer in [false, true] {
            let names = match peer {
                false => forms("cuMemcpy3D_v2", "cuMemcpy3DAsync_v2"),
                true => forms("cuMemcpy3DPeer", "cuMemcpy3DPeerAsync"),
            };
            for (name, waits) in names {
                turn.write(b, &[0; 64]);
                let side = |device, pitch, height, from| Side3d {
                    from, kind: 2, device, pitch, height,
                    reserved: if peer { turn.context } else { 0 },
                    ..Side3d::default()
                };
                let copy = Copy3d {
                    // Rows of 8 bytes, 4 of them to a slice: byte 2 of row 1 of slice 0 on.
                    source: side(a, 8, 4, [2, 1, 0, 0]),
                    target: side(b, 2, 1, [0, 0, 0, 0]),
                    extent: [2, 1, 2],
                };
                if waits { ok!(&name, &copy) } else { ok!(&name, &copy, stream) }
                settle(turn);
                assert_eq!(turn.read(b, 6), [10, 11, 42, 43, 0, 0], "{name}");
            }
        }
        fails!(1, "cuMemcpy3D_v2", NULL);
    }

    /// cuda.h, cuMemsetD8, D16, D32: sets N values of 8, 16, 32 bits; the address is aligned to
    /// the value's size.
    fn fills_set_as_many_values_as_they_say(turn) covers [
        cuMemsetD8_v2, cuMemsetD8_v2_ptds, cuMemsetD8Async, cuMemsetD8Async_ptsz,
        cuMemsetD16_v2, cuMemsetD16_v2_ptds, cuMemsetD16Async, cuMemsetD16Async_ptsz,
        cuMemsetD32_v2, cuMemsetD32_v2_ptds, cuMemsetD32Async, cuMemsetD32Async_ptsz
    ] {
        let at = turn.allocate(MIB);
        for seen in filled(turn, "cuMemsetD8", "_v2", at, &[at, 7, 3]) {
            assert_eq!(seen, [7, 7, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        }
        for seen in filled(turn, "cuMemsetD16", "_v2", at, &[at, 0x0201, 2]) {
            assert_eq!(seen, [1, 2, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0]);
        }
        for seen in filled(turn, "cuMemsetD32", "_v2", at, &[at, 0x0403_0201, 2]) {
            assert_eq!(seen, [1, 2, 3, 4, 1, 2, 3, 4, 0, 0, 0, 0]);
        }
        fails!(1, "cuMemsetD32_v2", at + 2, 0_u32, 1_u64);
        fails!(1, "cuMemsetD16_v2", at + 1, 0_u32, 1_u64);
        fails!(1, "cuMemsetD8_v2", at, 0_u32, 2 * MIB);
    }

    /// cuda.h, cuMemsetD2D8, D2D16, D2D32: Width values in each of Height rows, a pitch apart.
    fn fills_of_rows_leave_what_lies_between(turn) covers [
        cuMemsetD2D8_v2, cuMemsetD2D8_v2_ptds, cuMemsetD2D8Async, cuMemsetD2D8Async_ptsz,
        cuMemsetD2D16_v2, cuMemsetD2D16_v2_ptds, cuMemsetD2D16Async, cuMemsetD2D16Async_ptsz,
        cuMemsetD2D32_v2, cuMemsetD2D32_v2_ptds, cuMemsetD2D32Async, cuMemsetD2D32Async_ptsz
    ] {
        let at = turn.allocate(MIB);
        for seen in filled(turn, "cuMemsetD2D8", "_v2", at, &[at, 4, 9, 2, 2]) {
            assert_eq!(seen, [9, 9, 0, 0, 9, 9, 0, 0, 0, 0, 0, 0]);
        }
        for seen in filled(turn, "cuMemsetD2D16", "_v2", at, &[at, 6, 0x0201, 1, 2]) {
            assert_eq!(seen, [1, 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0]);
        }
        for seen in filled(turn, "cuMemsetD2D32", "_v2", at, &[at, 8, 0x0403_0201, 1, 2]) {
            assert_eq!(seen, [1, 2, 3, 4, 0, 0, 0, 0, 1, 2, 3, 4]);
        }
        fails!(1, "cuMemsetD2D32_v2", at, 6_u64, 0_u32, 1_u64, 2_u64);
    }

    /// cuda.h, cuMemcpyBatchAsync: all copies or, if one is invalid, none, and failIdx says which;
    /// attrsIdxs[0] is 0; the stream must not be the legacy one.
    fn a_batch_of_copies_arrives_or_none_of_it(turn) covers [
        cuMemcpyBatchAsync, cuMemcpyBatchAsync_ptsz, cuMemcpyBatchAsync_v2,
        cuMemcpyBatchAsync_v2_ptsz, cuMemcpyWithAttributesAsync, cuMemcpyWithAttributesAsync_ptsz
    ] {
        let (a, b, stream) = (turn.allocate(MIB), turn.allocate(MIB), turn.stream());
        turn.write(a, &[5; 64]);
        // Order of access, two places, flags.
        let attributes = [1_u32, 0, 0, 0, 0, 0];
        for (form, with_index) in [("", true), ("_ptsz", true), ("_v2", false), ("_v2_ptsz", false)] {
            let name = format!("cuMemcpyBatchAsync{form}");
            let run = |to: [u64; 2], failed: &mut u64, at: usize| {
                let (from, sizes, first) = ([a, a + 8], [4_u64, 8], [0_u64]);
                if with_index {
                    code!(&name, &to, &from, &sizes, 2_u64, &attributes, &first, 1_u64, failed, at)
                } else {
                    code!(&name, &to, &from, &sizes, 2_u64, &attributes, &first, 1_u64, at)
                }
            };
            let mut failed = 77;
            turn.write(b, &[0; 32]);
            assert_eq!(run([b, b + MIB - 4], &mut failed, stream), 1, "{name}");
            settle(turn);
            assert_eq!(turn.read(b, 4), [0; 4]);
            assert!(!with_index || failed == 1);
            assert_eq!(run([b, b + 16], &mut failed, stream), 0, "{name}");
            settle(turn);
            assert_eq!(turn.read(b, 24), [[5, 5, 5, 5, 0, 0, 0, 0], [0; 8], [5; 8]].concat());
            assert_eq!(run([b, b + 16], &mut failed, 1), 1, "{name}");
        }
        for form in ["", "_ptsz"] {
            let name = format!("cuMemcpyWithAttributesAsync{form}");
            turn.write(b, &[0; 8]);
            ok!(&name, b, a, 4_u64, &attributes, stream);
            settle(turn);
            assert_eq!(turn.read(b, 8), [5, 5, 5, 5, 0, 0, 0, 0]);
            fails!(1, &name, b, a, 4_u64, &[9_u32, 0, 0, 0, 0, 0], stream);
        }
    }

    /// cuda.h, CUDA_MEMCPY3D_BATCH_OP: operands with rows of rowLength and layers of layerHeight,
    /// of an extent in elements; a pointer's elements are bytes.
    fn a_batch_of_boxes_arrives(turn) covers [
        cuMemcpy3DBatchAsync, cuMemcpy3DBatchAsync_ptsz, cuMemcpy3DBatchAsync_v2,
        cuMemcpy3DBatchAsync_v2_ptsz, cuMemcpy3DWithAttributesAsync,
        cuMemcpy3DWithAttributesAsync_ptsz
    ] {
        let (a, b, stream) = (turn.allocate(MIB), turn.allocate(MIB), turn.stream());
        turn.write(a, &(0..64).collect::<Vec<u8>>());
        // Kind 1, address, row length, layer height, hint; twice; extent; order and flags.
        let op = |to: u64| -> [u64; 14] { [1, a, 8, 4, 0, 1, to, 2, 0, 0, 2, 2, 1, 1] };
        for (form, with_index) in [("", true), ("_ptsz", true), ("_v2", false), ("_v2_ptsz", false)] {
            let name = format!("cuMemcpy3DBatchAsync{form}");
            let ops = [op(b), op(b + 8)];
            let mut failed = 0_u64;
            turn.write(b, &[0; 32]);
            if with_index {
                ok!(&name, 2_u64, &ops, &mut failed, 0_u64, stream);
                fails!(1, &name, 2_u64, &[op(b), op(NULL)], &mut failed, 0_u64, stream);
                assert_eq!(failed, 1);
            } else {
                ok!(&name, 2_u64, &ops, 0_u64, stream);
                fails!(1, &name, 2_u64, &[op(b), op(NULL)], 0_u64, stream);
            }
            settle(turn);
            assert_eq!(turn.read(b, 12), [0, 1, 8, 9, 0, 0, 0, 0, 0, 1, 8, 9], "{name}");
        }
        for form in ["", "_ptsz"] {
            let name = format!("cuMemcpy3DWithAttributesAsync{form}");
            turn.write(b, &[0; 32]);
            ok!(&name, &op(b), 0_u64, stream);
            settle(turn);
            assert_eq!(turn.read(b, 5), [0, 1, 8, 9, 0]);
        }
    }
}
