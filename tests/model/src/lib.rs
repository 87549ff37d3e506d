//! What a tenant's memory must come to, by the rules that a user may rely on, and random orders to try
//! them with. Knows neither the library nor the simulated driver: what they say is compared with this.
//!
//! Orders go out in rounds. Within a round processes and threads run as they like, so only this is
//! certain of a refusal: that the round's largest possible sum left no room. Between rounds everything
//! stands still, and the sums are exact.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;

pub const MIB: u64 = 1 << 20;
/// A pool takes its memory in pieces of at most this.
const CHUNK_BYTES: u64 = 64 * MIB;

/// A way of getting memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Way {
    Plain,
    Pitched,
    Managed,
    /// From the device's own pool.
    Async,
    /// From a pool of the process's own.
    Pool,
    Handle,
    Mapped,
    Array,
}

impl Way {
    pub const ALL: [Self; 8] = [
        Self::Plain,
        Self::Pitched,
        Self::Managed,
        Self::Async,
        Self::Pool,
        Self::Handle,
        Self::Mapped,
        Self::Array,
    ];

    /// Whether a pool answers for it, so that what it costs is the pool's reserve.
    #[must_use]
    pub const fn is_pooled(self) -> bool {
        matches!(self, Self::Async | Self::Pool)
    }
}

/// One order to one process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    Take { slot: u32, way: Way, bytes: u64 },
    Give { slot: u32 },
}

/// A process: what it holds by slot, and what its pools have.
#[derive(Clone, Debug, Default)]
struct Process {
    context_bytes: u64,
    slots: BTreeMap<u32, (Way, u64)>,
    /// Slots with an order on its way.
    busy: BTreeMap<u32, Order>,
    pool_bytes: u64,
}

/// A tenant with its processes.
#[derive(Clone, Debug)]
pub struct Tenant {
    limit_bytes: u64,
    processes: BTreeMap<u32, Process>,
    /// The most that the processes may have held at once in this round.
    most_bytes: u64,
    random: u64,
}

/// Something that must not be.
pub type Wrong = String;

impl Tenant {
    #[must_use]
    pub fn new(limit_bytes: u64, seed: u64) -> Self {
        let random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        Self { limit_bytes, processes: BTreeMap::new(), most_bytes: 0, random }
    }

    /// A process began; it has a context and nothing else.
    pub fn begin(&mut self, process: u32, context_bytes: u64) {
        let fresh = Process { context_bytes, ..Process::default() };
        self.processes.insert(process, fresh);
    }

    /// A process ended, whatever it was doing.
    pub fn end(&mut self, process: u32) {
        self.processes.remove(&process);
    }

