//! The machine as its clients see it: real processes, real sockets, real deaths.

use simcuda_protocol::place::Place;
use simcuda_protocol::{Charge, Client, PATTERN, Refusal, Reply, Request, Start};
use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;

/// A machine of its own for one test, with one card of 1 GiB.
struct Machine {
    folder: tempfile::TempDir,
}

impl Machine {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a folder") }
    }

    fn place(&self) -> Place {
        Place::new(self.folder.path().to_owned(), "m".to_owned()).expect("a plain name")
    }

    fn client(&self) -> Client {
        Client::connect(&self.place(), &start()).expect("a machine")
    }

    /// Another process that holds `bytes` until it is killed.
    fn holder(&self, bytes: u64) -> Child {
        let mut child = Command::new(std::env::current_exe().expect("this test's file"))
            .args(["holder_process", "--exact", "--ignored", "--nocapture"])
            .env("HOLD_FOLDER", self.folder.path())
            .env("HOLD_BYTES", bytes.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        assert!(
            lines.map_while(Result::ok).any(|line| line.contains("holding")),
            "it did not hold"
        );
        child
    }
}

fn start() -> Start {
    let program = Some(env!("CARGO_BIN_EXE_simcudad").into());
    Start { program, profile: Some("toy".to_owned()), faults: None }
}

/// Not a test of its own: the process that `Machine::holder` starts.
#[test]
#[ignore = "started by other tests as their second process"]
fn holder_process() {
    let folder = std::env::var_os("HOLD_FOLDER").expect("set by the test");
    let bytes = std::env::var("HOLD_BYTES").expect("set").parse().expect("a number");
    let place = Place::new(Path::new(&folder).to_owned(), "m".to_owned()).expect("a plain name");
    let client = Client::connect_running(&place).expect("a machine");
    charge(&client, bytes).expect("room");
    println!("holding");
    std::io::stdout().flush().expect("a pipe");
    loop {
        std::thread::park();
    }
}

fn ask(client: &Client, request: &Request) -> (Reply, Option<OwnedFd>) {
    client.ask(request).expect("an answer")
}

fn charge(client: &Client, bytes: u64) -> Result<(), Refusal> {
    match ask(client, &Request::Charge { device: 0, bytes, charge: Charge::Memory }).0 {
        Reply::Done => Ok(()),
        Reply::Refused(why) => Err(why),
        other => panic!("a charge was answered by {other:?}"),
    }
}

fn free_bytes(client: &Client) -> u64 {
    match ask(client, &Request::Room { device: 0 }).0 {
        Reply::Room { free_bytes, .. } => free_bytes,
        other => panic!("answered by {other:?}"),
    }
}

fn make_chunk(client: &Client, bytes: u64) -> (u64, std::fs::File) {
    match ask(client, &Request::MakeChunk { device: 0, bytes }) {
        (Reply::Chunk { chunk, .. }, Some(file)) => (chunk, file.into()),
        other => panic!("answered by {other:?}"),
    }
}

fn wait_until(what: &str, patience: Duration, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < patience, "not within {patience:?}: {what}");
        std::thread::yield_now();
    }
}

#[test]
fn two_clients_compete_for_one_card() {
    let machine = Machine::new();
    let (a, b) = (machine.client(), machine.client());
    assert_eq!(charge(&a, 700 * MIB), Ok(()));
    assert_eq!(charge(&b, 400 * MIB), Err(Refusal::OutOfMemory));
    assert_eq!(charge(&b, 300 * MIB), Ok(()));
    assert_eq!(free_bytes(&a), 24 * MIB);
    assert_eq!(free_bytes(&b), 24 * MIB);
}

#[test]
fn a_closed_connection_gives_its_memory_back() {
    let machine = Machine::new();
    let (a, b) = (machine.client(), machine.client());
    charge(&a, 700 * MIB).expect("room");
    drop(a);
    wait_until("all is free", Duration::from_secs(1), || free_bytes(&b) == 1024 * MIB);
}

#[test]
fn a_killed_process_frees_all_within_a_tenth_of_a_second() {
    let machine = Machine::new();
    let client = machine.client();
    let mut holder = machine.holder(700 * MIB);
    assert_eq!(free_bytes(&client), 324 * MIB);
    let Reply::Usage(usage) = ask(&client, &Request::Usage { device: 0 }).0 else {
        panic!("no usage")
    };
    assert_eq!(usage.processes.len(), 1);
    assert_eq!(usage.processes[0].pid, holder.id());
    holder.kill().expect("it lives");
    wait_until("all is free", Duration::from_millis(100), || free_bytes(&client) == 1024 * MIB);
    holder.wait().expect("it ended");
}

