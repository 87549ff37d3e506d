//! How much more of a card a tenant can be allowed. Three rules stand together:
//!
//! * a tenant's processes together never pass its limit;
//! * all tenants together never pass what is usable of the card;
//! * what each is owed (its request, and of what it was given above that all that cannot be taken
//!   back) never passes it either.
//!
//! So bytes within a tenant's request can always be had, if need be from those who borrowed them; and
//! only who may be ended borrows bytes that are another's by request.

use halfwarp_api::UNIT_BYTES;

use crate::{
    card::Uuid,
    residency::Place,
    state::State,
    tenant::{Tenant, TenantGpu},
};

/// Units that a tenant can still be allowed on a card, by each rule.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    pub(crate) limit_units: u64,
    /// Left of its request.
    pub(crate) own_units: u64,
    /// Owed to nobody else.
    pub(crate) unowed_units: u64,
    /// In nobody's hands.
    pub(crate) free_units: u64,
    /// Given to nobody, whoever else is on the card; less what ended processes still block.
    pub(crate) ungiven_units: u64,
    /// What it borrows can be taken back.
    pub(crate) returns: bool,
}

impl Room {
    pub(crate) fn card_units(self) -> u64 {
        if self.returns { self.free_units } else { self.unowed_units.min(self.free_units) }
    }

    /// Whether these units can be had now. What strangers seem to have of the card is an estimate:
    /// it keeps bytes from being lent, but not from whom they are owed to; there the driver decides.
    pub(crate) fn fits(self, units: u64) -> bool {
        let owed = self.is_owed(units) && units <= self.ungiven_units;
        units <= self.limit_units && (owed || units <= self.card_units())
    }

    /// Whether these units are the tenant's by right, whoever has them now.
    pub(crate) fn is_owed(self, units: u64) -> bool {
        units <= self.own_units.min(self.limit_units)
    }
}

impl Tenant {
    /// What the card owes it: its request, and above that what cannot be taken back.
    pub(crate) fn owed_units(&self, gpu: &TenantGpu) -> u64 {
        let request = u64::from(gpu.request_units);
        let returns = self.lending.may_end || gpu.residence.movable;
        if returns { request } else { gpu.allowed_units.max(request) }
    }
}

impl State {
    pub(crate) fn room(&self, tenant: &Tenant, slot: usize) -> Room {
        let gpu = &tenant.gpus[slot];
        let swapped_units = self.swapped_units(Place { id: tenant.id, slot: slot as u8 });
        let taken_units = gpu.allowed_units + swapped_units + self.absent_units(tenant, gpu.uuid);
        let claim = self.residency.claims.get(&gpu.uuid).filter(|c| c.tenant != tenant.id);
        let claimed_units = claim.map_or(0, |claim| claim.units);
        let own_units = u64::from(gpu.request_units).saturating_sub(gpu.allowed_units);
        let settling = self.cards.get(&gpu.uuid).map_or(0, |card| card.settling_units());
        Room {
            limit_units: u64::from(gpu.limit_units).saturating_sub(taken_units),
            own_units,
            unowed_units: own_units + self.spare_units(gpu.uuid),
            free_units: self.free_units(gpu.uuid).saturating_sub(claimed_units),
            ungiven_units: self.ungiven_units(gpu.uuid).saturating_sub(settling),
            returns: tenant.lending.may_end || self.can_borrow(tenant, slot),
        }
    }

    /// Whether what a tenant is about to be given above its request can be moved away again: it is
    /// movable now, and there is host memory for that too.
    fn can_borrow(&self, tenant: &Tenant, slot: usize) -> bool {
        let gpu = &tenant.gpus[slot];
        let wanted = gpu.queue.front().map_or(0, |head| u64::from(head.wanted_units));
        gpu.residence.movable && wanted.saturating_mul(UNIT_BYTES) <= self.pool_left_bytes()
    }

    fn on(&self, card: Uuid) -> impl Iterator<Item = (&Tenant, &TenantGpu)> {
        let each = self.tenants.values().flat_map(|t| t.gpus.iter().map(move |gpu| (t, gpu)));
        each.filter(move |(_, gpu)| gpu.uuid == card)
    }

    fn usable_units(&self, card: Uuid) -> u64 {
        self.cards.get(&card).map_or(0, |card| card.usable_units())
    }

    /// Units of a card that are owed to nobody.
    pub(crate) fn spare_units(&self, card: Uuid) -> u64 {
        let owed = self.on(card).map(|(tenant, gpu)| tenant.owed_units(gpu)).sum();
        self.usable_units(card).saturating_sub(owed)
    }

    /// Units of a card that nobody was given.
    pub(crate) fn free_units(&self, card: Uuid) -> u64 {
        self.usable_units(card).saturating_sub(self.given_units(card))
    }

    /// The same without what strangers have and what has yet to settle.
    pub(crate) fn ungiven_units(&self, card: Uuid) -> u64 {
        let total = self.cards.get(&card).map_or(0, |card| card.total_units());
        total.saturating_sub(self.given_units(card))
    }

    fn given_units(&self, card: Uuid) -> u64 {
        self.on(card).map(|(_, gpu)| gpu.allowed_units).sum()
    }

    pub(crate) fn requested_units(&self, card: Uuid) -> u64 {
        self.on(card).map(|(_, gpu)| u64::from(gpu.request_units)).sum()
    }

    /// Units above requests that their holders keep, whoever asks for them.
    pub(crate) fn kept_units(&self, card: Uuid) -> u64 {
        let kept = |(tenant, gpu): (&Tenant, &TenantGpu)| {
            tenant.owed_units(gpu) - u64::from(gpu.request_units)
        };
        self.on(card).map(kept).sum()
    }
}
