//! Physical memory by handle (`cuMemCreate`): what it is made of, and where it is while mapped.
//!
//! Private memory exists at one place at a time: at home while it is not mapped, else where it is
//! mapped; its pages are moved, with their contents. Memory that other processes may be given, or
//! that is mapped twice, is a file.

use crate::blocks::{self, BLOCK_BYTES};
use crate::{fault, pages, process};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::MemfdFlags;
use shim_cuda_headers::{CUmemAllocationProp_v1, CUresult};
use simcuda_protocol::{Charge, PATTERN, Reply, Request};
use std::sync::{Mutex, PoisonError};

/// Where memory lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Location {
    Device(i32),
    /// A NUMA node of the host: no card pays for it.
    Host(i32),
}

#[derive(Debug)]
pub(crate) struct Physical {
    pub(crate) number: u64,
    pub(crate) bytes: u64,
    pub(crate) location: Location,
    pub(crate) shareable: bool,
    pub(crate) rdma: u8,
    pub(crate) kind_id: (u32, i32),
    backing: Mutex<Backing>,
}

#[derive(Debug)]
enum Backing {
    /// `away` is where it is mapped.
    Private { home: u64, away: Option<(u64, u64)> },
    /// A file of this process: private memory that is mapped more than once.
    Local { file: OwnedFd },
    /// A file that the machine gave out.
    Shared { file: OwnedFd, chunk: u64 },
}

impl Physical {
    /// Fresh memory.
    pub(crate) fn create(
        number: u64,
        bytes: u64,
        location: Location,
        props: &CUmemAllocationProp_v1,
        shareable: bool,
    ) -> Result<Self, CUresult> {
        let backing = match location {
            Location::Device(device) if shareable => {
                let device = process::card(device)?.number;
                shared(blocks::ask(&Request::MakeChunk { device, bytes })?)?.0
            }
            Location::Device(device) => {
                Backing::Private { home: blocks::take(device, bytes, Charge::Memory)?, away: None }
            }
            Location::Host(_) => Backing::Private { home: blocks::map(bytes)?, away: None },
        };
        let at = props.location;
        let rdma = props.gpu_direct_rdma_capable;
        Ok(Self {
            number,
            bytes,
            location,
            shareable,
            rdma,
            kind_id: (at.kind, at.id),
            backing: Mutex::new(backing),
        })
    }

    /// Memory that another process exported.
    pub(crate) fn import(number: u64, descriptor: &OwnedFd) -> Result<Self, CUresult> {
        let process = process::get()?;
        let answer = process.client.ask_with(&Request::ImportChunk, descriptor.as_fd());
        let (backing, device, bytes) = match answer {
            Ok((Reply::Refused(why), _)) => return Err(blocks::code(why)),
            Ok(answer) => shared(answer)?,
            Err(_) => return Err(CUresult::UNKNOWN),
        };
        let own = process.cards.iter().position(|card| card.number == device);
        let device = own.and_then(|own| i32::try_from(own).ok()).ok_or(CUresult::INVALID_DEVICE)?;
        let location = Location::Device(device);
        let backing = Mutex::new(backing);
        Ok(Self {
            number,
            bytes,
            location,
            shareable: true,
            rdma: 0,
            kind_id: (1, device),
            backing,
        })
    }

    /// Puts the first `bytes` behind reserved addresses.
    pub(crate) fn map(&self, at: u64, bytes: u64) -> Result<(), CUresult> {
        let mut backing = self.backing.lock().unwrap_or_else(PoisonError::into_inner);
        if let Backing::Private { away: Some(_), .. } = &*backing {
            self.make_local(&mut backing)?;
        }
        let done = match &mut *backing {
            Backing::Private { home, away } => {
                *away = Some((at, bytes));
                pages::move_private(*home, at, bytes)
            }
            Backing::Local { file } | Backing::Shared { file, .. } => {
                pages::fill_shared(at, bytes, file.as_fd())
            }
        };
        drop(backing);
        done.map_err(|_| CUresult::OUT_OF_MEMORY)?;
        if fault::breaks_half_way() {
            self.unmap(at, bytes)?;
            return Err(CUresult::OUT_OF_MEMORY);
        }
        Ok(())
    }

    /// Takes the memory from behind the addresses, which stay reserved.
    pub(crate) fn unmap(&self, at: u64, bytes: u64) -> Result<(), CUresult> {
        let mut backing = self.backing.lock().unwrap_or_else(PoisonError::into_inner);
        let done = match &mut *backing {
            Backing::Private { home, away } => {
                *away = None;
                pages::move_private(at, *home, bytes)
            }
            Backing::Local { .. } | Backing::Shared { .. } => pages::empty(at, bytes),
        };
        done.map_err(|_| CUresult::UNKNOWN)
    }

    /// A descriptor that stands for the memory in other processes.
    pub(crate) fn export(&self) -> Result<OwnedFd, CUresult> {
        let backing = self.backing.lock().unwrap_or_else(PoisonError::into_inner);
        let Backing::Shared { chunk, .. } = &*backing else { return Err(CUresult::INVALID_VALUE) };
        let (_, descriptor) = blocks::ask(&Request::ExportChunk { chunk: *chunk })?;
        descriptor.ok_or(CUresult::UNKNOWN)
    }

    /// Makes a file of private memory that is mapped already, and maps that there instead.
    fn make_local(&self, backing: &mut Backing) -> Result<(), CUresult> {
        let Backing::Private { home, away: Some((at, mapped)) } = *backing else { return Ok(()) };
        let refused = |_| CUresult::OUT_OF_MEMORY;
        let file =
            rustix::fs::memfd_create("simcuda-local", MemfdFlags::CLOEXEC).map_err(refused)?;
        rustix::fs::ftruncate(&file, self.bytes).map_err(refused)?;
        let copy = pages::reserve(self.bytes, BLOCK_BYTES, 0).map_err(refused)?;
        pages::fill_shared(copy, self.bytes, file.as_fd()).map_err(refused)?;
        pages::fill(copy, &PATTERN, self.bytes / PATTERN.len() as u64);
        pages::copy(copy, at, mapped);
        pages::fill_shared(at, mapped, file.as_fd()).map_err(refused)?;
        let _ = pages::release(copy, self.bytes);
        let _ = pages::release(home, self.bytes);
        *backing = Backing::Local { file };
        Ok(())
    }
}

fn shared(answer: (Reply, Option<OwnedFd>)) -> Result<(Backing, u32, u64), CUresult> {
    match answer {
        (Reply::Chunk { chunk, device, bytes }, Some(file)) => {
            Ok((Backing::Shared { file, chunk }, device, bytes))
        }
        _ => Err(CUresult::UNKNOWN),
    }
}

/// Neither a handle nor a mapping is left.
impl Drop for Physical {
    fn drop(&mut self) {
        match self.backing.get_mut().unwrap_or_else(PoisonError::into_inner) {
            Backing::Private { home, .. } => {
                let _ = pages::release(*home, self.bytes);
            }
            Backing::Local { .. } => {}
            Backing::Shared { chunk, .. } => {
                let _ = blocks::ask(&Request::DropChunk { chunk: *chunk });
                return;
            }
        }
        if let Location::Device(device) = self.location {
            blocks::release(device, self.bytes, Charge::Memory);
        }
    }
}
