//! The books of stream-ordered pools. A pool takes memory from the card in chunks of its driver's
//! choosing and keeps what is given back, so what is charged is its reserve, as the driver tells it,
//! and not what the program asked for.
//!
//! ```text
//!   begin    the most that this allocation can make the pool grow by is charged already
//!   the driver
//!   end      the allocation is done
//!   settle   the charge becomes the reserve that the driver tells, if nothing began or ended meanwhile
//! ```
//!
//! What others have begun and not ended stays charged on top, so the charge never falls below the
//! reserve. Plain data, as all of the books; whoever looks at a pool does so without a lock.

use shim_cuda_headers::{CUdevice, CUmemoryPool};

use crate::{Freed, Slot, spread::Map};

/// What keeps a reserve.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Source {
    Pool(CUmemoryPool),
    /// What graphs with memory nodes share on a device.
    Graphs(CUdevice),
}

/// A pool, for as long as anything of it is charged. Handles come again, this does not.
pub type PoolId = u64;

#[derive(Debug)]
struct Pool {
    source: Source,
    slot: Slot,
    /// In units, `begun` among them.
    charged: u32,
    /// Charged for allocations that have begun and not ended.
    begun: u32,
    /// Allocations that have begun or ended.
    steps: u64,
    /// Allocations that the program has not given back.
    outstanding: u32,
    /// Its handle is gone; it ends with its last allocation.
    closing: bool,
}

/// Where a pool stood before the driver was asked for its reserve.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Look {
    pub id: PoolId,
    pub source: Source,
    steps: u64,
}

/// What follows from a look.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Settled {
    Even,
    /// The pool has shrunk, or did not grow as far as it might have.
    Free(Freed),
    /// It has grown by this much more than is charged.
    Short(Slot, u32),
    /// Something began or ended meanwhile: look again.
    Again,
}

/// What a handle stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Known {
    Pool(PoolId, Slot),
    /// Memory of the host.
    Free,
}

#[derive(Debug, Default)]
pub struct Pools {
    open: Map<Source, Known>,
    all: Map<PoolId, Pool>,
    next: PoolId,
}

impl Pools {
    /// What a handle is known as.
    #[must_use]
    pub fn known(&self, source: Source) -> Option<Known> {
        self.open.get(&source).copied()
    }

    /// A pool on a card was met or made; `made` says that the handle is certainly a new pool's.
    pub fn meet(&mut self, source: Source, slot: Slot, made: bool) -> PoolId {
        if let (Some(Known::Pool(id, _)), false) = (self.known(source), made) {
            return id;
        }
        let id = self.next;
        self.next += 1;
        let pool =
            Pool { source, slot, charged: 0, begun: 0, steps: 0, outstanding: 0, closing: false };
        self.all.insert(id, pool);
        self.open.insert(source, Known::Pool(id, slot));
        id
    }

    /// A pool of memory that costs nothing.
    pub fn exempt(&mut self, source: Source) {
        self.open.insert(source, Known::Free);
    }

    /// An allocation is about to be asked of the driver, with `units` charged for it.
    pub fn begin(&mut self, id: PoolId, units: u32) {
        if let Some(pool) = self.all.get_mut(&id) {
            pool.steps += 1;
            pool.charged += units;
            pool.begun += units;
        }
    }

    /// The driver has answered.
    pub fn end(&mut self, id: PoolId, units: u32, allocated: bool) {
        if let Some(pool) = self.all.get_mut(&id) {
            pool.steps += 1;
            pool.begun = pool.begun.saturating_sub(units);
            pool.outstanding += u32::from(allocated);
        }
    }

    /// Pools whose reserve can be asked for, on one card or on all.
    #[must_use]
    pub fn looks(&self, on: Option<Slot>) -> Vec<Look> {
        let wanted = |pool: &&Pool| !pool.closing && on.is_none_or(|slot| slot == pool.slot);
        let looks = self.all.iter().filter(|(_, pool)| wanted(pool));
        looks.map(|(id, pool)| Look { id: *id, source: pool.source, steps: pool.steps }).collect()
    }

    /// Whether pools hold memory of a card.
    pub(crate) fn reserves(&self, slot: Slot) -> bool {
        self.all.values().any(|pool| pool.slot == slot && pool.charged > 0)
    }

    /// The same for one pool.
    #[must_use]
    pub fn look(&self, id: PoolId) -> Option<Look> {
        let pool = self.all.get(&id).filter(|pool| !pool.closing)?;
        Some(Look { id, source: pool.source, steps: pool.steps })
    }

