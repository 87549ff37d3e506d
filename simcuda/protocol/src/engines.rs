//! Time on a card's engines: turns on the compute engine, places in the queues of the copy engines,
//! and the log of who had what.
//!
//! All times are of the host's monotonic clock, in nanoseconds. A turn is a grant: it dies with the
//! process that has it, and whoever is stopped loses it. Nothing here is a lock.

use crate::message::{Refusal, Reply, Request};
use crate::{Client, ConnectError};
use serde::{Deserialize, Serialize};
use std::io;

/// The engines of a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Engine {
    Compute,
    /// From the host to the card.
    CopyIn,
    /// From the card to the host.
    CopyOut,
}

impl Engine {
    pub const ALL: [Self; 3] = [Self::Compute, Self::CopyIn, Self::CopyOut];
}

/// Said to the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ask {
    /// From now on this connection is about turns on the device's compute engine: `Want`, `Back` and
    /// `Report` go one way, `Grant` and `Recall` the other, whenever they like. Answered by `Done`.
    Attach { device: u32 },
    /// There is a kernel that could have begun at `ready_ns`.
    Want { ready_ns: u64 },
    /// The turn is over. `end_ns` is when the engine became free; `again_ns` is since when more waits.
    Back { turn: u64, used_ns: u64, end_ns: u64, again_ns: Option<u64> },
    /// What the turn has used up to `end_ns`; it goes on, and is in use or not.
    Report { turn: u64, used_ns: u64, end_ns: u64, busy: bool },
    /// A place in the queue of a copy engine. Answered by `Reserved`.
    Reserve { device: u32, engine: Engine, ready_ns: u64, duration_ns: u64 },
    /// Answered by `Totals`.
    Totals { device: u32 },
    /// The newest entries of the log, oldest first. Answered by `Entries`.
    Entries { device: u32, engine: Engine },
}

/// Said by the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// The engine is yours from `start_ns` on, until `end_ns` or until it is recalled.
    Grant {
        turn: u64,
        start_ns: u64,
        end_ns: Option<u64>,
    },
    /// Somebody else wants the engine: the turn now ends at `end_ns`.
    Recall {
        turn: u64,
        end_ns: u64,
    },
    Reserved {
        start_ns: u64,
    },
    Totals {
        now_ns: u64,
        totals: Vec<Total>,
    },
    Entries(Vec<Entry>),
}

/// What one process has had of one engine since the machine began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Total {
    pub pid: u32,
    pub engine: Engine,
    pub used_ns: u64,
    /// Turns, or copies.
    pub count: u64,
}

/// One turn or copy. A turn that has not ended yet is in it as far as it has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    pub pid: u32,
    pub engine: Engine,
    pub start_ns: u64,
    pub used_ns: u64,
}

/// The longest list of entries in one answer.
pub const MOST_ENTRIES: usize = 2000;

/// A point in the log, from which on one wants to know.
#[derive(Clone, Debug)]
pub struct Mark {
    pub now_ns: u64,
    totals: Vec<Total>,
}

impl Mark {
    /// What each process has had since the machine began.
    #[must_use]
    pub fn totals(&self) -> &[Total] {
        &self.totals
    }

    /// What each process has had between an earlier mark and this one.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Vec<Total> {
        let before = |total: &Total| {
            let same = |t: &&Total| (t.pid, t.engine) == (total.pid, total.engine);
            earlier.totals.iter().find(same).copied()
        };
        let difference = |total: &Total| {
            let Some(old) = before(total) else { return *total };
            let used_ns = total.used_ns.saturating_sub(old.used_ns);
            Total { used_ns, count: total.count.saturating_sub(old.count), ..*total }
        };
        self.totals.iter().map(difference).collect()
    }

    /// Time of the engine that each process has had since an earlier mark, the greatest first.
    #[must_use]
    pub fn used_since(&self, earlier: &Self, engine: Engine) -> Vec<(u32, u64)> {
        let here = self.since(earlier).into_iter().filter(|total| total.engine == engine);
        let mut used: Vec<_> = here.map(|t| (t.pid, t.used_ns)).filter(|(_, ns)| *ns > 0).collect();
        used.sort_by_key(|(pid, used_ns)| (std::cmp::Reverse(*used_ns), *pid));
        used
    }
}

impl Client {
    /// The log's sums as they are now.
    pub fn engine_mark(&self, device: u32) -> Result<Mark, ConnectError> {
        match self.ask_engines(Ask::Totals { device })? {
            Answer::Totals { now_ns, totals } => Ok(Mark { now_ns, totals }),
            _ => Err(ConnectError::OutOfTurn),
        }
    }

    /// The newest entries of an engine's log, oldest first.
    pub fn engine_entries(&self, device: u32, engine: Engine) -> Result<Vec<Entry>, ConnectError> {
        match self.ask_engines(Ask::Entries { device, engine })? {
            Answer::Entries(entries) => Ok(entries),
            _ => Err(ConnectError::OutOfTurn),
        }
    }

    /// When a copy that takes `duration_ns` may begin.
    pub fn reserve(
        &self,
        device: u32,
        engine: Engine,
        ready_ns: u64,
        duration_ns: u64,
    ) -> Result<u64, ConnectError> {
        match self.ask_engines(Ask::Reserve { device, engine, ready_ns, duration_ns })? {
            Answer::Reserved { start_ns } => Ok(start_ns),
            _ => Err(ConnectError::OutOfTurn),
        }
    }

    fn ask_engines(&self, ask: Ask) -> Result<Answer, ConnectError> {
        match self.ask(&Request::Engines(ask))?.0 {
            Reply::Engines(answer) => Ok(answer),
            Reply::Refused(why) => Err(ConnectError::Refused(why)),
            _ => Err(ConnectError::OutOfTurn),
        }
    }
}

/// A connection about turns. Sending and receiving are apart: each may have a thread of its own.
#[derive(Debug)]
pub struct TurnLink {
    socket: std::os::fd::OwnedFd,
}

impl TurnLink {
    pub(crate) fn attach(client: Client, device: u32) -> Result<Self, ConnectError> {
        match client.ask(&Request::Engines(Ask::Attach { device }))?.0 {
            Reply::Done => Ok(Self { socket: client.into_socket() }),
            Reply::Refused(why) => Err(ConnectError::Refused(why)),
            _ => Err(ConnectError::OutOfTurn),
        }
    }

    pub fn say(&self, ask: Ask) -> io::Result<()> {
        use std::os::fd::AsFd;
        crate::wire::send(self.socket.as_fd(), &Request::Engines(ask), None)
    }

    /// Waits for the machine's next word; `None` when the connection is over.
    pub fn hear(&self) -> io::Result<Option<Answer>> {
        use std::os::fd::AsFd;
        match crate::wire::receive::<Reply>(self.socket.as_fd())? {
            Some((Reply::Engines(answer), _)) => Ok(Some(answer)),
            Some(_) => Err(io::Error::other(Refusal::Malformed)),
            None => Ok(None),
        }
    }

    /// Ends the connection: whoever hears is told so.
    pub fn hang_up(&self) {
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
    }
}
