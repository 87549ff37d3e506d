//! What an open gate costs a launch: announce, fence, look, withdraw; without the call itself.

use std::{hint::black_box, sync::atomic::AtomicU32};

use criterion::{Criterion, criterion_group, criterion_main};
use halfwarp_gate::pass::{Announcement, announce, is_open, withdraw};

fn gate(c: &mut Criterion) {
    let (slot, residency, lease) = (AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0));
    c.bench_function("gate_pass", |b| {
        b.iter(|| {
            let before = announce(black_box(&slot), Announcement::launch(None));
            let open = is_open(black_box(&residency)) && is_open(black_box(&lease));
            withdraw(black_box(&slot), before);
            open
        });
    });
}

criterion_group!(benches, gate);
criterion_main!(benches);
