//! The engine of a context: threads that carry out commands, each when its turn has come.
//!
//! What may begin is the `queue`'s business. Here are the threads: one as a rule, more when commands
//! of different streams go on at the same time, and back to one when that is over. Nothing takes
//! effect at submission. Of the two locks, the queue's is taken first and never for long.

use crate::clock;
use crate::command::{self, Class, Work};
use crate::compute::{Compute, Keep};
use crate::cost::Costs;
use crate::entry::log;
use crate::queue::{Given, Queue, Ready, Taken};
use crate::space::{Observer, SPACE};
use crate::transfer::Transfers;
use crate::{fault, process, raw};
use shim_cuda_headers::CUresult;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

pub(crate) use crate::queue::{LEGACY, Ticket};

/// How often a condition is looked at that nobody announces (a value in memory).
const LOOK: Duration = Duration::from_micros(200);

/// How long a thread that is not the last one stays without anything to do.
const STAY: Duration = Duration::from_millis(500);

/// How long a turn is kept that nobody wants, when there is no kernel.
const LINGER: Duration = Duration::from_millis(1);

const MOST_THREADS: usize = 32;

#[derive(Debug, Default)]
struct Crew {
    threads: usize,
    /// Of those, how many wait for work, and how many do something that may take long.
    idle: usize,
    away: usize,
    /// Whether one of the idle looks at conditions.
    lookout: bool,
    /// Whether the thread that has the lock is one too many.
    surplus: bool,
}

#[derive(Debug, Default)]
struct Inside {
    queue: Queue,
    crew: Crew,
}

#[derive(Debug)]
pub(crate) struct Engine {
    inside: Mutex<Inside>,
    work: Condvar,
    done: Condvar,
    /// Code of the first command that failed for good, or 0.
    sticky: AtomicU32,
    stopping: AtomicBool,
    /// As in the queue, for kernels to look at.
    doomed: AtomicU64,
    /// A fault: nothing begins any more, as long as this is set.
    stuck: AtomicBool,
    pub(crate) costs: Costs,
    pub(crate) compute: Arc<Compute>,
    pub(crate) transfers: Transfers,
}

type Guard<'a> = MutexGuard<'a, Inside>;

impl Engine {
    pub(crate) fn start(device: i32) -> Result<Arc<Self>, CUresult> {
        let engine = Arc::new(Self {
            inside: Mutex::default(),
            work: Condvar::new(),
            done: Condvar::new(),
            sticky: AtomicU32::new(0),
            stopping: AtomicBool::new(false),
            doomed: AtomicU64::new(0),
            stuck: AtomicBool::new(false),
            costs: Costs::new(&process::card(device)?.device),
            compute: Compute::new(device),
            transfers: Transfers::new(device),
        });
        let started = engine.hire(&mut engine.inside());
        if started { Ok(engine) } else { Err(CUresult::OUT_OF_MEMORY) }
    }

