//! Whose turn it is on one compute engine. Decisions only: no socket, no clock, no lock.
//!
//! Time here is the engine's: a turn begins when the one before it ended, however late that was
//! said, so a process that wakes late loses nothing and the engine is never idle for it. Only an
//! engine that nobody wanted starts anew from the clock.

use crate::accounts::Session;
use crate::engine_log::EngineLog;
use simcuda_protocol::engines::{Answer, Engine};
use std::collections::VecDeque;

/// How far the engine's time may be behind the clock. More than that is not lateness of a loaded
/// host any more; what comes then is not made up for.
pub(crate) const MOST_LAG_NS: u64 = 200_000_000;

/// For each so much that the engine's time is behind, turns are longer by one slice, up to so many: a
/// loaded host needs several milliseconds to hand a turn on, and would never catch up otherwise.
const LAG_PER_SLICE_NS: u64 = 10_000_000;
const MOST_SLICES: u64 = 8;

/// How long after its end, or after it was granted or recalled if that was later, a turn must have
/// been given back.
pub(crate) const GRACE_NS: u64 = 50_000_000;

/// What is to be said to whom.
pub(crate) type Word = (Session, Answer);

#[derive(Debug)]
struct Holder {
    session: Session,
    pid: u32,
    turn: u64,
    start_ns: u64,
    /// `None` as long as nobody else wants the engine.
    end_ns: Option<u64>,
    /// When the holder was told of the start or of the end.
    told_ns: u64,
    /// Up to here its use is in the log.
    logged_ns: u64,
    /// Whether it uses the engine from there on.
    busy: bool,
    entry: u64,
}

#[derive(Debug)]
struct Waiting {
    session: Session,
    pid: u32,
    ready_ns: u64,
}

#[derive(Debug)]
pub(crate) struct Turns {
    slice_ns: u64,
    /// When the engine became free.
    free_ns: u64,
    last_turn: u64,
    holder: Option<Holder>,
    queue: VecDeque<Waiting>,
    /// Who has had a turn since somebody had one for the second time, and of how many slices: the
    /// same for all of them.
    round: Vec<Session>,
    slices: u64,
}

impl Turns {
    pub(crate) fn new(slice_ns: u64) -> Self {
        let (queue, round) = (VecDeque::new(), Vec::new());
        Self { slice_ns, free_ns: 0, last_turn: 0, holder: None, queue, round, slices: 1 }
    }

    /// The session has a kernel.
    pub(crate) fn want(
        &mut self,
        (session, pid): (Session, u32),
        ready_ns: u64,
        now_ns: u64,
        log: &mut EngineLog,
    ) -> Vec<Word> {
        let holds = self.holder.as_ref().is_some_and(|holder| holder.session == session);
        if holds || self.queue.iter().any(|waiting| waiting.session == session) {
            return Vec::new();
        }
        self.queue.push_back(Waiting { session, pid, ready_ns });
        self.next(now_ns, log)
    }

    /// The session gives a turn back. One that it had lost before only says what it wants.
    pub(crate) fn back(
        &mut self,
        (session, pid): (Session, u32),
        (turn, used_ns, end_ns): (u64, u64, u64),
        again_ns: Option<u64>,
        now_ns: u64,
        log: &mut EngineLog,
    ) -> Vec<Word> {
        if let Some(holder) = self.holder.take_if(|h| h.session == session && h.turn == turn) {
            // Nobody has had an engine for longer than it was his, or will have had it.
            let end_ns = end_ns.clamp(holder.start_ns, now_ns.max(holder.start_ns));
            log.settle(holder.entry, used_ns.min(end_ns - holder.start_ns));
            self.free_ns = end_ns;
        }
        match again_ns {
            Some(ready_ns) => self.want((session, pid), ready_ns, now_ns, log),
            None => self.next(now_ns, log),
        }
    }

    /// The holder says how far it has come.
    pub(crate) fn report(
        &mut self,
        session: Session,
        (turn, used_ns, end_ns): (u64, u64, u64),
        busy: bool,
        log: &mut EngineLog,
    ) {
        if let Some(holder) = &mut self.holder
            && (holder.session, holder.turn) == (session, turn)
        {
            holder.logged_ns = end_ns.max(holder.logged_ns);
            holder.busy = busy;
            log.settle(holder.entry, used_ns.min(holder.logged_ns - holder.start_ns));
        }
    }

    /// The session is gone.
    pub(crate) fn leave(
        &mut self,
        session: Session,
        now_ns: u64,
        log: &mut EngineLog,
    ) -> Vec<Word> {
        self.queue.retain(|waiting| waiting.session != session);
        if let Some(gone) = self.holder.take_if(|holder| holder.session == session) {
            self.take_from(&gone, now_ns, log);
        }
        self.next(now_ns, log)
    }

