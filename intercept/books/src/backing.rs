//! Memory that can be moved: which allocation lies in which addresses, which physical piece is behind
//! them, and where the bytes of each piece are.
//!
//! ```text
//!   an allocation    what the program asked for; freed by its base
//!     a range        reserved addresses, kept as long as an allocation lies in them
//!       pieces       one physical handle each; large: one allocation's; a slab: of many small ones
//!                      Resident ─> Leaving ─> Swapped ─> Arriving ─> Resident
//! ```
//!
//! Plain data: whoever makes the calls of the driver says here what came of them. A piece that is not
//! resident is touched by our own thread alone, and so is every unmapping; a program's free only says
//! that an allocation is dying.

use std::collections::BTreeMap;

use shim_cuda_headers::{CUcontext, CUdevice, CUdeviceptr, CUmemGenericAllocationHandle};

use crate::{
    Slot,
    host::{Extent, Room},
    slab::Slab,
    spread::Map,
};

/// Largest piece.
pub const PIECE_BYTES: u64 = 512 << 20;
/// A slab, and the least that a range has on every card so far.
pub const SLAB_BYTES: u64 = 2 << 20;

/// Where the bytes of a piece are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Where {
    /// On the card, at their addresses.
    Resident,
    /// On the card; a copy of them is being made.
    Leaving,
    /// In the host copy alone.
    Swapped,
    /// In the host copy; they are being brought back.
    Arriving,
}

/// Physical memory behind part of a range.
#[derive(Clone, Debug)]
pub struct Piece {
    pub address: CUdeviceptr,
    pub bytes: u64,
    pub home: Home,
    /// `None` while no memory of the card is behind it.
    pub handle: Option<CUmemGenericAllocationHandle>,
    pub at: Where,
    /// A copy that is as true as what is on the card, or the only one.
    pub copy: Option<Vec<Extent>>,
    slab: Option<Slab>,
    range: CUdeviceptr,
}

/// Where an allocation was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Home {
    pub slot: Slot,
    pub context: CUcontext,
    pub device: CUdevice,
}

/// What the program sees of an allocation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seen {
    pub base: CUdeviceptr,
    /// As asked for.
    pub bytes: u64,
    pub home: Home,
    /// Never the same for two allocations of a process.
    pub number: u64,
}

#[derive(Clone, Copy, Debug)]
struct Allocation {
    bytes: u64,
    home: Home,
    number: u64,
    range: CUdeviceptr,
    dying: bool,
}

#[derive(Clone, Copy, Debug)]
struct Range {
    bytes: u64,
    /// Allocations in it.
    users: u32,
}

/// A range that nothing lies in any more: what is to be undone with the driver.
#[derive(Debug, Default)]
pub struct Gone {
    pub base: CUdeviceptr,
    pub bytes: u64,
    pub slot: Option<Slot>,
    /// Still mapped: address, bytes and handle.
    pub mapped: Vec<(CUdeviceptr, u64, CUmemGenericAllocationHandle)>,
    /// Not mapped any more, but there.
    pub handles: Vec<(CUmemGenericAllocationHandle, u64)>,
    /// Bytes that were swapped.
    pub swapped_bytes: u64,
}

/// What comes of a free.
#[derive(Debug)]
pub enum Freeing {
    /// No allocation begins there.
    Foreign,
    /// It is taken back once no work can touch it.
    Dying,
    /// It was swapped, and is gone; with it a range, perhaps.
    Gone(Option<Gone>),
}

/// All of it, of one process.
#[derive(Debug, Default)]
pub struct Backing {
    allocations: BTreeMap<CUdeviceptr, Allocation>,
    ranges: Map<CUdeviceptr, Range>,
    pieces: BTreeMap<CUdeviceptr, Piece>,
    rooms: Map<Slot, Room>,
    next: u64,
    /// Dying allocations that nobody has taken up yet.
    dying: Vec<CUdeviceptr>,
}

impl Backing {
    /// Puts a small allocation into a slab of its home that has room.
    pub fn place(&mut self, home: Home, bytes: u64) -> Option<CUdeviceptr> {
        let fits = |piece: &&mut Piece| piece.home == home && piece.at == Where::Resident;
        for piece in self.pieces.values_mut().filter(fits) {
            let Some(offset) = piece.slab.as_mut().and_then(|slab| slab.take(bytes)) else {
                continue;
            };
            // What is written there makes a copy untrue; that is noticed at the gate.
            let (base, range) = (piece.address + offset, piece.range);
            self.enter(base, bytes, home, range);
            return Some(base);
        }
        None
    }

