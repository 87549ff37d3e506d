//! `api.sock`: HTTP for people's tools. Every refusal is a `Problem`. No decision is made here; who is
//! let in is [`door`]'s business.

use std::{
    os::unix::net::UnixListener as StdListener,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use axum::{
    Json, Router,
    body::Bytes,
    extract::{
        ConnectInfo, DefaultBodyLimit, Path, Query, State,
        rejection::{BytesRejection, PathRejection, QueryRejection},
    },
    http::{Method, StatusCode, header},
    response::{IntoResponse, Response},
    routing::{get, patch, post},
};
use halfwarp_broker_core::{Change, Event, RECALL_NS, Reason, Rejection, Uuid};
use halfwarp_rest::{Admitted, NewTenant, Node};
use serde::{Deserialize, de::DeserializeOwned};
use tokio::time::sleep;

use crate::{
    clock,
    desk::{Answer, Desk},
    door::{self, OwnersOnly, User},
    metrics::{self, Snapshot},
    peer,
    serve::{random, watch_runner},
    store::hex,
    suspension::{self, Asked},
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

pub(crate) async fn serve(
    about: Arc<About>,
    listener: StdListener,
    limits: door::Limits,
) -> std::io::Result<()> {
    let listener = OwnersOnly::at(listener, limits)?;
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
        .route("/api/v1/gpus/{uuid}", patch(change_gpu))
        .route("/api/v1/tenants", get(tenants).post(admit))
        .route("/api/v1/tenants/{id}", get(tenant).delete(end).patch(change_tenant))
        .route("/api/v1/tenants/{id}/suspend", post(suspend))
        .route("/api/v1/tenants/{id}/resume", post(resume))
        .route("/api/v1/events", get(events))
        .route("/metrics", get(scrape))
        .route("/healthz", get(async || "ok"))
        .route("/readyz", get(ready))
        .fallback(async || refused(&no_such_path()))
        .method_not_allowed_fallback(async |method: Method| refused(&no_such_method(&method)))
        .layer(DefaultBodyLimit::max(BODY_BYTES))
        .with_state(about)
}

fn no_such_path() -> Rejection {
    Rejection::new(Reason::NoSuchPath, "there is nothing at this path", "see /api/v1/node")
}

fn no_such_method(method: &Method) -> Rejection {
    let message = format!("{method} cannot be done to this path");
    Rejection::new(Reason::NoSuchMethod, message, "see the header `allow`")
}

/// A failure of our own, whose cause is in the log.
fn failed(error: &dyn std::fmt::Display) -> Response {
    tracing::error!(%error, "a request could not be answered");
    let message = "the broker could not do its part";
    refused(&Rejection::new(Reason::Internal, message, "see the broker's log"))
}

pub(crate) fn refused(rejection: &Rejection) -> Response {
    let status = match rejection.reason {
        Reason::Malformed => StatusCode::BAD_REQUEST,
        Reason::UnknownTenant | Reason::NoSuchPath => StatusCode::NOT_FOUND,
        Reason::NoSuchMethod => StatusCode::METHOD_NOT_ALLOWED,
        Reason::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        Reason::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        Reason::WrongUser => StatusCode::FORBIDDEN,
        Reason::CardFull
        | Reason::SharesFull
        | Reason::ModeDiffers
        | Reason::NoSwap
        | Reason::HostPool
        | Reason::CannotMove => StatusCode::CONFLICT,
        _ => StatusCode::UNPROCESSABLE_ENTITY,
    };
    (status, Json(rejection.problem())).into_response()
}

async fn tenants(State(about): Shared) -> impl IntoResponse {
    Json(about.desk.show(|state| state.tenants()))
}

pub(crate) fn unknown(id: &str) -> Response {
    let message = format!("there is no tenant {id:?}");
    refused(&Rejection::new(Reason::UnknownTenant, message, "`halfwarp ps` lists the tenants"))
}

type Id = Result<Path<String>, PathRejection>;

async fn tenant(State(about): Shared, id: Id) -> Response {
    let Ok(Path(id)) = id else { return refused(&no_such_path()) };
    let found = id.parse().ok().and_then(|id| about.desk.show(|state| state.tenant(id)));
    found.map_or_else(|| unknown(&id), |tenant| Json(tenant).into_response())
}

async fn end(State(about): Shared, id: Id) -> Response {
    let Ok(Path(id)) = id else { return refused(&no_such_path()) };
    let Ok(tenant) = id.parse() else { return unknown(&id) };
    match about.desk.step(Event::End { tenant }) {
        Some(Answer::Rejected(rejection)) => refused(&rejection),
        _ => StatusCode::NO_CONTENT.into_response(),
    }
}

async fn suspend(about: Shared, user: ConnectInfo<User>, id: Id) -> Response {
    move_tenant(about, user, id, Asked::Suspend).await
}

async fn resume(about: Shared, user: ConnectInfo<User>, id: Id) -> Response {
    move_tenant(about, user, id, Asked::Resume).await
}

async fn move_tenant(
    State(about): Shared,
    ConnectInfo(User(uid)): ConnectInfo<User>,
    id: Id,
    asked: Asked,
) -> Response {
    match id {
        Ok(Path(id)) => suspension::ask(about, &id, uid, asked).await,
        Err(_) => refused(&no_such_path()),
    }
}

fn asked<T: DeserializeOwned>(
    body: Result<Bytes, BytesRejection>,
    what: &str,
) -> Result<T, Rejection> {
    let body = body.map_err(|error| unread(&error))?;
    serde_json::from_slice(&body).map_err(|error| {
        let message = format!("the body could not be read: {error}");
        Rejection::new(Reason::Malformed, message, format!("send the fields of `{what}` as JSON"))
    })
}

fn unread(error: &BytesRejection) -> Rejection {
    if error.status() == StatusCode::PAYLOAD_TOO_LARGE {
        let message = format!("the request has more than {BODY_BYTES} bytes");
        return Rejection::new(Reason::TooLarge, message, "send less: nothing here needs as much");
    }
    let message = format!("the request's body could not be read: {error}");
    Rejection::new(Reason::Malformed, message, "send all of it, in `content-length` bytes")
}

async fn admit(
    State(about): Shared,
    ConnectInfo(User(uid)): ConnectInfo<User>,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let ask: NewTenant = match asked(body, "NewTenant") {
        Ok(ask) => ask,
        Err(rejection) => return refused(&rejection),
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
        Err(error) => return failed(&error),
    };
    let at_s = clock::wall_s() as u64;
    if about.desk.show(|state| state.lacks_room_for(&ask)) {
        about.desk.step(Event::CallBack);
        sleep(Duration::from_nanos(RECALL_NS)).await;
    }
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
        _ => failed(&"the core gave no answer"),
    }
}

async fn change_tenant(
    State(about): Shared,
    id: Id,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let Ok(Path(text)) = id else { return refused(&no_such_path()) };
    let Ok(id) = text.parse() else { return unknown(&text) };
    let to = match asked(body, "TenantChange") {
        Ok(to) => to,
        Err(rejection) => return refused(&rejection),
    };
    match about.desk.step(Event::Change(Change::Tenant { id, to })) {
        Some(Answer::Rejected(rejection)) => refused(&rejection),
        _ => about
            .desk
            .show(|state| state.tenant(id))
            .map_or_else(|| unknown(&text), |tenant| Json(tenant).into_response()),
    }
}

async fn change_gpu(
    State(about): Shared,
    uuid: Id,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let Ok(Path(text)) = uuid else { return refused(&no_such_path()) };
    let uuid = match text.parse::<Uuid>() {
        Ok(uuid) => uuid,
        Err(error) => {
            let help = "`halfwarp gpus -o wide` shows the UUIDs";
            return refused(&Rejection::new(Reason::NoSuchGpu, error.to_string(), help));
        }
    };
    let to = match asked(body, "GpuChange") {
        Ok(to) => to,
        Err(rejection) => return refused(&rejection),
    };
    match about.desk.step(Event::Change(Change::Gpu { uuid, to })) {
        Some(Answer::Rejected(rejection)) => refused(&rejection),
        _ => {
            let gpus = about.desk.show(|state| state.gpus());
            let gpu = gpus.into_iter().find(|gpu| gpu.uuid == uuid.to_string());
            gpu.map_or_else(|| failed(&"a card is gone"), |gpu| Json(gpu).into_response())
        }
    }
}

#[derive(Deserialize)]
struct After {
    #[serde(default)]
    after: u64,
}

async fn events(State(about): Shared, after: Result<Query<After>, QueryRejection>) -> Response {
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
    let (gpus, tenants, counters, (leases, pool)) = about.desk.show(|state| {
        let more = (state.lease_counters(), state.host_pool());
        (state.gpus(), state.tenants(), state.counters().clone(), more)
    });
    let snapshot = Snapshot {
        pool,
        gpus,
        tenants,
        counters,
        leases,
        events: about.desk.event_counts(),
        connections: about.desk.connections(),
        nvml_up: about.nvml_up(),
    };
    match metrics::text(&snapshot) {
        Ok(text) => {
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            ([(header::CONTENT_TYPE, kind)], text).into_response()
        }
        Err(error) => failed(&error),
    }
}
