//! What a context still has to do, and what of it may begin: commands in lanes, one per stream.
//!
//! A command is ready when those before it in its lane are done, when what it must follow in other
//! lanes is done (the legacy default stream and blocking streams wait for each other), when its own
//! condition holds (an event, a value in memory), and when there is room for it: kernels as far as
//! they fit on the card together, one copy each way, one host function. Of the ready ones the oldest
//! goes first. Times are modelled: a command could have begun when all of that was so, even if the
//! host's threads were late to notice. No clock and no thread is in here.

use crate::command::{self, Class, Work};
use std::collections::{BTreeMap, VecDeque};

/// The lane of the legacy default stream.
pub(crate) const LEGACY: usize = 1;

/// The lane of marks that follow everything in the context.
const CONTEXT_WIDE: usize = 3;

/// Kernels at the same time, each of which needs a thread here.
const MOST_KERNELS: usize = 24;

/// Commands that a stream holds before a launch waits.
const MOST_QUEUED: usize = 1024;

/// Where a command stands: done when its lane has done its number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticket {
    lane: usize,
    number: u64,
}

/// A command as it was given.
#[derive(Debug)]
pub(crate) struct Given {
    pub(crate) work: Work,
    pub(crate) class: Class,
    /// The ranges of memory that it names, by the numbers they had then.
    pub(crate) named: Option<Box<[u64]>>,
    pub(crate) at_ns: u64,
}

#[derive(Debug)]
pub(crate) struct Queued {
    pub(crate) number: u64,
    after: Vec<Ticket>,
    pub(crate) given: Given,
}

/// A command that may begin, and since when.
#[derive(Debug)]
pub(crate) struct Ready {
    lane: usize,
    pub(crate) queued: Queued,
    pub(crate) ready_ns: u64,
}

/// What there is to do.
#[derive(Debug)]
pub(crate) enum Taken {
    Ready(Box<Ready>),
    /// Only when something happens that nobody announces (a value in memory, another context).
    Conditional,
    Nothing,
}

#[derive(Debug, Default)]
struct Lane {
    commands: VecDeque<Queued>,
    submitted: u64,
    done: u64,
    /// When that was.
    done_ns: u64,
    running: bool,
    blocking: bool,
    /// Its stream was destroyed: goes away when it is empty.
    closing: bool,
}

/// What runs now, as far as it takes room from others.
#[derive(Debug, Default)]
struct Room {
    units: u64,
    kernels: usize,
    copies: [bool; 3],
    host: bool,
    /// Kernels that ended lately: when, and what they took. What begins may have waited for them.
    ended: VecDeque<(u64, u64)>,
}

#[derive(Debug, Default)]
pub(crate) struct Queue {
    last: u64,
    lanes: BTreeMap<usize, Lane>,
    room: Room,
    /// Kernels up to this number fault: memory was unmapped under them.
    pub(crate) doomed: u64,
    pub(crate) ending: bool,
}

impl Queue {
    /// `blocking` says whether the lane and the legacy lane wait for each other.
    pub(crate) fn push(&mut self, lane: usize, blocking: bool, given: Given) -> Ticket {
        let after = self.must_follow(lane, blocking);
        self.lanes.entry(lane).or_default().blocking = blocking;
        self.add(lane, after, given)
    }

    /// Behind all that is queued now, in whatever lane.
    pub(crate) fn push_behind_all(&mut self, given: Given) -> Ticket {
        let after = self.all();
        self.add(CONTEXT_WIDE, after, given)
    }

    fn add(&mut self, lane: usize, after: Vec<Ticket>, given: Given) -> Ticket {
        self.last += 1;
        let number = self.last;
        let to = self.lanes.entry(lane).or_default();
        to.submitted = number;
        to.commands.push_back(Queued { number, after, given });
        Ticket { lane, number }
    }

    /// Whether the lane takes another launch without making its thread wait, as a card's does not for
    /// ever.
    pub(crate) fn has_room(&self, lane: usize) -> bool {
        self.lanes.get(&lane).is_none_or(|lane| lane.commands.len() < MOST_QUEUED)
    }

    pub(crate) fn is_done(&self, ticket: Ticket) -> bool {
        self.lanes.get(&ticket.lane).is_none_or(|lane| lane.done >= ticket.number)
    }

    /// The last command of every lane that is not done.
    pub(crate) fn all(&self) -> Vec<Ticket> {
        self.lanes.keys().filter_map(|lane| self.last_of(*lane)).collect()
    }

    /// What a query of the stream must find done: the lane itself, and for the legacy stream all
    /// blocking ones.
    pub(crate) fn outstanding(&self, lane: usize) -> Vec<Ticket> {
        let mut tickets = if lane == LEGACY { self.must_follow(lane, true) } else { Vec::new() };
        tickets.extend(self.last_of(lane));
        tickets
    }

    fn last_of(&self, lane: usize) -> Option<Ticket> {
        let found = self.lanes.get(&lane)?;
        (found.submitted > found.done).then_some(Ticket { lane, number: found.submitted })
    }

    fn must_follow(&self, lane: usize, blocking: bool) -> Vec<Ticket> {
        if lane == LEGACY {
            let others = self.lanes.iter().filter(|(id, other)| **id != LEGACY && other.blocking);
            others.filter_map(|(id, _)| self.last_of(*id)).collect()
        } else if blocking {
            self.last_of(LEGACY).into_iter().collect()
        } else {
            Vec::new()
        }
    }

