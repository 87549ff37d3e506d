//! Plain memory and events for other processes, by handles of 64 bytes that any channel may carry.

use crate::blocks::BLOCK_BYTES;
use crate::context::{self, CONTEXTS};
use crate::entry::{Done, Sim};
use crate::space::{Access, Kind, Region, SPACE};
use crate::{event, raw, shared_blocks};
use shim_cuda_headers::*;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ffi::c_uint;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The only flag there is, and it must be given.
const LAZY_PEER_ACCESS: c_uint = 1;

/// What a handle says; nothing in it is secret or an address.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Words {
    kind: u64,
    token: u64,
    /// The process that made it.
    process: u64,
    offset: u64,
    size: u64,
    /// Never the same for two allocations of a process.
    id: u64,
    rest: [u64; 2],
}

const MEMORY: u64 = 0x5349_4D4D_454D_4F52;
const EVENT: u64 = 0x5349_4D45_5645_4E54;

const _: () = assert!(size_of::<Words>() == size_of::<CUipcMemHandle_v1>());

impl Words {
    fn new(kind: u64, token: u64) -> Self {
        let process = u64::from(std::process::id());
        Self { kind, token, process, offset: 0, size: 0, id: 0, rest: [0; 2] }
    }

    fn read(bytes: &[u8; 64], kind: u64) -> Result<Self, CUresult> {
        let words: Self = raw::get(bytes.as_ptr().cast())?;
        if words.kind == kind { Ok(words) } else { Err(CUresult::INVALID_HANDLE) }
    }
}

/// A chunk of another process that is mapped here, and how often each part of it was opened.
#[derive(Debug)]
struct Opened {
    base: u64,
    parts: BTreeMap<u64, u32>,
}

/// By context (0 for a pool's) and number at the machine.
type Table = BTreeMap<(usize, u64), Opened>;

static OPENED: Mutex<Table> = Mutex::new(BTreeMap::new());

fn opened() -> MutexGuard<'static, Table> {
    OPENED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes a part of another process's chunk usable here; once more, if it is already.
pub(crate) fn open(
    context: &context::Context,
    owner: usize,
    token: u64,
    part: (u64, u64),
    kind: Kind,
) -> Result<u64, CUresult> {
    let (offset, size) = part;
    let mut table = opened();
    let found = match table.entry((owner, token)) {
        Entry::Occupied(found) => found.into_mut(),
        Entry::Vacant(place) => {
            let (base, _, _) = shared_blocks::import(token)?;
            place.insert(Opened { base, parts: BTreeMap::new() })
        }
    };
    let address = found.base + offset;
    let count = found.parts.entry(offset).or_insert(0);
    *count += 1;
    if *count == 1 {
        SPACE.insert(Region {
            base: address,
            size,
            span: size,
            kind,
            context: context.handle,
            device: context.device,
            access: Access::ReadWrite,
            id: SPACE.fresh_id(),
        });
    }
    Ok(address)
}

/// Takes one opening back; with the last one the part is gone, and with the last part the chunk.
pub(crate) fn close(address: u64) -> Done {
    let mut table = opened();
    let found = table.iter_mut().find_map(|(key, opened)| {
        let offset = address.checked_sub(opened.base)?;
        opened.parts.contains_key(&offset).then_some((*key, offset))
    });
    let (key, offset) = found.ok_or(CUresult::INVALID_VALUE)?;
    let Some(chunk) = table.get_mut(&key) else { return Err(CUresult::INVALID_VALUE) };
    if let Some(count) = chunk.parts.get_mut(&offset) {
        *count -= 1;
        if *count > 0 {
            return Ok(());
        }
    }
    chunk.parts.remove(&offset);
    let (base, is_last) = (chunk.base, chunk.parts.is_empty());
    if is_last {
        table.remove(&key);
    }
    drop(table);
    SPACE.remove(address, |region| matches!(region.kind, Kind::Imported(_)));
    SPACE.settle();
    if is_last {
        shared_blocks::give(base);
    }
    Ok(())
}