    /// A number below `below`.
    pub fn pick(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) % below
    }

    /// A new round: everything stands still.
    pub fn begin_round(&mut self) {
        self.most_bytes = self.held_bytes();
    }

    /// A random order for a slot that has none on its way. Sizes are whole pieces of 2 MiB, so that no
    /// way rounds them up.
    pub fn order(&mut self, process: u32, slots: u32) -> Option<Order> {
        let slot = u32::try_from(self.pick(slots.into())).ok()?;
        let way = Way::ALL[usize::try_from(self.pick(8)).ok()?];
        let bytes = (1 + self.pick(32)) * 2 * MIB;
        let own = self.processes.get_mut(&process)?;
        if own.busy.contains_key(&slot) {
            return None;
        }
        let order = match own.slots.contains_key(&slot) {
            true => Order::Give { slot },
            false => Order::Take { slot, way, bytes },
        };
        if let Order::Take { bytes, .. } = order {
            self.most_bytes += bytes;
        }
        own.busy.insert(slot, order);
        Some(order)
    }

    /// Everything that a process holds is to be given back.
    pub fn give_all(&mut self, process: u32) -> Vec<Order> {
        let Some(own) = self.processes.get_mut(&process) else { return Vec::new() };
        let orders: Vec<_> = own.slots.keys().map(|slot| Order::Give { slot: *slot }).collect();
        own.busy = own.slots.keys().map(|slot| (*slot, Order::Give { slot: *slot })).collect();
        orders
    }

    /// A process answered an order with a driver's code.
    ///
    /// # Errors
    /// If it must not.
    pub fn answered(&mut self, process: u32, slot: u32, code: u32) -> Result<(), Wrong> {
        const OUT_OF_MEMORY: u32 = 2;
        let own = self.processes.get_mut(&process).ok_or("an answer of no process")?;
        let order = own.busy.remove(&slot).ok_or("an answer to no order")?;
        match (order, code) {
            (Order::Take { way, bytes, .. }, 0) => _ = own.slots.insert(slot, (way, bytes)),
            (Order::Give { .. }, 0) => _ = own.slots.remove(&slot),
            (Order::Take { way, bytes, .. }, OUT_OF_MEMORY) => return self.may_refuse(way, bytes),
            (order, code) => return Err(format!("{order:?} was answered with {code}")),
        }
        Ok(())
    }

    /// Whether there can have been no room for it in this round.
    fn may_refuse(&self, way: Way, bytes: u64) -> Result<(), Wrong> {
        // What a pool may have to take beyond what was asked, and what pools hold for later.
        let pools = 2 * self.processes.len() as u64 * CHUNK_BYTES;
        let more = if way.is_pooled() { CHUNK_BYTES } else { 0 };
        // Its own bytes are in the round's sum already.
        if self.most_bytes + pools + more > self.limit_bytes {
            return Ok(());
        }
        let most = self.most_bytes - bytes;
        Err(format!("{bytes} bytes were refused with at most {most} of {} held", self.limit_bytes))
    }

    /// A process's pools have this much, by its driver's own word.
    ///
    /// # Errors
    /// If that is less than what the process has of them.
    pub fn pools_have(&mut self, process: u32, bytes: u64) -> Result<(), Wrong> {
        let own = self.processes.get_mut(&process).ok_or("no such process")?;
        own.pool_bytes = bytes;
        let taken: u64 =
            own.slots.values().filter(|(way, _)| way.is_pooled()).map(|(_, b)| b).sum();
        if bytes < taken {
            return Err(format!("pools of {bytes} bytes gave {taken}"));
        }
        Ok(())
    }

    /// What the tenant holds.
    #[must_use]
    pub fn held_bytes(&self) -> u64 {
        let of = |own: &Process| {
            let plain = own.slots.values().filter(|(way, _)| !way.is_pooled()).map(|(_, b)| b);
            own.context_bytes + own.pool_bytes + plain.sum::<u64>()
        };
        self.processes.values().map(of).sum()
    }

    /// Compares a figure with the rules.
    ///
    /// # Errors
    /// If they differ, or the tenant is above its limit.
    pub fn holds(&self, whose: &str, bytes: u64) -> Result<(), Wrong> {
        let expected = self.held_bytes();
        if expected > self.limit_bytes {
            return Err(format!("{expected} bytes are held of {}", self.limit_bytes));
        }
        if bytes == expected {
            return Ok(());
        }
        Err(format!("{whose} says {bytes} bytes are held, and it must be {expected}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_itself_tells_right_from_wrong() {
        let mut tenant = Tenant::new(256 * MIB, 1);
        tenant.begin(0, 128 * MIB);
        tenant.begin_round();
        let order = Order::Take { slot: 3, way: Way::Plain, bytes: 64 * MIB };
        let ask = |tenant: &mut Tenant| {
            tenant.most_bytes += 64 * MIB;
            tenant.processes.get_mut(&0).expect("begun").busy.insert(3, order);
        };
        ask(&mut tenant);
        tenant.answered(0, 3, 0).expect("granted");
        tenant.holds("a test", 192 * MIB).expect("exactly");
        tenant.holds("a test", 192 * MIB + 1).expect_err("a byte too many");
        tenant.begin_round();
        ask(&mut tenant);
        tenant.answered(0, 3, 2).expect("pools may have had the rest");
        ask(&mut tenant);
        tenant.answered(0, 3, 1).expect_err("no such answer");
        tenant.end(0);
        tenant.holds("a test", 0).expect("nothing is left");
        let mut large = Tenant::new(1 << 40, 1);
        large.begin(0, 0);
        large.processes.get_mut(&0).expect("begun").busy.insert(3, order);
        large.most_bytes = 64 * MIB;
        large.answered(0, 3, 2).expect_err("there was room");
    }
}
