//! `halfwarp sim stat`: the cards of a machine, and which process holds how much of them.

use std::process::ExitCode;

use halfwarp_rest::Bytes;
use serde::Serialize;
use simcuda_protocol::{Client, Control, Reply, Request, Told, Usage, control::Health};

use super::{args::StatArgs, connect, control, out_of_turn, place_of};
use crate::{args::Form, failure::Failure, output};

const TEXTS: [&str; 4] = ["NAME", "UUID", "HEALTH", "COMMAND"];
const NAME_WIDTH: usize = 24;

#[derive(Serialize)]
struct Card {
    index: u32,
    uuid: String,
    name: String,
    total_bytes: u64,
    used_bytes: u64,
    health: String,
    processes: Vec<Process>,
}

#[derive(Serialize)]
struct Process {
    pid: u32,
    used_bytes: u64,
    command: String,
}

pub(super) fn stat(asked: &StatArgs) -> Result<ExitCode, Failure> {
    let place = place_of(asked.name.as_deref())?;
    let client = connect(&place)?;
    let count = u32::try_from(client.devices().len()).unwrap_or(u32::MAX);
    let cards = (0..count).map(|index| card(&client, index)).collect::<Result<Vec<_>, _>>()?;
    match asked.form.output {
        Form::Json => output::print_json(&cards)?,
        form => output::print(&table(&cards, form == Form::Wide))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn card(client: &Client, index: u32) -> Result<Card, Failure> {
    let tried = format!("asking the machine {} about card {index}", client.machine());
    let usage = usage(client, index, &tried)?;
    let health = match control(client, Control::Health { device: index }, &tried)? {
        Told::Health(health) => words(&health),
        other => return Err(out_of_turn(&tried, &other)),
    };
    let processes = usage.processes.iter().map(|process| Process {
        pid: process.pid,
        used_bytes: process.used_bytes,
        command: command(process.pid),
    });
    let device = &client.devices()[index as usize];
    Ok(Card {
        index,
        uuid: device.uuid_text(),
        name: device.name.clone(),
        total_bytes: usage.total_bytes,
        used_bytes: usage.used_bytes,
        health,
        processes: processes.collect(),
    })
}

fn usage(client: &Client, device: u32, tried: &str) -> Result<Usage, Failure> {
    match client.ask(&Request::Usage { device }) {
        Ok((Reply::Usage(usage), _)) => Ok(usage),
        Ok((other, _)) => Err(Failure::new(tried, format!("it answered {other:?}"), "")),
        Err(error) => Err(Failure::io(tried, &error, "is the machine being stopped?")),
    }
}

/// `ok`, or all that is wrong.
fn words(health: &Health) -> String {
    let mut words = Vec::new();
    if health.lost {
        words.push("lost".to_owned());
    }
    if health.uncorrected > 0 {
        words.push(format!("{} uncorrected", health.uncorrected));
    }
    if health.link_percent < 100 {
        words.push(format!("link {}%", health.link_percent));
    }
    if words.is_empty() { "ok".to_owned() } else { words.join(", ") }
}

/// As `ps` names it; empty for a process that is not ours to look at.
fn command(pid: u32) -> String {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    name.trim().to_owned()
}

/// A line for each card, and beside it one for each of its processes.
fn table(cards: &[Card], wide: bool) -> String {
    let mut header = vec!["GPU", "NAME", "TOTAL", "USED", "HEALTH", "PID", "HELD", "COMMAND"];
    if wide {
        header.insert(1, "UUID");
    }
    let mut table = output::table(&header, &TEXTS);
    for card in cards {
        for line in 0..card.processes.len().max(1) {
            let first = |text: String| if line == 0 { text } else { String::new() };
            let name =
                if wide { card.name.clone() } else { output::shortened(&card.name, NAME_WIDTH) };
            let mut cells = vec![
                first(card.index.to_string()),
                first(name),
                first(output::exact(Bytes(card.total_bytes))),
                first(output::held(Bytes(card.used_bytes))),
                first(card.health.clone()),
            ];
            if wide {
                cells.insert(1, first(card.uuid.clone()));
            }
            match card.processes.get(line) {
                Some(process) => cells.extend([
                    process.pid.to_string(),
                    output::held(Bytes(process.used_bytes)),
                    process.command.clone(),
                ]),
                None => cells.extend([String::new(), String::new(), String::new()]),
            }
            table.add_row(cells);
        }
    }
    output::lines(&table)
}
