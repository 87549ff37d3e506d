//! `/metrics`, in the text form of OpenMetrics. Built from one snapshot at each scrape; a tenant's
//! series exist from its admission on and go with it.
#![allow(non_snake_case, reason = "DCGM calls its label UUID")]

use std::sync::atomic::AtomicU64;

use halfwarp_api::wire::Refusal;
use halfwarp_broker_core::{Counters, Kind, LeaseCounters, PoolFigures, Uuid};
use halfwarp_rest::{Gpu, Tenant, TenantGpu};
use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};
use std::collections::BTreeMap;

use crate::{lease_metrics, swap_metrics};

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
pub(crate) struct OnGpu {
    pub(crate) gpu: u32,
    pub(crate) UUID: String,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
pub(crate) struct OfTenant {
    gpu: u32,
    UUID: String,
    tenant: String,
    tenant_id: u64,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct Why {
    at: &'static str,
    reason: String,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct OfKind {
    kind: &'static str,
}

impl OfTenant {
    pub(crate) fn of(tenant: &Tenant, gpu: &TenantGpu) -> Self {
        Self {
            gpu: gpu.index,
            UUID: gpu.uuid.clone(),
            tenant: tenant.name.clone(),
            tenant_id: tenant.id,
        }
    }
}

type Gauges<L> = Family<L, Gauge<i64>>;
type Counts<L> = Family<L, Counter<u64, AtomicU64>>;

/// All that is measured, at one moment.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) pool: PoolFigures,
    pub(crate) gpus: Vec<Gpu>,
    pub(crate) tenants: Vec<Tenant>,
    pub(crate) counters: Counters,
    pub(crate) leases: Vec<(Uuid, LeaseCounters)>,
    pub(crate) events: BTreeMap<Kind, u64>,
    pub(crate) connections: usize,
    pub(crate) nvml_up: bool,
}

pub(crate) fn text(snapshot: &Snapshot) -> Result<String, std::fmt::Error> {
    let mut registry = Registry::with_prefix("halfwarp");
    gpus(&mut registry, &snapshot.gpus);
    tenants(&mut registry, &snapshot.tenants);
    lease_metrics::register(&mut registry, &snapshot.gpus, &snapshot.tenants, &snapshot.leases);
    swap_metrics::register(&mut registry, snapshot.pool, &snapshot.tenants);
    broker(&mut registry, snapshot);
    let mut text = String::new();
    encode(&mut text, &registry)?;
    Ok(text)
}

fn gauge<L>(registry: &mut Registry, name: &str, help: &str) -> Gauges<L>
where
    L: EncodeLabelSet + Clone + Eq + std::hash::Hash + std::fmt::Debug + Send + Sync + 'static,
{
    let family = Gauges::default();
    registry.register(name, help, family.clone());
    family
}

fn counts<L>(registry: &mut Registry, name: &str, help: &str) -> Counts<L>
where
    L: EncodeLabelSet + Clone + Eq + std::hash::Hash + std::fmt::Debug + Send + Sync + 'static,
{
    let family = Counts::default();
    registry.register(name, help, family.clone());
    family
}

pub(crate) fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn gpus(registry: &mut Registry, gpus: &[Gpu]) {
    let total = gauge(registry, "gpu_memory_total_bytes", "Physical memory of the card");
    let used = gauge(registry, "gpu_memory_used_bytes", "In use on the card by anybody (NVML)");
    let requested =
        gauge(registry, "gpu_memory_requested_bytes", "Sum of the requests of its tenants");
    let settling = gauge(
        registry,
        "gpu_memory_settling_bytes",
        "Bytes of ended processes that the card still shows",
    );
    for gpu in gpus {
        let labels = OnGpu { gpu: gpu.index, UUID: gpu.uuid.clone() };
        total.get_or_create(&labels).set(signed(gpu.memory_total_bytes.0));
        if let Some(bytes) = gpu.memory_used_bytes {
            used.get_or_create(&labels).set(signed(bytes.0));
        }
        requested.get_or_create(&labels).set(signed(gpu.memory_requested_bytes.0));
        settling.get_or_create(&labels).set(signed(gpu.memory_settling_bytes.0));
    }
}

fn tenants(registry: &mut Registry, tenants: &[Tenant]) {
    let used = gauge(registry, "memory_used_bytes", "Held by the tenant, contexts included");
    let request = gauge(registry, "memory_request_bytes", "Guaranteed to the tenant");
    let limit = gauge(registry, "memory_limit_bytes", "Most that the tenant may hold");
    let context = gauge(registry, "memory_context_bytes", "Held by the tenant as contexts");
    let refused = counts(registry, "out_of_memory_answers", "Allocations refused to the tenant");
    let processes = gauge(registry, "processes", "Processes of the tenant that are joined");
    for tenant in tenants {
        for gpu in &tenant.gpus {
            let labels = OfTenant::of(tenant, gpu);
            used.get_or_create(&labels).set(signed(gpu.held_bytes.0));
            request.get_or_create(&labels).set(signed(gpu.request_bytes.0));
            limit.get_or_create(&labels).set(signed(gpu.limit_bytes.0));
            context.get_or_create(&labels).set(signed(gpu.context_bytes.0));
            refused.get_or_create(&labels).inc_by(gpu.refused);
            processes.get_or_create(&labels).set(signed(tenant.processes.len() as u64));
        }
    }
}

fn broker(registry: &mut Registry, snapshot: &Snapshot) {
    let counters = &snapshot.counters;
    let plain = |registry: &mut Registry, name: &str, help: &str, value: u64| {
        let counter = Counter::<u64, AtomicU64>::default();
        counter.inc_by(value);
        registry.register(name, help, counter);
    };
    plain(registry, "joins", "Processes that have joined", counters.joins);
    let text = "Functions newer than the table that were passed through";
    plain(registry, "unknown_functions", text, counters.unknown_functions);
    let text = "Frames that could not be read or that lied";
    plain(registry, "protocol_errors", text, counters.protocol_errors);
    let text = "Tenants ended to get memory back that is guaranteed to others";
    plain(registry, "reclaims", text, counters.reclaims);
    let text = "Times that guaranteed memory could not be had";
    plain(registry, "broken_guarantees", text, counters.broken_guarantees);
    let refusals = counts(registry, "refusals", "Refused joins and admissions, by reason");
    for (code, count) in &counters.join_refusals {
        let reason = Refusal::from_code(*code).map_or_else(|| "other".to_owned(), kebab);
        refusals.get_or_create(&Why { at: "join", reason }).inc_by(*count);
    }
    for (reason, count) in &counters.admission_refusals {
        let reason = (*reason).to_owned();
        refusals.get_or_create(&Why { at: "admission", reason }).inc_by(*count);
    }
    let events = counts(registry, "events", "Events, by kind");
    for kind in Kind::ALL {
        let count = snapshot.events.get(kind).copied().unwrap_or(0);
        events.get_or_create(&OfKind { kind: kind.as_str() }).inc_by(count);
    }
    let connections = Gauge::<i64>::default();
    connections.set(signed(snapshot.connections as u64));
    registry.register("connections", "Connections to join.sock", connections);
    let up = Gauge::<i64>::default();
    up.set(i64::from(snapshot.nvml_up));
    registry.register("nvml_up", "Whether NVML answers in time", up);
}

/// `UnknownTenant` as `unknown-tenant`.
fn kebab(why: Refusal) -> String {
    let mut text = String::new();
    for c in format!("{why:?}").chars() {
        if c.is_ascii_uppercase() && !text.is_empty() {
            text.push('-');
        }
        text.push(c.to_ascii_lowercase());
    }
    text
}
