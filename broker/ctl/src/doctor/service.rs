//! Does a broker serve, which one, and what does it know of the cards?

use super::Finding;
use crate::{
    broker::{Place, speaks_our_version},
    client::{CallError, Client},
    failure::Failure,
    output::exact,
};

/// What the driver has that our table does not know, by the broker's events.
const UNKNOWN_FUNCTION: &str = "unknown-function";

pub(super) fn checks(place: &Place) -> Vec<Finding> {
    const NAME: &str = "broker";
    let client = match Client::new(&place.dir) {
        Ok(client) => client,
        Err(failure) => return vec![failed(NAME, &failure)],
    };
    let node = match client.node() {
        Ok(node) => node,
        Err(error @ (CallError::Absent(_) | CallError::Deserted(_))) => {
            return vec![Finding::warn(
                NAME,
                error.to_string(),
                "`halfwarp run` starts a private one; a node has the halfwarpd service",
            )];
        }
        Err(error) => return vec![failed(NAME, &error.failure("asking it"))],
    };
    if let Err(failure) = speaks_our_version(&node, &client) {
        return vec![failed(NAME, &failure)];
    }
    let found = format!(
        "{} (pid {}, {}) serves in {}, protocol {}",
        node.version,
        node.pid,
        node.kind,
        place.dir.display(),
        node.protocol
    );
    vec![Finding::ok(NAME, found), cards(&client, node.driver), unknown_functions(&client)]
}

fn failed(name: &'static str, failure: &Failure) -> Finding {
    match failure {
        Failure::Said { found, help, .. } => Finding::fail(name, found, help),
        Failure::ReaderGone => Finding::fail(name, failure.to_string(), ""),
    }
}

/// What NVML told the broker.
fn cards(client: &Client, driver: Option<String>) -> Finding {
    const NAME: &str = "NVML";
    let cards = match client.gpus() {
        Ok(cards) => cards,
        Err(error) => return failed(NAME, &error.failure("asking for the cards")),
    };
    let names: Vec<String> = cards
        .iter()
        .map(|card| format!("{} {}", card.name, exact(card.memory_total_bytes)))
        .collect();
    match driver {
        Some(driver) if !cards.is_empty() => {
            Finding::ok(NAME, format!("driver {driver}, {}", names.join(", ")))
        }
        Some(driver) => Finding::fail(
            NAME,
            format!("driver {driver}, and no card"),
            "see `nvidia-smi`; in a container, see how it was given its devices",
        ),
        None => Finding::fail(
            NAME,
            "the broker gets no answer from NVML",
            "see `nvidia-smi` and the broker's log",
        ),
    }
}

fn unknown_functions(client: &Client) -> Finding {
    const NAME: &str = "driver table";
    let events = match client.events(0) {
        Ok(events) => events,
        Err(error) => return failed(NAME, &error.failure("asking for events")),
    };
    let unknown: Vec<String> = events
        .into_iter()
        .filter(|event| event.kind == UNKNOWN_FUNCTION)
        .map(|event| event.text)
        .collect();
    if unknown.is_empty() {
        return Finding::ok(NAME, "no program asked for a function that is not in it");
    }
    Finding::warn(
        NAME,
        format!("passed through unseen: {}", unknown.join(", ")),
        "use a release of halfwarp that knows this driver",
    )
}
