//! Virtual memory management, by the rules of the vendor's header.

mod api;

use api::{AccessDesc, INVALID_VALUE, MIB, ON_CARD, OUT_OF_MEMORY, SHAREABLE, turn};
use std::io::{BufRead, BufReader};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::{Command, Stdio};

#[test]
fn memory_keeps_its_contents_when_it_is_mapped_elsewhere() {
    let turn = turn();
    let handle = turn.create(4 * MIB, &ON_CARD);
    let (a, b) = (turn.reserve(4 * MIB), turn.reserve(4 * MIB));
    turn.map(a, 4 * MIB, handle);
    turn.write(a + 3 * MIB, b"still here");
    assert_eq!(turn.driver.cuMemUnmap(a, 4 * MIB), 0);
    turn.map(b, 4 * MIB, handle);
    assert_eq!(turn.read(b + 3 * MIB, 10), b"still here");
    assert_eq!(turn.driver.cuMemUnmap(b, 4 * MIB), 0);
    assert_eq!(turn.driver.cuMemRelease(handle), 0);
    assert_eq!(turn.driver.cuMemAddressFree(a, 4 * MIB), 0);
    assert_eq!(turn.driver.cuMemAddressFree(b, 4 * MIB), 0);
}

#[test]
fn memory_mapped_twice_is_one_memory() {
    let turn = turn();
    let handle = turn.create(2 * MIB, &ON_CARD);
    let range = turn.reserve(4 * MIB);
    turn.map(range, 2 * MIB, handle);
    turn.write(range, b"before");
    turn.map(range + 2 * MIB, 2 * MIB, handle);
    assert_eq!(turn.read(range + 2 * MIB, 6), b"before");
    turn.write(range + 2 * MIB, b"behind");
    assert_eq!(turn.read(range, 6), b"behind");
    assert_eq!(turn.driver.cuMemUnmap(range, 4 * MIB), 0);
    assert_eq!(turn.driver.cuMemRelease(handle), 0);
    assert_eq!(turn.driver.cuMemAddressFree(range, 4 * MIB), 0);
}

#[test]
fn memory_is_free_when_it_is_neither_mapped_nor_has_a_handle() {
    let turn = turn();
    let before = turn.free_bytes();
    let handle = turn.create(64 * MIB, &ON_CARD);
    let range = turn.reserve(64 * MIB);
    turn.map(range, 64 * MIB, handle);
    assert_eq!(turn.driver.cuMemRelease(handle), 0);
    assert_eq!(turn.free_bytes(), before - 64 * MIB, "the mapping keeps it");
    let mut again = 0;
    assert_eq!(turn.driver.cuMemRetainAllocationHandle(&mut again, range + MIB), 0);
    assert_eq!(turn.driver.cuMemUnmap(range, 64 * MIB), 0);
    assert_eq!(turn.free_bytes(), before - 64 * MIB, "the handle keeps it");
    assert_eq!(turn.driver.cuMemRelease(again), 0);
    assert_eq!(turn.free_bytes(), before);
    assert_eq!(turn.driver.cuMemRelease(again), INVALID_VALUE);
    assert_eq!(turn.driver.cuMemAddressFree(range, 64 * MIB), 0);
}

