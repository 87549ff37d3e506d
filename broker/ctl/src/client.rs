//! The broker's HTTP API as functions: one connection for each request, one deadline for all of it.
//!
//! Every way in which the other side can be wrong (absent, not a socket, silent, talking nonsense)
//! is a variant of [`CallError`]; what to do about it depends on the command.

use std::{
    io,
    os::unix::fs::FileTypeExt,
    path::{Path, PathBuf},
    time::Duration,
};

use halfwarp_rest::{
    Admitted, Event, Gpu, GpuChange, NewTenant, Node, Problem, Tenant, TenantChange,
};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::{Method, Request, StatusCode, body::Bytes as Chunk};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use tokio::{net::UnixStream, runtime::Runtime};

use crate::failure::Failure;

/// From connecting to the last byte of the answer.
const DEADLINE: Duration = Duration::from_secs(5);

/// No answer of ours is longer.
const ANSWER_BYTES: usize = 16 << 20;

#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    #[error("no broker serves there: {} does not exist", .0.display())]
    Absent(PathBuf),
    #[error("{} is not a socket", .0.display())]
    NotASocket(PathBuf),
    #[error("{} is there but nobody listens on it: the broker has ended", .0.display())]
    Deserted(PathBuf),
    #[error("{error}")]
    Connect { error: io::Error },
    #[error("no answer within {} s", .0.as_secs())]
    Silent(Duration),
    #[error("the answer is not a broker's: {0}")]
    Garbage(String),
    #[error("refused ({}): {}", .problem.reason, .problem.message)]
    Problem { status: StatusCode, problem: Problem },
}

impl CallError {
    /// What a person can do about it.
    fn help(&self) -> String {
        match self {
            Self::Absent(socket) | Self::Deserted(socket) => {
                let dir = socket.parent().unwrap_or(socket).display();
                format!("start the halfwarpd service, or `halfwarpd --run-dir {dir}`")
            }
            Self::NotASocket(path) => {
                format!("move {} away, or name another broker with --broker", path.display())
            }
            Self::Connect { error } if error.kind() == io::ErrorKind::PermissionDenied => {
                "ask its owner for access, or name another broker with --broker".to_owned()
            }
            Self::Connect { .. } => "name another broker with --broker".to_owned(),
            Self::Silent(_) => {
                "is halfwarpd stopped or overloaded? see its state with `ps`, its log with \
                 `journalctl -u halfwarpd` or in broker.log of its run directory"
                    .to_owned()
            }
            Self::Garbage(_) => {
                "is it another program's socket, or a halfwarpd of another release? restart it"
                    .to_owned()
            }
            Self::Problem { problem, .. } => problem.help.clone(),
        }
    }

    /// The broker answered that there is no such thing.
    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self, Self::Problem { status: StatusCode::NOT_FOUND, .. })
    }

    pub(crate) fn failure(&self, tried: impl Into<String>) -> Failure {
        Failure::new(tried, self.to_string(), self.help())
    }
}

/// What is wanted of a tenant's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wish {
    Suspend,
    Resume,
}

/// A client of the broker that serves in one run directory.
#[derive(Debug)]
pub(crate) struct Client {
    socket: PathBuf,
    deadline: Duration,
    runtime: Runtime,
}

