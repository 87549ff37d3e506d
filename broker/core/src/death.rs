//! Ends: of a process, whose allowance is its tenant's again at once while the card waits for NVML
//! to agree ([`crate::settle`]); of the process a tenant lives for; of a tenant.

use crate::{
    Nanos,
    admit::{Reason, Rejection},
    event::{Action, ClientId, Happening, Kind},
    state::State,
};

impl State {
    pub(crate) fn died(&mut self, now: Nanos, client: ClientId, actions: &mut Vec<Action>) {
        for at in self.pages_of_client(client) {
            self.drains_no_more(now, at, actions);
        }
        self.compute.stale = true;
        let Some(process) = self.processes.remove(&client) else { return };
        let id = process.tenant;
        self.drop_grows_of(client);
        let Some(tenant) = self.tenants.get_mut(&id) else { return };
        tenant.processes.remove(&client);
        let mut freed = Vec::new();
        for (gpu, own) in tenant.gpus.iter_mut().zip(&process.gpus) {
            gpu.allowed_units -= own.promised_units();
            freed.push((gpu.uuid, u64::from(own.held_units())));
        }
        for slot in 0..freed.len() {
            self.ease(id, slot as u8, actions);
        }
        for (card, held_units) in freed {
            self.begin_settling(now, id, process.peer.pid, card, held_units);
        }
        let text = format!("{} ended", process.peer.command);
        let told = Happening::new(Kind::ProcessEnded, text).tenant(id).pid(process.peer.pid);
        actions.push(Action::Tell(told));
        actions.push(Action::Forget { client });
        actions.push(Action::Save);
        self.tell_headcount(id, actions);
        let places = self.places(id);
        self.go_on_without(now, &places, actions);
        self.serve_tenant(now, id, actions);
        self.end_what_is_done(now, actions);
    }

    pub(crate) fn runner_gone(&mut self, now: Nanos, id: u64, actions: &mut Vec<Action>) {
        if let Some(tenant) = self.tenants.get_mut(&id) {
            tenant.runner_gone = true;
        }
        self.end_what_is_done(now, actions);
    }

    pub(crate) fn end(&mut self, now: Nanos, id: u64, actions: &mut Vec<Action>) {
        let Some(tenant) = self.tenants.get_mut(&id) else {
            actions.push(Action::Rejected(Rejection::new(
                Reason::UnknownTenant,
                format!("there is no tenant {id}"),
                "`halfwarp ps` lists the tenants",
            )));
            return;
        };
        tenant.ending = true;
        actions.push(Action::Ended);
        actions.push(Action::Save);
        self.end_what_is_done(now, actions);
    }

    /// Tenants that nothing keeps any longer.
    pub(crate) fn end_what_is_done(&mut self, now: Nanos, actions: &mut Vec<Action>) {
        let done = |t: &crate::tenant::Tenant| {
            t.processes.is_empty() && t.absent.is_empty() && (t.ending || t.runner_gone)
        };
        let ids: Vec<_> = self.tenants.values().filter(|t| done(t)).map(|t| t.id).collect();
        for id in ids {
            let Some(tenant) = self.tenants.remove(&id) else { continue };
            self.compute.stale = true;
            let told = Happening::new(Kind::TenantEnded, format!("{} ended", tenant.name));
            actions.push(Action::Tell(told.tenant(id)));
            actions.push(Action::Save);
            for gpu in &tenant.gpus {
                if self.slots_on(gpu.uuid).is_empty()
                    && let Some(card) = self.cards.get_mut(&gpu.uuid)
                {
                    card.mode = halfwarp_rest::Mode::default();
                }
                self.serve(now, gpu.uuid, actions);
            }
        }
        self.note_tenants(now);
    }
}
