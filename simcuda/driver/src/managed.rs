//! Managed memory: advice and prefetches, which are remembered and move nothing (it is where it
//! is), what was advised, discarding, attaching to a stream.

use crate::command::{Fill, Work};
use crate::entry::{Done, Sim};
use crate::space::{Kind, Region, SPACE};
use crate::stream::{self, Stream};
use crate::{context, process, raw};
use shim_cuda_headers::*;
use simcuda_protocol::PATTERN;
use std::ffi::{c_int, c_uint, c_ulonglong, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Ways to write that there is no such place: in device numbers, and in places.
const NO_DEVICE: c_int = -2;
const HOST_DEVICE: c_int = -1;
const NOWHERE: CUmemLocation = CUmemLocation { kind: 0, id: NO_DEVICE };

const ON_DEVICE: u32 = 1;
const ON_HOST: u32 = 2;
const ON_NODE: u32 = 4;

/// What can be known of a range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fact {
    ReadMostly,
    Preferred,
    AccessedBy(c_int),
    Prefetched,
}

/// A fact about a range, the latest last.
#[derive(Clone, Copy, Debug)]
struct Said {
    allocation: u64,
    start: u64,
    end: u64,
    fact: Fact,
    /// `NOWHERE` takes it back.
    place: CUmemLocation,
}

static SAID: Mutex<Vec<Said>> = Mutex::new(Vec::new());

fn said() -> MutexGuard<'static, Vec<Said>> {
    SAID.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The managed allocation that holds the whole range.
fn managed(start: u64, bytes: usize) -> Result<Region, CUresult> {
    context::working()?;
    let region = SPACE.find(start).filter(|region| region.kind == Kind::Managed);
    let region = region.ok_or(CUresult::INVALID_VALUE)?;
    let end = start.checked_add(bytes as u64).ok_or(CUresult::INVALID_VALUE)?;
    if bytes == 0 || end > region.end() { Err(CUresult::INVALID_VALUE) } else { Ok(region) }
}

fn check_place(place: CUmemLocation) -> Done {
    match place.kind {
        ON_DEVICE => process::card(place.id).map(drop),
        ON_HOST..=ON_NODE => Ok(()),
        _ => Err(CUresult::INVALID_VALUE),
    }
}

/// The older calls' numbers as places.
fn place_of(device: CUdevice) -> CUmemLocation {
    match device {
        HOST_DEVICE => CUmemLocation { kind: ON_HOST, id: 0 },
        device => CUmemLocation { kind: ON_DEVICE, id: device },
    }
}

fn say(region: &Region, start: u64, bytes: usize, fact: Fact, place: CUmemLocation) {
    let mut said = said();
    said.retain(|old| SPACE.find(old.start).is_some_and(|r| r.id == old.allocation));
    let end = start + bytes as u64;
    // What is covered whole is forgotten.
    said.retain(|old| old.fact != fact || old.start < start || old.end > end);
    said.push(Said { allocation: region.id, start, end, fact, place });
}

fn advise(start: u64, bytes: usize, advice: CUmem_advise, place: CUmemLocation) -> Done {
    let region = managed(start, bytes)?;
    if matches!(advice, 3 | 5 | 6) {
        check_place(place)?;
    }
    let by = if place.kind == ON_DEVICE { place.id } else { HOST_DEVICE };
    let (fact, place) = match advice {
        1 => (Fact::ReadMostly, CUmemLocation { kind: ON_DEVICE, id: 0 }),
        2 => (Fact::ReadMostly, NOWHERE),
        3 => (Fact::Preferred, place),
        4 => (Fact::Preferred, NOWHERE),
        5 => (Fact::AccessedBy(by), place),
        6 => (Fact::AccessedBy(by), NOWHERE),
        _ => return Err(CUresult::INVALID_VALUE),
    };
    say(&region, start, bytes, fact, place);
    Ok(())
}

fn prefetch(start: u64, bytes: usize, place: CUmemLocation, stream: &Stream) -> Done {
    let region = managed(start, bytes)?;
    check_place(place)?;
    if stream.is_capturing() {
        return Err(crate::capture::invalidate(stream, CUresult::STREAM_CAPTURE_UNSUPPORTED));
    }
    stream.submit(Work::Nothing)?;
    say(&region, start, bytes, Fact::Prefetched, place);
    Ok(())
}

/// Where the fact holds for all of the range: the one place, or nowhere.
fn known(allocation: u64, start: u64, bytes: usize, fact: Fact) -> CUmemLocation {
    let end = start + bytes as u64;
    let said = said();
    let about: Vec<&Said> = said
        .iter()
        .filter(|one| one.allocation == allocation && one.fact == fact)
        .filter(|one| one.start < end && one.end > start)
        .collect();
    let mut cuts = vec![start];
    cuts.extend(about.iter().flat_map(|one| [one.start, one.end]));
    cuts.retain(|cut| (start..end).contains(cut));
    let at = |cut: u64| {
        let latest = about.iter().rev().find(|one| (one.start..one.end).contains(&cut));
        latest.map_or(NOWHERE, |one| one.place)
    };
    let first = at(start);
    if cuts.into_iter().all(|cut| at(cut) == first) { first } else { NOWHERE }
}

