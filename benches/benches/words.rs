//! What is done once for a look-up, a frame or a command line: never on the path of a launch.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use halfwarp_api::wire::ToBroker;
use halfwarp_rest::MemoryWish;
use shim_cuda_headers::DriverFn;

fn words(c: &mut Criterion) {
    c.bench_function("answering", |b| {
        b.iter(|| DriverFn::answering(black_box(b"cuStreamSynchronize"), 13_000, true));
    });
    c.bench_function("by_symbol", |b| {
        b.iter(|| DriverFn::by_symbol(black_box(b"cuStreamSynchronize")));
    });
    c.bench_function("frame_round_trip", |b| {
        b.iter(|| {
            let frame = ToBroker::Grow { seq: 7, gpu: 1, wanted: black_box(4096) }.encode();
            ToBroker::decode(black_box(&frame))
        });
    });
    c.bench_function("memory_wish", |b| {
        b.iter(|| black_box("4GiB..16GiB").parse::<MemoryWish>());
    });
}

criterion_group!(benches, words);
criterion_main!(benches);
