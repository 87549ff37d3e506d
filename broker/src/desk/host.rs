//! The desk's part in host memory: work for whoever makes and frees it, and chunks on their way to their
//! processes.

use halfwarp_api::wire::ToClient;
use halfwarp_broker_core::{ClientId, Event, PageRef};

use super::{Desk, Inner};
use crate::{
    chunks::{self, Chunk, Work},
    outbox,
};

impl Desk {
    pub(crate) fn next_chunk_work(&self) -> Option<Work> {
        self.inner().chunk_work.pop_front()
    }

    /// A chunk is there, or could not be made: sends it to its process.
    pub(crate) fn chunk_made(&self, at: PageRef, chunk: u32, made: Option<Chunk>) {
        let made = self.inner().send_chunk(at, chunk, made);
        self.step(Event::ChunkMade { at, chunk, made });
    }
}

impl Inner {
    fn send_chunk(&mut self, at: PageRef, chunk: u32, made: Option<Chunk>) -> bool {
        let (Some(made), Some(client)) = (made, self.clients.get_mut(&at.client)) else {
            return false;
        };
        let frame = ToClient::Chunk { gpu: at.slot, chunk, bytes: made.bytes };
        if let Err(error) = outbox::with_memory(&client.socket, frame, &made.memory) {
            tracing::debug!(client = at.client.0, %error, "a client does not take its chunk");
            return false;
        }
        client.chunks.insert(chunk, made);
        true
    }

    pub(super) fn free_chunk(&mut self, client: ClientId, chunk: u32) {
        let client = self.clients.get_mut(&client);
        let gone = client.and_then(|client| client.chunks.remove(&chunk));
        self.chunk_work.extend(gone.map(Work::Free));
    }

    pub(super) fn free_chunks(&mut self, client: ClientId) {
        let chunks = self.clients.get_mut(&client).map(|c| std::mem::take(&mut c.chunks));
        self.chunk_work.extend(chunks.into_iter().flat_map(chunks::all_of));
    }
}
