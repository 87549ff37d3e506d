//! Where facts about the cards come from. NVML's calls can hang, so it is asked by a small child
//! process over a pipe ([`child`] is that process, [`parent`] the broker's end); tests have a source
//! of their own. An answer that is late is no data.

use std::{collections::BTreeMap, future::Future};

use halfwarp_broker_core::{CardFacts, CardSample, Uuid};
use serde::{Deserialize, Serialize};

pub(crate) mod child;
pub(crate) mod parent;

/// What the cards are.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    pub(crate) driver: Option<String>,
    pub(crate) cards: Vec<CardFacts>,
}

/// Looks at the cards.
pub(crate) trait Source: Send + 'static {
    /// The cards as they are now; `None` when there is no answer in time.
    fn sample(&mut self) -> impl Future<Output = Option<BTreeMap<Uuid, CardSample>>> + Send;
}

/// One line of the pipe, child to broker.
#[derive(Serialize, Deserialize, Debug)]
#[serde(rename_all = "snake_case")]
enum Said {
    /// The first line, if NVML works.
    Machine { driver: Option<String>, cards: Vec<SaidCard> },
    /// The only line, if it does not.
    Failed(String),
    /// Answers a request.
    Sample(Vec<SaidSample>),
}

#[derive(Serialize, Deserialize, Debug)]
struct SaidCard {
    uuid: String,
    index: u32,
    name: String,
    total_bytes: u64,
    multiprocessors: Option<u32>,
}

#[derive(Serialize, Deserialize, Debug)]
struct SaidSample {
    uuid: String,
    used_bytes: u64,
    processes: Option<Vec<(u32, Option<u64>)>>,
}
