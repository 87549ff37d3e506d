//! Everything together: cards, processes, the broker and the time between them.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
};

use halfwarp_api::{version::CURRENT, wire::ToBroker, wire::ToClient};
use halfwarp_broker_core::{
    Action, CardFacts, Change, ClientId, Config, Event, Gate, GateWords, Happening, PageRef, Peer,
    State, Uuid,
};
use halfwarp_rest::{GpuChange, Mode, NewTenant, TenantChange};

use crate::{
    Nanos,
    card::{BIN_NS, Card, Flags},
    load::{Load, Op},
    process::{Door, IDLE_NS, Kernel, LAUNCH_NS, Pass, Process, Thread},
    random::Random,
};

/// How long a message or a wake-up takes.
const MESSAGE_NS: Nanos = 30_000;

/// A tenant to be.
#[derive(Clone, Debug, Default)]
pub struct Spec {
    pub compute: &'static str,
    pub priority: Option<u16>,
    pub group: Option<&'static str>,
    pub gpus: &'static [&'static str],
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Then {
    Broker,
    Card(usize),
    Thread(ClientId, usize),
    Door(ClientId, usize),
    Said(u64),
    Heard(u64),
    Gate(u64),
}

#[derive(Debug)]
pub struct World {
    pub now: Nanos,
    pub state: State,
    pub told: Vec<Happening>,
    /// What happened to the broker and what it did, for replaying.
    pub record: Vec<(Nanos, Event, Vec<Action>)>,
    cards: Vec<Card>,
    flags: Flags,
    /// When each card is looked at next.
    cards_due: Vec<Option<Nanos>>,
    processes: BTreeMap<ClientId, Process>,
    tokens: BTreeMap<u64, [u8; 16]>,
    /// The tenant of each process that there ever was.
    owners: BTreeMap<ClientId, u64>,
    due: BinaryHeap<Reverse<(Nanos, u64, Then)>>,
    next: u64,
    said: BTreeMap<u64, (ClientId, ToBroker)>,
    heard: BTreeMap<u64, (ClientId, ToClient)>,
    gates: BTreeMap<u64, (PageRef, GateWords)>,
    random: Random,
    next_client: u64,
    recording: bool,
}

fn uuid(card: usize) -> Uuid {
    Uuid([card as u8 + 1; 16])
}

/// A made-up card, as the broker is told of it.
#[must_use]
pub fn facts(card: usize) -> CardFacts {
    CardFacts {
        uuid: uuid(card),
        index: card as u32,
        name: "made up".to_owned(),
        total_bytes: 1 << 40,
        multiprocessors: Some(10),
    }
}

impl World {
    #[must_use]
    pub fn new(cards: usize, mode: Mode, seed: u64) -> Self {
        Self::made(cards, mode, seed, false)
    }

    /// One that keeps all that happens to the broker and what it does.
    #[must_use]
    pub fn recorded(cards: usize, mode: Mode, seed: u64) -> Self {
        Self::made(cards, mode, seed, true)
    }

    fn made(cards: usize, mode: Mode, seed: u64, recording: bool) -> Self {
        let facts = (0..cards).map(facts).collect();
        let state = State::new(0, Config::default(), facts);
        let mut world = Self {
            now: 0,
            state,
            told: Vec::new(),
            record: Vec::new(),
            cards: (0..cards).map(|_| Card::default()).collect(),
            cards_due: vec![None; cards],
            flags: Flags::new(),
            processes: BTreeMap::new(),
            tokens: BTreeMap::new(),
            owners: BTreeMap::new(),
            due: BinaryHeap::new(),
            next: 0,
            said: BTreeMap::new(),
            heard: BTreeMap::new(),
            gates: BTreeMap::new(),
            random: Random::new(seed),
            next_client: 1,
            recording,
        };
        for card in 0..cards {
            world.change_gpu(card, GpuChange { mode: Some(mode), lease_ms: None });
        }
        world
    }

    pub fn change_gpu(&mut self, card: usize, to: GpuChange) {
        self.step(Event::Change(Change::Gpu { uuid: uuid(card), to }));
    }

    pub fn change_tenant(&mut self, id: u64, to: TenantChange) {
        self.step(Event::Change(Change::Tenant { id, to }));
    }

