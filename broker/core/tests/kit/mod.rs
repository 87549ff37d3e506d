//! A broker with simulated clients: each has the ledger word that a real process has in its page,
//! frames between it and the broker keep their order, and nothing happens but by the test's will.
#![allow(dead_code, reason = "each test file uses its part")]
#![allow(unreachable_pub, reason = "a module of several test crates")]

mod moves;

use std::collections::{BTreeMap, VecDeque};

use halfwarp_api::{
    version::CURRENT,
    wire::{Outcome, ToBroker, ToClient},
};
use halfwarp_broker_core::{
    Action, Admitted, CardFacts, CardSample, Change, ClientId, Config, Event, Happening, Kind,
    Nanos, PageRef, PageWord, Peer, Rejection, Sample, State, Stray, Uuid, Word,
};
use halfwarp_rest::{NewTenant, TenantChange};

pub const MIB: u32 = (1 << 20) / 512;
pub const GIB: u32 = 1024 * MIB;
pub const MS: Nanos = 1_000_000;
pub const UID: u32 = 1000;

/// One process.
#[derive(Debug, Default)]
pub struct Client {
    pub pid: u32,
    pub word: Word,
    pub inbox: VecDeque<ToClient>,
    /// `seq` and size of grows without an answer.
    pub growing: BTreeMap<u32, u32>,
    pub grants: Vec<u32>,
    pub denials: u32,
    /// Denials that needed no answer.
    pub refused_here: u32,
    /// What its page says need not be asked for.
    pub exhausted: u32,
    pub others: Vec<ToClient>,
    /// What its context takes; it never moves.
    pub context: u32,
    /// What it has in host copies.
    pub swapped: u32,
    /// Of that, what lies in chunks of an earlier connection.
    pub orphans: u32,
    /// Its residency gate, as its page says it.
    pub closed: bool,
    pub gate_changes: u32,
    /// By number, the bytes of its chunks.
    pub chunks: BTreeMap<u32, u64>,
    /// How its next moves end, if not well.
    pub ends: VecDeque<Outcome>,
    /// It reads nothing.
    pub stopped: bool,
    next_seq: u32,
}

#[derive(Debug)]
pub struct Node {
    pub now: Nanos,
    pub state: State,
    pub clients: BTreeMap<ClientId, Client>,
    pub to_broker: VecDeque<(ClientId, ToBroker)>,
    pub told: Vec<Happening>,
    /// All that the broker did, for comparing runs.
    pub log: Vec<Action>,
    pub samples_asked: u32,
    /// Processes told to end, or killed.
    pub signals: Vec<(ClientId, bool)>,
    pub stopped: bool,
    /// What the daemon found of processes that nobody knows.
    pub strays: Vec<Stray>,
    /// Chunks can't be made.
    pub no_chunks: bool,
    next_client: u64,
}

pub fn uuid(n: u8) -> Uuid {
    Uuid([n; 16])
}

pub fn card(n: u8, gib: u64) -> CardFacts {
    CardFacts {
        uuid: uuid(n),
        index: u32::from(n),
        name: format!("card {n}"),
        total_bytes: gib << 30,
        multiprocessors: Some(10),
    }
}

pub fn wish(memory: &str) -> NewTenant {
    let memory = memory.split(',').filter(|m| !m.is_empty());
    NewTenant {
        memory: memory.map(|m| m.parse().expect("memory")).collect(),
        ..NewTenant::default()
    }
}

impl Node {
    pub fn new(cards: Vec<CardFacts>) -> Self {
        Self::with(Config::default(), cards)
    }

    pub fn with(config: Config, cards: Vec<CardFacts>) -> Self {
        Self {
            now: 0,
            state: State::new(0, config, cards),
            clients: BTreeMap::new(),
            to_broker: VecDeque::new(),
            told: Vec::new(),
            log: Vec::new(),
            samples_asked: 0,
            signals: Vec::new(),
            stopped: false,
            strays: Vec::new(),
            no_chunks: false,
            next_client: 1,
        }
    }

