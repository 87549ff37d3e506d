//! A broker that is not one: answers over a unix socket with whatever a test gives it, and a copy of
//! the `halfwarp` binary with the files beside it that the test wants.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    os::unix::{
        fs::PermissionsExt,
        net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::{Arc, Mutex},
    time::Duration,
};

pub(crate) const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// A directory with `halfwarp` and a library in it, and a run directory.
#[derive(Debug)]
pub(crate) struct Scene {
    root: tempfile::TempDir,
}

impl Scene {
    pub(crate) fn new() -> Self {
        let root = tempfile::tempdir().expect("a directory");
        let scene = Self { root };
        for dir in ["hw/sim", "run", "user"] {
            fs::create_dir_all(scene.path(dir)).expect("a directory");
        }
        copy(Path::new(env!("CARGO_BIN_EXE_halfwarp")), &scene.path("hw/halfwarp"));
        // Enough of a library for halfwarp; the loader says that it is none and goes on.
        fs::write(scene.path("hw/libhalfwarp.so"), "\x7fELF halfwarp_stage_one\0").expect("a file");
        scene
    }

    pub(crate) fn path(&self, below: &str) -> PathBuf {
        self.root.path().join(below)
    }

    pub(crate) fn halfwarp(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.path("hw/halfwarp"));
        command.args(arguments).env("XDG_RUNTIME_DIR", self.path("user"));
        command.env_remove("SIMCUDA_MACHINE").env_remove("SIMCUDA_PROFILE");
        command
    }

    /// Runs `halfwarp ARGUMENTS`, the word `RUN` standing for the run directory.
    pub(crate) fn output(&self, arguments: &[&str]) -> Output {
        let run = self.path("run").to_string_lossy().into_owned();
        let arguments: Vec<&str> =
            arguments.iter().map(|word| if *word == "RUN" { run.as_str() } else { word }).collect();
        self.halfwarp(&arguments).output().expect("halfwarp runs")
    }

    /// An executable file in the place of the broker.
    pub(crate) fn install_broker(&self, script: &str) {
        let draft = self.path("draft");
        fs::write(&draft, script).expect("a file");
        fs::set_permissions(&draft, fs::Permissions::from_mode(0o755)).expect("executable");
        copy(&draft, &self.path("hw/halfwarpd"));
    }

    /// In the place of the broker, this very test program as a friendly one.
    pub(crate) fn install_friendly_broker(&self) {
        let own = std::env::current_exe().expect("our own file");
        self.install_broker(&format!(
            "#!/bin/sh\nexport {STAND_IN}=\"$3\"\nexec {} --exact fake::stands_in --nocapture\n",
            own.display()
        ));
    }
}

/// Copies a program by another process: a file that is open for writing here would be so in whatever
/// another test starts just then, and a file that somebody may write cannot be executed.
pub(crate) fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg(from).arg(to).status().expect("cp runs");
    assert!(copied.success(), "{} could not be copied to {}", from.display(), to.display());
}

/// Set to a run directory: the test below serves there.
const STAND_IN: &str = "HALFWARP_TEST_STAND_IN";

/// No test, but the broker that [`Scene::install_friendly_broker`] starts: it writes who it is to its
/// log and serves until its run directory is gone.
#[test]
fn stands_in() {
    let Some(run_dir) = std::env::var_os(STAND_IN).map(PathBuf::from) else { return };
    let stat = fs::read_to_string("/proc/self/stat").expect("a line");
    let session = stat.rsplit(')').next().and_then(|rest| rest.split(' ').nth(4));
    let open: Vec<_> = fs::read_dir("/proc/self/fd")
        .expect("a directory")
        .flatten()
        .filter_map(|entry| fs::read_link(entry.path()).ok())
        .filter(|target| target.to_string_lossy().contains("inherited"))
        .collect();
    let preload = std::env::var("LD_PRELOAD");
    println!("stand-in pid={} session={session:?} {preload:?} {open:?}", std::process::id());
    serve(&run_dir, friendly);
    while run_dir.exists() {
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// What a request asked for: `METHOD path`, and its body.
pub(crate) type Seen = Arc<Mutex<Vec<(String, String)>>>;

/// Serves `answer(method and path)` (a status line's end and a body) until the test ends.
pub(crate) fn serve(
    run_dir: &Path,
    answer: impl Fn(&str) -> (&'static str, String) + Send + 'static,
) -> Seen {
    let listener = UnixListener::bind(run_dir.join("api.sock")).expect("a socket");
    let seen = Seen::default();
    let kept = Arc::clone(&seen);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A client that has gone is its own affair.
            let _ = one(stream, &answer, &kept);
        }
    });
    seen
}

fn one(
    stream: UnixStream,
    answer: &impl Fn(&str) -> (&'static str, String),
    seen: &Seen,
) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut request = String::new();
    reader.read_line(&mut request)?;
    let what = request.rsplit_once(' ').map_or("", |(what, _)| what).to_owned();
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        if line.trim().is_empty() {
            break;
        }
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    seen.lock().expect("not poisoned").push((what.clone(), String::from_utf8_lossy(&body).into()));
    let (status, text) = answer(&what);
    write!(&stream, "HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{text}", text.len())
}

pub(crate) fn node(protocol: &str) -> String {
    format!(
        r#"{{"version":"9.9.9","protocol":"{protocol}","pid":77,"join_socket":"/j","driver":null,"kind":"node"}}"#
    )
}

pub(crate) fn admitted() -> String {
    format!(r#"{{"id":5,"token":"{TOKEN}","join_socket":"/run/x/join.sock","gpus":["GPU-a"]}}"#)
}

/// A broker that admits everybody.
pub(crate) fn friendly(what: &str) -> (&'static str, String) {
    match what {
        "GET /api/v1/node" => ("200 OK", node("1.0")),
        "POST /api/v1/tenants" => ("201 Created", admitted()),
        "DELETE /api/v1/tenants/5" => ("204 No Content", String::new()),
        "GET /api/v1/tenants/5" => (
            "404 Not Found",
            r#"{"reason":"no-such-tenant","message":"no tenant 5","help":""}"#.to_owned(),
        ),
        _ => ("200 OK", "[]".to_owned()),
    }
}
