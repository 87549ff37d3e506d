//! A connection to the machine's server, which is started if it does not run.
//!
//! The connection belongs to the process that made it: the server knows it by its PID. After a
//! fork the child must not use it (the driver answers "not initialised" there before it gets here).

use crate::control::{Control, Told};
use crate::engines::TurnLink;
use crate::message::{Device, Refusal, Reply, Request};
use crate::place::{Place, server_program};
use crate::{VERSION, wire};
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

/// How a server is started when none runs.
#[derive(Clone, Debug)]
pub struct Start {
    /// The server's program; `None` looks beside this code's own file.
    pub program: Option<PathBuf>,
    /// Shipped name or path of a profile; `None` is the server's default.
    pub profile: Option<String>,
    /// Faults to begin with, as text.
    pub faults: Option<String>,
}

impl Start {
    /// As the environment asks.
    #[must_use]
    pub fn from_environment() -> Self {
        let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        Self { program: None, profile: set("SIMCUDA_PROFILE"), faults: set("SIMCUDA_FAULTS") }
    }
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("simulated machine: {0}")]
    Io(#[from] io::Error),
    #[error("simulated machine {machine}: the server did not start: {said}")]
    NotStarted { machine: String, said: String },
    #[error("simulated machine: {0}")]
    Refused(Refusal),
    #[error("simulated machine: the server gave an answer that does not belong to the question")]
    OutOfTurn,
}

/// One connection; requests of several threads take turns.
#[derive(Debug)]
pub struct Client {
    socket: Mutex<OwnedFd>,
    machine: String,
    driver: String,
    devices: Vec<Device>,
}

impl Client {
    /// Connects, starting the server if need be.
    pub fn connect(place: &Place, start: &Start) -> Result<Self, ConnectError> {
        place.make_folder()?;
        // A server that ends for want of clients may close on us between connecting and greeting.
        for _ in 0..3 {
            if let Ok(socket) = open(&place.socket())
                && let Some(client) = Self::greet(socket)?
            {
                return Ok(client);
            }
            let _held = lock(&place.start_lock())?;
            let socket = match open(&place.socket()) {
                Ok(socket) => socket,
                Err(_) => {
                    launch(place, start)?;
                    open(&place.socket())?
                }
            };
            if let Some(client) = Self::greet(socket)? {
                return Ok(client);
            }
        }
        Err(ConnectError::Io(io::Error::from(io::ErrorKind::ConnectionReset)))
    }

    /// Connects to a server that runs, and starts none.
    pub fn connect_running(place: &Place) -> Result<Self, ConnectError> {
        Self::greet(open(&place.socket())?)?
            .ok_or_else(|| ConnectError::Io(io::Error::from(io::ErrorKind::ConnectionReset)))
    }

    /// `None` when the server closed the connection instead of answering.
    fn greet(socket: OwnedFd) -> Result<Option<Self>, ConnectError> {
        match exchange(socket.as_fd(), &Request::Hello { version: VERSION }, None) {
            Ok((Reply::Welcome { machine, driver, devices }, _)) => {
                Ok(Some(Self { socket: Mutex::new(socket), machine, driver, devices }))
            }
            Ok((Reply::Refused(why), _)) => Err(ConnectError::Refused(why)),
            Ok(_) => Err(ConnectError::OutOfTurn),
            Err(_) => Ok(None),
        }
    }

    /// A connection of its own to the same machine, for turns on the device's compute engine.
    pub fn turn_link(place: &Place, device: u32) -> Result<TurnLink, ConnectError> {
        TurnLink::attach(Self::connect_running(place)?, device)
    }

    pub(crate) fn into_socket(self) -> OwnedFd {
        self.socket.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// One request and its answer; refusals are answers.
    pub fn ask(&self, request: &Request) -> io::Result<(Reply, Option<OwnedFd>)> {
        let socket = self.socket.lock().unwrap_or_else(PoisonError::into_inner);
        exchange(socket.as_fd(), request, None)
    }

    /// A request that a descriptor belongs to.
    pub fn ask_with(
        &self,
        request: &Request,
        descriptor: BorrowedFd<'_>,
    ) -> io::Result<(Reply, Option<OwnedFd>)> {
        let socket = self.socket.lock().unwrap_or_else(PoisonError::into_inner);
        exchange(socket.as_fd(), request, Some(descriptor))
    }

    /// A message of control and its answer, with the descriptor that comes beside it.
    pub fn control(&self, control: Control) -> io::Result<(Told, Option<OwnedFd>)> {
        match self.ask(&Request::Control(control))? {
            (Reply::Control(told), descriptor) => Ok((told, descriptor)),
            (other, _) => Err(io::Error::other(format!("control was answered by {other:?}"))),
        }
    }

    #[must_use]
    pub fn machine(&self) -> &str {
        &self.machine
    }

    /// Version of the driver as NVML reports it, for instance `580.65.06`.
    #[must_use]
    pub fn driver(&self) -> &str {
        &self.driver
    }

    #[must_use]
    pub fn devices(&self) -> &[Device] {
        &self.devices
    }
}

fn exchange(
    socket: BorrowedFd<'_>,
    request: &Request,
    beside: Option<BorrowedFd<'_>>,
) -> io::Result<(Reply, Option<OwnedFd>)> {
    wire::send(socket, request, beside)?;
    wire::receive(socket)?.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))
}

fn open(path: &Path) -> io::Result<OwnedFd> {
    let socket = rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

fn lock(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::CREATE | OFlags::RDWR | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?;
    rustix::io::retry_on_intr(|| rustix::fs::flock(&file, FlockOperation::LockExclusive))?;
    Ok(file)
}

/// Runs `simcudad start`, which leaves a server behind that is nobody's child, and ends when that
/// server listens. None of this process's environment goes along, least of all what it preloads.
fn launch(place: &Place, start: &Start) -> Result<(), ConnectError> {
    let program = match &start.program {
        Some(program) => program.clone(),
        None => server_program()?,
    };
    let mut command = Command::new(program);
    command.arg("start").arg("--folder").arg(&place.folder).arg("--machine").arg(&place.machine);
    if let Some(profile) = &start.profile {
        command.arg("--profile").arg(profile_argument(profile)?);
    }
    if let Some(faults) = &start.faults {
        command.arg("--faults").arg(faults);
    }
    command.env_clear().current_dir("/").stdin(Stdio::null()).stdout(Stdio::null());
    let mut child = command.stderr(Stdio::piped()).spawn()?;
    let mut said = String::new();
    if let Some(mut pipe) = child.stderr.take() {
        pipe.read_to_string(&mut said)?;
    }
    // A program that ignores SIGCHLD, or waits for any child, may have been told before us.
    let _ = child.wait();
    match open(&place.socket()) {
        Ok(_) => Ok(()),
        Err(_) => Err(ConnectError::NotStarted {
            machine: place.machine.clone(),
            said: said.trim().to_owned(),
        }),
    }
}

/// A path is made absolute, because the server starts elsewhere; a name stays what it is.
fn profile_argument(profile: &str) -> io::Result<PathBuf> {
    if profile.contains('/') { std::path::absolute(profile) } else { Ok(PathBuf::from(profile)) }
}
