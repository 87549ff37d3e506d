//! Changes while tenants run: of a tenant's entitlement, of a card's mode. All of a change or nothing
//! of it; the rules are those of admission.

use halfwarp_rest::{GpuChange, Mode, ShareWish, TenantChange};

use crate::{
    Nanos,
    admit::{PRIORITY, Reason, Rejection},
    card::Uuid,
    event::{Action, Happening, Kind},
    state::State,
    tenant::Tenant,
};

/// What is to be different.
#[derive(Clone, Debug)]
pub enum Change {
    Tenant { id: u64, to: TenantChange },
    Gpu { uuid: Uuid, to: GpuChange },
}

/// Lease lengths that a card can have.
pub(crate) const LEASE_MS: std::ops::RangeInclusive<u16> = 20..=1000;

impl State {
    pub(crate) fn change(&mut self, now: Nanos, change: &Change, actions: &mut Vec<Action>) {
        let changed = match change {
            Change::Tenant { id, to } => self.change_tenant(now, *id, to, actions),
            Change::Gpu { uuid, to } => self.change_gpu(*uuid, *to),
        };
        match changed {
            Ok(told) => {
                self.compute.stale = true;
                actions.extend([Action::Tell(told), Action::Changed, Action::Save]);
            }
            Err(rejection) => actions.push(Action::Rejected(rejection)),
        }
    }

    fn change_tenant(
        &mut self,
        now: Nanos,
        id: u64,
        to: &TenantChange,
        actions: &mut Vec<Action>,
    ) -> Result<Happening, Rejection> {
        let Some(tenant) = self.tenants.get(&id) else {
            return Err(Rejection::new(
                Reason::UnknownTenant,
                format!("there is no tenant {id}"),
                "`halfwarp ps` lists the tenants",
            ));
        };
        if let Some(priority) = to.priority.filter(|priority| !PRIORITY.contains(priority)) {
            let message = format!("priority {priority} is not within 1 to 1000");
            let help = "use high (1000), normal (500), low (100) or a number between";
            return Err(Rejection::new(Reason::Priority, message, help));
        }
        if let Some(compute) = to.compute {
            self.compute_can_be(tenant, compute)?;
        }
        let amounts = self.amounts(tenant, to)?;

        let Some(tenant) = self.tenants.get_mut(&id) else { unreachable!("found above") };
        tenant.priority = to.priority.unwrap_or(tenant.priority);
        for gpu in &mut tenant.gpus {
            if let Some(compute) = to.compute {
                gpu.share_percent = compute.share.0;
                gpu.share_limit_percent = compute.limit.0;
            }
        }
        let text = format!("{} changed", tenant.name);
        self.resize(now, id, &amounts, actions);
        Ok(Happening::new(Kind::TenantChanged, text).tenant(id))
    }

    fn compute_can_be(&self, tenant: &Tenant, compute: ShareWish) -> Result<(), Rejection> {
        for gpu in &tenant.gpus {
            let Some(card) = self.cards.get(&gpu.uuid) else { continue };
            self.share_fits(card, compute, None, Some(tenant.id))?;
        }
        Ok(())
    }

    fn change_gpu(&mut self, uuid: Uuid, to: GpuChange) -> Result<Happening, Rejection> {
        let Some(card) = self.cards.get(&uuid) else {
            let message = format!("there is no GPU {uuid}");
            return Err(Rejection::new(Reason::NoSuchGpu, message, "`halfwarp gpus` lists them"));
        };
        if let Some(lease) = to.lease_ms.filter(|lease| !LEASE_MS.contains(lease)) {
            let message = format!("a lease of {lease} ms is not within 20 to 1000");
            return Err(Rejection::new(Reason::Lease, message, "give 20 to 1000 ms"));
        }
        if to.mode == Some(Mode::Strict) {
            let without = self.tenants.values().find(|tenant| {
                tenant.gpus.iter().any(|gpu| gpu.uuid == uuid && gpu.share_percent == 0)
            });
            if let Some(tenant) = without {
                let (index, id, name) = (card.facts.index, tenant.id, &tenant.name);
                let message = format!(
                    "gpu {index} cannot become strict: tenant {id} ({name}) has no share there"
                );
                let help = format!("give it one first: `halfwarp set {id} compute=P%`");
                return Err(Rejection::new(Reason::ShareMissing, message, help));
            }
        }
        let Some(card) = self.cards.get_mut(&uuid) else { unreachable!("found above") };
        card.mode = to.mode.unwrap_or(card.mode);
        card.lease_ms = to.lease_ms.unwrap_or(card.lease_ms);
        let mode = format!("{:?}", card.mode).to_lowercase();
        let text = format!("GPU {}: {mode}, lease {} ms", card.facts.index, card.lease_ms);
        Ok(Happening::new(Kind::GpuChanged, text).gpu(uuid))
    }
}