    /// Takes the turn from a holder that should have given it back long ago: it was stopped.
    pub(crate) fn overdue(&mut self, now_ns: u64, log: &mut EngineLog) -> Vec<Word> {
        let late = |holder: &mut Holder| {
            holder.end_ns.is_some_and(|end_ns| now_ns > end_ns.max(holder.told_ns) + GRACE_NS)
        };
        let Some(lost) = self.holder.take_if(late) else { return Vec::new() };
        self.take_from(&lost, now_ns, log);
        self.next(now_ns, log)
    }

    /// Use of the present turn that is not in the log yet.
    pub(crate) fn under_way(&self, now_ns: u64) -> Option<(u32, u64)> {
        let holder = self.holder.as_ref().filter(|holder| holder.busy)?;
        let until_ns = holder.end_ns.map_or(now_ns, |end_ns| end_ns.min(now_ns));
        Some((holder.pid, until_ns.saturating_sub(holder.logged_ns)))
    }

    fn take_from(&mut self, holder: &Holder, now_ns: u64, log: &mut EngineLog) {
        let end_ns = holder.end_ns.map_or(now_ns, |end_ns| end_ns.min(now_ns));
        let end_ns = if holder.busy { end_ns.max(holder.logged_ns) } else { holder.logged_ns };
        log.extend(holder.entry, end_ns - holder.logged_ns);
        self.free_ns = end_ns;
    }

    /// Gives the engine to who is next, or sees to it that it comes back.
    fn next(&mut self, now_ns: u64, log: &mut EngineLog) -> Vec<Word> {
        if let Some(holder) = &mut self.holder {
            if self.queue.is_empty() || holder.end_ns.is_some() {
                return Vec::new();
            }
            let end_ns = end_of_slice(holder.start_ns, now_ns, self.slice_ns);
            (holder.end_ns, holder.told_ns) = (Some(end_ns), now_ns);
            return vec![(holder.session, Answer::Recall { turn: holder.turn, end_ns })];
        }
        let Some(first) = self.queue.pop_front() else { return Vec::new() };
        let latest_ns = now_ns.saturating_sub(MOST_LAG_NS);
        let start_ns = self.free_ns.max(first.ready_ns.min(now_ns)).max(latest_ns);
        if self.round.contains(&first.session) || self.queue.is_empty() {
            self.round.clear();
            self.slices = (now_ns.saturating_sub(start_ns) / LAG_PER_SLICE_NS + 1).min(MOST_SLICES);
        }
        self.round.push(first.session);
        let end_ns = (!self.queue.is_empty()).then(|| start_ns + self.slices * self.slice_ns);
        self.last_turn += 1;
        let turn = self.last_turn;
        let entry = log.add(first.pid, Engine::Compute, start_ns, 0);
        let (session, pid) = (first.session, first.pid);
        self.holder = Some(Holder {
            session,
            pid,
            turn,
            start_ns,
            end_ns,
            told_ns: now_ns,
            logged_ns: start_ns,
            busy: true,
            entry,
        });
        vec![(session, Answer::Grant { turn, start_ns, end_ns })]
    }
}

