//! Rules: virtual memory management.

use crate::api::{AccessDesc, MIB, ON_CARD, Props, READ_WRITE, SHAREABLE};
use crate::call::{NULL, code, fails, ok};
use crate::rule::rules;

rules! {
    /// cuda.h, cuMemAddressReserve, cuMemMap, cuMemSetAccess, cuMemUnmap: offset 0; a mapping gives
    /// no access until it is set; unmapping covers whole mappings; cuMemAddressFree wants the exact
    /// range. Memory is free when it is neither mapped nor has a handle.
    fn memory_is_where_it_is_mapped_and_as_long_as_it_is_held(turn) covers [
        cuMemAddressReserve, cuMemAddressFree, cuMemCreate, cuMemRelease, cuMemMap, cuMemUnmap,
        cuMemSetAccess, cuMemGetAccess, cuMemGetAllocationGranularity
    ] {
        let before = turn.free_bytes();
        let (mut unit, mut handle, mut range) = (0_u64, 0_u64, 0_u64);
        ok!("cuMemGetAllocationGranularity", &mut unit, &ON_CARD, 0_u32);
        ok!("cuMemCreate", &mut handle, 2 * unit, &ON_CARD, 0_u64);
        assert_eq!(turn.free_bytes(), before - 2 * unit);
        fails!(1, "cuMemCreate", &mut handle, unit + 4096, &ON_CARD, 0_u64);
        ok!("cuMemAddressReserve", &mut range, 4 * unit, 0_u64, 0_u64, 0_u64);
        fails!(1, "cuMemMap", range, unit, unit, handle, 0_u64);
        ok!("cuMemMap", range, 2 * unit, 0_u64, handle, 0_u64);
        fails!(1, "cuMemMap", range + unit, 2 * unit, 0_u64, handle, 0_u64);
        let (mut flags, place) = (9_u64, [1_i32, 0]);
        ok!("cuMemGetAccess", &mut flags, &place, range);
        assert_eq!(flags, 0);
        ok!("cuMemSetAccess", range, 2 * unit, &READ_WRITE, 1_u64);
        ok!("cuMemGetAccess", &mut flags, &place, range);
        assert_eq!(flags, 3);
        turn.write(range + 2 * unit - 4, &[1, 2, 3, 4]);
        assert_eq!(turn.read(range + 2 * unit - 4, 4), [1, 2, 3, 4]);
        fails!(1, "cuMemUnmap", range, unit);
        fails!(1, "cuMemAddressFree", range, 4 * unit);
        ok!("cuMemRelease", handle);
        assert_eq!(turn.free_bytes(), before - 2 * unit);
        ok!("cuMemUnmap", range, 2 * unit);
        assert_eq!(turn.free_bytes(), before);
        fails!(1, "cuMemSetAccess", range, 2 * unit, &READ_WRITE, 1_u64);
        fails!(1, "cuMemAddressFree", range, 2 * unit);
        ok!("cuMemAddressFree", range, 4 * unit);
        fails!(1, "cuMemRelease", handle);
        let nowhere = AccessDesc { location: [7, 0], flags: 3 };
        fails!(1, "cuMemSetAccess", range, 2 * unit, &nowhere, 1_u64);
        fails!(1, "cuMemGetAllocationGranularity", NULL, &ON_CARD, 0_u32);
    }

    /// cuda.h, cuMemRetainAllocationHandle, cuMemGetAllocationPropertiesFromHandle: the handle of
    /// what is mapped at an address, released once more than before; its properties as asked for.
    fn a_mapping_knows_its_handle(turn) covers [
        cuMemRetainAllocationHandle, cuMemGetAllocationPropertiesFromHandle
    ] {
        let (handle, range) = (turn.create(2 * MIB, &SHAREABLE), turn.reserve(2 * MIB));
        turn.map(range, 2 * MIB, handle);
        let mut again = 0_u64;
        ok!("cuMemRetainAllocationHandle", &mut again, range + MIB);
        assert_eq!(again, handle);
        ok!("cuMemRelease", handle);
        let mut props = Props { kind: 0, handle_types: 0, location: [0, 9], os: 0, flags: [0; 8] };
        ok!("cuMemGetAllocationPropertiesFromHandle", &mut props, again);
        assert_eq!((props.kind, props.handle_types, props.location), (1, 1, [1, 0]));
        ok!("cuMemRelease", again);
        fails!(1, "cuMemGetAllocationPropertiesFromHandle", &mut props, again);
        ok!("cuMemUnmap", range, 2 * MIB);
        fails!(1, "cuMemRetainAllocationHandle", &mut again, range);
        ok!("cuMemAddressFree", range, 2 * MIB);
    }

    /// cuda.h, cuMemExportToShareableHandle, cuMemImportFromShareableHandle: what is imported is
    /// the same memory; only memory that was created for it can be exported.
    fn exported_memory_is_the_same_memory(turn) covers [
        cuMemExportToShareableHandle, cuMemImportFromShareableHandle
    ] {
        let handle = turn.create(2 * MIB, &SHAREABLE);
        let (mut file, mut other) = (-1_i32, 0_u64);
        ok!("cuMemExportToShareableHandle", &mut file, handle, 1_u32, 0_u64);
        ok!("cuMemImportFromShareableHandle", &mut other, file as u64, 1_u32);
        let (a, b) = (turn.reserve(2 * MIB), turn.reserve(2 * MIB));
        turn.map(a, 2 * MIB, handle);
        turn.map(b, 2 * MIB, other);
        turn.write(a, &[5; 8]);
        assert_eq!(turn.read(b, 8), [5; 8]);
        for (range, handle) in [(a, handle), (b, other)] {
            ok!("cuMemUnmap", range, 2 * MIB);
            ok!("cuMemAddressFree", range, 2 * MIB);
            ok!("cuMemRelease", handle);
        }
        let own = turn.create(2 * MIB, &ON_CARD);
        fails!(1, "cuMemExportToShareableHandle", &mut file, own, 1_u32, 0_u64);
        ok!("cuMemRelease", own);
        fails!(1, "cuMemImportFromShareableHandle", &mut other, 9999_u64, 1_u32);
    }
}
