//! `ps` and `gpus`: the API's lists as tables for people or as the API's own JSON.

use std::process::ExitCode;

use halfwarp_rest::{Compute, Gpu, Swap, Tenant, TenantGpu};

use crate::{
    args::{Form, ViewArgs},
    broker,
    failure::Failure,
    output::{self, exact, held},
};

/// Columns that are no numbers.
const TEXTS: [&str; 9] =
    ["UNMOVABLE", "NAME", "STATE", "UUID", "MODE", "TENANTS", "COMMAND", "UID", "GROUP"];

/// What the narrow form has of names; the wide one has them whole.
const NAME_WIDTH: usize = 14;
const COMMAND_WIDTH: usize = 13;
const CARD_WIDTH: usize = 28;

pub(crate) fn tenants(view: &ViewArgs) -> Result<ExitCode, Failure> {
    let client = broker::existing(&view.which)?;
    let tenants = client.tenants().map_err(|e| e.failure(broker::asking(&client)))?;
    print_tenants(&tenants, view.output).map(|()| ExitCode::SUCCESS)
}

pub(crate) fn print_tenants(tenants: &[Tenant], form: Form) -> Result<(), Failure> {
    match form {
        Form::Json => output::print_json(&tenants),
        form => output::print(&tenants_table(tenants, form == Form::Wide)),
    }
}

pub(crate) fn gpus(view: &ViewArgs) -> Result<ExitCode, Failure> {
    let client = broker::existing(&view.which)?;
    let gpus = client.gpus().map_err(|e| e.failure(broker::asking(&client)))?;
    print_gpus(&gpus, view.output).map(|()| ExitCode::SUCCESS)
}

pub(crate) fn print_gpus(gpus: &[Gpu], form: Form) -> Result<(), Failure> {
    match form {
        Form::Json => output::print_json(&gpus),
        form => output::print(&gpus_table(gpus, form == Form::Wide)),
    }
}

/// A line for each card of each tenant; beside it a line for each of its processes.
fn tenants_table(tenants: &[Tenant], wide: bool) -> String {
    let header: &[&str] = if wide {
        &[
            "ID",
            "NAME",
            "STATE",
            "GPU",
            "UUID",
            "HELD",
            "CONTEXTS",
            "REQUEST",
            "LIMIT",
            "REFUSED",
            "SWAP",
            "SWAPPED",
            "HOST",
            "UNMOVABLE",
            "SHARE",
            "RECEIVED",
            "LEASE",
            "PRIORITY",
            "GROUP",
            "UID",
            "PID",
            "COMMAND",
        ]
    } else {
        &["ID", "NAME", "STATE", "GPU", "HELD", "LIMIT", "REFUSED", "RECEIVED", "PID", "COMMAND"]
    };
    let mut table = output::table(header, &TEXTS);
    for tenant in tenants {
        let lines = tenant.gpus.len().max(tenant.processes.len()).max(1);
        for line in 0..lines {
            table.add_row(of(header, tenant_cells(tenant, line, wide)));
        }
    }
    output::lines(&table)
}

