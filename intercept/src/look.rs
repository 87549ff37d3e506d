//! What a tenant has, asked of the broker without joining: one connection, one question, the answer
//! as a row of frames. For views that a process may want that never makes a CUDA call.

use std::{
    io,
    os::fd::AsRawFd,
    time::{Duration, Instant},
};

use halfwarp_api::{
    version::CURRENT,
    wire::{FRAME_BYTES, ToBroker, ToClient},
};

use crate::{attach::Identity, sys};

/// How long a view waits for the broker.
const LOOK_TIMEOUT: Duration = Duration::from_secs(1);

/// The tenant on one card.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slice {
    gpu: u8,
    pub(crate) uuid: [u8; 16],
    pub(crate) limit_units: u32,
    pub(crate) held_units: u32,
}

/// All of it, at one moment.
#[derive(Debug, Default)]
pub(crate) struct Look {
    slices: Vec<Slice>,
    /// Slot, pid and units of each process that holds any.
    members: Vec<(u8, u32, u32)>,
}

impl Look {
    /// The tenant's part of a card, if it has one.
    pub(crate) fn slice(&self, uuid: [u8; 16]) -> Option<Slice> {
        self.slices.iter().find(|slice| slice.uuid == uuid).copied()
    }

    /// Its processes on that card, as pid and units.
    pub(crate) fn members(&self, slice: Slice) -> Vec<(u32, u32)> {
        let here = self.members.iter().filter(|(gpu, ..)| *gpu == slice.gpu);
        here.map(|(_, pid, units)| (*pid, *units)).collect()
    }
}

/// Asks; `None` where nobody answers in time.
pub(crate) fn look(identity: &Identity) -> Option<Look> {
    let _whole = sys::Uncancelled::begin();
    ask(identity).ok()
}

fn ask(identity: &Identity) -> io::Result<Look> {
    let until = Instant::now() + LOOK_TIMEOUT;
    let socket = sys::connect(&identity.socket, LOOK_TIMEOUT)?;
    let question = ToBroker::Look { version: CURRENT, token: identity.token };
    sys::send(socket.as_raw_fd(), &question.encode())?;
    let mut look = Look::default();
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        sys::receive_within(&socket, left)?;
        let mut packet = [0; FRAME_BYTES];
        let got = sys::receive(socket.as_raw_fd(), &mut packet, &mut Vec::new())?;
        let bad = |error| io::Error::new(io::ErrorKind::InvalidData, error);
        match ToClient::decode(packet.get(..got).unwrap_or_default())
            .map_err(|e| bad(format!("{e}")))?
        {
            ToClient::Slice { gpu, uuid, limit, held } => {
                look.slices.push(Slice { gpu, uuid, limit_units: limit, held_units: held });
            }
            ToClient::Member { gpu, pid, held } => look.members.push((gpu, pid, held)),
            ToClient::Seen => return Ok(look),
            other => return Err(bad(format!("the broker answered {other:?}"))),
        }
    }
}
