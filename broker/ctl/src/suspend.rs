//! `halfwarp suspend` and `halfwarp resume`: asks, waits for the broker's answer, shows what became of it.
//! What can't be moved, and why, is the broker's to say.

use std::{process::ExitCode, time::Duration};

use crate::{args::SuspendArgs, broker, client::Wish, failure::Failure, listing};

/// The broker answers within less, done or not.
const DEADLINE: Duration = Duration::from_secs(40);

pub(crate) fn suspend(asked: &SuspendArgs) -> Result<ExitCode, Failure> {
    ask(asked, Wish::Suspend, "suspending", "suspended")
}

pub(crate) fn resume(asked: &SuspendArgs) -> Result<ExitCode, Failure> {
    ask(asked, Wish::Resume, "resuming", "running")
}

fn ask(asked: &SuspendArgs, wish: Wish, doing: &str, done: &str) -> Result<ExitCode, Failure> {
    let tried = format!("{doing} tenant {}", asked.id);
    let client = broker::existing(&asked.view.which)?.within(DEADLINE);
    let tenant = client.move_tenant(asked.id, wish).map_err(|e| e.failure(tried))?;
    let state = tenant.state.clone();
    listing::print_tenants(&[tenant], asked.view.output)?;
    if state != done {
        eprintln!("halfwarp: not done yet ({state}); it goes on by itself, see `halfwarp ps`");
    }
    Ok(ExitCode::SUCCESS)
}