    /// A range has been made for one large allocation.
    pub fn enter_large(
        &mut self,
        base: CUdeviceptr,
        bytes: u64,
        home: Home,
        pieces: &[(CUdeviceptr, u64, CUmemGenericAllocationHandle)],
    ) {
        self.enter_range(base, home, pieces, false);
        self.enter(base, bytes, home, base);
    }

    /// A range has been made for small allocations, and the first of them takes its place.
    pub fn enter_slab(
        &mut self,
        piece: (CUdeviceptr, u64, CUmemGenericAllocationHandle),
        home: Home,
        bytes: u64,
    ) -> Option<CUdeviceptr> {
        self.enter_range(piece.0, home, &[piece], true);
        let offset = self.pieces.get_mut(&piece.0)?.slab.as_mut()?.take(bytes)?;
        self.enter(piece.0 + offset, bytes, home, piece.0);
        Some(piece.0 + offset)
    }

    fn enter_range(
        &mut self,
        base: CUdeviceptr,
        home: Home,
        pieces: &[(CUdeviceptr, u64, CUmemGenericAllocationHandle)],
        slab: bool,
    ) {
        for (address, bytes, handle) in pieces {
            let (address, bytes) = (*address, *bytes);
            let slab = slab.then(|| Slab::new(bytes));
            let (handle, at) = (Some(*handle), Where::Resident);
            let piece = Piece { address, bytes, home, handle, at, copy: None, slab, range: base };
            self.pieces.insert(address, piece);
        }
        let bytes = pieces.iter().map(|(_, bytes, _)| bytes).sum();
        self.ranges.insert(base, Range { bytes, users: 0 });
    }

    fn enter(&mut self, base: CUdeviceptr, bytes: u64, home: Home, range: CUdeviceptr) {
        self.next += 1;
        let number = self.next;
        self.allocations.insert(base, Allocation { bytes, home, number, range, dying: false });
        if let Some(range) = self.ranges.get_mut(&range) {
            range.users += 1;
        }
    }

    /// The live allocation that an address lies in.
    #[must_use]
    pub fn find(&self, address: CUdeviceptr) -> Option<Seen> {
        let (base, found) = self.allocations.range(..=address).next_back()?;
        let inside = address - base < found.bytes && !found.dying;
        let Allocation { bytes, home, number, .. } = *found;
        inside.then_some(Seen { base: *base, bytes, home, number })
    }

    /// Whether a range of addresses touches one of ours.
    #[must_use]
    pub fn covers(&self, address: CUdeviceptr, bytes: u64) -> bool {
        let end = address.saturating_add(bytes.max(1));
        let before = self.pieces.range(..end).next_back();
        before.is_some_and(|(at, piece)| at + piece.bytes > address)
    }

    /// The program frees what begins at `base`.
    pub fn free(&mut self, base: CUdeviceptr) -> Freeing {
        let Some(found) = self.allocations.get_mut(&base).filter(|found| !found.dying) else {
            return Freeing::Foreign;
        };
        found.dying = true;
        let range = found.range;
        if self.settled(range, Where::Swapped) {
            return Freeing::Gone(self.end(base));
        }
        self.dying.push(base);
        Freeing::Dying
    }

    /// Everything that was made in a context is dying.
    pub fn end_context(&mut self, context: CUcontext, before: u64) -> bool {
        let mut any = false;
        for (base, found) in &mut self.allocations {
            if found.home.context == context && !found.dying && found.number <= before {
                found.dying = true;
                any = true;
                self.dying.push(*base);
            }
        }
        any
    }

    /// The number of the latest allocation.
    #[must_use]
    pub fn latest(&self) -> u64 {
        self.next
    }

    /// Dying allocations that nobody has taken up: from here on they are the caller's to [`Self::reap`].
    pub fn take_dying(&mut self) -> Vec<CUdeviceptr> {
        std::mem::take(&mut self.dying)
    }

    /// A dying allocation was not reaped after all.
    pub fn put_back(&mut self, base: CUdeviceptr) {
        self.dying.push(base);
    }

