//! Whose are the processes that use a card and never joined? A tenant's, if an ancestor is one of its
//! processes or started the one that it lives for (`halfwarp run` starts both), or if its environment
//! carries the tenant's token. Facts for the core's watchdog; nothing is decided here.

use std::{collections::BTreeMap, fs};

use halfwarp_broker_core::{CardSample, Runner, SavedTenant, State, Stray, Uuid};
use rustix::process::{Signal, pidfd_send_signal};

use crate::{peer, store::hex};

/// A chain of ancestors longer than this is no tenant's.
const ANCESTORS: usize = 256;

/// The strays on the cards of a look.
pub(crate) fn find(state: &State, cards: &BTreeMap<Uuid, CardSample>) -> Vec<Stray> {
    let pids = cards.values().flat_map(|card| card.processes.iter().flatten());
    let unknown = pids.map(|(pid, _)| *pid).filter(|pid| state.is_stranger(*pid));
    let unknown: Vec<u32> = unknown.collect();
    if unknown.is_empty() {
        return Vec::new();
    }
    let tenants = state.saved().tenants;
    // Of any other program the children are its own affair.
    let started = |tenant: &SavedTenant| {
        let starter = parent_of(tenant.runner?.pid)?;
        (peer::command_of(starter) == "halfwarp").then_some((starter, tenant.id))
    };
    let starters: BTreeMap<u32, u64> = tenants.iter().filter_map(started).collect();
    let tokens: BTreeMap<Vec<u8>, u64> =
        tenants.iter().map(|tenant| (hex(&tenant.token).into_bytes(), tenant.id)).collect();
    let strays = unknown.into_iter().filter_map(|pid| {
        // Told apart from a later process of that number, should it be ended.
        let process = peer::runner(pid)?;
        let known = |at| state.tenant_of_process(at).or_else(|| starters.get(&at).copied());
        let tenant = by_ancestors(pid, known).or_else(|| tokens.get(&token_of(pid)?).copied())?;
        Some(Stray { process, tenant })
    });
    strays.collect()
}

fn by_ancestors(pid: u32, known: impl Fn(u32) -> Option<u64>) -> Option<u64> {
    let mut at = parent_of(pid)?;
    for _ in 0..ANCESTORS {
        // Everybody descends from the first process.
        if at <= 1 {
            return None;
        }
        if let Some(tenant) = known(at) {
            return Some(tenant);
        }
        at = parent_of(at)?;
    }
    None
}

fn parent_of(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
}

/// The token in a process's environment.
fn token_of(pid: u32) -> Option<Vec<u8>> {
    let variables = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let variable = |v: &[u8]| v.strip_prefix(b"HALFWARP_TENANT=").map(<[u8]>::to_vec);
    variables.split(|byte| *byte == 0).find_map(variable)
}

/// Kills a process, if it is still that one.
pub(crate) fn end(process: Runner) {
    let ended = peer::watch(process).and_then(|pidfd| Ok(pidfd_send_signal(pidfd, Signal::KILL)?));
    if let Err(error) = ended {
        tracing::warn!(pid = process.pid, %error, "a process could not be ended");
    }
}
