//! What processes hand each other: descriptors under a number, kept for as long as their owner
//! lives and does not take them back.

use crate::accounts::Session;
use crate::machine::{Answer, Machine};
use simcuda_protocol::{Refusal, Reply, Share};
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Debug, Default)]
pub(crate) struct Shelf(Mutex<Places>);

#[derive(Debug, Default)]
struct Places {
    last: u64,
    held: HashMap<u64, (Session, OwnedFd)>,
}

impl Shelf {
    fn places(&self) -> MutexGuard<'_, Places> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The session is gone, with all that it left here.
    pub(crate) fn close(&self, session: Session) {
        self.places().held.retain(|_, (owner, _)| *owner != session);
    }
}

pub(crate) fn answer(
    machine: &Machine,
    session: Session,
    share: Share,
    descriptor: Option<OwnedFd>,
) -> Answer {
    let mut places = machine.shelf.places();
    match share {
        Share::Convert { device, bytes } => {
            drop(places);
            machine.convert(session, device, bytes)
        }
        Share::Deposit => {
            let descriptor = descriptor.ok_or(Refusal::Malformed)?;
            places.last += 1;
            let token = places.last;
            places.held.insert(token, (session, descriptor));
            Ok((Reply::Token { token }, None))
        }
        Share::Collect { token } => {
            let (_, held) = places.held.get(&token).ok_or(Refusal::NoSuchChunk)?;
            Ok((Reply::Done, Some(held.try_clone().map_err(|_| Refusal::Host)?)))
        }
        Share::Withdraw { token } => {
            if places.held.get(&token).is_some_and(|(owner, _)| *owner == session) {
                places.held.remove(&token);
            }
            Ok((Reply::Done, None))
        }
    }
}
