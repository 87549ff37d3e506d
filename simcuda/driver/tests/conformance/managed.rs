//! Rules: managed memory, advice and prefetches.

use crate::api::MIB;
use crate::call::{NULL, code, fails, ok};
use crate::rule::rules;

fn managed() -> u64 {
    let mut at = 0_u64;
    ok!("cuMemAllocManaged", &mut at, 4 * MIB, 1_u32);
    at
}

/// A location in a register: kind, then number.
fn place(kind: u64, id: u64) -> u64 {
    kind | id << 32
}

fn number_of(at: u64, attribute: u32) -> i32 {
    let mut value = 0_i32;
    ok!("cuMemRangeGetAttribute", &mut value, 4_u64, attribute, at, MIB);
    value
}

rules! {
    /// cuda.h, cuMemAllocManaged: memory that host and device can both access at one address;
    /// flags must be CU_MEM_ATTACH_GLOBAL or CU_MEM_ATTACH_HOST.
    fn managed_memory_is_one_for_host_and_card(turn) covers [cuMemAllocManaged] {
        let at = managed();
        let host: *mut u8 = std::ptr::with_exposed_provenance_mut(at as usize);
        let seen: Vec<u8> = (0..4).collect();
        ok!("cuMemcpyHtoD_v2", at, seen.as_ptr() as u64, 4_u64);
        ok!("cuCtxSynchronize");
        assert_eq!(crate::call::bytes_at(host, 4), [0, 1, 2, 3]);
        let mut is_managed = 0_u32;
        ok!("cuPointerGetAttribute", &mut is_managed, 8_u32, at);
        assert_eq!(is_managed, 1);
        assert_eq!(turn.read(at, 4), seen);
        let mut other = 0_u64;
        fails!(1, "cuMemAllocManaged", &mut other, MIB, 0_u32);
        fails!(1, "cuMemAllocManaged", &mut other, MIB, 3_u32);
        fails!(1, "cuMemAllocManaged", NULL, MIB, 1_u32);
        ok!("cuMemFree_v2", at);
    }

    /// cuda.h, cuMemAdvise, CUmem_range_attribute: what was advised for all of a range is what the
    /// range's attributes say; CU_DEVICE_INVALID (-2) where it differs within the range.
    fn what_was_advised_is_what_is_said(_turn) covers [cuMemAdvise, cuMemAdvise_v2] {
        let at = managed();
        assert_eq!((number_of(at, 1), number_of(at, 2)), (0, -2));
        ok!("cuMemAdvise", at, 4 * MIB, 1_u32, 0_u32);
        ok!("cuMemAdvise", at, 4 * MIB, 3_u32, 0_u32);
        assert_eq!((number_of(at, 1), number_of(at, 2)), (1, 0));
        ok!("cuMemAdvise_v2", at + MIB / 2, MIB / 4, 3_u32, place(2, 0));
        assert_eq!(number_of(at, 2), -2);
        ok!("cuMemAdvise_v2", at, MIB, 3_u32, place(2, 0));
        assert_eq!(number_of(at, 2), -1);
        let mut by = [0_i32; 2];
        ok!("cuMemAdvise_v2", at, MIB, 5_u32, place(1, 1));
        ok!("cuMemRangeGetAttribute", &mut by, 8_u64, 3_u32, at, MIB);
        assert_eq!(by, [1, -2]);
        ok!("cuMemAdvise", at, MIB, 2_u32, 0_u32);
        assert_eq!(number_of(at, 1), 0);
        fails!(1, "cuMemAdvise", at, MIB, 99_u32, 0_u32);
        fails!(1, "cuMemAdvise", at, 8 * MIB, 1_u32, 0_u32);
        fails!(101, "cuMemAdvise", at, MIB, 3_u32, 9_u32);
        ok!("cuMemFree_v2", at);
    }

    /// cuda.h, cuMemPrefetchAsync, cuMemPrefetchBatchAsync: CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION
    /// is the place that the whole range was last prefetched to; managed memory only.
    fn the_last_prefetch_is_remembered(turn) covers [
        cuMemPrefetchAsync, cuMemPrefetchAsync_ptsz, cuMemPrefetchAsync_v2,
        cuMemPrefetchAsync_v2_ptsz, cuMemPrefetchBatchAsync, cuMemPrefetchBatchAsync_ptsz
    ] {
        let (at, plain, stream) = (managed(), turn.allocate(MIB), turn.stream());
        assert_eq!(number_of(at, 4), -2);
        for form in ["", "_ptsz"] {
            let old = format!("cuMemPrefetchAsync{form}");
            ok!(&old, at, MIB, 0_u32, stream);
            assert_eq!(number_of(at, 4), 0);
            fails!(1, &old, plain, MIB, 0_u32, stream);
            let new = format!("cuMemPrefetchAsync_v2{form}");
            ok!(&new, at, MIB, place(2, 0), 0_u32, stream);
            assert_eq!((number_of(at, 4), number_of(at, 7)), (-1, 2));
            let batch = format!("cuMemPrefetchBatchAsync{form}");
            let (starts, sizes) = ([at, at + MIB], [MIB, MIB]);
            let (places, firsts) = ([place(1, 0), place(1, 1)], [0_u64, 1]);
            ok!(&batch, &starts, &sizes, 2_u64, &places, &firsts, 2_u64, 0_u64, stream);
            assert_eq!((number_of(at, 4), number_of(at + MIB, 4)), (0, 1));
            fails!(1, &batch, &[plain], &sizes, 1_u64, &places, &firsts, 1_u64, 0_u64, stream);
        }
        ok!("cuMemFree_v2", at);
    }

    /// cuda.h, cuMemDiscardBatchAsync: the contents of the ranges are not preserved; reading them
    /// before they are written gives anything. With a prefetch they go to a place besides.
    fn discarded_memory_can_be_written_again(turn) covers [
        cuMemDiscardBatchAsync, cuMemDiscardBatchAsync_ptsz, cuMemDiscardAndPrefetchBatchAsync,
        cuMemDiscardAndPrefetchBatchAsync_ptsz
    ] {
        let (at, plain, stream) = (managed(), turn.allocate(MIB), turn.stream());
        for form in ["", "_ptsz"] {
            turn.write(at + MIB, &[6; 4]);
            let discard = format!("cuMemDiscardBatchAsync{form}");
            ok!(&discard, &[at], &[MIB], 1_u64, 0_u64, stream);
            ok!("cuMemsetD8Async", at, 9_u32, 4_u64, stream);
            ok!("cuStreamSynchronize", stream);
            assert_eq!(turn.read(at, 4), [9; 4]);
            assert_eq!(turn.read(at + MIB, 4), [6; 4]);
            fails!(1, &discard, &[plain], &[MIB], 1_u64, 0_u64, stream);
            let both = format!("cuMemDiscardAndPrefetchBatchAsync{form}");
            ok!(&both, &[at], &[MIB], 1_u64, &[place(1, 1)], &[0_u64], 1_u64, 0_u64, stream);
            assert_eq!(number_of(at, 4), 1);
            fails!(1, &both, &[plain], &[MIB], 1_u64, &[place(1, 1)], &[0_u64], 1_u64, 0_u64, stream);
        }
        ok!("cuMemFree_v2", at);
    }

    /// cuda.h, cuStreamAttachMemAsync: managed memory from its first byte, whole; attached to one
    /// stream only if that is not the default one.
    fn managed_memory_is_attached_whole(turn) covers [
        cuStreamAttachMemAsync, cuStreamAttachMemAsync_ptsz
    ] {
        let (at, plain, stream) = (managed(), turn.allocate(MIB), turn.stream());
        for form in ["", "_ptsz"] {
            let name = format!("cuStreamAttachMemAsync{form}");
            ok!(&name, stream, at, 0_u64, 4_u32);
            ok!(&name, stream, at, 4 * MIB, 1_u32);
            ok!("cuMemsetD8Async", at, 4_u32, 4_u64, stream);
            ok!("cuStreamSynchronize", stream);
            assert_eq!(turn.read(at, 4), [4; 4]);
            fails!(1, &name, NULL, at, 0_u64, 4_u32);
            fails!(1, &name, stream, at, MIB, 1_u32);
            fails!(1, &name, stream, plain, 0_u64, 1_u32);
            fails!(1, &name, stream, at, 0_u64, 8_u32);
        }
        ok!("cuMemFree_v2", at);
    }
}