/// All columns of a line of a tenant.
fn tenant_cells(tenant: &Tenant, line: usize, wide: bool) -> [(&'static str, String); 22] {
    let first = |text: String| if line == 0 { text } else { String::new() };
    let card = |show: fn(&TenantGpu) -> String| tenant.gpus.get(line).map(show).unwrap_or_default();
    let process = tenant.processes.get(line);
    let name = shown(&tenant.name, NAME_WIDTH, wide);
    let command = process.map(|p| shown(&p.command, COMMAND_WIDTH, wide));
    [
        ("ID", first(tenant.id.to_string())),
        ("NAME", first(name)),
        ("STATE", first(tenant.state.clone())),
        ("GPU", card(|gpu| gpu.index.to_string())),
        ("UUID", card(|gpu| gpu.uuid.clone())),
        ("HELD", card(|gpu| held(gpu.held_bytes))),
        ("CONTEXTS", card(|gpu| held(gpu.context_bytes))),
        ("REQUEST", card(|gpu| exact(gpu.request_bytes))),
        ("LIMIT", card(|gpu| exact(gpu.limit_bytes))),
        ("REFUSED", card(|gpu| gpu.refused.to_string())),
        ("SWAP", first(if tenant.swap { "on" } else { "-" }.to_owned())),
        ("SWAPPED", card(|gpu| held(gpu.swap.swapped_bytes))),
        ("HOST", card(|gpu| held(gpu.swap.host_bytes))),
        ("UNMOVABLE", card(|gpu| reasons(&gpu.swap))),
        ("SHARE", first(share(tenant))),
        ("RECEIVED", card(|gpu| received(&gpu.compute))),
        ("LEASE", card(|gpu| lease(&gpu.compute))),
        ("PRIORITY", first(tenant.priority.to_string())),
        ("GROUP", first(tenant.group.clone().unwrap_or_else(|| "-".to_owned()))),
        ("UID", first(tenant.uid.to_string())),
        ("PID", process.map(|process| process.pid.to_string()).unwrap_or_default()),
        ("COMMAND", command.unwrap_or_default()),
    ]
}

/// The cells of the columns that are shown.
fn of<const N: usize>(header: &[&str], cells: [(&str, String); N]) -> Vec<String> {
    let shown = cells.into_iter().filter(|(column, _)| header.contains(column));
    shown.map(|(_, cell)| cell).collect()
}

fn shown(name: &str, width: usize, wide: bool) -> String {
    if wide { name.to_owned() } else { output::shortened(name, width) }
}

/// Why memory can't be moved; a dash where it can, or where nobody asked.
fn reasons(swap: &Swap) -> String {
    if swap.reasons.is_empty() { "-".to_owned() } else { swap.reasons.join(",") }
}

fn share(tenant: &Tenant) -> String {
    if tenant.share_limit.0 == 100 {
        return tenant.share.to_string();
    }
    format!("{}..{}", tenant.share, tenant.share_limit)
}

/// Part of the card over the last seconds; a dash where nothing is counted.
fn received(compute: &Compute) -> String {
    compute.share_received.map_or_else(|| "-".to_owned(), |part| format!("{:.0}%", part * 100.0))
}

fn lease(compute: &Compute) -> String {
    if compute.interlocked {
        format!("{}, interlocked", compute.lease)
    } else {
        compute.lease.clone()
    }
}

fn gpus_table(gpus: &[Gpu], wide: bool) -> String {
    let header: &[&str] = if wide {
        &[
            "GPU",
            "UUID",
            "NAME",
            "MODE",
            "LEASE",
            "TOTAL",
            "USED",
            "REQUESTED",
            "HELD",
            "SETTLING",
            "CONTEXT",
            "TENANTS",
        ]
    } else {
        &["GPU", "UUID", "NAME", "TOTAL", "USED", "REQUESTED", "HELD", "TENANTS"]
    };
    let mut table = output::table(header, &TEXTS);
    for gpu in gpus {
        let tenants: Vec<String> = gpu.tenants.iter().map(u64::to_string).collect();
        let guessed = if gpu.context_measured { "" } else { "~" };
        let uuid = if wide { &gpu.uuid } else { short_uuid(&gpu.uuid) };
        let cells = [
            ("GPU", gpu.index.to_string()),
            ("UUID", uuid.to_owned()),
            ("NAME", shown(&gpu.name, CARD_WIDTH, wide)),
            ("MODE", format!("{:?}", gpu.mode).to_lowercase()),
            ("LEASE", format!("{}ms", gpu.lease_ms)),
            ("TOTAL", exact(gpu.memory_total_bytes)),
            ("USED", gpu.memory_used_bytes.map_or_else(|| "-".to_owned(), held)),
            ("REQUESTED", exact(gpu.memory_requested_bytes)),
            ("HELD", held(gpu.memory_held_bytes)),
            ("SETTLING", held(gpu.memory_settling_bytes)),
            ("CONTEXT", format!("{guessed}{}", held(gpu.context_bytes))),
            ("TENANTS", if tenants.is_empty() { "-".to_owned() } else { tenants.join(",") }),
        ];
        table.add_row(of(header, cells));
    }
    output::lines(&table)
}

/// The part of a UUID that people recognise a card by, and which `--gpu` takes.
pub(crate) fn short_uuid(uuid: &str) -> &str {
    uuid.get(..12).unwrap_or(uuid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use halfwarp_rest::{Bytes, Mode, Percent, Process};

    fn tenant() -> Tenant {
        let process = |pid| Process { pid, command: format!("worker-{pid}"), joined_at: 0 };
        Tenant {
            id: 7,
            name: "train".to_owned(),
            uid: 1000,
            state: "running".to_owned(),
            priority: 500,
            group: None,
            stalled: false,
            share: Percent(25),
            share_limit: Percent(60),
            swap: false,
            on_reclaim: halfwarp_rest::OnReclaim::Keep,
            started_at: 0,
            processes: vec![process(41), process(42)],
            gpus: vec![TenantGpu {
                index: 0,
                uuid: "GPU-12345678-1234-1234-1234-123456789012".to_owned(),
                request_bytes: Bytes(4 << 30),
                limit_bytes: Bytes(16 << 30),
                held_bytes: Bytes((1 << 20) + 512),
                context_bytes: Bytes(1 << 20),
                refused: 3,
                swap: Swap::default(),
                compute: Compute { share_received: Some(0.244), ..Compute::default() },
            }],
        }
    }

    fn words(line: &str) -> Vec<&str> {
        line.split_whitespace().collect()
    }

    #[test]
    fn a_tenant_shows_its_memory_and_each_of_its_processes() {
        let text = tenants_table(&[tenant()], false);
        let lines: Vec<&str> = text.lines().collect();
        let first =
            ["7", "train", "running", "0", "2MiB", "16384MiB", "3", "24%", "41", "worker-41"];
        assert_eq!(words(lines[1]), first);
        assert_eq!(words(lines[2]), ["42", "worker-42"]);
        assert_eq!(lines.len(), 3);
    }

    #[test]
    fn the_wide_form_has_every_column_and_cuts_nothing() {
        let name = "a-name-of-sixty-three-characters-".to_owned() + &"x".repeat(30);
        let tenant = Tenant { name: name.clone(), ..tenant() };
        let text = tenants_table(&[tenant], true);
        for said in [&name, "GPU-12345678-1234-1234-1234-123456789012", "25%..60%", "500", "1000"] {
            assert!(words(text.lines().nth(1).expect("a line")).contains(&said), "{said}: {text}");
        }
        let columns = |text: &str| words(text.lines().next().expect("a header")).len();
        assert_eq!((columns(&text), columns(&gpus_table(&[], true))), (22, 12));
    }

    #[test]
    fn the_narrow_form_fits_a_hundred_columns_with_the_longest_that_is_usual() {
        let mut wordy = tenant();
        wordy.name = "x".repeat(63);
        wordy.id = 1234;
        wordy.processes[0].pid = 4_194_304;
        wordy.processes[0].command = "fifteen-letters".to_owned();
        let card = Bytes(143_771 << 20);
        let gpu = &mut wordy.gpus[0];
        (gpu.held_bytes, gpu.request_bytes, gpu.limit_bytes) = (card, card, card);
        let gpu = Gpu {
            index: 10,
            uuid: wordy.gpus[0].uuid.clone(),
            name: "NVIDIA GeForce RTX 4090 Laptop GPU".to_owned(),
            mode: Mode::Timesharing,
            lease_ms: 100,
            memory_total_bytes: Bytes(143_771 << 20),
            memory_used_bytes: Some(Bytes(143_771 << 20)),
            memory_requested_bytes: Bytes(143_771 << 20),
            memory_held_bytes: Bytes(143_771 << 20),
            memory_settling_bytes: Bytes(0),
            context_bytes: Bytes(0),
            context_measured: true,
            tenants: vec![1, 2, 3, 4],
        };
        for text in [tenants_table(&[wordy], false), gpus_table(&[gpu], false)] {
            let widest = text.lines().map(|line| line.chars().count()).max();
            assert!(widest <= Some(100), "{widest:?}:\n{text}");
        }
    }

    #[test]
    fn a_short_or_foreign_uuid_is_shown_whole() {
        assert_eq!(short_uuid("GPU-1"), "GPU-1");
        assert_eq!(short_uuid("GPU-1234567é"), "GPU-1234567é");
    }
}
