//! A context's part in its card's compute engine: the turn that the machine gave it, and the kernels
//! that run in it.
//!
//! A kernel has a *seat*. It begins and ends in *engine time*, which only counts while the context
//! has a turn; within a turn that time lies on the clock, from where the turn begins. So a kernel
//! that is longer than its turn keeps the rest for the next ones, and who is told late of a turn does
//! not wait: he catches up. When all seats have done what fits into the turn, it goes back.
//!
//! One lock; it is never held while the engine's queue is asked for anything.

use crate::raw;
use crate::{clock, process};
use shim_cuda_headers::CUresult;
use simcuda_protocol::Client;
use simcuda_protocol::engines::{Answer, Ask, TurnLink};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// A turn that goes on and on says how far it is this often.
const REPORT_NS: u64 = 20_000_000;

/// The last bit of a wait is not slept.
const AWAKE_NS: u64 = 10_000;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Away,
    Asked,
    Held,
}

/// What becomes of a turn that no kernel needs at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    No,
    IfAlone,
}

#[derive(Debug, Default)]
struct State {
    phase: Phase,
    turn: u64,
    start_ns: u64,
    /// The greatest number while nobody else wants the engine.
    end_ns: u64,
    /// Engine time before the present turn.
    received_ns: u64,
    /// Kernels that run or want to, those of them that have a seat, and those that have nothing to
    /// do in the present turn any more.
    present: usize,
    seated: usize,
    parked: usize,
    /// Use of the present turn: closed intervals, and the one that is open while somebody is seated.
    used_ns: u64,
    busy_since_ns: u64,
    busy_until_ns: u64,
    reported_ns: u64,
    /// Whether the machine was told that nobody uses it at the moment.
    rests: bool,
    over: bool,
}

#[derive(Debug)]
pub(crate) struct Compute {
    device: i32,
    link: Mutex<Option<Arc<TurnLink>>>,
    closed: AtomicBool,
    state: Mutex<State>,
    changed: Condvar,
    /// When the present turn ends, for those who compute to look at: 0 without a turn.
    ends_ns: AtomicU64,
}

/// A kernel's place on the engine.
#[derive(Debug)]
pub(crate) struct Seat<'a> {
    compute: &'a Compute,
    link: Arc<TurnLink>,
    /// In engine time.
    begun_ns: u64,
    /// On the clock.
    pub(crate) start_ns: u64,
}

type Guard<'a> = MutexGuard<'a, State>;

impl Compute {
    pub(crate) fn new(device: i32) -> Arc<Self> {
        Arc::new(Self {
            device,
            link: Mutex::default(),
            closed: AtomicBool::new(false),
            state: Mutex::default(),
            changed: Condvar::new(),
            ends_ns: AtomicU64::new(0),
        })
    }

