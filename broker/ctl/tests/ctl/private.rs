//! Private brokers: started on demand, once for many commands, and detached from all of them.

use std::{fs, process::Stdio};

use crate::fake::{Scene, TOKEN};

#[test]
fn many_runs_at_once_start_one_broker() {
    let scene = Scene::new();
    scene.install_friendly_broker();
    let arguments = ["run", "--sim", "--", "sh", "-c", "echo $HALFWARP_TENANT $SIMCUDA_MACHINE"];
    let running: Vec<_> = (0..4)
        .map(|_| scene.halfwarp(&arguments).stdout(Stdio::piped()).spawn().expect("halfwarp runs"))
        .collect();
    for child in running {
        let output = child.wait_with_output().expect("ended");
        assert_eq!(output.status.code(), Some(0));
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(said.trim(), format!("{TOKEN} default"));
    }
    let log = scene.path("user/halfwarp/sim-default/broker.log");
    let log = fs::read_to_string(log).expect("a log");
    assert_eq!(log.matches("stand-in pid=").count(), 1, "{log}");
}

#[test]
fn a_private_broker_has_a_session_of_its_own_and_nothing_of_its_starters() {
    let scene = Scene::new();
    scene.install_friendly_broker();
    let inherited = scene.path("inherited");
    fs::write(&inherited, "").expect("a file");
    // A shell gives descriptor 7 to everything it starts, as test runners and CI do.
    let script = r#"exec 7<"$1"; LD_PRELOAD="$2" exec "$0" run --sim -- true"#;
    let words = [scene.path("hw/halfwarp"), inherited, scene.path("hw/libhalfwarp.so")];
    let status = std::process::Command::new("sh")
        .args(["-c", script])
        .args(&words)
        .env("XDG_RUNTIME_DIR", scene.path("user"))
        .stderr(Stdio::null())
        .status()
        .expect("sh runs");
    assert_eq!(status.code(), Some(0));
    let log = scene.path("user/halfwarp/sim-default/broker.log");
    let log = fs::read_to_string(log).expect("a log");
    let line = log.lines().find(|line| line.contains("stand-in")).expect("a line");
    let pid = line.split("pid=").nth(1).and_then(|rest| rest.split(' ').next()).expect("a pid");
    let expected = format!("session=Some(\"{pid}\") Err(NotPresent) []");
    assert!(line.ends_with(&expected), "{line}");
}

#[test]
fn a_socket_left_by_a_broker_that_was_killed_leads_to_a_new_start() {
    let scene = Scene::new();
    let dir = scene.path("user/halfwarp/sim-default");
    fs::create_dir_all(&dir).expect("a directory");
    drop(std::os::unix::net::UnixListener::bind(dir.join("api.sock")).expect("a socket"));
    // The broker itself removes what is stale; the stand-in does not.
    scene.install_broker("#!/bin/sh\nrm \"$3\"/api.sock; echo stale socket removed; exit 1\n");
    let output = scene.halfwarp(&["run", "--sim", "--", "true"]).output().expect("halfwarp runs");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("stale socket removed"), "{text}");
}

#[test]
fn a_listing_without_a_broker_says_what_starts_one_and_which_simulated_one_serves() {
    let scene = Scene::new();
    scene.install_friendly_broker();
    let said = |arguments: &[&str]| {
        let output = scene.halfwarp(arguments).output().expect("halfwarp runs");
        assert_eq!(output.status.code(), Some(125));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(said(&["ps", "--sim"]).contains("`halfwarp run --sim` starts one"));
    let status = scene.halfwarp(&["run", "--sim", "--", "true"]).status().expect("halfwarp runs");
    assert!(status.success());
    // Where a node's broker serves, it is the one that is meant.
    if !std::path::Path::new("/run/halfwarp/api.sock").exists() {
        let text = said(&["ps"]);
        assert!(text.contains("a simulated one serves: --broker"), "{text}");
        assert!(text.contains("sim-default"), "{text}");
    }
}
