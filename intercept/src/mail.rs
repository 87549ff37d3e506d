//! Questions to the broker and their answers.
//!
//! Any thread of the program may ask: it sends one packet and sleeps until our own thread has put
//! the answer into the box, or its time is up. Our thread is the only one that receives.
//! Answers that change the ledger are applied by our thread, in the order in which the broker sent
//! them, before the asker wakes.

use std::{
    collections::{HashMap, hash_map},
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use halfwarp_api::wire::Denial;

/// An answer, after our thread has applied it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Answer {
    /// The units asked for are reserved.
    Reserved,
    Denied(Denial),
    Figures {
        limit: u32,
        held: u32,
    },
    /// What was given back is counted.
    Taken,
    /// The context's charge is now this many units.
    Overhead(u32),
    /// The broker went away before it answered; ask again.
    Lost,
}

/// What our thread must know of a question when its answer comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Question {
    /// `Grow`: units to take when the grant arrives.
    Grow {
        wanted: u32,
    },
    /// `Grow` after a re-join: units that are held already.
    Recount {
        held: u32,
    },
    Ask,
    GiveBack,
    ContextMade {
        charged: u32,
        /// Which charge it is in the books.
        serial: u64,
    },
}

#[derive(Debug)]
enum Entry {
    Waiting(Question),
    Here(Answer),
}

#[derive(Debug, Default)]
struct Box_ {
    next: u32,
    entries: HashMap<u32, Entry>,
}

/// The box.
#[derive(Debug, Default)]
pub(crate) struct Mail {
    open: Mutex<Box_>,
    arrived: Condvar,
}

impl Mail {
    fn open(&self) -> MutexGuard<'_, Box_> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Announces a question and returns the number it is to be sent with.
    pub(crate) fn announce(&self, question: Question) -> u32 {
        let mut open = self.open();
        loop {
            open.next = open.next.wrapping_add(1);
            let seq = open.next;
            if let hash_map::Entry::Vacant(place) = open.entries.entry(seq) {
                place.insert(Entry::Waiting(question));
                return seq;
            }
        }
    }

    /// Waits for the answer to `seq`; `None` when `limit` has passed.
    pub(crate) fn wait(&self, seq: u32, limit: Duration) -> Option<Answer> {
        let until = Instant::now() + limit;
        let mut open = self.open();
        loop {
            if let Some(Entry::Here(answer)) = open.entries.get(&seq) {
                let answer = *answer;
                open.entries.remove(&seq);
                return Some(answer);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                open.entries.remove(&seq);
                return None;
            }
            open = self.arrived.wait_timeout(open, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Applies an answer to question `seq` under the box's lock, so that an asker whose time is up
    /// at this moment either sees it or was gone before. `apply` gets the question, or `None` if
    /// nobody waits any more.
    pub(crate) fn deliver(&self, seq: u32, apply: impl FnOnce(Option<Question>) -> Answer) {
        let mut open = self.open();
        match open.entries.get_mut(&seq) {
            Some(entry @ Entry::Waiting(_)) => {
                let Entry::Waiting(question) = *entry else { return };
                *entry = Entry::Here(apply(Some(question)));
                if matches!(question, Question::Recount { .. }) {
                    open.entries.remove(&seq);
                }
                drop(open);
                self.arrived.notify_all();
            }
            _ => {
                let _ = apply(None);
            }
        }
    }

    /// The broker is gone: everyone who waits is told to ask again.
    pub(crate) fn lose_all(&self) {
        let mut open = self.open();
        open.entries.retain(|_, e| !matches!(e, Entry::Waiting(Question::Recount { .. })));
        for entry in open.entries.values_mut() {
            if matches!(entry, Entry::Waiting(_)) {
                *entry = Entry::Here(Answer::Lost);
            }
        }
        drop(open);
        self.arrived.notify_all();
    }
}