    fn state(&self) -> Guard<'_> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A seat for a kernel that could have begun at `ready_ns`. Fails when the machine is gone or
    /// the context ends.
    pub(crate) fn begin(self: &Arc<Self>, ready_ns: u64) -> Result<Seat<'_>, CUresult> {
        let link = self.link()?;
        let mut state = self.state();
        state.present += 1;
        loop {
            if state.over {
                self.depart(&mut state);
                return Err(CUresult::UNKNOWN);
            }
            let at_ns = ready_ns.max(state.start_ns);
            if state.phase == Phase::Held && at_ns < state.end_ns {
                if state.seated == 0 {
                    state.busy_since_ns = at_ns.max(state.busy_until_ns);
                }
                if std::mem::take(&mut state.rests) {
                    state.busy_until_ns = state.busy_since_ns;
                    self.report(&mut state, true);
                }
                state.seated += 1;
                let begun_ns = state.received_ns + (at_ns - state.start_ns);
                return Ok(Seat { compute: self, link, begun_ns, start_ns: at_ns });
            }
            state = self.next_turn(state, &link, ready_ns);
        }
    }

    /// Gives the turn back if no kernel needs it. `Keep::IfAlone` keeps one that nobody else wants;
    /// says whether it was kept.
    pub(crate) fn rest(&self, keep: Keep) -> bool {
        let mut state = self.state();
        if state.phase != Phase::Held || state.present > 0 {
            return false;
        }
        if keep == Keep::IfAlone && state.end_ns == u64::MAX {
            if !std::mem::replace(&mut state.rests, true) {
                self.report(&mut state, false);
            }
            return true;
        }
        self.leave(&mut state);
        false
    }

    fn leave(&self, state: &mut State) {
        let (turn, used_ns, end_ns) = (state.turn, state.used_ns, state.busy_until_ns);
        state.phase = Phase::Away;
        self.ends_ns.store(0, Ordering::Relaxed);
        self.say(Ask::Back { turn, used_ns, end_ns, again_ns: None });
    }

    /// The context ends: whoever waits here goes away without having been served.
    pub(crate) fn end(&self) {
        self.state().over = true;
        self.changed.notify_all();
        self.closed.store(true, Ordering::SeqCst);
        if let Some(link) = self.link.lock().unwrap_or_else(PoisonError::into_inner).take() {
            link.hang_up();
        }
    }

    /// Lets time pass for somebody who has nothing to do until another turn begins.
    fn next_turn<'a>(&'a self, mut state: Guard<'a>, link: &TurnLink, ready_ns: u64) -> Guard<'a> {
        match state.phase {
            Phase::Away => {
                state.phase = Phase::Asked;
                state.over |= link.say(Ask::Want { ready_ns }).is_err();
                state
            }
            Phase::Asked => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            Phase::Held => self.park(state),
        }
    }

    /// Waits until the turn is over or changes. The last one to come here gives it back.
    fn park<'a>(&'a self, mut state: Guard<'a>) -> Guard<'a> {
        let (turn, end_ns) = (state.turn, state.end_ns);
        state.parked += 1;
        while state.phase == Phase::Held && (state.turn, state.end_ns) == (turn, end_ns) {
            if state.over {
                break;
            }
            let left_ns = end_ns.saturating_sub(clock::now_ns());
            if left_ns == 0 && state.parked == state.present {
                self.give_back(&mut state);
                break;
            }
            state = if left_ns == 0 {
                self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
            } else {
                self.wait_for(state, left_ns)
            };
        }
        state.parked -= 1;
        state
    }

    fn give_back(&self, state: &mut State) {
        let (turn, end_ns) = (state.turn, state.end_ns);
        if state.seated > 0 {
            state.used_ns += end_ns.saturating_sub(state.busy_since_ns);
        }
        state.received_ns += end_ns - state.start_ns;
        state.phase = Phase::Asked;
        self.ends_ns.store(0, Ordering::Relaxed);
        self.say(Ask::Back { turn, used_ns: state.used_ns, end_ns, again_ns: Some(end_ns) });
        self.changed.notify_all();
    }

    /// Says what of the turn was used so far.
    fn report(&self, state: &mut State, busy: bool) {
        state.reported_ns = state.busy_until_ns;
        let open_ns = match state.seated {
            0 => 0,
            _ => state.busy_until_ns.saturating_sub(state.busy_since_ns),
        };
        let (turn, used_ns, end_ns) = (state.turn, state.used_ns + open_ns, state.busy_until_ns);
        self.say(Ask::Report { turn, used_ns, end_ns, busy });
    }

    /// Somebody who was present is not any more.
    fn depart(&self, state: &mut State) {
        state.present -= 1;
        if state.parked > 0 {
            self.changed.notify_all();
        }
    }

    fn wait_for<'a>(&'a self, state: Guard<'a>, ns: u64) -> Guard<'a> {
        if ns < AWAKE_NS {
            drop(state);
            thread::yield_now();
            return self.state();
        }
        let wait = self.changed.wait_timeout(state, Duration::from_nanos(ns));
        wait.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Without a link there is nobody to tell, and who waits finds that out.
    fn say(&self, ask: Ask) {
        if let Some(link) = &*self.link.lock().unwrap_or_else(PoisonError::into_inner) {
            let _ = link.say(ask);
        }
    }

    fn link(self: &Arc<Self>) -> Result<Arc<TurnLink>, CUresult> {
        let mut link = self.link.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(link) = &*link {
            return Ok(Arc::clone(link));
        }
        if self.closed.load(Ordering::SeqCst) {
            return Err(CUresult::UNKNOWN);
        }
        let number = process::card(self.device)?.number;
        let made = Client::turn_link(&process::get()?.place, number);
        let made = Arc::new(made.map_err(|_| CUresult::UNKNOWN)?);
        let (own, ear) = (Arc::clone(self), Arc::clone(&made));
        let thread = thread::Builder::new().name("simcuda-turns".to_owned());
        raw::without_signals(|| thread.spawn(move || own.listen(&ear)))
            .map_err(|_| CUresult::OUT_OF_MEMORY)?;
        *link = Some(Arc::clone(&made));
        Ok(made)
    }

    /// Hears the machine until the connection ends.
    fn listen(&self, link: &TurnLink) {
        while let Ok(Some(answer)) = link.hear() {
            let mut state = self.state();
            match answer {
                Answer::Grant { turn, start_ns, end_ns } => {
                    let end_ns = end_ns.unwrap_or(u64::MAX);
                    state.phase = Phase::Held;
                    (state.turn, state.start_ns, state.end_ns) = (turn, start_ns, end_ns);
                    (state.used_ns, state.reported_ns, state.rests) = (0, start_ns, false);
                    (state.busy_since_ns, state.busy_until_ns) = (start_ns, start_ns);
                    self.ends_ns.store(end_ns, Ordering::Relaxed);
                }
                Answer::Recall { turn, end_ns } if state.turn == turn => {
                    state.end_ns = end_ns;
                    if state.phase == Phase::Held && state.present == 0 {
                        self.leave(&mut state);
                    } else if state.phase == Phase::Held {
                        self.ends_ns.store(end_ns, Ordering::Relaxed);
                    }
                }
                _ => {}
            }
            drop(state);
            self.changed.notify_all();
        }
        self.state().over = true;
        self.changed.notify_all();
    }
}

