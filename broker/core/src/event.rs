//! What can happen to the broker and what it can do about it, as values.

use std::collections::BTreeMap;

use halfwarp_api::{
    version::Version,
    wire::{Refusal, ToBroker, ToClient, Token},
};
use halfwarp_rest::NewTenant;

use crate::{
    Nanos, admit::Rejection, card::Uuid, change::Change, compute::GateWords,
    residency::ResidencyWords,
};

/// A connection to `join.sock`, numbered by the daemon, never twice the same.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ClientId(pub u64);

/// Who is at the other end, as the kernel says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Peer {
    pub pid: u32,
    pub uid: u32,
    /// For people.
    pub command: String,
}

/// The process that a tenant lives for. The start time tells it from a later one of the same pid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Runner {
    pub pid: u32,
    pub started_ticks: u64,
}

/// A ledger word, read once.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Word {
    pub held: u32,
    pub allowed: u32,
}

/// A ledger word's place.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct PageRef {
    pub client: ClientId,
    pub slot: u8,
}

/// What stood there: a hint from a hostile writer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageWord {
    pub at: PageRef,
    pub word: Word,
}

/// A card as NVML showed it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CardSample {
    /// In use by anybody, the driver's own part included.
    pub used_bytes: u64,
    /// By pid, the bytes where NVML knows them; none where NVML has no list.
    pub processes: Option<BTreeMap<u32, Option<u64>>>,
}

/// A look at the cards. A card that is not in it gave no data.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sample {
    /// When NVML was asked: all that it shows is at least as young.
    pub asked_at: Nanos,
    pub cards: BTreeMap<Uuid, CardSample>,
}

/// Something that happened to the broker.
#[derive(Clone, Debug)]
pub enum Event {
    /// Somebody asks for a tenant. Answer: [`Action::Admitted`] or [`Action::Rejected`].
    Admit {
        ask: NewTenant,
        token: Token,
        uid: u32,
        runner: Option<Runner>,
        at_s: u64,
    },
    /// What tenants were allowed above their requests and do not use is to come back.
    CallBack,
    /// A tenant is to go. Answer: [`Action::Ended`] or [`Action::Rejected`].
    End {
        tenant: u64,
    },
    /// Something is to be different. Answer: [`Action::Changed`] or [`Action::Rejected`].
    Change(Change),
    /// A tenant's memory is to leave its cards until it is resumed. Answer: [`Action::Begun`] or
    /// [`Action::Rejected`]; the end is in [`crate::State::suspension`].
    Suspend {
        tenant: u64,
        uid: u32,
    },
    /// And to come back; answered alike.
    Resume {
        tenant: u64,
        uid: u32,
    },
    /// Answers [`Action::MakeChunk`]: the chunk is on its way to its process, or could not be made.
    ChunkMade {
        at: PageRef,
        chunk: u32,
        made: bool,
    },
    /// The process that a tenant lives for has ended.
    RunnerGone {
        tenant: u64,
    },
    /// A `Hello` on a new connection. Answer: [`Action::Welcome`] or [`Action::Refuse`].
    Hello {
        client: ClientId,
        peer: Peer,
        version: Version,
        token: Token,
        at_s: u64,
    },
    /// Any later frame.
    Frame {
        client: ClientId,
        frame: ToBroker,
    },
    /// A connection sent what is no frame; the daemon ends it.
    Hostile {
        client: ClientId,
        pid: u32,
        text: String,
    },
    /// A connection ended; its process may live on.
    Closed {
        client: ClientId,
    },
    /// The process of a connection ended.
    Died {
        client: ClientId,
    },
    /// Answers the [`Action::ReadPages`] of this number; number 0 is unasked.
    Pages {
        number: u64,
        words: Vec<PageWord>,
    },
    Sample(Sample),
    /// The time [`crate::State::next_deadline`] named has come.
    Tick,
}

/// A card as a joining client is told of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WelcomeGpu {
    /// Its memory is to be allocated so that it can be moved.
    pub swap: bool,
    pub uuid: Uuid,
    pub limit_units: u32,
    pub context_units: u32,
    pub lease: GateWords,
    pub residency: ResidencyWords,
}

/// A tenant that was admitted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Admitted {
    pub id: u64,
    pub token: Token,
    pub gpus: Vec<Uuid>,
}