    /// Whether an allocation that is dying is still there.
    #[must_use]
    pub fn is_dying(&self, base: CUdeviceptr, number: u64) -> bool {
        self.allocations.get(&base).is_some_and(|found| found.dying && found.number == number)
    }

    /// Whether anything is dying.
    #[must_use]
    pub fn has_dying(&self) -> bool {
        self.allocations.values().any(|found| found.dying)
    }

    /// Whether anything of a context is dying.
    #[must_use]
    pub fn has_dying_of(&self, context: CUcontext) -> bool {
        self.allocations.values().any(|found| found.dying && found.home.context == context)
    }

    /// No work can touch these any more. What is gone with them; those whose pieces are on their way
    /// are left in the list.
    pub fn reap(&mut self, list: &mut Vec<CUdeviceptr>) -> Vec<Gone> {
        let mut gone = Vec::new();
        list.retain(|base| {
            let Some(found) = self.allocations.get(base) else { return false };
            let range = found.range;
            if !self.settled(range, Where::Resident) && !self.settled(range, Where::Swapped) {
                let pieces = self.pieces_of(range);
                if pieces.into_iter().any(|p| matches!(p.at, Where::Leaving | Where::Arriving)) {
                    return true;
                }
            }
            gone.extend(self.end(*base));
            false
        });
        gone
    }

    fn pieces_of(&self, range: CUdeviceptr) -> Vec<&Piece> {
        let end = range + self.ranges.get(&range).map_or(0, |range| range.bytes);
        self.pieces.range(range..end).map(|(_, piece)| piece).collect()
    }

    fn settled(&self, range: CUdeviceptr, at: Where) -> bool {
        self.pieces_of(range).iter().all(|piece| piece.at == at)
    }

    /// An allocation is no more; the range that is gone with it.
    fn end(&mut self, base: CUdeviceptr) -> Option<Gone> {
        let found = self.allocations.remove(&base)?;
        self.dying.retain(|other| *other != base);
        if let Some(slab) = self.pieces.get_mut(&found.range).and_then(|p| p.slab.as_mut()) {
            slab.give(base - found.range, found.bytes);
        }
        let range = self.ranges.get_mut(&found.range)?;
        range.users = range.users.saturating_sub(1);
        if range.users > 0 {
            return None;
        }
        let bytes = self.ranges.remove(&found.range)?.bytes;
        let mut gone = Gone { base: found.range, bytes, ..Gone::default() };
        let inside = self.pieces.range(found.range..found.range + bytes);
        let addresses: Vec<_> = inside.map(|(at, _)| *at).collect();
        for piece in addresses.iter().filter_map(|at| self.pieces.remove(at)) {
            let slot = piece.home.slot;
            gone.slot = Some(slot);
            if let (Some(copy), Some(room)) = (&piece.copy, self.rooms.get_mut(&slot)) {
                room.give(copy);
            }
            match (piece.at, piece.handle) {
                (Where::Resident | Where::Leaving, Some(handle)) => {
                    gone.mapped.push((piece.address, piece.bytes, handle));
                }
                (_, handle) => {
                    // Memory that could not be released is held in place of the copy.
                    if handle.is_none() {
                        gone.swapped_bytes += piece.bytes;
                    }
                    gone.handles.extend(handle.map(|handle| (handle, piece.bytes)));
                }
            }
        }
        Some(gone)
    }
}

/// What moves.
impl Backing {
    /// The room for host copies on a card.
    pub fn room(&mut self, slot: Slot) -> &mut Room {
        self.rooms.entry(slot).or_default()
    }

    /// Something may have been written since the copies were made: they are true no more.
    pub fn forget_copies(&mut self, slot: Slot, only_in: Option<u32>) {
        let room = self.rooms.entry(slot).or_default();
        for piece in self.pieces.values_mut() {
            let lies_there = |copy: &&Vec<Extent>| {
                only_in.is_none_or(|chunk| copy.iter().any(|part| part.chunk == chunk))
            };
            if piece.home.slot == slot
                && piece.at == Where::Resident
                && piece.copy.as_ref().filter(lies_there).is_some()
                && let Some(copy) = piece.copy.take()
            {
                room.give(&copy);
            }
        }
    }

    fn is_live(&self, piece: &Piece) -> bool {
        piece.slab.is_some() || self.allocations.get(&piece.range).is_some_and(|found| !found.dying)
    }