/// A place in the numbers of the older attributes.
fn number_of(place: CUmemLocation) -> c_int {
    match place.kind {
        ON_DEVICE => place.id,
        0 => NO_DEVICE,
        _ => HOST_DEVICE,
    }
}

fn answer(
    to: *mut c_void,
    room: usize,
    attribute: CUmem_range_attribute,
    start: u64,
    bytes: usize,
) -> Done {
    let allocation = managed(start, bytes)?.id;
    let to = to.cast::<c_int>();
    let words = room / size_of::<c_int>();
    if to.is_null() || !room.is_multiple_of(size_of::<c_int>()) || words == 0 {
        return Err(CUresult::INVALID_VALUE);
    }
    let of = |fact| known(allocation, start, bytes, fact);
    let one = match attribute {
        1 => c_int::from(of(Fact::ReadMostly) != NOWHERE),
        2 => number_of(of(Fact::Preferred)),
        3 => return put_accessing(to, words, |device| of(Fact::AccessedBy(device))),
        4 => number_of(of(Fact::Prefetched)),
        5 => of(Fact::Preferred).kind.cast_signed(),
        6 => of(Fact::Preferred).id,
        7 => of(Fact::Prefetched).kind.cast_signed(),
        8 => of(Fact::Prefetched).id,
        _ => return Err(CUresult::INVALID_VALUE),
    };
    if words != 1 {
        return Err(CUresult::INVALID_VALUE);
    }
    raw::put(to, one)
}

/// All devices that were said to access the whole range, then "none" as often as there is room.
fn put_accessing(to: *mut c_int, words: usize, place_of: impl Fn(c_int) -> CUmemLocation) -> Done {
    let cards = process::get()?.cards.len() as c_int;
    let mut found = (HOST_DEVICE..cards).filter(|device| place_of(*device) != NOWHERE);
    for index in 0..words {
        raw::put_at(to, index, found.next().unwrap_or(NO_DEVICE))?;
    }
    Ok(())
}

/// Ranges and the places that they go to: the n-th place is for the ranges from its index on.
struct Batch {
    ranges: Vec<(u64, usize)>,
    places: Vec<CUmemLocation>,
}

impl Batch {
    fn read(
        starts: *mut CUdeviceptr,
        sizes: *mut usize,
        count: usize,
        places: (*mut CUmemLocation, *mut usize, usize),
    ) -> Result<Self, CUresult> {
        let starts = raw::get_all(starts, count)?;
        let ranges: Vec<_> = starts.into_iter().zip(raw::get_all(sizes, count)?).collect();
        let (list, firsts, kinds) = places;
        let firsts = raw::get_all(firsts, kinds)?;
        let list = raw::get_all(list, kinds)?;
        let rising = firsts.windows(2).all(|pair| pair[0] < pair[1]);
        if count == 0 || firsts.first() != Some(&0) || !rising || kinds > count {
            return Err(CUresult::INVALID_VALUE);
        }
        let of = |index| list[firsts.partition_point(|first| *first <= index) - 1];
        let places: Vec<_> = (0..count).map(of).collect();
        for ((start, bytes), place) in ranges.iter().zip(&places) {
            managed(*start, *bytes)?;
            check_place(*place)?;
        }
        Ok(Self { ranges, places })
    }
}

/// What a discarded range holds afterwards is anything; here it is what fresh memory holds.
fn discard(start: u64, bytes: usize, stream: &Stream) -> Done {
    let fill = Fill {
        base: start,
        value: u32::from_le_bytes(PATTERN),
        element_bytes: 4,
        width: bytes as u64 / 4,
        height: 1,
        pitch: 0,
    };
    stream.submit(Work::Fill(fill)).map(drop)
}

impl Sim {
    /// Partial: remembered, moves nothing.
    pub(crate) fn cuMemAdvise(
        pointer: CUdeviceptr,
        bytes: usize,
        advice: CUmem_advise,
        device: CUdevice,
    ) -> Done {
        advise(pointer, bytes, advice, place_of(device))
    }

    /// Partial: remembered, moves nothing.
    pub(crate) fn cuMemAdvise_v2(
        pointer: CUdeviceptr,
        bytes: usize,
        advice: CUmem_advise,
        place: CUmemLocation,
    ) -> Done {
        advise(pointer, bytes, advice, place)
    }

    /// Partial: remembered, moves nothing.
    pub(crate) fn cuMemPrefetchAsync(
        pointer: CUdeviceptr,
        bytes: usize,
        device: CUdevice,
        stream: CUstream,
    ) -> Done {
        prefetch(pointer, bytes, place_of(device), &*stream::resolve(stream)?)
    }

