//! Faults of the machine in this process: which calls are to be asked about, what is hidden, which
//! contexts were struck.
//!
//! With no fault set, a call costs two loads of words that nobody writes ([`stirred`]). What is to
//! happen is the server's decision; here it happens. Questions go over a connection of their own, so
//! that faults work before `cuInit` too and never wait for memory requests.

use crate::context::{CONTEXTS, Context};
use crate::entry::log;
use crate::{engine::Engine, fault_page, process};
use shim_cuda_headers::{CUresult, DriverFn};
use simcuda_protocol::control::{Act, CardState, Control, Function, State, Strike, Told};
use simcuda_protocol::fault::When;
use simcuda_protocol::place::Place;
use simcuda_protocol::{Client, Start};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// A set of rows, one bit each.
#[derive(Debug)]
struct Rows([AtomicU64; DriverFn::COUNT.div_ceil(64)]);

impl Rows {
    const fn empty() -> Self {
        Self([const { AtomicU64::new(0) }; DriverFn::COUNT.div_ceil(64)])
    }

    fn has(&self, function: DriverFn) -> bool {
        let row = function as usize;
        self.0[row / 64].load(Ordering::Relaxed) & 1 << (row % 64) != 0
    }

    fn set(&self, rows: &[u16]) {
        for (index, word) in self.0.iter().enumerate() {
            let here = rows.iter().map(|row| usize::from(*row)).filter(|row| row / 64 == index);
            word.store(here.fold(0, |bits, row| bits | 1 << (row % 64)), Ordering::Relaxed);
        }
    }
}

static WATCHED: Rows = Rows::empty();
static HIDDEN: Rows = Rows::empty();
static NEWER: Rows = Rows::empty();
/// Version to report instead of the usual one, or 0.
static DRIVER_VERSION: AtomicU32 = AtomicU32::new(0);
/// The word that all here accords with, without the bit that makes every call ask.
static SEEN: AtomicU32 = AtomicU32::new(0);
static CARDS: Mutex<Vec<CardState>> = Mutex::new(Vec::new());
static LAST_STRIKE: AtomicU64 = AtomicU64::new(0);
/// The connection and the process that made it: a forked child must not speak on it.
static CLIENT: OnceLock<Option<(u32, Client)>> = OnceLock::new();
static CATCHING_UP: Mutex<()> = Mutex::new(());
/// Whether the memory that this thread maps next is refused half way.
static ANY_HALF: AtomicBool = AtomicBool::new(false);

thread_local! {
    static HALF: Cell<bool> = const { Cell::new(false) };
}

/// Whether anything has changed, or calls are to be asked about.
#[inline]
pub(crate) fn stirred() -> bool {
    fault_page::word().0 != SEEN.load(Ordering::Relaxed)
}

/// Does a call with what the machine has in store for it.
#[cold]
pub(crate) fn around(function: DriverFn, call: impl FnOnce() -> CUresult) -> CUresult {
    if process::is_forked_child() {
        return call();
    }
    catch_up();
    let act = if WATCHED.has(function) { ask_about(function) } else { Act::default() };
    pass(act.before_ns);
    let result = match (act.code, act.when) {
        (None, _) => call(),
        (Some(code), When::Before) => CUresult(code),
        (Some(code), When::After) => {
            let result = call();
            if result.is_ok() { CUresult(code) } else { result }
        }
        (Some(code), When::Half) => {
            HALF.set(true);
            ANY_HALF.store(true, Ordering::Relaxed);
            let result = call();
            // A call that had nothing to map is not refused half way.
            let refused = !HALF.replace(false);
            if refused { CUresult(code) } else { result }
        }
    };
    pass(act.after_ns);
    result
}

fn pass(ns: u64) {
    if ns > 0 {
        std::thread::sleep(Duration::from_nanos(ns));
    }
}

fn ask_about(function: DriverFn) -> Act {
    match tell(Control::Called(Function::Driver(function as u16))) {
        Some(Told::Act(act)) => act,
        _ => Act::default(),
    }
}

/// Whether what is mapped now is to be refused when half of it is there.
pub(crate) fn breaks_half_way() -> bool {
    ANY_HALF.load(Ordering::Relaxed) && HALF.replace(false)
}

