//! Device memory as a running kernel sees it: every access is checked against the address space,
//! with the last few ranges remembered.

use crate::engine::Engine;
use crate::space::{Access, Observer, SPACE};
use crate::{event, pages};
use simcuda_ptx::{Fault, Memory};
use std::cell::Cell;
use std::io::Write;
use std::time::Duration;

/// How long a sleeping kernel goes without looking whether it must end.
const NAP: Duration = Duration::from_millis(5);

#[derive(Clone, Copy, Debug)]
struct Known {
    base: u64,
    end: u64,
    access: Access,
}

const NOTHING: Known = Known { base: 0, end: 0, access: Access::None };

#[derive(Debug)]
pub(crate) struct KernelMemory<'a> {
    engine: &'a Engine,
    observer: &'a Observer,
    /// The table's generation that `known` is of.
    generation: Cell<u64>,
    known: [Cell<Known>; 4],
    next: Cell<usize>,
}

impl<'a> KernelMemory<'a> {
    pub(crate) fn new(engine: &'a Engine, observer: &'a Observer) -> Self {
        let generation = Cell::new(observer.enter());
        let known = [const { Cell::new(NOTHING) }; 4];
        Self { engine, observer, generation, known, next: Cell::new(0) }
    }

    fn allows(&self, address: u64, bytes: usize, access: Access) -> bool {
        if SPACE.generation() != self.generation.get() {
            self.renew();
        }
        let Some(end) = address.checked_add(bytes as u64) else { return false };
        let fits =
            |known: Known| known.base <= address && end <= known.end && known.access >= access;
        self.known.iter().any(|known| fits(known.get())) || self.look_up(address, bytes, access)
    }

    fn look_up(&self, address: u64, bytes: usize, access: Access) -> bool {
        let Some(region) = SPACE.find(address) else { return false };
        let next = self.next.get();
        self.known[next].set(Known { base: region.base, end: region.end(), access: region.access });
        self.next.set((next + 1) % self.known.len());
        SPACE.allows(address, bytes as u64, access)
    }

    /// The table changed: what was known may be gone.
    fn renew(&self) {
        self.generation.set(self.observer.enter());
        self.known.iter().for_each(|known| known.set(NOTHING));
    }
}

impl Memory for KernelMemory<'_> {
    fn read(&self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        if !self.allows(address, into.len(), Access::Read) {
            return Err(Fault::Address { address, bytes: into.len(), write: false });
        }
        pages::read(address, into);
        Ok(())
    }

    fn write(&self, address: u64, from: &[u8]) -> Result<(), Fault> {
        if !self.allows(address, from.len(), Access::ReadWrite) {
            return Err(Fault::Address { address, bytes: from.len(), write: true });
        }
        pages::write(address, from);
        Ok(())
    }

    fn update(
        &self,
        address: u64,
        bytes: usize,
        change: &mut dyn FnMut(u64) -> u64,
    ) -> Result<u64, Fault> {
        if !self.allows(address, bytes, Access::ReadWrite) {
            return Err(Fault::Address { address, bytes, write: true });
        }
        if !address.is_multiple_of(bytes as u64) {
            return Err(Fault::Misaligned { address });
        }
        Ok(pages::update(address, bytes, change))
    }

    fn now_ns(&self) -> u64 {
        event::clock_ns()
    }

    fn sleep_ns(&self, ns: u64) {
        self.observer.leave();
        let until = event::clock_ns().saturating_add(ns);
        while !self.engine.is_stopping() {
            let left = Duration::from_nanos(until.saturating_sub(event::clock_ns()));
            if left.is_zero() {
                break;
            }
            std::thread::sleep(left.min(NAP));
        }
        self.renew();
    }

    fn stop(&self) -> bool {
        if SPACE.generation() != self.generation.get() {
            self.renew();
        }
        self.engine.is_stopping()
    }

    fn print(&self, text: &str) {
        // A program that closed its standard output does not want it.
        let _ = std::io::stdout().write_all(text.as_bytes());
        let _ = std::io::stdout().flush();
    }
}
