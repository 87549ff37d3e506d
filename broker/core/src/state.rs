//! The broker's state and the one way to change it, [`State::step`]. What an event means is in the
//! module of its matter; here is only the way there, the timers, and what is always true.

use std::collections::{BTreeMap, BTreeSet};

use halfwarp_api::wire::{Denial, NoteKind, Refusal, ToBroker, ToClient};
use halfwarp_rest::OnReclaim;

use crate::{
    FIRST_TENANT_NS, LINGER_NS, Nanos, SAMPLE_NS, SETTLING_SAMPLE_NS,
    card::{Card, CardFacts, Uuid},
    compute::Compute,
    event::{Action, ClientId, Event, Happening, Kind, PageRef},
    recall::Why,
    residency::{Residency, SwapConfig},
    tenant::{Process, Stage, Tenant},
    watch::Watch,
};

/// What the operator decides.
#[derive(Clone, Debug)]
pub struct Config {
    /// End after the last tenant.
    pub private: bool,
    /// Processes in all.
    pub processes_max: usize,
    /// A process joins once; a second copy of the library in it, or an exec, once more.
    pub joins_of_a_pid_max: usize,
    /// What may happen to tenants that hold another's guaranteed memory, where they do not say.
    pub on_reclaim: OnReclaim,
    /// End a tenant's processes that use a GPU without the library.
    pub end_strays: bool,
    pub swap: SwapConfig,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            private: false,
            processes_max: 4096,
            joins_of_a_pid_max: 64,
            on_reclaim: OnReclaim::Keep,
            end_strays: false,
            swap: SwapConfig::default(),
        }
    }
}

/// What only ever rises, for the metrics.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    pub joins: u64,
    pub join_refusals: BTreeMap<u16, u64>,
    pub admission_refusals: BTreeMap<&'static str, u64>,
    pub unknown_functions: u64,
    pub protocol_errors: u64,
    /// Tenants ended to get guaranteed memory back.
    pub reclaims: u64,
    /// Guaranteed memory that could not be had in time.
    pub broken_guarantees: u64,
}

/// All that the broker knows.
#[derive(Debug)]
pub struct State {
    pub(crate) config: Config,
    pub(crate) cards: BTreeMap<Uuid, Card>,
    pub(crate) tenants: BTreeMap<u64, Tenant>,
    pub(crate) processes: BTreeMap<ClientId, Process>,
    pub(crate) next_tenant: u64,
    pub(crate) next_recall: u32,
    pub(crate) next_read: u64,
    pub(crate) next_settling: u64,
    /// Reads that were asked for, and what they are for.
    pub(crate) reads: BTreeMap<u64, Why>,
    pub(crate) next_sample: Nanos,
    /// Until when room is kept for processes that joined an earlier broker.
    pub(crate) home_until: Option<Nanos>,
    /// Since when there is no tenant, if there has been one.
    pub(crate) empty_since: Option<Nanos>,
    pub(crate) watch: Watch,
    had_tenant: bool,
    stopped: bool,
    pub(crate) compute: Compute,
    pub(crate) residency: Residency,
    counters: Counters,
}

impl State {
    #[must_use]
    pub fn new(now: Nanos, config: Config, cards: Vec<CardFacts>) -> Self {
        let cards = cards.into_iter().map(|facts| (facts.uuid, Card::new(facts))).collect();
        Self {
            config,
            cards,
            tenants: BTreeMap::new(),
            processes: BTreeMap::new(),
            next_tenant: 1,
            next_recall: 1,
            next_read: 1,
            next_settling: 0,
            reads: BTreeMap::new(),
            next_sample: now,
            home_until: None,
            empty_since: Some(now),
            watch: Watch::default(),
            had_tenant: false,
            stopped: false,
            compute: Compute::default(),
            residency: Residency::default(),
            counters: Counters::default(),
        }
    }

    /// Takes one event and says what follows from it.
    pub fn step(&mut self, now: Nanos, event: Event, actions: &mut Vec<Action>) {
        self.compute_before(now);
        match event {
            Event::Admit { ask, token, uid, runner, at_s } => {
                self.admit(&ask, token, uid, runner, at_s, actions);
            }
            Event::CallBack => self.call_loans_back(now, actions),
            Event::End { tenant } => self.end(now, tenant, actions),
            Event::Change(change) => self.change(now, &change, actions),
            Event::Suspend { tenant, uid } => self.suspend(now, tenant, uid, actions),
            Event::Resume { tenant, uid } => self.resume(now, tenant, uid, actions),
            Event::ChunkMade { at, chunk, made } => self.chunk_made(now, at, chunk, made),
            Event::RunnerGone { tenant } => self.runner_gone(now, tenant, actions),
            Event::Hello { client, peer, version, token, at_s } => {
                self.hello(now, client, (peer, at_s), version, token, actions);
            }
            Event::Frame { client, frame } => self.frame(now, client, frame, actions),
            Event::Hostile { client, pid, text } => self.hostile(client, pid, text, actions),
            Event::Closed { client } => self.closed(now, client, actions),
            Event::Died { client } => self.died(now, client, actions),
            Event::Pages { number, words } => self.pages_read(now, number, &words, actions),
            Event::Sample(sample) => self.sampled(now, sample, actions),
            Event::Tick => {}
        }
        self.run_timers(now, actions);
        self.compute_after(now, actions);
        self.residency_after(now, actions);
        self.check();
    }

