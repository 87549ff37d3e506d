//! The recipe: settings, the run directory, NVML, the cards' locks, the state of an earlier broker,
//! the sockets, the ready line; then serve until told to stop.

use std::{
    fs::File,
    io::{self, Read, Write},
    os::fd::OwnedFd,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use halfwarp_api::version::CURRENT;
use halfwarp_broker_core::{Config, Event, Kind, Runner, Sample, State, SwapConfig};
use halfwarp_rest::Node;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::{
    signal::unix::{SignalKind, signal},
    time::{MissedTickBehavior, interval, sleep},
};

use crate::{
    api::{self, About},
    args::{Args, Settings},
    chunks, clock,
    desk::Desk,
    door,
    failure::Failure,
    host_memory, join, locks,
    nvml::{Source, parent::NvmlChild},
    peer,
    run_dir::RunDir,
    shm,
    store::Store,
};

/// Ends within this are saved together.
const SAVE_PAUSE: Duration = Duration::from_millis(20);

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let settings = Settings::read(args.config.as_deref())?;
    raise_descriptor_limit();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Failure::new("starting", e, "see the limits of this user"))?;
    let ended = runtime.block_on(serve(args, &settings));
    // A question to NVML may hang for ever.
    runtime.shutdown_background();
    ended
}

async fn serve(args: &Args, settings: &Settings) -> Result<(), Failure> {
    let mut dir = RunDir::take(&args.run_dir, args.private)?;
    let deadline = Duration::from_millis(settings.nvml_timeout_ms);
    let (source, machine) = NvmlChild::start(&settings.nvml_library, deadline).await?;
    let _locks = locks::take(args.lock_dir.as_deref(), dir.path(), &machine.cards)?;

    let store = Store::at(dir.path());
    let saved = store.load()?;
    let config = config(args, settings);
    let now = clock::now();
    let mut state = State::new(now, config, machine.cards);
    for name in state.restore(now, saved) {
        tracing::warn!("tenant {name} of an earlier broker does not fit the cards any more");
    }
    store.write(&state.saved()).map_err(|e| {
        let tried = format!("writing the state in {}", dir.path().display());
        Failure::new(tried, e, "make room, or name another directory with --run-dir")
    })?;
    let runners: Vec<_> = state.saved().tenants.iter().map(|t| (t.id, t.runner)).collect();

    let failed = |e: io::Error| Failure::new("starting", e, "see the limits of this user");
    let generation = random().map_err(failed)?;
    let generation = u64::from_le_bytes(generation[..8].try_into().unwrap_or_default());
    let desk = Desk::new(state, store, generation);
    for (tenant, runner) in runners {
        if let Some(runner) = runner {
            watch_runner(&desk, tenant, runner);
        }
    }
    let join_listener = dir.listen_join()?;
    let api_listener = dir.listen_api()?;
    let about = Arc::new(About {
        desk: Arc::clone(&desk),
        node: node(&dir, args.private, machine.driver),
        data_at: now.into(),
    });
    let limits = join::Limits {
        silent_max: settings.silent_connections_max,
        hello_timeout: Duration::from_millis(settings.hello_timeout_ms),
    };
    desk.tell(Kind::BrokerStarted, format!("serving in {}", dir.path().display()));
    let keeping_time = tokio::spawn(keep_time(Arc::clone(&desk)));
    tokio::spawn(say_alive(Arc::clone(&desk)));
    tokio::spawn(keep_saving(Arc::clone(&desk)));
    tokio::spawn(chunks::serve(Arc::clone(&desk)));
    tokio::spawn(look_at_cards(Arc::clone(&about), source));
    let serving_joins = tokio::spawn(join::serve(Arc::clone(&desk), join_listener, limits));
    let serving_api = tokio::spawn(api::serve(about, api_listener, door::Limits::default()));
    ready(&dir).map_err(failed)?;

    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    tokio::select! {
        _ = terminate.recv() => tracing::info!("told to stop"),
        _ = interrupt.recv() => tracing::info!("interrupted"),
        () = desk.stop.notified() => tracing::info!("nobody left"),
        ended = keeping_time => tracing::error!(?ended, "the alarm failed"),
        ended = serving_joins => tracing::error!(?ended, "join.sock failed"),
        ended = serving_api => tracing::error!(?ended, "api.sock failed"),
    }
    desk.save_now();
    Ok(())
}

