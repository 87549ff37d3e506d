//! The engine of a context: a thread that carries out commands, each when its turn has come.
//!
//! Commands wait in lanes, one per stream. A command is ready when those before it in its lane are
//! done, when what it must follow in other lanes is done (the legacy default stream and blocking
//! streams wait for each other), and when its own condition holds (an event, a value in memory).
//! Of the ready ones the oldest goes first. Nothing takes effect at submission.

use crate::command::{self, Work};
use crate::entry::log;
use crate::space::{Observer, SPACE};
use crate::{fault, raw};
use shim_cuda_headers::CUresult;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// The lane of the legacy default stream.
pub(crate) const LEGACY: usize = 1;

/// The lane of marks that follow everything in the context.
const CONTEXT_WIDE: usize = 3;

/// How often a condition is looked at that nobody announces (a value in memory).
const LOOK: Duration = Duration::from_micros(200);

/// Where a command stands: done when its lane has done its number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticket {
    lane: usize,
    number: u64,
}

#[derive(Debug)]
struct Queued {
    number: u64,
    after: Vec<Ticket>,
    work: Work,
}

#[derive(Debug, Default)]
struct Lane {
    commands: VecDeque<Queued>,
    submitted: u64,
    done: u64,
    blocking: bool,
    /// Its stream was destroyed: goes away when it is empty.
    closing: bool,
}

#[derive(Debug, Default)]
struct Queue {
    last: u64,
    lanes: BTreeMap<usize, Lane>,
    ending: bool,
    ended: bool,
}

#[derive(Debug)]
pub(crate) struct Engine {
    queue: Mutex<Queue>,
    work: Condvar,
    done: Condvar,
    /// Code of the first command that failed for good, or 0.
    sticky: AtomicU32,
    stopping: AtomicBool,
    /// A fault: nothing begins any more, as long as this is set.
    stuck: AtomicBool,
}

