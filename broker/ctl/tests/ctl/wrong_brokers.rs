//! What `halfwarp` says when the broker is absent, hung, of another release or not a broker at all:
//! one message with what was tried, what was found and what to do, and 125.

use std::{
    fs,
    os::unix::net::UnixListener,
    process::Output,
    time::{Duration, Instant},
};

use crate::fake::{Scene, friendly, node, serve};

/// Asserts that `output` is a failure of our own in one message that contains each of `said`.
fn fails_saying(output: &Output, said: &[&str]) {
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{text}");
    assert!(output.stdout.is_empty(), "{:?}", output.stdout);
    assert_eq!(text.matches("halfwarp: ").count(), 1, "{text}");
    for words in said {
        assert!(text.contains(words), "{words:?} is missing in: {text}");
    }
}

const RUN: [&str; 5] = ["run", "--broker", "RUN", "--", "true"];
const PS: [&str; 3] = ["ps", "--broker", "RUN"];

#[test]
fn no_broker_is_named_with_the_socket_and_how_to_start_one() {
    let scene = Scene::new();
    fails_saying(&scene.output(&RUN), &["api.sock does not exist", "halfwarpd --run-dir"]);
    fails_saying(&scene.output(&PS), &["api.sock does not exist"]);
}

#[test]
fn a_socket_left_behind_is_told_from_a_file_that_is_none() {
    let scene = Scene::new();
    drop(UnixListener::bind(scene.path("run/api.sock")).expect("a socket"));
    fails_saying(&scene.output(&PS), &["nobody listens on it"]);
    fs::remove_file(scene.path("run/api.sock")).expect("removed");
    fs::write(scene.path("run/api.sock"), "text").expect("a file");
    fails_saying(&scene.output(&RUN), &["api.sock is not a socket", "move"]);
}

#[test]
fn an_answer_that_is_no_brokers_is_quoted() {
    for (status, body) in [
        ("200 OK", "{\"version\":1}"),
        ("200 OK", "<html>"),
        ("200 OK", ""),
        ("500 Internal Server Error", "boom"),
        ("nonsense", ""),
    ] {
        let scene = Scene::new();
        serve(&scene.path("run"), move |_| (status, body.to_owned()));
        fails_saying(&scene.output(&RUN), &["not a broker's", "another program's socket"]);
    }
}

#[test]
fn a_broker_that_does_not_answer_is_given_up_within_its_deadline() {
    let scene = Scene::new();
    // Connections are taken by the kernel; nobody reads from them, as with a stopped process.
    let _silent = UnixListener::bind(scene.path("run/api.sock")).expect("a socket");
    let begun = Instant::now();
    fails_saying(&scene.output(&RUN), &["no answer within 5 s", "stopped"]);
    assert!(begun.elapsed() < Duration::from_secs(8), "took {:?}", begun.elapsed());
}

#[test]
fn a_broker_of_another_major_version_is_refused_with_both_named() {
    for protocol in ["2.0", "0.9", "1", "one.two", ""] {
        let scene = Scene::new();
        let seen = serve(&scene.path("run"), move |_| ("200 OK", node(protocol)));
        let said = [
            "halfwarpd 9.9.9 (pid 77)",
            &format!("protocol {protocol}"),
            &format!("speaks {}", halfwarp_api::version::CURRENT),
        ];
        fails_saying(&scene.output(&RUN), &said);
        let seen = seen.lock().expect("not poisoned");
        assert!(seen.iter().all(|(what, _)| what == "GET /api/v1/node"), "asked on: {seen:?}");
    }
}

#[test]
fn a_newer_minor_version_is_taken() {
    let scene = Scene::new();
    serve(&scene.path("run"), |what| match what {
        "GET /api/v1/node" => ("200 OK", node("1.7")),
        other => friendly(other),
    });
    assert_eq!(scene.output(&RUN).status.code(), Some(0));
}

#[test]
fn what_the_broker_refuses_is_shown_with_its_help() {
    let scene = Scene::new();
    serve(&scene.path("run"), |what| match what {
        "POST /api/v1/tenants" => (
            "409 Conflict",
            r#"{"reason":"no-room","message":"20GiB asked for, 4GiB left on GPU 0",
                "help":"ask for less, or name another card"}"#
                .to_owned(),
        ),
        other => friendly(other),
    });
    let said = ["no-room", "20GiB asked for, 4GiB left on GPU 0", "ask for less"];
    fails_saying(&scene.output(&RUN), &said);
}

#[test]
fn a_private_broker_that_does_not_start_is_quoted_from_its_log() {
    let scene = Scene::new();
    scene.install_broker("#!/bin/sh\necho no driver answers here >&2\nexit 3\n");
    let begun = Instant::now();
    let output = scene.halfwarp(&["run", "--sim", "--", "true"]).output().expect("halfwarp runs");
    let said = ["starting a private broker", "exit status: 3", "no driver answers here", "doctor"];
    fails_saying(&output, &said);
    assert!(begun.elapsed() < Duration::from_secs(5), "an early end is not waited for");
}

#[test]
fn a_run_directory_that_cannot_be_made_or_trusted_is_refused() {
    let scene = Scene::new();
    scene.install_broker("#!/bin/sh\nexit 3\n");
    fs::write(scene.path("user/halfwarp"), "a file").expect("a file");
    let output = scene.halfwarp(&["run", "--sim", "--", "true"]).output().expect("halfwarp runs");
    fails_saying(&output, &["making the broker's run directory", "XDG_RUNTIME_DIR"]);
    fs::remove_file(scene.path("user/halfwarp")).expect("removed");
    std::os::unix::fs::symlink("/tmp", scene.path("user/halfwarp")).expect("a link");
    let output = scene.halfwarp(&["run", "--sim", "--", "true"]).output().expect("halfwarp runs");
    fails_saying(&output, &["only you can write"]);
}

#[test]
fn a_private_broker_that_never_serves_is_given_up_after_ten_seconds() {
    let scene = Scene::new();
    scene.install_broker("#!/bin/sh\necho waiting for the driver\nexec sleep 60\n");
    let begun = Instant::now();
    let output = scene.halfwarp(&["run", "--sim", "--", "true"]).output().expect("halfwarp runs");
    fails_saying(&output, &["did not serve within 10 s", "waiting for the driver"]);
    assert!(begun.elapsed() < Duration::from_secs(13), "took {:?}", begun.elapsed());
}