impl Seat<'_> {
    /// Whether the turn has ended by the clock.
    pub(crate) fn is_over(&self, now_ns: u64) -> bool {
        now_ns >= self.compute.ends_ns.load(Ordering::Relaxed)
    }

    /// A kernel that computes while the clock goes stands still until another turn begins.
    pub(crate) fn pause(&self) {
        let compute = self.compute;
        let mut state = compute.state();
        let turn = state.turn;
        while !state.over && (state.phase != Phase::Held || state.turn == turn) {
            let since_ns = state.end_ns;
            // Not over after all: the turn was made longer, or is another one already.
            if state.phase == Phase::Held && clock::now_ns() < since_ns {
                return;
            }
            state = compute.next_turn(state, &self.link, since_ns);
        }
    }

    /// Engine time that the kernel has had, by the clock.
    pub(crate) fn had_ns(&self, now_ns: u64) -> u64 {
        let state = self.compute.state();
        let here_ns = match state.phase {
            Phase::Held => now_ns.min(state.end_ns).saturating_sub(state.start_ns),
            Phase::Away | Phase::Asked => 0,
        };
        (state.received_ns + here_ns).saturating_sub(self.begun_ns)
    }

    /// Waits until the kernel has had so much engine time.
    pub(crate) fn reach(&self, duration_ns: u64) {
        drop(self.wait(duration_ns));
    }

    /// Waits until the kernel, which takes so much engine time, is over; says when that was.
    pub(crate) fn finish(self, duration_ns: u64) -> u64 {
        let (mut state, end_ns) = self.wait(duration_ns);
        state.busy_until_ns = state.busy_until_ns.max(end_ns);
        state.seated -= 1;
        if state.seated == 0 {
            state.used_ns += state.busy_until_ns.saturating_sub(state.busy_since_ns);
            state.busy_since_ns = state.busy_until_ns;
        }
        self.compute.depart(&mut state);
        if end_ns.saturating_sub(state.reported_ns) > REPORT_NS && state.end_ns == u64::MAX {
            self.compute.report(&mut state, true);
        }
        drop(state);
        clock::within_lag(end_ns)
    }

    fn wait(&self, duration_ns: u64) -> (Guard<'_>, u64) {
        let compute = self.compute;
        let goal_ns = self.begun_ns + duration_ns;
        let mut state = compute.state();
        loop {
            let now_ns = clock::now_ns();
            if state.over {
                return (state, now_ns);
            }
            let end_ns = state.start_ns + goal_ns.saturating_sub(state.received_ns);
            state = if state.phase == Phase::Held && end_ns <= state.end_ns {
                if now_ns >= end_ns {
                    return (state, end_ns);
                }
                compute.wait_for(state, end_ns - now_ns)
            } else {
                let ready_ns = state.end_ns.min(now_ns);
                compute.next_turn(state, &self.link, ready_ns)
            };
        }
    }
}
