//! `halfwarp sim`: simulated machines, started, looked at, broken on purpose and stopped. It speaks to
//! a machine's own server and to no broker.

mod args;
mod fault;
mod machines;
mod stat;

use std::process::ExitCode;

use simcuda_protocol::{
    Client, Control, Told,
    place::{self, Place},
};

pub(crate) use args::SimArgs;
use args::SimCommand;

use crate::failure::Failure;

pub(crate) fn sim(asked: &SimArgs) -> Result<ExitCode, Failure> {
    match &asked.command {
        SimCommand::Start(asked) => machines::start(asked),
        SimCommand::Stop(asked) => machines::stop(asked),
        SimCommand::Ls(asked) => machines::list(asked.output),
        SimCommand::Stat(asked) => stat::stat(asked),
        SimCommand::Fault(asked) => fault::fault(asked),
    }
}

/// The machine of this name, or the one that the environment names.
fn place_of(name: Option<&str>) -> Result<Place, Failure> {
    let place = match name {
        Some(name) => Place::new(place::default_folder(), name.to_owned()),
        None => Place::from_environment(),
    };
    let help = "write letters, digits, '-', '_' or '.'";
    place.map_err(|error| Failure::new("choosing a simulated machine", error.to_string(), help))
}

/// A connection to a machine that runs.
fn connect(place: &Place) -> Result<Client, Failure> {
    Client::connect_running(place).map_err(|error| {
        let tried = format!("asking the machine {} in {}", place.machine, place.folder.display());
        let running = machines::running();
        let names: Vec<&str> = running.iter().map(|(place, _)| place.machine.as_str()).collect();
        let help = match names.as_slice() {
            [] => format!("none runs here; `halfwarp sim start {}` starts it", place.machine),
            names => format!("these run: {}", names.join(", ")),
        };
        let absent = place.socket().symlink_metadata().is_err();
        let found = if absent { "it does not run".to_owned() } else { error.to_string() };
        Failure::new(tried, found, help)
    })
}

/// One message of control; a refusal in words is a failure.
fn control(client: &Client, control: Control, tried: &str) -> Result<Told, Failure> {
    match client.control(control) {
        Ok((Told::Refused(why), _)) => Err(Failure::new(tried, why, "")),
        Ok((told, _)) => Ok(told),
        Err(error) => Err(Failure::io(tried, &error, "is the machine being stopped?")),
    }
}

fn out_of_turn(tried: &str, told: &Told) -> Failure {
    Failure::new(tried, format!("the machine answered {told:?}"), "use parts of one release")
}
