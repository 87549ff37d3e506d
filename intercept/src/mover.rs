//! Our thread's part in swaps: moving what lies on a card into host copies, and back to the same
//! addresses. A step at a time, so that frames are read meanwhile; nothing is waited for.
//!
//! Out, in the order things happen:
//!
//! ```text
//!   the frame        the residency gate is closed; a deadline comes with it
//!   slots            nobody is between a gate and the driver any more
//!   marks            until all work of every card has ended, or the deadline has come
//!   each piece       copy (several under way) · unmap · release · the word · Left
//!   SwapEnded
//! ```
//!
//! In: each piece: the word · create · map · access · copy; then `SwapEnded`. A step that the driver
//! refuses is undone, nothing further is begun, and what is under way is brought to its end: every
//! piece is then on one side, whole.

use std::{collections::VecDeque, time::Duration};

use halfwarp_api::{
    units,
    wire::{Outcome, Reason, ToBroker},
};
use halfwarp_books::{Piece, Slot};
use halfwarp_gate::ledger;
use halfwarp_label as label;
use shim_cuda_headers::{CUdeviceptr, CUresult};

use crate::{
    backing,
    chunks::Chunks,
    contexts::Use,
    copies::{Copies, Copying, Flight, query},
    mark::{Marks, State},
    process::Process,
    reaper::Reaper,
    staging::Way,
    wait,
};

const FIRST_LOOK: Duration = Duration::from_micros(20);
const LAST_LOOK: Duration = Duration::from_micros(200);
/// Under way at once: at least two pieces, and no more than this, in bytes and in pieces.
const MOST_BYTES: u64 = 64 << 20;
const MOST_PIECES: usize = 32;

/// One move.
#[derive(Debug)]
pub(crate) struct Mover {
    seq: u32,
    slot: Slot,
    way: Way,
    until_ns: u64,
    /// Work that may touch what is to be moved has ended.
    drained: bool,
    marks: Option<Marks>,
    captured: bool,
    flights: VecDeque<Flight>,
    copies: Copies,
    /// Pieces before this address have been looked at.
    after: CUdeviceptr,
    budget_units: u32,
    taken_units: u32,
    outcome: Outcome,
    look: Duration,
    /// Nobody waits for the answer.
    mute: bool,
}

impl Mover {
    fn new(seq: u32, slot: Slot, way: Way, until_ns: u64, budget_units: u32) -> Self {
        Self {
            seq,
            slot,
            way,
            until_ns,
            drained: way == Way::In,
            marks: None,
            captured: false,
            flights: VecDeque::new(),
            copies: Copies::default(),
            after: 0,
            budget_units,
            taken_units: 0,
            outcome: Outcome::Done,
            look: FIRST_LOOK,
            mute: false,
        }
    }

    pub(crate) fn out(seq: u32, slot: Slot, within_ns: u64) -> Self {
        label::swap_out_asked();
        Self::new(seq, slot, Way::Out, wait::now_ns().saturating_add(within_ns), 0)
    }

    pub(crate) fn back(seq: u32, slot: Slot, units: u32) -> Self {
        label::swap_in_asked();
        Self::new(seq, slot, Way::In, 0, units)
    }

    /// The broker is gone: what is under way is brought to its end, nothing further is begun.
    pub(crate) fn cut_short(&mut self) {
        (self.outcome, self.mute) = (Outcome::Driver, true);
        if !self.drained {
            self.until_ns = 0;
        }
    }

    /// Goes on. `None` once it has ended; else when to look again. `passing`: a thread is between a gate
    /// and the driver.
    pub(crate) fn step(
        &mut self,
        process: &Process,
        chunks: &Chunks,
        reaper: &mut Reaper,
        passing: bool,
    ) -> Option<Duration> {
        if !self.drained {
            match self.drain(process, passing) {
                Some(Outcome::Done) => self.begin_moving(process, reaper),
                Some(outcome) => {
                    self.outcome = outcome;
                    self.drained = true;
                }
                None => return Some(self.slower()),
            }
        }
        let mut moved = self.land(process);
        while self.outcome == Outcome::Done && self.has_room() {
            match self.begin_next(process, chunks) {
                Some(true) => moved = true,
                Some(false) => break,
                None => {
                    if self.flights.is_empty() {
                        self.end(process);
                        return None;
                    }
                    break;
                }
            }
        }
        if self.outcome != Outcome::Done && self.flights.is_empty() {
            self.end(process);
            return None;
        }
        if moved {
            self.look = FIRST_LOOK;
        }
        Some(self.slower())
    }

    fn slower(&mut self) -> Duration {
        let look = self.look;
        self.look = (look * 2).min(LAST_LOOK);
        look
    }

