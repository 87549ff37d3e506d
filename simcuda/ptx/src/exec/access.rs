//! Loads and stores of a warp. Lanes that touch neighbouring memory share one call of the
//! implementer's `Memory`.

use crate::lanes::{ALL, Row, WARP, lanes};
use crate::program::Access;
use crate::types::{Space, window};
use crate::{Fault, Memory};

/// The memories a thread can reach.
pub(crate) struct Env<'e> {
    pub(crate) memory: &'e dyn Memory,
    pub(crate) params: &'e [u8],
    pub(crate) shared: &'e mut Vec<u8>,
    pub(crate) local: &'e mut Vec<Vec<u8>>,
}

/// Most bytes of one element vector: four of eight.
const MOST_BYTES: usize = 32;

/// Room for the elements of a run.
pub(crate) type Scratch = [u8; MOST_BYTES * WARP];

/// Which memory an address means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Home {
    Device,
    Shared,
    Local,
    Param,
}

impl Env<'_> {
    /// The memory that `address` means in `space`, and the address within it.
    pub(crate) fn home(space: Space, address: u64) -> (Home, u64) {
        match space {
            Space::Global | Space::Const => (Home::Device, address),
            Space::Shared => (Home::Shared, address),
            Space::Local => (Home::Local, address),
            Space::Param => (Home::Param, address),
            Space::Generic | Space::Reg => {
                for (base, home) in [
                    (window::SHARED, Home::Shared),
                    (window::LOCAL, Home::Local),
                    (window::PARAM, Home::Param),
                ] {
                    if window::holds(base, address) {
                        return (home, address - base);
                    }
                }
                (Home::Device, address)
            }
        }
    }

    pub(crate) fn read(
        &mut self,
        lane: usize,
        home: Home,
        address: u64,
        into: &mut [u8],
    ) -> Result<(), Fault> {
        let from: &[u8] = match home {
            Home::Device if address >= window::SHARED => &[],
            Home::Device => return self.memory.read(address, into),
            Home::Shared => self.shared,
            Home::Local => &self.local[lane],
            Home::Param => self.params,
        };
        match range(from.len(), address, into.len()) {
            Some(at) => {
                into.copy_from_slice(&from[at..at + into.len()]);
                Ok(())
            }
            // Parameters that the launch did not give read as zero.
            None if home == Home::Param => {
                into.fill(0);
                Ok(())
            }
            None => Err(outside(home, address, into.len(), false)),
        }
    }

    pub(crate) fn write(
        &mut self,
        lane: usize,
        home: Home,
        address: u64,
        from: &[u8],
    ) -> Result<(), Fault> {
        let into: &mut [u8] = match home {
            Home::Device if address >= window::SHARED => &mut [],
            Home::Device => return self.memory.write(address, from),
            Home::Shared => self.shared,
            Home::Local => &mut self.local[lane],
            Home::Param => &mut [],
        };
        match range(into.len(), address, from.len()) {
            Some(at) => {
                into[at..at + from.len()].copy_from_slice(from);
                Ok(())
            }
            None => Err(outside(home, address, from.len(), true)),
        }
    }
}

fn range(length: usize, address: u64, bytes: usize) -> Option<usize> {
    let at = usize::try_from(address).ok()?;
    (at.checked_add(bytes)? <= length).then_some(at)
}

/// The fault of an access to the interpreter's own memory, by its generic address.
pub(crate) fn outside(home: Home, address: u64, bytes: usize, write: bool) -> Fault {
    let base = match home {
        Home::Device => 0,
        Home::Shared => window::SHARED,
        Home::Local => window::LOCAL,
        Home::Param => window::PARAM,
    };
    Fault::Address { address: base.wrapping_add(address), bytes, write }
}

/// Neighbouring lanes whose elements follow each other in one memory.
struct Run {
    home: Home,
    start: u64,
    lanes: u32,
    /// Which element of the run each lane means.
    element: [u8; WARP],
    elements: usize,
}

/// The lanes of `active` in runs. `share` lets lanes with the same address share an element.
fn runs(
    rows: &[Row],
    active: u32,
    access: &Access,
    share: bool,
    mut visit: impl FnMut(&Run) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let size = (access.bytes * access.count) as u64;
    let row = &rows[access.address as usize];
    if let Some(run) = whole_warp(row, active, access, share) {
        return visit(&run);
    }
    let mut run: Option<Run> = None;
    for lane in lanes(active) {
        let address = row[lane].wrapping_add(access.offset);
        if address & (size - 1) != 0 {
            return Err(Fault::Misaligned { address });
        }
        let (home, address) = Env::home(access.space, address);
        if let Some(run) = &mut run
            && run.home == home
            && home != Home::Local
        {
            let behind = address.wrapping_sub(run.start);
            let last = (run.elements - 1) as u64 * size;
            if behind == last + size || share && behind == last {
                run.elements += usize::from(behind != last);
                run.element[lane] = (run.elements - 1) as u8;
                run.lanes |= 1 << lane;
                continue;
            }
        }
        if let Some(done) = run.take() {
            visit(&done)?;
        }
        let lanes = 1 << lane;
        run = Some(Run { home, start: address, lanes, element: [0; WARP], elements: 1 });
    }
    run.as_ref().map_or(Ok(()), visit)
}

