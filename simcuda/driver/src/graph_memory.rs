//! Memory nodes of graphs: an address that is fixed when the graph is made, with memory behind it
//! from the first launch on, usable between the node that takes and the node that gives.

use crate::blocks::{self, BLOCK_BYTES};
use crate::pages;
use crate::space::{Access, Kind, Region, SPACE};
use rustix::fd::AsFd;
use shim_cuda_headers::CUresult;
use simcuda_protocol::Charge;
use std::sync::{Mutex, PoisonError};

#[derive(Debug)]
pub(crate) struct GraphBlock {
    pub(crate) base: u64,
    size: u64,
    bytes: u64,
    device: i32,
    context: usize,
    /// Whether it is charged and has memory behind it.
    obtained: Mutex<bool>,
}

impl GraphBlock {
    pub(crate) fn new(device: i32, context: usize, size: u64) -> Result<Self, CUresult> {
        let bytes = size.checked_next_multiple_of(BLOCK_BYTES).ok_or(CUresult::OUT_OF_MEMORY)?;
        let base = pages::reserve(bytes, BLOCK_BYTES, 0).map_err(|_| CUresult::OUT_OF_MEMORY)?;
        Ok(Self { base, size, bytes, device, context, obtained: Mutex::new(false) })
    }

    /// Before a launch: the card must have room. Kept until the last graph with the node is gone.
    pub(crate) fn obtain(&self) -> Result<(), CUresult> {
        let mut obtained = self.obtained.lock().unwrap_or_else(PoisonError::into_inner);
        if *obtained {
            return Ok(());
        }
        let pattern = blocks::pattern()?;
        blocks::charge(self.device, self.bytes, Charge::Memory)?;
        if pages::fill_private(self.base, self.bytes, pattern.as_fd()).is_err() {
            blocks::release(self.device, self.bytes, Charge::Memory);
            return Err(CUresult::OUT_OF_MEMORY);
        }
        *obtained = true;
        Ok(())
    }

    /// The node that takes.
    pub(crate) fn begin(&self) {
        SPACE.insert(Region {
            base: self.base,
            size: self.size,
            span: self.bytes,
            kind: Kind::Graph,
            context: self.context,
            device: self.device,
            access: Access::ReadWrite,
            id: SPACE.fresh_id(),
        });
    }

    /// The node that gives.
    pub(crate) fn end(&self) {
        SPACE.remove(self.base, |region| region.kind == Kind::Graph);
    }
}

impl Drop for GraphBlock {
    fn drop(&mut self) {
        self.end();
        SPACE.settle();
        let _ = pages::release(self.base, self.bytes);
        if *self.obtained.get_mut().unwrap_or_else(PoisonError::into_inner) {
            blocks::release(self.device, self.bytes, Charge::Memory);
        }
    }
}