#[test]
fn a_recycled_chunk_shows_the_pattern_and_not_what_was_in_it() {
    let machine = Machine::new();
    let (a, b) = (machine.client(), machine.client());
    let (chunk, file) = make_chunk(&a, 4 * MIB);
    file.write_all_at(b"a tenant's secret", MIB).expect("memory");
    ask(&a, &Request::DropChunk { chunk });
    let (_, again) = make_chunk(&b, 4 * MIB);
    let mut seen = vec![0; 4 << 20];
    again.read_exact_at(&mut seen, 0).expect("memory");
    assert!(seen.chunks(4).all(|word| word == PATTERN), "something else than the pattern");
}

#[test]
fn a_shared_chunk_counts_once_and_lives_as_long_as_anybody_has_it() {
    let machine = Machine::new();
    let (a, b) = (machine.client(), machine.client());
    let (chunk, file) = make_chunk(&a, 4 * MIB);
    file.write_all_at(b"hello", 0).expect("memory");
    let (_, exported) = ask(&a, &Request::ExportChunk { chunk });
    let exported = exported.expect("a descriptor");
    drop(a);
    let (reply, memory) = b.ask_with(&Request::ImportChunk, exported.as_fd()).expect("an answer");
    let Reply::Chunk { chunk, bytes, .. } = reply else { panic!("answered by {reply:?}") };
    assert_eq!(bytes, 4 * MIB);
    let mut seen = [0; 5];
    std::fs::File::from(memory.expect("a descriptor")).read_exact_at(&mut seen, 0).expect("memory");
    assert_eq!(&seen, b"hello");
    assert_eq!(free_bytes(&b), 1020 * MIB);
    ask(&b, &Request::DropChunk { chunk });
    assert_eq!(free_bytes(&b), 1020 * MIB, "the exported descriptor keeps it alive");
    drop(exported);
    wait_until("all is free", Duration::from_secs(1), || free_bytes(&b) == 1024 * MIB);
}

#[test]
fn a_descriptor_that_was_not_exported_stands_for_nothing() {
    let machine = Machine::new();
    let client = machine.client();
    let (_, file) = make_chunk(&client, 2 * MIB);
    let (reply, _) = client.ask_with(&Request::ImportChunk, file.as_fd()).expect("an answer");
    assert_eq!(reply, Reply::Refused(Refusal::NoSuchChunk));
}

#[test]
fn sixteen_clients_that_come_together_find_one_machine() {
    let machine = Machine::new();
    let clients: Vec<Client> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..16).map(|_| scope.spawn(|| machine.client())).collect();
        all.into_iter().map(|thread| thread.join().expect("a client")).collect()
    });
    for client in &clients {
        charge(client, 64 * MIB).expect("a sixteenth");
    }
    assert_eq!(charge(&clients[0], 1), Err(Refusal::OutOfMemory));
}

#[test]
fn a_server_without_clients_ends_and_the_next_one_is_empty() {
    let machine = Machine::new();
    let place = machine.place();
    let mut server = Command::new(env!("CARGO_BIN_EXE_simcudad"))
        .arg("serve")
        .arg("--folder")
        .arg(&place.folder)
        .args(["--machine", "m", "--profile", "toy", "--linger-ms", "100"])
        .spawn()
        .expect("a server");
    wait_until("it listens", Duration::from_secs(5), || Client::connect_running(&place).is_ok());
    let client = Client::connect_running(&place).expect("it listens");
    charge(&client, 100 * MIB).expect("room");
    drop(client);
    assert!(server.wait().expect("it ends").success());
    assert!(!place.socket().exists(), "its socket is still there");
    assert_eq!(free_bytes(&machine.client()), 1024 * MIB);
}

#[test]
fn a_profile_that_does_not_exist_is_named_in_the_error() {
    let machine = Machine::new();
    let start = Start { profile: Some("t5".to_owned()), ..start() };
    let error = Client::connect(&machine.place(), &start).expect_err("no such profile").to_string();
    assert!(error.contains("t5") && error.contains("h200"), "{error}");
}
