//! What every call passes: has the library been initialised; and the connection to the machine.

use crate::{faults, raw};
use shim_cuda_headers::NvmlFn;
use simcuda_protocol::place::Place;
use simcuda_protocol::{Client, Device, Refusal, Reply, Request, Start, Usage};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The library; its functions are in the subject files.
#[derive(Debug)]
pub(crate) struct Nvml;

/// A code of NVML.
pub(crate) type Return = u32;
pub(crate) type Done = Result<(), Return>;

pub(crate) const SUCCESS: Return = 0;
pub(crate) const UNINITIALIZED: Return = 1;
pub(crate) const INVALID_ARGUMENT: Return = 2;
pub(crate) const NOT_SUPPORTED: Return = 3;
pub(crate) const NOT_FOUND: Return = 6;
pub(crate) const INSUFFICIENT_SIZE: Return = 7;
pub(crate) const DRIVER_NOT_LOADED: Return = 9;
pub(crate) const TIMEOUT: Return = 10;
pub(crate) const GPU_IS_LOST: Return = 15;
pub(crate) const ARGUMENT_VERSION_MISMATCH: Return = 25;
pub(crate) const UNKNOWN: Return = 999;

/// Parameters of a call, in order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Args(pub(crate) [usize; 6]);

impl Args {
    /// An integer; what else is in its register means nothing.
    pub(crate) fn number(self, index: usize) -> u32 {
        self.0[index] as u32
    }

    pub(crate) fn pointer<T>(self, index: usize) -> *mut T {
        std::ptr::with_exposed_provenance_mut(self.0[index])
    }

    /// The card that the first parameter stands for.
    pub(crate) fn card(self) -> Result<Card, Return> {
        card_of(self.0[0])
    }

    /// Answers one question by writing one value.
    pub(crate) fn answer<T>(self, index: usize, value: T) -> Done {
        raw::put(self.pointer(index), value)
    }
}

/// A card of the machine.
#[derive(Clone, Debug)]
pub(crate) struct Card {
    pub(crate) index: u32,
    client: Arc<Client>,
}

/// Handles of cards are this and the card's number; programs only hand them back.
const HANDLE: usize = 0x4E56_0000;

impl Card {
    pub(crate) fn device(&self) -> &Device {
        &self.client.devices()[self.index as usize]
    }

    pub(crate) fn client(&self) -> &Arc<Client> {
        &self.client
    }

    pub(crate) fn handle(&self) -> usize {
        HANDLE + self.index as usize
    }

    pub(crate) fn usage(&self) -> Result<Usage, Return> {
        match self.client.ask(&Request::Usage { device: self.index }) {
            Ok((Reply::Usage(usage), _)) => Ok(usage),
            Ok((Reply::Refused(Refusal::NoSuchDevice), _)) => Err(INVALID_ARGUMENT),
            _ => Err(UNKNOWN),
        }
    }
}

/// The connection, and how often the program initialised without shutting down.
#[derive(Debug)]
struct State {
    client: Option<Arc<Client>>,
    users: u32,
    process: u32,
}

static STATE: Mutex<State> = Mutex::new(State { client: None, users: 0, process: 0 });

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn connect() -> Result<Client, Return> {
    let connected = Place::from_environment()
        .map_err(Into::into)
        .and_then(|place| Client::connect(&place, &Start::from_environment()));
    connected.map_err(|_| DRIVER_NOT_LOADED)
}

/// One more user; the first connects.
pub(crate) fn initialise() -> Done {
    let mut state = state();
    let me = std::process::id();
    // A forked child makes a connection of its own: the machine knows processes by theirs.
    if state.client.is_none() || state.process != me {
        state.client = Some(Arc::new(connect()?));
        state.process = me;
    }
    state.users += 1;
    Ok(())
}

/// One user less; the last closes the connection.
pub(crate) fn shut_down() -> Done {
    let mut state = state();
    state.users = state.users.checked_sub(1).ok_or(UNINITIALIZED)?;
    if state.users == 0 {
        state.client = None;
        faults::forget();
    }
    Ok(())
}

pub(crate) fn client() -> Result<Arc<Client>, Return> {
    let mut state = state();
    if state.users == 0 {
        return Err(UNINITIALIZED);
    }
    let me = std::process::id();
    if state.process != me {
        state.client = Some(Arc::new(connect()?));
        state.process = me;
    }
    state.client.clone().ok_or(UNINITIALIZED)
}

/// All cards of the machine: NVML knows nothing of `CUDA_VISIBLE_DEVICES`.
pub(crate) fn cards() -> Result<Vec<Card>, Return> {
    let client = client()?;
    let count = u32::try_from(client.devices().len()).unwrap_or(0);
    Ok((0..count).map(|index| Card { index, client: Arc::clone(&client) }).collect())
}

pub(crate) fn card_of(handle: usize) -> Result<Card, Return> {
    let index = handle.checked_sub(HANDLE).ok_or(INVALID_ARGUMENT)?;
    let card = cards()?.into_iter().nth(index).ok_or(INVALID_ARGUMENT)?;
    faults::check(&card)?;
    Ok(card)
}

/// Runs one call.
pub(crate) fn enter(function: NvmlFn, body: impl FnOnce() -> Done) -> Return {
    let early = [
        NvmlFn::nvmlInit,
        NvmlFn::nvmlInit_v2,
        NvmlFn::nvmlInitWithFlags,
        NvmlFn::nvmlShutdown,
        NvmlFn::nvmlSystemGetDriverVersion,
    ];
    if !early.contains(&function)
        && let Err(code) = client()
    {
        return code;
    }
    // A defect of ours must not unwind into the program.
    match catch_unwind(AssertUnwindSafe(|| faults::around(function, body))) {
        Ok(Ok(())) => SUCCESS,
        Ok(Err(code)) => code,
        Err(_) => UNKNOWN,
    }
}
