//! The loop around the core: turns what happens into events, and actions into system calls. One
//! thread; the mutex is never held across an await, so nobody ever waits for it.

use std::{
    collections::{BTreeMap, VecDeque},
    os::fd::OwnedFd,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use halfwarp_api::wire::{Refusal, ToClient};
use halfwarp_broker_core::{
    Action, Admitted, ClientId, Event, Happening, Kind, PageRef, PageWord, Rejection, State,
    WelcomeGpu,
};
use halfwarp_rest as rest;
use rustix::{
    net::{Shutdown, shutdown},
    process::{Signal, pidfd_send_signal},
};
use tokio::{sync::Notify, task::AbortHandle};

use crate::{
    chunks::{self, Work},
    clock, outbox,
    shm::Pages,
    store::Store,
    strays,
};

mod host;
mod page;

/// Events that are kept for those who ask.
const EVENTS: usize = 4096;

/// What an event was answered with, where somebody waits for that.
#[derive(Debug)]
pub(crate) enum Answer {
    Admitted(Admitted),
    Rejected(Rejection),
    Ended,
    Changed,
    Begun,
}

/// A connection, and after its welcome the pages of its process.
#[derive(Debug)]
struct Client {
    socket: Arc<OwnedFd>,
    pages: Option<Pages>,
    pidfd: Option<Arc<OwnedFd>>,
    /// The task that reads it and waits for the process's end.
    task: Option<AbortHandle>,
    /// Host memory that it has for its copies.
    chunks: chunks::Chunks,
}

impl Drop for Client {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

#[derive(Debug)]
struct Inner {
    state: State,
    clients: BTreeMap<ClientId, Client>,
    next_client: u64,
    generation: u64,
    events: VecDeque<rest::Event>,
    next_event: u64,
    event_counts: BTreeMap<Kind, u64>,
    store: Store,
    unsaved: bool,
    chunk_work: chunks::Queue,
}

#[derive(Debug)]
pub(crate) struct Desk {
    inner: Mutex<Inner>,
    /// The next deadline may have changed.
    pub(crate) deadline: Notify,
    /// A look at the cards is wanted.
    pub(crate) sample: Notify,
    /// There is something to save.
    pub(crate) save: Notify,
    /// Host memory is to be made or freed.
    pub(crate) chunk_work: Notify,
    pub(crate) stop: Notify,
}

impl Desk {
    pub(crate) fn new(state: State, store: Store, generation: u64) -> Arc<Self> {
        let inner = Inner {
            state,
            clients: BTreeMap::new(),
            next_client: 1,
            generation,
            events: VecDeque::new(),
            next_event: 1,
            event_counts: BTreeMap::new(),
            store,
            unsaved: false,
            chunk_work: chunks::Queue::new(),
        };
        Arc::new(Self {
            inner: Mutex::new(inner),
            deadline: Notify::new(),
            sample: Notify::new(),
            save: Notify::new(),
            chunk_work: Notify::new(),
            stop: Notify::new(),
        })
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One event and all that follows from it. The answer is the one to `Admit` or `End`.
    pub(crate) fn step(&self, event: Event) -> Option<Answer> {
        let mut inner = self.inner();
        let answer = inner.step(self, event);
        if answer.is_some() {
            // Whoever is told of a tenant can rely on it, whatever happens to the broker.
            inner.save();
        } else if inner.unsaved {
            self.save.notify_one();
        }
        drop(inner);
        self.deadline.notify_one();
        answer
    }

    /// The end of a process, with the last words of its page.
    pub(crate) fn died(&self, client: ClientId) {
        halfwarp_label::death_seen();
        let words = {
            let mut inner = self.inner();
            inner.free_chunks(client);
            inner.read(&inner.state.pages_of_client(client))
        };
        self.chunk_work.notify_one();
        self.step(Event::Pages { number: 0, words });
        self.step(Event::Died { client });
        self.inner().clients.remove(&client);
    }

    /// A new connection and its number.
    pub(crate) fn connected(&self, socket: Arc<OwnedFd>) -> ClientId {
        let mut inner = self.inner();
        let client = ClientId(inner.next_client);
        inner.next_client += 1;
        let new = Client { socket, pages: None, pidfd: None, task: None, chunks: BTreeMap::new() };
        inner.clients.insert(client, new);
        client
    }

    pub(crate) fn set_task(&self, client: ClientId, task: AbortHandle) {
        if let Some(client) = self.inner().clients.get_mut(&client) {
            client.task = Some(task);
        }
    }

    /// The process behind a connection.
    pub(crate) fn set_process(&self, client: ClientId, pidfd: Arc<OwnedFd>) {
        if let Some(client) = self.inner().clients.get_mut(&client) {
            client.pidfd = Some(pidfd);
        }
    }

    /// Ends a connection; its process may live on.
    pub(crate) fn hang_up(&self, client: ClientId) {
        self.inner().close(client);
    }

    /// A connection that never joined is over.
    pub(crate) fn dropped(&self, client: ClientId) {
        self.inner().clients.remove(&client);
    }

    pub(crate) fn has_joined(&self, client: ClientId) -> bool {
        self.inner().clients.get(&client).is_some_and(|c| c.pages.is_some())
    }

    /// Reads all pages, so that what is shown next is fresh; then shows.
    pub(crate) fn show<T>(&self, view: impl FnOnce(&State) -> T) -> T {
        let words = {
            let inner = self.inner();
            inner.read(&inner.state.pages())
        };
        self.step(Event::Pages { number: 0, words });
        view(&self.inner().state)
    }

    /// Shows what needs no fresh page.
    pub(crate) fn look<T>(&self, view: impl FnOnce(&State) -> T) -> T {
        view(&self.inner().state)
    }

    pub(crate) fn next_deadline(&self) -> halfwarp_broker_core::Nanos {
        self.inner().state.next_deadline()
    }

    pub(crate) fn say_alive(&self) {
        let now = clock::now();
        for pages in self.inner().clients.values().filter_map(|c| c.pages.as_ref()) {
            pages.say_alive(now);
        }
    }

    pub(crate) fn save_now(&self) {
        self.inner().save();
    }

    pub(crate) fn events_after(&self, number: u64) -> Vec<rest::Event> {
        self.inner().events.iter().filter(|event| event.number > number).cloned().collect()
    }

    pub(crate) fn event_counts(&self) -> BTreeMap<Kind, u64> {
        self.inner().event_counts.clone()
    }

    pub(crate) fn connections(&self) -> usize {
        self.inner().clients.len()
    }

    pub(crate) fn tell(&self, kind: Kind, text: String) {
        let told = Happening { kind, tenant: None, pid: None, gpu: None, bytes: None, text };
        self.inner().tell(&told);
    }
}

impl Inner {
    fn step(&mut self, desk: &Desk, event: Event) -> Option<Answer> {
        let mut answer = None;
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            let mut actions = Vec::new();
            self.state.step(clock::now(), event, &mut actions);
            for action in actions {
                match action {
                    Action::Admitted(admitted) => {
                        halfwarp_label::tenant_admitted();
                        answer = Some(Answer::Admitted(admitted));
                    }
                    Action::Rejected(rejection) => answer = Some(Answer::Rejected(rejection)),
                    Action::Ended => answer = Some(Answer::Ended),
                    Action::Changed => answer = Some(Answer::Changed),
                    Action::Begun => answer = Some(Answer::Begun),
                    Action::Welcome { client, tenant, gpus } => {
                        if let Err(error) = self.welcome(client, tenant, &gpus) {
                            tracing::warn!(%error, "a process could not be welcomed");
                            self.refuse(client, Refusal::Full);
                            events.push_back(Event::Died { client });
                        }
                    }
                    Action::Refuse { client, why } => self.refuse(client, why),
                    Action::Send { client, frame } => self.send(client, frame),
                    Action::Close { client } => self.close(client),
                    Action::Forget { client } => _ = self.clients.remove(&client),
                    Action::MakeChunk { at, chunk, bytes } => {
                        self.chunk_work.push_back(Work::Make { at, chunk, bytes });
                        desk.chunk_work.notify_one();
                    }
                    Action::FreeChunk { client, chunk } => {
                        self.free_chunk(client, chunk);
                        desk.chunk_work.notify_one();
                    }
                    page @ (Action::Headcount { .. }
                    | Action::Gate { .. }
                    | Action::Residency { .. }
                    | Action::Limit { .. }
                    | Action::Exhausted { .. }) => self.write_page(&page),
                    Action::EndStray { process } => strays::end(process),
                    Action::Signal { client, kill } => self.signal(client, kill),
                    Action::ReadPages { number, pages } => {
                        let words = self.read(&pages);
                        events.push_back(Event::Pages { number, words });
                    }
                    Action::Sample => desk.sample.notify_one(),
                    Action::Save => self.unsaved = true,
                    Action::Tell(told) => self.tell(&told),
                    Action::Stop => desk.stop.notify_one(),
                }
            }
        }
        answer
    }

    fn pages(&self, client: ClientId) -> Option<&Pages> {
        self.clients.get(&client)?.pages.as_ref()
    }

    fn read(&self, pages: &[PageRef]) -> Vec<PageWord> {
        let word =
            |at: &PageRef| Some(PageWord { at: *at, word: self.pages(at.client)?.word(at.slot)? });
        pages.iter().filter_map(word).collect()
    }

    fn welcome(
        &mut self,
        client: ClientId,
        tenant: u64,
        gpus: &[WelcomeGpu],
    ) -> std::io::Result<()> {
        let (pages, descriptors) = Pages::new(self.generation, clock::now(), gpus)?;
        halfwarp_label::pages_made();
        let Some(client) = self.clients.get_mut(&client) else {
            return Err(std::io::ErrorKind::NotConnected.into());
        };
        // The next broker grants nothing before it has heard of everybody that this one knew: so the
        // process is known before it can hold anything.
        self.store.save(&self.state.saved());
        outbox::welcome(&client.socket, tenant, self.generation, gpus, &descriptors)?;
        client.pages = Some(pages);
        Ok(())
    }

    fn refuse(&mut self, client: ClientId, why: Refusal) {
        if let Some(client) = self.clients.get(&client) {
            outbox::refused(&client.socket, why);
        }
        self.close(client);
    }

    fn send(&mut self, client: ClientId, frame: ToClient) {
        let Some(to) = self.clients.get(&client) else { return };
        if let Err(error) = outbox::frame(&to.socket, frame) {
            tracing::debug!(client = client.0, %error, "a client does not take its frames");
            self.close(client);
        }
    }

    /// Tells a process to end, or ends it.
    fn signal(&self, client: ClientId, kill: bool) {
        let pidfd = self.clients.get(&client).and_then(|client| client.pidfd.as_ref());
        let Some(pidfd) = pidfd else { return };
        let signal = if kill { Signal::KILL } else { Signal::TERM };
        if let Err(error) = pidfd_send_signal(pidfd, signal) {
            // It has ended already, or is another user's where this broker may not end it.
            tracing::warn!(client = client.0, %error, "a process could not be ended");
        }
    }

    /// Ends a connection. Its reader notices and says so.
    fn close(&mut self, client: ClientId) {
        if let Some(client) = self.clients.get(&client) {
            let _ = shutdown(&*client.socket, Shutdown::Both);
        }
    }

    fn save(&mut self) {
        if std::mem::take(&mut self.unsaved) {
            self.store.save(&self.state.saved());
        }
    }

    fn tell(&mut self, told: &Happening) {
        if told.kind == Kind::TenantEnded {
            halfwarp_label::tenant_removed();
        }
        tracing::info!(
            kind = told.kind.as_str(),
            tenant = told.tenant,
            pid = told.pid,
            bytes = told.bytes,
            "{}",
            told.text
        );
        *self.event_counts.entry(told.kind).or_default() += 1;
        if self.events.len() == EVENTS {
            self.events.pop_front();
        }
        self.events.push_back(rest::Event {
            number: self.next_event,
            at: clock::wall_s(),
            kind: told.kind.as_str().to_owned(),
            tenant: told.tenant,
            pid: told.pid,
            gpu: told.gpu.map(|uuid| uuid.to_string()),
            bytes: told.bytes.map(rest::Bytes),
            text: told.text.clone(),
        });
        self.next_event += 1;
    }
}
