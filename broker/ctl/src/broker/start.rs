//! Starting a private broker on demand. Several commands may want one at once: a lock in its run
//! directory lets one start it, the others find it serving.
//!
//! The broker is detached by running ourselves as `halfwarp detached PROGRAM`, which makes a session
//! of its own and becomes PROGRAM.

use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions},
    io::{Read, Seek, SeekFrom},
    os::unix::{
        fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt},
        process::CommandExt,
    },
    path::Path,
    process::{Child, Command, ExitCode, Stdio},
    time::{Duration, Instant},
};

use nix::sys::signal::SigSet;
use rustix::fs::{FlockOperation, flock};

use super::{Place, asking, speaks_our_version};
use crate::{
    artefacts::Artefacts,
    client::{CallError, Client},
    failure::Failure,
    run::SIM_ENVIRONMENT,
};

/// From the wish for a broker to its first answer.
const START_DEADLINE: Duration = Duration::from_secs(10);

/// Pause between two looks at a broker that is starting.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// A log that has grown beyond this begins anew with the next broker.
const LOG_BYTES: u64 = 1 << 20;

/// A private broker that serves.
#[derive(Debug)]
pub(crate) struct Private {
    pub(crate) client: Client,
    /// If it was started here: to be waited for when it ends.
    pub(crate) child: Option<Child>,
}

/// The broker in the private run directory of `place`, started if there is none.
pub(crate) fn private(place: &Place, artefacts: &Artefacts) -> Result<Private, Failure> {
    let client = Client::new(&place.dir)?;
    let until = Instant::now() + START_DEADLINE;
    prepare(&place.dir)?;
    let _alone = lock(&place.dir, until)?;
    let mut child = None;
    for attempt in 0.. {
        if serves(&client)? {
            return Ok(Private { client, child });
        }
        let log_begins = fs::metadata(place.dir.join("broker.log")).map_or(0, |log| log.len());
        let mut started = spawn(place, artefacts)?;
        match wait(place, &mut started, until)? {
            Waited::Serves => child = Some(started),
            // One that was about to end may still have held the directory.
            Waited::Ended if attempt == 0 => std::thread::sleep(10 * LOOK_AGAIN),
            waited => return Err(did_not_serve(place, &waited, &mut started, log_begins)),
        }
    }
    unreachable!("the loop ends by returning")
}

/// Makes the run directory, or checks that the one found is ours alone.
pub(crate) fn prepare(dir: &Path) -> Result<(), Failure> {
    let tried = || format!("making the broker's run directory {}", dir.display());
    let help = "name a writable directory with --broker or XDG_RUNTIME_DIR";
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(|error| Failure::io(tried(), &error, help))?;
    // The directory above a simulated machine's is this user's as well.
    let above = dir.parent().filter(|above| above.file_name().is_some_and(is_ours_by_name));
    for dir in above.into_iter().chain([dir]) {
        let found = fs::symlink_metadata(dir).map_err(|e| Failure::io(tried(), &e, help))?;
        let uid = rustix::process::getuid().as_raw();
        if !found.is_dir() || found.uid() != uid || found.permissions().mode() & 0o022 != 0 {
            return Err(Failure::new(
                tried(),
                format!("{} is not a directory that only you can write", dir.display()),
                "remove it, or name another with --broker or XDG_RUNTIME_DIR",
            ));
        }
    }
    Ok(())
}

fn is_ours_by_name(name: &std::ffi::OsStr) -> bool {
    name.to_string_lossy().starts_with("halfwarp")
}

