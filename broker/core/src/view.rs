//! What the broker shows of itself, as the API's bodies: one snapshot of the books and of what the
//! pages last said, each word checked against its book.

use halfwarp_api::{UNIT_BYTES, bytes};
use halfwarp_rest as rest;
use halfwarp_rest::{Bytes, Percent};

use crate::{
    card::{Card, Uuid},
    event::{ClientId, PageRef},
    residency::Place,
    state::State,
    tenant::Tenant,
};

const fn as_bytes(units: u64) -> Bytes {
    Bytes(units * UNIT_BYTES)
}

impl State {
    /// The cards, in NVML's order.
    #[must_use]
    pub fn gpus(&self) -> Vec<rest::Gpu> {
        let mut gpus: Vec<_> = self.cards.values().map(|card| self.gpu(card)).collect();
        gpus.sort_by_key(|gpu| gpu.index);
        gpus
    }

    /// The tenants, in the order they came.
    #[must_use]
    pub fn tenants(&self) -> Vec<rest::Tenant> {
        self.tenants.values().map(|tenant| self.shown(tenant)).collect()
    }

    #[must_use]
    pub fn tenant(&self, id: u64) -> Option<rest::Tenant> {
        self.tenants.get(&id).map(|tenant| self.shown(tenant))
    }

    /// Every ledger word there is, to be read before anything is shown.
    #[must_use]
    pub fn pages(&self) -> Vec<PageRef> {
        self.processes.keys().flat_map(|client| self.pages_of_client(*client)).collect()
    }

    /// The ledger words of one process.
    #[must_use]
    pub fn pages_of_client(&self, client: ClientId) -> Vec<PageRef> {
        let slots = self.processes.get(&client).map_or(0, |p| p.gpus.len());
        (0..slots).map(|slot| PageRef { client, slot: slot as u8 }).collect()
    }

    fn gpu(&self, card: &Card) -> rest::Gpu {
        let here = self.slots_on(card.facts.uuid);
        let held = here
            .iter()
            .filter_map(|(id, slot)| Some(self.held_on_card(self.tenants.get(id)?, *slot)));
        rest::Gpu {
            index: card.facts.index,
            uuid: card.facts.uuid.to_string(),
            name: card.facts.name.clone(),
            mode: card.mode,
            lease_ms: card.lease_ms,
            memory_total_bytes: Bytes(card.facts.total_bytes),
            memory_used_bytes: card.sample.as_ref().map(|sample| Bytes(sample.used_bytes)),
            memory_requested_bytes: as_bytes(self.requested_units(card.facts.uuid)),
            memory_held_bytes: as_bytes(held.sum()),
            memory_settling_bytes: as_bytes(card.settling_units()),
            context_bytes: Bytes(bytes(card.context_estimate_units())),
            context_measured: card.context_units.is_some(),
            tenants: here.into_iter().map(|(id, _)| id).collect(),
        }
    }

    fn shown_turns(&self, tenant: &Tenant, card: Uuid) -> rest::Compute {
        let turns = self.turns(tenant, card);
        rest::Compute {
            lease: turns.state.to_owned(),
            share_received: turns.received,
            share_entitled: turns.entitled,
            granted_seconds: turns.granted_seconds,
            entitled_seconds: turns.entitled_seconds,
            interlocked: turns.interlocked,
        }
    }

    fn shown_swap(&self, tenant: &Tenant, slot: u8) -> rest::Swap {
        let place = Place { id: tenant.id, slot };
        let residence = &tenant.gpus[usize::from(slot)].residence;
        let shown = |moves: &crate::MoveCounters| rest::Moves {
            moves: moves.moves,
            bytes: Bytes(moves.bytes),
            seconds: moves.seconds,
        };
        rest::Swap {
            residency: self.residency_word(place).to_owned(),
            swapped_bytes: as_bytes(self.swapped_units(place)),
            host_bytes: Bytes(self.host_bytes(place)),
            reasons: self.reason_names(place).into_iter().map(str::to_owned).collect(),
            out: shown(&residence.out),
            back: shown(&residence.back),
        }
    }

    fn shown(&self, tenant: &Tenant) -> rest::Tenant {
        let joined = || tenant.processes.iter().filter_map(|c| self.processes.get(c));
        let moved = self.residency_state(tenant);
        let state = match (tenant.ending, tenant.processes.is_empty()) {
            (true, _) => "ended",
            (false, true) => moved.filter(|state| *state == "suspended").unwrap_or("waiting"),
            (false, false) => moved.unwrap_or("running"),
        };
        let gpus = tenant.gpus.iter().enumerate().map(|(slot, gpu)| rest::TenantGpu {
            compute: self.shown_turns(tenant, gpu.uuid),
            index: self.cards.get(&gpu.uuid).map_or(0, |card| card.facts.index),
            uuid: gpu.uuid.to_string(),
            request_bytes: Bytes(bytes(gpu.request_units)),
            limit_bytes: Bytes(bytes(gpu.limit_units)),
            held_bytes: as_bytes(self.held_units(tenant, slot as u8)),
            context_bytes: as_bytes(
                joined()
                    .filter_map(|p| p.gpus.get(slot))
                    .map(|own| u64::from(own.context_units.min(own.held_units())))
                    .sum(),
            ),
            refused: gpu.refused,
            swap: self.shown_swap(tenant, slot as u8),
        });
        let first = tenant.gpus.first();
        rest::Tenant {
            id: tenant.id,
            name: tenant.name.clone(),
            uid: tenant.uid,
            state: state.to_owned(),
            priority: tenant.priority,
            group: tenant.group.clone(),
            stalled: self.is_stalled(tenant),
            share: Percent(first.map_or(0, |gpu| gpu.share_percent)),
            share_limit: Percent(first.map_or(100, |gpu| gpu.share_limit_percent)),
            swap: tenant.swap,
            on_reclaim: if tenant.lending.may_end {
                rest::OnReclaim::End
            } else {
                rest::OnReclaim::Keep
            },
            started_at: tenant.started_at_s,
            processes: joined()
                .map(|p| rest::Process {
                    pid: p.peer.pid,
                    command: p.peer.command.clone(),
                    joined_at: p.joined_at_s,
                })
                .collect(),
            gpus: gpus.collect(),
        }
    }
}
