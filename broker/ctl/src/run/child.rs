//! Running the program: signals that reach us are passed on, its end becomes our exit code.
//!
//! Signals are blocked here and read from a descriptor instead of being handled: the program gets the
//! caller's own mask and dispositions (one that `nohup` ignores stays ignored), and none that arrives
//! before it runs is lost. What a terminal sends goes to its whole foreground group, the program
//! included, and is not sent twice.

use std::{
    ffi::{CString, OsStr, OsString},
    io,
    os::unix::ffi::OsStringExt,
    process::Child,
};

use nix::{
    spawn::{PosixSpawnAttr, PosixSpawnFileActions, PosixSpawnFlags, posix_spawnp},
    sys::{
        signal::{SigSet, SigmaskHow, Signal},
        signalfd::{SfdFlags, SignalFd},
    },
};
use rustix::process::{Pid, WaitOptions, WaitStatus, getpgid, getpid, kill_process, waitpid};

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
    let preparing =
        |error: nix::Error| Failure::io("preparing to pass on signals", &error.into(), "");
    let callers_mask = watched.thread_swap_mask(SigmaskHow::SIG_BLOCK).map_err(preparing)?;
    let signals = SignalFd::with_flags(&watched, SfdFlags::SFD_CLOEXEC).map_err(preparing)?;
    let program = match spawn(command, variables, &callers_mask) {
        Ok(pid) => pid,
        Err(error) => return could_not_start(&command[0], &error.into()),
    };
    loop {
        if let Some(broker) = &mut broker {
            // Its end is the broker's business; ours is only to leave no zombie.
            let _ = broker.try_wait();
        }
        match waitpid(Some(program), WaitOptions::NOHANG) {
            Ok(Some((_, status))) => return Ok(exit_code(status)),
            Ok(None) => {}
            Err(error) => return Err(Failure::io("waiting for the program", &error.into(), "")),
        }
        let Ok(Some(signal)) = signals.read_signal() else { continue };
        if let Ok(number) = Signal::try_from(signal.ssi_signo as i32)
            && number != Signal::SIGCHLD
        {
            pass_on(program, number, signal.ssi_code == SI_KERNEL);
        }
    }
}

fn spawn(
    command: &[OsString],
    variables: &[(&'static str, OsString)],
    mask: &SigSet,
) -> nix::Result<Pid> {
    let mut attributes = PosixSpawnAttr::init()?;
    attributes.set_sigmask(mask)?;
    // Ignored in ourselves by Rust's start code, not by the caller.
    attributes.set_sigdefault(&[Signal::SIGPIPE].into_iter().collect())?;
    attributes.set_flags(
        PosixSpawnFlags::POSIX_SPAWN_SETSIGMASK | PosixSpawnFlags::POSIX_SPAWN_SETSIGDEF,
    )?;
    let words = command.iter().map(|word| text(word.clone())).collect::<nix::Result<Vec<_>>>()?;
    let environment = std::env::vars_os()
        .filter(|(name, _)| !variables.iter().any(|(ours, _)| name == ours))
        .chain(variables.iter().map(|(name, value)| (OsString::from(name), value.clone())))
        .map(|(name, value)| text([name.as_os_str(), &value].join(OsStr::new("="))))
        .collect::<nix::Result<Vec<_>>>()?;
    let actions = PosixSpawnFileActions::init()?;
    let pid = posix_spawnp(&words[0], &actions, &attributes, &words, &environment)?;
    Pid::from_raw(pid.as_raw()).ok_or(nix::Error::ESRCH)
}

fn text(text: OsString) -> nix::Result<CString> {
    CString::new(text.into_vec()).map_err(|_| nix::Error::EINVAL)
}

fn pass_on(program: Pid, signal: Signal, from_kernel: bool) {
    let got_it_too = from_kernel && getpgid(Some(program)) == getpgid(None);
    let Some(number) = rustix::process::Signal::from_named_raw(signal as i32) else { return };
    if !got_it_too {
        // It can only have ended just now; the next round finds that.
        let _ = kill_process(program, number);
    }
    if signal == Signal::SIGTSTP {
        // The caller's shell waits for us to stop, not for the program.
        let _ = kill_process(getpid(), rustix::process::Signal::STOP);
    }
}

/// As a shell says it: the program's own code, or 128 and the signal that ended it.
fn exit_code(status: WaitStatus) -> u8 {
    let by_signal = status.terminating_signal().map(|number| 128u8.saturating_add(number as u8));
    status.exit_status().map(|code| code as u8).or(by_signal).unwrap_or(crate::OUR_FAILURE)
}

/// 127 for a program that is not there, 126 for one that cannot be executed.
fn could_not_start(program: &OsStr, error: &io::Error) -> Result<u8, Failure> {
    let tried = format!("running {}", program.display());
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

    fn code_of(words: &[&str]) -> u8 {
        let command: Vec<OsString> = words.iter().map(OsString::from).collect();
        match spawn(&command, &[], &SigSet::empty()) {
            Ok(pid) => match waitpid(Some(pid), WaitOptions::empty()) {
                Ok(Some((_, status))) => exit_code(status),
                other => panic!("waiting gave {other:?}"),
            },
            Err(error) => could_not_start(&command[0], &error.into()).expect("a code"),
        }
    }

    #[test]
    fn the_programs_code_is_ours_and_a_signal_is_128_and_its_number() {
        assert_eq!(code_of(&["true"]), 0);
        assert_eq!(code_of(&["sh", "-c", "exit 255"]), 255);
        assert_eq!(code_of(&["sh", "-c", "kill -9 $$"]), 137);
        assert_eq!(code_of(&["sh", "-c", "kill -15 $$"]), 143);
    }

    #[test]
    fn not_found_and_not_executable_have_their_own_codes() {
        assert_eq!(code_of(&["/nonexistent/program"]), 127);
        assert_eq!(code_of(&["no-such-program-anywhere"]), 127);
        assert_eq!(code_of(&["/etc/passwd"]), 126);
        assert_eq!(code_of(&["/etc"]), 126);
    }
}
