//! `halfwarp set`: reads `key=value` words into one change of a tenant or of a card and shows what
//! became of it. Whether the change can be is the broker's to say.

use std::process::ExitCode;

use halfwarp_rest::{Gpu, GpuChange, TenantChange};

use crate::{
    args::{self, SetArgs},
    broker,
    client::Client,
    failure::Failure,
    listing,
};

#[derive(PartialEq, Debug)]
enum Change {
    Tenant(TenantChange),
    Gpu(GpuChange),
}

pub(crate) fn set(asked: &SetArgs) -> Result<ExitCode, Failure> {
    let change = read(&asked.changes).map_err(|(found, help)| {
        Failure::new(format!("reading the changes of {}", asked.target), found, help)
    })?;
    let client = broker::existing(&asked.view.which)?;
    let tried = format!("changing {}", asked.target);
    match change {
        Change::Tenant(to) => {
            let Ok(id) = asked.target.parse() else {
                let found = format!("{:?} is no tenant's ID", asked.target);
                return Err(Failure::new(tried, found, "`halfwarp ps` shows them"));
            };
            let tenant = client.change_tenant(id, &to).map_err(|e| e.failure(tried))?;
            listing::print_tenants(&[tenant], asked.view.output)?;
        }
        Change::Gpu(to) => {
            let uuid = card(&client, &asked.target)?;
            let gpu = client.change_gpu(&uuid, to).map_err(|e| e.failure(tried))?;
            listing::print_gpus(&[gpu], asked.view.output)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The change that the words say; else what was found and what helps.
fn read(words: &[String]) -> Result<Change, (String, String)> {
    let (mut tenant, mut gpu) = (TenantChange::default(), GpuChange::default());
    let mut seen = Vec::new();
    for word in words {
        let Some((key, value)) = word.split_once('=') else {
            return Err((format!("{word:?} has no `=`"), "write key=value".to_owned()));
        };
        if seen.contains(&key) {
            return Err((format!("{key} is there twice"), "write it once".to_owned()));
        }
        seen.push(key);
        let bad = |help: String| (format!("{value:?} is no value of {key}"), help);
        match key {
            "compute" => tenant.compute = Some(value.parse().map_err(text).map_err(bad)?),
            "priority" => tenant.priority = Some(args::priority(value).map_err(bad)?),
            "memory" => {
                let wishes = value.split(',').map(str::parse).collect::<Result<_, _>>();
                tenant.memory = wishes.map_err(text).map_err(bad)?;
            }
            "mode" => gpu.mode = Some(args::mode(value).map_err(bad)?),
            "lease" => {
                let number = value.strip_suffix("ms").unwrap_or(value).parse();
                let bad = |_| bad("write 20 to 1000, in milliseconds".to_owned());
                gpu.lease_ms = Some(number.map_err(bad)?);
            }
            _ => return Err((format!("there is no key {key:?}"), KEYS.to_owned())),
        }
    }
    match (tenant == TenantChange::default(), gpu == GpuChange::default()) {
        (false, true) => Ok(Change::Tenant(tenant)),
        (true, false) => Ok(Change::Gpu(gpu)),
        _ => Err(("keys of a tenant and of a GPU together".to_owned(), KEYS.to_owned())),
    }
}

const KEYS: &str =
    "a tenant has compute, priority and memory; a GPU has mode and lease; change one at a time";

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// The UUID of the card that is meant.
fn card(client: &Client, target: &str) -> Result<String, Failure> {
    let gpus = client.gpus().map_err(|e| e.failure(broker::asking(client)))?;
    let named = |gpu: &&Gpu| match target.parse::<u32>() {
        Ok(index) if target.len() <= 4 => gpu.index == index,
        _ => gpu.uuid.strip_prefix("GPU-").is_some_and(|rest| {
            let asked = target.strip_prefix("GPU-").unwrap_or(target).to_ascii_lowercase();
            !asked.is_empty() && rest.starts_with(&asked)
        }),
    };
    let mut found = gpus.iter().filter(named);
    match (found.next(), found.next()) {
        (Some(gpu), None) => Ok(gpu.uuid.clone()),
        (Some(_), Some(_)) => Err(Failure::new(
            format!("looking for GPU {target:?}"),
            "it begins the UUID of more than one",
            "write more of it",
        )),
        (None, _) => Err(Failure::new(
            format!("looking for GPU {target:?}"),
            "there is none",
            "`halfwarp gpus -o wide` lists them; mode and lease are a GPU's",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use halfwarp_rest::{Mode, Percent};

    fn words(words: &[&str]) -> Result<Change, (String, String)> {
        read(&words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn keys_say_whether_a_tenant_or_a_card_is_meant() {
        let Ok(Change::Tenant(to)) = words(&["compute=25%..60%", "priority=high"]) else {
            panic!("a tenant's keys")
        };
        let compute = to.compute.expect("a share");
        assert_eq!((compute.share, compute.limit), (Percent(25), Percent(60)));
        assert_eq!((to.priority, to.memory.len()), (Some(1000), 0));
        let gpu = GpuChange { mode: Some(Mode::Fair), lease_ms: Some(50) };
        assert_eq!(words(&["mode=fair", "lease=50ms"]), Ok(Change::Gpu(gpu)));
        let Ok(Change::Tenant(to)) = words(&["memory=4GiB..8GiB,25%"]) else { panic!("memory") };
        assert_eq!(to.memory.len(), 2);
    }

    #[test]
    fn what_cannot_be_read_is_refused_and_says_what_would_be() {
        for (given, said) in [
            (vec!["compute"], "no `=`"),
            (vec!["compute=25"], "compute"),
            (vec!["lease=soon"], "lease"),
            (vec!["mode=nice"], "mode"),
            (vec!["colour=red"], "colour"),
            (vec!["mode=fair", "mode=strict"], "twice"),
            (vec!["mode=fair", "priority=low"], "together"),
        ] {
            let (found, help) = words(&given).expect_err("refused");
            assert!(found.contains(said) && !help.is_empty(), "{given:?}: {found}");
        }
    }
}