    /// The next piece on a card to leave, at `after` or behind, with room for its copy: it is leaving
    /// from here on. `Err` if there is no room for it. Also whether the copy is there already.
    pub fn begin_leave(
        &mut self,
        slot: Slot,
        after: CUdeviceptr,
    ) -> Result<Option<(Piece, bool)>, NoRoom> {
        let wanted = |piece: &&Piece| {
            piece.home.slot == slot && piece.at == Where::Resident && self.is_live(piece)
        };
        let found = self.pieces.range(after..).map(|(_, piece)| piece).find(wanted);
        let Some(address) = found.map(|piece| piece.address) else { return Ok(None) };
        let room = self.rooms.entry(slot).or_default();
        let Some(piece) = self.pieces.get_mut(&address) else { return Ok(None) };
        let is_true = piece.copy.is_some();
        if !is_true {
            piece.copy = Some(room.take(piece.bytes).ok_or(NoRoom)?);
        }
        piece.at = Where::Leaving;
        Ok(Some((piece.clone(), is_true)))
    }

    /// It is still where it was. `is_true`: the copy is.
    pub fn stay(&mut self, address: CUdeviceptr, is_true: bool) {
        let Some(piece) = self.pieces.get_mut(&address).filter(|p| p.at == Where::Leaving) else {
            return;
        };
        piece.at = Where::Resident;
        let room = self.rooms.entry(piece.home.slot).or_default();
        if let Some(copy) = piece.copy.take_if(|_| !is_true) {
            room.give(&copy);
        }
    }

    /// It has left. `kept`: the driver did not take back its memory.
    pub fn left(&mut self, address: CUdeviceptr, kept: Option<CUmemGenericAllocationHandle>) {
        if let Some(piece) = self.pieces.get_mut(&address).filter(|p| p.at == Where::Leaving) {
            (piece.at, piece.handle) = (Where::Swapped, kept);
        }
    }

    /// The next piece on a card that is to come back: it arrives from here on.
    pub fn begin_arrive(&mut self, slot: Slot) -> Option<Piece> {
        let wanted = |piece: &&Piece| {
            piece.home.slot == slot && piece.at == Where::Swapped && self.is_live(piece)
        };
        let address = self.pieces.values().find(wanted)?.address;
        let piece = self.pieces.get_mut(&address)?;
        piece.at = Where::Arriving;
        Some(piece.clone())
    }

    /// It could not be brought back; `kept` as in [`Self::left`].
    pub fn stay_away(&mut self, address: CUdeviceptr, kept: Option<CUmemGenericAllocationHandle>) {
        if let Some(piece) = self.pieces.get_mut(&address).filter(|p| p.at == Where::Arriving) {
            (piece.at, piece.handle) = (Where::Swapped, kept);
        }
    }

    /// It is back; its copy stays true until something is written.
    pub fn arrived(&mut self, address: CUdeviceptr, handle: CUmemGenericAllocationHandle) {
        if let Some(piece) = self.pieces.get_mut(&address).filter(|p| p.at == Where::Arriving) {
            (piece.at, piece.handle) = (Where::Resident, Some(handle));
        }
    }

    /// Bytes on a card whose only copy is the host's.
    #[must_use]
    pub fn swapped_bytes(&self, slot: Slot) -> u64 {
        let on = self.pieces.values().filter(|piece| piece.home.slot == slot);
        on.filter(|p| p.at == Where::Swapped && p.handle.is_none()).map(|p| p.bytes).sum()
    }

    /// Whether every piece of every card is where the program expects it.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.pieces.values().all(|piece| piece.at == Where::Resident || !self.is_live(piece))
    }

    /// What is mapped of the allocations of a context.
    #[must_use]
    pub fn mapped_in(&self, context: CUcontext) -> Vec<(CUdeviceptr, u64)> {
        let of = self.pieces.values().filter(|piece| piece.home.context == context);
        let mapped = of.filter(|p| matches!(p.at, Where::Resident | Where::Leaving));
        mapped.map(|piece| (piece.address, piece.bytes)).collect()
    }

    /// Every piece, for those who check.
    pub fn pieces(&self) -> impl Iterator<Item = &Piece> {
        self.pieces.values()
    }
}

/// There is no room for a host copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoRoom;
