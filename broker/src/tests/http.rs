//! The HTTP API as a client sees it.

use std::collections::{BTreeMap, BTreeSet};

use halfwarp_rest::{Admitted, Event, Gpu, Node, Problem, Tenant};
use serde::de::DeserializeOwned;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
    time::timeout,
};

use super::{Broker, PATIENCE};

/// Status and body.
pub(super) async fn call(broker: &Broker, method: &str, path: &str, body: &str) -> (u16, String) {
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

pub(super) fn read<T: DeserializeOwned>(body: &str) -> T {
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
        ("POST", "/api/v1/tenants", r#"{"runner_pid":4294967295}"#, 422, "runner-gone"),
        ("GET", "/api/v1/tenants/7", "", 404, "unknown-tenant"),
        ("GET", "/api/v1/tenants/x", "", 404, "unknown-tenant"),
        ("DELETE", "/api/v1/tenants/7", "", 404, "unknown-tenant"),
        ("GET", "/api/v1/events?after=x", "", 400, "malformed"),
        ("GET", "/api/v1/tenants/%ff", "", 404, "no-such-path"),
        ("GET", "/api/v1/tenants/18446744073709551616", "", 404, "unknown-tenant"),
        ("GET", "/nowhere", "", 404, "no-such-path"),
        ("GET", "/api/v1/gpus/", "", 404, "no-such-path"),
        ("DELETE", "/api/v1/gpus", "", 405, "no-such-method"),
        ("POST", "/metrics", "", 405, "no-such-method"),
        ("PUT", "/api/v1/tenants/1", "{}", 405, "no-such-method"),
        ("PATCH", "/api/v1/tenants/1", "{}", 404, "unknown-tenant"),
        ("PATCH", "/api/v1/tenants/1", r#"{"compute":"61"}"#, 400, "malformed"),
        ("PATCH", "/api/v1/gpus/0", "{}", 422, "no-such-gpu"),
    ] {
        let (got, answer) = call(&broker, method, path, body).await;
        assert_eq!(got, status, "{path} {body}: {answer}");
        let problem: Problem = read(&answer);
        assert_eq!(problem.reason, reason);
        assert!(!problem.message.is_empty() && !problem.help.is_empty());
    }
    let (status, answer) = call(&broker, "POST", "/api/v1/tenants", &" ".repeat(1 << 17)).await;
    assert_eq!((status, read::<Problem>(&answer).reason.as_str()), (413, "too-large"));
}

#[tokio::test]
async fn a_tenant_and_a_card_are_changed_all_or_nothing() {
    let root = tempfile::tempdir().expect("a directory");
    let broker = Broker::start(root.path());
    for compute in ["40%", "50%"] {
        let ask = format!(r#"{{"compute":"{compute}","memory":["1GiB"]}}"#);
        assert_eq!(call(&broker, "POST", "/api/v1/tenants", &ask).await.0, 201);
    }
    let change = async |path: &str, body: &str| {
        let (status, body) = call(&broker, "PATCH", path, body).await;
        (status, body)
    };
    let (status, body) =
        change("/api/v1/tenants/1", r#"{"compute":"45%..60%","priority":100}"#).await;
    assert_eq!(status, 200, "{body}");
    let tenant: Tenant = read(&body);
    assert_eq!((tenant.share.0, tenant.share_limit.0, tenant.priority), (45, 60, 100));
    for (path, body, status, reason) in [
        ("/api/v1/tenants/1", r#"{"compute":"51%","priority":7}"#, 409, "shares-full"),
        ("/api/v1/tenants/1", r#"{"compute":"10%","priority":0}"#, 422, "priority"),
        ("/api/v1/tenants/1", r#"{"compute":"10%","memory":["16GiB"]}"#, 409, "card-full"),
    ] {
        let (got, answer) = change(path, body).await;
        assert_eq!((got, read::<Problem>(&answer).reason.as_str()), (status, reason), "{answer}");
    }
    let (_, body) = call(&broker, "GET", "/api/v1/tenants/1", "").await;
    assert_eq!(read::<Tenant>(&body).share.0, 45, "a refused change changes nothing");

    let gpu = format!("/api/v1/gpus/{}", super::uuid());
    let (status, body) = change(&gpu, r#"{"mode":"strict","lease_ms":50}"#).await;
    assert_eq!(status, 200, "{body}");
    let shown: Gpu = read(&body);
    assert_eq!((shown.mode, shown.lease_ms), (halfwarp_rest::Mode::Strict, 50));
    for (body, reason) in [
        (r#"{"mode":"fair","lease_ms":19}"#, "lease"),
        (r#"{"mode":"fair","lease_ms":1001}"#, "lease"),
    ] {
        assert_eq!(read::<Problem>(&change(&gpu, body).await.1).reason, reason);
    }
    assert_eq!(change("/api/v1/tenants/2", r#"{"compute":"0%"}"#).await.0, 422, "strict");
    assert!(broker.kinds().contains(&"gpu-changed".to_owned()));
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

/// Writes all of it, as far as the broker takes it, and reads until the connection is over.
async fn send_raw(broker: &Broker, request: &[u8]) -> Vec<u8> {
    let mut stream = UnixStream::connect(broker.dir.api_socket()).await.expect("connected");
    let _ = stream.write_all(request).await;
    let mut answer = Vec::new();
    let _ = timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("over in time");
    answer
}

#[tokio::test]
async fn nothing_that_is_sent_kills_or_hangs_the_api() {
    let root = tempfile::tempdir().expect("a directory");
    let broker = Broker::start(root.path());
    let head = "POST /api/v1/tenants HTTP/1.1\r\nhost: x\r\n";
    let deep = "[".repeat(60_000);
    let headers: String = (0..2_000).map(|n| format!("h{n}: {}\r\n", "x".repeat(100))).collect();
    for request in [
        "\0\0\0\0\r\n\r\n".to_owned(),
        "GET\r\n\r\n".to_owned(),
        format!("GET /{} HTTP/1.1\r\nhost: x\r\n\r\n", "a/".repeat(500_000)),
        format!("{head}{headers}\r\n"),
        format!("{head}content-length: 99999999999999999999\r\n\r\n"),
        format!("{head}content-length: -1\r\n\r\n"),
        format!("{head}content-length: 10\r\n\r\n{{"),
        format!("{head}transfer-encoding: chunked\r\n\r\nffffffffffffffffff\r\n"),
        format!("{head}content-length: {}\r\nconnection: close\r\n\r\n{deep}", deep.len()),
        head.to_owned(),
        String::new(),
    ] {
        let answer = send_raw(&broker, request.as_bytes()).await;
        let status = answer.split(|byte| *byte == b' ').nth(1).unwrap_or_default();
        let refused = status.is_empty() || status.starts_with(b"4");
        assert!(refused, "{:.80?}: {}", request, String::from_utf8_lossy(&answer));
        assert_eq!(call(&broker, "GET", "/healthz", "").await.0, 200, "after {request:.80?}");
    }
    assert_eq!(broker.kinds(), [""; 0], "nothing was admitted");
}

#[tokio::test]
async fn whoever_leaks_connections_is_cut_off_and_others_get_in_again() {
    let root = tempfile::tempdir().expect("a directory");
    let broker = Broker::start(root.path());
    let mut leaked = Vec::new();
    for _ in 0..64 {
        leaked.push(UnixStream::connect(broker.dir.api_socket()).await.expect("connected"));
    }
    for stream in &mut leaked {
        let closed = timeout(PATIENCE, stream.read_to_end(&mut Vec::new())).await;
        assert!(closed.is_ok(), "a silent connection stays open");
    }
    assert_eq!(call(&broker, "GET", "/healthz", "").await.0, 200);
}

#[tokio::test]
async fn metrics_follow_the_rules_of_their_format() {
    let root = tempfile::tempdir().expect("a directory");
    let broker = Broker::start(root.path());
    for _ in 0..2 {
        let ask = r#"{"memory":["1GiB"],"name":"same"}"#;
        assert_eq!(call(&broker, "POST", "/api/v1/tenants", ask).await.0, 201);
    }
    assert_eq!(call(&broker, "POST", "/api/v1/tenants", r#"{"gpus":["9"]}"#).await.0, 422);
    let (_, text) = call(&broker, "GET", "/metrics", "").await;
    let (mut kinds, mut series) = (BTreeMap::new(), BTreeSet::new());
    for line in text.lines() {
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        match words[..] {
            ["#", "HELP", name, help] => assert!(help.len() > 5, "{name} has no help: {help}"),
            ["#", "TYPE", name, kind] => {
                assert_eq!(kinds.insert(name.to_owned(), kind.to_owned()), None, "{name} twice");
            }
            ["#", "EOF"] => {}
            _ => {
                let (what, value) = line.rsplit_once(' ').expect("a value");
                assert!(series.insert(what.to_owned()), "{what} is there twice");
                assert!(value.parse::<f64>().is_ok(), "{line}");
                let name = what.split('{').next().unwrap_or_default();
                assert!(name.starts_with("halfwarp_"), "{line}");
                let family = name.strip_suffix("_total").unwrap_or(name);
                let counter = kinds.get(family).map(String::as_str) == Some("counter");
                assert_eq!(name.ends_with("_total"), counter, "{name} of {kinds:?}");
                assert!(
                    !name.contains("memory") || family.ends_with("_bytes") || counter,
                    "{name}"
                );
            }
        }
    }
    assert!(text.ends_with("# EOF\n"));
    assert!(series.contains(r#"halfwarp_refusals_total{at="admission",reason="no-such-gpu"}"#));
}
