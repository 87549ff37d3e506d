//! Host memory for copies: a budget, and of it chunks for each process that may have to move. A chunk is
//! one process's; when it is given up it is freed, never passed on. Making and freeing is the daemon's.

use halfwarp_api::{UNIT_BYTES, wire::ToClient};

use crate::{
    Nanos,
    event::{Action, PageRef},
    state::State,
    tenant::ProcessGpu,
};

use super::{Stage, moves::Place};

/// A chunk's largest and usual size, and what sizes are multiples of where the budget ends.
pub(crate) const CHUNK_BYTES_MAX: u64 = 1 << 30;
const STEP_BYTES: u64 = 64 << 20;
const GRAIN_BYTES: u64 = 2 << 20;
/// How long a process keeps chunks that it does not need.
const KEEP_NS: Nanos = 2_000_000_000;
/// Pause after a chunk that could not be made.
const RETRY_NS: Nanos = 1_000_000_000;

/// A piece of host memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Chunk {
    pub(crate) bytes: u64,
    pub(crate) stage: ChunkStage,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ChunkStage {
    Making,
    Sent,
    /// The process was asked for it.
    Dropping,
}

impl ProcessGpu {
    /// What it may have to move, or has moved.
    fn need_bytes(&self) -> u64 {
        let resident = u64::from(self.allowed_units.saturating_sub(self.context_units));
        let swapped = self.stay.swapped_units - self.stay.orphan_units.min(self.stay.swapped_units);
        (resident + u64::from(swapped)) * UNIT_BYTES
    }

    /// Chunks that it has, or will have.
    fn chunk_bytes(&self, made: bool) -> u64 {
        let counts = |chunk: &&Chunk| match chunk.stage {
            ChunkStage::Sent => true,
            ChunkStage::Making => !made,
            ChunkStage::Dropping => false,
        };
        self.stay.chunks.values().filter(counts).map(|chunk| chunk.bytes).sum()
    }

    pub(crate) fn is_covered(&self, made: bool) -> bool {
        self.need_bytes() <= self.chunk_bytes(made)
    }

    /// Host memory that counts as this process's.
    pub(crate) fn host_bytes(&self) -> u64 {
        let orphans = u64::from(self.stay.orphan_units) * UNIT_BYTES;
        self.stay.chunks.values().map(|chunk| chunk.bytes).sum::<u64>() + orphans
    }
}

impl State {
    pub(crate) fn pool_used_bytes(&self) -> u64 {
        self.processes.values().flat_map(|p| &p.gpus).map(ProcessGpu::host_bytes).sum()
    }

    pub(crate) fn pool_left_bytes(&self) -> u64 {
        self.config.swap.pool_bytes.saturating_sub(self.pool_used_bytes())
    }

    /// Gives every process of a tenant with swap the chunks it needs, as far as the budget goes, and
    /// takes back what is too much.
    pub(crate) fn cover(&mut self, now: Nanos, actions: &mut Vec<Action>) {
        let mut short = Vec::new();
        let mut rich = Vec::new();
        let mut due = None;
        for (client, process) in &mut self.processes {
            if !process.connected || !self.tenants.get(&process.tenant).is_some_and(|t| t.swap) {
                continue;
            }
            for (slot, gpu) in process.gpus.iter_mut().enumerate() {
                let at = PageRef { client: *client, slot: slot as u8 };
                let spare = spare_chunk(gpu);
                if !gpu.is_covered(false) && gpu.stay.reasons == 0 && now >= gpu.stay.cover_at {
                    short.push(at);
                }
                let Some(spare) = spare else {
                    gpu.stay.excess_since = None;
                    continue;
                };
                let since = *gpu.stay.excess_since.get_or_insert(now);
                if now >= since + KEEP_NS {
                    rich.push((at, spare));
                } else {
                    due = Some(due.map_or(since + KEEP_NS, |at: Nanos| at.min(since + KEEP_NS)));
                }
            }
        }
        for (at, chunk) in rich {
            self.drop_chunk(at, chunk, actions);
        }
        for at in short {
            self.add_chunks(at, actions);
        }
        if let Some(due) = due {
            self.residency.look_at(due);
        }
    }

    fn drop_chunk(&mut self, at: PageRef, chunk: u32, actions: &mut Vec<Action>) {
        let Some(stay) = self.stay_mut(at) else { return };
        let Some(known) = stay.chunks.get_mut(&chunk) else { return };
        known.stage = ChunkStage::Dropping;
        stay.excess_since = None;
        let frame = ToClient::DropChunk { chunk };
        actions.push(Action::Send { client: at.client, frame });
    }

