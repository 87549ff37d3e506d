//! `api.sock`: HTTP for people's tools. Only the broker's user and root are let in; every refusal
//! is a [`Problem`]. No decision is made here.

use std::{
    os::unix::net::UnixListener as StdListener,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use axum::{
    Json, Router,
    body::Bytes,
    extract::{ConnectInfo, DefaultBodyLimit, Path, Query, State, connect_info::Connected},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
    serve::{IncomingStream, Listener},
};
use halfwarp_broker_core::{Event, Reason, Rejection};
use halfwarp_rest::{Admitted, NewTenant, Node};
use serde::Deserialize;
use tokio::net::{UnixListener, UnixStream};

use crate::{
    clock,
    desk::{Answer, Desk},
    metrics::{self, Snapshot},
    peer,
    serve::{random, watch_runner},
    store::hex,
};

/// No request is larger than this.
const BODY_BYTES: usize = 64 << 10;
/// Without data for this long the broker is not ready.
const DATA_NS: u64 = 10_000_000_000;

/// What the handlers know beside the desk.
#[derive(Debug)]
pub(crate) struct About {
    pub(crate) desk: Arc<Desk>,
    pub(crate) node: Node,
    /// When NVML last answered.
    pub(crate) data_at: AtomicU64,
}

impl About {
    fn nvml_up(&self) -> bool {
        clock::now().saturating_sub(self.data_at.load(Ordering::Relaxed)) < DATA_NS
    }
}

type Shared = State<Arc<About>>;

/// The user at the other end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct User(u32);

/// Lets in only whom the broker belongs to.
pub(crate) struct OwnersOnly(UnixListener);

impl Listener for OwnersOnly {
    type Io = UnixStream;
    type Addr = User;

    async fn accept(&mut self) -> (UnixStream, User) {
        let me = rustix::process::geteuid().as_raw();
        loop {
            match self.0.accept().await {
                Ok((stream, _)) => match stream.peer_cred().map(|peer| peer.uid()) {
                    Ok(uid) if uid == me || uid == 0 => return (stream, User(uid)),
                    Ok(uid) => tracing::warn!(uid, "a stranger was turned away from api.sock"),
                    Err(error) => tracing::debug!(%error, "a peer that the kernel does not name"),
                },
                Err(error) => {
                    tracing::debug!(%error, "accepting a command");
                    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                }
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<User> {
        Ok(User(rustix::process::geteuid().as_raw()))
    }
}

impl Connected<IncomingStream<'_, OwnersOnly>> for User {
    fn connect_info(stream: IncomingStream<'_, OwnersOnly>) -> Self {
        *stream.remote_addr()
    }
}

pub(crate) async fn serve(about: Arc<About>, listener: StdListener) -> std::io::Result<()> {
    let listener = OwnersOnly(UnixListener::from_std(listener)?);
    let router = router(about).into_make_service_with_connect_info::<User>();
    axum::serve(listener, router).await
}

fn router(about: Arc<About>) -> Router {
    Router::new()
        .route("/api/v1/node", get(async |State(about): Shared| Json(about.node.clone())))
        .route(
            "/api/v1/gpus",
            get(async |State(about): Shared| Json(about.desk.show(|s| s.gpus()))),
        )
        .route("/api/v1/tenants", get(tenants).post(admit))
        .route("/api/v1/tenants/{id}", get(tenant).delete(end))
        .route("/api/v1/events", get(events))
        .route("/metrics", get(scrape))
        .route("/healthz", get(async || "ok"))
        .route("/readyz", get(ready))
        .fallback(async || refused(&no_such_path()))
        .layer(DefaultBodyLimit::max(BODY_BYTES))
        .with_state(about)
}

fn no_such_path() -> Rejection {
    Rejection::new(Reason::NoSuchPath, "there is nothing at this path", "see /api/v1/node")
}

fn refused(rejection: &Rejection) -> Response {
    let status = match rejection.reason {
        Reason::Malformed => StatusCode::BAD_REQUEST,
        Reason::UnknownTenant | Reason::NoSuchPath => StatusCode::NOT_FOUND,
        Reason::CardFull | Reason::SharesFull | Reason::ModeDiffers | Reason::NoSwap => {
            StatusCode::CONFLICT
        }
        _ => StatusCode::UNPROCESSABLE_ENTITY,
    };
    (status, Json(rejection.problem())).into_response()
}

async fn tenants(State(about): Shared) -> impl IntoResponse {
    Json(about.desk.show(|state| state.tenants()))
}

fn unknown(id: &str) -> Response {
    let message = format!("there is no tenant {id:?}");
    refused(&Rejection::new(Reason::UnknownTenant, message, "`halfwarp ps` lists the tenants"))
}

async fn tenant(State(about): Shared, Path(id): Path<String>) -> Response {
    let found = id.parse().ok().and_then(|id| about.desk.show(|state| state.tenant(id)));
    found.map_or_else(|| unknown(&id), |tenant| Json(tenant).into_response())
}

async fn end(State(about): Shared, Path(id): Path<String>) -> Response {
    let Ok(tenant) = id.parse() else { return unknown(&id) };
    match about.desk.step(Event::End { tenant }) {
        Some(Answer::Rejected(rejection)) => refused(&rejection),
        _ => StatusCode::NO_CONTENT.into_response(),
    }
}

async fn admit(
    State(about): Shared,
    ConnectInfo(User(uid)): ConnectInfo<User>,
    body: Bytes,
) -> Response {
    let ask: NewTenant = match serde_json::from_slice(&body) {
        Ok(ask) => ask,
        Err(error) => {
            let message = format!("the tenant asked for could not be read: {error}");
            let help = "send the fields of `NewTenant` as JSON";
            return refused(&Rejection::new(Reason::Malformed, message, help));
        }
    };
    let runner = match ask.runner_pid.map(|pid| (pid, peer::runner(pid))) {
        None => None,
        Some((_, Some(runner))) => Some(runner),
        Some((pid, None)) => {
            let message = format!("the tenant is to live for process {pid}, which there is not");
            let help = "name a process that lives, or none";
            return refused(&Rejection::new(Reason::RunnerGone, message, help));
        }
    };
    let token = match random() {
        Ok(token) => token,
        Err(error) => {
            tracing::error!(%error, "no random numbers");
            return StatusCode::INTERNAL_SERVER_ERROR.into_response();
        }
    };
    let at_s = clock::wall_s() as u64;
    match about.desk.step(Event::Admit { ask, token, uid, runner, at_s }) {
        Some(Answer::Admitted(admitted)) => {
            if let Some(runner) = runner {
                watch_runner(&about.desk, admitted.id, runner);
            }
            let answer = Admitted {
                id: admitted.id,
                token: hex(&admitted.token),
                join_socket: about.node.join_socket.clone(),
                gpus: admitted.gpus.iter().map(ToString::to_string).collect(),
            };
            (StatusCode::CREATED, Json(answer)).into_response()
        }
        Some(Answer::Rejected(rejection)) => refused(&rejection),
        _ => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

#[derive(Deserialize)]
struct After {
    #[serde(default)]
    after: u64,
}

async fn events(
    State(about): Shared,
    after: Result<Query<After>, axum::extract::rejection::QueryRejection>,
) -> Response {
    match after {
        Ok(Query(After { after })) => Json(about.desk.events_after(after)).into_response(),
        Err(error) => {
            let message = format!("the query could not be read: {error}");
            refused(&Rejection::new(Reason::Malformed, message, "write ?after=N, N a number"))
        }
    }
}

async fn ready(State(about): Shared) -> Response {
    if about.nvml_up() {
        return "ok".into_response();
    }
    (StatusCode::SERVICE_UNAVAILABLE, "NVML does not answer").into_response()
}

async fn scrape(State(about): Shared) -> Response {
    let (gpus, tenants, counters) =
        about.desk.show(|state| (state.gpus(), state.tenants(), state.counters().clone()));
    let snapshot = Snapshot {
        gpus,
        tenants,
        counters,
        events: about.desk.event_counts(),
        connections: about.desk.connections(),
        nvml_up: about.nvml_up(),
    };
    match metrics::text(&snapshot) {
        Ok(text) => {
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            ([(header::CONTENT_TYPE, kind)], text).into_response()
        }
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}
