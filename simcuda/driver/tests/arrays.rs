//! Arrays and mipmapped arrays: what they cost, what they hold, and how they end.

mod api;

use api::{
    Copy3d, INVALID_HANDLE, INVALID_VALUE, MIB, Needs, OUT_OF_MEMORY, Shape, Side3d, Turn, turn,
};

const BYTE: u32 = 0x01;
const FLOAT: u32 = 0x20;
const LAYERED: u32 = 0x01;
const DEFERRED: u32 = 0x80;
const HOST: u32 = 1;
const ARRAY: u32 = 3;

/// 4 MiB.
const SQUARE: Shape = Shape { sides: [1024, 1024, 0], format: FLOAT, channels: 1, flags: 0 };
/// 4 slices of 3 rows of 5 bytes.
const BLOCK: Shape = Shape { sides: [5, 3, 4], format: BYTE, channels: 1, flags: 0 };

fn make(turn: &Turn, shape: &Shape) -> usize {
    let mut array = 0;
    assert_eq!(turn.driver.cuArray3DCreate_v2(&mut array, shape), 0, "{shape:?}");
    array
}

fn mipmap(turn: &Turn, shape: &Shape, levels: u32) -> usize {
    let mut mipmap = 0;
    assert_eq!(turn.driver.cuMipmappedArrayCreate(&mut mipmap, shape, levels), 0, "{shape:?}");
    mipmap
}

fn level(turn: &Turn, mipmap: usize, n: u32) -> usize {
    let mut array = 0;
    assert_eq!(turn.driver.cuMipmappedArrayGetLevel(&mut array, mipmap, n), 0);
    array
}

fn needs(turn: &Turn, array: usize) -> Result<u64, u32> {
    let mut needs = Needs::default();
    match turn.driver.cuArrayGetMemoryRequirements(&mut needs, array, 0) {
        0 => Ok(needs.bytes),
        code => Err(code),
    }
}

#[test]
fn an_array_takes_its_rows_and_gives_them_back_once() {
    let turn = turn();
    let before = turn.free_bytes();
    let array = make(&turn, &SQUARE);
    assert_eq!(turn.free_bytes(), before - 4 * MIB);
    let mut seen = Shape::default();
    assert_eq!(turn.driver.cuArray3DGetDescriptor_v2(&mut seen, array), 0);
    assert_eq!(seen, SQUARE);
    assert_eq!(turn.driver.cuArrayDestroy(array), 0);
    assert_eq!(turn.free_bytes(), before);
    assert_eq!(turn.driver.cuArrayDestroy(array), INVALID_HANDLE);
    assert_eq!(turn.driver.cuArray3DGetDescriptor_v2(&mut seen, array), INVALID_HANDLE);
}

#[test]
fn shapes_that_no_card_has_are_refused_and_take_nothing() {
    let turn = turn();
    let before = turn.free_bytes();
    let mut array = 0;
    let wrong = [
        Shape { sides: [0, 8, 0], ..SQUARE },
        Shape { sides: [u64::MAX, u64::MAX, 0], ..SQUARE },
        Shape { format: 0x77, ..SQUARE },
        Shape { channels: 3, ..SQUARE },
    ];
    for shape in wrong {
        assert_eq!(turn.driver.cuArray3DCreate_v2(&mut array, &shape), INVALID_VALUE, "{shape:?}");
        assert_eq!(turn.driver.cuMipmappedArrayCreate(&mut array, &shape, 2), INVALID_VALUE);
    }
    let largest = Shape { sides: [131_072; 3], channels: 4, ..SQUARE };
    assert_eq!(turn.driver.cuArray3DCreate_v2(&mut array, &largest), OUT_OF_MEMORY);
    assert_eq!(turn.driver.cuMipmappedArrayCreate(&mut array, &largest, 9), OUT_OF_MEMORY);
    assert_eq!(turn.free_bytes(), before);
}

#[test]
fn an_array_without_memory_costs_nothing_and_says_what_it_would() {
    let turn = turn();
    let before = turn.free_bytes();
    let bare = make(&turn, &Shape { flags: DEFERRED, ..SQUARE });
    assert_eq!(turn.free_bytes(), before);
    assert_eq!(needs(&turn, bare), Ok(4 * MIB));
    assert_eq!(turn.driver.cuMemcpyHtoA_v2(bare, 0, [0; 4].as_ptr(), 4), INVALID_VALUE);
    assert_eq!(turn.driver.cuArrayDestroy(bare), 0);
    assert_eq!(needs(&turn, bare), Err(INVALID_VALUE));

    let full = make(&turn, &SQUARE);
    assert_eq!(needs(&turn, full), Err(INVALID_VALUE), "one that has memory does not say");
    assert_eq!(turn.driver.cuArrayDestroy(full), 0);

    let bare = mipmap(&turn, &Shape { flags: DEFERRED, ..SQUARE }, 2);
    let mut said = Needs::default();
    assert_eq!(turn.driver.cuMipmappedArrayGetMemoryRequirements(&mut said, bare, 0), 0);
    assert_eq!(said.bytes, 6 * MIB, "5 MiB in whole blocks");
    assert_eq!(turn.driver.cuMipmappedArrayDestroy(bare), 0);
    assert_eq!(turn.free_bytes(), before);
}

