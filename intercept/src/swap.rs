//! What this process knows of memory that can be moved: its books ([`halfwarp_books::Backing`]) and
//! the words by which the program's threads and ours agree about them. The calls of the driver are
//! made in `backing` (the program's threads) and in `mover` and `reaper` (ours).

use std::{
    sync::{
        Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use halfwarp_api::{
    GPUS,
    wire::{Reason, ToBroker},
};
use halfwarp_books::{Backing, Gone, SLAB_BYTES, Slot};
use halfwarp_gate::pass;
use shim_cuda_headers::{CUcontext, CUdevice, CUdeviceptr, CUresult};

use crate::{life, process::Process, sys::Uncancelled, wait};

/// How long a free sleeps before it looks whether it need not wait any more.
const LOOK: Duration = Duration::from_millis(20);
/// Other streams may still be at work: their end is not waited for.
const LATER: Duration = Duration::from_millis(50);
/// Slack that was not charged, at most, in units: less than one granule of the driver.
const MOST_DEBT_UNITS: u32 = (SLAB_BYTES / halfwarp_api::UNIT_BYTES) as u32;

/// Access of one card to the allocations of a context.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Peer {
    /// Whose allocations.
    pub(crate) of: CUcontext,
    /// Who may touch them.
    pub(crate) by: CUcontext,
    pub(crate) device: CUdevice,
}

/// All of it.
#[derive(Debug, Default)]
pub(crate) struct Swap {
    /// By slot: memory on this card is made so that it can be moved.
    on: [AtomicBool; GPUS],
    backing: Mutex<Backing>,
    /// Something dying is gone.
    reaped: Condvar,
    /// By slot: slack that the card has given and the ledger has not.
    debt_units: [AtomicU32; GPUS],
    /// Something is not where the program expects it: nobody passes a gate, whatever its word says.
    away: AtomicBool,
    /// A call has passed a gate since the last move.
    touched: AtomicBool,
    /// Ranges that the driver did not take back.
    stuck: Mutex<Vec<Gone>>,
    /// Our thread gives back to the driver what is out of the books.
    reaping: AtomicBool,
    /// Something was freed behind work, and nobody has waited for that yet.
    freed_later: AtomicBool,
    /// Our thread can't take dying allocations back soon.
    busy: AtomicBool,
    /// By slot: reasons that stay, by bit, and what the broker was told, plus one bit.
    lasting: [AtomicU32; GPUS],
    said: [AtomicU32; GPUS],
    dirty: AtomicBool,
    peers: Mutex<Vec<Peer>>,
}

impl Swap {
    pub(crate) fn set_on(&self, slot: Slot) {
        if let Some(on) = self.on.get(usize::from(slot.0)) {
            on.store(true, Ordering::Relaxed);
        }
    }

    pub(crate) fn is_on(&self, slot: Slot) -> bool {
        self.on.get(usize::from(slot.0)).is_some_and(|on| on.load(Ordering::Relaxed))
    }

    /// The books, locked. Never held across a call of the driver.
    pub(crate) fn backing(&self) -> MutexGuard<'_, Backing> {
        self.backing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn stuck(&self) -> MutexGuard<'_, Vec<Gone>> {
        self.stuck.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_away(&self) -> bool {
        self.away.load(Ordering::Relaxed)
    }

    /// Every thread learns of it before its next call.
    pub(crate) fn set_away(&self, away: bool) {
        self.away.store(away, Ordering::SeqCst);
        life::begin_epoch();
    }

    pub(crate) fn note_touch(&self) {
        if !self.touched.load(Ordering::Relaxed) {
            self.touched.store(true, Ordering::Relaxed);
        }
    }

    /// Whether something was touched since this was asked last. Only after a drain.
    pub(crate) fn take_touch(&self) -> bool {
        self.touched.swap(false, Ordering::Relaxed)
    }

    pub(crate) fn set_freed_later(&self) {
        self.freed_later.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_freed_later(&self) -> bool {
        self.freed_later.load(Ordering::Relaxed)
    }

    pub(crate) fn set_busy(&self, busy: bool) {
        self.busy.store(busy, Ordering::Relaxed);
        self.reaped.notify_all();
    }

    /// Set with the books locked, before anything leaves them; taken back when the driver has it.
    pub(crate) fn set_reaping(&self, reaping: bool) {
        self.reaping.store(reaping, Ordering::Release);
        if !reaping {
            self.reaped.notify_all();
        }
    }

    fn peers(&self) -> MutexGuard<'_, Vec<Peer>> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add_peer(&self, peer: Peer) {
        self.peers().push(peer);
    }

    pub(crate) fn remove_peer(&self, of: CUcontext, by: CUcontext) {
        self.peers().retain(|peer| (peer.of, peer.by) != (of, by));
    }

    /// A context is no more, and with it what it gave and had.
    pub(crate) fn forget_peers(&self, context: CUcontext) {
        self.peers().retain(|peer| peer.of != context && peer.by != context);
    }

    /// The cards that may touch what lies in a context, besides its own.
    pub(crate) fn peers_of(&self, context: CUcontext) -> Vec<CUdevice> {
        self.peers().iter().filter(|peer| peer.of == context).map(|peer| peer.device).collect()
    }
}

/// Charges: what the card gives is charged, but for a slack that does not fit below the limit.
impl Process {
    fn debt(&self, slot: Slot) -> Option<&AtomicU32> {
        self.swap.debt_units.get(usize::from(slot.0))
    }

    /// Charges what a range takes of the card. If only what the program asked for fits, the rest is
    /// owed: less than one granule, and paid by the next release.
    pub(crate) fn charge_range(&self, slot: Slot, asked: u32, whole: u32) -> Result<(), CUresult> {
        if self.charge(slot, whole).is_ok() {
            return Ok(());
        }
        let Some(debt) = self.debt(slot) else { return Err(CUresult::OUT_OF_MEMORY) };
        let more = whole.saturating_sub(asked);
        let owe = |owed: u32| owed.checked_add(more).filter(|all| *all < MOST_DEBT_UNITS);
        if more == 0 || debt.fetch_update(Ordering::Relaxed, Ordering::Relaxed, owe).is_err() {
            return Err(CUresult::OUT_OF_MEMORY);
        }
        self.charge(slot, asked).inspect_err(|_| {
            debt.fetch_sub(more, Ordering::Relaxed);
        })
    }

    /// A small allocation is to be put into a slab: if slack is owed, it pays for what it takes.
    pub(crate) fn charge_part(&self, slot: Slot, asked: u32) -> Result<(), CUresult> {
        let Some(debt) = self.debt(slot) else { return Ok(()) };
        if debt.load(Ordering::Relaxed) == 0 {
            return Ok(());
        }
        let pay = self.pay(slot, asked);
        self.charge(slot, pay).inspect_err(|_| {
            debt.fetch_add(pay, Ordering::Relaxed);
        })
    }

    /// Takes up to `units` off what is owed.
    fn pay(&self, slot: Slot, units: u32) -> u32 {
        let Some(debt) = self.debt(slot) else { return 0 };
        let paid = debt.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |owed| {
            Some(owed.saturating_sub(units))
        });
        paid.map_or(0, |owed| owed.min(units))
    }

    /// The card has `units` back.
    pub(crate) fn release_range(&self, slot: Slot, units: u32) {
        let paid = self.pay(slot, units);
        self.release(slot, units - paid);
    }

    /// `units` have left the card for the host: what was owed of them need not be lowered.
    pub(crate) fn pay_for_leaving(&self, slot: Slot, units: u32) -> u32 {
        units - self.pay(slot, units)
    }
}

