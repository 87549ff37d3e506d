//! The broker's end of the pipe to the process that asks NVML. A child that is late is killed and
//! not waited for (it may hang in the driver); the next look starts another, not too soon.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use halfwarp_broker_core::{CardFacts, CardSample, Uuid};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
    time::{Instant, timeout},
};

use super::{Machine, Said, SaidSample, Source};
use crate::failure::Failure;

/// Loading the driver takes this long at most, the first time.
const START_DEADLINE: Duration = Duration::from_secs(20);
/// And this long when it was loaded before.
const RESTART_DEADLINE: Duration = Duration::from_secs(5);
/// From one start of a child to the next.
const RESTART: Duration = Duration::from_secs(2);

#[derive(Debug)]
struct Running {
    /// Ends with this value.
    _child: Child,
    questions: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

#[derive(Debug)]
pub(crate) struct NvmlChild {
    library: PathBuf,
    deadline: Duration,
    running: Option<Running>,
    started_at: Instant,
}

impl NvmlChild {
    /// Starts the child; NVML must work now.
    pub(crate) async fn start(
        library: &Path,
        deadline: Duration,
    ) -> Result<(Self, Machine), Failure> {
        let mut child = Self {
            library: library.to_owned(),
            deadline,
            running: None,
            started_at: Instant::now(),
        };
        let found = match child.spawn(START_DEADLINE).await {
            Ok(Said::Machine { driver, cards }) => {
                let facts = cards.into_iter().map(|card| {
                    Some(CardFacts {
                        uuid: card.uuid.parse().ok()?,
                        index: card.index,
                        name: card.name,
                        total_bytes: card.total_bytes,
                        multiprocessors: card.multiprocessors,
                    })
                });
                // A card without a plain UUID (a MIG slice) can't be shared, and is left alone.
                return Ok((child, Machine { driver, cards: facts.flatten().collect() }));
            }
            Ok(Said::Failed(why)) => why,
            Ok(Said::Sample(_)) => "the NVML process answered before it was asked".to_owned(),
            Err(error) => error.to_string(),
        };
        let help = "install NVIDIA's driver, or use a simulated GPU (`halfwarp run --sim`)";
        Err(Failure::new(format!("loading NVML ({})", library.display()), found, help))
    }

    async fn spawn(&mut self, deadline: Duration) -> std::io::Result<Said> {
        self.running = None;
        self.started_at = Instant::now();
        let mut child = Command::new("/proc/self/exe")
            .arg("nvml-child")
            .arg("--library")
            .arg(&self.library)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let (Some(questions), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(std::io::ErrorKind::BrokenPipe.into());
        };
        let answers = BufReader::new(answers).lines();
        let mut running = Running { _child: child, questions, answers };
        let said = hear(&mut running, deadline).await?;
        self.running = Some(running);
        Ok(said)
    }

    async fn ask(&mut self) -> std::io::Result<Vec<SaidSample>> {
        if self.running.is_none() {
            if self.started_at.elapsed() < RESTART {
                return Err(std::io::ErrorKind::NotConnected.into());
            }
            self.spawn(RESTART_DEADLINE).await?;
        }
        let deadline = self.deadline;
        let Some(running) = &mut self.running else {
            return Err(std::io::ErrorKind::NotConnected.into());
        };
        running.questions.write_all(b"sample\n").await?;
        match hear(running, deadline).await? {
            Said::Sample(samples) => Ok(samples),
            other => Err(std::io::Error::other(format!("{other:?}"))),
        }
    }
}

async fn hear(running: &mut Running, deadline: Duration) -> std::io::Result<Said> {
    let line = timeout(deadline, running.answers.next_line()).await;
    let line = line.map_err(|_| std::io::Error::from(std::io::ErrorKind::TimedOut))??;
    let line = line.ok_or_else(|| std::io::Error::from(std::io::ErrorKind::UnexpectedEof))?;
    serde_json::from_str(&line).map_err(std::io::Error::other)
}

impl Source for NvmlChild {
    async fn sample(&mut self) -> Option<BTreeMap<Uuid, CardSample>> {
        let samples = match self.ask().await {
            Ok(samples) => samples,
            Err(error) => {
                if self.running.take().is_some() {
                    tracing::warn!(%error, "no data from NVML; its process is started again");
                }
                return None;
            }
        };
        let seen = samples.into_iter().filter_map(|said| {
            let processes = said.processes.map(|list| list.into_iter().collect());
            Some((said.uuid.parse().ok()?, CardSample { used_bytes: said.used_bytes, processes }))
        });
        Some(seen.collect())
    }
}