/// Held while one command starts a broker; released when it is dropped.
fn lock(dir: &Path, until: Instant) -> Result<File, Failure> {
    let path = dir.join("start.lock");
    let tried = || format!("taking {}", path.display());
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(&path)
        .map_err(|error| Failure::io(tried(), &error, "make it writable, or remove it"))?;
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(file),
            Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) => {}
            Err(error) => return Err(Failure::io(tried(), &error.into(), "")),
        }
        if Instant::now() > until {
            return Err(Failure::new(
                tried(),
                format!("another command has held it for {} s", START_DEADLINE.as_secs()),
                "end the `halfwarp` that holds it (`fuser` names it)",
            ));
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

/// Whether a broker of our version serves; anything else that answers is an error.
fn serves(client: &Client) -> Result<bool, Failure> {
    match client.node() {
        Ok(node) => speaks_our_version(&node, client).map(|()| true),
        Err(CallError::Absent(_) | CallError::Deserted(_)) => Ok(false),
        Err(error) => Err(error.failure(asking(client))),
    }
}

/// Variables that say whose tenant a process is or give it our library: not for a broker.
const NOT_FOR_A_BROKER: [&str; 5] =
    ["LD_PRELOAD", "HALFWARP_TENANT", "HALFWARP_JOIN", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"];

fn spawn(place: &Place, artefacts: &Artefacts) -> Result<Child, Failure> {
    let program = artefacts.need(artefacts.broker(), "the broker")?;
    let log_path = place.dir.join("broker.log");
    let log = open_log(&log_path).map_err(|error| {
        Failure::io(format!("opening {}", log_path.display()), &error, "make it writable")
    })?;
    let tried = || format!("starting {}", program.display());
    let for_errors = log.try_clone().map_err(|e| Failure::io(tried(), &e, ""))?;
    let mut command = Command::new("/proc/self/exe");
    command
        .arg("detached")
        .arg(&program)
        .args(["--private", "--run-dir"])
        .arg(&place.dir)
        .current_dir("/")
        // Its output is a file here.
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .stdout(log)
        .stderr(for_errors);
    for name in NOT_FOR_A_BROKER {
        command.env_remove(name);
    }
    match &place.sim {
        Some(sim) => command.envs(sim.environment(std::env::var_os("LD_LIBRARY_PATH"))),
        None => SIM_ENVIRONMENT.iter().fold(&mut command, |c, name| c.env_remove(name)),
    };
    command.spawn().map_err(|error| Failure::io(tried(), &error, "is /proc mounted?"))
}

fn open_log(path: &Path) -> std::io::Result<File> {
    let log = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
    if log.metadata()?.len() > LOG_BYTES {
        log.set_len(0)?;
    }
    Ok(log)
}

enum Waited {
    Serves,
    Ended,
    Late,
}

/// Waits for the broker's first answer; one that listens and is still busy with the driver's own start
/// is not given up before `until`.
fn wait(place: &Place, child: &mut Child, until: Instant) -> Result<Waited, Failure> {
    let client = Client::new(&place.dir)?.within(Duration::from_secs(1));
    loop {
        let ended = child.try_wait().is_ok_and(|status| status.is_some());
        match client.node() {
            Ok(node) => return speaks_our_version(&node, &client).map(|()| Waited::Serves),
            Err(CallError::Absent(_) | CallError::Deserted(_) | CallError::Silent(_)) => {}
            Err(error) => return Err(error.failure(asking(&client))),
        }
        if ended {
            return Ok(Waited::Ended);
        }
        if Instant::now() > until {
            return Ok(Waited::Late);
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

fn did_not_serve(place: &Place, waited: &Waited, child: &mut Child, log_begins: u64) -> Failure {
    let found = match waited {
        Waited::Late => {
            // It was ours and is of no use; nothing has joined it.
            let _ = child.kill().and_then(|()| child.wait());
            format!("it did not serve within {} s", START_DEADLINE.as_secs())
        }
        _ => match child.wait() {
            Ok(status) => format!("it ended at once ({status})"),
            Err(error) => format!("it ended at once ({error})"),
        },
    };
    let log = place.dir.join("broker.log");
    let said = last_lines(&log, log_begins);
    Failure::new(
        format!("starting a private broker in {}", place.dir.display()),
        found,
        format!("`halfwarp doctor` checks the host; what {} says:{said}", log.display()),
    )
}

/// The last five lines that a log has got since `begins`, each on a line of its own.
fn last_lines(log: &Path, begins: u64) -> String {
    let mut text = Vec::new();
    let Ok(mut file) = File::open(log) else { return String::new() };
    let length = file.metadata().map_or(0, |log| log.len());
    let from = if begins <= length { begins } else { 0 }.max(length.saturating_sub(4096));
    if file.seek(SeekFrom::Start(from)).and_then(|_| file.read_to_end(&mut text)).is_err() {
        return String::new();
    }
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    if lines.is_empty() {
        return " nothing".to_owned();
    }
    lines[lines.len().saturating_sub(5)..].iter().map(|line| format!("\n  {line}")).collect()
}

/// `halfwarp detached PROGRAM ARGS`: a session of its own, nothing open but the standard streams, no
/// signal blocked, then PROGRAM in our place.
pub(crate) fn detached(program: &Path, arguments: &[OsString]) -> Result<ExitCode, Failure> {
    SigSet::empty()
        .thread_set_mask()
        .map_err(|error| Failure::io("unblocking signals", &error.into(), ""))?;
    rustix::process::setsid()
        .map_err(|error| Failure::io("making a session of its own", &error.into(), ""))?;
    let open = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let inherited: Vec<i32> = open
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|descriptor| *descriptor > 2)
        .collect();
    for descriptor in inherited {
        // The directory's own is among them and closed already.
        let _ = nix::unistd::close(descriptor);
    }
    let error = Command::new(program).args(arguments).exec();
    Err(Failure::io(format!("starting {}", program.display()), &error, ""))
}