impl Client {
    pub(crate) fn new(run_dir: &Path) -> Result<Self, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Failure::io("preparing to ask the broker", &error, ""))?;
        Ok(Self { socket: run_dir.join("api.sock"), deadline: DEADLINE, runtime })
    }

    /// With another deadline for each request.
    pub(crate) fn within(self, deadline: Duration) -> Self {
        Self { deadline, ..self }
    }

    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    pub(crate) fn node(&self) -> Result<Node, CallError> {
        self.get("/api/v1/node")
    }

    pub(crate) fn gpus(&self) -> Result<Vec<Gpu>, CallError> {
        self.get("/api/v1/gpus")
    }

    pub(crate) fn tenants(&self) -> Result<Vec<Tenant>, CallError> {
        self.get("/api/v1/tenants")
    }

    pub(crate) fn tenant(&self, id: u64) -> Result<Tenant, CallError> {
        self.get(&format!("/api/v1/tenants/{id}"))
    }

    pub(crate) fn events(&self, after: u64) -> Result<Vec<Event>, CallError> {
        self.get(&format!("/api/v1/events?after={after}"))
    }

    pub(crate) fn admit(&self, wish: &NewTenant) -> Result<Admitted, CallError> {
        let body = serde_json::to_vec(wish).map_err(|e| CallError::Garbage(e.to_string()))?;
        json(&self.call(Method::POST, "/api/v1/tenants", body)?)
    }

    pub(crate) fn change_tenant(&self, id: u64, to: &TenantChange) -> Result<Tenant, CallError> {
        let body = serde_json::to_vec(to).map_err(|e| CallError::Garbage(e.to_string()))?;
        json(&self.call(Method::PATCH, &format!("/api/v1/tenants/{id}"), body)?)
    }

    pub(crate) fn change_gpu(&self, uuid: &str, to: GpuChange) -> Result<Gpu, CallError> {
        let body = serde_json::to_vec(&to).map_err(|e| CallError::Garbage(e.to_string()))?;
        json(&self.call(Method::PATCH, &format!("/api/v1/gpus/{uuid}"), body)?)
    }

    /// Asks for a suspend or resume; the tenant as it is when that is done or takes too long.
    pub(crate) fn move_tenant(&self, id: u64, wish: Wish) -> Result<Tenant, CallError> {
        let word = match wish {
            Wish::Suspend => "suspend",
            Wish::Resume => "resume",
        };
        json(&self.call(Method::POST, &format!("/api/v1/tenants/{id}/{word}"), Vec::new())?)
    }

    pub(crate) fn dismiss(&self, id: u64) -> Result<(), CallError> {
        self.call(Method::DELETE, &format!("/api/v1/tenants/{id}"), Vec::new()).map(drop)
    }

    fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, CallError> {
        json(&self.call(Method::GET, path, Vec::new())?)
    }

    /// One request; the body of an answer that is a success.
    fn call(&self, method: Method, path: &str, body: Vec<u8>) -> Result<Chunk, CallError> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "localhost")
            .header("content-type", "application/json")
            .body(Full::new(Chunk::from(body)))
            .map_err(|error| CallError::Garbage(error.to_string()))?;
        let (status, body) = self.runtime.block_on(async {
            tokio::time::timeout(self.deadline, self.exchange(request))
                .await
                .unwrap_or(Err(CallError::Silent(self.deadline)))
        })?;
        if status.is_success() {
            return Ok(body);
        }
        match serde_json::from_slice::<Problem>(&body) {
            Ok(problem) => Err(CallError::Problem { status, problem }),
            Err(_) => Err(CallError::Garbage(format!("status {status}, {}", beginning(&body)))),
        }
    }

    async fn exchange(
        &self,
        request: Request<Full<Chunk>>,
    ) -> Result<(StatusCode, Chunk), CallError> {
        let stream = UnixStream::connect(&self.socket).await.map_err(|e| self.unreachable(e))?;
        let garbage = |error: hyper::Error| self.cut_off(&error);
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(garbage)?;
        tokio::spawn(connection);
        let answer = sender.send_request(request).await.map_err(garbage)?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), ANSWER_BYTES).collect().await;
        match body {
            Ok(body) => Ok((status, body.to_bytes())),
            Err(error) if error.is::<LengthLimitError>() => {
                Err(CallError::Garbage(format!("longer than {ANSWER_BYTES} bytes")))
            }
            Err(error) => Err(CallError::Garbage(error.to_string())),
        }
    }

    /// A broker that ended after the connection stood and before it read the question resets it.
    fn cut_off(&self, error: &hyper::Error) -> CallError {
        let cause = std::error::Error::source(error).and_then(|e| e.downcast_ref::<io::Error>());
        match cause.map(io::Error::kind) {
            Some(io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe) => {
                CallError::Deserted(self.socket.clone())
            }
            _ => CallError::Garbage(error.to_string()),
        }
    }

    /// Connecting to a file that is no socket and to a socket without a listener give the same
    /// error; people need to know which.
    fn unreachable(&self, error: io::Error) -> CallError {
        let path = self.socket.clone();
        match (error.kind(), std::fs::metadata(&path)) {
            (io::ErrorKind::NotFound, _) => CallError::Absent(path),
            (_, Ok(found)) if !found.file_type().is_socket() => CallError::NotASocket(path),
            (io::ErrorKind::ConnectionRefused, _) => CallError::Deserted(path),
            _ => CallError::Connect { error },
        }
    }
}

fn json<T: DeserializeOwned>(body: &[u8]) -> Result<T, CallError> {
    serde_json::from_slice(body)
        .map_err(|error| CallError::Garbage(format!("{error} in {}", beginning(body))))
}

/// The first bytes of something unexpected, on one line.
fn beginning(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(80)]);
    format!("{text:?}")
}
