//! The server's life: one of it per machine, a thread per connection, and an end when nobody has
//! been there for a while.

use crate::life::Life;
use crate::machine::Machine;
use crate::profile::Profile;
use crate::{Options, descriptors, session};
use anyhow::{Context, Result, anyhow, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use simcuda_protocol::fault_text::parse_all;
use simcuda_protocol::place::Place;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How often the server looks whether shared memory came free, whether somebody was stopped with a
/// turn, and whether it is time to end.
const TICK: Duration = Duration::from_millis(20);
const BACKLOG: i32 = 256;

/// Serves until the last client has been gone for as long as the options say.
pub(crate) fn serve(options: &Options) -> Result<()> {
    if options.detached {
        rustix::process::setsid().context("leaving the caller's session")?;
    }
    let place = Place::new(options.folder.clone(), options.machine.clone())?;
    let profile = Profile::load(&options.profile)?;
    place.make_folder()?;
    let _held = lock(&place)?;
    let listener = listen(&place)?;
    // A machine is its folder and its name: cards of two folders must never be taken for one.
    let folder = options.folder.canonicalize().unwrap_or_else(|_| options.folder.clone());
    let whole_name = folder.join(&place.machine);
    // Of a server that was killed: this machine has no faults yet.
    let _ = std::fs::remove_file(place.early_faults());
    let life = Life::new(options.profile.clone(), options.stay);
    let early = Some(place.early_faults());
    let machine =
        Machine::new(&place.machine, &whole_name.to_string_lossy(), &profile, life, early);
    let machine = Arc::new(machine);
    for fault in parse_all(&options.faults)? {
        machine.board.set(&fault).map_err(|why| anyhow!("setting {fault}: {why}"))?;
    }
    if options.detached {
        descriptors::say_ready()?;
    }
    let ended = accept_until_idle(&machine, &listener, Duration::from_millis(options.linger_ms));
    machine.board.end();
    ended?;
    std::fs::remove_file(place.socket()).context("removing the socket")
}

/// Held for life: whoever has it is the machine's only server. A predecessor may be on its way out.
fn lock(place: &Place) -> Result<OwnedFd> {
    let path = place.server_lock();
    let flags = OFlags::CREATE | OFlags::RDWR | OFlags::CLOEXEC;
    let file = rustix::fs::open(&path, flags, Mode::RUSR | Mode::WUSR)
        .with_context(|| format!("opening {}", path.display()))?;
    let patience = Instant::now() + Duration::from_secs(2);
    while rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        if Instant::now() > patience {
            bail!("machine {} already has a server: it holds {}", place.machine, path.display());
        }
        thread::sleep(Duration::from_millis(5));
    }
    Ok(file)
}

fn listen(place: &Place) -> Result<OwnedFd> {
    let path = place.socket();
    // Left by a server that was killed; ours is the lock, so nobody listens there.
    match std::fs::remove_file(&path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            return Err(e).with_context(|| format!("removing the old socket {}", path.display()));
        }
        _ => {}
    }
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    let address = SocketAddrUnix::new(&path)?;
    rustix::net::bind(&socket, &address).with_context(|| format!("binding {}", path.display()))?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket)
}

fn accept_until_idle(machine: &Arc<Machine>, listener: &OwnedFd, linger: Duration) -> Result<()> {
    let clients = Arc::new(AtomicUsize::new(0));
    let mut last_seen = Instant::now();
    let tick = Timespec { tv_sec: 0, tv_nsec: TICK.subsec_nanos().into() };
    loop {
        let mut watched = [PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN)];
        rustix::io::retry_on_intr(|| poll(&mut watched, Some(&tick)))?;
        if let Ok(socket) = rustix::net::accept_with(listener, SocketFlags::CLOEXEC) {
            clients.fetch_add(1, Ordering::Relaxed);
            attend(machine, socket, &clients)?;
        }
        machine.sweep();
        if machine.life.is_ending() {
            return Ok(());
        }
        if machine.life.stays || clients.load(Ordering::Relaxed) > 0 {
            last_seen = Instant::now();
        } else if last_seen.elapsed() > linger {
            return Ok(());
        }
    }
}

fn attend(machine: &Arc<Machine>, socket: OwnedFd, clients: &Arc<AtomicUsize>) -> Result<()> {
    let (machine, clients) = (Arc::clone(machine), Arc::clone(clients));
    let client = thread::Builder::new().name("client".to_owned()).stack_size(256 << 10);
    client
        .spawn(move || {
            // A client that breaks off, or never was a client, is no reason to end.
            let _ = session::serve(&machine, &socket);
            clients.fetch_sub(1, Ordering::Relaxed);
        })
        .context("starting a thread for a client")?;
    Ok(())
}
