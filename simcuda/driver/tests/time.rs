//! How long things take on one card, in one process: modelled times of kernels and copies, what goes
//! on at the same time, and memory that is taken away before they are over.

mod api;
mod worker;

use api::{ILLEGAL_ADDRESS, MIB, NOT_READY, ON_CARD, Turn, turn};
use simcuda_protocol::engines::{Engine, Mark};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use worker::{KERNELS, Worker, machine};

const MS: u64 = 1_000_000;

/// Not a test of its own: what `Worker` starts.
#[test]
#[ignore = "started by other tests as another process"]
fn worker_process() {
    worker::work();
}

fn spin(turn: &Turn) -> (usize, usize) {
    let module = turn.module(KERNELS);
    (module, turn.function(module, "spin"))
}

fn pinned(turn: &Turn, bytes: u64) -> u64 {
    let mut at = 0;
    assert_eq!(turn.driver.cuMemAllocHost_v2(&mut at, bytes), 0);
    at
}

/// A gate in front of the first stream, which the others wait for: all that is given meanwhile begins
/// at one time, however slow the host was to give it.
struct Gate {
    memory: u64,
    opener: usize,
    begun: usize,
}

impl Gate {
    fn close(turn: &Turn, streams: &[usize]) -> Self {
        let (memory, opener) = (turn.allocate(MIB), turn.stream());
        assert_eq!(turn.driver.cuMemsetD8_v2(memory, 0, 4), 0);
        assert_eq!(turn.driver.cuStreamWaitValue32_v2(streams[0], memory, 1, 1), 0);
        let begun = turn.record(streams[0]);
        for stream in &streams[1..] {
            assert_eq!(turn.driver.cuStreamWaitEvent(*stream, begun, 0), 0);
        }
        Self { memory, opener, begun }
    }

    /// Lets the stream go on and does not wait.
    fn unlock(&self, turn: &Turn) -> u32 {
        turn.driver.cuStreamWriteValue32_v2(self.opener, self.memory, 1, 0)
    }

    /// Lets the streams go on; gives the event at which they did, when they are done.
    fn open(self, turn: &Turn, streams: &[usize]) -> usize {
        assert_eq!(self.unlock(turn), 0);
        synchronise(turn, streams);
        assert_eq!(turn.driver.cuStreamDestroy_v2(self.opener), 0);
        assert_eq!(turn.driver.cuMemFree_v2(self.memory), 0);
        self.begun
    }
}

fn synchronise(turn: &Turn, streams: &[usize]) {
    streams.iter().for_each(|stream| assert_eq!(turn.driver.cuStreamSynchronize(*stream), 0));
}

#[test]
fn a_spin_takes_what_it_says_by_events_by_the_log_and_by_the_clock() {
    let turn = turn();
    let ((module, spin), stream, client) = (spin(&turn), turn.stream(), machine());
    for (ns, kernels) in [(MS, 20), (10 * MS, 3)] {
        let gate = Gate::close(&turn, &[stream]);
        for _ in 0..kernels {
            assert_eq!(turn.launch(spin, 32, stream, &[ns]), 0);
        }
        let to = turn.record(stream);
        let (mark, begun) = (client.engine_mark(0).expect("a log"), Instant::now());
        let from = gate.open(&turn, &[stream]);
        let (wall_ms, event_ms) = (begun.elapsed().as_secs_f64() * 1e3, turn.between(from, to));
        let asked_ms = (ns * kernels) as f64 / 1e6;
        assert!(event_ms >= asked_ms && event_ms < asked_ms * 1.05, "{event_ms} of {asked_ms} ms");
        assert!(wall_ms >= event_ms && wall_ms < event_ms + 50.0, "{wall_ms} of {event_ms} ms");
        std::thread::sleep(Duration::from_millis(5));
        let now = client.engine_mark(0).expect("a log");
        let used_ms = now.used_since(&mark, Engine::Compute)[0].1 as f64 / 1e6;
        assert!((used_ms - event_ms).abs() < 0.1 + event_ms * 0.01, "{used_ms} of {event_ms} ms");
    }
    assert_eq!(turn.driver.cuModuleUnload(module), 0);
}

