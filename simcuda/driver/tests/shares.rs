//! Several processes on one card: whose kernels run when, by the machine's own log.

mod api;
mod worker;

use api::turn;
use simcuda_protocol::engines::Engine;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use worker::{KERNELS, Worker, machine};

/// Not a test of its own: what `Worker` starts.
#[test]
#[ignore = "started by other tests as another process"]
fn worker_process() {
    worker::work();
}

/// Time of the engine that each process has in the next so many milliseconds.
fn used_in(ms: u64) -> BTreeMap<u32, u64> {
    let client = machine();
    let from = client.engine_mark(0).expect("a log");
    std::thread::sleep(Duration::from_millis(ms));
    let to = client.engine_mark(0).expect("a log");
    let wall_ns = to.now_ns - from.now_ns;
    let used: BTreeMap<u32, u64> = to.used_since(&from, Engine::Compute).into_iter().collect();
    let all: u64 = used.values().sum();
    let busy = all as f64 / wall_ns as f64 * 100.0;
    assert!((90.0..105.0).contains(&busy), "the engine was busy for {busy:.1} %: {used:?}");
    used
}

fn share(used: &BTreeMap<u32, u64>, worker: &Worker) -> f64 {
    let own = used.get(&worker.pid()).copied().unwrap_or(0);
    own as f64 / used.values().sum::<u64>() as f64 * 100.0
}

/// Waits until the process has had the engine.
fn wait_for(worker: &Worker) {
    let (client, patience) = (machine(), Instant::now() + Duration::from_secs(20));
    let from = client.engine_mark(0).expect("a log");
    loop {
        let now = client.engine_mark(0).expect("a log");
        if now.used_since(&from, Engine::Compute).iter().any(|(pid, _)| *pid == worker.pid()) {
            return;
        }
        assert!(Instant::now() < patience, "process {} never had a turn", worker.pid());
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn eight_busy_processes_have_equal_shares_of_the_engine() {
    let _turn = turn();
    let mut workers: Vec<_> = (0..8).map(|_| Worker::start()).collect();
    workers.iter_mut().for_each(|worker| worker.order("busy 1000000 4500"));
    workers.iter().for_each(wait_for);
    let used = used_in(3000);
    for worker in &workers {
        let share = share(&used, worker);
        assert!((share - 12.5).abs() < 1.0, "{share:.2} % instead of 12.5: {used:?}");
    }
    let kernels: Vec<u64> = workers.iter_mut().map(|w| w.hears_number("KERNELS")).collect();
    let mean = kernels.iter().sum::<u64>() as f64 / 8.0;
    let even = |count: &u64| (*count as f64 - mean).abs() < mean * 0.1;
    assert!(kernels.iter().all(even), "finished kernels: {kernels:?}");
}

#[test]
fn a_process_with_long_kernels_has_no_more_than_one_with_short_ones() {
    let _turn = turn();
    let mut workers = [Worker::start(), Worker::start()];
    workers[0].order("busy 50000000 2500");
    workers[1].order("busy 200000 2500");
    workers.iter().for_each(wait_for);
    let used = used_in(1500);
    let share = share(&used, &workers[0]);
    assert!((share - 50.0).abs() < 3.0, "{share:.2} % for kernels of 50 ms: {used:?}");
}

#[test]
fn a_long_kernel_gives_way_to_a_short_one_within_about_a_slice() {
    let _turn = turn();
    let mut workers = [Worker::start(), Worker::start()];
    workers[0].order("one 4000000000");
    wait_for(&workers[0]);
    let mut took_ms: Vec<f64> = (0..15)
        .map(|_| {
            workers[1].order("one 1000000");
            workers[1].hears_number("TOOK") as f64 / 1e6
        })
        .collect();
    took_ms.sort_by(f64::total_cmp);
    // Its own millisecond, at most one slice of two before it, and what a loaded host adds.
    assert!(took_ms[0] > 0.9 && took_ms[7] < 8.0, "{took_ms:?} ms");
}

#[test]
fn a_killed_process_loses_its_turn_at_once() {
    let _turn = turn();
    let mut workers = vec![Worker::start(), Worker::start()];
    workers[0].order("one 20000000000");
    workers[1].order("busy 1000000 3000");
    workers.iter().for_each(wait_for);
    drop(workers.remove(0));
    let used = used_in(500);
    let share = share(&used, &workers[0]);
    assert!(share > 98.0, "{share:.2} % for the only one left: {used:?}");
}

#[test]
fn a_stopped_process_loses_its_turn_and_comes_back_when_it_goes_on() {
    let _turn = turn();
    let mut workers = [Worker::start(), Worker::start()];
    workers.iter_mut().for_each(|worker| worker.order("busy 1000000 6000"));
    workers.iter().for_each(wait_for);
    workers[0].signal(libc::SIGSTOP);
    std::thread::sleep(Duration::from_millis(150));
    let used = used_in(500);
    assert!(share(&used, &workers[1]) > 98.0, "while the other is stopped: {used:?}");
    workers[0].signal(libc::SIGCONT);
    wait_for(&workers[0]);
    let used = used_in(1000);
    let back = share(&used, &workers[0]);
    assert!((back - 50.0).abs() < 5.0, "{back:.2} % after it goes on: {used:?}");
}

#[test]
fn kernels_of_two_processes_that_wait_for_each_other_both_end() {
    let turn = turn();
    let (descriptor, memory) = worker::shared(&turn);
    let mut worker = Worker::start_with(Some(&descriptor));
    let module = turn.module(KERNELS);
    let (alternate, stream) = (turn.function(module, "alternate"), turn.stream());
    worker.order("second 50");
    let begun = Instant::now();
    assert_eq!(turn.launch(alternate, 1, stream, &[memory, memory + 64, 50, 1]), 0);
    assert_eq!(turn.driver.cuStreamSynchronize(stream), 0);
    worker.hears("DONE");
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(5), "50 rounds took {took:?}");
    assert_eq!(turn.driver.cuModuleUnload(module), 0);
}
