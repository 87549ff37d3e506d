//! A tenant and its processes, as the broker's own books have them. What a page says is kept beside
//! as a hint ([`ProcessGpu::word`]) and never enters a sum unchecked.

use std::collections::{BTreeSet, VecDeque};

use halfwarp_api::wire::{Denial, Token};

use crate::{
    Nanos,
    admit::Rejection,
    card::Uuid,
    compute::Seat,
    event::{ClientId, PageRef, Peer, Runner, Word},
    reclaim::Lending,
    residency::{Residence, Stay, Suspension},
};

#[derive(Clone, Debug)]
pub(crate) struct Tenant {
    pub(crate) id: u64,
    pub(crate) token: Token,
    pub(crate) name: String,
    pub(crate) uid: u32,
    /// Tenants of one user with the same group take turns together.
    pub(crate) group: Option<String>,
    /// Who gets leases together, numbered by the first tenant of it.
    pub(crate) party: u64,
    pub(crate) priority: u16,
    pub(crate) runner: Option<Runner>,
    pub(crate) runner_gone: bool,
    /// Somebody asked for its end; it goes with its last process.
    pub(crate) ending: bool,
    pub(crate) started_at_s: u64,
    /// By slot.
    pub(crate) gpus: Vec<TenantGpu>,
    pub(crate) processes: BTreeSet<ClientId>,
    pub(crate) lending: Lending,
    /// Its memory is made so that it can be moved.
    pub(crate) swap: bool,
    pub(crate) suspension: Suspension,
    /// Until when chunks may be made for it.
    pub(crate) suspension_until: Nanos,
    /// Why the last suspend or resume failed.
    pub(crate) suspension_failed: Option<Rejection>,
    /// Pids that had joined before the broker was restarted and have not come back yet.
    pub(crate) absent: BTreeSet<u32>,
}

#[derive(Clone, Debug)]
pub(crate) struct TenantGpu {
    pub(crate) uuid: Uuid,
    pub(crate) request_units: u32,
    pub(crate) limit_units: u32,
    pub(crate) share_percent: u8,
    pub(crate) share_limit_percent: u8,
    /// Sum over the processes of what each is allowed.
    pub(crate) allowed_units: u64,
    /// Units allowed beside any limit since the tenant began: contexts dearer than their charge.
    pub(crate) forced_units: u64,
    /// Most that was allowed when the limit was lowered below it.
    pub(crate) excess_units: u64,
    /// When it was last given more while above its request.
    pub(crate) lent_at: Nanos,
    /// What the pages say need not be asked for; see [`crate::exhausted`].
    pub(crate) exhausted: u32,
    /// Why the last grow was denied, until the refusal that follows from it is told.
    pub(crate) denied: Option<Denial>,
    /// Allocations that were refused.
    pub(crate) refused: u64,
    pub(crate) queue: VecDeque<Pending>,
    pub(crate) residence: Residence,
}

/// A `Grow` that has no answer yet.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    pub(crate) client: ClientId,
    pub(crate) seq: u32,
    pub(crate) wanted_units: u32,
    pub(crate) since: Nanos,
    pub(crate) stage: Stage,
}

/// How far the search for room has come.
#[derive(Clone, Debug)]
pub(crate) enum Stage {
    New,
    /// The pages are being read for slack.
    Reading,
    /// Slack was asked back from these.
    Recalled {
        until: Nanos,
        from: BTreeSet<PageRef>,
    },
    /// Its tenant is owed it, and somebody else has it.
    Waiting {
        until: Nanos,
    },
}

#[derive(Clone, Debug)]
pub(crate) struct Process {
    pub(crate) tenant: u64,
    pub(crate) peer: Peer,
    pub(crate) joined_at_s: u64,
    /// Whether its connection stands; a process may outlive it.
    pub(crate) connected: bool,
    /// When its connection, or the one before that, ended.
    pub(crate) closed_at: Option<Nanos>,
    /// By slot.
    pub(crate) gpus: Vec<ProcessGpu>,
    /// Notes told as events in the second that began at `notes_since`; more are only counted.
    pub(crate) notes: u32,
    pub(crate) notes_since: Nanos,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct ProcessGpu {
    /// The truth: what was granted and not returned.
    pub(crate) allowed_units: u32,
    /// Left from this process's former connection until its first grow says what it still holds.
    pub(crate) carried_units: u32,
    /// It had joined before the broker was restarted: what it asks for first, it holds already.
    pub(crate) returning: bool,
    /// What the page last said.
    pub(crate) word: Word,
    pub(crate) recall: Option<Recall>,
    /// What its context is charged with.
    pub(crate) context_units: u32,
    pub(crate) measuring: Option<Measuring>,
    /// Its place at the lease gate.
    pub(crate) seat: Seat,
    /// Where its memory is.
    pub(crate) stay: Stay,
}

/// A `Recall` without its `Return`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recall {
    pub(crate) seq: u32,
    pub(crate) until: Nanos,
}

/// A context whose cost is being looked up. Counts only if the ledger stood still meanwhile.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measuring {
    pub(crate) seq: u32,
    pub(crate) charged_units: u32,
    pub(crate) until: Nanos,
    /// `held` and when it was read, before the sample.
    pub(crate) before: Option<(u32, Nanos)>,
    /// What a sample younger than that showed.
    pub(crate) used_bytes: Option<u64>,
}

impl ProcessGpu {
    /// What it holds by its page, as far as that can be true.
    pub(crate) fn held_units(&self) -> u32 {
        self.word.held.min(self.allowed_units).max(self.carried_units)
    }

    /// What it could give back by its page. Grants on their way are in neither half of the word.
    pub(crate) fn slack_units(&self) -> u32 {
        self.word.allowed.saturating_sub(self.word.held).min(self.allowed_units)
    }

    /// All that is promised to it.
    pub(crate) fn promised_units(&self) -> u64 {
        u64::from(self.allowed_units) + u64::from(self.carried_units)
    }
}

impl TenantGpu {
    /// An entitlement of which nothing has been used.
    pub(crate) fn new(uuid: Uuid, request_units: u32, limit_units: u32) -> Self {
        Self {
            uuid,
            request_units,
            limit_units,
            share_percent: 0,
            share_limit_percent: 100,
            allowed_units: 0,
            forced_units: 0,
            excess_units: 0,
            lent_at: 0,
            exhausted: 0,
            denied: None,
            refused: 0,
            queue: VecDeque::new(),
            residence: Residence::default(),
        }
    }
}
