//! Launching kernels: collecting their parameters at the call, running them when their turn comes.

use crate::command::Work;
use crate::cost::{Costs, UNITS};
use crate::engine::Engine;
use crate::entry::{Done, Sim, log};
use crate::function::{self, Function, SHARED_BYTES, THREADS_PER_BLOCK};
use crate::kernel_clock::KernelClock;
use crate::kernel_memory::KernelMemory;
use crate::module::Module;
use crate::space::Observer;
use crate::{raw, stream};
use shim_cuda_headers::*;
use simcuda_ptx::{Fault, Kernel, Launch};
use std::ffi::{c_uint, c_void};
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

/// A launch with all that it needs.
#[derive(Debug)]
pub(crate) struct KernelLaunch {
    module: Arc<Module>,
    name: String,
    shape: Shape,
    params: Vec<u8>,
    /// How many of its blocks a multiprocessor holds.
    blocks_each: u64,
    /// Addresses of the parameters, made when somebody asks.
    list: OnceLock<Vec<usize>>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) grid: [c_uint; 3],
    pub(crate) block: [c_uint; 3],
    pub(crate) shared_bytes: c_uint,
}

impl KernelLaunch {
    pub(crate) fn new(
        function: &Function,
        shape: Shape,
        params: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) -> Result<Self, CUresult> {
        let kernel = function.kernel()?;
        check(function, kernel, &shape)?;
        let params =
            if extra.is_null() { from_array(kernel, params)? } else { from_buffer(kernel, extra)? };
        let (module, name) = (Arc::clone(&function.module), function.name.clone());
        let threads: c_uint = shape.block.iter().product();
        let shared = kernel.shared_bytes() + shape.shared_bytes as usize;
        let blocks_each = function::occupancy(threads.cast_signed(), shared)?.max(1);
        let blocks_each = u64::from(blocks_each.cast_unsigned());
        Ok(Self { module, name, shape, params, blocks_each, list: OnceLock::new() })
    }

    fn blocks(&self) -> u64 {
        self.shape.grid.iter().map(|n| u64::from(*n)).fold(1, u64::saturating_mul)
    }

    /// How much of the card it takes, in parts of a multiprocessor.
    pub(crate) fn units(&self, costs: &Costs) -> u64 {
        self.blocks().saturating_mul(UNITS / self.blocks_each).clamp(1, costs.capacity())
    }

    fn instruction_ns(&self, costs: &Costs) -> f64 {
        let threads = self.shape.block.iter().map(|n| u64::from(*n)).product();
        costs.instruction_ns(self.blocks(), threads, self.blocks_each)
    }
}

/// What a node of a graph says of its launch.
impl KernelLaunch {
    pub(crate) fn shape(&self) -> Shape {
        self.shape
    }

