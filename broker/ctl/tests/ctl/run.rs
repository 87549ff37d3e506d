//! `halfwarp run` with a broker that admits everybody: what the program gets, what is asked of the
//! broker, how it ends.

use std::os::unix::process::CommandExt;
use std::{
    io::{BufRead, BufReader},
    process::Stdio,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use crate::fake::{Scene, TOKEN, friendly, serve};

#[test]
fn the_program_gets_its_tenant_and_its_exit_code_is_ours() {
    let scene = Scene::new();
    serve(&scene.path("run"), friendly);
    let script = "echo $HALFWARP_TENANT $HALFWARP_JOIN $CUDA_VISIBLE_DEVICES; exit 7";
    let output = scene.output(&["run", "--broker", "RUN", "--", "sh", "-c", script]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(said.trim(), format!("{TOKEN} /run/x/join.sock GPU-a"));
    assert_eq!(output.status.code(), Some(7));
}

#[test]
fn the_broker_is_asked_for_what_was_written_and_told_of_the_end() {
    let scene = Scene::new();
    let seen = serve(&scene.path("run"), |what| match what {
        "GET /api/v1/tenants/5" => ("200 OK", TENANT.to_owned()),
        other => friendly(other),
    });
    let options = "run --memory 4GiB..50% --compute 25% --priority low --gpu 0,any --swap --broker";
    let words: Vec<&str> = options.split(' ').chain(["RUN", "/bin/true"]).collect();
    assert_eq!(scene.output(&words).status.code(), Some(0));
    let seen = seen.lock().expect("not poisoned");
    let wishes: Vec<&str> = seen
        .iter()
        .filter(|(what, _)| what == "POST /api/v1/tenants")
        .map(|(_, body)| body.as_str())
        .collect();
    assert_eq!(wishes.len(), 1);
    let expected = [
        r#""name":"true""#,
        r#""gpus":["0","any"]"#,
        r#""memory":["4GiB..50%"]"#,
        r#""compute":"25%""#,
        r#""priority":100"#,
        r#""swap":true"#,
        r#""runner_pid":"#,
    ];
    for field in expected {
        assert!(wishes[0].contains(field), "{field} is missing in {}", wishes[0]);
    }
    assert_eq!(seen.last().map(|(what, _)| what.as_str()), Some("DELETE /api/v1/tenants/5"));
}

/// A tenant whose one process has ended.
const TENANT: &str = r#"{"id":5,"name":"true","uid":0,"state":"running","priority":100,
    "share":"25%","share_limit":"100%","swap":true,"started_at":0,"gpus":[],
    "processes":[{"pid":2147483647,"command":"true","joined_at":0}]}"#;

#[test]
fn a_tenant_with_a_living_process_is_left_to_the_broker() {
    let scene = Scene::new();
    let own = std::process::id();
    let seen = serve(&scene.path("run"), move |what| match what {
        "GET /api/v1/tenants/5" => ("200 OK", TENANT.replace("2147483647", &own.to_string())),
        other => friendly(other),
    });
    assert_eq!(scene.output(&["run", "--broker", "RUN", "true"]).status.code(), Some(0));
    let seen = seen.lock().expect("not poisoned");
    assert!(seen.iter().all(|(what, _)| !what.starts_with("DELETE")), "{seen:?}");
}

#[test]
fn programs_that_cannot_be_run_end_as_in_a_shell() {
    let scene = Scene::new();
    let seen = serve(&scene.path("run"), friendly);
    let code = |program| scene.output(&["run", "--broker", "RUN", "--", program]).status.code();
    assert_eq!(code("/nonexistent/program"), Some(127));
    assert_eq!(code("/etc/passwd"), Some(126));
    let asked = seen.lock().expect("not poisoned").iter().filter(|s| s.0.contains("POST")).count();
    assert_eq!(asked, 2);
}

#[test]
fn death_by_a_signal_is_128_and_the_signals_number() {
    let scene = Scene::new();
    serve(&scene.path("run"), friendly);
    let output = scene.output(&["run", "--broker", "RUN", "--", "sh", "-c", "kill -9 $$"]);
    assert_eq!(output.status.code(), Some(137));
}

#[test]
fn signals_reach_the_program_and_it_decides() {
    let scene = Scene::new();
    serve(&scene.path("run"), friendly);
    for (signal, name) in [("TERM", "TERM"), ("INT", "INT"), ("HUP", "HUP"), ("USR1", "USR1")] {
        let run = scene.path("run").to_string_lossy().into_owned();
        let script =
            format!("trap 'echo got; exit 9' {name}; echo ready; while :; do sleep 0.02; done");
        let mut child = scene
            .halfwarp(&["run", "--broker", &run, "--", "sh", "-c", &script])
            .stdout(Stdio::piped())
            .spawn()
            .expect("halfwarp runs");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        assert_eq!(lines.next().expect("a line").expect("text"), "ready");
        let sent = std::process::Command::new("kill")
            .args([&format!("-{signal}"), &child.id().to_string()])
            .status()
            .expect("kill runs");
        assert!(sent.success());
        assert_eq!(lines.next().expect("a line").expect("text"), "got", "{signal}");
        assert_eq!(child.wait().expect("ended").code(), Some(9), "{signal}");
    }
}

#[test]
fn the_program_finds_the_signal_mask_and_dispositions_of_its_caller() {
    let scene = Scene::new();
    serve(&scene.path("run"), friendly);
    let pick = |output: &[u8]| -> Vec<String> {
        let text = String::from_utf8_lossy(output);
        let lines = text.lines().filter(|l| l.starts_with("Sig") && !l.starts_with("SigQ"));
        lines.map(str::to_owned).collect()
    };
    let status = "/proc/self/status";
    let natively = std::process::Command::new("cat").arg(status).output().expect("cat runs");
    let as_tenant = scene.output(&["run", "--broker", "RUN", "--", "cat", status]);
    assert_eq!(pick(&as_tenant.stdout), pick(&natively.stdout));
    assert_eq!(pick(&natively.stdout).len(), 4);
}

#[test]
fn a_program_that_handles_no_signal_ends_by_it() {
    let scene = Scene::new();
    serve(&scene.path("run"), friendly);
    let run = scene.path("run").to_string_lossy().into_owned();
    let mut child = scene
        .halfwarp(&["run", "--broker", &run, "--", "sleep", "60"])
        .spawn()
        .expect("halfwarp runs");
    let sleeps = || {
        let children = format!("/proc/{0}/task/{0}/children", child.id());
        let pids = std::fs::read_to_string(children).unwrap_or_default();
        let name = |pid: &str| std::fs::read_to_string(format!("/proc/{pid}/comm"));
        // The process that the tenant lives for is a child too.
        pids.split_whitespace().any(|pid| name(pid).is_ok_and(|name| name == "sleep\n"))
    };
    wait_for("the program to run", sleeps);
    let sent = std::process::Command::new("kill").arg(child.id().to_string()).status();
    assert!(sent.expect("kill runs").success());
    assert_eq!(child.wait().expect("ended").code(), Some(143));
}

#[test]
fn a_signal_the_caller_ignores_stays_ignored_in_the_program() {
    let scene = Scene::new();
    serve(&scene.path("run"), friendly);
    let run = scene.path("run").to_string_lossy().into_owned();
    let halfwarp = scene.path("hw/halfwarp").to_string_lossy().into_owned();
    let script = "trap '' HUP; exec \"$0\" run --broker \"$1\" -- sh -c 'kill -HUP $$; echo lives'";
    let output = std::process::Command::new("sh")
        .args(["-c", script, &halfwarp, &run])
        .output()
        .expect("sh runs");
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "lives");
}

