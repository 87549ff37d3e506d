//! What people may write on the command line, right and wrong, and the code each ends with.

use std::{
    ffi::OsStr,
    os::unix::{ffi::OsStrExt, fs::PermissionsExt},
};

use crate::fake::{Scene, copy, friendly, serve};

#[test]
fn words_that_cannot_be_obeyed_end_with_125_and_say_why() {
    let scene = Scene::new();
    let cases: [(&[&str], &str); 10] = [
        (&[], "Usage: halfwarp <COMMAND>"),
        (&["fly"], "unrecognized subcommand 'fly'"),
        (&["--fly"], "unexpected argument '--fly'"),
        (&["run"], "<PROGRAM>"),
        (&["run", "--"], "<PROGRAM>"),
        (&["run", "--fly", "--", "true"], "unexpected argument '--fly'"),
        (&["run", "--memory"], "a value is required"),
        (&["ps", "-o", "yaml"], "table, wide, json"),
        (&["completions", "ksh"], "bash"),
        (&["man", "fly"], "there is no such command"),
    ];
    for (words, said) in cases {
        let output = scene.output(words);
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{words:?}: {text}");
        assert!(text.contains(said), "{words:?}: {text}");
        assert!(output.stdout.is_empty() && !text.contains('\x1b'), "{words:?}: {text}");
    }
}

#[test]
fn help_versions_scripts_and_pages_go_to_stdout_and_end_well() {
    let scene = Scene::new();
    let cases: [(&[&str], &str); 8] = [
        (&["--help"], "Commands:"),
        (&["run", "--help"], "4GiB..16GiB"),
        (&["--version"], env!("CARGO_PKG_VERSION")),
        (&["completions", "bash"], "complete -F _halfwarp"),
        (&["completions", "zsh"], "#compdef halfwarp"),
        (&["completions", "fish"], "complete -c halfwarp"),
        (&["man"], ".TH halfwarp"),
        (&["man", "run"], "halfwarp\\-run"),
    ];
    for (words, said) in cases {
        let output = scene.output(words);
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && output.stderr.is_empty(), "{words:?}");
        assert!(text.contains(said), "{words:?}: {text}");
        assert!(!text.contains("detached"), "{words:?} names what is not for people: {text}");
    }
}

#[test]
fn programs_and_arguments_need_not_be_text() {
    let scene = Scene::new();
    let seen = serve(&scene.path("run"), friendly);
    let program = scene.path("run").join(OsStr::from_bytes(b"pr\xffgram\xe2\x80\xae"));
    let draft = scene.path("draft");
    std::fs::write(&draft, "#!/bin/sh\nprintf %s \"$1\"\n").expect("a file");
    std::fs::set_permissions(&draft, std::fs::Permissions::from_mode(0o755)).expect("executable");
    copy(&draft, &program);
    let mut command = scene.halfwarp(&["run", "--broker"]);
    command.arg(scene.path("run")).arg("--").arg(&program).arg(OsStr::from_bytes(b"\xfe\x01"));
    let output = command.output().expect("halfwarp runs");
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), &b"\xfe\x01"[..]));
    let seen = seen.lock().expect("not poisoned");
    let wish = seen.iter().find(|(what, _)| what.starts_with("POST")).expect("asked");
    assert!(wish.1.contains(r#""name":"pr?gram?""#), "{}", wish.1);
}

#[test]
fn a_program_without_a_name_is_not_found() {
    let scene = Scene::new();
    serve(&scene.path("run"), friendly);
    let output = scene.output(&["run", "--broker", "RUN", "--", ""]);
    assert_eq!(output.status.code(), Some(127), "{output:?}");
}
