//! Suspend and resume: a person's own moves. All processes of a tenant as one; what can't be done is
//! refused with its reason, and leaves the tenant as it was.

use halfwarp_api::wire::Outcome;

use crate::{
    Nanos,
    admit::{Reason, Rejection},
    event::{Action, Happening, Kind},
    state::State,
};

use super::{
    Stage,
    moves::{Phase, Place},
};

/// How long chunks may take to be made before a suspension is refused.
const CHUNKS_NS: Nanos = 30_000_000_000;

/// What a person wants of a tenant.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Suspension {
    #[default]
    None,
    Suspending,
    Suspended,
    Resuming,
}

/// How far a suspend or resume has come.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Progress {
    /// It runs, and its memory is where it was or on its way there unasked.
    Running,
    Suspending,
    Suspended,
    Resuming,
}

impl State {
    /// Where a tenant is between suspend and resume, and why the last of them failed if it did.
    #[must_use]
    pub fn suspension(&self, id: u64) -> Option<(Progress, Option<Rejection>)> {
        let tenant = self.tenants.get(&id)?;
        let progress = match tenant.suspension {
            Suspension::None => Progress::Running,
            Suspension::Suspending => Progress::Suspending,
            Suspension::Suspended => Progress::Suspended,
            Suspension::Resuming => Progress::Resuming,
        };
        Some((progress, tenant.suspension_failed.clone()))
    }

    fn own_tenant(&self, id: u64, uid: u32) -> Result<&crate::tenant::Tenant, Rejection> {
        let tenant = self.tenants.get(&id).ok_or_else(|| {
            let help = "`halfwarp ps` lists the tenants";
            Rejection::new(Reason::UnknownTenant, format!("there is no tenant {id}"), help)
        })?;
        if uid != 0 && uid != tenant.uid {
            let message = format!("tenant {id} belongs to user {}", tenant.uid);
            return Err(Rejection::new(Reason::WrongUser, message, "ask that user"));
        }
        if !tenant.swap {
            let message = format!("tenant {id} ({}) was started without swap", tenant.name);
            return Err(Rejection::new(Reason::NoSwap, message, "start the program with --swap"));
        }
        Ok(tenant)
    }

    fn can_suspend(&self, id: u64, uid: u32) -> Result<(), Rejection> {
        let tenant = self.own_tenant(id, uid)?;
        for slot in 0..tenant.gpus.len() {
            let names = self.reason_names(Place { id, slot: slot as u8 });
            if !names.is_empty() {
                return Err(cannot_move(id, &names.join(", ")));
            }
        }
        Ok(())
    }

    pub(crate) fn suspend(&mut self, now: Nanos, id: u64, uid: u32, actions: &mut Vec<Action>) {
        if let Err(rejection) = self.can_suspend(id, uid) {
            actions.push(Action::Rejected(rejection));
            return;
        }
        let Some(tenant) = self.tenants.get_mut(&id) else { return };
        tenant.suspension_failed = None;
        if !matches!(tenant.suspension, Suspension::Suspending | Suspension::Suspended) {
            tenant.suspension = Suspension::Suspending;
            tenant.suspension_until = now + CHUNKS_NS;
            for gpu in &mut tenant.gpus {
                gpu.residence.wanted_since = None;
            }
        }
        actions.extend([Action::Begun, Action::Save]);
    }

    pub(crate) fn resume(&mut self, now: Nanos, id: u64, uid: u32, actions: &mut Vec<Action>) {
        if let Err(rejection) = self.own_tenant(id, uid) {
            actions.push(Action::Rejected(rejection));
            return;
        }
        let Some(tenant) = self.tenants.get_mut(&id) else { return };
        tenant.suspension_failed = None;
        if matches!(tenant.suspension, Suspension::Suspending | Suspension::Suspended) {
            tenant.suspension = Suspension::Resuming;
            for gpu in &mut tenant.gpus {
                gpu.residence.attempt_at = now;
            }
            for place in self.places(id) {
                self.want_back(now, place);
            }
        }
        self.note_suspension(now, id, actions);
        actions.extend([Action::Begun, Action::Save]);
    }

    pub(crate) fn places(&self, id: u64) -> Vec<Place> {
        let slots = self.tenants.get(&id).map_or(0, |tenant| tenant.gpus.len());
        (0..slots).map(|slot| Place { id, slot: slot as u8 }).collect()
    }

    /// Moves out whoever is to be suspended and can be moved by now.
    pub(crate) fn go_on_suspending(&mut self, now: Nanos, actions: &mut Vec<Action>) {
        let held = [Suspension::Suspending, Suspension::Suspended];
        let tenants = self.tenants.values().filter(|t| held.contains(&t.suspension));
        let ids: Vec<_> = tenants.map(|tenant| tenant.id).collect();
        for id in ids {
            for place in self.places(id) {
                let stays = self.connected_at(place).into_iter();
                let mut stays = stays.filter_map(|at| self.stay(at));
                let to_go = |stay: &super::Stay| stay.stage == Stage::In || stay.left_behind;
                let any = stays.any(to_go);
                if !any || self.phase(place) == Phase::Moving {
                    continue;
                }
                if self.can_leave(place, true) {
                    self.begin_out(now, place, actions);
                    continue;
                }
                self.wait_for_chunks(now, place, actions);
            }
            self.note_suspension(now, id, actions);
        }
    }

