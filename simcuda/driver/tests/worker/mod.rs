//! A second process of a test: it has the driver, and does what it is told, line by line.
#![allow(dead_code, reason = "each test file uses a part of it")]

use super::api::{self, MIB, Turn, turn};
use simcuda_protocol::place::Place;
use simcuda_protocol::{Client, Start};
use std::io::{BufRead, BufReader, Lines, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

pub(crate) const KERNELS: &str = r"
.version 7.5
.target sm_75
.address_size 64

.visible .entry spin(.param .u64 ns)
{
    .reg .u64 %rd<5>;
    .reg .pred %p;
    ld.param.u64 %rd1, [ns];
    mov.u64 %rd2, %globaltimer;
AGAIN:
    mov.u64 %rd3, %globaltimer;
    sub.u64 %rd4, %rd3, %rd2;
    setp.lt.u64 %p, %rd4, %rd1;
    @%p bra AGAIN;
    ret;
}

// Counts `rounds` times up from the other's number: [at] is mine, [at + 64] the other's.
.visible .entry alternate(.param .u64 mine, .param .u64 theirs, .param .u64 rounds, .param .u64 first)
{
    .reg .u64 %rd<4>;
    .reg .u32 %r<5>;
    .reg .pred %p;
    ld.param.u64 %rd1, [mine];
    ld.param.u64 %rd2, [theirs];
    ld.param.u32 %r1, [rounds];
    ld.param.u32 %r2, [first];
    mov.u32 %r3, 0;
ROUND:
    add.u32 %r3, %r3, 1;
    setp.eq.u32 %p, %r2, 1;
    @%p st.volatile.global.u32 [%rd1], %r3;
WAIT:
    ld.volatile.global.u32 %r4, [%rd2];
    setp.lt.u32 %p, %r4, %r3;
    @%p bra WAIT;
    st.volatile.global.u32 [%rd1], %r3;
    setp.lt.u32 %p, %r3, %r1;
    @%p bra ROUND;
    ret;
}
";

/// The process as its test sees it.
pub(crate) struct Worker {
    child: Child,
    orders: ChildStdin,
    says: Lines<BufReader<ChildStdout>>,
}

impl Worker {
    pub(crate) fn start() -> Self {
        Self::start_with(None)
    }

    /// With one more variable in its environment.
    pub(crate) fn start_as(name: &str, value: &str) -> Self {
        Self::begin(Self::command(None).env(name, value))
    }

    /// With a descriptor of memory that both can use.
    pub(crate) fn start_with(shared: Option<&OwnedFd>) -> Self {
        let inherited = shared.map(|fd| rustix::io::dup(fd).expect("without close-on-exec"));
        Self::begin(&mut Self::command(inherited.as_ref()))
    }

    fn command(inherited: Option<&OwnedFd>) -> Command {
        let number = inherited.map_or(-1, AsRawFd::as_raw_fd);
        let mut command = Command::new(std::env::current_exe().expect("this test's file"));
        command
            .args(["worker_process", "--exact", "--ignored", "--nocapture"])
            .env("SHARED_FD", number.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        command
    }

    fn begin(command: &mut Command) -> Self {
        let mut child = command.spawn().expect("a process");
        let orders = child.stdin.take().expect("piped");
        let says = BufReader::new(child.stdout.take().expect("piped")).lines();
        let mut worker = Self { child, orders, says };
        worker.hears("READY");
        worker
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn order(&mut self, words: &str) {
        writeln!(self.orders, "{words}").expect("the worker lives");
    }

    /// The rest of the next line that has this in it.
    pub(crate) fn hears(&mut self, beginning: &str) -> String {
        let mut lines = self.says.by_ref().map_while(Result::ok);
        let found = lines.find_map(|line| {
            let at = line.find(beginning)?;
            Some(line[at + beginning.len()..].trim().to_owned())
        });
        found.unwrap_or_else(|| panic!("the worker ended without saying {beginning}"))
    }

    pub(crate) fn hears_number(&mut self, beginning: &str) -> u64 {
        self.hears(beginning).parse().expect("a number")
    }

    pub(crate) fn signal(&self, number: i32) {
        // SAFETY: the process is a child of ours that nobody has waited for.
        unsafe { libc::kill(self.child.id().cast_signed(), number) };
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Memory that a worker can be given, and where it is here.
pub(crate) fn shared(turn: &Turn) -> (OwnedFd, u64) {
    let handle = turn.create(2 * MIB, &api::SHAREABLE);
    let range = turn.reserve(2 * MIB);
    turn.map(range, 2 * MIB, handle);
    assert_eq!(turn.driver.cuMemsetD8_v2(range, 0, 4096), 0);
    let mut number = -1;
    assert_eq!(turn.driver.cuMemExportToShareableHandle(&mut number, handle, 1, 0), 0);
    // SAFETY: the driver just made it for us.
    (unsafe { OwnedFd::from_raw_fd(number) }, range)
}

/// The machine of this test, besides the driver.
pub(crate) fn machine() -> Client {
    let place = Place::from_environment().expect("the test's machine");
    Client::connect(&place, &Start::from_environment()).expect("it runs")
}

/// What a worker is.
pub(crate) fn work() {
    let turn = turn();
    let module = turn.module(KERNELS);
    let (spin, alternate) = (turn.function(module, "spin"), turn.function(module, "alternate"));
    let stream = turn.stream();
    let memory = imported(&turn);
    println!("READY");
    for line in std::io::stdin().lines().map_while(Result::ok) {
        let words: Vec<u64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
        match (line.split(' ').next(), &words[..]) {
            // Kernels of so many nanoseconds, always a tenth of a second of them queued, for so many
            // milliseconds.
            (Some("busy"), &[ns, ms]) => busy(&turn, (spin, stream), ns, Duration::from_millis(ms)),
            // One kernel; says how long it was there, from before its launch to its end.
            (Some("one"), &[ns]) => {
                let begun = Instant::now();
                assert_eq!(turn.launch(spin, 32, stream, &[ns]), 0);
                println!("LAUNCHED");
                assert_eq!(turn.driver.cuStreamSynchronize(stream), 0);
                println!("TOOK {}", begun.elapsed().as_nanos());
            }
            // Copies so many bytes to the card, from pages that were touched before.
            (Some("copy"), &[bytes]) => {
                let (host, device) = (vec![1_u8; bytes as usize], turn.allocate(bytes));
                turn.write(device, &host);
                let begun = Instant::now();
                turn.write(device, &host);
                println!("TOOK {}", begun.elapsed().as_nanos());
            }
            // One half of a pair of kernels that wait for each other so many times.
            (Some("second"), &[rounds]) => {
                let params = [memory + 64, memory, rounds, 0];
                assert_eq!(turn.launch(alternate, 1, stream, &params), 0);
                assert_eq!(turn.driver.cuStreamSynchronize(stream), 0);
                println!("DONE");
            }
            _ => panic!("an order that nobody knows: {line}"),
        }
    }
}

fn busy(turn: &Turn, (spin, stream): (usize, usize), ns: u64, time: Duration) {
    let queued = (100_000_000 / ns).clamp(8, 500);
    let events: Vec<_> = (0..queued).map(|_| turn.event()).collect();
    let until = Instant::now() + time;
    let mut kernels: usize = 0;
    while Instant::now() < until {
        let event = events[kernels % events.len()];
        assert_eq!(turn.driver.cuEventSynchronize(event), 0);
        assert_eq!(turn.launch(spin, 32, stream, &[ns]), 0);
        assert_eq!(turn.driver.cuEventRecord(event, stream), 0);
        kernels += 1;
    }
    assert_eq!(turn.driver.cuStreamSynchronize(stream), 0);
    println!("KERNELS {kernels}");
}

fn imported(turn: &Turn) -> u64 {
    let number: i64 = std::env::var("SHARED_FD").map_or(-1, |text| text.parse().expect("a number"));
    let Ok(number) = usize::try_from(number) else { return 0 };
    let mut handle = 0;
    assert_eq!(turn.driver.cuMemImportFromShareableHandle(&mut handle, number, 1), 0);
    let range = turn.reserve(2 * MIB);
    turn.map(range, 2 * MIB, handle);
    range
}