#[test]
fn bad_quantities_are_refused_before_anything_is_asked() {
    let scene = Scene::new();
    let seen = serve(&scene.path("run"), friendly);
    let output = scene.output(&["run", "--memory", "8GIB", "--broker", "RUN", "--", "true"]);
    assert_eq!(output.status.code(), Some(125));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("8GIB") && text.contains("8GiB"), "{text}");
    assert!(seen.lock().expect("not poisoned").is_empty());
}

#[test]
fn a_closed_reader_of_a_listing_is_no_error() {
    let scene = Scene::new();
    serve(&scene.path("run"), friendly);
    let run = scene.path("run").to_string_lossy().into_owned();
    let mut child = scene
        .halfwarp(&["ps", "--broker", &run, "-o", "json"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("halfwarp runs");
    drop(child.stdout.take());
    assert_eq!(child.wait().expect("ended").code(), Some(0));
}

/// The state letter of a process, as `ps` shows it.
fn state(pid: u32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit(')').next()?.trim().chars().next()
}

fn wait_for(what: &str, condition: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(10);
    while !condition() {
        assert!(Instant::now() < until, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn stop_and_continue_hold_for_the_program_and_for_us() {
    let scene = Scene::new();
    serve(&scene.path("run"), friendly);
    let run = scene.path("run").to_string_lossy().into_owned();
    let script = "trap 'exit 9' TERM; echo $$; while :; do sleep 0.02; done";
    // A group of its own with us above it: the kernel stops nobody in an orphaned group, and where
    // there is no terminal ours may be one.
    let mut child = scene
        .halfwarp(&["run", "--broker", &run, "--", "sh", "-c", script])
        .stdout(Stdio::piped())
        .process_group(0)
        .spawn()
        .expect("halfwarp runs");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let program: u32 = lines.next().expect("a line").expect("text").parse().expect("a pid");
    let runner = child.id();
    let send = |signal: &str| {
        let sent = std::process::Command::new("kill").args([signal, &runner.to_string()]).status();
        assert!(sent.expect("kill runs").success());
    };
    send("-TSTP");
    wait_for("both to stop", || state(program) == Some('T') && state(runner) == Some('T'));
    send("-CONT");
    wait_for("both to go on", || state(program) != Some('T') && state(runner) != Some('T'));
    send("-TERM");
    assert_eq!(child.wait().expect("ended").code(), Some(9));
}

#[test]
fn a_broker_that_hangs_delays_the_end_by_a_second_at_most() {
    let scene = Scene::new();
    let hangs = AtomicBool::new(false);
    serve(&scene.path("run"), move |what| {
        if what == "POST /api/v1/tenants" {
            hangs.store(true, Ordering::Relaxed);
        } else if hangs.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_secs(30));
        }
        friendly(what)
    });
    let begun = Instant::now();
    let output = scene.output(&["run", "--broker", "RUN", "--", "sh", "-c", "exit 3"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(begun.elapsed() < Duration::from_secs(4), "took {:?}", begun.elapsed());
    assert!(String::from_utf8_lossy(&output.stderr).contains("no answer within 1 s"));
}

#[test]
fn a_library_that_the_loader_would_skip_is_refused_before_the_program_runs() {
    let scene = Scene::new();
    let seen = serve(&scene.path("run"), friendly);
    for broken in ["", "\x7fELF of something else", "halfwarp_stage_one\0"] {
        std::fs::write(scene.path("hw/libhalfwarp.so"), broken).expect("a file");
        let output = scene.output(&["run", "--broker", "RUN", "--", "echo", "ran"]);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(125), 0));
        assert!(String::from_utf8_lossy(&output.stderr).contains("not Halfwarp's library"));
    }
    assert!(seen.lock().expect("not poisoned").is_empty());
}