    /// One event, and all that follows from it at once.
    pub fn step(&mut self, event: Event) -> Vec<Action> {
        let mut events = VecDeque::from([event]);
        let mut all = Vec::new();
        while let Some(event) = events.pop_front() {
            let mut actions = Vec::new();
            self.state.step(self.now, event, &mut actions);
            for action in actions {
                match &action {
                    Action::ReadPages { number, pages } => {
                        let words = pages.iter().filter_map(|at| self.read(*at)).collect();
                        events.push_back(Event::Pages { number: *number, words });
                    }
                    Action::Send { client, frame } => {
                        if let Some(client) = self.clients.get_mut(client) {
                            client.inbox.push_back(*frame);
                        }
                    }
                    Action::Tell(told) => self.told.push(told.clone()),
                    Action::Exhausted { at, units } => {
                        if let Some(client) = self.clients.get_mut(&at.client) {
                            client.exhausted = *units;
                        }
                    }
                    Action::Welcome { client, gpus, .. } => {
                        let closed = gpus.first().is_some_and(|gpu| gpu.residency.closed);
                        if let Some(client) = self.clients.get_mut(client) {
                            client.closed = closed;
                        }
                    }
                    Action::Residency { at, words } => {
                        if let Some(client) = self.clients.get_mut(&at.client) {
                            client.closed = words.closed;
                            client.gate_changes += 1;
                        }
                    }
                    Action::MakeChunk { at, chunk, bytes } => {
                        let (at, chunk, made) = (*at, *chunk, !self.no_chunks);
                        if let Some(client) = self.clients.get_mut(&at.client).filter(|_| made) {
                            client.chunks.insert(chunk, *bytes);
                        }
                        events.push_back(Event::ChunkMade { at, chunk, made });
                    }
                    Action::Signal { client, kill } => self.signals.push((*client, *kill)),
                    Action::Sample => self.samples_asked += 1,
                    Action::Stop => self.stopped = true,
                    _ => {}
                }
                all.push(action);
            }
        }
        self.log.extend(all.iter().cloned());
        all
    }

    fn read(&self, at: PageRef) -> Option<PageWord> {
        self.clients.get(&at.client).map(|client| PageWord { at, word: client.word })
    }

    pub fn ask(&mut self, ask: NewTenant) -> Result<Admitted, Rejection> {
        let token = [u8::try_from(self.log.len() % 251).expect("small"); 16];
        let event = Event::Admit { ask, token, uid: UID, runner: None, at_s: 0 };
        let answer = self.step(event).into_iter().find_map(|action| match action {
            Action::Admitted(admitted) => Some(Ok(admitted)),
            Action::Rejected(rejection) => Some(Err(rejection)),
            _ => None,
        });
        answer.expect("an answer")
    }

    /// `halfwarp set ID memory=…`.
    pub fn resize(&mut self, tenant: &Admitted, memory: &str) -> Result<(), Rejection> {
        let to = TenantChange { memory: wish(memory).memory, ..TenantChange::default() };
        let change = Change::Tenant { id: tenant.id, to };
        let answer = self.step(Event::Change(change)).into_iter().find_map(|action| match action {
            Action::Changed => Some(Ok(())),
            Action::Rejected(rejection) => Some(Err(rejection)),
            _ => None,
        });
        answer.expect("an answer")
    }

    pub fn tenant(&mut self, memory: &str) -> Admitted {
        self.ask(wish(memory)).expect("admitted")
    }

    pub fn join(&mut self, tenant: &Admitted) -> ClientId {
        let pid = 100 + u32::try_from(self.next_client).expect("small");
        self.join_as(tenant, pid)
    }

    pub fn join_as(&mut self, tenant: &Admitted, pid: u32) -> ClientId {
        self.try_join_as(tenant, pid).expect("welcome")
    }

    pub fn try_join(&mut self, tenant: &Admitted) -> Option<ClientId> {
        let pid = 100 + u32::try_from(self.next_client).expect("small");
        self.try_join_as(tenant, pid)
    }

    fn try_join_as(&mut self, tenant: &Admitted, pid: u32) -> Option<ClientId> {
        let client = ClientId(self.next_client);
        self.next_client += 1;
        let peer = Peer { pid, uid: UID, command: "prog".to_owned() };
        let event = Event::Hello { client, peer, version: CURRENT, token: tenant.token, at_s: 0 };
        self.clients.insert(client, Client { pid, ..Client::default() });
        let welcome = |a: &Action| matches!(a, Action::Welcome { .. });
        if !self.step(event).iter().any(welcome) {
            self.clients.remove(&client);
            return None;
        }
        Some(client)
    }

    /// The process wants `units` on its first card: from its allowance, or by a grow on its way.
    pub fn reserve(&mut self, client: ClientId, units: u32) -> bool {
        let own = self.clients.get_mut(&client).expect("a client");
        if own.word.allowed - own.word.held >= units {
            own.word.held += units;
            return true;
        }
        // What it asks for first is what it holds already, if it comes back: that is always asked.
        if own.next_seq > 0 && own.exhausted > 0 && units >= own.exhausted {
            own.denials += 1;
            own.refused_here += 1;
            return false;
        }
        own.next_seq += 1;
        let seq = own.next_seq;
        own.growing.insert(seq, units);
        self.to_broker.push_back((client, ToBroker::Grow { seq, gpu: 0, wanted: units }));
        false
    }

