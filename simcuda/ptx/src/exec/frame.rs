//! Activations of functions: registers and a stretch of local memory for the lanes that called
//! together.

use super::Context;
use super::block::Place as BlockPlace;
use crate::Fault;
use crate::lanes::{Reg, Row, WARP, lanes};
use crate::program::{Place, Special};
use crate::types::window;

/// The registers of a function as they are before its first instruction.
pub(crate) struct Image {
    pub(crate) rows: Vec<Row>,
    /// Registers that depend on the frame.
    pub(crate) local: Vec<(Reg, u64)>,
    /// Registers that depend on the warp.
    pub(crate) special: Vec<(Reg, Special)>,
}

impl Image {
    pub(crate) fn new(registers: usize) -> Self {
        Self { rows: vec![[0; WARP]; registers], local: Vec::new(), special: Vec::new() }
    }
}

#[derive(Default)]
pub(crate) struct Frame {
    pub(crate) rows: Vec<Row>,
    pub(crate) function: usize,
    pub(crate) parent: Option<usize>,
    pub(crate) return_pc: u32,
    /// Lanes that have not returned.
    pub(crate) lanes: u32,
    pub(crate) local_base: usize,
    pub(crate) depth: u32,
    registers: usize,
}

/// Local memory of one thread before its stack counts as overflowed.
const MAX_LOCAL_BYTES: usize = 1 << 20;
const MAX_DEPTH: u32 = 1 << 12;
/// Rows of registers that the calls of one warp may have together: 32 MiB.
const MAX_ROWS: usize = 1 << 17;

/// The frames of a warp, and the local memory of its lanes.
#[derive(Default)]
pub(crate) struct Frames {
    list: Vec<Frame>,
    free: Vec<usize>,
    pub(crate) local: Vec<Vec<u8>>,
    /// Rows of the frames in use.
    rows: usize,
}

impl Frames {
    pub(crate) fn clear(&mut self) {
        self.free.clear();
        self.rows = 0;
        self.free.extend((0..self.list.len()).rev());
        self.local.resize_with(WARP, Vec::new);
        self.local.iter_mut().for_each(Vec::clear);
    }

    pub(crate) fn get(&self, index: usize) -> &Frame {
        &self.list[index]
    }

    pub(crate) fn get_mut(&mut self, index: usize) -> &mut Frame {
        &mut self.list[index]
    }

    /// A frame for `lanes` calling `function` from `parent`.
    pub(crate) fn push(
        &mut self,
        context: &Context<'_>,
        place: &BlockPlace,
        function: usize,
        parent: Option<(usize, u32)>,
        called_by: u32,
    ) -> Result<usize, Fault> {
        let (local_base, depth) = parent.map_or((0, 0), |(index, _)| {
            let frame = self.get(index);
            let own = context.program.functions[frame.function].local_bytes;
            (frame.local_base + own, frame.depth + 1)
        });
        let local_end = local_base + context.program.functions[function].local_bytes;
        let rows = context.program.functions[function].registers as usize;
        let fits = self.rows + rows <= MAX_ROWS || parent.is_none();
        if local_end > MAX_LOCAL_BYTES || depth > MAX_DEPTH || !fits {
            let address = window::LOCAL + local_end as u64;
            return Err(Fault::Address { address, bytes: 1, write: true });
        }
        for lane in lanes(called_by) {
            if self.local[lane].len() < local_end {
                self.local[lane].resize(local_end, 0);
            }
        }
        let index = self.free.pop().unwrap_or_else(|| {
            self.list.push(Frame::default());
            self.list.len() - 1
        });
        self.rows += rows;
        let image = context.image(function);
        let frame = &mut self.list[index];
        frame.rows.clear();
        frame.rows.extend_from_slice(&image.rows);
        for &(register, offset) in &image.local {
            frame.rows[register as usize] = [offset.wrapping_add(local_base as u64); WARP];
        }
        for &(register, special) in &image.special {
            frame.rows[register as usize] = place.special(context, special);
        }
        frame.function = function;
        frame.parent = parent.map(|(index, _)| index);
        frame.return_pc = parent.map_or(0, |(_, pc)| pc);
        frame.lanes = called_by;
        frame.local_base = local_base;
        frame.depth = depth;
        frame.registers = rows;
        Ok(index)
    }

    /// `gone` have left the frame, by returning.
    pub(crate) fn leave(&mut self, index: usize, gone: u32) {
        let frame = &mut self.list[index];
        frame.lanes &= !gone;
        if frame.lanes == 0 {
            // The registers of a running strand are in its hands: their number is remembered.
            self.rows = self.rows.saturating_sub(frame.registers);
            self.free.push(index);
        }
    }

    /// `gone` have left the frame and all that called it.
    pub(crate) fn exit(&mut self, index: usize, gone: u32) {
        let mut next = Some(index);
        while let Some(index) = next {
            next = self.list[index].parent;
            self.leave(index, gone);
        }
    }

    /// Hands a value from one frame's place to another's.
    pub(crate) fn copy(&mut self, active: u32, from: (usize, Place), to: (usize, Place)) {
        for lane in lanes(active) {
            match (from.1, to.1) {
                (Place::Local { offset, size }, Place::Local { offset: target, size: room }) => {
                    let start = self.list[from.0].local_base + offset;
                    let target = self.list[to.0].local_base + target;
                    let size = size.min(room);
                    self.local[lane].copy_within(start..start + size, target);
                }
                (source, target) => {
                    let value = self.value(lane, from.0, source);
                    self.set(lane, to.0, target, value);
                }
            }
        }
    }

    pub(crate) fn set(&mut self, lane: usize, frame: usize, place: Place, value: u64) {
        let frame = &mut self.list[frame];
        match place {
            Place::Register(register) => frame.rows[register as usize][lane] = value,
            Place::Local { offset, size } => {
                let start = frame.local_base + offset;
                let size = size.min(8);
                let bytes = &value.to_le_bytes()[..size];
                self.local[lane][start..start + size].copy_from_slice(bytes);
            }
        }
    }

    /// What a place holds, up to eight bytes of it.
    pub(crate) fn value(&self, lane: usize, frame: usize, place: Place) -> u64 {
        let frame = &self.list[frame];
        match place {
            Place::Register(register) => frame.rows[register as usize][lane],
            Place::Local { offset, size } => {
                let start = frame.local_base + offset;
                let mut bytes = [0; 8];
                let size = size.min(8);
                bytes[..size].copy_from_slice(&self.local[lane][start..start + size]);
                u64::from_le_bytes(bytes)
            }
        }
    }
}
