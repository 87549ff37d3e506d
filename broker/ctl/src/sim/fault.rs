//! `halfwarp sim fault`.

use std::process::ExitCode;

use serde::Serialize;
use simcuda_protocol::{Client, Control, Fault, Told, control::Listed};

use super::{args::FaultArgs, connect, control, out_of_turn, place_of};
use crate::{args::Form, failure::Failure, output};

const TEXTS: [&str; 1] = ["FAULT"];

/// A fault in JSON: the text is what sets it again.
#[derive(Serialize)]
struct Shown {
    number: u64,
    fault: String,
    calls_seen: u64,
    calls_hit: u64,
}

pub(super) fn fault(asked: &FaultArgs) -> Result<ExitCode, Failure> {
    let faults = read(&asked.specs)?;
    let place = place_of(asked.machine.as_deref())?;
    let client = connect(&place)?;
    if asked.list {
        list(&client, asked.form.output)?;
    } else if let Some(number) = asked.clear {
        clear(&client, number)?;
    } else {
        // Those before a wrong one stay set; what is set is said.
        for fault in faults {
            set(&client, fault)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// All of them, before any is set.
fn read(specs: &[String]) -> Result<Vec<Fault>, Failure> {
    let help = "`halfwarp sim fault --help` has all forms";
    let read = |spec: &String| {
        spec.parse().map_err(|error: simcuda_protocol::fault_text::NoFault| {
            let text = error.to_string();
            let (tried, found) = text.split_once(": ").unwrap_or((&text, ""));
            Failure::new(tried, found, help)
        })
    };
    specs.iter().map(read).collect()
}

fn set(client: &Client, fault: Fault) -> Result<(), Failure> {
    let tried = format!("setting {fault}");
    match control(client, Control::Set(fault.clone()), &tried)? {
        Told::Set { number: Some(number) } => output::print(&format!("{number} {fault}\n")),
        Told::Set { number: None } => output::print(&format!("done {fault}\n")),
        other => Err(out_of_turn(&tried, &other)),
    }
}

fn clear(client: &Client, number: Option<u64>) -> Result<(), Failure> {
    let tried = "taking faults back";
    match control(client, Control::Clear(number), tried)? {
        Told::Cleared { count } => output::print(&format!("{count} taken back\n")),
        other => Err(out_of_turn(tried, &other)),
    }
}

fn list(client: &Client, form: Form) -> Result<(), Failure> {
    let tried = "listing faults";
    let faults = match control(client, Control::List, tried)? {
        Told::Faults(faults) => faults,
        other => return Err(out_of_turn(tried, &other)),
    };
    if form == Form::Json {
        return output::print_json(&faults.iter().map(shown).collect::<Vec<_>>());
    }
    let mut table = output::table(&["NUMBER", "SEEN", "HIT", "FAULT"], &TEXTS);
    for fault in faults.iter().map(shown) {
        table.add_row([
            fault.number.to_string(),
            fault.calls_seen.to_string(),
            fault.calls_hit.to_string(),
            fault.fault,
        ]);
    }
    output::print(&output::lines(&table))
}

fn shown(listed: &Listed) -> Shown {
    Shown {
        number: listed.number,
        fault: listed.fault.to_string(),
        calls_seen: listed.seen,
        calls_hit: listed.hit,
    }
}
