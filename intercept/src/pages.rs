//! The two shared pages of this process, mapped: checked once when they arrive, then plain
//! references that live until the process ends (a thread may still read an old pair after a re-join).

use std::{io, os::fd::OwnedFd, sync::atomic::Ordering};

use halfwarp_api::shm::{BROKER_PAGE_BYTES, BrokerPage, CLIENT_PAGE_BYTES, ClientPage, PAGE_MAGIC};

use crate::sys;

/// One pair of pages.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pages {
    pub(crate) broker: &'static BrokerPage,
    pub(crate) client: &'static ClientPage,
}

impl Pages {
    /// Maps the pair that came with a `Welcome`: the broker's page read-only, then the client's.
    pub(crate) fn map(broker: &OwnedFd, client: &OwnedFd) -> io::Result<Self> {
        let sizes = (sys::file_bytes(broker)?, sys::file_bytes(client)?);
        if sizes != (BROKER_PAGE_BYTES as u64, CLIENT_PAGE_BYTES as u64) {
            let text = format!("shared pages of {} and {} bytes", sizes.0, sizes.1);
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        let broker = sys::map_shared(broker, BROKER_PAGE_BYTES, false)?;
        let client = sys::map_shared(client, CLIENT_PAGE_BYTES, true)?;
        // SAFETY: mapped just now, never unmapped, of that size (checked above; the file is sealed
        // against shrinking), page-aligned; all fields are atomics, so another writer is no race.
        let broker: &'static BrokerPage = unsafe { &*broker.cast_const().cast() };
        // SAFETY: as above.
        let client: &'static ClientPage = unsafe { &*client.cast_const().cast() };
        let magic = [&broker.magic, &client.magic].map(|m| m.load(Ordering::Acquire));
        if magic != [PAGE_MAGIC; 2] {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "shared pages of another layout",
            ));
        }
        Ok(Self { broker, client })
    }
}