/// The end of the slice that is under way `now_ns`.
fn end_of_slice(start_ns: u64, now_ns: u64, slice_ns: u64) -> u64 {
    let gone_ns = now_ns.saturating_sub(start_ns);
    start_ns + (gone_ns / slice_ns + 1) * slice_ns
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const T: u64 = 1_000 * MS;

    fn engine() -> (Turns, EngineLog) {
        (Turns::new(2 * MS), EngineLog::default())
    }

    fn grant(session: Session, turn: u64, start_ns: u64, end_ns: Option<u64>) -> Vec<Word> {
        vec![(session, Answer::Grant { turn, start_ns, end_ns })]
    }

    #[test]
    fn a_process_alone_has_the_engine_until_another_wants_it() {
        let (mut turns, mut log) = engine();
        assert_eq!(turns.want((1, 11), T, T, &mut log), grant(1, 1, T, None));
        let now = T + 9 * MS;
        let recall = Answer::Recall { turn: 1, end_ns: T + 10 * MS };
        assert_eq!(turns.want((2, 22), now, now, &mut log), [(1, recall)]);
        let (now, end) = (T + 13 * MS, T + 10 * MS);
        let words = turns.back((1, 11), (1, 10 * MS, end), Some(end), now, &mut log);
        // Said three milliseconds late, begun in time.
        assert_eq!(words, grant(2, 2, end, Some(end + 2 * MS)));
        assert_eq!(log.entries(Engine::Compute)[0].used_ns, 10 * MS);
    }

    #[test]
    fn an_engine_that_nobody_wanted_begins_with_the_clock() {
        let (mut turns, mut log) = engine();
        turns.want((1, 11), T, T, &mut log);
        assert!(turns.back((1, 11), (1, MS, T + MS), None, T + MS, &mut log).is_empty());
        let now = T + 50 * MS;
        assert_eq!(turns.want((2, 22), now, now, &mut log), grant(2, 2, now, None));
    }

    #[test]
    fn what_is_ready_before_its_time_does_not_begin_before_it() {
        let (mut turns, mut log) = engine();
        assert_eq!(turns.want((1, 11), u64::MAX, T, &mut log), grant(1, 1, T, None));
    }

    #[test]
    fn turns_are_longer_when_the_host_is_too_slow_to_hand_them_on() {
        let (mut turns, mut log) = engine();
        for session in 1..=3 {
            turns.want((session, 10), T, T, &mut log);
        }
        let end = T + 2 * MS;
        // Those whose turn it was anyway first: all have the same in a round.
        let mut now = end + 25 * MS;
        let words = turns.back((1, 10), (1, 2 * MS, end), Some(end), now, &mut log);
        assert_eq!(words, grant(2, 2, end, Some(end + 2 * MS)));
        for session in [2, 3] {
            let back = (session, 2 * MS, T + session * 2 * MS);
            turns.back((session, 10), back, Some(back.2), now, &mut log);
        }
        let (start, mut turn) = (T + 6 * MS, 4);
        for session in [1, 2, 3] {
            let end = start + (turn - 3) * 6 * MS;
            let words = turns.back((session, 10), (turn, 6 * MS, end), Some(end), now, &mut log);
            let next = session % 3 + 1;
            assert!(matches!(&words[..], [(session, _)] if *session == next), "{words:?}");
            (turn, now) = (turn + 1, now + MS);
        }
        let used = log.entries(Engine::Compute).iter().map(|e| e.used_ns).collect::<Vec<_>>();
        assert_eq!(used[..6], [2 * MS, 2 * MS, 2 * MS, 6 * MS, 6 * MS, 6 * MS]);
    }

    #[test]
    fn the_engine_is_never_far_behind_the_clock() {
        let (mut turns, mut log) = engine();
        turns.want((1, 11), T, T, &mut log);
        turns.want((2, 22), T, T, &mut log);
        let now = T + 3_000 * MS;
        let end = T + 2 * MS;
        let words = turns.back((1, 11), (1, 2 * MS, end), None, now, &mut log);
        assert_eq!(words, grant(2, 2, now - MOST_LAG_NS, None));
    }

    #[test]
    fn a_holder_that_is_gone_has_used_what_it_had() {
        let (mut turns, mut log) = engine();
        turns.want((1, 11), T, T, &mut log);
        turns.want((2, 22), T, T, &mut log);
        let words = turns.leave(1, T + MS, &mut log);
        assert_eq!(words, grant(2, 2, T + MS, None));
        assert_eq!(log.entries(Engine::Compute)[0].used_ns, MS);
        assert!(turns.leave(2, T + MS, &mut log).is_empty());
    }

    #[test]
    fn a_stopped_holder_loses_its_turn_and_comes_back_when_it_answers() {
        let (mut turns, mut log) = engine();
        turns.want((1, 11), T, T, &mut log);
        turns.want((2, 22), T, T, &mut log);
        let end = T + 2 * MS;
        assert!(turns.overdue(end + GRACE_NS, &mut log).is_empty());
        let now = end + GRACE_NS + 1;
        assert_eq!(turns.overdue(now, &mut log), grant(2, 2, end, None));
        assert_eq!(log.entries(Engine::Compute)[0].used_ns, 2 * MS);
        // The late answer changes nothing but who waits.
        let words = turns.back((1, 11), (1, 2 * MS, end), Some(end), now, &mut log);
        assert!(matches!(words[..], [(2, Answer::Recall { turn: 2, .. })]));
        let end = end + 2 * MS;
        let words = turns.back((2, 22), (2, 2 * MS, end), None, now, &mut log);
        assert_eq!(words, grant(1, 3, end, None));
    }

    #[test]
    fn a_claim_beyond_the_clock_is_cut() {
        let (mut turns, mut log) = engine();
        turns.want((1, 11), T, T, &mut log);
        turns.want((2, 22), T, T, &mut log);
        let words = turns.back((1, 11), (1, u64::MAX, u64::MAX), None, T + MS, &mut log);
        assert_eq!(words, grant(2, 2, T + MS, None));
        assert_eq!(log.entries(Engine::Compute)[0].used_ns, MS);
    }
}