    pub(crate) fn module(&self) -> usize {
        self.module.handle
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Address of a list of the parameters' addresses, good as long as the launch is kept.
    pub(crate) fn param_list(&self) -> usize {
        let list = self.list.get_or_init(|| {
            let Some(kernel) = self.module.code.0.kernel(&self.name) else { return Vec::new() };
            let base = self.params.as_ptr().expose_provenance();
            kernel.params().iter().map(|param| base + param.offset).collect()
        });
        if list.is_empty() { 0 } else { list.as_ptr().expose_provenance() }
    }
}

fn check(function: &Function, kernel: &Kernel, shape: &Shape) -> Done {
    let block: u64 = shape.block.iter().map(|n| u64::from(*n)).product();
    let grid = shape.grid;
    let grid_fits = grid.iter().all(|n| *n > 0)
        && grid[0] <= i32::MAX as u32
        && grid[1] <= 65_535
        && grid[2] <= 65_535;
    if block == 0 || !grid_fits || block > THREADS_PER_BLOCK.into() || shape.block[2] > 64 {
        return Err(CUresult::INVALID_VALUE);
    }
    if kernel.max_threads().is_some_and(|most| block > most.into()) {
        return Err(CUresult::LAUNCH_OUT_OF_RESOURCES);
    }
    let allowed = function.dynamic_shared_bytes.load(Ordering::Relaxed) as usize;
    let allowed = allowed.max(SHARED_BYTES.saturating_sub(kernel.shared_bytes()));
    if shape.shared_bytes as usize > allowed { Err(CUresult::INVALID_VALUE) } else { Ok(()) }
}

/// One pointer per parameter.
fn from_array(kernel: &Kernel, params: *mut *mut c_void) -> Result<Vec<u8>, CUresult> {
    let mut buffer = vec![0; kernel.param_bytes()];
    for (index, param) in kernel.params().iter().enumerate() {
        let bytes = raw::bytes_at(raw::get_at(params, index)?, param.size)?;
        buffer[param.offset..param.offset + param.size].copy_from_slice(&bytes);
    }
    Ok(buffer)
}

/// A list of names and values that says where the buffer lies: 1 its address, 2 its size, 0 end.
fn from_buffer(kernel: &Kernel, extra: *mut *mut c_void) -> Result<Vec<u8>, CUresult> {
    let (mut address, mut size) = (std::ptr::null_mut(), None);
    let mut index = 0;
    loop {
        let value = || raw::get_at(extra, index + 1);
        match raw::get_at(extra, index)?.addr() {
            0 => break,
            1 => address = value()?,
            2 => size = Some(raw::get(value()?.cast::<usize>())?),
            _ => return Err(CUresult::INVALID_VALUE),
        }
        index += 2;
    }
    let mut buffer = raw::bytes_at(address, size.ok_or(CUresult::INVALID_VALUE)?)?;
    // A buffer may lack the padding at its end, not a parameter.
    if buffer.len() + 7 < kernel.param_bytes() {
        return Err(CUresult::INVALID_VALUE);
    }
    buffer.resize(kernel.param_bytes(), 0);
    Ok(buffer)
}

/// Runs the kernel once it has a seat on the engine, and waits until it is over; says when that was.
pub(crate) fn perform(
    launch: &KernelLaunch,
    (number, ready_ns): (u64, u64),
    engine: &Engine,
    observer: &Observer,
) -> Result<u64, CUresult> {
    let costs = &engine.costs;
    let seat = engine.compute.begin(ready_ns)?;
    if launch.module.code.0.kernel(&launch.name).is_some_and(Kernel::is_opaque) {
        return Ok(seat.finish(costs.opaque_ns()));
    }
    let clock = KernelClock::new(&seat, launch.instruction_ns(costs));
    let resident = launch.blocks_each.saturating_mul(costs.multiprocessors);
    let resident = u32::try_from(resident).unwrap_or(u32::MAX);
    let memory = KernelMemory::new(engine, number, &clock, resident, observer);
    let result = run(launch, &memory);
    observer.leave();
    let taken_ns = clock.taken_ns() + costs.launch_ns();
    let end_ns = seat.finish(taken_ns);
    result.map(|()| end_ns)
}

fn run(launch: &KernelLaunch, memory: &KernelMemory<'_>) -> Result<(), CUresult> {
    let code = &launch.module.code.0;
    let kernel = code.kernel(&launch.name).ok_or(CUresult::NOT_FOUND)?;
    let shape = Launch {
        grid: launch.shape.grid,
        block: launch.shape.block,
        dynamic_shared_bytes: launch.shape.shared_bytes,
        params: &launch.params,
        globals: &launch.module.globals,
    };
    let Err(fault) = simcuda_ptx::run(code, kernel, &shape, memory) else { return Ok(()) };
    log(format_args!("kernel {}: {fault}", launch.name));
    Err(match fault {
        Fault::Address { .. } => CUresult::ILLEGAL_ADDRESS,
        Fault::Misaligned { .. } => CUresult::MISALIGNED_ADDRESS,
        Fault::Deadlock => CUresult::LAUNCH_TIMEOUT,
        Fault::Unsupported => CUresult::ILLEGAL_INSTRUCTION,
        Fault::Trap | Fault::Stopped => CUresult::LAUNCH_FAILED,
    })
}

fn launch(
    function: CUfunction,
    shape: Shape,
    stream: CUstream,
    params: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> Done {
    let stream = stream::resolve(stream)?;
    stream.context.engine.check()?;
    let function = function::find(function)?;
    if function.module.context != stream.context.handle {
        return Err(CUresult::INVALID_HANDLE);
    }
    let launch = KernelLaunch::new(&function, shape, params, extra)?;
    if !stream.is_capturing() {
        stream.context.engine.wait_for_room(stream.handle);
    }
    stream.submit(Work::Kernel(Arc::new(launch))).map(drop)
}

impl Sim {
    #[allow(clippy::too_many_arguments, reason = "the vendor's own signature")]
    pub(crate) fn cuLaunchKernel(
        function: CUfunction,
        grid_x: c_uint,
        grid_y: c_uint,
        grid_z: c_uint,
        block_x: c_uint,
        block_y: c_uint,
        block_z: c_uint,
        shared_bytes: c_uint,
        stream: CUstream,
        params: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) -> Done {
        let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
        launch(function, Shape { grid, block, shared_bytes }, stream, params, extra)
    }

    #[allow(clippy::too_many_arguments, reason = "the vendor's own signature")]
    pub(crate) fn cuLaunchCooperativeKernel(
        function: CUfunction,
        grid_x: c_uint,
        grid_y: c_uint,
        grid_z: c_uint,
        block_x: c_uint,
        block_y: c_uint,
        block_z: c_uint,
        shared_bytes: c_uint,
        stream: CUstream,
        params: *mut *mut c_void,
    ) -> Done {
        let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
        launch(function, Shape { grid, block, shared_bytes }, stream, params, std::ptr::null_mut())
    }

    pub(crate) fn cuLaunchKernelEx(
        config: *const CUlaunchConfig,
        function: CUfunction,
        params: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) -> Done {
        let config = raw::get(config)?;
        let shape = Shape {
            grid: config.grid_dim,
            block: config.block_dim,
            shared_bytes: config.shared_mem_bytes,
        };
        launch(function, shape, config.stream, params, extra)
    }
}
