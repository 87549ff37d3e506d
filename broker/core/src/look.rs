//! What a tenant has, for its own processes to see: the one snapshot that all views show.

use halfwarp_api::wire::{Refusal, Token};

use crate::{card::Uuid, state::State};

/// A tenant's part of a card.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Slice {
    pub uuid: Uuid,
    pub limit_units: u32,
    pub held_units: u32,
    /// By pid, what each process holds; a process without any is not on the card.
    pub members: Vec<(u32, u32)>,
}

impl State {
    /// The cards of the tenant that a token names, by slot.
    ///
    /// # Errors
    /// Why a user may not see it.
    pub fn slices(&self, token: Token, uid: u32) -> Result<Vec<Slice>, Refusal> {
        let tenant = self.tenants.values().find(|tenant| tenant.token == token);
        let tenant = tenant.ok_or(Refusal::UnknownTenant)?;
        if tenant.uid != uid {
            return Err(Refusal::WrongUser);
        }
        let slices = tenant.gpus.iter().enumerate().map(|(slot, gpu)| {
            let processes = tenant.processes.iter().filter_map(|client| self.processes.get(client));
            let held = processes.map(|p| {
                let gpu = &p.gpus[slot];
                (p.peer.pid, gpu.held_units().saturating_add(gpu.stay.swapped_units))
            });
            Slice {
                uuid: gpu.uuid,
                limit_units: gpu.limit_units,
                held_units: u32::try_from(self.held_units(tenant, slot as u8)).unwrap_or(u32::MAX),
                members: held.filter(|(_, units)| *units > 0).collect(),
            }
        });
        Ok(slices.collect())
    }
}