    fn frame(&mut self, now: Nanos, client: ClientId, frame: ToBroker, actions: &mut Vec<Action>) {
        let Some(process) = self.processes.get(&client) else { return };
        match frame {
            ToBroker::Hello { .. } | ToBroker::Look { .. } => {
                let pid = process.peer.pid;
                self.hostile(client, pid, "a second hello".to_owned(), actions);
                actions.push(Action::Close { client });
            }
            ToBroker::Grow { seq, gpu, wanted } => {
                self.grow(now, PageRef { client, slot: gpu }, seq, wanted, actions);
            }
            ToBroker::Return { seq, gpu, units } => {
                self.returned(now, PageRef { client, slot: gpu }, seq, units, actions);
            }
            ToBroker::GiveBack { seq, gpu, units } => {
                self.returned(now, PageRef { client, slot: gpu }, 0, units, actions);
                let frame = ToClient::Taken { seq, gpu };
                actions.push(Action::Send { client, frame });
            }
            ToBroker::Ask { seq, gpu } => {
                self.ask(PageRef { client, slot: gpu }, seq, actions);
            }
            ToBroker::ContextMade { seq, gpu, charged } => {
                self.context_made(now, PageRef { client, slot: gpu }, seq, charged, actions);
            }
            ToBroker::Note { kind, gpu, a, b } => {
                self.noted(now, PageRef { client, slot: gpu }, kind, (a, b), actions);
            }
            ToBroker::Want { gpu, .. } => {
                self.wants(now, PageRef { client, slot: gpu }, actions);
            }
            ToBroker::Drained { seq, gpu, done, waiting } => {
                let at = PageRef { client, slot: gpu };
                self.drained(now, at, seq, done, waiting, actions);
            }
            ToBroker::Idle { gpu, lease } => self.is_idle(PageRef { client, slot: gpu }, lease),
            frame => self.frame_of_memory(now, client, frame, actions),
        }
    }

    /// Bytes that are no frame of ours, or frames that lie. The daemon ends the connection.
    pub(crate) fn hostile(
        &mut self,
        client: ClientId,
        pid: u32,
        text: String,
        actions: &mut Vec<Action>,
    ) {
        self.counters.protocol_errors += 1;
        let mut told = Happening::new(Kind::ProtocolError, text).pid(pid);
        told.tenant = self.processes.get(&client).map(|p| p.tenant);
        actions.push(Action::Tell(told));
    }

    fn noted(
        &mut self,
        now: Nanos,
        at: PageRef,
        kind: NoteKind,
        (a, b): (u64, u64),
        actions: &mut Vec<Action>,
    ) {
        /// A program in a loop must not push everybody else's events out of the list.
        const NOTES_PER_SECOND: u32 = 20;
        let Some(process) = self.processes.get_mut(&at.client) else { return };
        if now.saturating_sub(process.notes_since) >= 1_000_000_000 {
            (process.notes, process.notes_since) = (0, now);
        }
        process.notes += 1;
        let tell = process.notes <= NOTES_PER_SECOND;
        let (id, pid) = (process.tenant, process.peer.pid);
        let Some(tenant) = self.tenants.get_mut(&id) else { return };
        let gpu = tenant.gpus.get_mut(usize::from(at.slot));
        let told = match kind {
            NoteKind::OutOfMemory => {
                let Some(gpu) = gpu else { return };
                gpu.refused += 1;
                let why = gpu.denied.take().unwrap_or(Denial::Limit);
                let text = format!("an allocation was refused: {}", why.text());
                Happening::new(Kind::OutOfMemory, text).gpu(gpu.uuid).bytes(a)
            }
            NoteKind::UnknownFunction => {
                self.counters.unknown_functions += 1;
                let known = if b == u64::MAX { "no row".to_owned() } else { format!("row {b}") };
                let text =
                    format!("a function of CUDA {a} was passed through; the table has {known}");
                Happening::new(Kind::UnknownFunction, text)
            }
        };
        if tell {
            actions.push(Action::Tell(told.tenant(id).pid(pid)));
        }
    }

