//! PTX text in, effects on a memory out: a parser, a decoder and a warp-wide interpreter, all
//! without unsafe code and without input or output. Device memory, time and printing belong to the
//! implementer of [`Memory`]; shared and local memory live in here. It knows nothing of drivers,
//! streams or processes, and it does not model how long a kernel takes: it says what was executed,
//! and a thread that reads the clock again and again, or sleeps, passes time by [`Memory::sleep_ns`].

#![forbid(unsafe_code)]

mod ast;
mod decode;
mod error;
mod exact;
mod exec;
mod half;
mod lanes;
mod lex;
mod ops;
mod parse;
mod program;
mod rounding;
mod statement;
mod types;

pub use error::{LinkError, PtxError};

/// A parsed and decoded module.
#[derive(Debug)]
pub struct Module {
    program: program::Program,
    kernels: Vec<Kernel>,
    globals: Vec<Global>,
}

impl Module {
    /// Reads PTX text. What it does not understand is an error with its line, here and not when a
    /// kernel runs; no input makes it panic.
    pub fn parse(text: &str) -> Result<Self, PtxError> {
        let source = parse::parse(text)?;
        match decode::decode(&[decode::Unit { name: "", source }]) {
            Ok(module) => Ok(module),
            Err(LinkError::Text { error, .. }) => Err(error),
            Err(LinkError::Undefined { symbol, line, .. }) => {
                Err(PtxError::undefined(line, &symbol))
            }
            // One text has nobody to share a name with.
            Err(LinkError::Duplicate { symbol, .. }) => Err(PtxError::undefined(1, &symbol)),
        }
    }

    /// Makes one module of several texts, which may refer to each other's visible, weak and common
    /// functions and variables. Each text has a name for errors.
    pub fn link(texts: &[(&str, &str)]) -> Result<Self, LinkError> {
        let parsed = texts.iter().map(|&(name, text)| {
            let source = parse::parse(text)
                .map_err(|error| LinkError::Text { unit: name.to_owned(), error })?;
            Ok(decode::Unit { name, source })
        });
        decode::decode(&parsed.collect::<Result<Vec<_>, LinkError>>()?)
    }

    /// A module of machine code: its kernels are known by name and shape and do nothing when run.
    pub fn of_machine_code(kernels: Vec<MachineKernel>, globals: Vec<Global>) -> Self {
        let kernels = kernels.into_iter().map(|kernel| Kernel {
            name: kernel.name,
            params: kernel.params,
            shared_bytes: kernel.shared_bytes,
            max_threads: kernel.max_threads,
            function: None,
        });
        Self { program: program::Program::default(), kernels: kernels.collect(), globals }
    }

    pub fn kernel(&self, name: &str) -> Option<&Kernel> {
        self.kernels.iter().find(|kernel| kernel.name == name)
    }

    /// The kernels in the order of the text.
    pub fn kernels(&self) -> impl Iterator<Item = &Kernel> {
        self.kernels.iter()
    }

    /// `.global` and `.const` variables in the order of the text.
    pub fn globals(&self) -> &[Global] {
        &self.globals
    }
}

/// An entry of a module.
#[derive(Debug)]
pub struct Kernel {
    name: String,
    params: Vec<Param>,
    shared_bytes: usize,
    max_threads: Option<u32>,
    /// None where there is only machine code.
    function: Option<usize>,
}

impl Kernel {
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn params(&self) -> &[Param] {
        &self.params
    }

    /// Whether there is only machine code: it takes its time and does nothing.
    pub fn is_opaque(&self) -> bool {
        self.function.is_none()
    }

    /// Length of the parameter buffer: the end of the last parameter.
    pub fn param_bytes(&self) -> usize {
        self.params.last().map_or(0, |param| param.offset + param.size)
    }

    /// Static shared memory of a block.
    pub fn shared_bytes(&self) -> usize {
        self.shared_bytes
    }

    /// Whether there is code here that can be run; else a launch takes its time and does nothing.
    pub fn has_code(&self) -> bool {
        self.function.is_some()
    }

    /// The bound on the threads of a block that `.maxntid` or `.reqntid` set.
    pub fn max_threads(&self) -> Option<u32> {
        self.max_threads
    }
}

/// A kernel of which only machine code is there.
#[derive(Clone, Debug)]
pub struct MachineKernel {
    pub name: String,
    pub params: Vec<Param>,
    pub shared_bytes: usize,
    pub max_threads: Option<u32>,
}

/// Where a parameter lies in the parameter buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Param {
    pub offset: usize,
    pub size: usize,
    pub align: usize,
}

/// A module variable in device memory.
#[derive(Clone, Debug)]
pub struct Global {
    pub name: String,
    pub size: usize,
    pub align: usize,
    /// May be shorter than `size`: the rest is zero.
    pub init: Vec<u8>,
    /// Places in `init` that must be overwritten with addresses once the globals have theirs.
    pub pointers: Vec<Pointer>,
    pub constant: bool,
}