#[test]
fn copies_take_the_link_s_time_queue_up_one_way_and_overlap_both_ways() {
    let turn = turn();
    // 40 MiB at 4 GB/s.
    let (bytes, alone_ms) = (40 * MIB, 40.0 * 1.048576 / 4.0);
    let streams = [turn.stream(), turn.stream()];
    let device = [turn.allocate(bytes), turn.allocate(bytes)];
    let host = [pinned(&turn, bytes), pinned(&turn, bytes)];
    let into = |way: usize| {
        let from = std::ptr::with_exposed_provenance(host[way] as usize);
        assert_eq!(turn.driver.cuMemcpyHtoDAsync_v2(device[way], from, bytes, streams[way]), 0);
    };
    let out = |way: usize| {
        let to = std::ptr::with_exposed_provenance_mut(host[way] as usize);
        assert_eq!(turn.driver.cuMemcpyDtoHAsync_v2(to, device[way], bytes, streams[way]), 0);
    };
    let measure = |work: &dyn Fn()| {
        let gate = Gate::close(&turn, &streams);
        work();
        let ends = [turn.record(streams[0]), turn.record(streams[1])];
        let from = gate.open(&turn, &streams);
        ends.map(|end| turn.between(from, end)).into_iter().fold(0.0, f64::max)
    };
    // Pages that were never touched take longer than the link.
    measure(&|| [0, 1].into_iter().for_each(into));
    measure(&|| [0, 1].into_iter().for_each(out));
    let one = measure(&|| into(0));
    let same = measure(&|| [0, 1].into_iter().for_each(into));
    let opposite = measure(&|| {
        into(0);
        out(1);
    });
    let near = |ms: f64, wanted: f64| (ms - wanted).abs() < wanted * 0.15 + 2.0;
    assert!(near(one, alone_ms), "one copy took {one} of {alone_ms} ms");
    assert!(near(same, 2.0 * alone_ms), "two the same way took {same} ms, one {one}");
    assert!(near(opposite, alone_ms), "two in opposite directions took {opposite} ms, one {one}");
    host.iter().for_each(|at| assert_eq!(turn.driver.cuMemFreeHost(*at), 0));
    device.iter().for_each(|at| assert_eq!(turn.driver.cuMemFree_v2(*at), 0));
}

#[test]
fn a_kernel_and_copies_of_other_streams_go_on_together_and_each_stream_in_order() {
    let turn = turn();
    let ((module, spin), bytes) = (spin(&turn), 40 * MIB);
    let (compute, copy) = (turn.stream(), turn.stream());
    let (device, host) = (turn.allocate(bytes), pinned(&turn, bytes));
    let from = std::ptr::with_exposed_provenance(host as usize);
    // Pages that were never touched take longer than the link.
    assert_eq!(turn.driver.cuMemcpyHtoD_v2(device, from, bytes), 0);
    for _ in 0..2 {
        let gate = Gate::close(&turn, &[compute, copy]);
        assert_eq!(turn.launch(spin, 32, compute, &[20 * MS]), 0);
        let computed = turn.record(compute);
        assert_eq!(turn.driver.cuMemcpyHtoDAsync_v2(device, from, bytes, copy), 0);
        let copied = turn.record(copy);
        assert_eq!(turn.driver.cuStreamWaitEvent(copy, computed, 0), 0);
        assert_eq!(turn.driver.cuMemcpyHtoDAsync_v2(device, from, bytes, copy), 0);
        let last = turn.record(copy);
        let start = gate.open(&turn, &[compute, copy]);
        let [computed, copied, last] = [computed, copied, last].map(|end| turn.between(start, end));
        assert!(computed < 22.0, "the kernel took {computed} ms");
        assert!(copied < 20.0, "the first copy was over after {copied} ms");
        assert!(last > computed + 10.0, "the second copy began before the kernel ended: {last} ms");
    }
    assert_eq!(turn.driver.cuMemFreeHost(host), 0);
    assert_eq!(turn.driver.cuMemFree_v2(device), 0);
    assert_eq!(turn.driver.cuModuleUnload(module), 0);
}