    /// When [`Event::Tick`] is due, at the latest.
    #[must_use]
    pub fn next_deadline(&self) -> Nanos {
        let queues = self.tenants.values().flat_map(|t| &t.gpus).filter_map(|g| g.queue.front());
        let recalls = queues.filter_map(|head| match head.stage {
            Stage::Recalled { until, .. } | Stage::Waiting { until } => Some(until),
            Stage::New | Stage::Reading => None,
        });
        let contexts = self.processes.values().flat_map(|p| &p.gpus);
        let contexts = contexts.filter_map(|gpu| Some(gpu.measuring?.until));
        let kills = self.tenants.values().filter_map(|t| t.lending.kill_at);
        let others = self.home_until.into_iter().chain(self.stop_at()).chain(self.compute_due());
        let others = others.chain(self.residency.due());
        let first = recalls.chain(contexts).chain(kills).chain(others).min();
        first.map_or(self.next_sample, |at| at.min(self.next_sample))
    }

    fn stop_at(&self) -> Option<Nanos> {
        let linger = if self.had_tenant { LINGER_NS } else { FIRST_TENANT_NS };
        self.empty_since.filter(|_| self.config.private && !self.stopped).map(|at| at + linger)
    }

    fn run_timers(&mut self, now: Nanos, actions: &mut Vec<Action>) {
        if self.home_until.is_some_and(|until| now >= until) {
            self.home_until = None;
            self.forget_absent();
            self.serve_everywhere(now, actions);
            self.end_what_is_done(now, actions);
        }
        let due = |t: &Tenant| {
            let heads = t.gpus.iter().filter_map(|g| g.queue.front());
            heads.into_iter().any(|head| match head.stage {
                Stage::Recalled { until, .. } | Stage::Waiting { until } => now >= until,
                Stage::New | Stage::Reading => false,
            })
        };
        if self.tenants.values().any(due) {
            self.serve_everywhere(now, actions);
        }
        self.give_up_measuring(now, actions);
        self.kill_overdue(now, actions);
        if now >= self.next_sample {
            let settling = self.cards.values().any(|c| c.settling.values().any(|s| !s.told));
            self.next_sample = now + if settling { SETTLING_SAMPLE_NS } else { SAMPLE_NS };
            actions.push(Action::Sample);
        }
        if self.stop_at().is_some_and(|at| now >= at) {
            self.stopped = true;
            actions.push(Action::Stop);
        }
    }

    pub(crate) fn note_tenants(&mut self, now: Nanos) {
        self.had_tenant |= !self.tenants.is_empty();
        self.empty_since =
            if self.tenants.is_empty() { self.empty_since.or(Some(now)) } else { None };
    }

    pub(crate) fn count_join(&mut self) {
        self.counters.joins += 1;
    }

    pub(crate) fn count_join_refusal(&mut self, why: Refusal) {
        *self.counters.join_refusals.entry(why as u16).or_default() += 1;
    }

    pub(crate) fn count_admission_refusal(&mut self, reason: &'static str) {
        *self.counters.admission_refusals.entry(reason).or_default() += 1;
    }

    pub(crate) fn count_reclaim(&mut self) {
        self.counters.reclaims += 1;
    }

    pub(crate) fn count_broken_guarantee(&mut self) {
        self.counters.broken_guarantees += 1;
    }

    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Slots of a card, tenant by tenant in the order they came.
    pub(crate) fn slots_on(&self, card: Uuid) -> Vec<(u64, u8)> {
        let of = |t: &Tenant| -> Vec<(u64, u8)> {
            let here = t.gpus.iter().enumerate().filter(|(_, gpu)| gpu.uuid == card);
            here.map(|(slot, _)| (t.id, slot as u8)).collect()
        };
        self.tenants.values().flat_map(of).collect()
    }

    /// What is true between any two steps.
    fn check(&self) {
        if !cfg!(debug_assertions) {
            return;
        }
        for tenant in self.tenants.values() {
            for (slot, gpu) in tenant.gpus.iter().enumerate() {
                let promised = |c| {
                    self.processes.get(c).map_or(0, |p: &Process| p.gpus[slot].promised_units())
                };
                let sum: u64 = tenant.processes.iter().map(promised).sum();
                assert_eq!(sum, gpu.allowed_units, "books of tenant {} slot {slot}", tenant.id);
                let bound = u64::from(gpu.limit_units).max(gpu.excess_units) + gpu.forced_units;
                assert!(sum <= bound, "tenant {} above its limit", tenant.id);
            }
        }
        let joined: BTreeSet<_> = self.tenants.values().flat_map(|t| &t.processes).collect();
        assert!(self.processes.keys().eq(joined), "a process without a tenant, or the reverse");
        for (uuid, card) in &self.cards {
            let requested = self.requested_units(*uuid);
            assert!(requested <= card.total_units(), "{uuid} has more requests than memory");
        }
    }
}
