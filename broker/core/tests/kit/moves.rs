//! What simulated clients do when they are asked to move.

use halfwarp_api::wire::{Outcome, ToBroker};
use halfwarp_broker_core::{Action, ClientId, Event, Rejection};

use super::{Node, UID};

impl Node {
    /// Moves what it holds into its chunks, in two pieces.
    pub(super) fn leaves(&mut self, client: ClientId, seq: u32) {
        let own = self.clients.get_mut(&client).expect("a client");
        assert!(own.closed, "asked to leave with the gate open");
        let outcome = own.ends.pop_front().unwrap_or(Outcome::Done);
        let all = own.word.held - own.context;
        let pieces = match outcome {
            Outcome::Done => vec![all / 2, all - all / 2],
            Outcome::Driver | Outcome::Host => vec![all / 2],
            _ => vec![],
        };
        for units in pieces {
            own.word.held -= units;
            own.word.allowed -= units;
            own.swapped += units;
            self.to_broker.push_back((client, ToBroker::Left { seq, gpu: 0, units }));
        }
        let room: u64 = own.chunks.values().sum();
        assert!(
            u64::from(own.swapped - own.orphans) * 512 <= room,
            "no host memory for {}",
            own.swapped
        );
        let swapped = own.swapped;
        let end = ToBroker::SwapEnded { seq, gpu: 0, outcome, swapped, taken: 0 };
        self.to_broker.push_back((client, end));
    }

    /// Fetches what it has in host copies.
    pub(super) fn comes(&mut self, client: ClientId, seq: u32, units: u32) {
        let own = self.clients.get_mut(&client).expect("a client");
        let outcome = own.ends.pop_front().unwrap_or(Outcome::Done);
        let fetch = if outcome == Outcome::Done { own.swapped } else { own.swapped / 2 };
        let taken = fetch.min(units);
        own.word.held += taken;
        own.word.allowed += taken;
        own.swapped -= taken;
        own.orphans = own.orphans.min(own.swapped);
        let swapped = own.swapped;
        let end = ToBroker::SwapEnded { seq, gpu: 0, outcome, swapped, taken };
        self.to_broker.push_back((client, end));
    }

    /// A thread launches: it asks at a closed lease gate, and then at a closed residency gate.
    pub fn work(&mut self, client: ClientId) {
        self.send(client, ToBroker::Want { gpu: 0, lease: 0 });
        if self.client(client).closed {
            self.send(client, ToBroker::WantMemory { gpu: 0, residency: 0 });
        }
        self.settle();
    }

    pub fn suspend(&mut self, tenant: u64) -> Result<(), Rejection> {
        self.begun(Event::Suspend { tenant, uid: UID })
    }

    pub fn resume(&mut self, tenant: u64) -> Result<(), Rejection> {
        self.begun(Event::Resume { tenant, uid: UID })
    }

    fn begun(&mut self, event: Event) -> Result<(), Rejection> {
        let answer = self.step(event).into_iter().find_map(|action| match action {
            Action::Begun => Some(Ok(())),
            Action::Rejected(rejection) => Some(Err(rejection)),
            _ => None,
        });
        answer.expect("an answer")
    }
}