    /// # Panics
    /// If the broker refuses it.
    pub fn tenant(&mut self, spec: &Spec) -> u64 {
        let token = [self.tokens.len() as u8 + 1; 16];
        let gpus = if spec.gpus.is_empty() { &["0"] } else { spec.gpus };
        let ask = NewTenant {
            compute: spec.compute.parse().ok(),
            priority: spec.priority,
            group: spec.group.map(str::to_owned),
            gpus: gpus.iter().map(|&gpu| gpu.to_owned()).collect(),
            ..NewTenant::default()
        };
        let admit = Event::Admit { ask, token, uid: 1, runner: None, at_s: 0 };
        let answer = self.step(admit).into_iter().find_map(|action| match action {
            Action::Admitted(admitted) => Some(admitted.id),
            Action::Rejected(rejection) => panic!("{rejection:?}"),
            _ => None,
        });
        let Some(id) = answer else { panic!("no answer") };
        self.tokens.insert(id, token);
        id
    }

    /// A process of a tenant, with a thread for each load.
    pub fn process(&mut self, tenant: u64, loads: Vec<Box<dyn Load>>) -> ClientId {
        let client = ClientId(self.next_client);
        self.next_client += 1;
        let peer = Peer { pid: client.0 as u32, uid: 1, command: "program".to_owned() };
        let token = self.tokens[&tenant];
        let hello = Event::Hello { client, peer, version: CURRENT, token, at_s: 0 };
        let thread = |load| Thread { load, op: None, asleep_until: self.now };
        let threads: Vec<Thread> = loads.into_iter().map(thread).collect();
        let process = Process {
            cards: Vec::new(),
            doors: Vec::new(),
            threads,
            learnt: BTreeMap::new(),
            stopped: false,
            requests_ns: Vec::new(),
        };
        self.processes.insert(client, process);
        self.owners.insert(client, tenant);
        self.step(hello);
        for thread in 0..self.processes[&client].threads.len() {
            self.later(0, Then::Thread(client, thread));
        }
        client
    }

    /// The process ends, its work with it.
    pub fn kill(&mut self, client: ClientId) {
        self.processes.remove(&client);
        for card in 0..self.cards.len() {
            self.run_card(card);
            self.cards[card].remove(client);
            self.card_changed(card);
        }
        self.step(Event::Died { client });
    }

    /// `SIGSTOP`: neither says nor hears nor launches anything; what it launched runs on.
    pub fn stop(&mut self, client: ClientId) {
        if let Some(process) = self.processes.get_mut(&client) {
            process.stopped = true;
        }
    }

    pub fn go_on(&mut self, client: ClientId) {
        let Some(process) = self.processes.get_mut(&client) else { return };
        process.stopped = false;
        let (threads, doors) = (process.threads.len(), process.doors.len());
        (0..threads).for_each(|thread| self.later(0, Then::Thread(client, thread)));
        (0..doors).for_each(|door| self.later(0, Then::Door(client, door)));
    }

    pub fn run_until(&mut self, until: Nanos) {
        while let Some(Reverse((at, _, then))) = self.due.peek().copied() {
            if at > until {
                break;
            }
            self.due.pop();
            self.now = self.now.max(at);
            self.happen(then);
        }
        self.now = until;
        for card in 0..self.cards.len() {
            self.run_card(card);
        }
    }

    fn later(&mut self, ns: Nanos, then: Then) {
        self.next += 1;
        self.due.push(Reverse((self.now + ns, self.next, then)));
    }

    fn happen(&mut self, then: Then) {
        match then {
            Then::Broker => {
                if self.now >= self.state.next_deadline() {
                    self.step(Event::Tick);
                }
            }
            Then::Card(card) if self.cards_due[card] == Some(self.now) => {
                self.cards_due[card] = None;
                self.run_card(card);
            }
            // Something else came before.
            Then::Card(_) => {}
            Then::Thread(client, thread) => self.run_thread(client, thread),
            Then::Door(client, slot) => self.look_at_door(client, slot),
            Then::Said(number) => {
                if let Some((client, frame)) = self.said.remove(&number)
                    && self.processes.contains_key(&client)
                {
                    self.step(Event::Frame { client, frame });
                }
            }
            Then::Heard(number) => {
                if let Some((client, frame)) = self.heard.remove(&number) {
                    self.hear(client, frame);
                }
            }
            Then::Gate(number) => {
                if let Some((at, words)) = self.gates.remove(&number) {
                    self.see_gate(at, words);
                }
            }
        }
    }

