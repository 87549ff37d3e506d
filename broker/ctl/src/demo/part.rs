//! One tenant of the demo: a `halfwarp run` of its own, and the output of its programs as it grows.

use std::{
    ffi::OsString,
    fs::File,
    io::{Read, Seek, SeekFrom},
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use halfwarp_rest::{Bytes, Gpu};
use rustix::process::{Pid, Signal, kill_process_group};

use super::{Plan, Stage};
use crate::{artefacts::Artefacts, failure::Failure};

/// The work goes on beside the program that asks for too much.
const SMALL: &str = r#""$0" --seconds "$2" --verbose > "$5" 2>&1 &
work=$!
sleep "$3"
"$1" --block 256MiB --smallest 16MiB --most "$4" --hold 2 > "$6" 2>&1
hog=$?
wait $work && exit $hog"#;

const LARGE: &str = r#"exec "$0" --seconds "$1" --verbose > "$2" 2>&1"#;

#[derive(Debug)]
pub(super) struct Part {
    /// As people read it.
    pub(super) name: &'static str,
    /// As the broker knows it: several demos may run at once.
    pub(super) tenant_name: String,
    pub(super) limit_bytes: Bytes,
    pub(super) work: Log,
    pub(super) hog: Option<Log>,
    pub(super) runner: Log,
    child: Child,
}

impl Part {
    pub(super) fn small(
        stage: &Stage,
        artefacts: &Artefacts,
        plan: &Plan,
        card: &Gpu,
    ) -> Result<Self, Failure> {
        let work = stage.dir.join("small-matrixMul.log");
        let hog = stage.dir.join("small-memoryHog.log");
        // If it were not refused, it would stop by itself at half as much again.
        let most = plan.small_bytes.0 / 2 * 3;
        let script = [
            SMALL.into(),
            artefacts.sample("matrixMul").into(),
            artefacts.sample("memoryHog").into(),
            plan.seconds.to_string().into(),
            (plan.seconds / 3).to_string().into(),
            most.to_string().into(),
            work.clone().into(),
            hog.clone().into(),
        ];
        let mut part = Self::start(stage, "small", plan.small_bytes, card, &script, work)?;
        part.hog = Some(Log::at(hog));
        Ok(part)
    }

    pub(super) fn large(
        stage: &Stage,
        artefacts: &Artefacts,
        plan: &Plan,
        card: &Gpu,
    ) -> Result<Self, Failure> {
        let work = stage.dir.join("large-vectorAdd.log");
        let script = [
            LARGE.into(),
            artefacts.sample("vectorAdd").into(),
            plan.seconds.to_string().into(),
            work.clone().into(),
        ];
        Self::start(stage, "large", plan.large_bytes, card, &script, work)
    }

    fn start(
        stage: &Stage,
        name: &'static str,
        limit_bytes: Bytes,
        card: &Gpu,
        script: &[OsString],
        work: PathBuf,
    ) -> Result<Self, Failure> {
        let tenant_name = format!("demo-{name}-{}", std::process::id());
        let messages = stage.dir.join(format!("{name}-runner.log"));
        let tried = || format!("starting the tenant {name}");
        let log = File::create(&messages).map_err(|error| Failure::io(tried(), &error, ""))?;
        let mut command = Command::new("/proc/self/exe");
        // In a session of its own, so that all of it can be ended at once.
        command.args(["detached", "/proc/self/exe"]);
        command.args(["run", "--name", &tenant_name, "--gpu", &card.uuid]);
        command.args(["--memory", &limit_bytes.to_string()]).arg("--broker").arg(&stage.place.dir);
        if let Some(sim) = &stage.place.sim {
            command.arg("--sim").envs(sim.environment(std::env::var_os("LD_LIBRARY_PATH")));
        }
        command
            .args(["--", "sh", "-c"])
            .args(script)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        let child = command.spawn().map_err(|error| Failure::io(tried(), &error, ""))?;
        let (work, runner) = (Log::at(work), Log::at(messages));
        Ok(Self { name, tenant_name, limit_bytes, work, hog: None, runner, child })
    }

    /// How it ended, if it has: the exit code of its `halfwarp run`.
    pub(super) fn ended(&mut self) -> Option<i32> {
        match self.child.try_wait() {
            Ok(None) => None,
            Ok(Some(status)) => Some(status.code().unwrap_or(-1)),
            Err(_) => Some(-1),
        }
    }

    fn end(&mut self) {
        if self.ended().is_some() {
            return;
        }
        if let Some(group) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            // The runner passes it on too; whoever is left of the group ends with it.
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.end();
    }
}

/// A file that a sample writes to, read as it grows.
#[derive(Clone, Debug)]
pub(super) struct Log {
    path: PathBuf,
    read_bytes: u64,
    text: String,
    /// Lines that say that a result is correct.
    pub(super) correct: u64,
}

impl Log {
    pub(super) fn at(path: PathBuf) -> Self {
        Self { path, read_bytes: 0, text: String::new(), correct: 0 }
    }

    pub(super) fn read_on(&mut self) {
        let mut new = Vec::new();
        let from = SeekFrom::Start(self.read_bytes);
        let read = File::open(&self.path)
            .and_then(|mut file| file.seek(from).and_then(|_| file.read_to_end(&mut new)));
        if read.is_err() {
            return;
        }
        // An unfinished line is read again as a whole.
        let whole = new.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        self.read_bytes += whole as u64;
        for line in String::from_utf8_lossy(&new[..whole]).lines() {
            if line.ends_with(" is correct") {
                self.correct += 1;
            } else {
                self.text.push_str(line);
                self.text.push('\n');
            }
        }
    }

    /// All other lines.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn line(&self, contains: &str) -> Option<&str> {
        self.text.lines().find(|line| line.contains(contains))
    }

    pub(super) fn passed(&self) -> bool {
        self.text.lines().last() == Some("PASSED")
    }

    #[cfg(test)]
    pub(super) fn saying(text: &str, correct: u64) -> Self {
        Self { path: PathBuf::new(), read_bytes: 0, text: text.to_owned(), correct }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_read_as_it_grows_and_never_half_a_line() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("log");
        let mut log = Log::at(path.clone());
        log.read_on();
        assert_eq!((log.correct, log.text()), (0, ""));
        std::fs::write(&path, "on a card\naddition 1 is correct\naddition 2 is cor")
            .expect("written");
        log.read_on();
        assert_eq!((log.correct, log.text()), (1, "on a card\n"));
        std::fs::write(&path, "on a card\naddition 1 is correct\naddition 2 is correct\nPASSED\n")
            .expect("written");
        log.read_on();
        assert_eq!((log.correct, log.passed()), (2, true));
    }
}
