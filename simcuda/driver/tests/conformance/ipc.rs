//! Rules: memory, events and pools between processes. The other process is this test's own file,
//! started again with one rule and told by its environment to be the other side.

use crate::api::{MIB, Turn};
use crate::call::{NULL, code, fails, ok, typed};
use crate::rule::rules;
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

type Handle = [u8; 64];

/// A handle by value.
#[repr(C)]
#[derive(Clone, Copy)]
struct ByValue(Handle);

const SIDE: &str = "CONFORMANCE_OTHER_SIDE";

/// Starts the rule's other side, with a socket as its descriptor of that number in `SIDE`.
fn other_side(rule: &str) -> (Child, UnixStream) {
    let (own, other) = UnixStream::pair().expect("sockets");
    let inherited = rustix::io::dup(other.as_fd()).expect("a descriptor");
    let mut command = Command::new(std::env::current_exe().expect("this test's file"));
    command.args(["--exact", &format!("ipc::{rule}"), "--nocapture", "--test-threads=1"]);
    command.env(SIDE, inherited.as_raw_fd().to_string());
    (command.spawn().expect("the other side"), own)
}

/// The socket, if this is the other side.
fn is_other_side() -> Option<UnixStream> {
    let number = std::env::var(SIDE).ok()?.parse().ok()?;
    Some(UnixStream::from(crate::call::own(number)))
}

fn say(socket: &mut UnixStream, bytes: &[u8]) {
    socket.write_all(bytes).expect("the other side listens");
}

fn hear<const N: usize>(socket: &mut UnixStream) -> [u8; N] {
    let mut bytes = [0; N];
    socket.read_exact(&mut bytes).expect("the other side speaks");
    bytes
}

fn finish(mut child: Child) {
    assert!(child.wait().expect("the other side ends").success());
}

/// The machine takes a process's memory back in its own time.
fn comes_back(turn: &Turn, bytes: u64) {
    let deadline = Instant::now() + Duration::from_secs(5);
    while turn.free_bytes() != bytes {
        assert!(Instant::now() < deadline, "{} of {bytes} bytes are free", turn.free_bytes());
        std::thread::yield_now();
    }
}

fn open_memory(form: &str, at: &mut u64, handle: Handle, flags: u32) -> u32 {
    let open: extern "C" fn(&mut u64, ByValue, u32) -> u32 = typed(form);
    open(at, ByValue(handle), flags)
}

fn open_event(event: &mut usize, handle: Handle) -> u32 {
    let open: extern "C" fn(&mut usize, ByValue) -> u32 = typed("cuIpcOpenEventHandle");
    open(event, ByValue(handle))
}

/// The other side of the rule about memory: sees what the first wrote, and answers.
fn read_and_answer(turn: &Turn, socket: &mut UnixStream) {
    for form in ["cuIpcOpenMemHandle", "cuIpcOpenMemHandle_v2"] {
        let handle = hear::<64>(socket);
        let (mut at, mut again) = (0_u64, 0_u64);
        assert_eq!(open_memory(form, &mut at, handle, 0), 1);
        assert_eq!(open_memory(form, &mut at, handle, 1), 0);
        assert_eq!(open_memory(form, &mut again, handle, 1), 0);
        assert_eq!(at, again);
        assert_eq!(turn.read(at, 8), [3; 8]);
        turn.write(at + 8, &[4; 8]);
        fails!(1, "cuMemFree_v2", at);
        ok!("cuIpcCloseMemHandle", at);
        assert_eq!(turn.read(at, 8), [3; 8]);
        ok!("cuIpcCloseMemHandle", at);
        fails!(1, "cuIpcCloseMemHandle", at);
        assert_eq!(open_memory(form, &mut at, [7; 64], 1), 400);
        say(socket, &[1]);
    }
}

