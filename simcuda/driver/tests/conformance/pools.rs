//! Rules: stream-ordered allocation and its pools.

use crate::api::{MIB, Turn};
use crate::call::{NULL, code, fails, ok};
use crate::rule::rules;

/// `CUmemPoolProps` for a device's pinned memory.
fn props(handle_types: u32, max_bytes: u64) -> [u64; 11] {
    let mut words = [0; 11];
    words[0] = 1 | u64::from(handle_types) << 32;
    words[1] = 1;
    words[3] = max_bytes;
    words
}

fn pool(handle_types: u32, max_bytes: u64) -> usize {
    let mut pool = 0_usize;
    ok!("cuMemPoolCreate", &mut pool, &props(handle_types, max_bytes));
    pool
}

fn attribute(pool: usize, attribute: u32) -> u64 {
    let mut value = 0_u64;
    ok!("cuMemPoolGetAttribute", pool, attribute, &mut value);
    value
}

fn take(pool: usize, bytes: u64, stream: usize) -> u64 {
    let mut at = 0_u64;
    ok!("cuMemAllocFromPoolAsync", &mut at, bytes, pool, stream);
    at
}

fn give(at: u64, stream: usize) {
    ok!("cuMemFreeAsync", at, stream);
    ok!("cuStreamSynchronize", stream);
}

fn settled(turn: &Turn, stream: usize) -> u64 {
    ok!("cuStreamSynchronize", stream);
    turn.free_bytes()
}