/// The context ends, and what it opened with it.
pub(crate) fn forget_all(context: usize) {
    let of_it =
        |region: &Region| matches!(region.kind, Kind::Imported(_)) && region.context == context;
    for region in SPACE.remove_all(of_it) {
        // It is in the table as often as it was opened.
        while close(region.base).is_ok() {}
    }
}

/// The block that plain memory lies in, made one that can be shared.
fn shareable_block(region: &Region) -> Result<u64, CUresult> {
    if let Some(base) = shared_blocks::base_of(region.base) {
        return Ok(base);
    }
    let context = CONTEXTS.get(region.context).ok_or(CUresult::INVALID_VALUE)?;
    // Its pages are exchanged: nothing may be writing to them.
    context.engine.wait_idle();
    context.engine.check()?;
    let (base, bytes) = if region.size >= BLOCK_BYTES {
        (region.base, region.span)
    } else {
        let arena = context.arena.lock().unwrap_or_else(PoisonError::into_inner);
        arena.chunk_at(region.base).ok_or(CUresult::INVALID_VALUE)?
    };
    shared_blocks::convert(region.device, base, bytes)?;
    Ok(base)
}

impl Sim {
    pub(crate) fn cuIpcGetMemHandle(handle: *mut CUipcMemHandle_v1, address: CUdeviceptr) -> Done {
        context::working()?;
        let region = SPACE.find(address).filter(|region| region.kind == Kind::Linear);
        let region = region.ok_or(CUresult::INVALID_VALUE)?;
        if handle.is_null() {
            return Err(CUresult::INVALID_VALUE);
        }
        let base = shareable_block(&region)?;
        let token = shared_blocks::export(base)?;
        let words = Words {
            offset: region.base - base,
            size: region.size,
            id: region.id,
            ..Words::new(MEMORY, token)
        };
        raw::put(handle.cast(), words)
    }

    pub(crate) fn cuIpcOpenMemHandle_v2(
        address: *mut CUdeviceptr,
        handle: CUipcMemHandle_v1,
        flags: c_uint,
    ) -> Done {
        let context = context::working()?;
        if address.is_null() || flags != LAZY_PEER_ACCESS {
            return Err(CUresult::INVALID_VALUE);
        }
        let words = Words::read(&handle.bytes, MEMORY)?;
        // Not for the process that it comes from.
        if words.process == u64::from(std::process::id()) {
            return Err(CUresult::INVALID_CONTEXT);
        }
        let part = (words.offset, words.size);
        let kind = Kind::Imported(0);
        let opened = open(&context, context.handle, words.token, part, kind);
        raw::put(
            address,
            opened.map_err(|code| match code {
                // The memory is gone, or never was.
                CUresult::INVALID_VALUE => CUresult::INVALID_HANDLE,
                other => other,
            })?,
        )
    }

    pub(crate) fn cuIpcOpenMemHandle(
        address: *mut CUdeviceptr,
        handle: CUipcMemHandle_v1,
        flags: c_uint,
    ) -> Done {
        Self::cuIpcOpenMemHandle_v2(address, handle, flags)
    }

    pub(crate) fn cuIpcCloseMemHandle(address: CUdeviceptr) -> Done {
        let context = context::current()?;
        let imported = |region: &Region| region.kind == Kind::Imported(0);
        SPACE.find(address).filter(imported).ok_or(CUresult::INVALID_VALUE)?;
        context.engine.wait_idle();
        close(address)
    }

    pub(crate) fn cuIpcGetEventHandle(handle: *mut CUipcEventHandle_v1, event: CUevent) -> Done {
        if handle.is_null() {
            return Err(CUresult::INVALID_VALUE);
        }
        raw::put(handle.cast(), Words::new(EVENT, event::export(event)?))
    }

    pub(crate) fn cuIpcOpenEventHandle(event: *mut CUevent, handle: CUipcEventHandle_v1) -> Done {
        let context = context::working()?;
        let words = Words::read(&handle.bytes, EVENT)?;
        if event.is_null() {
            return Err(CUresult::INVALID_VALUE);
        }
        if words.process == u64::from(std::process::id()) {
            return Err(CUresult::INVALID_CONTEXT);
        }
        raw::put(event, event::import(&context, words.token)?)
    }
}