    /// The stream is gone; what it still has queued is done.
    pub(crate) fn close(&mut self, lane: usize) {
        if let Some(closing) = self.lanes.get_mut(&lane) {
            closing.closing = true;
        }
        self.lanes.retain(|_, lane| !lane.closing || lane.is_busy());
    }

    /// Takes the oldest command that may begin, on a card of so many units. In a context that failed
    /// nothing waits for its condition any more: it will not be done anyway.
    pub(crate) fn take(&mut self, capacity: u64, failed: bool) -> Taken {
        let mut conditional = false;
        let mut oldest: Option<(u64, usize)> = None;
        for (id, lane) in &self.lanes {
            let Some(head) = lane.commands.front() else { continue };
            let older = oldest.is_none_or(|(number, _)| head.number < number);
            if lane.running || !older || !head.after.iter().all(|ticket| self.is_done(*ticket)) {
                continue;
            }
            if !failed && !command::may_begin(&head.given.work) {
                conditional = true;
            } else if self.room.has(&head.given.class, capacity) {
                oldest = Some((head.number, *id));
            }
        }
        let Some((_, id)) = oldest else {
            return if conditional { Taken::Conditional } else { Taken::Nothing };
        };
        let ready_ns = self.ready_ns(id, capacity);
        let Some(lane) = self.lanes.get_mut(&id) else { return Taken::Nothing };
        let Some(queued) = lane.commands.pop_front() else { return Taken::Nothing };
        lane.running = true;
        self.room.enter(&queued.given.class);
        Taken::Ready(Box::new(Ready { lane: id, queued, ready_ns }))
    }

    /// Since when the first command of the lane could have begun.
    fn ready_ns(&self, lane: usize, capacity: u64) -> u64 {
        let Some((found, head)) =
            self.lanes.get(&lane).and_then(|l| Some((l, l.commands.front()?)))
        else {
            return 0;
        };
        let followed = head.after.iter().filter_map(|ticket| self.lanes.get(&ticket.lane));
        let followed_ns = followed.map(|lane| lane.done_ns).max().unwrap_or(0);
        let own_ns = command::condition_ns(&head.given.work);
        let ready_ns = head.given.at_ns.max(found.done_ns).max(followed_ns).max(own_ns);
        match head.given.class {
            Class::Kernel { units } => self.room.free_for(units, ready_ns, capacity),
            _ => ready_ns,
        }
    }

    /// Whether another thread would find something to do: a lane that waits for none of the others.
    pub(crate) fn has_more(&self) -> bool {
        self.lanes.values().any(|lane| !lane.running && !lane.commands.is_empty())
    }

    pub(crate) fn has_kernels(&self) -> bool {
        self.room.kernels > 0
    }

    pub(crate) fn finish(&mut self, ready: &Ready, end_ns: u64) {
        self.room.leave(&ready.queued.given.class, end_ns);
        let Some(lane) = self.lanes.get_mut(&ready.lane) else { return };
        lane.running = false;
        lane.done = ready.queued.number;
        lane.done_ns = lane.done_ns.max(end_ns);
        if lane.closing && !lane.is_busy() {
            self.lanes.remove(&ready.lane);
        }
    }

    /// Every kernel that was given so far faults.
    pub(crate) fn doom(&mut self) -> u64 {
        self.doomed = self.last;
        self.last
    }

    /// Ends it all; gives what was not begun.
    pub(crate) fn clear(&mut self) -> impl Iterator<Item = Work> + use<> {
        let lanes = std::mem::take(&mut self.lanes);
        lanes.into_values().flat_map(|lane| lane.commands).map(|queued| queued.given.work)
    }
}

impl Lane {
    fn is_busy(&self) -> bool {
        self.running || !self.commands.is_empty()
    }
}

impl Room {
    fn has(&self, class: &Class, capacity: u64) -> bool {
        match *class {
            Class::Instant => true,
            Class::Kernel { units } => {
                self.kernels < MOST_KERNELS && self.units + units.min(capacity) <= capacity
            }
            Class::Transfer(way) => !self.copies[way as usize],
            Class::Host => !self.host,
        }
    }

    fn enter(&mut self, class: &Class) {
        match *class {
            Class::Instant => {}
            Class::Kernel { units } => {
                self.units += units;
                self.kernels += 1;
            }
            Class::Transfer(way) => self.copies[way as usize] = true,
            Class::Host => self.host = true,
        }
    }

    fn leave(&mut self, class: &Class, end_ns: u64) {
        match *class {
            Class::Instant => {}
            Class::Kernel { units } => {
                self.units -= units;
                self.kernels -= 1;
                self.ended.push_back((end_ns, units));
                if self.ended.len() > 2 * MOST_KERNELS {
                    self.ended.pop_front();
                }
            }
            Class::Transfer(way) => self.copies[way as usize] = false,
            Class::Host => self.host = false,
        }
    }

    /// When there was room for a kernel beside those that run and those that ended lately.
    fn free_for(&self, units: u64, ready_ns: u64, capacity: u64) -> u64 {
        let mut later: Vec<_> = self.ended.iter().filter(|(end, _)| *end > ready_ns).collect();
        later.sort_unstable_by_key(|(end_ns, _)| std::cmp::Reverse(*end_ns));
        let mut taken = self.units + units.min(capacity);
        for (end_ns, of_it) in later {
            taken += of_it;
            if taken > capacity {
                return *end_ns;
            }
        }
        ready_ns
    }
}