    /// Partial: remembered, moves nothing.
    pub(crate) fn cuMemPrefetchAsync_v2(
        pointer: CUdeviceptr,
        bytes: usize,
        place: CUmemLocation,
        flags: c_uint,
        stream: CUstream,
    ) -> Done {
        if flags != 0 {
            return Err(CUresult::INVALID_VALUE);
        }
        prefetch(pointer, bytes, place, &*stream::resolve(stream)?)
    }

    /// Partial: remembered, moves nothing.
    #[allow(clippy::too_many_arguments, reason = "the vendor's own signature")]
    pub(crate) fn cuMemPrefetchBatchAsync(
        starts: *mut CUdeviceptr,
        sizes: *mut usize,
        count: usize,
        places: *mut CUmemLocation,
        firsts: *mut usize,
        kinds: usize,
        flags: c_ulonglong,
        stream: CUstream,
    ) -> Done {
        let stream = stream::resolve(stream)?;
        let batch = Batch::read(starts, sizes, count, (places, firsts, kinds))?;
        if flags != 0 {
            return Err(CUresult::INVALID_VALUE);
        }
        let mut both = batch.ranges.iter().zip(&batch.places);
        both.try_for_each(|((start, bytes), place)| prefetch(*start, *bytes, *place, &stream))
    }

    pub(crate) fn cuMemDiscardBatchAsync(
        starts: *mut CUdeviceptr,
        sizes: *mut usize,
        count: usize,
        flags: c_ulonglong,
        stream: CUstream,
    ) -> Done {
        let stream = stream::resolve(stream)?;
        let starts = raw::get_all(starts, count)?;
        let ranges: Vec<_> = starts.into_iter().zip(raw::get_all(sizes, count)?).collect();
        if flags != 0 || count == 0 {
            return Err(CUresult::INVALID_VALUE);
        }
        ranges.iter().try_for_each(|(start, bytes)| managed(*start, *bytes).map(drop))?;
        ranges.iter().try_for_each(|(start, bytes)| discard(*start, *bytes, &stream))
    }

    #[allow(clippy::too_many_arguments, reason = "the vendor's own signature")]
    pub(crate) fn cuMemDiscardAndPrefetchBatchAsync(
        starts: *mut CUdeviceptr,
        sizes: *mut usize,
        count: usize,
        places: *mut CUmemLocation,
        firsts: *mut usize,
        kinds: usize,
        flags: c_ulonglong,
        stream: CUstream,
    ) -> Done {
        let found = stream::resolve(stream)?;
        let batch = Batch::read(starts, sizes, count, (places, firsts, kinds))?;
        if flags != 0 {
            return Err(CUresult::INVALID_VALUE);
        }
        batch.ranges.iter().try_for_each(|(start, bytes)| discard(*start, *bytes, &found))?;
        let mut both = batch.ranges.iter().zip(&batch.places);
        both.try_for_each(|((start, bytes), place)| prefetch(*start, *bytes, *place, &found))
    }

    /// Partial: says what was set.
    pub(crate) fn cuMemRangeGetAttribute(
        to: *mut c_void,
        room: usize,
        attribute: CUmem_range_attribute,
        start: CUdeviceptr,
        bytes: usize,
    ) -> Done {
        answer(to, room, attribute, start, bytes)
    }

    /// Partial: says what was set.
    pub(crate) fn cuMemRangeGetAttributes(
        to: *mut *mut c_void,
        rooms: *mut usize,
        attributes: *mut CUmem_range_attribute,
        count: usize,
        start: CUdeviceptr,
        bytes: usize,
    ) -> Done {
        if count == 0 {
            return Err(CUresult::INVALID_VALUE);
        }
        for index in 0..count {
            let (to, room) = (raw::get_at(to, index)?, raw::get_at(rooms, index)?);
            answer(to, room, raw::get_at(attributes, index)?, start, bytes)?;
        }
        Ok(())
    }

    /// Attached to all streams, to none, or to this one: a kernel here may use it in any case.
    ///
    /// Partial: checked, changes nothing.
    pub(crate) fn cuStreamAttachMemAsync(
        stream: CUstream,
        pointer: CUdeviceptr,
        bytes: usize,
        flags: c_uint,
    ) -> Done {
        const SINGLE: c_uint = 4;
        let named = stream.0 != 0;
        let stream = stream::resolve(stream)?;
        crate::capture::forbid_on(&stream)?;
        let region = SPACE.find(pointer).filter(|region| region.kind == Kind::Managed);
        let region = region.ok_or(CUresult::INVALID_VALUE)?;
        let whole = pointer == region.base && (bytes == 0 || bytes as u64 == region.size);
        if !whole || ![1, 2, SINGLE].contains(&flags) || flags == SINGLE && !named {
            return Err(CUresult::INVALID_VALUE);
        }
        stream.submit(Work::Nothing).map(drop)
    }
}
