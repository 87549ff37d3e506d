//! Device memory as a running kernel sees it: every access is checked against the address space,
//! with the last few ranges remembered.

use crate::engine::Engine;
use crate::kernel_clock::KernelClock;
use crate::pages;
use crate::space::{Access, Observer, SPACE};
use simcuda_ptx::{Fault, Memory};
use std::cell::Cell;
use std::io::Write;

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
    /// The kernel's number there.
    number: u64,
    clock: &'a KernelClock<'a>,
    resident_blocks: u32,
    observer: &'a Observer,
    /// The table's generation that `known` is of.
    generation: Cell<u64>,
    known: [Cell<Known>; 4],
    next: Cell<usize>,
}

impl<'a> KernelMemory<'a> {
    pub(crate) fn new(
        engine: &'a Engine,
        number: u64,
        clock: &'a KernelClock<'a>,
        resident_blocks: u32,
        observer: &'a Observer,
    ) -> Self {
        let generation = Cell::new(observer.enter());
        let known = [const { Cell::new(NOTHING) }; 4];
        let next = Cell::new(0);
        Self { engine, number, clock, resident_blocks, observer, generation, known, next }
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
        self.clock.now_ns()
    }

    fn sleep_ns(&self, ns: u64) {
        self.observer.leave();
        self.clock.sleep(ns, || self.engine.is_stopping());
        self.renew();
    }

    fn stop(&self) -> bool {
        if self.clock.must_pause() {
            self.observer.leave();
            self.clock.pause();
            self.renew();
        }
        if SPACE.generation() != self.generation.get() {
            self.renew();
        }
        self.engine.is_stopping() || self.engine.is_doomed(self.number)
    }

    fn executed(&self, instructions: u64) {
        self.clock.executed(instructions);
    }

    fn polls(&self) {
        if !self.clock.lives() {
            self.observer.leave();
            self.clock.live();
            self.renew();
        }
    }

    fn resident_blocks(&self) -> Option<u32> {
        Some(self.resident_blocks)
    }

    fn print(&self, text: &str) {
        // A program that closed its standard output does not want it.
        let _ = std::io::stdout().write_all(text.as_bytes());
        let _ = std::io::stdout().flush();
    }
}
