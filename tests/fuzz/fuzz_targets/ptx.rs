//! Any text is refused or read, and what was read runs to an end or until it is stopped.
#![no_main]

use std::cell::{Cell, RefCell};

use simcuda_ptx::{Fault, Launch, Memory, Module, run};

/// 64 KiB at address 4096, and little patience.
struct Small {
    bytes: RefCell<Vec<u8>>,
    looks: Cell<u32>,
}

const BASE: u64 = 4096;

impl Small {
    fn with<R>(
        &self,
        address: u64,
        bytes: usize,
        write: bool,
        f: impl FnOnce(&mut [u8]) -> R,
    ) -> Result<R, Fault> {
        let fault = Fault::Address { address, bytes, write };
        let at = usize::try_from(address.checked_sub(BASE).ok_or(fault)?).map_err(|_| fault)?;
        let end = at.checked_add(bytes).ok_or(fault)?;
        self.bytes.borrow_mut().get_mut(at..end).map(f).ok_or(fault)
    }
}

impl Memory for Small {
    fn read(&self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        self.with(address, into.len(), false, |memory| into.copy_from_slice(memory))
    }

    fn write(&self, address: u64, from: &[u8]) -> Result<(), Fault> {
        self.with(address, from.len(), true, |memory| memory.copy_from_slice(from))
    }

    fn update(
        &self,
        address: u64,
        bytes: usize,
        change: &mut dyn FnMut(u64) -> u64,
    ) -> Result<u64, Fault> {
        self.with(address, bytes, true, |memory| {
            let mut word = [0; 8];
            word[..bytes].copy_from_slice(memory);
            let old = u64::from_le_bytes(word);
            memory.copy_from_slice(&change(old).to_le_bytes()[..bytes]);
            old
        })
    }

    fn now_ns(&self) -> u64 {
        0
    }

    fn sleep_ns(&self, _ns: u64) {}

    fn stop(&self) -> bool {
        self.looks.set(self.looks.get() + 1);
        self.looks.get() > 20
    }
}

libfuzzer_sys::fuzz_target!(|text: &str| {
    let Ok(module) = Module::parse(text) else { return };
    let globals = vec![BASE; module.globals().len()];
    for kernel in module.kernels().take(4) {
        let memory = Small { bytes: RefCell::new(vec![0; 1 << 16]), looks: Cell::new(0) };
        let mut params = vec![0; kernel.param_bytes()];
        for param in kernel.params().iter().filter(|param| param.size == 8) {
            params[param.offset..param.offset + 8].copy_from_slice(&BASE.to_le_bytes());
        }
        let launch = Launch {
            grid: [2, 1, 1],
            block: [40, 1, 1],
            dynamic_shared_bytes: 256,
            params: &params,
            globals: &globals,
        };
        let _ = run(&module, kernel, &launch, &memory);
    }
});