/// Something the daemon is to do.
#[derive(Clone, PartialEq, Debug)]
pub enum Action {
    Admitted(Admitted),
    Rejected(Rejection),
    Ended,
    Changed,
    /// A suspend or resume has begun.
    Begun,
    /// Make the pages and send them with the frames. If that fails: [`Event::Died`].
    Welcome {
        client: ClientId,
        tenant: u64,
        gpus: Vec<WelcomeGpu>,
    },
    /// Say so and end the connection.
    Refuse {
        client: ClientId,
        why: Refusal,
    },
    Send {
        client: ClientId,
        frame: ToClient,
    },
    /// End the connection.
    Close {
        client: ClientId,
    },
    /// The record of this connection is gone; whatever is kept for it can go.
    Forget {
        client: ClientId,
    },
    /// The client's page is to say how many processes its tenant has.
    Headcount {
        client: ClientId,
        processes: u32,
    },
    /// Write these words into a page, the number before the gate, and wake whoever waits if it opens.
    Gate {
        at: PageRef,
        words: GateWords,
    },
    /// Write these words into a page, the number before the gate, and wake whoever waits if it opens.
    Residency {
        at: PageRef,
        words: ResidencyWords,
    },
    /// Make host memory for this process alone and send it. Answer: [`Event::ChunkMade`].
    MakeChunk {
        at: PageRef,
        chunk: u32,
        bytes: u64,
    },
    /// The process has given this chunk up: its memory can go.
    FreeChunk {
        client: ClientId,
        chunk: u32,
    },
    /// The client's page is to say this limit.
    Limit {
        at: PageRef,
        limit_units: u32,
    },
    /// The client's page is to say that asks of so many units or more are refused; 0: none.
    Exhausted {
        at: PageRef,
        units: u32,
    },
    /// Tell the process to end, or kill it.
    Signal {
        client: ClientId,
        kill: bool,
    },
    /// Read these words now. Answer: [`Event::Pages`] before any other event.
    ReadPages {
        number: u64,
        pages: Vec<PageRef>,
    },
    /// Look at the cards now. Answer, if any: [`Event::Sample`].
    Sample,
    /// [`crate::State::saved`] has changed.
    Save,
    Tell(Happening),
    /// A private broker has nobody left.
    Stop,
}

/// Something worth telling people.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Happening {
    pub kind: Kind,
    pub tenant: Option<u64>,
    pub pid: Option<u32>,
    pub gpu: Option<Uuid>,
    pub bytes: Option<u64>,
    pub text: String,
}

macro_rules! kinds {
    ($($variant:ident $text:literal,)*) => {
        /// The kinds of [`Happening`], a closed set.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum Kind { $($variant,)* }

        impl Kind {
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// As the API spells it.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }
    };
}

kinds! {
    BrokerStarted "broker-started",
    TenantAdmitted "tenant-admitted",
    TenantRefused "tenant-refused",
    TenantEnded "tenant-ended",
    TenantChanged "tenant-changed",
    GpuChanged "gpu-changed",
    Joined "joined",
    JoinRefused "join-refused",
    ProcessEnded "process-ended",
    Interlocked "interlocked",
    Stalled "stalled",
    OutOfMemory "out-of-memory",
    Reclaimed "reclaimed",
    GuaranteeBroken "guarantee-broken",
    SwappedOut "swapped-out",
    SwappedIn "swapped-in",
    Suspended "suspended",
    Resumed "resumed",
    MoveFailed "move-failed",
    NoRoom "no-room",
    LoanStuck "loan-stuck",
    ContextMeasured "context-measured",
    UnknownFunction "unknown-function",
    Settled "settled",
    Unattributed "unattributed",
    ProtocolError "protocol-error",
}

impl Happening {
    pub(crate) fn new(kind: Kind, text: impl Into<String>) -> Self {
        Self { kind, tenant: None, pid: None, gpu: None, bytes: None, text: text.into() }
    }

    pub(crate) fn tenant(mut self, tenant: u64) -> Self {
        self.tenant = Some(tenant);
        self
    }

    pub(crate) fn pid(mut self, pid: u32) -> Self {
        self.pid = Some(pid);
        self
    }

    pub(crate) fn gpu(mut self, gpu: Uuid) -> Self {
        self.gpu = Some(gpu);
        self
    }

    pub(crate) fn bytes(mut self, bytes: u64) -> Self {
        self.bytes = Some(bytes);
        self
    }
}