    /// A tenant that is to be suspended can't be moved yet, or at all.
    fn wait_for_chunks(&mut self, now: Nanos, place: Place, actions: &mut Vec<Action>) {
        let Some(tenant) = self.tenants.get(&place.id) else { return };
        if tenant.suspension != Suspension::Suspending {
            return;
        }
        let until = tenant.suspension_until;
        let names = self.reason_names(place);
        let rejection = if !names.is_empty() {
            cannot_move(place.id, &names.join(", "))
        } else if !self.can_leave(place, false) || now >= until {
            let (left, mib) = (self.pool_left_bytes() >> 20, self.config.swap.pool_bytes >> 20);
            let message = format!(
                "tenant {} has more memory than there is host memory for: {left} MiB of the pool of \
                 {mib} MiB are left",
                place.id
            );
            Rejection::new(Reason::HostPool, message, "enlarge host_pool, or end other tenants")
        } else {
            return self.residency.look_at(until);
        };
        self.give_up_suspending(now, place.id, rejection, actions);
    }

    fn give_up_suspending(
        &mut self,
        now: Nanos,
        id: u64,
        rejection: Rejection,
        actions: &mut Vec<Action>,
    ) {
        let Some(tenant) = self.tenants.get_mut(&id) else { return };
        tenant.suspension = Suspension::None;
        tenant.suspension_failed = Some(rejection);
        actions.push(Action::Save);
        for place in self.places(id) {
            if self.place_gpu(place).is_some_and(|gpu| gpu.residence.trip.is_none()) {
                self.want_back(now, place);
            }
        }
    }

    pub(crate) fn suspending_failed(
        &mut self,
        now: Nanos,
        place: Place,
        outcome: Outcome,
        actions: &mut Vec<Action>,
    ) {
        let suspending = self.tenants.get(&place.id).map(|t| t.suspension);
        if suspending == Some(Suspension::Suspending) {
            let rejection = cannot_move(place.id, &self.why_not(place, outcome));
            self.give_up_suspending(now, place.id, rejection, actions);
        }
    }

    pub(crate) fn resuming_failed(
        &mut self,
        now: Nanos,
        place: Place,
        outcome: Outcome,
        actions: &mut Vec<Action>,
    ) {
        let Some(tenant) = self.tenants.get_mut(&place.id) else { return };
        if tenant.suspension != Suspension::Resuming {
            return;
        }
        tenant.suspension = Suspension::Suspended;
        let message = format!(
            "tenant {} could not be brought back ({}); it is suspended as before, and whole",
            place.id,
            outcome.text()
        );
        let help = "try `halfwarp resume` again; see the program's own lines and the kernel's log";
        tenant.suspension_failed = Some(Rejection::new(Reason::CannotMove, message, help));
        for gpu in &mut tenant.gpus {
            gpu.residence.wanted_since = None;
        }
        // What has come back leaves again.
        for place in self.places(place.id) {
            for at in self.connected_at(place) {
                if let Some(stay) = self.stay_mut(at) {
                    stay.left_behind = true;
                }
            }
        }
        let _ = now;
        actions.push(Action::Save);
    }

    /// Notes that all of a tenant is where it was to be.
    pub(crate) fn note_suspension(&mut self, _now: Nanos, id: u64, actions: &mut Vec<Action>) {
        let Some(tenant) = self.tenants.get(&id) else { return };
        let places = self.places(id);
        let is = |phase: Phase| {
            let there =
                |place: &Place| self.phase(*place) == phase || self.connected_at(*place).is_empty();
            places.iter().all(there) && tenant.gpus.iter().all(|gpu| gpu.residence.trip.is_none())
        };
        let (next, kind, text) = match tenant.suspension {
            Suspension::Suspending if is(Phase::Out) && !self.any_in(id) => {
                (Suspension::Suspended, Kind::Suspended, "is suspended")
            }
            Suspension::Resuming if is(Phase::In) => {
                (Suspension::None, Kind::Resumed, "is resumed")
            }
            _ => return,
        };
        let units: u64 = places.iter().map(|place| self.swapped_units(*place)).sum();
        let told = Happening::new(kind, format!("{} {text}", tenant.name)).tenant(id);
        actions.push(Action::Tell(told.bytes(units * halfwarp_api::UNIT_BYTES)));
        actions.push(Action::Save);
        if let Some(tenant) = self.tenants.get_mut(&id) {
            tenant.suspension = next;
        }
    }

    /// Whether a gate of a tenant is open.
    fn any_in(&self, id: u64) -> bool {
        let ats = self.places(id).into_iter().flat_map(|place| self.connected_at(place));
        ats.into_iter().any(|at| self.stay(at).is_some_and(|stay| stay.stage == Stage::In))
    }
}

fn cannot_move(id: u64, why: &str) -> Rejection {
    let message =
        format!("memory of tenant {id} cannot leave the card: {why}; nothing was changed");
    Rejection::new(Reason::CannotMove, message, "`halfwarp ps -o wide` shows the reasons")
}