#[test]
fn only_whole_mappings_are_unmapped() {
    let turn = turn();
    let (a, b) = (turn.create(4 * MIB, &ON_CARD), turn.create(2 * MIB, &ON_CARD));
    let range = turn.reserve(8 * MIB);
    turn.map(range, 4 * MIB, a);
    turn.map(range + 4 * MIB, 2 * MIB, b);
    for (at, bytes) in
        [(range, 2 * MIB), (range + 2 * MIB, 2 * MIB), (range, 8 * MIB), (range + 6 * MIB, 2 * MIB)]
    {
        assert_eq!(turn.driver.cuMemUnmap(at, bytes), INVALID_VALUE, "+{} {bytes}", at - range);
    }
    assert_eq!(turn.driver.cuMemAddressFree(range, 8 * MIB), INVALID_VALUE, "mappings are in it");
    turn.write(range + 4 * MIB - 4, b"over the border");
    assert_eq!(turn.read(range + 4 * MIB - 4, 15), b"over the border");
    assert_eq!(turn.driver.cuMemUnmap(range, 6 * MIB), 0, "two whole ones at once");
    assert_eq!(
        turn.driver.cuMemAddressFree(range, 6 * MIB),
        INVALID_VALUE,
        "not the size reserved"
    );
    assert_eq!(turn.driver.cuMemAddressFree(range, 8 * MIB), 0);
    assert_eq!(turn.driver.cuMemRelease(a), 0);
    assert_eq!(turn.driver.cuMemRelease(b), 0);
}

#[test]
fn mapping_wants_free_reserved_aligned_addresses_and_offset_zero() {
    let turn = turn();
    let handle = turn.create(4 * MIB, &ON_CARD);
    let range = turn.reserve(4 * MIB);
    let map = |at, bytes, offset| turn.driver.cuMemMap(at, bytes, offset, handle, 0);
    assert_eq!(map(range, 2 * MIB, 2 * MIB), INVALID_VALUE, "offset");
    assert_eq!(map(range + MIB, 2 * MIB, 0), INVALID_VALUE, "alignment");
    assert_eq!(map(range + 2 * MIB, 4 * MIB, 0), INVALID_VALUE, "beyond the reservation");
    assert_eq!(map(range + 64 * MIB, 2 * MIB, 0), INVALID_VALUE, "not reserved");
    assert_eq!(map(range, 2 * MIB, 0), 0);
    assert_eq!(map(range, 4 * MIB, 0), INVALID_VALUE, "mapped already");
    assert_eq!(turn.driver.cuMemUnmap(range, 2 * MIB), 0);
    assert_eq!(turn.driver.cuMemRelease(handle), 0);
    assert_eq!(turn.driver.cuMemAddressFree(range, 4 * MIB), 0);
}

#[test]
fn a_mapping_has_no_access_until_it_is_given_and_none_after_a_remap() {
    let turn = turn();
    let handle = turn.create(2 * MIB, &ON_CARD);
    let range = turn.reserve(2 * MIB);
    for _ in 0..2 {
        assert_eq!(turn.driver.cuMemMap(range, 2 * MIB, 0, handle, 0), 0);
        assert_eq!(turn.driver.cuMemsetD8_v2(range, 1, 16), INVALID_VALUE);
        let read_only = AccessDesc { location: [1, 0], flags: 1 };
        assert_eq!(turn.driver.cuMemSetAccess(range, 2 * MIB, &read_only, 1), 0);
        turn.read(range, 16);
        assert_eq!(turn.driver.cuMemsetD8_v2(range, 1, 16), INVALID_VALUE);
        assert_eq!(turn.driver.cuMemUnmap(range, 2 * MIB), 0);
    }
    assert_eq!(turn.driver.cuMemSetAccess(range, 2 * MIB, &api::READ_WRITE, 1), INVALID_VALUE);
    assert_eq!(turn.driver.cuMemRelease(handle), 0);
    assert_eq!(turn.driver.cuMemAddressFree(range, 2 * MIB), 0);
}

#[test]
fn sizes_are_multiples_of_the_granularity_and_within_the_card() {
    let turn = turn();
    let mut handle = 0;
    assert_eq!(turn.driver.cuMemCreate(&mut handle, MIB, &ON_CARD, 0), INVALID_VALUE);
    assert_eq!(turn.driver.cuMemCreate(&mut handle, 0, &ON_CARD, 0), INVALID_VALUE);
    assert_eq!(turn.driver.cuMemCreate(&mut handle, 2048 * MIB, &ON_CARD, 0), OUT_OF_MEMORY);
    let huge = u64::MAX / (2 * MIB) * (2 * MIB);
    assert_eq!(turn.driver.cuMemCreate(&mut handle, huge, &ON_CARD, 0), OUT_OF_MEMORY);
}