#[test]
fn the_levels_of_a_mipmapped_array_halve_and_end_with_it() {
    let turn = turn();
    let before = turn.free_bytes();
    let shape = Shape { sides: [1024, 512, 8], flags: LAYERED, ..SQUARE };
    let whole = mipmap(&turn, &shape, 99);
    assert!(turn.free_bytes() <= before - 20 * MIB);
    let mut seen = Shape::default();
    for (n, sides) in [(0, [1024, 512, 8]), (1, [512, 256, 8]), (10, [1, 1, 8])] {
        let array = level(&turn, whole, n);
        assert_eq!(turn.driver.cuArray3DGetDescriptor_v2(&mut seen, array), 0);
        assert_eq!(seen.sides, sides, "level {n}");
    }
    let mut none = 0;
    assert_eq!(turn.driver.cuMipmappedArrayGetLevel(&mut none, whole, 11), INVALID_VALUE);

    let (first, second) = (level(&turn, whole, 0), level(&turn, whole, 1));
    let mut seen = [0; 8];
    assert_eq!(turn.driver.cuMemcpyHtoA_v2(second, 8, b"level 1.".as_ptr(), 8), 0);
    assert_eq!(turn.driver.cuMemcpyAtoA_v2(first, 16, second, 8, 8), 0);
    assert_eq!(turn.driver.cuMemcpyAtoH_v2(seen.as_mut_ptr(), first, 16, 8), 0);
    assert_eq!(&seen, b"level 1.");
    assert_eq!(turn.driver.cuArrayDestroy(first), INVALID_HANDLE, "a level is not freed alone");

    assert_eq!(turn.driver.cuMipmappedArrayDestroy(whole), 0);
    assert_eq!(turn.free_bytes(), before);
    assert_eq!(turn.driver.cuMipmappedArrayDestroy(whole), INVALID_HANDLE);
    let read = turn.driver.cuMemcpyAtoH_v2(seen.as_mut_ptr(), first, 16, 8);
    assert_eq!(read, INVALID_HANDLE, "the level went with the whole");
}

#[test]
fn a_block_goes_into_an_array_and_comes_out_elsewhere() {
    let turn = turn();
    let array = make(&turn, &BLOCK);
    let whole: Vec<u8> = (0..60).collect();
    let at_host = |bytes: *const u8| Side3d { kind: HOST, host: bytes.addr(), ..Side3d::default() };
    let of_array = Side3d { kind: ARRAY, array, ..Side3d::default() };
    let source = at_host(whole.as_ptr());
    whole.as_ptr().expose_provenance();
    let fill = Copy3d { source, target: of_array, extent: [5, 3, 4] };
    assert_eq!(turn.driver.cuMemcpy3D_v2(&fill), 0);

    // Two slices of two rows of three bytes, into slices of three rows of four bytes.
    let mut part = [0xff_u8; 24];
    part.as_mut_ptr().expose_provenance();
    let take = Copy3d {
        source: Side3d { from: [1, 1, 2, 0], ..of_array },
        target: Side3d { pitch: 4, height: 3, ..at_host(part.as_ptr()) },
        extent: [3, 2, 2],
    };
    assert_eq!(turn.driver.cuMemcpy3D_v2(&take), 0);
    let f = 0xff;
    #[rustfmt::skip]
    let expected = [
        36, 37, 38, f,  41, 42, 43, f,  f, f, f, f,
        51, 52, 53, f,  56, 57, 58, f,  f, f, f, f,
    ];
    assert_eq!(part, expected);

    let past = [[3, 0, 0, 0], [0, 2, 0, 0], [0, 0, 3, 0], [0, u64::MAX, 0, 0], [0, 0, 0, 1]];
    for from in past {
        let copy = Copy3d { source: Side3d { from, ..of_array }, ..take };
        assert_eq!(turn.driver.cuMemcpy3D_v2(&copy), INVALID_VALUE, "{from:?}");
    }
    assert_eq!(turn.driver.cuArrayDestroy(array), 0);
}

#[test]
fn arrays_end_with_their_context() {
    let turn = turn();
    let before = turn.free_bytes();
    let array = make(&turn, &SQUARE);
    let whole = mipmap(&turn, &SQUARE, 3);
    assert!(turn.free_bytes() < before - 8 * MIB);
    assert_eq!(turn.driver.cuDevicePrimaryCtxReset_v2(0), 0);
    let mut context = 0;
    assert_eq!(turn.driver.cuDevicePrimaryCtxRetain(&mut context, 0), 0);
    assert_eq!(turn.driver.cuCtxSetCurrent(context), 0);
    assert_eq!(turn.free_bytes(), before);
    assert_eq!(turn.driver.cuArrayDestroy(array), INVALID_HANDLE);
    assert_eq!(turn.driver.cuMipmappedArrayDestroy(whole), INVALID_HANDLE);
}