#[test]
fn kernels_run_together_when_they_fit_and_one_after_another_when_not() {
    let turn = turn();
    let (module, spin) = spin(&turn);
    let streams = [turn.stream(), turn.stream()];
    // The toy has four multiprocessors; a block of 1024 threads fills one.
    for (blocks, together) in [(2, true), (3, false), (4, false)] {
        let gate = Gate::close(&turn, &streams);
        for stream in streams {
            assert_eq!(turn.launch_grid(spin, (blocks, 1024), stream, &[10 * MS]), 0);
        }
        let ends = streams.map(|stream| turn.record(stream));
        let from = gate.open(&turn, &streams);
        let took = ends.map(|end| turn.between(from, end)).into_iter().fold(0.0, f64::max);
        let wanted = if together { 10.0 } else { 20.0 };
        assert!((took - wanted).abs() < 3.0, "{blocks} blocks each took {took} ms");
    }
    assert_eq!(turn.driver.cuModuleUnload(module), 0);
}

#[test]
fn blocks_beyond_what_the_card_holds_wait_for_the_first() {
    let turn = turn();
    let ((module, spin), stream) = (spin(&turn), turn.stream());
    for (blocks, waves) in [(4, 1.0), (12, 3.0)] {
        let gate = Gate::close(&turn, &[stream]);
        assert_eq!(turn.launch_grid(spin, (blocks, 1024), stream, &[4 * MS]), 0);
        let to = turn.record(stream);
        let from = gate.open(&turn, &[stream]);
        let took = turn.between(from, to);
        assert!((took - 4.0 * waves).abs() < 1.0, "{blocks} blocks took {took} ms");
    }
    assert_eq!(turn.driver.cuModuleUnload(module), 0);
}

#[test]
fn kernels_of_two_streams_that_wait_for_each_other_both_end() {
    let turn = turn();
    let module = turn.module(KERNELS);
    let (alternate, memory) = (turn.function(module, "alternate"), turn.allocate(MIB));
    assert_eq!(turn.driver.cuMemsetD8_v2(memory, 0, 4096), 0);
    let streams = [turn.stream(), turn.stream()];
    let begun = Instant::now();
    assert_eq!(turn.launch(alternate, 1, streams[0], &[memory, memory + 64, 100, 1]), 0);
    assert_eq!(turn.driver.cuStreamQuery(streams[0]), NOT_READY);
    assert_eq!(turn.launch(alternate, 1, streams[1], &[memory + 64, memory, 100, 0]), 0);
    synchronise(&turn, &streams);
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(3), "100 rounds took {took:?}");
    assert_eq!(turn.driver.cuMemFree_v2(memory), 0);
    assert_eq!(turn.driver.cuModuleUnload(module), 0);
}

