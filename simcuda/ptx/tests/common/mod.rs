//! A device memory for tests: allocations in a map, a clock that only moves when somebody sleeps or
//! asks, and everything that was printed.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use simcuda_ptx::{Fault, Launch, Memory, Module, Stats, run};

#[derive(Default)]
pub(crate) struct Device {
    allocations: RefCell<BTreeMap<u64, Vec<u8>>>,
    next: Cell<u64>,
    pub(crate) now_ns: Cell<u64>,
    /// What each look at the clock adds to it.
    pub(crate) tick_ns: Cell<u64>,
    pub(crate) printed: RefCell<String>,
    /// Questions whether to stop that are answered with no.
    pub(crate) patience: Cell<Option<u64>>,
}

impl Device {
    pub(crate) fn new() -> Self {
        let device = Self::default();
        device.next.set(0x7f00_0000_0000);
        device
    }

    pub(crate) fn allocate(&self, bytes: usize) -> u64 {
        let address = self.next.get();
        // A gap behind each allocation, so that running off its end is seen.
        self.next.set((address + bytes as u64 + 4096).next_multiple_of(256));
        self.allocations.borrow_mut().insert(address, vec![0; bytes]);
        address
    }

    pub(crate) fn upload<T: Plain>(&self, values: &[T]) -> u64 {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_bytes()).collect();
        let address = self.allocate(bytes.len());
        self.write(address, &bytes).expect("fresh memory can be written");
        address
    }

    pub(crate) fn download<T: Plain>(&self, address: u64, count: usize) -> Vec<T> {
        let mut bytes = vec![0; count * size_of::<T>()];
        self.read(address, &mut bytes).expect("the memory was allocated");
        bytes.chunks_exact(size_of::<T>()).map(T::from_bytes).collect()
    }

    fn with<R>(
        &self,
        address: u64,
        bytes: usize,
        write: bool,
        f: impl FnOnce(&mut [u8]) -> R,
    ) -> Result<R, Fault> {
        let fault = Fault::Address { address, bytes, write };
        let mut allocations = self.allocations.borrow_mut();
        let (start, memory) = allocations.range_mut(..=address).next_back().ok_or(fault)?;
        let at = (address - start) as usize;
        memory.get_mut(at..at + bytes).map(f).ok_or(fault)
    }
}

impl Memory for Device {
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
        assert!(bytes == 4 || bytes == 8, "an update is of a word");
        self.with(address, bytes, true, |memory| {
            let mut word = [0; 8];
            word[..bytes].copy_from_slice(memory);
            let old = u64::from_le_bytes(word);
            memory.copy_from_slice(&change(old).to_le_bytes()[..bytes]);
            old
        })
    }

    fn now_ns(&self) -> u64 {
        self.now_ns.set(self.now_ns.get() + self.tick_ns.get());
        self.now_ns.get()
    }

    fn sleep_ns(&self, ns: u64) {
        self.now_ns.set(self.now_ns.get() + ns);
    }

    fn stop(&self) -> bool {
        match self.patience.get() {
            None => false,
            Some(0) => true,
            Some(left) => {
                self.patience.set(Some(left - 1));
                false
            }
        }
    }

    fn print(&self, text: &str) {
        self.printed.borrow_mut().push_str(text);
    }
}

/// Values with a fixed little-endian form.
pub(crate) trait Plain: Copy {
    fn to_bytes(self) -> Vec<u8>;
    fn from_bytes(bytes: &[u8]) -> Self;
}

macro_rules! plain {
    ($($ty:ty),*) => { $(
        impl Plain for $ty {
            fn to_bytes(self) -> Vec<u8> {
                self.to_le_bytes().to_vec()
            }
            fn from_bytes(bytes: &[u8]) -> Self {
                Self::from_le_bytes(bytes.try_into().expect("as many bytes as the type has"))
            }
        }
    )* };
}
plain!(u8, u16, u32, u64, i8, i16, i32, i64, f32, f64);

/// An argument of a kernel.
#[derive(Clone, Copy)]
pub(crate) enum Arg {
    U32(u32),
    U64(u64),
    F32(f32),
}

/// Launches `name` with its arguments laid out as the kernel says, after placing the globals.
pub(crate) fn launch(
    device: &Device,
    module: &Module,
    name: &str,
    [grid, block]: [[u32; 3]; 2],
    dynamic_shared_bytes: u32,
    arguments: &[Arg],
) -> Result<Stats, Fault> {
    let globals = place_globals(device, module);
    launch_with(device, module, name, [grid, block], dynamic_shared_bytes, arguments, &globals)
}

pub(crate) fn place_globals(device: &Device, module: &Module) -> Vec<u64> {
    let addresses: Vec<u64> =
        module.globals().iter().map(|global| device.allocate(global.size)).collect();
    for (global, &address) in module.globals().iter().zip(&addresses) {
        let mut init = global.init.clone();
        for pointer in &global.pointers {
            let value = addresses[pointer.global].wrapping_add(pointer.addend);
            init[pointer.offset..pointer.offset + 8].copy_from_slice(&value.to_le_bytes());
        }
        device.write(address, &init).expect("a global was just allocated");
    }
    addresses
}

