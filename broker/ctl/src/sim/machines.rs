//! `halfwarp sim start`, `stop` and `ls`.

use std::{
    process::{Command, ExitCode, Stdio},
    time::{Duration, Instant},
};

use serde::Serialize;
use simcuda_protocol::{
    Client, Control, Told,
    control::Description,
    place::{self, Place, SERVER},
};

use super::{
    args::{StartArgs, StopArgs},
    connect, control, out_of_turn, place_of,
};
use crate::{args::Form, artefacts::Artefacts, failure::Failure, output};

const TEXTS: [&str; 5] = ["MACHINE", "PROFILE", "CARDS", "SOCKET", "STAYS"];
/// A machine that is told to end does so at its next look.
const STOP_DEADLINE: Duration = Duration::from_secs(5);
const LOOK_AGAIN: Duration = Duration::from_millis(10);

pub(super) fn start(asked: &StartArgs) -> Result<ExitCode, Failure> {
    let place = place_of(asked.name.as_deref())?;
    let tried = format!("starting the machine {}", place.machine);
    if let Ok(client) = Client::connect_running(&place) {
        let found = format!("it runs already, with {}", cards(&client));
        let help = format!("`halfwarp sim stop {}` stops it", place.machine);
        return Err(Failure::new(tried, found, help));
    }
    let artefacts = Artefacts::beside_self()?;
    let server = artefacts.need(artefacts.sim().join(SERVER), "the simulated machine's server")?;
    let profile = if asked.profile.contains('/') || asked.profile.ends_with(".toml") {
        std::path::absolute(&asked.profile)
            .map_err(|error| Failure::io(tried.as_str(), &error, "name a TOML file"))?
    } else {
        asked.profile.clone().into()
    };
    let mut command = Command::new(server);
    command.arg("start").arg("--folder").arg(&place.folder).arg("--machine").arg(&place.machine);
    command.arg("--profile").arg(profile).arg("--stay").arg("--faults").arg(&asked.faults);
    command.env_clear().current_dir("/").stdin(Stdio::null());
    let ended = command.output().map_err(|error| Failure::io(tried.as_str(), &error, ""))?;
    if !ended.status.success() {
        let said = String::from_utf8_lossy(&ended.stderr);
        let said = said.trim().trim_start_matches("simcudad: ").replace('\n', " ");
        return Err(Failure::new(tried, said, "`halfwarp sim ls` shows what runs"));
    }
    let client = connect(&place)?;
    output::print(&format!("{} runs with {}\n", place.machine, cards(&client)))?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn stop(asked: &StopArgs) -> Result<ExitCode, Failure> {
    let place = place_of(asked.name.as_deref())?;
    let client = connect(&place)?;
    let tried = format!("stopping the machine {}", place.machine);
    match client.control(Control::Stop { force: asked.force }) {
        Ok((Told::Refused(why), _)) => {
            return Err(Failure::new(tried, why, "end them, or use --force"));
        }
        Ok(_) => {}
        Err(error) => return Err(Failure::io(tried, &error, "")),
    }
    let until = Instant::now() + STOP_DEADLINE;
    while place.socket().exists() {
        if Instant::now() > until {
            let found = format!("it has not ended within {} s", STOP_DEADLINE.as_secs());
            return Err(Failure::new(tried, found, "kill its simcudad"));
        }
        std::thread::sleep(LOOK_AGAIN);
    }
    output::print(&format!("{} is stopped\n", place.machine))?;
    Ok(ExitCode::SUCCESS)
}

/// A machine in JSON.
#[derive(Serialize)]
struct Shown {
    machine: String,
    profile: String,
    pid: u32,
    cards: Vec<String>,
    processes: Vec<u32>,
    faults: u64,
    uptime_ms: u64,
    stays: bool,
    socket: String,
}

pub(super) fn list(form: Form) -> Result<ExitCode, Failure> {
    let mut shown = Vec::new();
    for (place, client) in running() {
        let description = describe(&client)?;
        shown.push(Shown {
            machine: place.machine.clone(),
            profile: description.profile,
            pid: description.pid,
            cards: client.devices().iter().map(|device| device.name.clone()).collect(),
            processes: description.clients,
            faults: description.faults,
            uptime_ms: description.uptime_ms,
            stays: description.stays,
            socket: place.socket().display().to_string(),
        });
    }
    match form {
        Form::Json => output::print_json(&shown)?,
        form => output::print(&table(&shown, form == Form::Wide))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn table(machines: &[Shown], wide: bool) -> String {
    let narrow = ["MACHINE", "PROFILE", "CARDS", "PROCESSES", "FAULTS", "PID"];
    let more = ["UPTIME_S", "STAYS", "SOCKET"];
    let header: Vec<&str> = narrow.into_iter().chain(more.into_iter().filter(|_| wide)).collect();
    let mut table = output::table(&header, &TEXTS);
    for machine in machines {
        let mut cells = vec![
            machine.machine.clone(),
            machine.profile.clone(),
            grouped(&machine.cards),
            machine.processes.len().to_string(),
            machine.faults.to_string(),
            machine.pid.to_string(),
        ];
        if wide {
            cells.push((machine.uptime_ms / 1000).to_string());
            cells.push(if machine.stays { "yes" } else { "no" }.to_owned());
            cells.push(machine.socket.clone());
        }
        table.add_row(cells);
    }
    output::lines(&table)
}

pub(super) fn describe(client: &Client) -> Result<Description, Failure> {
    let tried = format!("asking the machine {}", client.machine());
    match control(client, Control::Describe, &tried)? {
        Told::Description(description) => Ok(description),
        other => Err(out_of_turn(&tried, &other)),
    }
}

/// All machines that run in this user's folder, by name.
pub(super) fn running() -> Vec<(Place, Client)> {
    let folder = place::default_folder();
    let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter_map(|entry| Some(entry.file_name().to_str()?.strip_suffix(".sock")?.to_owned()))
        .collect();
    names.sort();
    let found = names.into_iter().filter_map(|name| {
        let place = Place::new(folder.clone(), name).ok()?;
        // A socket that nobody answers was left by a server that was killed.
        let client = Client::connect_running(&place).ok()?;
        Some((place, client))
    });
    found.collect()
}

fn cards(client: &Client) -> String {
    let names: Vec<String> = client.devices().iter().map(|device| device.name.clone()).collect();
    grouped(&names)
}

/// `2 x Simulated T4`.
fn grouped(names: &[String]) -> String {
    let mut groups: Vec<(usize, &str)> = Vec::new();
    for name in names {
        match groups.iter_mut().find(|(_, known)| known == name) {
            Some((count, _)) => *count += 1,
            None => groups.push((1, name)),
        }
    }
    let shown = |(count, name): &(usize, &str)| match count {
        1 => (*name).to_owned(),
        count => format!("{count} x {name}"),
    };
    groups.iter().map(shown).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cards_of_a_kind_are_counted() {
        let names = ["T4", "L4", "T4"].map(str::to_owned);
        assert_eq!(grouped(&names), "2 x T4, L4");
        assert_eq!(grouped(&[]), "");
    }
}