    /// How the drain has ended, if it has.
    fn drain(&mut self, process: &Process, passing: bool) -> Option<Outcome> {
        let late = wait::now_ns() >= self.until_ns;
        if self.marks.is_none() && !passing {
            self.marks = Some(Marks::set(process, process.slots()));
            label::drain_marked();
        }
        match self.marks.as_mut().map(Marks::look) {
            Some(State::Passed) if !self.mute => Some(Outcome::Done),
            Some(State::Captured) => {
                (self.marks, self.captured) = (None, true);
                late.then_some(Outcome::Capture)
            }
            _ if late => Some(if self.captured { Outcome::Capture } else { Outcome::Undrained }),
            _ => None,
        }
    }

    /// All work has ended.
    fn begin_moving(&mut self, process: &Process, reaper: &mut Reaper) {
        self.drained = true;
        reaper.reap_all(process);
        if process.reasons(self.slot) & !(1 << Reason::NoPin as u32) != 0 {
            self.outcome = Outcome::Unmovable;
            return;
        }
        if process.swap.take_touch() {
            for slot in process.slots() {
                process.swap.backing().forget_copies(*slot, None);
            }
        }
        process.swap.set_away(true);
    }

    fn has_room(&self) -> bool {
        let bytes: u64 = self.flights.iter().map(|flight| flight.piece.bytes).sum();
        let pieces = self.flights.len();
        pieces < 2 || pieces < MOST_PIECES && bytes < MOST_BYTES
    }

    /// Begins with the next piece. `None`: there is none; false: not now.
    fn begin_next(&mut self, process: &Process, chunks: &Chunks) -> Option<bool> {
        match self.way {
            Way::Out => self.begin_out(process, chunks),
            Way::In => self.begin_in(process, chunks),
        }
    }

    fn begin_out(&mut self, process: &Process, chunks: &Chunks) -> Option<bool> {
        let begun = process.swap.backing().begin_leave(self.slot, self.after);
        let Ok(begun) = begun else {
            self.outcome = Outcome::Host;
            return Some(false);
        };
        let (piece, is_true) = begun?;
        if is_true {
            self.after = piece.address + 1;
            let handle = piece.home.context;
            return match process.gates.contexts.find(handle) {
                Some(context) => {
                    let flight = Flight { piece, context, handle, event: None, paid: false };
                    self.flights.push_back(flight);
                    Some(true)
                }
                None => self.cannot_leave(process, &piece, true),
            };
        }
        match self.copies.begin(process, chunks, self.way, &piece) {
            Copying::Begun(flight) => {
                self.after = piece.address + 1;
                self.flights.push_back(flight);
                label::copy_out_begun();
                Some(true)
            }
            Copying::NotNow => {
                process.swap.backing().stay(piece.address, false);
                Some(false)
            }
            Copying::Refused => self.cannot_leave(process, &piece, false),
        }
    }

    fn cannot_leave(&mut self, process: &Process, piece: &Piece, is_true: bool) -> Option<bool> {
        process.swap.backing().stay(piece.address, is_true);
        self.outcome = Outcome::Driver;
        Some(false)
    }

    fn begin_in(&mut self, process: &Process, chunks: &Chunks) -> Option<bool> {
        let piece = process.swap.backing().begin_arrive(self.slot)?;
        let paid = piece.handle.is_none();
        let Some(handle) = self.obtain(process, &piece) else {
            process.swap.backing().stay_away(piece.address, None);
            self.outcome = Outcome::Driver;
            return Some(false);
        };
        label::handle_created();
        if !backing::map(piece.address, piece.bytes, handle).is_ok() {
            self.give_up(process, &piece, handle, paid);
            self.outcome = Outcome::Driver;
            return Some(false);
        }
        label::piece_mapped();
        let devices = backing::devices(process, piece.home);
        let allowed = backing::allow(piece.address, piece.bytes, &devices).is_ok();
        let copying = if allowed {
            self.copies.begin(process, chunks, self.way, &piece)
        } else {
            Copying::Refused
        };
        match copying {
            Copying::Begun(mut flight) => {
                (flight.piece.handle, flight.paid) = (Some(handle), paid);
                self.flights.push_back(flight);
                label::copy_in_begun();
                return Some(true);
            }
            Copying::NotNow => {}
            Copying::Refused => self.outcome = Outcome::Driver,
        }
        self.take_back(process, &piece, handle, paid);
        Some(false)
    }

    /// Memory of the card for a piece: what it still has, or new, which is charged first.
    fn obtain(&mut self, process: &Process, piece: &Piece) -> Option<u64> {
        if let Some(kept) = piece.handle {
            // It may be mapped still; if it is not, that says nothing.
            backing::unmap(piece.address, piece.bytes);
            return Some(kept);
        }
        let units = units(piece.bytes).unwrap_or(0);
        self.budget_units = self.budget_units.checked_sub(units)?;
        process.with_word(self.slot, |word| ledger::admit(word, units, units));
        let made = backing::create(piece.home.device, piece.bytes).ok();
        if made.is_none() {
            self.refund(process, units);
        }
        made
    }

    fn refund(&mut self, process: &Process, units: u32) {
        process.with_word(self.slot, |word| ledger::leave(word, units));
        self.budget_units += units;
    }

