//! The engines of the machine's cards: who has a turn, who has which place in a copy queue, and the
//! log of both, behind one lock of their own. Words to processes are sent under it: they are few and
//! short, and fit into a socket's buffer even when the process never reads.

use crate::accounts::Session;
use crate::engine_log::EngineLog;
use crate::turns::{MOST_LAG_NS, Turns, Word};
use rustix::time::{ClockId, clock_gettime};
use simcuda_protocol::engines::{Answer, Ask, Engine};
use simcuda_protocol::{Device, Refusal, Reply, wire};
use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Debug)]
struct Card {
    turns: Turns,
    log: EngineLog,
    /// When each copy engine has done what was promised so far.
    copies: [CopyQueue; 2],
}

#[derive(Debug, Default)]
struct CopyQueue {
    free_ns: u64,
}

/// A session whose connection is about turns.
#[derive(Debug)]
struct Link {
    card: usize,
    pid: u32,
    socket: OwnedFd,
}

#[derive(Debug)]
struct Books {
    cards: Vec<Card>,
    links: HashMap<Session, Link>,
}

#[derive(Debug)]
pub(crate) struct Engines(Mutex<Books>);

/// The clock that processes use too.
fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

impl Engines {
    pub(crate) fn new(devices: &[Device]) -> Self {
        let card = |device: &Device| Card {
            turns: Turns::new(device.slice_ns),
            log: EngineLog::default(),
            copies: Default::default(),
        };
        let cards = devices.iter().map(card).collect();
        Self(Mutex::new(Books { cards, links: HashMap::new() }))
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the session says. `None` is no answer.
    pub(crate) fn hear(
        &self,
        (session, pid): (Session, u32),
        ask: Ask,
        socket: BorrowedFd<'_>,
    ) -> Option<Result<Reply, Refusal>> {
        let mut books = self.books();
        let answer = match ask {
            Ask::Attach { device } => books.attach((session, pid), device, socket),
            Ask::Want { .. } | Ask::Back { .. } | Ask::Report { .. } => {
                // From a connection that is not attached it means nothing.
                books.turn(session, ask);
                return None;
            }
            Ask::Reserve { device, engine, ready_ns, duration_ns } => {
                books.reserve(pid, device, engine, (ready_ns, duration_ns))
            }
            Ask::Totals { device } => books.card(device).map(|card| {
                let now_ns = now_ns();
                let totals = card.log.totals(card.turns.under_way(now_ns));
                Reply::Engines(Answer::Totals { now_ns, totals })
            }),
            Ask::Entries { device, engine } => books.card(device).map(|card| {
                let mut entries = card.log.entries(engine);
                let under_way = card.turns.under_way(now_ns());
                if let (Engine::Compute, Some(last), Some((_, more_ns))) =
                    (engine, entries.last_mut(), under_way)
                {
                    last.used_ns += more_ns;
                }
                Reply::Engines(Answer::Entries(entries))
            }),
        };
        Some(answer)
    }

    pub(crate) fn close(&self, session: Session) {
        let mut books = self.books();
        if let Some(link) = books.links.remove(&session) {
            let card = &mut books.cards[link.card];
            let words = card.turns.leave(session, now_ns(), &mut card.log);
            books.say(words);
        }
    }

    /// Takes turns from those who were stopped with one.
    pub(crate) fn overdue(&self) {
        let mut books = self.books();
        for card in 0..books.cards.len() {
            let Card { turns, log, .. } = &mut books.cards[card];
            let words = turns.overdue(now_ns(), log);
            books.say(words);
        }
    }
}

impl Books {
    fn card(&mut self, device: u32) -> Result<&mut Card, Refusal> {
        self.cards.get_mut(device as usize).ok_or(Refusal::NoSuchDevice)
    }

    fn attach(
        &mut self,
        (session, pid): (Session, u32),
        device: u32,
        socket: BorrowedFd<'_>,
    ) -> Result<Reply, Refusal> {
        self.card(device)?;
        let socket = socket.try_clone_to_owned().map_err(|_| Refusal::Host)?;
        self.links.insert(session, Link { card: device as usize, pid, socket });
        Ok(Reply::Done)
    }

    fn turn(&mut self, session: Session, ask: Ask) {
        let Some(link) = self.links.get(&session) else { return };
        let (who, Card { turns, log, .. }) = ((session, link.pid), &mut self.cards[link.card]);
        let words = match ask {
            Ask::Want { ready_ns } => turns.want(who, ready_ns, now_ns(), log),
            Ask::Back { turn, used_ns, end_ns, again_ns } => {
                turns.back(who, (turn, used_ns, end_ns), again_ns, now_ns(), log)
            }
            Ask::Report { turn, used_ns, end_ns, busy } => {
                turns.report(session, (turn, used_ns, end_ns), busy, log);
                Vec::new()
            }
            _ => Vec::new(),
        };
        self.say(words);
    }

    /// A copy queue is a promise: whoever came first is done first, and nobody takes part of a copy
    /// back. A long copy is asked for in pieces, so that the death of its process costs one piece.
    fn reserve(
        &mut self,
        pid: u32,
        device: u32,
        engine: Engine,
        (ready_ns, duration_ns): (u64, u64),
    ) -> Result<Reply, Refusal> {
        let card = self.card(device)?;
        let queue = match engine {
            Engine::Compute => return Err(Refusal::Malformed),
            Engine::CopyIn => &mut card.copies[0],
            Engine::CopyOut => &mut card.copies[1],
        };
        let now_ns = now_ns();
        let latest_ns = now_ns.saturating_sub(MOST_LAG_NS);
        let start_ns = queue.free_ns.max(ready_ns.min(now_ns)).max(latest_ns);
        queue.free_ns = start_ns.saturating_add(duration_ns);
        card.log.add(pid, engine, start_ns, duration_ns);
        Ok(Reply::Engines(Answer::Reserved { start_ns }))
    }

    fn say(&self, words: Vec<Word>) {
        for (session, answer) in words {
            if let Some(link) = self.links.get(&session) {
                // A process that is gone is noticed by its own thread here.
                let _ = wire::send(link.socket.as_fd(), &Reply::Engines(answer), None);
            }
        }
    }
}
