//! The bodies, in JSON. Times are seconds since the Unix epoch, memory is bytes.
//!
//! | method and path | request | answer |
//! |---|---|---|
//! | `GET /api/v1/node` | | [`Node`] |
//! | `GET /api/v1/gpus` | | list of [`Gpu`] |
//! | `GET /api/v1/tenants` | | list of [`Tenant`] |
//! | `GET /api/v1/tenants/{id}` | | [`Tenant`] |
//! | `POST /api/v1/tenants` | [`NewTenant`] | 201, [`Admitted`] |
//! | `PATCH /api/v1/tenants/{id}` | [`TenantChange`] | [`Tenant`] as it is then |
//! | `PATCH /api/v1/gpus/{uuid}` | [`GpuChange`] | [`Gpu`] as it is then |
//! | `POST /api/v1/tenants/{id}/suspend` | | [`Tenant`] once it is suspended; 202 if that takes longer |
//! | `POST /api/v1/tenants/{id}/resume` | | [`Tenant`] once it is resumed; 202 while it waits for room |
//! | `DELETE /api/v1/tenants/{id}` | | 204 |
//! | `GET /api/v1/events?after=N` | | list of [`Event`] with `number` above N |
//! | `GET /healthz` | | 200 `ok` |
//! | `GET /readyz` | | 200 `ok`, or 503 with the reason as plain text |
//! | `GET /metrics` | | Prometheus text |
//!
//! Every refusal has a 4xx or 5xx status and a [`Problem`]. A request may have 64 KiB; a connection on
//! which nothing moves for 30 s is closed.

use serde::{Deserialize, Serialize};

use crate::quantity::{Bytes, MemoryWish, Percent, ShareWish};

/// The broker itself.
#[derive(Clone, Serialize, Deserialize, Debug)]
pub struct Node {
    pub version: String,
    /// Of `join.sock`, `major.minor`.
    pub protocol: String,
    pub pid: u32,
    /// Where a tenant's processes join.
    pub join_socket: String,
    /// Version of the driver as NVML says it, if NVML answers.
    pub driver: Option<String>,
    /// `private` (ends after its last tenant) or `node`.
    pub kind: String,
}

/// How compute time is shared on a card.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug, Default)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    #[default]
    Timesharing,
    Fair,
    Strict,
}

/// A card.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Gpu {
    /// In NVML's order.
    pub index: u32,
    /// `GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx`.
    pub uuid: String,
    pub name: String,
    pub mode: Mode,
    /// Length of a turn in `fair` and `strict`.
    #[serde(default)]
    pub lease_ms: u16,
    /// Physical size.
    pub memory_total_bytes: Bytes,
    /// As the card shows it (NVML), everybody's.
    pub memory_used_bytes: Option<Bytes>,
    /// Sum of the requests of its tenants.
    pub memory_requested_bytes: Bytes,
    /// Sum that tenants' processes hold by the ledgers.
    pub memory_held_bytes: Bytes,
    /// Bytes of ended processes that the card still shows.
    pub memory_settling_bytes: Bytes,
    /// Cost of one context on this card, and whether it was measured or is the first guess.
    pub context_bytes: Bytes,
    pub context_measured: bool,
    /// Ids of its tenants.
    pub tenants: Vec<u64>,
}

/// A tenant's part of one card.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct TenantGpu {
    pub index: u32,
    pub uuid: String,
    pub request_bytes: Bytes,
    pub limit_bytes: Bytes,
    /// Sum over its processes, contexts included.
    pub held_bytes: Bytes,
    /// Part of `held_bytes` that is contexts.
    pub context_bytes: Bytes,
    /// Allocations refused since it began.
    pub refused: u64,
    #[serde(default)]
    pub compute: Compute,
    #[serde(default)]
    pub swap: Swap,
}

/// Where a tenant's memory of a card is.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug, Default)]
pub struct Swap {
    /// `resident`, `leaving`, `swapped`, `arriving`, or `waiting` (wants back, and there is no room).
    pub residency: String,
    /// Part of `held_bytes` that lies in host copies.
    pub swapped_bytes: Bytes,
    /// Host memory that is kept for its copies.
    pub host_bytes: Bytes,
    /// Why it can't be moved now, kebab-case; none if it can.
    pub reasons: Vec<String>,
    /// Moves off the card and back since it began.
    pub out: Moves,
    pub back: Moves,
}

/// Moves in one direction.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug, Default)]
pub struct Moves {
    pub moves: u64,
    pub bytes: Bytes,
    pub seconds: f64,
}

/// A tenant's turns on a card; those of its group if it has one.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug, Default)]
pub struct Compute {
    /// `free` (no turns are taken here now), `holds` (the lease), `closing`, `waits`, `idle`, or
    /// `beside` (could not be stopped, so others run beside it).
    pub lease: String,
    /// Parts of the card over the last ten seconds, 0 to 1; none where no turns are taken.
    pub share_received: Option<f64>,
    pub share_entitled: Option<f64>,
    /// Since it began, while turns were taken.
    pub granted_seconds: f64,
    pub entitled_seconds: f64,
    /// Its work waits for its own launches: its turns end only when it has none.
    pub interlocked: bool,
}