    fn inside(&self) -> Guard<'_> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
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
        self.work.notify_all();
    }

    /// Whether commands may begin: a failed context's end at once.
    fn may_begin(&self) -> bool {
        !self.stuck.load(Ordering::Relaxed) || self.check().is_err()
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// Whether the kernel with this number will not end well: memory was unmapped under it, or the
    /// context has failed.
    pub(crate) fn is_doomed(&self, number: u64) -> bool {
        number <= self.doomed.load(Ordering::Relaxed) || self.check().is_err()
    }

    /// Memory is unmapped: every kernel that is queued or runs may have meant it, and faults.
    pub(crate) fn doom_kernels(&self) {
        let number = self.inside().queue.doom();
        self.doomed.store(number, Ordering::Relaxed);
    }

    /// Queues a command. `blocking` says whether the lane and the legacy lane wait for each other.
    pub(crate) fn submit(self: &Arc<Self>, lane: usize, blocking: bool, work: Work) -> Ticket {
        let given = self.given(work);
        let mut inside = self.inside();
        let ticket = inside.queue.push(lane, blocking, given);
        self.call(&mut inside);
        ticket
    }

    /// Queues a command behind all that is queued now, in whatever lane.
    pub(crate) fn submit_behind_all(self: &Arc<Self>, work: Work) -> Ticket {
        let given = self.given(work);
        let mut inside = self.inside();
        let ticket = inside.queue.push_behind_all(given);
        self.call(&mut inside);
        ticket
    }

    fn given(&self, work: Work) -> Given {
        let (class, named) = (command::class(&work, &self.costs), command::named(&work));
        Given { work, class, named, at_ns: clock::now_ns() }
    }

    /// What a query of the stream must find done.
    pub(crate) fn outstanding(&self, lane: usize) -> Vec<Ticket> {
        self.inside().queue.outstanding(lane)
    }

    pub(crate) fn is_done(&self, ticket: Ticket) -> bool {
        self.inside().queue.is_done(ticket)
    }

    pub(crate) fn wait(&self, ticket: Ticket) {
        let mut inside = self.inside();
        while !inside.queue.is_done(ticket) && inside.crew.threads > 0 {
            inside = self.done.wait(inside).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits until the lane takes another launch.
    pub(crate) fn wait_for_room(&self, lane: usize) {
        let mut inside = self.inside();
        while !inside.queue.has_room(lane) && inside.crew.threads > 0 {
            inside = self.done.wait(inside).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits for everything that is queued now.
    pub(crate) fn wait_idle(&self) {
        let tickets = self.inside().queue.all();
        tickets.into_iter().for_each(|ticket| self.wait(ticket));
    }

    /// The stream is gone; what it still has queued is done.
    pub(crate) fn close_lane(&self, lane: usize) {
        self.inside().queue.close(lane);
    }

    /// Ends the threads. Queued commands are dropped, except that memory they give back is given.
    pub(crate) fn end(&self) {
        self.stopping.store(true, Ordering::Relaxed);
        let mut inside = self.inside();
        inside.queue.ending = true;
        self.work.notify_all();
        self.compute.end();
        while inside.crew.threads > 0 {
            inside = self.done.wait(inside).unwrap_or_else(PoisonError::into_inner);
        }
        let left: Vec<_> = inside.queue.clear().collect();
        drop(inside);
        left.iter().for_each(|work| command::abandon(work, clock::now_ns()));
    }

    /// Sees to it that somebody looks at the queue.
    fn call(self: &Arc<Self>, inside: &mut Inside) {
        if inside.crew.idle > 0 {
            self.work.notify_one();
        } else if inside.crew.away == inside.crew.threads && inside.queue.has_more() {
            self.hire(inside);
        }
    }

    fn hire(self: &Arc<Self>, inside: &mut Inside) -> bool {
        if inside.crew.threads == MOST_THREADS || inside.queue.ending {
            return false;
        }
        let own = Arc::clone(self);
        let thread = thread::Builder::new().name("simcuda".to_owned());
        let started = raw::without_signals(|| thread.spawn(move || own.run())).is_ok();
        inside.crew.threads += usize::from(started);
        started
    }

    fn run(self: Arc<Self>) {
        raw::wake_in_time();
        let observer = SPACE.watch();
        let mut inside = self.inside();
        while !inside.queue.ending {
            // Conditions look at memory, which must not go away meanwhile.
            observer.enter();
            let taken = match self.may_begin() {
                true => inside.queue.take(self.costs.capacity(), self.check().is_err()),
                false => Taken::Conditional,
            };
            observer.leave();
            inside = match taken {
                Taken::Ready(ready) => self.serve(inside, &ready, &observer),
                Taken::Conditional => self.wait_for_work(inside, LOOK),
                Taken::Nothing => self.wait_for_work(inside, STAY),
            };
            if inside.crew.surplus {
                inside.crew.surplus = false;
                break;
            }
        }
        inside.crew.threads -= 1;
        self.done.notify_all();
    }

    fn serve<'a>(
        self: &'a Arc<Self>,
        mut inside: Guard<'a>,
        ready: &Ready,
        observer: &Observer,
    ) -> Guard<'a> {
        let class = &ready.queued.given.class;
        let long = *class != Class::Instant;
        if long {
            inside.crew.away += 1;
            self.call(&mut inside);
            if !inside.queue.has_kernels() {
                self.compute.rest(Keep::IfAlone);
            }
        }
        drop(inside);
        let (end_ns, failed) = self.carry_out(ready, observer);
        let mut inside = self.inside();
        inside.crew.away -= usize::from(long);
        inside.queue.finish(ready, end_ns);
        let doomed =
            matches!(class, Class::Kernel { .. }) && ready.queued.number <= inside.queue.doomed;
        let failed = if doomed { Some(CUresult::ILLEGAL_ADDRESS) } else { failed };
        if let Some(code) = failed {
            self.ended_badly(code, &ready.queued.given.work);
        }
        self.done.notify_all();
        inside
    }

    /// Waits to be called. One thread looks at conditions so often, one stays for ever, and any other
    /// is surplus when nobody has called it for a while.
    fn wait_for_work<'a>(&self, mut inside: Guard<'a>, at_most: Duration) -> Guard<'a> {
        if !inside.queue.has_kernels() && self.compute.rest(Keep::IfAlone) {
            // The next kernel is often given at once: asking for a turn anew would take longer.
            inside.crew.idle += 1;
            let waited = self.work.wait_timeout(inside, LINGER);
            inside = waited.unwrap_or_else(PoisonError::into_inner).0;
            inside.crew.idle -= 1;
            if !inside.queue.has_more() && !inside.queue.has_kernels() {
                self.compute.rest(Keep::No);
            }
            return inside;
        }
        let look = at_most == LOOK && !inside.crew.lookout;
        let last = inside.crew.idle == 0;
        inside.crew.lookout |= look;
        inside.crew.idle += 1;
        let mut called = true;
        if last && !look {
            inside = self.work.wait(inside).unwrap_or_else(PoisonError::into_inner);
        } else {
            let at_most = if look { LOOK } else { STAY };
            let waited = self.work.wait_timeout(inside, at_most);
            let (back, result) = waited.unwrap_or_else(PoisonError::into_inner);
            (inside, called) = (back, look || !result.timed_out());
        }
        inside.crew.idle -= 1;
        inside.crew.lookout &= !look;
        if look {
            fault::look();
        }
        inside.crew.surplus = !called && inside.crew.idle > 0;
        inside
    }

    /// Does the command; says when that was over, and what went wrong for good.
    fn carry_out(&self, ready: &Ready, observer: &Observer) -> (u64, Option<CUresult>) {
        if self.check().is_err() {
            command::abandon(&ready.queued.given.work, ready.ready_ns);
            return (ready.ready_ns, None);
        }
        let result = command::perform(ready, self, observer);
        observer.leave();
        match result {
            Ok(end_ns) => (end_ns, None),
            Err(code) => (clock::now_ns(), Some(code)),
        }
    }

    fn ended_badly(&self, code: CUresult, work: &Work) {
        if !self.is_stopping() {
            log(format_args!("a command failed with {}: {work:?}", code.name().unwrap_or("?")));
            if self.check().is_ok() {
                fault::failed(self, code);
            }
            self.fail(code);
        }
    }
}