    pub fn release(&mut self, client: ClientId, units: u32) {
        let own = self.clients.get_mut(&client).expect("a client");
        own.word.held -= units;
        if own.exhausted > 0 {
            let units = own.word.allowed - own.word.held;
            own.word.allowed = own.word.held;
            own.next_seq += 1;
            let seq = own.next_seq;
            self.to_broker.push_back((client, ToBroker::GiveBack { seq, gpu: 0, units }));
        }
    }

    pub fn send(&mut self, client: ClientId, frame: ToBroker) -> Vec<Action> {
        self.step(Event::Frame { client, frame })
    }

    /// The broker reads the oldest frame, or the oldest after `skip` clients'.
    pub fn broker_reads(&mut self, skip: usize) {
        let mut senders: Vec<_> = Vec::new();
        for (client, _) in &self.to_broker {
            if !senders.contains(client) {
                senders.push(*client);
            }
        }
        let Some(sender) = senders.get(skip % senders.len().max(1)).copied() else { return };
        let at = self.to_broker.iter().position(|(client, _)| *client == sender);
        if let Some((client, frame)) = at.and_then(|at| self.to_broker.remove(at)) {
            self.send(client, frame);
        }
    }

    /// The client reads its oldest frame. Answers to a `Recall` are on their way after this.
    pub fn client_reads(&mut self, client: ClientId) {
        let Some(own) = self.clients.get_mut(&client) else { return };
        match own.inbox.pop_front() {
            Some(ToClient::SwapOut { seq, .. }) => self.leaves(client, seq),
            Some(ToClient::SwapIn { seq, units, .. }) => self.comes(client, seq, units),
            Some(ToClient::DropChunk { chunk }) => {
                own.chunks.remove(&chunk);
                self.to_broker.push_back((client, ToBroker::ChunkGone { chunk }));
            }
            Some(ToClient::Grant { seq, units, .. }) => {
                let wanted = own.growing.remove(&seq).expect("each grow is answered once");
                assert!(units >= wanted, "granted {units} of {wanted}");
                own.word.allowed += units;
                own.word.held += wanted;
                own.grants.push(wanted);
            }
            Some(ToClient::Deny { seq, .. }) => {
                own.growing.remove(&seq).expect("each grow is answered once");
                own.denials += 1;
            }
            Some(ToClient::Recall { seq, gpu }) => {
                let units = own.word.allowed - own.word.held;
                own.word.allowed = own.word.held;
                self.to_broker.push_back((client, ToBroker::Return { seq, gpu, units }));
            }
            Some(other) => own.others.push(other),
            None => {}
        }
    }

    /// Everybody reads everything until nothing is on its way.
    pub fn settle(&mut self) {
        loop {
            while !self.to_broker.is_empty() {
                self.broker_reads(0);
            }
            let busy: Vec<_> =
                self.clients.iter().filter(|(_, c)| !c.inbox.is_empty() && !c.stopped).collect();
            let Some(client) = busy.first().map(|(client, _)| **client) else { return };
            self.client_reads(client);
        }
    }

    pub fn die(&mut self, client: ClientId) {
        let pages = self.state.pages_of_client(client);
        let words = pages.into_iter().filter_map(|at| self.read(at)).collect();
        self.step(Event::Pages { number: 0, words });
        self.step(Event::Died { client });
        self.clients.remove(&client);
        self.to_broker.retain(|(sender, _)| *sender != client);
    }

    pub fn wait(&mut self, time: Nanos) {
        self.now += time;
        self.step(Event::Tick);
    }

    /// NVML shows these bytes by pid, and their sum and `more_bytes` in use.
    pub fn sample(&mut self, card: u8, by_pid: &[(u32, u64)], more_bytes: u64) {
        self.now += 1;
        let used_bytes = by_pid.iter().map(|(_, bytes)| bytes).sum::<u64>() + more_bytes;
        let processes = Some(by_pid.iter().map(|(pid, bytes)| (*pid, Some(*bytes))).collect());
        let seen = CardSample { used_bytes, processes };
        let cards = BTreeMap::from([(uuid(card), seen)]);
        let (asked_at, strays) = (self.now, self.strays.clone());
        self.step(Event::Sample(Sample { asked_at, cards, strays }));
    }

    pub fn kinds(&self) -> Vec<Kind> {
        self.told.iter().map(|told| told.kind).collect()
    }

    pub fn client(&self, client: ClientId) -> &Client {
        &self.clients[&client]
    }
}