rules! {
    /// cuda.h, cuMemAllocAsync: memory of the device's current pool, valid in stream order; freed
    /// in stream order by cuMemFreeAsync, also by cuMemFree; what is beyond the release threshold
    /// goes back at the next synchronisation. Size 0 is CUDA_ERROR_INVALID_VALUE.
    fn memory_comes_and_goes_in_a_streams_order(turn) covers [
        cuMemAllocAsync, cuMemAllocAsync_ptsz, cuMemFreeAsync, cuMemFreeAsync_ptsz
    ] {
        let stream = turn.stream();
        let before = settled(turn, stream);
        for form in ["", "_ptsz"] {
            let (take, give) = (format!("cuMemAllocAsync{form}"), format!("cuMemFreeAsync{form}"));
            let mut at = 0_u64;
            ok!(&take, &mut at, 64 * MIB, stream);
            ok!("cuMemsetD8Async", at, 3_u32, 64 * MIB, stream);
            ok!("cuStreamSynchronize", stream);
            assert_eq!(turn.read(at, 4), [3; 4]);
            assert!(turn.free_bytes() <= before - 64 * MIB);
            ok!(&give, at, stream);
            assert_eq!(settled(turn, stream), before);
            fails!(1, &give, at, stream);
            fails!(1, &take, &mut at, 0_u64, stream);
            fails!(1, &take, NULL, MIB, stream);
            ok!(&take, &mut at, MIB, stream);
            ok!("cuMemFree_v2", at);
            assert_eq!(settled(turn, stream), before);
        }
    }

    /// cuda.h, cuMemFreeAsync, CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES: memory that a
    /// stream freed can be given to the same stream again without waiting for anything.
    fn a_stream_has_again_at_once_what_it_freed(turn) covers [cuMemAllocFromPoolAsync] {
        let (stream, gate) = (turn.stream(), turn.allocate(MIB));
        turn.write(gate, &[0; 4]);
        let pool = pool(0, 0);
        ok!("cuStreamWaitValue32_v2", stream, gate, 1_u32, 1_u32);
        let first = take(pool, 600 * MIB, stream);
        ok!("cuMemFreeAsync", first, stream);
        let second = take(pool, 600 * MIB, stream);
        assert_eq!(first, second);
        ok!("cuMemsetD8Async", second, 8_u32, 16_u64, stream);
        let other = turn.stream();
        ok!("cuStreamWriteValue32_v2", other, gate, 1_u32, 0_u32);
        ok!("cuStreamSynchronize", stream);
        assert_eq!(turn.read(second, 16), [8; 16]);
        give(second, stream);
        ok!("cuMemPoolDestroy", pool);
    }

    /// cuda.h, cuMemPoolCreate, cuMemAllocFromPoolAsync, cuMemPoolDestroy: memory of a pool of the
    /// program's own, at most maxSize of it; a destroyed pool's memory goes with its last
    /// allocation. Handle types that a device has not are refused.
    fn a_pool_is_as_large_as_it_may_be_and_goes_with_its_memory(turn) covers [
        cuMemPoolCreate, cuMemPoolDestroy, cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync_ptsz
    ] {
        let stream = turn.stream();
        let before = settled(turn, stream);
        let pool = pool(0, 64 * MIB);
        let at = take(pool, 48 * MIB, stream);
        let mut other = 0_u64;
        fails!(2, "cuMemAllocFromPoolAsync_ptsz", &mut other, 32 * MIB, pool, stream);
        ok!("cuMemPoolDestroy", pool);
        fails!(1, "cuMemPoolDestroy", pool);
        fails!(1, "cuMemAllocFromPoolAsync", &mut other, MIB, pool, stream);
        turn.write(at, &[1; 4]);
        give(at, stream);
        assert_eq!(settled(turn, stream), before);
        let mut made = 0_usize;
        fails!(1, "cuMemPoolCreate", NULL, &props(0, 0));
        fails!(1, "cuMemPoolCreate", &mut made, &[0_u64; 11]);
    }

    /// cuda.h, CUmemPool_attribute: release threshold; reserved and used memory, now and at most
    /// (which can be set to zero); cuMemPoolTrimTo: keeps at least minBytesToKeep reserved.
    fn a_pool_keeps_what_its_threshold_says_until_it_is_trimmed(turn) covers [
        cuMemPoolGetAttribute, cuMemPoolSetAttribute, cuMemPoolTrimTo
    ] {
        let (pool, stream) = (pool(0, 0), turn.stream());
        ok!("cuMemPoolSetAttribute", pool, 4_u32, &(256 * MIB));
        assert_eq!(attribute(pool, 4), 256 * MIB);
        let at = take(pool, 64 * MIB, stream);
        assert_eq!((attribute(pool, 7), attribute(pool, 8)), (64 * MIB, 64 * MIB));
        let reserved = attribute(pool, 5);
        assert!(reserved >= 64 * MIB && attribute(pool, 6) == reserved);
        let held = turn.free_bytes();
        give(at, stream);
        assert_eq!((attribute(pool, 7), attribute(pool, 8)), (0, 64 * MIB));
        assert_eq!((attribute(pool, 5), turn.free_bytes()), (reserved, held));
        ok!("cuMemPoolSetAttribute", pool, 8_u32, &0_u64);
        assert_eq!(attribute(pool, 8), 0);
        fails!(1, "cuMemPoolSetAttribute", pool, 8_u32, &1_u64);
        fails!(1, "cuMemPoolSetAttribute", pool, 7_u32, &0_u64);
        ok!("cuMemPoolTrimTo", pool, 0_u64);
        assert_eq!((attribute(pool, 5), turn.free_bytes()), (0, held + reserved));
        let mut flag = 9_u32;
        ok!("cuMemPoolSetAttribute", pool, 1_u32, &0_u32);
        ok!("cuMemPoolGetAttribute", pool, 1_u32, &mut flag);
        assert_eq!(flag, 0);
        fails!(1, "cuMemPoolGetAttribute", pool, 99_u32, &mut flag);
        ok!("cuMemPoolDestroy", pool);
    }

    /// cuda.h, cuDeviceSetMemPool: the current pool of a device is what cuMemAllocAsync uses; the
    /// default pool cannot be destroyed; destroying the current one brings the default back.
    fn a_device_uses_the_pool_that_it_was_told_to(turn) covers [
        cuDeviceGetDefaultMemPool, cuDeviceGetMemPool, cuDeviceSetMemPool, cuMemGetDefaultMemPool,
        cuMemGetMemPool, cuMemSetMemPool
    ] {
        let (stream, place) = (turn.stream(), [1_i32, 0]);
        let (mut own, mut used, mut at) = (0_usize, 0_usize, 0_u64);
        ok!("cuDeviceGetDefaultMemPool", &mut own, 0_u32);
        fails!(1, "cuMemPoolDestroy", own);
        for by_place in [false, true] {
            let pool = pool(0, 0);
            if by_place {
                ok!("cuMemSetMemPool", &place, 1_u32, pool);
                ok!("cuMemGetMemPool", &mut used, &place, 1_u32);
            } else {
                ok!("cuDeviceSetMemPool", 0_u32, pool);
                ok!("cuDeviceGetMemPool", &mut used, 0_u32);
            }
            assert_eq!(used, pool);
            ok!("cuMemAllocAsync", &mut at, 5 * MIB, stream);
            assert_eq!(attribute(pool, 7), 5 * MIB);
            give(at, stream);
            fails!(101, "cuDeviceSetMemPool", 1_u32, pool);
            ok!("cuMemPoolDestroy", pool);
            ok!("cuMemGetDefaultMemPool", &mut used, &place, 1_u32);
            assert_eq!(used, own);
            ok!("cuDeviceGetMemPool", &mut used, 0_u32);
            assert_eq!(used, own);
        }
        fails!(1, "cuDeviceSetMemPool", 0_u32, NULL);
        fails!(101, "cuDeviceGetMemPool", &mut used, 9_u32);
    }

    /// cuda.h, cuMemPoolSetAccess: access of other devices to a pool; the owner's cannot be taken
    /// away; cuMemPoolGetAccess says what there is.
    fn access_to_a_pool_is_what_was_set(_turn) covers [cuMemPoolSetAccess, cuMemPoolGetAccess] {
        let pool = pool(0, 0);
        let (mut flags, other) = (9_u32, [1_i32, 1]);
        ok!("cuMemPoolGetAccess", &mut flags, pool, &other);
        assert_eq!(flags, 0);
        ok!("cuMemPoolSetAccess", pool, &[1_i32, 1, 3], 1_u64);
        ok!("cuMemPoolGetAccess", &mut flags, pool, &other);
        assert_eq!(flags, 3);
        ok!("cuMemPoolGetAccess", &mut flags, pool, &[1_i32, 0]);
        assert_eq!(flags, 3);
        fails!(1, "cuMemPoolSetAccess", pool, &[1_i32, 0, 0], 1_u64);
        ok!("cuMemPoolDestroy", pool);
    }
}