    /// The driver told a pool's reserve after `look`.
    pub fn settle(&mut self, look: Look, reserved: u32) -> Settled {
        let Some(pool) = self.all.get_mut(&look.id).filter(|pool| !pool.closing) else {
            return Settled::Even;
        };
        if pool.steps != look.steps {
            return Settled::Again;
        }
        if reserved > pool.charged {
            return Settled::Short(pool.slot, reserved - pool.charged);
        }
        let most = reserved.saturating_add(pool.begun);
        let free = pool.charged.saturating_sub(most);
        pool.charged -= free;
        if free == 0 { Settled::Even } else { Settled::Free((pool.slot, free)) }
    }

    /// More was charged, as [`Settled::Short`] asked. What is to be given back if the pool is gone.
    pub fn charged(&mut self, id: PoolId, slot: Slot, units: u32) -> Option<Freed> {
        match self.all.get_mut(&id) {
            Some(pool) => {
                pool.charged += units;
                None
            }
            None => Some((slot, units)),
        }
    }

    /// An allocation was given back; what that frees.
    pub fn let_go(&mut self, id: PoolId) -> Option<Freed> {
        let pool = self.all.get_mut(&id)?;
        pool.outstanding = pool.outstanding.saturating_sub(1);
        self.end_if_done(id)
    }

    /// The handle is about to be destroyed: from here on it may stand for another pool.
    pub fn begin_destroy(&mut self, source: Source) -> Option<Known> {
        self.open.remove(&source)
    }

    /// The driver did not destroy it.
    pub fn restore(&mut self, source: Source, known: Known) {
        self.open.entry(source).or_insert(known);
    }

    /// The driver destroyed it; what that frees.
    pub fn destroyed(&mut self, id: PoolId) -> Option<Freed> {
        self.all.get_mut(&id)?.closing = true;
        self.end_if_done(id)
    }

    /// No context of this process is left on a card, and with them went what pools held there.
    pub fn end_closing(&mut self, slot: Slot) -> Vec<Freed> {
        let done = |pool: &Pool| pool.closing && pool.slot == slot;
        let ids: Vec<_> = self.all.iter().filter(|(_, p)| done(p)).map(|(id, _)| *id).collect();
        let freed = ids.into_iter().filter_map(|id| self.all.remove(&id));
        freed.map(|pool| (pool.slot, pool.charged)).collect()
    }

    fn end_if_done(&mut self, id: PoolId) -> Option<Freed> {
        let done = |pool: &&Pool| pool.closing && pool.outstanding == 0 && pool.begun == 0;
        self.all.get(&id).filter(done)?;
        self.all.remove(&id).map(|pool| (pool.slot, pool.charged))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ON: Slot = Slot(0);
    const HANDLE: Source = Source::Pool(CUmemoryPool(7));

    fn one() -> (Pools, PoolId) {
        let mut pools = Pools::default();
        let id = pools.meet(HANDLE, ON, true);
        (pools, id)
    }

    #[test]
    fn the_charge_becomes_the_reserve() {
        let (mut pools, id) = one();
        pools.begin(id, 100);
        pools.end(id, 100, true);
        let look = pools.look(id).expect("open");
        assert_eq!(pools.settle(look, 60), Settled::Free((ON, 40)));
        assert_eq!(pools.settle(look, 60), Settled::Even);
        assert_eq!(pools.settle(look, 70), Settled::Short(ON, 10));
        assert_eq!(pools.charged(id, ON, 10), None);
        assert_eq!(pools.settle(look, 0), Settled::Free((ON, 70)));
    }

    #[test]
    fn what_another_thread_has_begun_stays_charged() {
        let (mut pools, id) = one();
        pools.begin(id, 100);
        pools.begin(id, 50);
        pools.end(id, 100, true);
        let look = pools.look(id).expect("open");
        assert_eq!(pools.settle(look, 80), Settled::Free((ON, 20)), "130 is reserve and begun");
        let look = pools.look(id).expect("open");
        pools.end(id, 50, true);
        assert_eq!(pools.settle(look, 80), Settled::Again, "it may have grown since the look");
    }

    #[test]
    fn a_destroyed_pool_is_charged_until_its_last_allocation_goes() {
        let (mut pools, id) = one();
        pools.begin(id, 100);
        pools.end(id, 100, true);
        let known = pools.begin_destroy(HANDLE).expect("known");
        assert_eq!(known, Known::Pool(id, ON));
        let other = pools.meet(HANDLE, ON, true);
        assert_ne!(other, id, "the handle stands for another pool now");
        assert_eq!(pools.destroyed(id), None);
        assert_eq!(pools.look(id), None, "nobody can ask for its reserve");
        assert_eq!(pools.let_go(id), Some((ON, 100)));
        assert_eq!(pools.let_go(id), None);
    }

    #[test]
    fn a_pool_that_was_not_destroyed_is_as_before() {
        let (mut pools, id) = one();
        let known = pools.begin_destroy(HANDLE).expect("known");
        pools.restore(HANDLE, known);
        assert_eq!(pools.known(HANDLE), Some(Known::Pool(id, ON)));
    }
}