    /// All of what is missing or nothing: half of a process can't leave.
    fn add_chunks(&mut self, at: PageRef, actions: &mut Vec<Action>) {
        let mut left = self.pool_left_bytes();
        let Some(own) = self.process_gpu(at) else { return };
        let need = own.need_bytes();
        let mut missing = need.saturating_sub(own.chunk_bytes(false));
        if missing.next_multiple_of(GRAIN_BYTES) > left {
            return;
        }
        let step = (need / 16).next_multiple_of(STEP_BYTES).clamp(STEP_BYTES, CHUNK_BYTES_MAX);
        while missing > 0 && left > 0 {
            let grain = if missing <= step && left >= step { step } else { GRAIN_BYTES };
            let bytes = missing.next_multiple_of(grain).min(CHUNK_BYTES_MAX).min(left);
            if self.residency.next_chunk.is_multiple_of(CHUNKS_KEPT) {
                actions.push(Action::Save);
            }
            self.residency.next_chunk = self.residency.next_chunk.wrapping_add(1);
            let chunk = self.residency.next_chunk;
            if let Some(stay) = self.stay_mut(at) {
                stay.chunks.insert(chunk, Chunk { bytes, stage: ChunkStage::Making });
            }
            actions.push(Action::MakeChunk { at, chunk, bytes });
            missing = missing.saturating_sub(bytes);
            left -= bytes;
        }
    }

    /// The daemon has made a chunk and sent it, or could not.
    pub(crate) fn chunk_made(&mut self, now: Nanos, at: PageRef, chunk: u32, made: bool) {
        let Some(stay) = self.stay_mut(at) else { return };
        let Some(known) = stay.chunks.get_mut(&chunk) else { return };
        if made {
            known.stage = ChunkStage::Sent;
        } else {
            stay.chunks.remove(&chunk);
            stay.cover_at = now + RETRY_NS;
        }
    }

    /// A process has given a chunk up.
    pub(crate) fn chunk_gone(
        &mut self,
        now: Nanos,
        client: crate::ClientId,
        chunk: u32,
        actions: &mut Vec<Action>,
    ) {
        let Some(process) = self.processes.get_mut(&client) else { return };
        for gpu in &mut process.gpus {
            let Some(gone) = gpu.stay.chunks.remove(&chunk) else { continue };
            if gone.stage != ChunkStage::Dropping {
                gpu.stay.cover_at = now + RETRY_NS;
            }
            actions.push(Action::FreeChunk { client, chunk });
        }
    }

    /// Notes who can be moved at all.
    pub(crate) fn note_movable(&mut self) {
        let places: Vec<_> = self.swap_places().collect();
        for place in places {
            let movable = self.can_leave(place, false);
            if let Some(gpu) = self.place_gpu_mut(place) {
                gpu.residence.movable = movable;
            }
        }
    }

    pub(crate) fn swap_places(&self) -> impl Iterator<Item = Place> {
        let tenants = self.tenants.values().filter(|tenant| tenant.swap);
        tenants.flat_map(|t| (0..t.gpus.len()).map(|slot| Place { id: t.id, slot: slot as u8 }))
    }

    /// Whether nothing keeps a tenant's memory on its card; `made`: its chunks are there already.
    pub(crate) fn can_leave(&self, place: Place, made: bool) -> bool {
        let Some(tenant) = self.tenants.get(&place.id).filter(|t| t.swap) else { return false };
        tenant.absent.is_empty()
            && tenant.processes.iter().all(|client| {
                self.processes.get(client).is_some_and(|process| {
                    process.gpus.get(usize::from(place.slot)).is_some_and(|gpu| {
                        let stay = &gpu.stay;
                        process.connected
                            && gpu.carried_units == 0
                            && stay.reasons == 0
                            && !stay.stopped
                            && gpu.is_covered(made)
                    })
                })
            })
    }
}

/// Numbers of chunks that are kept for one broker's life.
pub(crate) const CHUNKS_KEPT: u32 = 4096;

/// A chunk that a process whose memory is all on the card can do without.
fn spare_chunk(gpu: &ProcessGpu) -> Option<u32> {
    if gpu.stay.stage != Stage::In || gpu.stay.swapped_units > 0 {
        return None;
    }
    let excess = gpu.chunk_bytes(true).checked_sub(gpu.need_bytes())?;
    let spare = gpu.stay.chunks.iter();
    let spare = spare.filter(|(_, c)| c.stage == ChunkStage::Sent && c.bytes <= excess);
    spare.max_by_key(|(_, chunk)| chunk.bytes).map(|(number, _)| *number)
}