/// Brings all here up to date with the server.
pub(crate) fn catch_up() {
    let _one = CATCHING_UP.lock().unwrap_or_else(PoisonError::into_inner);
    if client().is_none() {
        return;
    }
    let word = fault_page::word();
    let calm = word.0 & !simcuda_protocol::control::Word::CALLS;
    if SEEN.load(Ordering::Relaxed) == calm {
        return;
    }
    let Some(Told::State(state)) = tell(Control::State) else { return };
    apply(&state);
    SEEN.store(calm, Ordering::Relaxed);
}

fn apply(state: &State) {
    WATCHED.set(&state.watched);
    HIDDEN.set(&state.hidden);
    NEWER.set(&state.newer);
    DRIVER_VERSION.store(state.driver_version.unwrap_or(0), Ordering::Relaxed);
    CARDS.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&state.cards);
    for context in CONTEXTS.all() {
        dress(&context);
    }
    for strike in &state.strikes {
        if LAST_STRIKE.fetch_max(strike.number, Ordering::Relaxed) < strike.number {
            strike_contexts(strike);
        }
    }
}

fn strike_contexts(strike: &Strike) {
    for context in CONTEXTS.all() {
        if number_of(context.device) == Some(strike.device) {
            log(format_args!("a context is struck with code {}", strike.code));
            context.engine.fail(CUresult(strike.code));
        }
    }
}

fn number_of(device: i32) -> Option<u32> {
    process::card(device).ok().map(|card| card.number)
}

fn state_of(device: i32) -> Option<CardState> {
    let number = number_of(device)? as usize;
    CARDS.lock().unwrap_or_else(PoisonError::into_inner).get(number).copied()
}

/// Gives a context what its card's state means for it.
pub(crate) fn dress(context: &Context) {
    let stuck = state_of(context.device).is_some_and(|card| card.stuck);
    context.engine.set_stuck(stuck);
}

/// A card that fell off the bus takes no context any more.
pub(crate) fn check_card(device: i32) -> Result<(), CUresult> {
    match state_of(device) {
        Some(card) if card.lost => Err(CUresult::UNKNOWN),
        _ => Ok(()),
    }
}

pub(crate) fn is_hidden(function: DriverFn) -> bool {
    HIDDEN.has(function)
}

pub(crate) fn has_newer_form(function: DriverFn) -> bool {
    NEWER.has(function)
}

/// Version of the driver, if it is to be another than the usual one.
pub(crate) fn driver_version() -> Option<u32> {
    Some(DRIVER_VERSION.load(Ordering::Relaxed)).filter(|version| *version != 0)
}

/// Looked at where nobody calls: by an engine that waits.
pub(crate) fn look() {
    if stirred() && !process::is_forked_child() {
        catch_up();
    }
}

/// A command of the engine's context has failed for good: the machine reports it as an event.
pub(crate) fn failed(engine: &Engine, code: CUresult) {
    const PAGE_FAULT: u32 = 31;
    const GRAPHICS_EXCEPTION: u32 = 13;
    let xid = if code == CUresult::ILLEGAL_ADDRESS { PAGE_FAULT } else { GRAPHICS_EXCEPTION };
    let of_engine = |context: &Arc<Context>| std::ptr::eq(&raw const *context.engine, engine);
    let context = CONTEXTS.all().into_iter().find(of_engine);
    if let Some(device) = context.and_then(|context| number_of(context.device)) {
        let _ = tell(Control::Tell { device, xid });
    }
}

/// The connection, made when first needed; the page comes with it.
fn client() -> Option<&'static Client> {
    let made = CLIENT.get_or_init(|| {
        let place = Place::from_environment().ok()?;
        let client = Client::connect(&place, &Start::from_environment()).ok()?;
        begin(&client).ok()?;
        Some((std::process::id(), client))
    });
    let (owner, client) = made.as_ref()?;
    (*owner == std::process::id()).then_some(client)
}

fn tell(control: Control) -> Option<Told> {
    client()?.control(control).ok().map(|(told, _)| told)
}

/// Maps the page that comes over this connection, if there is none yet.
pub(crate) fn begin(client: &Client) -> std::io::Result<()> {
    if fault_page::is_mapped() {
        return Ok(());
    }
    let (told, file) = client.control(Control::Page)?;
    let (Told::Page { last_strike }, Some(file)) = (told, file) else {
        return Err(std::io::Error::other("no page of faults"));
    };
    LAST_STRIKE.fetch_max(last_strike, Ordering::Relaxed);
    fault_page::map(&file).map_err(Into::into)
}
