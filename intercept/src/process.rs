//! What this process knows once it has joined: its cards, its pages, its books; and the one way to
//! get memory charged.
//!
//! A charge, in the order things happen:
//!
//! ```text
//!   charge(gpu, units)
//!     ledger::reserve          one compare-and-swap below the allowance   <- nearly always all
//!     grow_slow                cold: asks the broker, sleeps until our thread has the answer
//!       Grant                  our thread raises the allowance and takes the units for the asker
//!       Deny                   one last try (another thread may have released), then out of memory
//! ```

use std::{
    os::fd::AsRawFd,
    sync::{
        Condvar, Mutex, MutexGuard, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence},
    },
    time::{Duration, Instant},
};

use halfwarp_api::wire::{NoteKind, Refusal, ToBroker, ToClient};
use halfwarp_books::{Begin, Books, Slot};
use halfwarp_gate::ledger::{self, Ledger};
use halfwarp_label as label;
use shim_cuda_headers::{CUdevice, CUresult, CUuuid, DriverFn};

use crate::{
    attach::{self, Card, Identity, JOIN_TIMEOUT, Joined, Refused},
    gates::Gates,
    life,
    line::Line,
    mail::{Answer, Mail, Question},
    pages::Pages,
    real::{self, call},
    say,
    swap::Swap,
    sys,
    wait::{self, Bell},
};

/// How long a grow waits for a broker that is away.
const GROW_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a question waits whose answer only makes a figure better.
const FIGURES_TIMEOUT: Duration = Duration::from_secs(1);

/// Set when a join was refused: from then on nothing that could make a context or get memory works.
static REFUSED: AtomicBool = AtomicBool::new(false);
/// Joins that were refused, so that whoever waits for another thread's sees its end.
static REFUSALS: AtomicU32 = AtomicU32::new(0);

/// What this process knows since it joined.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) identity: Identity,
    pub(crate) mail: Mail,
    /// A re-join puts the new connection in its place.
    pub(crate) line: Line,
    /// Read for the length of one compare-and-swap; written by a re-join.
    pages: RwLock<Pages>,
    cards: Vec<Card>,
    /// By CUDA's device ordinal.
    by_ordinal: Vec<Slot>,
    pub(crate) gates: Gates,
    pub(crate) swap: Swap,
    /// Memory on some card is made so that it can be moved.
    pub(crate) movable: bool,
    books: Mutex<Books>,
    /// Whether there has been a stream-ordered pool.
    pools: AtomicBool,
    /// Whether there has been a graph with memory nodes.
    graph_memory: AtomicBool,
    /// Something has come of a charge for a context.
    overhead_decided: Condvar,
}

