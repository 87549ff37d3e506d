//! Which broker a command means, and starting a private one when there is none.
//!
//! Real and simulated cards never share a broker: a simulated machine has a run directory of its own.

mod place;
mod start;

use halfwarp_api::version;
use halfwarp_rest::Node;

pub(crate) use place::{Origin, Place, Sim};
pub(crate) use start::{detached, prepare, private};

use crate::{
    args::BrokerArgs,
    client::{CallError, Client},
    failure::Failure,
};

/// A client of the broker that a listing command means.
pub(crate) fn existing(which: &BrokerArgs) -> Result<Client, Failure> {
    let place = Place::choose(which)?;
    let client = Client::new(&place.dir)?;
    match client.node() {
        Ok(node) => speaks_our_version(&node, &client).map(|()| client),
        Err(error @ (CallError::Absent(_) | CallError::Deserted(_)))
            if place.origin == Origin::Private =>
        {
            Err(Failure::new(asking(&client), error.to_string(), where_else(&place)))
        }
        Err(error) => Err(error.failure(asking(&client))),
    }
}

/// What helps where this user has no private broker.
fn where_else(place: &Place) -> String {
    let starts = if place.sim.is_some() { "`halfwarp run --sim`" } else { "`halfwarp run`" };
    match place::simulated(place).first() {
        Some(dir) if place.sim.is_none() => {
            format!("{starts} starts one; a simulated one serves: --broker {}", dir.display())
        }
        _ => format!("{starts} starts one"),
    }
}

/// Refuses a broker of another release, before anything is asked of it.
pub(crate) fn speaks_our_version(node: &Node, client: &Client) -> Result<(), Failure> {
    let ours = version::CURRENT;
    let theirs = node.protocol.split_once('.').and_then(|(major, minor)| {
        Some(version::Version { major: major.parse().ok()?, minor: minor.parse().ok()? })
    });
    match theirs {
        Some(theirs) if ours.accepts(theirs) => Ok(()),
        _ => Err(Failure::new(
            asking(client),
            format!(
                "halfwarpd {} (pid {}) speaks protocol {}, this halfwarp {} speaks {ours}",
                node.version,
                node.pid,
                node.protocol,
                env!("CARGO_PKG_VERSION")
            ),
            "use halfwarp and halfwarpd of one release: restart the broker after an upgrade",
        )),
    }
}

pub(crate) fn asking(client: &Client) -> String {
    format!("asking the broker at {}", client.socket().display())
}
