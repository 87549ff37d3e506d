//! `ps` and `gpus`: the API's lists as tables for people or as the API's own JSON.

use std::process::ExitCode;

use halfwarp_rest::{Gpu, Tenant, TenantGpu};

use crate::{
    args::{Form, ViewArgs},
    broker,
    failure::Failure,
    output,
};

pub(crate) fn tenants(view: &ViewArgs) -> Result<ExitCode, Failure> {
    let client = broker::existing(&view.which)?;
    let tenants = client.tenants().map_err(|e| e.failure(broker::asking(&client)))?;
    match view.output {
        Form::Json => output::print_json(&tenants)?,
        Form::Table => output::print(&tenants_table(&tenants))?,
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn gpus(view: &ViewArgs) -> Result<ExitCode, Failure> {
    let client = broker::existing(&view.which)?;
    let gpus = client.gpus().map_err(|e| e.failure(broker::asking(&client)))?;
    match view.output {
        Form::Json => output::print_json(&gpus)?,
        Form::Table => output::print(&gpus_table(&gpus))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// A line for each card of each tenant; under it a line for each of its processes.
fn tenants_table(tenants: &[Tenant]) -> String {
    let header = [
        "ID", "NAME", "STATE", "GPU", "HELD", "REQUEST", "LIMIT", "REFUSED", "SHARE", "PRIORITY",
        "PID", "COMMAND",
    ];
    let mut table = output::table(&header, &[0, 4, 5, 6, 7, 8, 9, 10]);
    for tenant in tenants {
        let lines = tenant.gpus.len().max(tenant.processes.len()).max(1);
        for line in 0..lines {
            let first = |text: String| if line == 0 { text } else { String::new() };
            let card = |show: fn(&TenantGpu) -> String| {
                tenant.gpus.get(line).map(show).unwrap_or_default()
            };
            let process = tenant.processes.get(line);
            table.add_row([
                first(tenant.id.to_string()),
                first(tenant.name.clone()),
                first(tenant.state.clone()),
                card(|gpu| format!("{} {}", gpu.index, short_uuid(&gpu.uuid))),
                card(|gpu| gpu.held_bytes.to_string()),
                card(|gpu| gpu.request_bytes.to_string()),
                card(|gpu| gpu.limit_bytes.to_string()),
                card(|gpu| gpu.refused.to_string()),
                first(share(tenant)),
                first(tenant.priority.to_string()),
                process.map(|process| process.pid.to_string()).unwrap_or_default(),
                process.map(|process| process.command.clone()).unwrap_or_default(),
            ]);
        }
    }
    output::lines(&table)
}

fn share(tenant: &Tenant) -> String {
    if tenant.share_limit.0 == 100 {
        return tenant.share.to_string();
    }
    format!("{}..{}", tenant.share, tenant.share_limit)
}

fn gpus_table(gpus: &[Gpu]) -> String {
    let header = [
        "GPU",
        "UUID",
        "NAME",
        "MODE",
        "TOTAL",
        "USED",
        "REQUESTED",
        "HELD",
        "SETTLING",
        "CONTEXT",
        "TENANTS",
    ];
    let mut table = output::table(&header, &[0, 4, 5, 6, 7, 8, 9]);
    for gpu in gpus {
        let tenants: Vec<String> = gpu.tenants.iter().map(u64::to_string).collect();
        let guessed = if gpu.context_measured { "" } else { "~" };
        table.add_row([
            gpu.index.to_string(),
            short_uuid(&gpu.uuid).to_owned(),
            gpu.name.clone(),
            format!("{:?}", gpu.mode).to_lowercase(),
            gpu.memory_total_bytes.to_string(),
            gpu.memory_used_bytes.map_or_else(|| "-".to_owned(), |bytes| bytes.to_string()),
            gpu.memory_requested_bytes.to_string(),
            gpu.memory_held_bytes.to_string(),
            gpu.memory_settling_bytes.to_string(),
            format!("{guessed}{}", gpu.context_bytes),
            if tenants.is_empty() { "-".to_owned() } else { tenants.join(",") },
        ]);
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
    use halfwarp_rest::{Bytes, Percent, Process};

    #[test]
    fn a_tenant_shows_its_memory_and_each_of_its_processes() {
        let process = |pid| Process { pid, command: format!("worker-{pid}"), joined_at: 0 };
        let tenant = Tenant {
            id: 7,
            name: "train".to_owned(),
            uid: 0,
            state: "running".to_owned(),
            priority: 500,
            share: Percent(25),
            share_limit: Percent(60),
            swap: false,
            started_at: 0,
            processes: vec![process(41), process(42)],
            gpus: vec![TenantGpu {
                index: 0,
                uuid: "GPU-12345678-1234-1234-1234-123456789012".to_owned(),
                request_bytes: Bytes(4 << 30),
                limit_bytes: Bytes(16 << 30),
                held_bytes: Bytes(1 << 20),
                context_bytes: Bytes(1 << 20),
                refused: 3,
            }],
        };
        let text = tenants_table(&[tenant]);
        let lines: Vec<Vec<&str>> =
            text.lines().map(|line| line.split_whitespace().collect()).collect();
        let first = [
            "7",
            "train",
            "running",
            "0",
            "GPU-12345678",
            "1MiB",
            "4GiB",
            "16GiB",
            "3",
            "25%..60%",
            "500",
            "41",
            "worker-41",
        ];
        assert_eq!(lines[1], first);
        assert_eq!(lines[2], ["42", "worker-42"]);
        assert_eq!(lines.len(), 3);
    }

    #[test]
    fn a_short_or_foreign_uuid_is_shown_whole() {
        assert_eq!(short_uuid("GPU-1"), "GPU-1");
        assert_eq!(short_uuid("GPU-1234567é"), "GPU-1234567é");
    }
}