    /// One event and what follows.
    fn step(&mut self, event: Event) -> Vec<Action> {
        let mut actions = Vec::new();
        let kept = self.recording.then(|| event.clone());
        self.state.step(self.now, event, &mut actions);
        if let Some(event) = kept {
            self.record.push((self.now, event, actions.clone()));
        }
        for action in &actions {
            match action {
                Action::Welcome { client, gpus, .. } => {
                    let Some(process) = self.processes.get_mut(client) else { continue };
                    process.cards = gpus.iter().map(|gpu| usize::from(gpu.uuid.0[0]) - 1).collect();
                    let door = |words| Door { words, ..Door::default() };
                    process.doors = gpus.iter().map(|gpu| door(gpu.lease)).collect();
                }
                Action::Send { client, frame } => {
                    self.next += 1;
                    self.heard.insert(self.next, (*client, *frame));
                    self.later(MESSAGE_NS, Then::Heard(self.next));
                }
                Action::Gate { at, words } => {
                    // A gate closes at once for whoever looks; who sleeps at it wakes a little later.
                    if words.gate == Gate::Open {
                        self.next += 1;
                        self.gates.insert(self.next, (*at, *words));
                        self.later(MESSAGE_NS, Then::Gate(self.next));
                    } else {
                        self.see_gate(*at, *words);
                    }
                }
                Action::Tell(told) => self.told.push(told.clone()),
                _ => {}
            }
        }
        let due = self.state.next_deadline();
        self.later(due.saturating_sub(self.now), Then::Broker);
        actions
    }

    fn say(&mut self, client: ClientId, frame: ToBroker) {
        self.next += 1;
        self.said.insert(self.next, (client, frame));
        self.later(MESSAGE_NS, Then::Said(self.next));
    }

    fn see_gate(&mut self, at: PageRef, words: GateWords) {
        let now = self.now;
        let Some(process) = self.processes.get_mut(&at.client) else { return };
        let Some(door) = process.doors.get_mut(usize::from(at.slot)) else { return };
        // Words travel at different speeds here, never in a page.
        if words.lease.wrapping_sub(door.words.lease) > u32::MAX / 2 {
            return;
        }
        door.words = words;
        if words.gate == Gate::Open {
            door.stirred = now;
            self.later(IDLE_NS, Then::Door(at.client, usize::from(at.slot)));
        }
        self.wake_threads(at.client);
    }

    fn wake_threads(&mut self, client: ClientId) {
        let threads = self.processes.get(&client).map_or(0, |process| process.threads.len());
        for thread in 0..threads {
            self.later(0, Then::Thread(client, thread));
        }
    }

    fn hear(&mut self, client: ClientId, frame: ToClient) {
        let ToClient::Drain { seq, gpu, within_ns } = frame else { return };
        let now = self.now;
        let Some(process) = self.processes.get_mut(&client) else { return };
        let Some(door) = process.doors.get_mut(usize::from(gpu)) else { return };
        door.drains.insert(seq, now + within_ns);
        self.look_at_door(client, usize::from(gpu));
        self.later(within_ns, Then::Door(client, usize::from(gpu)));
    }

    /// What the library's own thread finds.
    fn look_at_door(&mut self, client: ClientId, slot: usize) {
        let now = self.now;
        let card = self.processes.get(&client).and_then(|p| p.cards.get(slot)).copied();
        let Some(card) = card else { return };
        self.run_card(card);
        let Some(process) = self.processes.get_mut(&client) else { return };
        if process.stopped {
            return;
        }
        let mut frames = process.drained(now, slot);
        frames.extend(process.is_idle(now, slot));
        for frame in frames {
            self.say(client, frame);
        }
    }

    fn run_card(&mut self, card: usize) {
        let flags = self.flags.len();
        let finished = self.cards[card].advance(self.now, &mut self.flags);
        for (client, kernel) in finished {
            let now = self.now;
            let Some(process) = self.processes.get_mut(&client) else { continue };
            let slot = process.cards.iter().position(|own| *own == card).unwrap_or_default();
            process.finished(now, slot, kernel);
            self.later(0, Then::Door(client, slot));
            self.later(IDLE_NS, Then::Door(client, slot));
            self.wake_threads(client);
        }
        self.card_changed(card);
        if self.flags.len() > flags {
            // Somebody on another card may have waited for it.
            (0..self.cards.len()).for_each(|other| self.card_changed(other));
        }
    }

    fn card_changed(&mut self, card: usize) {
        let next = self.cards[card].next(&self.flags);
        if next.is_some() && next != self.cards_due[card] {
            let next = next.map(|at| at.max(self.now));
            self.cards_due[card] = next;
            self.later(next.unwrap_or(0).saturating_sub(self.now), Then::Card(card));
        }
    }

    fn run_thread(&mut self, client: ClientId, thread: usize) {
        let mut random = self.random.clone();
        while self.one_op(client, thread, &mut random) {}
        self.random = random;
    }

