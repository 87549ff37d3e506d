//! The part of `/metrics` about moves between cards and host memory.
#![allow(non_snake_case, reason = "DCGM calls its label UUID")]

use std::sync::atomic::AtomicU64;

use halfwarp_broker_core::PoolFigures;
use halfwarp_rest::Tenant;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

use crate::metrics::{OfTenant, signed};

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct Moved {
    gpu: u32,
    UUID: String,
    tenant: String,
    tenant_id: u64,
    /// `out` or `in`.
    direction: &'static str,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct Kept {
    gpu: u32,
    UUID: String,
    tenant: String,
    tenant_id: u64,
    reason: String,
}

pub(crate) fn register(registry: &mut Registry, pool: PoolFigures, tenants: &[Tenant]) {
    for (name, help, bytes) in [
        ("host_pool_bytes", "Host memory that may hold copies", pool.total_bytes),
        ("host_pool_used_bytes", "Host memory that is kept for copies", pool.used_bytes),
    ] {
        let gauge = Gauge::<i64>::default();
        gauge.set(signed(bytes));
        registry.register(name, help, gauge);
    }
    let swapped = Family::<OfTenant, Gauge>::default();
    let text = "Held by the tenant in host copies";
    registry.register("memory_swapped_bytes", text, swapped.clone());
    let unmovable = Family::<Kept, Gauge>::default();
    let text = "1 for each reason for which the tenant's memory can't be moved";
    registry.register("memory_unmovable", text, unmovable.clone());
    let bytes = Family::<Moved, Counter>::default();
    registry.register("swap_bytes", "Bytes moved off the card and back", bytes.clone());
    let seconds = Family::<Moved, Counter<f64, AtomicU64>>::default();
    let text = "Time from a move's beginning to its end, the drain included";
    registry.register("swap_seconds", text, seconds.clone());
    for tenant in tenants.iter().filter(|tenant| tenant.swap) {
        for gpu in &tenant.gpus {
            let labels = OfTenant::of(tenant, gpu);
            swapped.get_or_create(&labels).set(signed(gpu.swap.swapped_bytes.0));
            let (UUID, name) = (&gpu.uuid, &tenant.name);
            for reason in &gpu.swap.reasons {
                let kept = Kept {
                    gpu: gpu.index,
                    UUID: UUID.clone(),
                    tenant: name.clone(),
                    tenant_id: tenant.id,
                    reason: reason.clone(),
                };
                unmovable.get_or_create(&kept).set(1);
            }
            for (direction, moves) in [("out", &gpu.swap.out), ("in", &gpu.swap.back)] {
                let moved = Moved {
                    gpu: gpu.index,
                    UUID: UUID.clone(),
                    tenant: name.clone(),
                    tenant_id: tenant.id,
                    direction,
                };
                bytes.get_or_create(&moved).inc_by(moves.bytes.0);
                seconds.get_or_create(&moved).inc_by(moves.seconds);
            }
        }
    }
}
