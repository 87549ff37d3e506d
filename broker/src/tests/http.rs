//! The HTTP API as a client sees it.

use halfwarp_rest::{Admitted, Event, Gpu, Node, Problem, Tenant};
use serde::de::DeserializeOwned;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
    time::timeout,
};

use super::{Broker, PATIENCE};

/// Status and body.
async fn call(broker: &Broker, method: &str, path: &str, body: &str) -> (u16, String) {
    let mut stream = UnixStream::connect(broker.dir.api_socket()).await.expect("connected");
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
    );
    stream.write_all((head + body).as_bytes()).await.expect("asked");
    let mut answer = String::new();
    let read = timeout(PATIENCE, stream.read_to_string(&mut answer)).await.expect("in time");
    read.expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).and_then(|s| s.parse().ok()).expect("a status");
    (status, body.to_owned())
}

fn read<T: DeserializeOwned>(body: &str) -> T {
    serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {body}"))
}

#[tokio::test]
async fn a_tenant_is_made_shown_and_ended() {
    let root = tempfile::tempdir().expect("a directory");
    let broker = Broker::start(root.path());
    let ask = r#"{"memory":["4GiB..8GiB"],"name":"train","runner_pid":RUNNER}"#;
    let ask = ask.replace("RUNNER", &std::process::id().to_string());
    let (status, body) = call(&broker, "POST", "/api/v1/tenants", &ask).await;
    assert_eq!(status, 201, "{body}");
    let admitted: Admitted = read(&body);
    assert_eq!((admitted.token.len(), admitted.gpus.len()), (32, 1));
    assert!(admitted.join_socket.ends_with("join/join.sock"));
    let (_, body) = call(&broker, "GET", "/api/v1/tenants/1", "").await;
    let tenant: Tenant = read(&body);
    assert_eq!((tenant.state.as_str(), tenant.name.as_str()), ("waiting", "train"));
    assert_eq!(tenant.uid, rustix::process::getuid().as_raw());
    let (_, body) = call(&broker, "GET", "/api/v1/gpus", "").await;
    assert_eq!(read::<Vec<Gpu>>(&body)[0].memory_requested_bytes.0, 4 << 30);
    assert_eq!(call(&broker, "DELETE", "/api/v1/tenants/1", "").await.0, 204);
    let (_, body) = call(&broker, "GET", "/api/v1/tenants", "").await;
    assert_eq!(read::<Vec<Tenant>>(&body), []);
    let (_, body) = call(&broker, "GET", "/api/v1/events?after=1", "").await;
    let kinds: Vec<_> = read::<Vec<Event>>(&body).into_iter().map(|e| e.kind).collect();
    assert_eq!(kinds, ["tenant-ended"]);
}

#[tokio::test]
async fn every_refusal_says_what_was_found_and_what_to_do() {
    let root = tempfile::tempdir().expect("a directory");
    let broker = Broker::start(root.path());
    for (method, path, body, status, reason) in [
        ("POST", "/api/v1/tenants", "{", 400, "malformed"),
        ("POST", "/api/v1/tenants", r#"{"colour":1}"#, 400, "malformed"),
        ("POST", "/api/v1/tenants", r#"{"memory":["-1"]}"#, 400, "malformed"),
        ("POST", "/api/v1/tenants", r#"{"gpus":["9"]}"#, 422, "no-such-gpu"),
        ("POST", "/api/v1/tenants", r#"{"memory":["17GiB"]}"#, 422, "limit-above-card"),
        ("POST", "/api/v1/tenants", r#"{"swap":true}"#, 409, "no-swap"),
        ("POST", "/api/v1/tenants", r#"{"runner_pid":4294967295}"#, 422, "runner-gone"),
        ("GET", "/api/v1/tenants/7", "", 404, "unknown-tenant"),
        ("GET", "/api/v1/tenants/x", "", 404, "unknown-tenant"),
        ("DELETE", "/api/v1/tenants/7", "", 404, "unknown-tenant"),
        ("GET", "/api/v1/events?after=x", "", 400, "malformed"),
        ("GET", "/nowhere", "", 404, "no-such-path"),
    ] {
        let (got, answer) = call(&broker, method, path, body).await;
        assert_eq!(got, status, "{path} {body}: {answer}");
        let problem: Problem = read(&answer);
        assert_eq!(problem.reason, reason);
        assert!(!problem.message.is_empty() && !problem.help.is_empty());
    }
    assert_eq!(call(&broker, "POST", "/api/v1/tenants", &" ".repeat(1 << 17)).await.0, 413);
}

#[tokio::test]
async fn the_node_says_where_to_join_and_that_it_is_well() {
    let root = tempfile::tempdir().expect("a directory");
    let broker = Broker::start(root.path());
    let (_, body) = call(&broker, "GET", "/api/v1/node", "").await;
    assert_eq!(read::<Node>(&body).join_socket, broker.dir.join_socket().display().to_string());
    assert_eq!(call(&broker, "GET", "/healthz", "").await, (200, "ok".to_owned()));
    assert_eq!(call(&broker, "GET", "/readyz", "").await, (200, "ok".to_owned()));
}

#[tokio::test]
async fn metrics_have_a_tenant_s_series_from_the_start_and_names_cannot_break_them() {
    let root = tempfile::tempdir().expect("a directory");
    let broker = Broker::start(root.path());
    let name = r#"quo\"te \\ <script>"#;
    let ask = format!(r#"{{"memory":["1GiB..2GiB"],"name":"{name}"}}"#);
    assert_eq!(call(&broker, "POST", "/api/v1/tenants", &ask).await.0, 201);
    let (status, text) = call(&broker, "GET", "/metrics", "").await;
    assert_eq!(status, 200);
    let labels = r#"{gpu="0",UUID="GPU-09090909-0909-0909-0909-090909090909",tenant="quo\"te \\ <script>",tenant_id="1"}"#;
    for line in [
        format!("halfwarp_memory_used_bytes{labels} 0"),
        format!("halfwarp_memory_request_bytes{labels} {}", 1_u64 << 30),
        format!("halfwarp_memory_limit_bytes{labels} {}", 2_u64 << 30),
        format!("halfwarp_out_of_memory_answers_total{labels} 0"),
        "halfwarp_joins_total 0".to_owned(),
        "halfwarp_events_total{kind=\"tenant-admitted\"} 1".to_owned(),
        "halfwarp_nvml_up 1".to_owned(),
    ] {
        assert!(text.lines().any(|have| have == line), "{line} is not in\n{text}");
    }
}
