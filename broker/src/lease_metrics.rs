//! The part of `/metrics` about turns on the compute engines.
#![allow(non_snake_case, reason = "DCGM calls its label UUID")]

use std::sync::atomic::AtomicU64;

use halfwarp_broker_core::{LeaseCounters, Uuid, WAIT_BOUNDS_NS};
use halfwarp_rest::{Gpu, Tenant};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder},
    metrics::{MetricType, counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

use crate::metrics::{OfTenant, OnGpu};

type Seconds = Family<OfTenant, Counter<f64, AtomicU64>>;
type Ratios = Family<OfTenant, Gauge<f64, AtomicU64>>;

pub(crate) fn register(
    registry: &mut Registry,
    gpus: &[Gpu],
    tenants: &[Tenant],
    leases: &[(Uuid, LeaseCounters)],
) {
    of_tenants(registry, tenants);
    let text = "Turns begun on the card";
    let grants = Family::<OnGpu, Counter>::default();
    registry.register("lease_grants", text, grants.clone());
    let text = "Attempts to end a turn that found work still in flight at their deadline";
    let overruns = Family::<OnGpu, Counter>::default();
    registry.register("lease_overruns", text, overruns.clone());
    let mut waits = Vec::new();
    for (uuid, counters) in leases {
        let UUID = uuid.to_string();
        let Some(gpu) = gpus.iter().find(|gpu| gpu.uuid == UUID) else { continue };
        let labels = OnGpu { gpu: gpu.index, UUID };
        grants.get_or_create(&labels).inc_by(counters.grants);
        overruns.get_or_create(&labels).inc_by(counters.overruns);
        waits.push((labels, counters.clone()));
    }
    registry.register_collector(Box::new(Waits(waits)));
}

fn of_tenants(registry: &mut Registry, tenants: &[Tenant]) {
    let granted = Seconds::default();
    let text = "Time on the card from grants to the ends of the work, while turns were taken";
    registry.register("compute_granted_seconds", text, granted.clone());
    let entitled = Seconds::default();
    let text = "Time on the card that the tenant was entitled to while it asked";
    registry.register("compute_entitled_seconds", text, entitled.clone());
    let received = Ratios::default();
    let text = "Part of the card received over the last ten seconds, where turns are taken";
    registry.register("compute_share_received_ratio", text, received.clone());
    let due = Ratios::default();
    let text = "Part of the card entitled to over the last ten seconds, where turns are taken";
    registry.register("compute_share_entitled_ratio", text, due.clone());
    for tenant in tenants {
        for gpu in &tenant.gpus {
            let labels = OfTenant::of(tenant, gpu);
            granted.get_or_create(&labels).inc_by(gpu.compute.granted_seconds);
            entitled.get_or_create(&labels).inc_by(gpu.compute.entitled_seconds);
            if let Some(share) = gpu.compute.share_received {
                received.get_or_create(&labels).set(share);
            }
            if let Some(share) = gpu.compute.share_entitled {
                due.get_or_create(&labels).set(share);
            }
        }
    }
}

/// How long turns were waited for, as the core has counted it.
#[derive(Debug)]
struct Waits(Vec<(OnGpu, LeaseCounters)>);

impl Collector for Waits {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let text = "From asking for a turn to its beginning";
        let mut metric =
            encoder.encode_descriptor("lease_wait_seconds", text, None, MetricType::Histogram)?;
        for (labels, counters) in &self.0 {
            One(counters).encode(metric.encode_family(labels)?)?;
        }
        Ok(())
    }
}

struct One<'a>(&'a LeaseCounters);

impl EncodeMetric for One<'_> {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), std::fmt::Error> {
        let bounds = WAIT_BOUNDS_NS.iter().map(|ns| *ns as f64 / 1e9).chain([f64::MAX]);
        let buckets: Vec<(f64, u64)> = bounds.zip(self.0.waits).collect();
        let sum = self.0.waited_ns as f64 / 1e9;
        encoder.encode_histogram::<prometheus_client::encoding::NoLabelSet>(
            sum,
            self.0.grants,
            &buckets,
            None,
        )
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }
}