#[test]
fn a_kernel_that_waits_for_the_host_lets_another_process_compute() {
    let turn = turn();
    let module = turn.module(KERNELS);
    let (alternate, stream) = (turn.function(module, "alternate"), turn.stream());
    let flags = pinned(&turn, 4096);
    let flag: *mut u32 = std::ptr::with_exposed_provenance_mut(flags as usize);
    // SAFETY: 4 KiB of host memory that the driver just gave us; both words are zeroed.
    unsafe { flag.write_bytes(0, 1024) };
    assert_eq!(turn.launch(alternate, 1, stream, &[flags, flags + 64, 1, 1]), 0);
    let mut worker = Worker::start();
    worker.order("one 5000000");
    let took_ms = worker.hears_number("TOOK") as f64 / 1e6;
    assert!(took_ms < 100.0, "another process's 5 ms took {took_ms} ms");
    // It has turns like anybody, and stands still in between.
    let turns = |mark: &Mark, from: &Mark| {
        let own = mark.since(from).into_iter();
        own.filter(|t| t.pid == std::process::id() && t.engine == Engine::Compute)
            .map(|total| total.count)
            .sum::<u64>()
    };
    let (client, patience) = (machine(), Instant::now() + Duration::from_secs(10));
    let from = client.engine_mark(0).expect("a log");
    worker.order("busy 1000000 2000");
    while turns(&client.engine_mark(0).expect("a log"), &from) < 10 {
        assert!(Instant::now() < patience, "the waiting kernel keeps its turn");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(turn.driver.cuStreamQuery(stream), NOT_READY);
    // SAFETY: an aligned word of the same memory.
    unsafe { flag.wrapping_add(16).write_volatile(1) };
    synchronise(&turn, &[stream]);
    assert_eq!(turn.driver.cuMemFreeHost(flags), 0);
    assert_eq!(turn.driver.cuModuleUnload(module), 0);
}

#[test]
fn slower_cards_take_longer_for_what_costs_and_as_long_for_what_waits() {
    let _turn = turn();
    let mut slow = Worker::start_as("SIMCUDA_SPEED", "0.1");
    slow.order("one 5000000");
    let spun_ms = slow.hears_number("TOOK") as f64 / 1e6;
    assert!((5.0..30.0).contains(&spun_ms), "a spin of 5 ms took {spun_ms} ms");
    // 16 MiB at a tenth of 4 GB/s.
    slow.order("copy 16777216");
    let copied_ms = slow.hears_number("TOOK") as f64 / 1e6;
    assert!((40.0..70.0).contains(&copied_ms), "the copy took {copied_ms} ms");
}

#[test]
fn unmapping_under_a_queued_kernel_or_copy_faults_it_and_after_a_drain_never() {
    let turn = turn();
    let (mut seed, mut faults) = (0x1234_5678_9ABC_DEF0_u64, 0);
    let mut random = move |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    for round in 0..1000 {
        let mut turn_context = 0;
        assert_eq!(turn.driver.cuDevicePrimaryCtxRetain(&mut turn_context, 0), 0);
        assert_eq!(turn.driver.cuCtxSetCurrent(turn_context), 0);
        let (module, kernel) = spin(&turn);
        let handle = turn.create(2 * MIB, &ON_CARD);
        let range = turn.reserve(2 * MIB);
        turn.map(range, 2 * MIB, handle);
        let (stream, other) = (turn.stream(), turn.stream());
        // In front of it something that takes a moment, or a gate; then a kernel or a fill.
        let mut gate = (random(3) == 0).then(|| Gate::close(&turn, &[stream]));
        if gate.is_none() {
            assert_eq!(turn.launch(kernel, 32, stream, &[100_000 + random(300_000)]), 0);
        }
        if random(2) == 0 {
            assert_eq!(turn.driver.cuMemsetD8Async(range, 7, MIB, other), 0);
        }
        match random(2) {
            0 => assert_eq!(turn.driver.cuMemsetD8Async(range, 1, 2 * MIB, stream), 0),
            _ => assert_eq!(turn.launch(kernel, 32, stream, &[1000]), 0),
        }
        let drained = random(3) == 0;
        std::thread::sleep(Duration::from_micros(random(60)));
        if drained {
            gate.take().map(|gate| gate.open(&turn, &[stream]));
            synchronise(&turn, &[stream, other]);
        }
        let queued = turn.driver.cuStreamQuery(stream) == NOT_READY;
        assert_eq!(turn.driver.cuMemUnmap(range, 2 * MIB), 0);
        // What ended between the question and the unmapping ended well.
        let queued = queued && turn.driver.cuStreamQuery(stream) != 0;
        // Mapped again at once: what was queued did not mean this memory.
        turn.map(range, 2 * MIB, handle);
        if let Some(gate) = gate {
            // Refused if the other stream's fill has already been struck.
            gate.unlock(&turn);
        }
        let result = turn.driver.cuCtxSynchronize();
        assert!(!drained || (!queued && result == 0), "round {round}: {result} after a drain");
        assert!(!queued || result == ILLEGAL_ADDRESS, "round {round}: {result} without a drain");
        faults += u32::from(result != 0);
        let _ = (turn.driver.cuMemUnmap(range, 2 * MIB), turn.driver.cuMemRelease(handle));
        assert_eq!(turn.driver.cuMemAddressFree(range, 2 * MIB), 0);
        let _ = turn.driver.cuModuleUnload(module);
        assert_eq!(turn.driver.cuDevicePrimaryCtxReset_v2(0), 0);
    }
    assert!(faults > 0, "no round ever faulted");
}

#[test]
fn machine_code_is_taken_and_timed_and_does_nothing() {
    let turn = turn();
    let image = machine_code(&["first_kernel", "_Z6secondPf"]);
    let mut module = 0;
    assert_eq!(turn.driver.cuModuleLoadData(&mut module, image.as_ptr().cast()), 0);
    let (second, stream) = (turn.function(module, "_Z6secondPf"), turn.stream());
    let gate = Gate::close(&turn, &[stream]);
    for _ in 0..100 {
        assert_eq!(turn.launch_grid(second, (64, 256), stream, &[0xDEAD]), 0);
    }
    let end = turn.record(stream);
    let took_ms = {
        let begun = gate.open(&turn, &[stream]);
        turn.between(begun, end)
    };
    // 20 us each.
    assert!((2.0..2.5).contains(&took_ms), "a hundred took {took_ms} ms");
    assert_eq!(turn.driver.cuModuleUnload(module), 0);
}

/// An ELF file with a section for each kernel and nothing in it.
fn machine_code(kernels: &[&str]) -> Vec<u8> {
    let mut names = vec![0];
    let mut at = Vec::new();
    for name in kernels.iter().map(|kernel| format!(".text.{kernel}")) {
        at.push(names.len() as u32);
        names.extend(name.bytes());
        names.push(0);
    }
    let table = 64 + names.len() as u64;
    let mut image = vec![0_u8; 64];
    image[..4].copy_from_slice(b"\x7fELF");
    image[0x28..0x30].copy_from_slice(&table.to_le_bytes());
    image[0x3C..0x3E].copy_from_slice(&(kernels.len() as u16 + 1).to_le_bytes());
    image.extend(&names);
    // The names come first; each kernel's section lies there too, with no bytes.
    for (name, bytes) in std::iter::once((0, names.len())).chain(at.into_iter().map(|at| (at, 0))) {
        let mut section = [0_u8; 64];
        section[..4].copy_from_slice(&name.to_le_bytes());
        section[4..8].copy_from_slice(&1_u32.to_le_bytes());
        section[24..32].copy_from_slice(&64_u64.to_le_bytes());
        section[32..40].copy_from_slice(&(bytes as u64).to_le_bytes());
        image.extend(section);
    }
    image
}

#[test]
fn a_stream_takes_a_thousand_launches_and_then_makes_the_next_one_wait() {
    let turn = turn();
    let ((module, spin), stream) = (spin(&turn), turn.stream());
    let gate = Gate::close(&turn, &[stream]);
    let launched = AtomicU32::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            assert_eq!(turn.driver.cuCtxSetCurrent(turn.context), 0);
            for _ in 0..1100 {
                assert_eq!(turn.launch(spin, 1, stream, &[1000]), 0);
                launched.fetch_add(1, Ordering::Relaxed);
            }
        });
        let patience = Instant::now() + Duration::from_secs(20);
        while launched.load(Ordering::Relaxed) < 1000 {
            assert!(Instant::now() < patience, "the first thousand were not taken");
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_millis(50));
        let seen = launched.load(Ordering::Relaxed);
        gate.open(&turn, &[stream]);
        assert!(seen <= 1025, "{seen} launches did not wait");
    });
    synchronise(&turn, &[stream]);
    assert_eq!(turn.driver.cuModuleUnload(module), 0);
}

#[test]
fn a_context_that_failed_waits_for_nothing_any_more() {
    let turn = turn();
    let (module, memory) = (turn.module(KERNELS), turn.allocate(MIB));
    let (waits, other) = (turn.stream(), turn.stream());
    assert_eq!(turn.driver.cuMemsetD8_v2(memory, 0, 4096), 0);
    // One stream waits for a word, one kernel for another one, and neither will come.
    assert_eq!(turn.driver.cuStreamWaitValue32_v2(waits, memory + 512, 1, 1), 0);
    let alternate = turn.function(module, "alternate");
    assert_eq!(turn.launch(alternate, 1, turn.stream(), &[memory, memory + 64, 1, 1]), 0);
    assert_eq!(turn.launch(alternate, 1, other, &[4096, 8192, 1, 1]), 0);
    assert_eq!(turn.driver.cuCtxSynchronize(), ILLEGAL_ADDRESS);
    assert_eq!(turn.driver.cuDevicePrimaryCtxReset_v2(0), 0);
}
