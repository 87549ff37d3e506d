//! One connection: answers its requests in turn, and notices the end of its process.
//!
//! A process can be gone without its connection being closed (a forked child keeps a copy of the
//! descriptor), so the process itself is watched too.

use crate::accounts::Session;
use crate::control;
use crate::machine::{Answer, Machine};
use crate::share;
use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{PidfdFlags, pidfd_open};
use simcuda_protocol::{Refusal, Reply, Request, VERSION, wire};
use std::os::fd::{AsFd, OwnedFd};

/// Serves the connection until its process or itself is gone; then everything held comes back.
pub(crate) fn serve(machine: &Machine, socket: &OwnedFd) -> Result<()> {
    let peer = rustix::net::sockopt::socket_peercred(socket).context("asking who is there")?;
    let process = pidfd_open(peer.pid, PidfdFlags::empty()).context("watching the process")?;
    let pid = peer.pid.as_raw_nonzero().get().unsigned_abs();
    let session = machine.open(pid);
    let result = converse(machine, (session, pid), socket, &process);
    machine.close(session);
    result
}

fn converse(
    machine: &Machine,
    client: (Session, u32),
    socket: &OwnedFd,
    process: &OwnedFd,
) -> Result<()> {
    let mut greeted = false;
    loop {
        let mut watched = [
            PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(process.as_fd(), PollFlags::IN),
        ];
        rustix::io::retry_on_intr(|| poll(&mut watched, None))?;
        if !watched[1].revents().is_empty() {
            return Ok(());
        }
        let (answer, hello) = match wire::receive::<Request>(socket.as_fd()) {
            Ok(None) => return Ok(()),
            Ok(Some((Request::Engines(ask), _))) if greeted => {
                match machine.engines.hear(client, ask, socket.as_fd()) {
                    Some(answer) => (answer.map(|reply| (reply, None)), false),
                    None => continue,
                }
            }
            Ok(Some((request, descriptor))) => {
                let hello = matches!(request, Request::Hello { version: VERSION });
                let answer = match (&request, greeted) {
                    (Request::Hello { .. }, _) | (_, true) => {
                        reply(machine, client, request, descriptor)
                    }
                    (_, false) => Err(Refusal::Malformed),
                };
                (answer, hello)
            }
            Err(e) if e.kind() == std::io::ErrorKind::InvalidData => {
                (Err(Refusal::Malformed), false)
            }
            Err(e) => return Err(e).context("reading from a client"),
        };
        greeted |= hello;
        let (message, beside) = answer.unwrap_or_else(|why| (Reply::Refused(why), None));
        wire::send(socket.as_fd(), &message, beside.as_ref().map(AsFd::as_fd))?;
    }
}

fn reply(
    machine: &Machine,
    (session, pid): (Session, u32),
    request: Request,
    descriptor: Option<OwnedFd>,
) -> Answer {
    match request {
        Request::Hello { version: VERSION } => Ok((
            Reply::Welcome {
                machine: machine.name.clone(),
                driver: machine.driver.clone(),
                devices: machine.devices.clone(),
            },
            None,
        )),
        Request::Hello { .. } => Err(Refusal::OtherVersion { server: VERSION }),
        Request::Pattern => machine.pattern(),
        Request::Charge { device, bytes, charge } => machine.charge(session, device, charge, bytes),
        Request::Release { device, bytes, charge } => {
            machine.release(session, device, charge, bytes)
        }
        Request::Room { device } => machine.room(device),
        Request::MakeChunk { device, bytes } => machine.make_chunk(session, device, bytes),
        Request::DropChunk { chunk } => machine.drop_chunk(session, chunk),
        Request::ExportChunk { chunk } => machine.export_chunk(session, chunk),
        Request::ImportChunk => match descriptor {
            Some(descriptor) => machine.import_chunk(session, descriptor.as_fd()),
            None => Err(Refusal::Malformed),
        },
        Request::Share(share) => share::answer(machine, session, share, descriptor),
        Request::Usage { device } => machine.usage(device),
        Request::Engines(_) => Err(Refusal::Malformed),
        Request::Control(control) => control::answer(machine, pid, control),
    }
}