    /// Whether the thread can go on at once.
    fn one_op(&mut self, client: ClientId, thread: usize, random: &mut Random) -> bool {
        let now = self.now;
        let Some(process) = self.processes.get_mut(&client).filter(|p| !p.stopped) else {
            return false;
        };
        let own = &mut process.threads[thread];
        if now < own.asleep_until {
            return false;
        }
        let op = own.op.take().unwrap_or_else(|| own.load.next(now, random));
        match op {
            Op::Launch { slot, ns, .. } => {
                let pass = process.pass(now, thread as u32, slot, ns);
                self.passed(client, thread, op, pass);
                false
            }
            Op::Sync | Op::SyncStream => {
                let stream = thread as u32;
                let done = process.doors.iter().all(|door| match op {
                    Op::Sync => door.in_flight == 0,
                    _ => door.in_flight_by_stream.get(&stream).is_none_or(|count| *count == 0),
                });
                if !done {
                    process.threads[thread].op = Some(op);
                }
                done
            }
            Op::SleepUntil(at) => {
                own.asleep_until = at;
                self.later(at.saturating_sub(now), Then::Thread(client, thread));
                at <= now
            }
            Op::Request { since } => {
                process.requests_ns.push(now - since);
                true
            }
            Op::End => {
                own.op = Some(op);
                false
            }
        }
    }

    fn passed(&mut self, client: ClientId, thread: usize, op: Op, pass: Pass) {
        let Some(process) = self.processes.get_mut(&client) else { return };
        let own = &mut process.threads[thread];
        match (pass, op) {
            (Pass::Launch { guess_ns }, Op::Launch { slot, ns, needs, sets }) => {
                let stream = thread as u32;
                let left_ns = ns.max(1);
                let kernel = Kernel { left_ns, whole_ns: ns, guess_ns, stream, needs, sets };
                self.launch(client, thread, slot, kernel);
            }
            (Pass::Launch { .. }, _) => {}
            (Pass::WaitsAtGate(frame), _) => {
                own.op = Some(op);
                if let Some(frame) = frame {
                    self.say(client, frame);
                }
            }
            (Pass::WaitsForRoom { until }, _) => {
                own.op = Some(op);
                if let Some(until) = until {
                    self.later(until.saturating_sub(self.now), Then::Thread(client, thread));
                }
            }
        }
    }

    fn launch(&mut self, client: ClientId, thread: usize, slot: u8, kernel: Kernel) {
        let now = self.now;
        let Some(process) = self.processes.get_mut(&client) else { return };
        let own = &mut process.threads[thread];
        own.asleep_until = now + LAUNCH_NS;
        let card = process.cards[usize::from(slot)];
        let door = &mut process.doors[usize::from(slot)];
        door.in_flight += 1;
        door.in_flight_ns += kernel.guess_ns;
        *door.in_flight_by_stream.entry(kernel.stream).or_default() += 1;
        door.stirred = now;
        door.launched += 1;
        self.run_card(card);
        self.cards[card].push(client, kernel);
        self.run_card(card);
        self.later(LAUNCH_NS, Then::Thread(client, thread));
    }
}

/// What a run is judged by.
impl World {
    /// Card time of a tenant in a window, in nanoseconds.
    #[must_use]
    pub fn received_ns(&self, card: usize, tenant: u64, from: Nanos, to: Nanos) -> u64 {
        let (first, last) = ((from / BIN_NS) as usize, (to / BIN_NS) as usize);
        let of = |client: &ClientId| self.owners.get(client) == Some(&tenant);
        let logs = self.cards[card].log.iter().filter(|(client, _)| of(client));
        let bins = logs.flat_map(|(_, log)| log.iter().take(last).skip(first));
        bins.map(|ns| u64::from(*ns)).sum()
    }

    /// The same as a part of the window, in percent.
    #[must_use]
    pub fn percent(&self, card: usize, tenant: u64, from: Nanos, to: Nanos) -> f64 {
        100.0 * self.received_ns(card, tenant, from, to) as f64 / (to - from) as f64
    }

    /// The largest difference to `percent` over all windows of this length, moved in tenths of it.
    #[must_use]
    pub fn worst_error(
        &self,
        tenant: u64,
        percent: f64,
        window: Nanos,
        (from, to): (Nanos, Nanos),
    ) -> f64 {
        let mut worst = 0.0_f64;
        let mut at = from;
        while at + window <= to {
            worst = worst.max((self.percent(0, tenant, at, at + window) - percent).abs());
            at += window / 10;
        }
        worst
    }

    #[must_use]
    pub fn requests_ns(&self, client: ClientId) -> &[Nanos] {
        self.processes.get(&client).map_or(&[], |process| &process.requests_ns)
    }

    #[must_use]
    pub fn launched(&self, client: ClientId) -> u64 {
        let doors = self.processes.get(&client).map(|process| &process.doors);
        doors.into_iter().flatten().map(|door| door.launched).sum()
    }
}