/// Joins if the process has not: called once the driver has accepted `cuInit`. Of threads that come
/// together one joins and the others wait for what comes of it.
pub(crate) fn join_now(identity: &Identity) -> Result<(), CUresult> {
    let _whole = sys::Uncancelled::begin();
    let until = Instant::now() + 2 * JOIN_TIMEOUT;
    let refusals = REFUSALS.load(Ordering::Acquire);
    while life::joined().is_none() {
        if REFUSALS.load(Ordering::Acquire) != refusals || Instant::now() > until {
            return Err(CUresult::SYSTEM_NOT_READY);
        }
        if life::begin_join() {
            let joined = if life::joined().is_some() { Ok(()) } else { try_join(identity) };
            REFUSED.store(joined.is_err(), Ordering::Relaxed);
            REFUSALS.fetch_add(joined.is_err().into(), Ordering::Release);
            life::end_join();
            return joined.map_err(|(why, detail)| {
                say::refused(why, &detail);
                CUresult::SYSTEM_NOT_READY
            });
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// What a hook answers in a process that has not joined: an error once a join was refused, else
/// `None`, which means the driver is to answer (before `cuInit`, and in a forked child, it says no).
pub(crate) fn refusal() -> Option<CUresult> {
    REFUSED.load(Ordering::Relaxed).then_some(CUresult::SYSTEM_NOT_READY)
}

/// From now on nothing that could make a context or get memory works.
pub(crate) fn refuse() {
    REFUSED.store(true, Ordering::Relaxed);
}

fn try_join(identity: &Identity) -> Result<(), Refused> {
    let Joined { socket, pages, cards } = attach::join(identity, JOIN_TIMEOUT)?;
    let by_ordinal = visible_cards(&cards)?;
    let line = Line::new(socket).map_err(|e| (Refusal::NoBroker, e.to_string()))?;
    let bell = Bell::new().map_err(|e| (Refusal::NoBroker, format!("no pipe: {e}")))?;
    let movable = cards.iter().any(|card| card.swap);
    let process = Box::new(Process {
        identity: identity.clone(),
        mail: Mail::default(),
        line,
        pages: RwLock::new(pages),
        cards,
        by_ordinal,
        gates: Gates::new(bell),
        swap: Swap::default(),
        movable,
        books: Mutex::new(Books::default()),
        pools: AtomicBool::new(false),
        graph_memory: AtomicBool::new(false),
        overhead_decided: Condvar::new(),
    });
    for card in process.cards.iter().filter(|card| card.swap) {
        process.swap.set_on(Slot(card.slot));
    }
    // Kept for ever: our thread and all others refer to it.
    let process: &'static Process = Box::leak(process);
    if let Err(error) = attach::listen(process) {
        process.line.close();
        return Err((Refusal::NoBroker, format!("no thread: {error}")));
    }
    life::set_joined(process);
    wait::at_exit(end);
    label::join_published();
    Ok(())
}

/// The program ends by `exit`: nobody waits at a gate any more, and our thread leaves the driver alone
/// before the driver's own end. In a forked child that has not joined there is nothing to end.
extern "C" fn end() {
    let Some(process) = life::joined() else { return };
    wait::set_ending();
    wake_all_waiters(&process.pages());
    let until = Instant::now() + Duration::from_millis(100);
    while process.gates.is_attending() && Instant::now() < until {
        std::thread::sleep(Duration::from_micros(50));
    }
}

/// Threads that sleep at any of these gates look again.
fn wake_all_waiters(pages: &Pages) {
    for gpu in &pages.broker.gpus {
        wait::wake_all(&gpu.lease_gate);
        wait::wake_all(&gpu.residency_gate);
    }
}

/// The slot of every device that this process sees; one without a slot refuses the process.
fn visible_cards(cards: &[Card]) -> Result<Vec<Slot>, Refused> {
    let mut count = 0;
    // SAFETY: a writable count.
    let code = unsafe { call::cuDeviceGetCount(&raw mut count) };
    if !code.is_ok() {
        return Err((Refusal::Cards, format!("cuDeviceGetCount answers {}", code.0)));
    }
    (0..count)
        .map(|ordinal| {
            let mut uuid = CUuuid::default();
            let code = if real::has(DriverFn::cuDeviceGetUuid_v2) {
                // SAFETY: a writable UUID.
                unsafe { call::cuDeviceGetUuid_v2(&raw mut uuid, ordinal) }
            } else {
                // SAFETY: as above.
                unsafe { call::cuDeviceGetUuid(&raw mut uuid, ordinal) }
            };
            cards
                .iter()
                .find(|card| code.is_ok() && card.uuid == uuid.bytes)
                .map(|card| Slot(card.slot))
                .ok_or_else(|| (Refusal::Cards, format!("device {ordinal} is not the tenant's")))
        })
        .collect()
}

impl Process {
    /// The books, locked. Never held across a call of the driver or a question to the broker.
    pub(crate) fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The slot of a CUDA device ordinal.
    pub(crate) fn slot_of(&self, device: CUdevice) -> Option<Slot> {
        self.by_ordinal.get(usize::try_from(device).ok()?).copied()
    }

    /// The CUDA device ordinal of a slot.
    pub(crate) fn device_of(&self, slot: Slot) -> Option<CUdevice> {
        let at = self.by_ordinal.iter().position(|known| *known == slot)?;
        CUdevice::try_from(at).ok()
    }

    /// How many devices this process sees.
    pub(crate) fn device_count(&self) -> CUdevice {
        CUdevice::try_from(self.by_ordinal.len()).unwrap_or(CUdevice::MAX)
    }

    /// A stream-ordered pool is in the books.
    pub(crate) fn note_pool(&self) {
        self.pools.store(true, Ordering::Release);
    }

    /// A graph with memory nodes is in the books.
    pub(crate) fn note_graph_memory(&self) {
        self.graph_memory.store(true, Ordering::Release);
    }

    /// Whether graphs with memory nodes are in the books.
    pub(crate) fn has_graph_memory(&self) -> bool {
        self.graph_memory.load(Ordering::Acquire)
    }

    /// Whether pools are in the books, so that their reserves are worth a look.
    pub(crate) fn has_pools(&self) -> bool {
        self.pools.load(Ordering::Acquire)
    }

    /// The cards that this process sees.
    pub(crate) fn slots(&self) -> &[Slot] {
        &self.by_ordinal
    }

    /// Estimate of a context's cost on a card, in units.
    pub(crate) fn context_units(&self, slot: Slot) -> u32 {
        self.cards.iter().find(|c| c.slot == slot.0).map_or(0, |c| c.context_units)
    }

    pub(crate) fn pages(&self) -> Pages {
        *self.pages.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Applies `change` to a card's ledger word, with no re-join in between.
    pub(crate) fn with_word<R>(
        &self,
        slot: Slot,
        change: impl FnOnce(&AtomicU64) -> R,
    ) -> Option<R> {
        let pages = self.pages.read().unwrap_or_else(PoisonError::into_inner);
        pages.client.ledger.get(usize::from(slot.0)).map(|line| change(&line.word))
    }

    /// The tenant's limit on a card now, in units.
    pub(crate) fn limit_units(&self, slot: Slot) -> u32 {
        let gpu = self.pages().broker.gpus.get(usize::from(slot.0));
        gpu.map_or(0, |g| g.limit_units.load(Ordering::Relaxed))
    }

    /// Charges `units` on a card.
    ///
    /// # Errors
    /// `CUDA_ERROR_OUT_OF_MEMORY`; nothing is charged then.
    pub(crate) fn charge(&self, slot: Slot, units: u32) -> Result<(), CUresult> {
        match self.with_word(slot, |word| ledger::reserve(word, units)) {
            Some(Ok(())) => Ok(()),
            Some(Err(_)) if self.is_refused_here(slot, units) => Err(CUresult::OUT_OF_MEMORY),
            Some(Err(_)) => self.grow_slow(slot, units),
            None => Err(CUresult::OUT_OF_MEMORY),
        }
    }

    /// Whether the broker need not be asked: this process alone would pass the limit, or the page says
    /// that there is not so much left.
    fn is_refused_here(&self, slot: Slot, units: u32) -> bool {
        let pages = self.pages.read().unwrap_or_else(PoisonError::into_inner);
        let at = usize::from(slot.0);
        let (Some(gpu), Some(line)) = (pages.broker.gpus.get(at), pages.client.ledger.get(at))
        else {
            return false;
        };
        let held = Ledger::of(line.word.load(Ordering::Relaxed)).held;
        let exhausted = gpu.exhausted.load(Ordering::Relaxed);
        held.saturating_add(units) > gpu.limit_units.load(Ordering::Relaxed)
            || exhausted > 0 && units >= exhausted
    }

    /// Charges if that needs nobody's leave.
    pub(crate) fn charge_at_once(&self, slot: Slot, units: u32) -> bool {
        self.with_word(slot, |word| ledger::reserve(word, units)) == Some(Ok(()))
    }

    /// Gives back what was charged.
    pub(crate) fn release(&self, slot: Slot, units: u32) {
        let at = usize::from(slot.0);
        let pages = self.pages.read().unwrap_or_else(PoisonError::into_inner);
        let Some(line) = pages.client.ledger.get(at) else { return };
        ledger::release(&line.word, units);
        // PAIRS(exhausted): the broker says that nothing is left and then reads the word just written.
        fence(Ordering::SeqCst);
        let gpu = pages.broker.gpus.get(at);
        if gpu.is_some_and(|gpu| gpu.exhausted.load(Ordering::Relaxed) > 0) {
            let units = ledger::give_back(&line.word);
            drop(pages);
            self.give_back_slow(slot, units);
        }
    }

    /// Others of the tenant may be waiting for what was released: it is theirs when this returns.
    #[cold]
    #[inline(never)]
    fn give_back_slow(&self, slot: Slot, units: u32) {
        if units > 0 {
            let frame = |seq| ToBroker::GiveBack { seq, gpu: slot.0, units };
            // Without an answer the broker is gone, and the next one begins with what is held.
            let _ = self.ask(Question::GiveBack, FIGURES_TIMEOUT, frame);
        }
    }

    #[cold]
    #[inline(never)]
    fn grow_slow(&self, slot: Slot, units: u32) -> Result<(), CUresult> {
        let _whole = sys::Uncancelled::begin();
        let until = Instant::now() + GROW_TIMEOUT;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let answer = self.ask(Question::Grow { wanted: units }, left, |seq| ToBroker::Grow {
                seq,
                gpu: slot.0,
                wanted: units,
            });
            match answer {
                Some(Answer::Reserved) => return Ok(()),
                Some(Answer::Lost) if !left.is_zero() => {
                    std::thread::sleep(Duration::from_millis(50))
                }
                _ => break,
            }
        }
        // Another thread may have released meanwhile; its units are this process's own slack.
        match self.with_word(slot, |word| ledger::reserve(word, units)) {
            Some(Ok(())) => Ok(()),
            _ => Err(CUresult::OUT_OF_MEMORY),
        }
    }

    /// Sends a question and waits for its answer.
    fn ask(
        &self,
        question: Question,
        limit: Duration,
        frame: impl FnOnce(u32) -> ToBroker,
    ) -> Option<Answer> {
        let _whole = sys::Uncancelled::begin();
        let seq = self.mail.announce(question);
        if self.line.send(&frame(seq).encode()).is_err() {
            // Our thread is re-joining, or about to.
            self.mail.deliver(seq, |_| Answer::Lost);
        }
        label::grow_asked();
        self.mail.wait(seq, limit)
    }

    /// The tenant's limit and what all its processes hold on a card, in units. Without a broker:
    /// the last limit and what this process holds.
    pub(crate) fn figures(&self, slot: Slot) -> (u32, u32) {
        let answer =
            self.ask(Question::Ask, FIGURES_TIMEOUT, |seq| ToBroker::Ask { seq, gpu: slot.0 });
        if let Some(Answer::Figures { limit, held }) = answer {
            return (limit, held);
        }
        let own = self.with_word(slot, |word| Ledger::of(word.load(Ordering::Relaxed)));
        (self.limit_units(slot), own.unwrap_or_default().held)
    }

    /// Charges what contexts cost on a card if this process has paid for none there yet. The number
    /// of the charge, if it was made now. Of threads that come together one asks and the others
    /// wait for what comes of it: none has a context that was not paid for.
    pub(crate) fn charge_overhead(&self, slot: Slot, makes: bool) -> Result<Option<u64>, CUresult> {
        let units = self.context_units(slot);
        // Every allocation passes here: the clock is read only by those who wait.
        let mut until = None;
        let mut books = self.books();
        let serial = loop {
            match books.begin_overhead(slot, units, makes) {
                Begin::Charge(serial) => break serial,
                Begin::Paid => return Ok(None),
                Begin::Wait => {
                    let now = Instant::now();
                    let until = *until.get_or_insert(now + 2 * GROW_TIMEOUT);
                    let left = until.saturating_duration_since(now);
                    if left.is_zero() {
                        return Err(CUresult::OUT_OF_MEMORY);
                    }
                    let waited = self.overhead_decided.wait_timeout(books, left);
                    books = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
            }
        };
        drop(books);
        let charged = self.charge(slot, units);
        self.books().overhead_charged(slot, charged.is_ok());
        self.overhead_decided.notify_all();
        charged.map(|()| Some(serial))
    }

    /// Reports the first context on a card; its charge becomes what it really costs.
    pub(crate) fn settle_context(&self, slot: Slot, serial: u64) {
        let charged = self.context_units(slot);
        let question = Question::ContextMade { charged, serial };
        // Without an answer in time the charge stays.
        let _ = self.ask(question, FIGURES_TIMEOUT, |seq| ToBroker::ContextMade {
            seq,
            gpu: slot.0,
            charged,
        });
    }

    /// The broker measured a context: word and books change together, so that whoever ends it gives
    /// back what it was charged. If it has ended already, only what the broker added is left.
    fn correct_overhead(&self, slot: Slot, serial: u64, charged: u32, units: u32) {
        let mut books = self.books();
        if books.overhead_is(slot, serial, units) {
            self.with_word(slot, |word| ledger::correct(word, charged, units));
        } else {
            self.with_word(slot, |word| ledger::admit(word, units.saturating_sub(charged), 0));
        }
    }

    /// Tells the broker something that needs no answer.
    pub(crate) fn note(&self, kind: NoteKind, slot: Slot, a: u64, b: u64) {
        let _whole = sys::Uncancelled::begin();
        // A note that can't be sent at once is lost: it is news, not accounting, and a broker that
        // does not read must not hold the program up.
        let _ = self.line.send_now(&ToBroker::Note { kind, gpu: slot.0, a, b }.encode());
    }

    /// Our thread received a frame.
    pub(crate) fn hear(&self, frame: ToClient) {
        match frame {
            ToClient::Grant { seq, gpu, units } => {
                self.mail.deliver(seq, |asked| self.apply_grant(Slot(gpu), units, asked));
            }
            ToClient::Deny { seq, why, .. } => self.mail.deliver(seq, |_| Answer::Denied(why)),
            ToClient::Recall { seq, gpu } => {
                let units = self.with_word(Slot(gpu), ledger::give_back).unwrap_or(0);
                label::recall_given();
                // If it can't be sent the broker is gone, and with it what it was asked for.
                let _ = self.line.send(&ToBroker::Return { seq, gpu, units }.encode());
                label::recall_returned();
            }
            ToClient::Figures { seq, limit, held, .. } => {
                self.mail.deliver(seq, |_| Answer::Figures { limit, held });
            }
            ToClient::Overhead { seq, gpu, units } => self.mail.deliver(seq, |asked| {
                if let Some(Question::ContextMade { charged, serial }) = asked {
                    self.correct_overhead(Slot(gpu), serial, charged, units);
                }
                Answer::Overhead(units)
            }),
            // Only a look has these.
            ToClient::Slice { .. } | ToClient::Member { .. } | ToClient::Seen => {}
            ToClient::Taken { seq, .. } => self.mail.deliver(seq, |_| Answer::Taken),
            // Our thread's own business (`attendant`).
            ToClient::Drain { .. }
            | ToClient::Chunk { .. }
            | ToClient::DropChunk { .. }
            | ToClient::SwapOut { .. }
            | ToClient::SwapIn { .. } => {}
            // Only a greeting has these.
            ToClient::Welcome { .. } | ToClient::Gpu { .. } | ToClient::Refused { .. } => {}
        }
    }

    fn apply_grant(&self, slot: Slot, units: u32, asked: Option<Question>) -> Answer {
        let (granted, wanted) = match asked {
            Some(Question::Grow { wanted }) => (units, wanted),
            Some(Question::Recount { held }) => (units.saturating_sub(held), 0),
            // Nobody waits any more: the grant stays as slack, to be recalled when it is missed.
            _ => (units, 0),
        };
        let admitted = self.with_word(slot, |word| ledger::admit(word, granted, wanted));
        label::grant_applied();
        match admitted {
            Some(true) => Answer::Reserved,
            _ => Answer::Lost,
        }
    }

    /// A new broker welcomed us: what is held moves to the new pages, slack is dropped, and each
    /// card's holding is counted anew.
    pub(crate) fn adopt(&self, joined: Joined) {
        let mut pages = self.pages.write().unwrap_or_else(PoisonError::into_inner);
        let mut held = Vec::new();
        for (slot, (old, new)) in
            pages.client.ledger.iter().zip(&joined.pages.client.ledger).enumerate()
        {
            let units = Ledger::of(old.word.load(Ordering::Relaxed)).held;
            let word = Ledger { held: units, allowed: units }.word();
            new.word.store(word, Ordering::Relaxed);
            if let (Ok(slot), 1..) = (u8::try_from(slot), units) {
                held.push((Slot(slot), units));
            }
        }
        let former = std::mem::replace(&mut *pages, joined.pages);
        drop(pages);
        self.gates.forget_what_was_said();
        life::begin_epoch();
        wake_all_waiters(&former);
        label::rejoin_adopted();
        // Before anybody else can speak on the new connection: the broker takes the first grow of a
        // process that has come back for what it holds.
        for (slot, units) in held {
            let seq = self.mail.announce(Question::Recount { held: units });
            let grow = ToBroker::Grow { seq, gpu: slot.0, wanted: units };
            // If this one is gone too, the next re-join counts again.
            let _ = sys::send(joined.socket.as_raw_fd(), &grow.encode());
        }
        // If it has been closed under us already, our thread finds that and joins once more.
        let _ = self.line.replace(joined.socket);
        label::rejoin_counted();
    }
}