pub(crate) fn launch_with(
    device: &Device,
    module: &Module,
    name: &str,
    [grid, block]: [[u32; 3]; 2],
    dynamic_shared_bytes: u32,
    arguments: &[Arg],
    globals: &[u64],
) -> Result<Stats, Fault> {
    let kernel = module.kernel(name).expect("the module has the kernel");
    let mut params = vec![0; kernel.param_bytes()];
    assert_eq!(kernel.params().len(), arguments.len(), "arguments of {name}");
    for (param, argument) in kernel.params().iter().zip(arguments) {
        let bytes = match *argument {
            Arg::U32(value) => value.to_bytes(),
            Arg::U64(value) => value.to_bytes(),
            Arg::F32(value) => value.to_bytes(),
        };
        assert_eq!(param.size, bytes.len(), "an argument of {name}");
        params[param.offset..param.offset + param.size].copy_from_slice(&bytes);
    }
    let launch = Launch { grid, block, dynamic_shared_bytes, params: &params, globals };
    run(module, kernel, &launch, device)
}

/// A row of one block.
pub(crate) fn one_block(threads: u32) -> [[u32; 3]; 2] {
    [[1, 1, 1], [threads, 1, 1]]
}

pub(crate) fn parse(text: &str) -> Module {
    Module::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// What `body` leaves in `%d`, given `%a`, `%b`, `%c`. All are registers of the types named.
pub(crate) fn eval(body: &str, input: &str, output: &str, values: [u64; 3]) -> u64 {
    let text = format!(
        ".version 7.0\n.target sm_75\n.address_size 64
        .visible .entry k(.param .u64 out, .param .u64 a, .param .u64 b, .param .u64 c) {{
            .reg .{input} %a, %b, %c; .reg .{output} %d; .reg .b64 %out; .reg .pred %p, %q;
            .reg .b32 %x, %y; .reg .b16 %h, %i;
            ld.param.u64 %out, [out];
            ld.param.{input} %a, [a]; ld.param.{input} %b, [b]; ld.param.{input} %c, [c];
            {body}
            st.global.{output} [%out], %d;
        }}"
    );
    let device = Device::new();
    let out = device.allocate(8);
    let mut arguments = vec![Arg::U64(out)];
    arguments.extend(values.map(Arg::U64));
    launch(&device, &parse(&text), "k", one_block(1), 0, &arguments).unwrap();
    device.download::<u64>(out, 1)[0]
}

pub(crate) fn b32(body: &str, values: [u32; 3]) -> u32 {
    eval(body, "b32", "b32", values.map(u64::from)) as u32
}

pub(crate) fn b64(body: &str, values: [u64; 3]) -> u64 {
    eval(body, "b64", "b64", values)
}

pub(crate) fn b16(body: &str, values: [u16; 3]) -> u16 {
    eval(body, "b16", "b16", values.map(u64::from)) as u16
}

pub(crate) fn f32s(body: &str, values: [f32; 3]) -> f32 {
    f32::from_bits(b32(body, values.map(f32::to_bits)))
}

pub(crate) fn f64s(body: &str, values: [f64; 3]) -> f64 {
    f64::from_bits(b64(body, values.map(f64::to_bits)))
}

/// A predicate in `%p` as 0 or 1.
pub(crate) fn truth(body: &str, input: &str, values: [u64; 3]) -> bool {
    eval(&format!("{body} selp.b32 %d, 1, 0, %p;"), input, "b32", values) == 1
}

pub(crate) const HEAD: &str = ".version 7.0\n.target sm_75\n.address_size 64\n";

/// A module of one kernel `k` with parameters `out` (a pointer, also in `%out`) and `n`; `%tid`
/// and `%at` (the address of the thread's word of `out`) are set.
pub(crate) fn kernel(body: &str) -> Module {
    parse(&format!(
        "{HEAD}.visible .entry k(.param .u64 out, .param .u32 n) {{
            .reg .pred %p<9>; .reg .b32 %r<40>; .reg .b64 %d<20>; .reg .b64 %out, %at;
            .reg .u32 %t, %n;
            ld.param.u64 %out, [out];
            ld.param.u32 %n, [n];
            mov.u32 %t, %tid.x;
            mad.wide.u32 %at, %t, 4, %out;
            {body}
        }}"
    ))
}

pub(crate) fn run_block(module: &Module, threads: u32, n: u32) -> Result<Vec<u32>, Fault> {
    let device = Device::new();
    let out = device.allocate(threads as usize * 4);
    launch(&device, module, "k", one_block(threads), 0, &[Arg::U64(out), Arg::U32(n)])?;
    Ok(device.download(out, threads as usize))
}

/// Reproducible numbers (a 64-bit linear congruential generator's upper half).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u32 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 32) as u32
    }

    /// Between -1 and 1.
    pub(crate) fn float(&mut self) -> f32 {
        (self.next() >> 8) as f32 / (1 << 23) as f32 - 1.0
    }

    pub(crate) fn floats(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.float()).collect()
    }
}