/// Waiting for our thread.
impl Process {
    /// Waits until our thread has taken back what `is_there` looks for. Not where that would take
    /// longer than a free of the driver's own: while memory is being moved, while something is
    /// captured, while nobody is there to do it.
    pub(crate) fn wait_for_reaper(
        &self,
        at_most: Option<Duration>,
        mut is_there: impl FnMut(&Backing) -> bool,
    ) {
        let _whole = Uncancelled::begin();
        let until = at_most.map(|at_most| Instant::now() + at_most);
        self.gates.bell.ring();
        let mut backing = self.swap.backing();
        while is_there(&backing) || self.swap.reaping.load(Ordering::Acquire) {
            let cannot = until.is_some_and(|until| Instant::now() > until)
                || wait::is_ending()
                || self.swap.busy.load(Ordering::Relaxed)
                || self.swap.is_away()
                || self.gates.guests.is_banned()
                || self.is_gate_closed();
            if cannot {
                return;
            }
            let waited = self.swap.reaped.wait_timeout(backing, LOOK);
            backing = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The program has waited for the card: what was freed behind that work is there again.
    #[cold]
    pub(crate) fn wait_for_later(&self) {
        if self.swap.freed_later.swap(false, Ordering::Relaxed) {
            self.wait_for_reaper(Some(LATER), Backing::has_dying);
        }
    }

    fn is_gate_closed(&self) -> bool {
        let page = self.pages().broker;
        let gate = |slot: &Slot| page.gpus.get(usize::from(slot.0));
        self.slots().iter().filter_map(gate).any(|gpu| !pass::is_open(&gpu.residency_gate))
    }
}

/// Why something can't be moved.
impl Process {
    /// Something of a kind that can't be moved has come or gone.
    #[inline]
    pub(crate) fn note_unmovable(&self) {
        if self.movable && !self.swap.dirty.swap(true, Ordering::Relaxed) {
            self.gates.bell.ring();
        }
    }

    /// A reason that stays as long as the process lives.
    pub(crate) fn note_lasting(&self, slot: Slot, reason: Reason) {
        if let Some(lasting) = self.swap.lasting.get(usize::from(slot.0)) {
            lasting.fetch_or(1 << reason as u32, Ordering::Relaxed);
        }
        self.note_unmovable();
    }

    /// The reasons on a card now, by bit.
    pub(crate) fn reasons(&self, slot: Slot) -> u32 {
        let found = self.books().unmovable(slot);
        let bit = |is: bool, reason: Reason| u32::from(is) << reason as u32;
        let lasting = self.swap.lasting.get(usize::from(slot.0));
        lasting.map_or(0, |lasting| lasting.load(Ordering::Relaxed))
            | bit(found.arrays, Reason::Array)
            | bit(found.pools, Reason::DriverPool)
            | bit(found.handles, Reason::OwnVmm)
            | bit(found.others, Reason::Plain)
    }

    /// Tells the broker of reasons that have changed. On our thread.
    pub(crate) fn tell_reasons(&self) {
        if !self.swap.dirty.swap(false, Ordering::Relaxed) {
            return;
        }
        for slot in self.slots().iter().filter(|slot| self.swap.is_on(**slot)) {
            let (reasons, Some(said)) =
                (self.reasons(*slot), self.swap.said.get(usize::from(slot.0)))
            else {
                continue;
            };
            if said.load(Ordering::Relaxed) == reasons {
                continue;
            }
            let frame = ToBroker::Reasons { gpu: slot.0, reasons }.encode();
            match self.line.send_now(&frame) {
                Ok(()) => said.store(reasons, Ordering::Relaxed),
                // Once more, when our thread wakes next.
                Err(_) => self.swap.dirty.store(true, Ordering::Relaxed),
            }
        }
    }

    /// Another broker: it was told nothing.
    pub(crate) fn forget_reasons(&self) {
        self.swap.said.iter().for_each(|said| said.store(0, Ordering::Relaxed));
        self.swap.dirty.store(true, Ordering::Relaxed);
    }
}

/// An address inside an allocation of ours.
pub(crate) fn covers(process: &Process, address: CUdeviceptr, bytes: u64) -> bool {
    process.movable && process.swap.backing().covers(address, bytes)
}