/// The two commonest cases without a walk over the lanes: all lanes in a row, or all at one place.
fn whole_warp(row: &Row, active: u32, access: &Access, share: bool) -> Option<Run> {
    let size = (access.bytes * access.count) as u64;
    let address = row[0].wrapping_add(access.offset);
    let (home, start) = Env::home(access.space, address);
    if active != ALL || home == Home::Local || address & (size - 1) != 0 {
        return None;
    }
    let apart = |step: u64| {
        row.iter().enumerate().all(|(lane, &at)| at == row[0].wrapping_add(lane as u64 * step))
    };
    let (elements, element) = if apart(size) {
        (WARP, std::array::from_fn(|lane| lane as u8))
    } else if share && apart(0) {
        (1, [0; WARP])
    } else {
        return None;
    };
    Some(Run { home, start, lanes: ALL, element, elements })
}

/// Shared memory lane by lane: for addresses that follow no order, which runs would only slow down.
fn each_shared(
    addresses: &Row,
    active: u32,
    access: &Access,
    length: usize,
    write: bool,
    mut visit: impl FnMut(usize, usize),
) -> Result<(), Fault> {
    let size = access.bytes * access.count;
    for lane in lanes(active) {
        let address = addresses[lane].wrapping_add(access.offset);
        if address & (size as u64 - 1) != 0 {
            return Err(Fault::Misaligned { address });
        }
        match range(length, address, size) {
            Some(at) => visit(lane, at),
            None => return Err(outside(Home::Shared, address, size, write)),
        }
    }
    Ok(())
}

/// Whether `each_shared` is for this access.
fn is_scattered(row: &Row, active: u32, access: &Access, share: bool) -> bool {
    access.space == Space::Shared && whole_warp(row, active, access, share).is_none()
}

pub(crate) fn load(
    env: &mut Env<'_>,
    scratch: &mut Scratch,
    rows: &mut [Row],
    active: u32,
    access: &Access,
) -> Result<(), Fault> {
    let size = access.bytes * access.count;
    // A register of the address may be a destination too.
    let addresses = [rows[access.address as usize]];
    if is_scattered(&addresses[0], active, access, true) {
        let shared = env.shared.as_slice();
        return each_shared(&addresses[0], active, access, shared.len(), false, |lane, at| {
            for (i, &register) in access.registers[..access.count].iter().enumerate() {
                let at = at + i * access.bytes;
                let value = number(&shared[at..at + access.bytes]);
                rows[register as usize][lane] = extended(value, access);
            }
        });
    }
    let access_here = Access { address: 0, registers: access.registers, ..*access };
    runs(&addresses, active, &access_here, true, |run| {
        let bytes = &mut scratch[..run.elements * size];
        let lane = run.lanes.trailing_zeros() as usize;
        if let Err(fault) = env.read(lane, run.home, run.start, bytes) {
            if run.elements == 1 {
                return Err(fault);
            }
            // The run may cross from one allocation into another: element by element, then.
            for (i, element) in bytes.chunks_exact_mut(size).enumerate() {
                env.read(lane, run.home, run.start.wrapping_add((i * size) as u64), element)?;
            }
        }
        for lane in lanes(run.lanes) {
            let first = usize::from(run.element[lane]) * size;
            for (i, &register) in access.registers[..access.count].iter().enumerate() {
                let at = first + i * access.bytes;
                let value = number(&bytes[at..at + access.bytes]);
                rows[register as usize][lane] = extended(value, access);
            }
        }
        Ok(())
    })
}

pub(crate) fn store(
    env: &mut Env<'_>,
    scratch: &mut Scratch,
    rows: &mut [Row],
    active: u32,
    access: &Access,
) -> Result<(), Fault> {
    let size = access.bytes * access.count;
    let rows = &*rows;
    let addresses = &rows[access.address as usize];
    if is_scattered(addresses, active, access, false) {
        let shared = env.shared.as_mut_slice();
        return each_shared(addresses, active, access, shared.len(), true, |lane, at| {
            for (i, &register) in access.registers[..access.count].iter().enumerate() {
                let at = at + i * access.bytes;
                let value = rows[register as usize][lane].to_le_bytes();
                shared[at..at + access.bytes].copy_from_slice(&value[..access.bytes]);
            }
        });
    }
    runs(rows, active, access, false, |run| {
        let bytes = &mut scratch[..run.elements * size];
        for lane in lanes(run.lanes) {
            let first = usize::from(run.element[lane]) * size;
            for (i, &register) in access.registers[..access.count].iter().enumerate() {
                let value = rows[register as usize][lane].to_le_bytes();
                let at = first + i * access.bytes;
                bytes[at..at + access.bytes].copy_from_slice(&value[..access.bytes]);
            }
        }
        let lane = run.lanes.trailing_zeros() as usize;
        if let Err(fault) = env.write(lane, run.home, run.start, bytes) {
            if run.elements == 1 {
                return Err(fault);
            }
            for (i, element) in bytes.chunks_exact(size).enumerate() {
                env.write(lane, run.home, run.start.wrapping_add((i * size) as u64), element)?;
            }
        }
        Ok(())
    })
}

#[inline(always)]
fn number(bytes: &[u8]) -> u64 {
    match *bytes {
        [a, b, c, d] => u32::from_le_bytes([a, b, c, d]).into(),
        [a, b] => u16::from_le_bytes([a, b]).into(),
        [a] => a.into(),
        _ => {
            let mut whole = [0; 8];
            whole.copy_from_slice(bytes);
            u64::from_le_bytes(whole)
        }
    }
}

#[inline(always)]
fn extended(value: u64, access: &Access) -> u64 {
    if access.sign_bits == 0 {
        return value;
    }
    let spare = 64 - access.sign_bits;
    ((value << spare) as i64 >> spare) as u64 & access.register_mask
}
