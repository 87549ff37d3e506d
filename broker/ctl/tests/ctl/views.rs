//! Listings, events and `doctor` with a broker that answers.

use std::{
    io::{BufRead, BufReader},
    process::Stdio,
    sync::atomic::{AtomicU64, Ordering},
};

use crate::fake::{Scene, friendly, node, serve};

fn event(number: u64) -> String {
    format!(
        r#"{{"number":{number},"at":0.0,"kind":"joined","tenant":5,"pid":null,"gpu":null,
            "bytes":null,"text":"event {number}"}}"#
    )
}

#[test]
fn events_are_followed_from_the_number_seen_last() {
    let scene = Scene::new();
    let asked = AtomicU64::new(0);
    let seen = serve(&scene.path("run"), move |what| match what {
        "GET /api/v1/events?after=3" => ("200 OK", format!("[{},{}]", event(4), event(5))),
        "GET /api/v1/events?after=5" if asked.fetch_add(1, Ordering::Relaxed) > 0 => {
            ("200 OK", format!("[{}]", event(6)))
        }
        other => friendly(other),
    });
    let run = scene.path("run").to_string_lossy().into_owned();
    let mut child = scene
        .halfwarp(&["events", "-f", "--after", "3", "--broker", &run])
        .stdout(Stdio::piped())
        .spawn()
        .expect("halfwarp runs");
    let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let said: Vec<String> = lines.take(3).map(|line| line.expect("text")).collect();
    for (line, number) in said.iter().zip(4..) {
        assert!(line.ends_with(&format!("tenant=5 event {number}")), "{line}");
    }
    child.kill().expect("killed");
    child.wait().expect("ended");
    let seen = seen.lock().expect("not poisoned");
    assert!(seen.iter().any(|(what, _)| what == "GET /api/v1/events?after=5"));
}

#[test]
fn json_is_the_apis_own() {
    let scene = Scene::new();
    serve(&scene.path("run"), |what| match what {
        "GET /api/v1/events?after=0" => ("200 OK", format!("[{}]", event(1))),
        other => friendly(other),
    });
    let output = scene.output(&["events", "-o", "json", "--broker", "RUN"]);
    let events: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let sent: serde_json::Value = serde_json::from_str(&event(1)).expect("JSON");
    assert_eq!(events[0], sent);
}

#[test]
fn doctor_numbers_its_checks_and_fails_when_one_does() {
    let scene = Scene::new();
    serve(&scene.path("run"), friendly);
    let output = scene.output(&["doctor", "--broker", "RUN"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.starts_with(" 1  fail  library"), "{text}");
    assert!(text.contains("ok    broker          9.9.9 (pid 77, node)"), "{text}");
    assert!(text.contains("do: install the parts of one release"), "{text}");
    assert!(!text.contains('\x1b'), "colours in a pipe: {text}");
}

#[test]
fn doctor_reports_a_broker_of_another_release() {
    let scene = Scene::new();
    serve(&scene.path("run"), |_| ("200 OK", node("7.0")));
    let output = scene.output(&["doctor", "-o", "json", "--broker", "RUN"]);
    let findings: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let findings = findings.as_array().expect("a list");
    let broker = findings.iter().find(|finding| finding["name"] == "broker").expect("checked");
    assert_eq!(broker["outcome"], "fail");
    assert!(broker["found"].as_str().expect("text").contains("protocol 7.0"));
    assert!(broker["fix"].as_str().expect("text").contains("one release"));
}