#[test]
fn fresh_memory_is_the_pattern_and_not_what_was_there() {
    let turn = turn();
    let range = turn.reserve(2 * MIB);
    for props in [ON_CARD, SHAREABLE] {
        for _ in 0..2 {
            let handle = turn.create(2 * MIB, &props);
            turn.map(range, 2 * MIB, handle);
            let seen = turn.read(range, 2 << 20);
            assert!(seen.chunks(4).all(|word| word == [0xAD, 0xDB, 0xBA, 0x7F]));
            assert_eq!(turn.driver.cuMemsetD8_v2(range, 7, 2 * MIB), 0);
            assert_eq!(turn.driver.cuMemUnmap(range, 2 * MIB), 0);
            assert_eq!(turn.driver.cuMemRelease(handle), 0);
        }
    }
    assert_eq!(turn.driver.cuMemAddressFree(range, 2 * MIB), 0);
}

/// Not a test of its own: the process that imports what the next test exported.
#[test]
#[ignore = "started by another test as its second process"]
fn importing_process() {
    let turn = turn();
    let number: usize = std::env::var("IMPORT_FD").expect("set").parse().expect("a number");
    let mut handle = 0;
    assert_eq!(turn.driver.cuMemImportFromShareableHandle(&mut handle, number, 1), 0);
    let range = turn.reserve(4 * MIB);
    turn.map(range, 4 * MIB, handle);
    println!("saw {}", String::from_utf8(turn.read(range, 6)).expect("text"));
    turn.write(range, b"theirs");
}

#[test]
fn an_exported_descriptor_is_the_same_memory_in_another_process() {
    let turn = turn();
    let before = turn.free_bytes();
    let handle = turn.create(4 * MIB, &SHAREABLE);
    let range = turn.reserve(4 * MIB);
    turn.map(range, 4 * MIB, handle);
    turn.write(range, b"ours!!");
    let mut number = -1;
    assert_eq!(turn.driver.cuMemExportToShareableHandle(&mut number, handle, 1, 0), 0);
    // SAFETY: the driver just made it for us.
    let exported = unsafe { OwnedFd::from_raw_fd(number) };
    let inheritable = rustix::io::dup(&exported).expect("a descriptor without close-on-exec");
    let mut child = Command::new(std::env::current_exe().expect("this test's file"))
        .args(["importing_process", "--exact", "--ignored", "--nocapture"])
        .env("IMPORT_FD", inheritable.as_raw_fd().to_string())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a process");
    let lines: Vec<String> =
        BufReader::new(child.stdout.take().expect("piped")).lines().map_while(Result::ok).collect();
    assert!(child.wait().expect("it ends").success(), "{lines:?}");
    assert!(lines.iter().any(|line| line.contains("saw ours!!")), "{lines:?}");
    assert_eq!(turn.read(range, 6), b"theirs");
    assert_eq!(turn.driver.cuMemUnmap(range, 4 * MIB), 0);
    assert_eq!(turn.driver.cuMemRelease(handle), 0);
    drop((exported, inheritable));
    let start = std::time::Instant::now();
    while turn.free_bytes() != before {
        assert!(start.elapsed().as_secs() < 2, "free is {}, was {before}", turn.free_bytes());
    }
    assert_eq!(turn.driver.cuMemAddressFree(range, 4 * MIB), 0);
}

#[test]
fn memory_that_was_not_made_shareable_cannot_be_exported() {
    let turn = turn();
    let handle = turn.create(2 * MIB, &ON_CARD);
    let mut number = -1;
    assert_eq!(turn.driver.cuMemExportToShareableHandle(&mut number, handle, 1, 0), INVALID_VALUE);
    assert_eq!(turn.driver.cuMemRelease(handle), 0);
}
