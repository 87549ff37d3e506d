//! Events: errors of the driver (XIDs) and memory errors, as they happen on the machine.
//!
//! A set sees what happens to its cards after they were registered. Each set has a connection of its
//! own, because waiting would hold up all other questions.

use crate::entry::{
    Args, Card, Done, GPU_IS_LOST, INVALID_ARGUMENT, NOT_SUPPORTED, Nvml, Return, TIMEOUT, UNKNOWN,
    cards, connect,
};
use crate::faults;
use simcuda_protocol::Client;
use simcuda_protocol::control::{Control, Event, Happened, Told};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

const DOUBLE_BIT: u64 = 0x2;
const XID: u64 = 0x8;
const SUPPORTED: u64 = DOUBLE_BIT | XID;
/// Handles of sets are this and a number.
const SET: usize = 0x4E56_5300;
const NO_INSTANCE: u32 = u32::MAX;
/// One question does not wait longer than the server lets it.
const LOOK_MS: u32 = 50;

/// `nvmlEventData_t`.
#[repr(C)]
struct EventData {
    device: usize,
    kind: u64,
    data: u64,
    gpu_instance: u32,
    compute_instance: u32,
}

#[derive(Debug)]
struct Set {
    client: Client,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// What is wanted of each card, by its number.
    wanted: BTreeMap<u32, u64>,
    seen: u64,
    waiting: VecDeque<Event>,
}

static SETS: Mutex<BTreeMap<usize, Arc<Set>>> = Mutex::new(BTreeMap::new());

fn sets() -> MutexGuard<'static, BTreeMap<usize, Arc<Set>>> {
    SETS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn set_of(handle: usize) -> Result<Arc<Set>, Return> {
    sets().get(&handle).map(Arc::clone).ok_or(INVALID_ARGUMENT)
}

impl Set {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What has happened after that number, waiting a while for the first.
    fn events(&self, after: u64, wait_ms: u32) -> Result<(u64, Vec<Event>), Return> {
        match self.client.control(Control::Events { after, wait_ms }) {
            Ok((Told::Events { last, events }, _)) => Ok((last, events)),
            _ => Err(UNKNOWN),
        }
    }

    fn next(&self) -> Option<Event> {
        self.inner().waiting.pop_front()
    }

    /// Takes note of what has happened since.
    fn look(&self, wait_ms: u32) -> Result<(), Return> {
        let seen = self.inner().seen;
        let (last, events) = self.events(seen, wait_ms)?;
        let mut inner = self.inner();
        if inner.seen == seen {
            let news: Vec<Event> = events.into_iter().filter(|event| inner.wants(event)).collect();
            inner.waiting.extend(news);
            inner.seen = last;
        }
        Ok(())
    }
}

impl Inner {
    fn wants(&self, event: &Event) -> bool {
        let wanted = self.wanted.get(&event.device).copied().unwrap_or(0);
        wanted & kind_and_data(event.what).0 != 0
    }
}

fn kind_and_data(what: Happened) -> (u64, u64) {
    match what {
        Happened::Xid(number) => (XID, number.into()),
        Happened::DoubleBit => (DOUBLE_BIT, 0),
    }
}

impl Nvml {
    pub(crate) fn nvmlDeviceGetSupportedEventTypes(args: Args) -> Done {
        let card = args.card()?;
        args.answer(1, supported(&card))
    }

    pub(crate) fn nvmlEventSetCreate(args: Args) -> Done {
        let set = Set { client: connect()?, inner: Mutex::default() };
        let mut sets = sets();
        let handle = sets.keys().next_back().map_or(SET, |last| last + 1);
        args.answer(0, handle)?;
        sets.insert(handle, Arc::new(set));
        Ok(())
    }

    pub(crate) fn nvmlEventSetFree(args: Args) -> Done {
        sets().remove(&args.0[0]).map(drop).ok_or(INVALID_ARGUMENT)
    }

    pub(crate) fn nvmlDeviceRegisterEvents(args: Args) -> Done {
        let card = args.card()?;
        let wanted = args.0[1] as u64;
        let set = set_of(args.0[2])?;
        if wanted & !supported(&card) != 0 {
            return Err(NOT_SUPPORTED);
        }
        let first = set.inner().wanted.is_empty();
        let (last, _) = set.events(u64::MAX, 0)?;
        let mut inner = set.inner();
        if first {
            inner.seen = last;
        }
        *inner.wanted.entry(card.index).or_insert(0) |= wanted;
        Ok(())
    }

    /// The first form is older than instances of cards; what it fills is the same.
    pub(crate) fn nvmlEventSetWait(args: Args) -> Done {
        Self::nvmlEventSetWait_v2(args)
    }

    pub(crate) fn nvmlEventSetWait_v2(args: Args) -> Done {
        let set = set_of(args.0[0])?;
        let until = Instant::now() + Duration::from_millis(args.number(2).into());
        loop {
            if let Some(event) = set.next() {
                return put(args, event);
            }
            if any_is_lost(&set)? {
                return Err(GPU_IS_LOST);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(TIMEOUT);
            }
            let left_ms = u32::try_from(left.as_millis()).unwrap_or(u32::MAX);
            set.look(left_ms.clamp(1, LOOK_MS))?;
        }
    }
}

fn supported(card: &Card) -> u64 {
    if card.device().ecc { SUPPORTED } else { XID }
}

fn put(args: Args, event: Event) -> Done {
    let (kind, data) = kind_and_data(event.what);
    let card = cards()?.into_iter().find(|card| card.index == event.device);
    let device = card.ok_or(UNKNOWN)?.handle();
    let instance = NO_INSTANCE;
    args.answer(
        1,
        EventData { device, kind, data, gpu_instance: instance, compute_instance: instance },
    )
}

/// Whether a card that the set watches is gone; its last event has been told before.
fn any_is_lost(set: &Set) -> Result<bool, Return> {
    set.look(0)?;
    let inner = set.inner();
    if !inner.waiting.is_empty() {
        return Ok(false);
    }
    let watched: Vec<u32> = inner.wanted.keys().copied().collect();
    drop(inner);
    let lost = |card: &Card| watched.contains(&card.index) && faults::check(card).is_err();
    Ok(cards()?.iter().any(lost))
}