impl Engine {
    pub(crate) fn start() -> Result<Arc<Self>, CUresult> {
        let engine = Arc::new(Self {
            queue: Mutex::default(),
            work: Condvar::new(),
            done: Condvar::new(),
            sticky: AtomicU32::new(0),
            stopping: AtomicBool::new(false),
            stuck: AtomicBool::new(false),
        });
        let own = Arc::clone(&engine);
        let observer = SPACE.watch();
        let thread = thread::Builder::new().name("simcuda".to_owned());
        let started = raw::without_signals(|| thread.spawn(move || own.run(&observer)));
        started.map(|_| engine).map_err(|_| CUresult::OUT_OF_MEMORY)
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Error of an earlier command, which all later calls repeat.
    pub(crate) fn check(&self) -> Result<(), CUresult> {
        match self.sticky.load(Ordering::Acquire) {
            0 => Ok(()),
            code => Err(CUresult(code)),
        }
    }

    /// Ends the context from outside, as if a command had failed; the first reason stays.
    pub(crate) fn fail(&self, code: CUresult) {
        let _ = self.sticky.compare_exchange(0, code.0, Ordering::AcqRel, Ordering::Relaxed);
        self.work.notify_all();
    }

    pub(crate) fn set_stuck(&self, stuck: bool) {
        self.stuck.store(stuck, Ordering::Relaxed);
    }

    /// Whether commands may begin: a failed context's end at once.
    fn may_begin(&self) -> bool {
        !self.stuck.load(Ordering::Relaxed) || self.check().is_err()
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// Queues a command. `blocking` says whether the lane and the legacy lane wait for each other.
    pub(crate) fn submit(&self, lane: usize, blocking: bool, work: Work) -> Ticket {
        let mut queue = self.queue();
        queue.last += 1;
        let number = queue.last;
        let after = queue.must_follow(lane, blocking);
        let to = queue.lanes.entry(lane).or_default();
        to.blocking = blocking;
        to.submitted = number;
        to.commands.push_back(Queued { number, after, work });
        drop(queue);
        self.work.notify_one();
        Ticket { lane, number }
    }

    /// Queues a command behind all that is queued now, in whatever lane.
    pub(crate) fn submit_behind_all(&self, work: Work) -> Ticket {
        let mut queue = self.queue();
        queue.last += 1;
        let number = queue.last;
        let after = queue.lanes.keys().filter_map(|lane| queue.last_of(*lane)).collect();
        let to = queue.lanes.entry(CONTEXT_WIDE).or_default();
        to.submitted = number;
        to.commands.push_back(Queued { number, after, work });
        drop(queue);
        self.work.notify_one();
        Ticket { lane: CONTEXT_WIDE, number }
    }

    /// What a query of the stream must find done: the lane itself, and for the legacy stream all
    /// blocking ones.
    pub(crate) fn outstanding(&self, lane: usize) -> Vec<Ticket> {
        let queue = self.queue();
        let mut tickets = if lane == LEGACY { queue.must_follow(lane, true) } else { Vec::new() };
        tickets.extend(queue.last_of(lane));
        tickets
    }

    pub(crate) fn is_done(&self, ticket: Ticket) -> bool {
        self.queue().is_done(ticket)
    }

    pub(crate) fn wait(&self, ticket: Ticket) {
        let mut queue = self.queue();
        while !queue.is_done(ticket) && !queue.ended {
            queue = self.done.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits for everything that is queued now.
    pub(crate) fn wait_idle(&self) {
        let tickets: Vec<_> = {
            let queue = self.queue();
            queue.lanes.keys().filter_map(|lane| queue.last_of(*lane)).collect()
        };
        tickets.into_iter().for_each(|ticket| self.wait(ticket));
    }

    /// The stream is gone; what it still has queued is done.
    pub(crate) fn close_lane(&self, lane: usize) {
        let mut queue = self.queue();
        if let Some(closing) = queue.lanes.get_mut(&lane) {
            closing.closing = true;
        }
        queue.lanes.retain(|_, lane| !lane.closing || !lane.commands.is_empty());
    }

    /// Ends the thread. Queued commands are dropped, except that memory they give back is given.
    pub(crate) fn end(&self) {
        self.stopping.store(true, Ordering::Relaxed);
        let mut queue = self.queue();
        queue.ending = true;
        self.work.notify_one();
        while !queue.ended {
            queue = self.done.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        let left = std::mem::take(&mut queue.lanes);
        drop(queue);
        for queued in left.into_values().flat_map(|lane| lane.commands) {
            command::abandon(&queued.work);
        }
    }

    fn run(&self, observer: &Observer) {
        let mut queue = self.queue();
        while !queue.ending {
            // Conditions look at memory, which must not go away meanwhile.
            observer.enter();
            let ready = if self.may_begin() { queue.take_ready() } else { None };
            observer.leave();
            let Some((lane, queued)) = ready else {
                queue = self.wait_for_work(queue);
                continue;
            };
            drop(queue);
            self.carry_out(&queued.work, observer);
            queue = self.queue();
            queue.finish(lane, queued.number);
            self.done.notify_all();
        }
        queue.ended = true;
        self.done.notify_all();
    }

    fn wait_for_work<'a>(&self, queue: MutexGuard<'a, Queue>) -> MutexGuard<'a, Queue> {
        if queue.lanes.values().all(|lane| lane.commands.is_empty()) {
            return self.work.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        let queue = self.work.wait_timeout(queue, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        fault::look();
        queue
    }

    fn carry_out(&self, work: &Work, observer: &Observer) {
        if self.check().is_err() {
            command::abandon(work);
            return;
        }
        let result = command::perform(work, self, observer);
        observer.leave();
        if let Err(code) = result
            && !self.is_stopping()
        {
            log(format_args!("a command failed with {}: {work:?}", code.name().unwrap_or("?")));
            if self.check().is_ok() {
                fault::failed(self, code);
            }
            self.fail(code);
        }
    }
}

impl Queue {
    fn is_done(&self, ticket: Ticket) -> bool {
        self.lanes.get(&ticket.lane).is_none_or(|lane| lane.done >= ticket.number)
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

    fn take_ready(&mut self) -> Option<(usize, Queued)> {
        let ready = |queued: &Queued| {
            queued.after.iter().all(|ticket| self.is_done(*ticket))
                && command::may_begin(&queued.work)
        };
        let heads = self.lanes.iter().filter_map(|(id, lane)| Some((*id, lane.commands.front()?)));
        let (id, _) = heads.filter(|(_, head)| ready(head)).min_by_key(|(_, head)| head.number)?;
        let queued = self.lanes.get_mut(&id)?.commands.pop_front()?;
        Some((id, queued))
    }

    fn finish(&mut self, lane: usize, number: u64) {
        let Some(found) = self.lanes.get_mut(&lane) else { return };
        found.done = number;
        if found.closing && found.commands.is_empty() {
            self.lanes.remove(&lane);
        }
    }
}