    /// Takes back the mapping of a piece that does not arrive, and its memory. One that the driver does
    /// not unmap stays mapped, and its memory is kept.
    fn take_back(&mut self, process: &Process, piece: &Piece, handle: u64, paid: bool) {
        if backing::unmap(piece.address, piece.bytes).is_ok() {
            self.give_up(process, piece, handle, paid);
        } else {
            self.keep(process, piece, handle, paid);
        }
    }

    /// Releases the memory of a piece that does not arrive, if this move brought it.
    fn give_up(&mut self, process: &Process, piece: &Piece, handle: u64, paid: bool) {
        if paid && backing::release(handle).is_ok() {
            self.refund(process, units(piece.bytes).unwrap_or(0));
            process.swap.backing().stay_away(piece.address, None);
        } else {
            self.keep(process, piece, handle, paid);
        }
    }

    /// The card still has it: it counts, and waits for the next move.
    fn keep(&mut self, process: &Process, piece: &Piece, handle: u64, paid: bool) {
        self.taken_units += if paid { units(piece.bytes).unwrap_or(0) } else { 0 };
        process.swap.backing().stay_away(piece.address, Some(handle));
    }

    /// Brings copies to their end that are done; whether any was.
    fn land(&mut self, process: &Process) -> bool {
        let mut any = false;
        while let Some(flight) = self.flights.front() {
            if wait::is_ending() {
                break;
            }
            let code = match flight.event {
                None => CUresult::SUCCESS,
                Some(event) => query(flight, event),
            };
            if code == CUresult::NOT_READY {
                break;
            }
            let Some(flight) = self.flights.pop_front() else { break };
            if let Some(event) = flight.event {
                flight.context.give_event(flight.handle, Use::Mark, event);
            }
            match self.way {
                Way::Out => self.finish_out(process, &flight.piece, code.is_ok()),
                Way::In => self.finish_in(process, &flight.piece, code.is_ok(), flight.paid),
            }
            any = true;
        }
        any
    }

    fn finish_out(&mut self, process: &Process, piece: &Piece, copied: bool) {
        let Some(handle) = piece.handle else { return };
        if !copied || self.mute {
            process.swap.backing().stay(piece.address, copied);
            self.outcome = Outcome::Driver;
            return;
        }
        label::copied_out();
        if !backing::unmap(piece.address, piece.bytes).is_ok() {
            process.swap.backing().stay(piece.address, true);
            self.outcome = Outcome::Driver;
            return;
        }
        label::piece_unmapped();
        if !backing::release(handle).is_ok() {
            self.put_back(process, piece, handle);
            return;
        }
        label::handle_released();
        process.swap.backing().left(piece.address, None);
        let units = units(piece.bytes).unwrap_or(0);
        let units = process.pay_for_leaving(self.slot, units);
        process.with_word(self.slot, |word| ledger::leave(word, units));
        label::units_left();
        // If it can't be sent the broker is gone; the next one begins with what is held.
        let _ =
            process.line.send(&ToBroker::Left { seq: self.seq, gpu: self.slot.0, units }.encode());
    }

    /// The driver did not take the memory back: it stays where it was, or, if even that is refused,
    /// waits with its handle.
    fn put_back(&mut self, process: &Process, piece: &Piece, handle: u64) {
        self.outcome = Outcome::Driver;
        let devices = backing::devices(process, piece.home);
        let mapped = backing::map(piece.address, piece.bytes, handle).is_ok();
        if mapped && backing::allow(piece.address, piece.bytes, &devices).is_ok() {
            process.swap.backing().stay(piece.address, true);
            return;
        }
        if mapped {
            backing::unmap(piece.address, piece.bytes);
        }
        process.swap.backing().left(piece.address, Some(handle));
    }

    fn finish_in(&mut self, process: &Process, piece: &Piece, copied: bool, paid: bool) {
        let Some(handle) = piece.handle else { return };
        if copied {
            label::copied_in();
            process.swap.backing().arrived(piece.address, handle);
            self.taken_units += if paid { units(piece.bytes).unwrap_or(0) } else { 0 };
            return;
        }
        self.outcome = Outcome::Driver;
        self.take_back(process, piece, handle, paid);
    }

    /// It has ended, whichever way.
    fn end(&mut self, process: &Process) {
        self.marks.take().into_iter().for_each(Marks::abandon);
        self.copies.end();
        let (swapped, whole) = {
            let backing = process.swap.backing();
            (units(backing.swapped_bytes(self.slot)).unwrap_or(0), backing.is_whole())
        };
        if process.swap.is_away() && whole {
            process.swap.set_away(false);
        }
        label::swap_done();
        if self.mute {
            return;
        }
        let ended = ToBroker::SwapEnded {
            seq: self.seq,
            gpu: self.slot.0,
            outcome: self.outcome,
            swapped,
            taken: self.taken_units,
        };
        // If it can't be sent the broker is gone; the next one is told anew.
        let _ = process.line.send(&ended.encode());
        label::swap_ended_sent();
    }
}
