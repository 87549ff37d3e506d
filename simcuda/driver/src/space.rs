//! The address space: which ranges of this process are device memory or memory the GPU may use.
//!
//! Kernels and copies check every access here. A range is taken away in two steps: it leaves the
//! table, then [`Space::settle`] waits until every command that may have looked it up before has
//! noticed; only then are its pages touched. So a command that is too late faults like on a card,
//! and never crashes the process.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// What a range is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Linear,
    Managed,
    /// Of the stream-ordered pool with this handle.
    Pool(usize),
    /// Of a memory node of a graph.
    Graph,
    /// A mapping of the physical memory with this handle.
    Mapping(u64),
    /// Page-locked host memory that the driver allocated, with its flags.
    Host(u32),
    /// Host memory of the program, made known to the driver, with its flags.
    Registered(u32),
    /// An array's memory, which has no address for the program.
    Array,
    /// A global of a module.
    Module,
    /// Another process's memory: of the imported pool with this handle, or 0.
    Imported(usize),
}

/// What may be done with a range.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Access {
    None,
    Read,
    ReadWrite,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Region {
    pub(crate) base: u64,
    /// As asked for.
    pub(crate) size: u64,
    /// As it can be touched: rounded up as the card rounds.
    pub(crate) span: u64,
    pub(crate) kind: Kind,
    /// Context that it belongs to, or 0.
    pub(crate) context: usize,
    pub(crate) device: i32,
    pub(crate) access: Access,
    /// Never used twice in a process.
    pub(crate) id: u64,
}

impl Region {
    pub(crate) fn end(&self) -> u64 {
        self.base + self.span
    }

    pub(crate) fn is_device(&self) -> bool {
        !matches!(self.kind, Kind::Host(_) | Kind::Registered(_))
    }

    pub(crate) fn is_mapping(&self) -> bool {
        matches!(self.kind, Kind::Mapping(_))
    }
}

/// A command's mark: 0 while it touches no memory, else the generation that it knows.
#[derive(Debug, Default)]
pub(crate) struct Observer(AtomicU64);

#[derive(Debug)]
pub(crate) struct Space {
    generation: AtomicU64,
    regions: RwLock<BTreeMap<u64, Region>>,
    observers: Mutex<Vec<Arc<Observer>>>,
    last_id: AtomicU64,
}

/// There is one per process, as there is one address space.
pub(crate) static SPACE: Space = Space {
    generation: AtomicU64::new(1),
    regions: RwLock::new(BTreeMap::new()),
    observers: Mutex::new(Vec::new()),
    last_id: AtomicU64::new(0),
};

impl Space {
    /// Number for a new region.
    pub(crate) fn fresh_id(&self) -> u64 {
        self.last_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(crate) fn insert(&self, region: Region) {
        self.regions.write().unwrap_or_else(PoisonError::into_inner).insert(region.base, region);
    }

    /// Takes the region with exactly this base out of the table, if `chosen` agrees.
    pub(crate) fn remove(&self, base: u64, chosen: impl FnOnce(&Region) -> bool) -> Option<Region> {
        let mut regions = self.regions.write().unwrap_or_else(PoisonError::into_inner);
        if !chosen(regions.get(&base)?) {
            return None;
        }
        let region = regions.remove(&base);
        self.generation.fetch_add(1, Ordering::SeqCst);
        region
    }

    /// Takes all regions out that `chosen` names.
    pub(crate) fn remove_all(&self, chosen: impl Fn(&Region) -> bool) -> Vec<Region> {
        let mut regions = self.regions.write().unwrap_or_else(PoisonError::into_inner);
        let bases: Vec<u64> = regions.values().filter(|r| chosen(r)).map(|r| r.base).collect();
        let removed = bases.into_iter().filter_map(|base| regions.remove(&base)).collect();
        self.generation.fetch_add(1, Ordering::SeqCst);
        removed
    }

    /// Changes what may be done with every region that lies wholly in the range.
    pub(crate) fn set_access(&self, base: u64, bytes: u64, access: Access) {
        let mut regions = self.regions.write().unwrap_or_else(PoisonError::into_inner);
        for (_, region) in regions.range_mut(base..base + bytes) {
            region.access = access;
        }
        self.generation.fetch_add(1, Ordering::SeqCst);
    }

    /// The region that holds the address.
    pub(crate) fn find(&self, address: u64) -> Option<Region> {
        let regions = self.regions.read().unwrap_or_else(PoisonError::into_inner);
        let (_, region) = regions.range(..=address).next_back()?;
        (address < region.end()).then_some(*region)
    }

    /// All regions that begin in the range.
    pub(crate) fn within(&self, base: u64, bytes: u64) -> Vec<Region> {
        let regions = self.regions.read().unwrap_or_else(PoisonError::into_inner);
        regions.range(base..base.saturating_add(bytes)).map(|(_, region)| *region).collect()
    }

    /// Whether all of the range may be used so. Mappings that lie side by side are one range, as
    /// the program sees them; other allocations end where they end.
    pub(crate) fn allows(&self, address: u64, bytes: u64, access: Access) -> bool {
        let Some(end) = address.checked_add(bytes) else { return false };
        let mut at = address;
        loop {
            let Some(region) = self.find(at) else { return false };
            if region.access < access {
                return false;
            }
            if end <= region.end() {
                return true;
            }
            if !region.is_mapping() {
                return false;
            }
            at = region.end();
        }
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::SeqCst)
    }

    pub(crate) fn watch(&self) -> Arc<Observer> {
        let observer = Arc::new(Observer::default());
        let mut observers = self.observers.lock().unwrap_or_else(PoisonError::into_inner);
        observers.retain(|other| Arc::strong_count(other) > 1);
        observers.push(Arc::clone(&observer));
        observer
    }

    /// Waits until no command still works with a table older than the present one.
    pub(crate) fn settle(&self) {
        let now = self.generation();
        let observers: Vec<_> =
            self.observers.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for observer in observers {
            let mut rounds = 0_u32;
            loop {
                let seen = observer.0.load(Ordering::SeqCst);
                if seen == 0 || seen >= now {
                    break;
                }
                rounds += 1;
                if rounds < 64 {
                    std::thread::yield_now();
                } else {
                    std::thread::sleep(std::time::Duration::from_micros(50));
                }
            }
        }
    }
}

impl Observer {
    /// From here on the command relies on the table as it is now; says its generation.
    pub(crate) fn enter(&self) -> u64 {
        loop {
            let generation = SPACE.generation();
            self.0.store(generation, Ordering::SeqCst);
            // A table that changed between the two lines may belong to a `settle` that did not see
            // this mark: take the newer one.
            if SPACE.generation() == generation {
                return generation;
            }
        }
    }

    /// The command touches no memory until it enters again.
    pub(crate) fn leave(&self) {
        self.0.store(0, Ordering::SeqCst);
    }
}
