//! Running the program: signals that reach us are passed on, its end becomes our exit code.
//!
//! Signals are blocked here and read from a descriptor instead of being handled, so that one the
//! caller ignores (`nohup`) stays ignored in the program. What a terminal sends goes to its whole
//! foreground group, the program included, and is not sent twice.

use std::{
    ffi::OsString,
    io,
    os::unix::process::ExitStatusExt,
    process::{Child, Command, ExitStatus},
};

use nix::sys::{
    signal::{SigSet, Signal},
    signalfd::{SfdFlags, SignalFd},
};
use rustix::process::{Pid, getpgid, getpid, kill_process};

use crate::failure::Failure;

/// Signals that are passed on to the program.
const PASSED_ON: [Signal; 9] = [
    Signal::SIGTERM,
    Signal::SIGINT,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGCONT,
    Signal::SIGTSTP,
    Signal::SIGWINCH,
];

/// `si_code` of a signal that the kernel itself made, as a terminal's are.
const SI_KERNEL: i32 = 0x80;

/// Runs `command` with `variables` added; the code to end with. `broker` is a child of ours that may
/// end meanwhile and is then waited for.
pub(super) fn run(
    command: &[OsString],
    variables: &[(&'static str, OsString)],
    mut broker: Option<Child>,
) -> Result<u8, Failure> {
    let watched = PASSED_ON.into_iter().chain([Signal::SIGCHLD]).collect::<SigSet>();
    let signals = watched
        .thread_block()
        .and_then(|()| SignalFd::with_flags(&watched, SfdFlags::SFD_CLOEXEC))
        .map_err(|error| Failure::io("preparing to pass on signals", &error.into(), ""))?;
    let mut program = Command::new(&command[0]);
    program.args(&command[1..]).envs(variables.iter().map(|(name, value)| (name, value)));
    let mut child = match program.spawn() {
        Ok(child) => child,
        Err(error) => return could_not_start(command, &error),
    };
    loop {
        if let Some(broker) = &mut broker {
            // Its end is the broker's business; ours is only to leave no zombie.
            let _ = broker.try_wait();
        }
        match child.try_wait() {
            Ok(Some(status)) => return Ok(exit_code(status)),
            Ok(None) => {}
            Err(error) => return Err(Failure::io("waiting for the program", &error, "")),
        }
        let Ok(Some(signal)) = signals.read_signal() else { continue };
        if let Ok(number) = Signal::try_from(signal.ssi_signo as i32)
            && number != Signal::SIGCHLD
        {
            pass_on(&child, number, signal.ssi_code == SI_KERNEL);
        }
    }
}

fn pass_on(child: &Child, signal: Signal, from_kernel: bool) {
    let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) else { return };
    let got_it_too = from_kernel && getpgid(Some(pid)) == getpgid(None);
    let Some(number) = rustix::process::Signal::from_named_raw(signal as i32) else { return };
    if !got_it_too {
        // It can only have ended just now; the next round finds that.
        let _ = kill_process(pid, number);
    }
    if signal == Signal::SIGTSTP {
        // The caller's shell waits for us to stop, not for the program.
        let _ = kill_process(getpid(), rustix::process::Signal::STOP);
    }
}

/// As a shell says it: the program's own code, or 128 and the signal that ended it.
fn exit_code(status: ExitStatus) -> u8 {
    let signal = || status.signal().map_or(crate::OUR_FAILURE, |n| 128u8.saturating_add(n as u8));
    status.code().map_or_else(signal, |code| code as u8)
}

/// 127 for a program that is not there, 126 for one that cannot be executed.
fn could_not_start(command: &[OsString], error: &io::Error) -> Result<u8, Failure> {
    let tried = format!("running {}", command[0].display());
    let (code, help) = match error.kind() {
        io::ErrorKind::NotFound => (127, "is it installed and on PATH?"),
        io::ErrorKind::PermissionDenied => (126, "is it executable?"),
        io::ErrorKind::OutOfMemory | io::ErrorKind::WouldBlock => {
            return Err(Failure::io(tried, error, "the host is short of memory or processes"));
        }
        _ => (126, "is it a program for this machine?"),
    };
    eprintln!("halfwarp: {}", Failure::io(tried, error, help));
    Ok(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_programs_code_is_ours_and_a_signal_is_128_and_its_number() {
        assert_eq!(exit_code(ExitStatus::from_raw(0)), 0);
        assert_eq!(exit_code(ExitStatus::from_raw(3 << 8)), 3);
        assert_eq!(exit_code(ExitStatus::from_raw(255 << 8)), 255);
        assert_eq!(exit_code(ExitStatus::from_raw(9)), 137);
        assert_eq!(exit_code(ExitStatus::from_raw(15)), 143);
    }

    #[test]
    fn not_found_and_not_executable_have_their_own_codes() {
        let code = |program: &str| could_not_start(&[program.into()], &spawn_error(program));
        assert_eq!(code("/nonexistent/program").expect("a code"), 127);
        assert_eq!(code("/etc/passwd").expect("a code"), 126);
        assert_eq!(code("/etc").expect("a code"), 126);
    }

    fn spawn_error(program: &str) -> io::Error {
        Command::new(program).spawn().expect_err("cannot be run")
    }
}
