//! What must outlive the broker: tenants by token, their entitlements, and what contexts cost.
//! Not the ledgers: a process that comes back says what it holds, within the same limits.

use std::collections::{BTreeMap, BTreeSet};

use halfwarp_api::{UNIT_BYTES, wire::Token};
use halfwarp_rest::Mode;

use crate::{
    Nanos, RETURN_HOME_NS,
    card::Uuid,
    event::Runner,
    reclaim::Lending,
    residency::{CHUNKS_KEPT, Suspension},
    state::State,
    tenant::{Tenant, TenantGpu},
};

/// Everything that is kept.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Saved {
    pub next_tenant: u64,
    pub tenants: Vec<SavedTenant>,
    /// Measured cost of a context, in units.
    pub contexts: BTreeMap<Uuid, u32>,
    pub modes: BTreeMap<Uuid, Mode>,
    pub leases_ms: BTreeMap<Uuid, u16>,
    /// No chunk has a number above this.
    pub next_chunk: u32,
}

/// A tenant, without what its processes hold.
#[derive(Clone, PartialEq, Debug)]
pub struct SavedTenant {
    pub id: u64,
    pub token: Token,
    pub name: String,
    pub uid: u32,
    pub priority: u16,
    pub group: Option<String>,
    pub runner: Option<Runner>,
    pub ending: bool,
    pub started_at_s: u64,
    /// It may be ended to get guaranteed memory back.
    pub may_end: bool,
    pub swap: bool,
    /// It was suspended, or was to be.
    pub suspended: bool,
    pub gpus: Vec<SavedGpu>,
    /// Processes that were joined.
    pub pids: Vec<u32>,
}

/// An entitlement on one card.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SavedGpu {
    pub uuid: Uuid,
    pub request_units: u32,
    pub limit_units: u32,
    pub share_percent: u8,
    pub share_limit_percent: u8,
}

impl State {
    /// What is to be kept now.
    #[must_use]
    pub fn saved(&self) -> Saved {
        let tenants = self.tenants.values().map(|tenant| SavedTenant {
            id: tenant.id,
            token: tenant.token,
            name: tenant.name.clone(),
            uid: tenant.uid,
            priority: tenant.priority,
            group: tenant.group.clone(),
            runner: tenant.runner,
            ending: tenant.ending,
            started_at_s: tenant.started_at_s,
            may_end: tenant.lending.may_end,
            swap: tenant.swap,
            suspended: tenant.suspension != Suspension::None,
            gpus: tenant.gpus.iter().map(SavedGpu::of).collect(),
            pids: self.pids(tenant).into_iter().collect(),
        });
        let measured = |card: &crate::card::Card| Some((card.facts.uuid, card.context_units?));
        Saved {
            next_tenant: self.next_tenant,
            tenants: tenants.collect(),
            contexts: self.cards.values().filter_map(measured).collect(),
            modes: self.cards.iter().map(|(uuid, card)| (*uuid, card.mode)).collect(),
            leases_ms: self.cards.iter().map(|(uuid, card)| (*uuid, card.lease_ms)).collect(),
            next_chunk: self.residency.next_chunk.next_multiple_of(CHUNKS_KEPT),
        }
    }

    /// Takes back what an earlier broker kept. A tenant with a card that is gone, or that would
    /// overfill one, is left out and returned by name.
    ///
    /// The daemon leaves out pids that have ended, and reports each runner that has.
    pub fn restore(&mut self, now: Nanos, saved: Saved) -> Vec<String> {
        self.next_tenant = self.next_tenant.max(saved.next_tenant);
        self.residency.next_chunk = saved.next_chunk;
        for (uuid, card) in &mut self.cards {
            card.context_units = saved.contexts.get(uuid).copied();
            card.mode = saved.modes.get(uuid).copied().unwrap_or_default();
            card.lease_ms = saved.leases_ms.get(uuid).copied().unwrap_or(card.lease_ms);
        }
        let mut left_out = Vec::new();
        for kept in saved.tenants {
            let name = kept.name.clone();
            if !self.restore_tenant(now, kept) {
                left_out.push(name);
            }
        }
        left_out
    }