fn config(args: &Args, settings: &Settings) -> Config {
    let processes_max = settings.processes_max;
    let on_reclaim = settings.on_reclaim;
    let swap = swap_config(args.private, settings);
    Config { private: args.private, processes_max, on_reclaim, swap, ..Config::default() }
}

fn swap_config(private: bool, settings: &Settings) -> SwapConfig {
    let half = || host_memory::available().unwrap_or(0) / 2;
    let unset = if private { half() } else { 0 };
    let ns = |ms: u64| ms.saturating_mul(1_000_000);
    SwapConfig {
        pool_bytes: settings.host_pool.map_or(unset, |pool| pool.0.0),
        idle_after_ns: ns(settings.idle_after_ms),
        drain_ns: ns(settings.drain_timeout_ms),
        max_turn_ns: ns(settings.max_turn_ms),
        thrash_period_ns: ns(settings.thrash_period_ms),
    }
}

fn node(dir: &RunDir, private: bool, driver: Option<String>) -> Node {
    Node {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        protocol: CURRENT.to_string(),
        pid: std::process::id(),
        join_socket: dir.join_socket().display().to_string(),
        driver,
        kind: if private { "private" } else { "node" }.to_owned(),
    }
}

/// The one line on stdout: whoever started the broker can go on.
fn ready(dir: &RunDir) -> io::Result<()> {
    let (api, join) = (dir.api_socket(), dir.join_socket());
    let mut out = io::stdout().lock();
    // Nobody may be listening; that is no reason not to serve.
    let _ = writeln!(out, "ready api={} join={}", api.display(), join.display());
    let _ = out.flush();
    Ok(())
}

/// Steps when something is due. Ends only if the alarm fails, which ends the broker.
pub(crate) async fn keep_time(desk: Arc<Desk>) -> io::Error {
    let alarm = match clock::Alarm::new() {
        Ok(alarm) => alarm,
        Err(error) => return error,
    };
    loop {
        let due = desk.next_deadline();
        if due <= clock::now() {
            desk.step(Event::Tick);
            tokio::task::yield_now().await;
            continue;
        }
        tokio::select! {
            rung = alarm.at(due) => if let Err(error) = rung { return error },
            () = desk.deadline.notified() => {}
        }
    }
}

async fn say_alive(desk: Arc<Desk>) {
    let mut every = interval(Duration::from_millis(shm::ALIVE_EVERY_MS));
    every.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        every.tick().await;
        desk.say_alive();
    }
}

pub(crate) async fn keep_saving(desk: Arc<Desk>) {
    loop {
        desk.save.notified().await;
        sleep(SAVE_PAUSE).await;
        desk.save_now();
    }
}

pub(crate) async fn look_at_cards(about: Arc<About>, mut source: impl Source) {
    let desk = &about.desk;
    loop {
        desk.sample.notified().await;
        let asked_at = clock::now();
        if let Some(cards) = source.sample().await {
            about.data_at.store(clock::now(), Ordering::Relaxed);
            desk.step(Event::Sample(Sample { asked_at, cards }));
        } else {
            // Whoever waits for this look asks again; not in a tight loop.
            sleep(Duration::from_millis(100)).await;
        }
    }
}

/// Waits for the end of the process that a tenant lives for.
pub(crate) fn watch_runner(desk: &Arc<Desk>, tenant: u64, runner: Runner) {
    let desk = Arc::clone(desk);
    tokio::spawn(async move {
        let ended = async |pidfd: OwnedFd| -> io::Result<()> {
            let pidfd = peer::watched(Arc::new(pidfd))?;
            let _ = pidfd.readable().await?;
            Ok(())
        };
        match peer::watch(runner) {
            Ok(pidfd) => {
                if let Err(error) = ended(pidfd).await {
                    tracing::error!(tenant, %error, "the end of a runner can't be watched");
                    return;
                }
            }
            Err(error) => tracing::debug!(tenant, %error, "the runner has ended"),
        }
        desk.step(Event::RunnerGone { tenant });
    });
}

/// Sixteen bytes that nobody guesses.
pub(crate) fn random() -> io::Result<[u8; 16]> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Each process takes two descriptors.
fn raise_descriptor_limit() {
    let now = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: now.maximum, ..now });
}