/// Eight bytes of an initialiser that hold the address of a global plus `addend`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pointer {
    pub offset: usize,
    /// Index in [`Module::globals`].
    pub global: usize,
    pub addend: u64,
}

/// One launch of a kernel.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub dynamic_shared_bytes: u32,
    /// The parameter buffer, laid out as [`Kernel::params`] says.
    pub params: &'a [u8],
    /// Device address of each of [`Module::globals`].
    pub globals: &'a [u64],
}

/// Device memory as a kernel sees it, with the clock and the printer of the device. Addresses from
/// 0xffff_0000_0000_0000 up are the interpreter's own and never get here.
pub trait Memory {
    fn read(&self, address: u64, into: &mut [u8]) -> Result<(), Fault>;

    fn write(&self, address: u64, from: &[u8]) -> Result<(), Fault>;

    /// One atomic read-modify-write of 4 or 8 bytes; gives the old value.
    fn update(
        &self,
        address: u64,
        bytes: usize,
        change: &mut dyn FnMut(u64) -> u64,
    ) -> Result<u64, Fault>;

    /// `%globaltimer`, in ns. The clock registers count the same.
    fn now_ns(&self) -> u64;

    /// Called when all that could run is in `nanosleep`.
    fn sleep_ns(&self, ns: u64);

    /// Asked every few thousand instructions; true ends the launch with [`Fault::Stopped`].
    fn stop(&self) -> bool {
        false
    }

    /// Instructions that were executed, counted once for each thread: told every few thousand.
    fn executed(&self, _instructions: u64) {}

    /// Some thread waits for a value in memory that somebody else must store: from now on only time
    /// that really passes brings it nearer.
    fn polls(&self) {}

    /// Blocks of this launch that the device holds at the same time.
    fn resident_blocks(&self) -> Option<u32> {
        None
    }

    /// Output of `printf`.
    fn print(&self, _text: &str) {}
}

/// Why a launch ended before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing the kernel may touch is there.
    Address { address: u64, bytes: usize, write: bool },
    /// The address is not a multiple of the access's size.
    Misaligned { address: u64 },
    /// `trap`, or a failed assertion.
    Trap,
    /// Every thread waits for one that cannot come.
    Deadlock,
    /// [`Memory::stop`] said so.
    Stopped,
    /// The launch is beyond this interpreter: a block of over 1024 threads or with over
    /// 1 MiB of dynamic shared memory, or globals without addresses.
    Unsupported,
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            Self::Address { address, bytes, write } => {
                let what = if write { "write" } else { "read" };
                write!(f, "kernel {what} of {bytes} bytes at 0x{address:x}: nothing is there")
            }
            Self::Misaligned { address } => {
                write!(f, "kernel access at 0x{address:x} is not aligned to its size")
            }
            Self::Trap => f.write_str("the kernel executed a trap"),
            Self::Deadlock => f.write_str("every thread of the kernel waits for another"),
            Self::Stopped => f.write_str("the kernel was stopped"),
            Self::Unsupported => f.write_str("the launch is beyond what the interpreter runs"),
        }
    }
}

impl std::error::Error for Fault {}

/// What a launch did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Instructions executed, counted once for each thread.
    pub instructions: u64,
}

/// Runs all blocks of a launch to their end. Blocks run one after the other until one waits; then
/// others join it, so blocks that wait for each other make progress.
pub fn run<M: Memory + ?Sized>(
    module: &Module,
    kernel: &Kernel,
    launch: &Launch<'_>,
    memory: &M,
) -> Result<Stats, Fault> {
    exec::run(module, kernel, launch, &Device(memory))
}

/// Any implementer as a trait object, so that the interpreter is compiled once, here and optimised,
/// whoever uses it.
struct Device<'a, M: ?Sized>(&'a M);

impl<M: Memory + ?Sized> Memory for Device<'_, M> {
    fn read(&self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        self.0.read(address, into)
    }

    fn write(&self, address: u64, from: &[u8]) -> Result<(), Fault> {
        self.0.write(address, from)
    }

    fn update(
        &self,
        address: u64,
        bytes: usize,
        change: &mut dyn FnMut(u64) -> u64,
    ) -> Result<u64, Fault> {
        self.0.update(address, bytes, change)
    }

    fn now_ns(&self) -> u64 {
        self.0.now_ns()
    }

    fn sleep_ns(&self, ns: u64) {
        self.0.sleep_ns(ns);
    }

    fn stop(&self) -> bool {
        self.0.stop()
    }

    fn executed(&self, instructions: u64) {
        self.0.executed(instructions);
    }

    fn polls(&self) {
        self.0.polls();
    }

    fn resident_blocks(&self) -> Option<u32> {
        self.0.resident_blocks()
    }

    fn print(&self, text: &str) {
        self.0.print(text);
    }
}