    fn restore_tenant(&mut self, now: Nanos, kept: SavedTenant) -> bool {
        let fits = |gpu: &SavedGpu| {
            self.cards.get(&gpu.uuid).is_some_and(|card| {
                let requested = self.requested_units(gpu.uuid) + u64::from(gpu.request_units);
                requested <= card.total_units() && u64::from(gpu.limit_units) <= card.total_units()
            })
        };
        let known = self.tenants.values().any(|t| t.token == kept.token || t.id == kept.id);
        if known || kept.gpus.is_empty() || !kept.gpus.iter().all(fits) {
            return false;
        }
        let absent: BTreeSet<u32> = kept.pids.into_iter().collect();
        // In any case there is a first look at who is left.
        let until = if absent.is_empty() { now } else { now + RETURN_HOME_NS };
        self.home_until = self.home_until.max(Some(until));
        self.next_tenant = self.next_tenant.max(kept.id + 1);
        let tenant = Tenant {
            id: kept.id,
            token: kept.token,
            name: kept.name,
            uid: kept.uid,
            priority: kept.priority,
            party: self.party_of(kept.uid, kept.group.as_deref()).unwrap_or(kept.id),
            group: kept.group,
            runner: kept.runner,
            runner_gone: false,
            ending: kept.ending,
            started_at_s: kept.started_at_s,
            gpus: kept.gpus.into_iter().map(SavedGpu::entitlement).collect(),
            processes: BTreeSet::new(),
            lending: Lending { may_end: kept.may_end, ..Lending::default() },
            swap: kept.swap,
            suspension: if kept.suspended { Suspension::Suspended } else { Suspension::None },
            suspension_until: 0,
            suspension_failed: None,
            absent,
        };
        self.tenants.insert(kept.id, tenant);
        self.compute.stale = true;
        self.note_tenants(now);
        true
    }

    /// What the card shows in the hands of a tenant's processes that have yet to come back.
    pub(crate) fn absent_units(&self, tenant: &Tenant, card: Uuid) -> u64 {
        let shown = |pid: &u32| self.shown_bytes(card, *pid).flatten();
        tenant.absent.iter().filter_map(shown).map(|bytes| bytes.div_ceil(UNIT_BYTES)).sum()
    }

    /// Whether, and with how much, the last look at a card showed a process.
    fn shown_bytes(&self, card: Uuid, pid: u32) -> Option<Option<u64>> {
        let sample = self.cards.get(&card)?.sample.as_ref()?;
        sample.processes.as_ref()?.get(&pid).copied()
    }

    /// Room is kept no longer, but a process that has not come back and is still on a card (stopped,
    /// say) keeps counting with what it has there, until it comes or the card shows it no more.
    pub(crate) fn forget_absent(&mut self) {
        let mut gone = Vec::new();
        for tenant in self.tenants.values() {
            let on_a_card =
                |pid| tenant.gpus.iter().any(|gpu| self.shown_bytes(gpu.uuid, pid).is_some());
            gone.extend(
                tenant.absent.iter().filter(|pid| !on_a_card(**pid)).map(|p| (tenant.id, *p)),
            );
        }
        for (id, pid) in gone {
            if let Some(tenant) = self.tenants.get_mut(&id) {
                tenant.absent.remove(&pid);
            }
        }
    }

    /// Pids of a tenant's processes, those that have yet to come back among them.
    pub(crate) fn pids(&self, tenant: &Tenant) -> BTreeSet<u32> {
        let joined = tenant.processes.iter().filter_map(|c| self.processes.get(c));
        joined.map(|p| p.peer.pid).chain(tenant.absent.iter().copied()).collect()
    }
}

impl SavedGpu {
    fn of(gpu: &TenantGpu) -> Self {
        Self {
            uuid: gpu.uuid,
            request_units: gpu.request_units,
            limit_units: gpu.limit_units,
            share_percent: gpu.share_percent,
            share_limit_percent: gpu.share_limit_percent,
        }
    }

    fn entitlement(self) -> TenantGpu {
        TenantGpu {
            share_percent: self.share_percent,
            share_limit_percent: self.share_limit_percent,
            ..TenantGpu::new(self.uuid, self.request_units, self.limit_units)
        }
    }
}
