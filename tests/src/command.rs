//! Running programs with a deadline, and waiting for conditions with one.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often a condition is looked at.
const LOOK: Duration = Duration::from_millis(10);

/// A program that has ended.
#[derive(Debug)]
pub struct Ended {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
    pub took: Duration,
}

impl Ended {
    /// Both outputs and the status, for messages.
    #[must_use]
    pub fn all(&self) -> String {
        format!("{}\nstdout: {}\nstderr: {}", self.status, self.stdout.trim(), self.stderr.trim())
    }
}

/// Runs to the end with empty stdin.
///
/// # Panics
///
/// If it cannot be started, or has not ended by the deadline (it is killed then).
#[must_use]
pub fn finish(command: &mut Command, deadline: Duration) -> Ended {
    let mut running = start(command);
    drop(running.child.stdin.take());
    running.end(deadline)
}

/// Starts a program whose lines are read as they come.
///
/// # Panics
///
/// If it cannot be started.
#[must_use]
pub fn start(command: &mut Command) -> Running {
    let began = Instant::now();
    let shown = format!("{command:?}");
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("starting {shown}: {error}"));
    let stdout = child.stdout.take().expect("stdout is piped");
    let mut stderr = child.stderr.take().expect("stderr is piped");
    let (send, lines) = channel();
    // These threads end when the last process that holds the pipe does.
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if send.send(line).is_err() {
                break;
            }
        }
    });
    let errors = std::thread::spawn(move || {
        let mut text = Vec::new();
        let _ = stderr.read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    });
    Running { child, lines, errors: Some(errors), seen: String::new(), shown, began }
}

/// A program that runs; it is killed when dropped.
#[derive(Debug)]
pub struct Running {
    child: Child,
    lines: Receiver<String>,
    errors: Option<JoinHandle<String>>,
    seen: String,
    shown: String,
    began: Instant,
}

impl Running {
    /// The process that was started (not one it has started itself).
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for a line that begins so, and returns it.
    ///
    /// # Panics
    ///
    /// If output ends or the deadline passes first.
    pub fn line(&mut self, beginning: &str, deadline: Duration) -> String {
        let until = Instant::now() + deadline;
        loop {
            match self.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    self.seen += &line;
                    self.seen.push('\n');
                    if line.starts_with(beginning) {
                        return line;
                    }
                }
                Err(why) => {
                    let _ = self.child.kill();
                    let errors = self.errors();
                    panic!(
                        "{}: no line {beginning:?}, {}; it printed {:?} and {errors:?}",
                        self.shown,
                        match why {
                            RecvTimeoutError::Timeout => "deadline passed",
                            RecvTimeoutError::Disconnected => "output ended",
                        },
                        self.seen
                    );
                }
            }
        }
    }

    /// Writes a line to its stdin.
    ///
    /// # Panics
    ///
    /// If it reads no more.
    pub fn say(&mut self, line: &str) {
        let stdin = self.child.stdin.as_mut().expect("stdin is piped");
        writeln!(stdin, "{line}").and_then(|()| stdin.flush()).expect("the program reads");
    }

    /// Sends a signal to the process that was started.
    ///
    /// # Panics
    ///
    /// If it cannot be sent.
    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw);
        rustix::process::kill_process(pid.expect("a pid"), signal).expect("a signal can be sent");
    }

    /// Waits for the end.
    ///
    /// # Panics
    ///
    /// If it does not come by the deadline.
    #[must_use]
    pub fn end(mut self, deadline: Duration) -> Ended {
        let until = Instant::now() + deadline;
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("a child can be waited for") {
                break status;
            }
            if Instant::now() > until {
                let _ = self.child.kill();
                panic!(
                    "{} has not ended after {deadline:?}; it printed {:?}",
                    self.shown, self.seen
                );
            }
            std::thread::sleep(LOOK);
        };
        // A process it leaves behind may hold the pipe: what has come within a second counts.
        while let Ok(line) = self.lines.recv_timeout(Duration::from_secs(1)) {
            self.seen += &line;
            self.seen.push('\n');
        }
        let stderr = self.errors();
        Ended { status, stdout: std::mem::take(&mut self.seen), stderr, took: self.began.elapsed() }
    }

    fn errors(&mut self) -> String {
        let Some(thread) = self.errors.take() else { return String::new() };
        let until = Instant::now() + Duration::from_secs(1);
        while !thread.is_finished() && Instant::now() < until {
            std::thread::sleep(LOOK);
        }
        if thread.is_finished() { thread.join().unwrap_or_default() } else { String::new() }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Looks at a condition until it gives something.
///
/// # Panics
///
/// If it has given nothing by the deadline; `what` says what was waited for.
pub fn until<T>(deadline: Duration, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + deadline;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < until, "not within {deadline:?}: {what}");
        std::thread::sleep(LOOK);
    }
}
