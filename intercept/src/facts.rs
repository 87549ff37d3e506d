//! What a launch is, read from its own parameters by their types: which function or graph, how many
//! threads, on which stream. Written once for all forms; the table's rows fill it in.

use std::ffi::{c_int, c_uint};

use shim_cuda_headers::{CUfunction, CUgraphExec, CUlaunchConfig, CUstream, row::StreamVariant};

/// `CU_STREAM_LEGACY` and `CU_STREAM_PER_THREAD`.
pub(crate) const LEGACY: usize = 1;
pub(crate) const PER_THREAD: usize = 2;

/// A call's parameters, as far as a gate wants to know them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts {
    /// As the call means it: never 0.
    pub(crate) stream: usize,
    pub(crate) function: usize,
    pub(crate) graph: usize,
    /// Plain numbers in their order: a launch's grid, block and shared bytes.
    numbers: [u32; 8],
    count: usize,
    /// Where a new stream is written.
    pub(crate) made: *mut CUstream,
}

impl Facts {
    #[inline]
    pub(crate) fn of(variant: StreamVariant) -> Self {
        let per_thread = matches!(variant, StreamVariant::PerThread);
        let stream = if per_thread { PER_THREAD } else { LEGACY };
        let made = std::ptr::null_mut();
        Self { stream, function: 0, graph: 0, numbers: [0; 8], count: 0, made }
    }

    fn number(&mut self, number: u32) {
        if let Some(place) = self.numbers.get_mut(self.count) {
            *place = number;
            self.count += 1;
        }
    }

    fn stream(&mut self, stream: CUstream) {
        if stream.0 != 0 {
            self.stream = stream.0;
        }
    }

    /// The first plain number: a new stream's flags.
    pub(crate) fn flags(&self) -> u32 {
        self.numbers[0]
    }

    /// Threads of a launch in all, and its dynamic shared bytes. Old forms say less: their block was
    /// set by another call.
    pub(crate) fn size(&self) -> (u64, u32) {
        let sides = self.numbers.iter().take(self.count.min(6));
        let threads = sides.fold(1u64, |all, side| all.saturating_mul(u64::from((*side).max(1))));
        (threads, self.numbers[6])
    }
}

/// A parameter whose type says something.
#[derive(Debug)]
pub(crate) struct Given<T>(pub(crate) T);

/// Takes up what a parameter says. The macro calls `(&Given(parameter)).tell(…)`: where the type says
/// something this is it, and where it does not the trait below is.
impl Given<CUstream> {
    #[inline]
    pub(crate) fn tell(&self, facts: &mut Facts) {
        facts.stream(self.0);
    }
}

impl Given<*mut CUstream> {
    #[inline]
    pub(crate) fn tell(&self, facts: &mut Facts) {
        facts.made = self.0;
    }
}

impl Given<CUfunction> {
    #[inline]
    pub(crate) fn tell(&self, facts: &mut Facts) {
        facts.function = self.0.0;
    }
}

impl Given<CUgraphExec> {
    #[inline]
    pub(crate) fn tell(&self, facts: &mut Facts) {
        facts.graph = self.0.0;
    }
}

impl Given<c_uint> {
    #[inline]
    pub(crate) fn tell(&self, facts: &mut Facts) {
        facts.number(self.0);
    }
}

impl Given<c_int> {
    #[inline]
    pub(crate) fn tell(&self, facts: &mut Facts) {
        facts.number(self.0.cast_unsigned());
    }
}

impl Given<*const CUlaunchConfig> {
    #[inline]
    pub(crate) fn tell(&self, facts: &mut Facts) {
        // SAFETY: null, or the caller's launch description, which the driver is about to read.
        let Some(config) = (unsafe { self.0.as_ref() }) else { return };
        let sides = config.grid_dim.into_iter().chain(config.block_dim);
        sides.for_each(|side| facts.number(side));
        facts.number(config.shared_mem_bytes);
        facts.stream(config.stream);
    }
}

/// Every other type says nothing.
pub(crate) trait Silent {
    #[inline]
    fn tell(&self, _: &mut Facts) {}
}

impl<T> Silent for Given<T> {}
