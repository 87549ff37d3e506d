//! Contexts: what they cost on a card, once a process, and what ends with each.

use shim_cuda_headers::{CUcontext, CUdevice};

use crate::{Books, Entry, Freed, Mark, Place, Slot, Within};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Context {
    slot: Slot,
    /// Retains of a primary context, 1 for any other.
    references: u32,
    since: Mark,
}

/// The charge for having contexts on a card.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Overhead {
    units: u32,
    /// Contexts, those being made among them.
    users: u32,
    charged: bool,
    serial: u64,
}

/// What whoever is about to make a context must do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Begin {
    /// Charge for it, then say what came of that. The number tells this charge from a later one.
    Charge(u64),
    /// Another thread is asking for the charge: wait for what comes of it.
    Wait,
    /// It is paid for.
    Paid,
}

/// A context's handle stands for a later one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Anew;

impl Books {
    /// A context on a card is about to be made (`makes`), or was met that nobody entered.
    pub fn begin_overhead(&mut self, slot: Slot, units: u32, makes: bool) -> Begin {
        let users = u32::from(makes);
        match self.overhead.get_mut(&slot) {
            Some(overhead) if !overhead.charged => Begin::Wait,
            Some(overhead) => {
                overhead.users += users;
                Begin::Paid
            }
            None => {
                let serial = self.next_overhead;
                self.next_overhead += 1;
                self.overhead.insert(slot, Overhead { units, users, charged: false, serial });
                Begin::Charge(serial)
            }
        }
    }

    /// What came of the charge.
    pub fn overhead_charged(&mut self, slot: Slot, charged: bool) {
        if !charged {
            self.overhead.remove(&slot);
        } else if let Some(overhead) = self.overhead.get_mut(&slot) {
            overhead.charged = true;
        }
    }

    /// The charge of that number turned out to be this much. False if it has been given back.
    pub fn overhead_is(&mut self, slot: Slot, serial: u64, units: u32) -> bool {
        let overhead = self.overhead.get_mut(&slot).filter(|o| o.serial == serial);
        overhead.map(|o| o.units = units).is_some()
    }

    /// A context has ended or did not come about; what is free if it was the last.
    pub fn end_overhead(&mut self, slot: Slot) -> Option<Freed> {
        let overhead = self.overhead.get_mut(&slot)?;
        overhead.users = overhead.users.saturating_sub(1);
        if overhead.users > 0 || !overhead.charged {
            return None;
        }
        let freed = (slot, overhead.units);
        self.overhead.remove(&slot);
        Some(freed)
    }

    /// A context was made, or a primary one retained once more; frees the charge for one known already.
    pub fn enter_context(
        &mut self,
        context: CUcontext,
        slot: Slot,
        primary_of: Option<CUdevice>,
    ) -> Option<Freed> {
        let known = self.contexts.get(&context).copied();
        let mut references = 1;
        if let Some(device) = primary_of {
            self.primary.insert(device, context);
            references += known.map_or(0, |c| c.references);
        }
        self.contexts.insert(context, Context { slot, references, since: self.now });
        known.and_then(|known| self.end_overhead(known.slot))
    }

    /// The card of a context that is known.
    #[must_use]
    pub fn slot_of(&self, context: CUcontext) -> Option<Slot> {
        self.contexts.get(&context).map(|c| c.slot)
    }

    /// The primary context of a device, if this process has retained it.
    #[must_use]
    pub fn primary_of(&self, device: CUdevice) -> Option<CUcontext> {
        self.primary.get(&device).copied()
    }

    /// A context may be about to end: from here on, what is entered may be of its successor.
    pub fn mark(&mut self) -> Mark {
        self.now += 1;
        self.now
    }

    /// One reference to a primary context is gone. Whether it was the last.
    pub fn release_context(&mut self, context: CUcontext) -> bool {
        let Some(known) = self.contexts.get_mut(&context) else { return false };
        known.references = known.references.saturating_sub(1);
        known.references == 0
    }

    /// All that was in a context before `mark` has ended: what that frees, and what came since, whose
    /// fate only the driver knows.
    pub fn end_context(
        &mut self,
        context: CUcontext,
        mark: Mark,
    ) -> (Vec<Freed>, Vec<(Place, Entry)>) {
        let ended = self.ended.entry(context).or_insert(mark);
        *ended = mark.max(*ended);
        let (mut freed, mut unsure) = (Vec::new(), Vec::new());
        self.allocations.retain(|place, entry| {
            if entry.allocation.within != Within::Context(context) {
                return true;
            }
            if entry.since >= mark {
                unsure.push((*place, *entry));
                return true;
            }
            freed.push((entry.allocation.slot, entry.allocation.units));
            false
        });
        (freed, unsure)
    }

    /// A context is no more; what is free if it was the card's last. [`Anew`] if it was made or
    /// retained since `mark`.
    pub fn leave_context(&mut self, context: CUcontext, mark: Mark) -> Result<Option<Freed>, Anew> {
        let Some(known) = self.contexts.get(&context).copied() else { return Ok(None) };
        if known.since >= mark {
            return Err(Anew);
        }
        self.contexts.remove(&context);
        Ok(self.end_overhead(known.slot))
    }
}
