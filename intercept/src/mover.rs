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
        let (units, kept) = (units(piece.bytes).unwrap_or(0), piece.handle);
        let away = |mover: &mut Self, kept, code: Outcome| {
            process.swap.backing().stay_away(piece.address, kept);
            mover.outcome = code;
            Some(false)
        };
        if kept.is_none() {
            if units > self.budget_units {
                return away(self, None, Outcome::Driver);
            }
            process.with_word(self.slot, |word| ledger::admit(word, units, units));
            self.budget_units -= units;
        }
        let refund = |mover: &mut Self| {
            process.with_word(mover.slot, |word| ledger::leave(word, units));
            mover.budget_units += units;
        };
        let handle = match kept.map_or_else(|| backing::create(piece.home.device, piece.bytes), Ok)
        {
            Ok(handle) => handle,
            Err(_) => {
                refund(self);
                return away(self, None, Outcome::Driver);
            }
        };
        if kept.is_some() {
            // It may be mapped still; if it is not, that says nothing.
            backing::unmap(piece.address, piece.bytes);
        }
        label::handle_created();
        let give_up = |mover: &mut Self| {
            if kept.is_none() && backing::release(handle).is_ok() {
                refund(mover);
                return None;
            }
            // The card still has it: it counts, and waits for the next try.
            mover.taken_units += if kept.is_none() { units } else { 0 };
            Some(handle)
        };
        if !backing::map(piece.address, piece.bytes, handle).is_ok() {
            let kept = give_up(self);
            return away(self, kept, Outcome::Driver);
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
                flight.piece.handle = Some(handle);
                flight.paid = kept.is_none();
                self.flights.push_back(flight);
                label::copy_in_begun();
                Some(true)
            }
            other => {
                let kept = self.unmap_arriving(&piece, handle, give_up);
                let not_now = matches!(other, Copying::NotNow);
                away(self, kept, if not_now { Outcome::Done } else { Outcome::Driver })
            }
        }
    }

    /// Takes back the mapping of a piece that does not arrive. One that the driver does not unmap stays
    /// mapped, and its handle is kept.
    fn unmap_arriving(
        &mut self,
        piece: &Piece,
        handle: u64,
        give_up: impl FnOnce(&mut Self) -> Option<u64>,
    ) -> Option<u64> {
        if backing::unmap(piece.address, piece.bytes).is_ok() {
            give_up(self)
        } else {
            Some(handle)
        }
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
        let units = units(piece.bytes).unwrap_or(0);
        if copied {
            label::copied_in();
            process.swap.backing().arrived(piece.address, handle);
            self.taken_units += if paid { units } else { 0 };
            return;
        }
        self.outcome = Outcome::Driver;
        let kept = self.unmap_arriving(piece, handle, |mover| {
            if paid && backing::release(handle).is_ok() {
                process.with_word(mover.slot, |word| ledger::leave(word, units));
                None
            } else {
                mover.taken_units += if paid { units } else { 0 };
                Some(handle)
            }
        });
        process.swap.backing().stay_away(piece.address, kept);
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
