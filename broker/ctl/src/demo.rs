//! `halfwarp demo`: two tenants of one card work side by side, one of them asks for more than its
//! limit and is refused, the other goes on. On a simulated card where there is no GPU.
//!
//! It states nothing that it has not read from the broker's API or from the programs' own output, and
//! fails if any of it was not seen.

mod part;
mod stage;
mod verdict;
mod watch;

use std::process::ExitCode;

use halfwarp_rest::Bytes;

use crate::{
    args::DemoArgs,
    artefacts::Artefacts,
    failure::Failure,
    output::{self, exact},
};

use part::Part;
use stage::Stage;

/// What the two tenants get, and how much of the work's time passes before memory is asked for.
#[derive(Clone, Copy, Debug)]
struct Plan {
    small_bytes: Bytes,
    large_bytes: Bytes,
    seconds: u64,
}

impl Plan {
    /// 4 GiB and 8 GiB; on a card without that much room, a fifth and two fifths of it.
    fn for_card(total: Bytes, seconds: u64) -> Self {
        let small = if total.0 >= 14 << 30 { 4 << 30 } else { (total.0 / 5) >> 20 << 20 };
        Self { small_bytes: Bytes(small), large_bytes: Bytes(2 * small), seconds }
    }
}

pub(crate) fn demo(asked: &DemoArgs) -> Result<ExitCode, Failure> {
    let artefacts = Artefacts::beside_self()?;
    let samples = ["matrixMul", "vectorAdd", "memoryHog"];
    for sample in samples {
        artefacts.need(artefacts.sample(sample), "the samples")?;
    }
    let signals = watch::ending_signals()?;
    let mut stage = Stage::set(&asked.which, &artefacts)?;
    let card = stage.card()?;
    let plan = Plan::for_card(card.memory_total_bytes, asked.seconds);
    output::print(&format!(
        "two tenants on {} ({}): small with {}, large with {}\n",
        card.name,
        exact(card.memory_total_bytes),
        exact(plan.small_bytes),
        exact(plan.large_bytes)
    ))?;
    let parts = [
        Part::small(&stage, &artefacts, &plan, &card)?,
        Part::large(&stage, &artefacts, &plan, &card)?,
    ];
    let seen = watch::watch(&stage, parts, &plan, &signals)?;
    if let Some(signal) = seen.interrupted {
        stage.strike();
        eprintln!("halfwarp: demo: ended by a signal");
        return Ok(ExitCode::from(128u8.saturating_add(signal)));
    }
    let verdict = verdict::of(&seen, &card);
    output::print(&verdict.to_string())?;
    stage.strike();
    Ok(if verdict.missing.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entitlements_fit_the_card_with_room_for_contexts() {
        let plan = Plan::for_card(Bytes(16 << 30), 8);
        assert_eq!((plan.small_bytes, plan.large_bytes), (Bytes(4 << 30), Bytes(8 << 30)));
        let plan = Plan::for_card(Bytes(1 << 30), 8);
        assert!(plan.small_bytes.0 + plan.large_bytes.0 < 1 << 30);
        assert_eq!(plan.small_bytes.0 % (1 << 20), 0);
    }
}