/// A tenant.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Tenant {
    pub id: u64,
    pub name: String,
    pub uid: u32,
    /// `waiting` (no process has joined), `running`, `suspending`, `suspended`, `resuming`, `swapped`
    /// (until it needs its memory), `waiting (no room)` (it does, and others have the card), `ended`
    /// (about to go).
    pub state: String,
    pub priority: u16,
    /// Tenants of one user with the same group get and lose the lease together.
    #[serde(default)]
    pub group: Option<String>,
    /// A process of it did not answer when its turn ended, and has said nothing since.
    #[serde(default)]
    pub stalled: bool,
    pub share: Percent,
    pub share_limit: Percent,
    pub swap: bool,
    #[serde(default)]
    pub on_reclaim: OnReclaim,
    pub started_at: u64,
    pub processes: Vec<Process>,
    pub gpus: Vec<TenantGpu>,
}

/// A process of a tenant.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Process {
    pub pid: u32,
    pub command: String,
    pub joined_at: u64,
}

/// What may happen to a tenant that holds memory above its request when another, to whom it is
/// guaranteed, needs it.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug, Default)]
#[serde(rename_all = "lowercase")]
pub enum OnReclaim {
    /// It keeps it, and so can only have what is guaranteed to nobody.
    #[default]
    Keep,
    /// It may have all that is free, and is ended if it must be.
    End,
}

/// Asks for a tenant. Texts are as the command line takes them.
#[derive(Clone, Serialize, Deserialize, Debug, Default)]
#[serde(deny_unknown_fields)]
pub struct NewTenant {
    /// For people; at most 63 printable characters. Default: the program's name.
    pub name: Option<String>,
    /// Cards: indices, UUIDs, unique UUID prefixes, `any`, or one `any:N`. Default: `any`.
    #[serde(default)]
    pub gpus: Vec<String>,
    /// One for all cards or one for each; none: request 0, limit the whole card.
    #[serde(default)]
    pub memory: Vec<MemoryWish>,
    pub compute: Option<ShareWish>,
    pub mode: Option<Mode>,
    /// 1 to 1000; `high`, `normal`, `low` are 1000, 500, 100.
    pub priority: Option<u16>,
    /// Tenants of one user with the same group get and lose the lease together.
    pub group: Option<String>,
    #[serde(default)]
    pub swap: bool,
    /// Default: the broker's.
    pub on_reclaim: Option<OnReclaim>,
    /// The tenant goes when this process has ended and none of its own is left.
    pub runner_pid: Option<u32>,
}

/// Changes a tenant while it runs, all or nothing. What is not named stays.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug, Default)]
#[serde(deny_unknown_fields)]
pub struct TenantChange {
    /// Request and limit; one for all its cards or one for each.
    #[serde(default)]
    pub memory: Vec<MemoryWish>,
    pub compute: Option<ShareWish>,
    /// 1 to 1000.
    pub priority: Option<u16>,
}

/// Changes a card, all or nothing. What is not named stays.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize, Debug, Default)]
#[serde(deny_unknown_fields)]
pub struct GpuChange {
    pub mode: Option<Mode>,
    /// Lease length, 20 to 1000.
    pub lease_ms: Option<u16>,
}

/// A tenant was admitted.
#[derive(Clone, Serialize, Deserialize, Debug)]
pub struct Admitted {
    pub id: u64,
    /// 32 hex digits, for `HALFWARP_TENANT`.
    pub token: String,
    /// For `HALFWARP_JOIN`.
    pub join_socket: String,
    /// UUIDs in the order asked for, for `CUDA_VISIBLE_DEVICES`.
    pub gpus: Vec<String>,
}

/// Something that happened, for people and for tests.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Event {
    /// Rises by one; survives nothing.
    pub number: u64,
    pub at: f64,
    /// A closed set, kebab-case: `broker-started`, `tenant-admitted`, `tenant-refused`,
    /// `tenant-ended`, `tenant-changed`, `gpu-changed`, `joined`, `join-refused`, `process-ended`, `out-of-memory`,
    /// `interlocked`, `stalled`, `swapped-out`, `swapped-in`, `suspended`, `resumed`, `move-failed`, `no-room`, `loan-stuck`,
    /// `context-measured`, `unknown-function`, `settled`, `unattributed`, `protocol-error`.
    pub kind: String,
    pub tenant: Option<u64>,
    pub pid: Option<u32>,
    pub gpu: Option<String>,
    pub bytes: Option<Bytes>,
    pub text: String,
}

/// Why something was refused.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Problem {
    /// kebab-case, one of a closed set.
    pub reason: String,
    /// What was tried and what was found.
    pub message: String,
    /// What to do.
    pub help: String,
}
