//! What each process's lease gate is to be, and the words that say so.

use halfwarp_api::shm;

use crate::{
    card::Uuid,
    event::{Action, ClientId, PageRef},
    state::State,
};

use super::{
    BOUND_HIGHEST_NS, BOUND_NS,
    party::{Claim, Stage},
};

/// A lease gate. The numbers are the page's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u32)]
pub enum Gate {
    #[default]
    Open = shm::GATE_OPEN,
    Closed = shm::GATE_CLOSED,
    Armed = shm::GATE_ARMED,
}

/// The three words about the lease in a process's page.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GateWords {
    pub gate: Gate,
    pub lease: u32,
    pub bound_ns: u32,
}

/// A process's place at the gate of one card.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seat {
    pub(crate) words: GateWords,
    /// Said `Want` at the closed gate.
    pub(crate) wants: bool,
    /// Said `Idle` in this turn, or has not asked yet.
    pub(crate) idle: bool,
    /// `seq` of the `Drain` it has not answered.
    pub(crate) drain: Option<u32>,
    /// Did not answer one in time, and has said nothing since.
    pub(crate) silent: bool,
}

impl Seat {
    pub(crate) fn is_open(&self) -> bool {
        self.words.gate == Gate::Open
    }
}

impl State {
    pub(crate) fn seat(&self, at: PageRef) -> Option<&Seat> {
        let process = self.processes.get(&at.client)?;
        process.gpus.get(usize::from(at.slot)).map(|gpu| &gpu.seat)
    }

    pub(crate) fn seat_mut(&mut self, at: PageRef) -> Option<&mut Seat> {
        let process = self.processes.get_mut(&at.client)?;
        process.gpus.get_mut(usize::from(at.slot)).map(|gpu| &mut gpu.seat)
    }

    pub(crate) fn has_swap(&self, at: PageRef) -> bool {
        let process = self.processes.get(&at.client);
        process.and_then(|p| self.tenants.get(&p.tenant)).is_some_and(|tenant| tenant.swap)
    }

    /// Whether turns are taken on the card of a page.
    pub(crate) fn is_contested(&self, at: PageRef) -> bool {
        let Some((id, card)) = self.party_at(at) else { return false };
        let claim = self.compute.parties.get(&id).and_then(|party| party.claims.get(&card));
        claim.is_some_and(|claim| claim.contested)
    }

    /// The party and card of a page, as the tenant has it.
    pub(crate) fn party_at(&self, at: PageRef) -> Option<(u64, Uuid)> {
        let process = self.processes.get(&at.client)?;
        let tenant = self.tenants.get(&process.tenant)?;
        Some((tenant.party, tenant.gpus.get(usize::from(at.slot))?.uuid))
    }

    /// Makes every gate what it is to be by now, and says each change.
    pub(crate) fn set_gates(&mut self, actions: &mut Vec<Action>) {
        let mut wanted = Vec::new();
        for party in self.compute.parties.values() {
            for (uuid, claim) in &party.claims {
                let never_closed = self.is_never_closed(*uuid, claim);
                for at in &claim.seats {
                    let bound_ns = match (claim.contested, never_closed) {
                        // Whoever can be moved says when it is idle.
                        (false, _) if self.has_swap(*at) => BOUND_HIGHEST_NS,
                        (false, _) => 0,
                        (true, true) => BOUND_HIGHEST_NS,
                        (true, false) => BOUND_NS,
                    };
                    wanted.push((*at, claim.contested.then_some(&party.stage), bound_ns));
                }
            }
        }
        let mut changes = Vec::new();
        for (at, stage, bound_ns) in wanted {
            let Some(seat) = self.seat(at) else { continue };
            let gate = match stage {
                None if seat.idle && bound_ns > 0 => Gate::Armed,
                None => Gate::Open,
                Some(Stage::Holding { .. }) if seat.idle => Gate::Armed,
                Some(Stage::Holding { .. }) => Gate::Open,
                // One kind of closed is as good as the other.
                Some(_) if !seat.is_open() => seat.words.gate,
                Some(Stage::Out) if !seat.wants => Gate::Armed,
                Some(_) => Gate::Closed,
            };
            changes.push((at, gate, bound_ns));
        }
        for (at, gate, bound_ns) in changes {
            self.set_gate(at, gate, bound_ns, actions);
        }
    }

    fn set_gate(&mut self, at: PageRef, gate: Gate, bound_ns: u32, actions: &mut Vec<Action>) {
        let Some(seat) = self.seat_mut(at) else { return };
        let former = seat.words;
        let lease = former.lease.wrapping_add(u32::from(gate != former.gate));
        seat.words = GateWords { gate, lease, bound_ns };
        if seat.words == former {
            return;
        }
        if gate == Gate::Open {
            (seat.wants, seat.idle) = (false, false);
        }
        actions.push(Action::Gate { at, words: seat.words });
    }

    /// Whether nobody can end its turns: it is above all others on the card, none of which is
    /// guaranteed anything, and has no limit itself.
    fn is_never_closed(&self, card: Uuid, own: &Claim) -> bool {
        let claims = self.compute.parties.values().filter_map(|party| party.claims.get(&card));
        let joined = claims.filter(|claim| !claim.seats.is_empty());
        let mut others = joined.filter(|claim| !std::ptr::eq(*claim, own));
        !own.capped() && others.all(|claim| claim.class < own.class && claim.share == 0.0)
    }

    /// The words for the page of a process that is about to be welcomed. Nothing is launched before
    /// the welcome, so its gates are closed without a drain.
    pub(crate) fn first_words(
        &mut self,
        client: ClientId,
        actions: &mut Vec<Action>,
    ) -> Vec<GateWords> {
        if let Some(process) = self.processes.get_mut(&client) {
            for gpu in &mut process.gpus {
                gpu.seat.words.gate = Gate::Armed;
                gpu.seat.idle = true;
            }
        }
        self.regroup(self.compute.written_until);
        self.set_gates(actions);
        // Its page is made with these words.
        actions.retain(|action| !matches!(action, Action::Gate { at, .. } if at.client == client));
        let process = self.processes.get(&client);
        process.into_iter().flat_map(|p| &p.gpus).map(|gpu| gpu.seat.words).collect()
    }
}