rules! {
    /// cuda.h, cuIpcGetMemHandle, cuIpcOpenMemHandle, cuIpcCloseMemHandle: the same memory in
    /// another process, opened twice it is counted; not in the process that it comes from
    /// (CUDA_ERROR_INVALID_CONTEXT); the flag must be CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS.
    fn two_processes_see_the_same_memory(turn) covers [
        cuIpcGetMemHandle, cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2, cuIpcCloseMemHandle
    ] {
        if let Some(mut socket) = is_other_side() {
            read_and_answer(turn, &mut socket);
            code!("cuIpcGetMemHandle", NULL, NULL);
            return;
        }
        let before = turn.free_bytes();
        let (child, mut socket) = other_side("two_processes_see_the_same_memory");
        for bytes in [64 * MIB, 4096] {
            let (at, mut handle) = (turn.allocate(bytes), [0_u8; 64]);
            turn.write(at, &[3; 16]);
            ok!("cuIpcGetMemHandle", &mut handle, at);
            assert_eq!(turn.read(at, 16), [3; 16]);
            say(&mut socket, &handle);
            hear::<1>(&mut socket);
            assert_eq!(turn.read(at, 16), [[3; 8], [4; 8]].concat());
            for form in ["cuIpcOpenMemHandle", "cuIpcOpenMemHandle_v2"] {
                assert_eq!(open_memory(form, &mut 0, handle, 1), 201);
            }
            ok!("cuMemFree_v2", at);
        }
        finish(child);
        comes_back(turn, before);
        fails!(1, "cuIpcGetMemHandle", &mut [0_u8; 64], NULL);
        fails!(1, "cuIpcCloseMemHandle", NULL);
    }

    /// cuda.h, cuIpcGetEventHandle, cuIpcOpenEventHandle: an event made with INTERPROCESS and
    /// DISABLE_TIMING; recorded by one process it is awaited by the other's streams.
    fn two_processes_wait_for_each_others_events(turn) covers [
        cuIpcGetEventHandle, cuIpcOpenEventHandle
    ] {
        let (stream, gate) = (turn.stream(), turn.allocate(MIB));
        if let Some(mut socket) = is_other_side() {
            let mut event = 0_usize;
            assert_eq!(open_event(&mut event, hear::<64>(&mut socket)), 0);
            fails!(600, "cuEventQuery", event);
            ok!("cuStreamWaitEvent", stream, event, 0_u32);
            turn.write(gate, &[0; 4]);
            ok!("cuMemsetD8Async", gate, 5_u32, 4_u64, stream);
            fails!(600, "cuStreamQuery", stream);
            say(&mut socket, &[1]);
            ok!("cuEventSynchronize", event);
            ok!("cuStreamSynchronize", stream);
            assert_eq!(turn.read(gate, 4), [5; 4]);
            ok!("cuEventDestroy_v2", event);
            code!("cuIpcGetEventHandle", NULL, NULL);
            return;
        }
        let (mut event, mut plain, mut handle) = (0_usize, 0_usize, [0_u8; 64]);
        ok!("cuEventCreate", &mut event, 6_u32);
        ok!("cuEventCreate", &mut plain, 2_u32);
        ok!("cuIpcGetEventHandle", &mut handle, event);
        fails!(400, "cuIpcGetEventHandle", &mut handle, plain);
        turn.write(gate, &[0; 4]);
        ok!("cuStreamWaitValue32_v2", stream, gate, 1_u32, 1_u32);
        ok!("cuEventRecord", event, stream);
        let (child, mut socket) = other_side("two_processes_wait_for_each_others_events");
        say(&mut socket, &handle);
        hear::<1>(&mut socket);
        ok!("cuStreamWriteValue32_v2", turn.stream(), gate, 1_u32, 0_u32);
        finish(child);
        ok!("cuEventSynchronize", event);
        assert_eq!(open_event(&mut plain, handle), 201);
        assert_eq!(open_event(&mut plain, [7; 64]), 400);
    }

    /// cuda.h, cuMemPoolExportToShareableHandle, cuMemPoolImportPointer: an imported pool gives no
    /// memory of its own, but the allocations that are exported by pointer; freed in the importing
    /// process first.
    fn two_processes_share_a_pool(turn) covers [
        cuMemPoolExportToShareableHandle, cuMemPoolImportFromShareableHandle,
        cuMemPoolExportPointer, cuMemPoolImportPointer
    ] {
        let stream = turn.stream();
        if let Some(mut socket) = is_other_side() {
            let number = i32::from_le_bytes(hear(&mut socket));
            let (mut pool, mut at, mut own) = (0_usize, 0_u64, 0_u64);
            ok!("cuMemPoolImportFromShareableHandle", &mut pool, number, 1_u32, 0_u64);
            fails!(1, "cuMemAllocFromPoolAsync", &mut own, MIB, pool, stream);
            let data = hear::<64>(&mut socket);
            fails!(1, "cuMemPoolImportPointer", &mut at, pool, &[7_u8; 64]);
            ok!("cuMemPoolImportPointer", &mut at, pool, &data);
            assert_eq!(turn.read(at, 8), [6; 8]);
            turn.write(at, &[8; 4]);
            ok!("cuMemFreeAsync", at, stream);
            ok!("cuStreamSynchronize", stream);
            fails!(1, "cuMemFree_v2", at);
            say(&mut socket, &[1]);
            code!("cuMemPoolExportToShareableHandle", NULL, NULL, 1_u32, 0_u64);
            code!("cuMemPoolExportPointer", NULL, NULL);
            return;
        }
        let before = turn.free_bytes();
        let (mut pool, mut plain, mut at, mut file) = (0_usize, 0_usize, 0_u64, -1_i32);
        let mut props = [0_u64; 11];
        props[0] = 1 | 1 << 32;
        props[1] = 1;
        ok!("cuMemPoolCreate", &mut pool, &props);
        props[0] = 1;
        ok!("cuMemPoolCreate", &mut plain, &props);
        fails!(1, "cuMemPoolExportToShareableHandle", &mut file, plain, 1_u32, 0_u64);
        ok!("cuMemPoolExportToShareableHandle", &mut file, pool, 1_u32, 0_u64);
        ok!("cuMemAllocFromPoolAsync", &mut at, 4 * MIB, pool, stream);
        ok!("cuMemsetD8Async", at, 6_u32, 8_u64, stream);
        ok!("cuStreamSynchronize", stream);
        let mut data = [0_u8; 64];
        ok!("cuMemPoolExportPointer", &mut data, at);
        // The other side inherits a copy that stays open over its start.
        let held = crate::call::own(file);
        let inherited = rustix::io::dup(held.as_fd()).expect("a descriptor");
        let (child, mut socket) = other_side("two_processes_share_a_pool");
        say(&mut socket, &inherited.as_raw_fd().to_le_bytes());
        say(&mut socket, &data);
        hear::<1>(&mut socket);
        finish(child);
        assert_eq!(turn.read(at, 8), [[8; 4], [6; 4]].concat());
        fails!(1, "cuMemPoolImportPointer", &mut 0_u64, pool, &data);
        fails!(1, "cuMemPoolImportFromShareableHandle", &mut 0_usize, 9999_u64, 1_u32, 0_u64);
        ok!("cuMemFreeAsync", at, stream);
        ok!("cuMemPoolDestroy", pool);
        ok!("cuMemPoolDestroy", plain);
        ok!("cuStreamSynchronize", stream);
        comes_back(turn, before);
    }
}

const _: () = assert!(size_of::<ByValue>() == 64);
