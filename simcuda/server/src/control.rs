//! Answers to messages of control.

use crate::machine::{Answer, Machine};
use simcuda_protocol::control::{Control, Description, Told};
use simcuda_protocol::{Refusal, Reply};
use std::os::fd::OwnedFd;
use std::time::Duration;

/// One look for events is not longer: a client that dies meanwhile must be noticed.
const LOOK: Duration = Duration::from_millis(50);

pub(crate) fn answer(machine: &Machine, pid: u32, control: Control) -> Answer {
    let (told, descriptor) = told(machine, pid, control)?;
    Ok((Reply::Control(told), descriptor))
}

fn told(machine: &Machine, pid: u32, control: Control) -> Result<(Told, Option<OwnedFd>), Refusal> {
    let board = &machine.board;
    let told = match control {
        Control::Page => {
            let (file, last_strike) = board.page().map_err(|_| Refusal::Host)?;
            return Ok((Told::Page { last_strike }, Some(file)));
        }
        Control::State => Told::State(board.state(pid)),
        Control::Called(function) => Told::Act(board.called(function, pid)),
        Control::Set(fault) => match board.set(&fault) {
            Ok(number) => Told::Set { number },
            Err(why) => Told::Refused(why),
        },
        Control::List => Told::Faults(board.list()),
        Control::Clear(number) => match board.clear(number) {
            Ok(count) => Told::Cleared { count },
            Err(why) => Told::Refused(why),
        },
        Control::Describe => Told::Description(describe(machine, pid)),
        Control::Stop { force } => stop(machine, pid, force),
        Control::Tell { device, xid } => {
            board.tell(device, xid);
            Told::Done
        }
        Control::Events { after, wait_ms } => {
            let patience = Duration::from_millis(wait_ms.into()).min(LOOK);
            let (last, events) = board.events(after, patience);
            Told::Events { last, events }
        }
        Control::Health { device } => {
            Told::Health(board.health(device).ok_or(Refusal::NoSuchDevice)?)
        }
        Control::Accounts { device } => Told::Accounts(machine.past_and_present(device)?),
    };
    Ok((told, None))
}

fn describe(machine: &Machine, asking: u32) -> Description {
    Description {
        pid: std::process::id(),
        profile: machine.life.profile.clone(),
        uptime_ms: u64::try_from(machine.life.since.elapsed().as_millis()).unwrap_or(u64::MAX),
        stays: machine.life.stays,
        clients: machine.clients(asking),
        faults: machine.board.list().len() as u64,
    }
}

fn stop(machine: &Machine, asking: u32, force: bool) -> Told {
    let clients = machine.clients(asking);
    if !clients.is_empty() && !force {
        let pids: Vec<String> = clients.iter().map(u32::to_string).collect();
        return Told::Refused(format!(
            "{} of {} use it: {}",
            if clients.len() == 1 { "a process" } else { "processes" },
            machine.name,
            pids.join(", ")
        ));
    }
    machine.life.end();
    Told::Done
}
