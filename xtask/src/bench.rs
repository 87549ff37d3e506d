//! `cargo xtask bench`: the benches, each against its budget in `benches/budgets.toml`.
//!
//! Times on a shared machine wander; budgets are generous and catch a wrong order of magnitude, not
//! a percent.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::command::{cargo, root, run, target};
use crate::outcome::Count;

#[derive(Deserialize)]
struct Budgets {
    /// Name of the bench to the most nanoseconds that one call may take.
    budget_ns: BTreeMap<String, f64>,
}

#[derive(Deserialize)]
struct Estimates {
    median: Estimate,
}

#[derive(Deserialize)]
struct Estimate {
    point_estimate: f64,
}

pub(crate) fn check(count: &mut Count) -> Result<()> {
    let text = fs::read_to_string(root().join("benches/budgets.toml"))?;
    let budgets: Budgets = toml::from_str(&text).context("benches/budgets.toml")?;
    run(cargo().args(["bench", "--package", "halfwarp-benches"]))?;
    for (name, budget) in budgets.budget_ns {
        count.check(&format!("bench {name}"), || {
            let median = median_ns(&name)?;
            println!("      {name}: {median:.1} ns, budget {budget} ns");
            ensure!(median <= budget, "{name} takes {median:.1} ns, its budget is {budget} ns");
            Ok(())
        });
    }
    Ok(())
}

fn median_ns(name: &str) -> Result<f64> {
    let file = target().join("criterion").join(name).join("new/estimates.json");
    let text = fs::read_to_string(&file).with_context(|| {
        format!("budgets.toml names {name}, but no bench has left {}", file.display())
    })?;
    let estimates: Estimates = serde_json::from_str(&text)?;
    Ok(estimates.median.point_estimate)
}
