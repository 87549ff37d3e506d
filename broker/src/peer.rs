//! Who is at the other end of a socket, as the kernel says. One of the two files with unsafe code:
//! `SO_PEERPIDFD` has no safe wrapper, and waiting for a descriptor asks for a promise.

use std::{
    fs, io,
    os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd},
    sync::Arc,
};

use halfwarp_broker_core::{Peer, Runner};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    net::sockopt::socket_peercred,
    process::{Pid, PidfdFlags, pidfd_open},
};
use tokio::io::{Interest, unix::AsyncFd};

/// Since Linux 6.5.
const SO_PEERPIDFD: libc::c_int = 77;

/// A peer and a descriptor that becomes readable when it ends.
#[derive(Debug)]
pub(crate) struct Identified {
    pub(crate) peer: Peer,
    pub(crate) pidfd: OwnedFd,
}

/// Identifies the process that connected. It need not live any more by the time it is known.
pub(crate) fn identify(socket: &OwnedFd) -> io::Result<Identified> {
    let before = socket_peercred(socket)?;
    let pidfd = match peer_pidfd(socket) {
        Ok(pidfd) => pidfd,
        Err(error) if error.raw_os_error() == Some(libc::ENOPROTOOPT) => {
            // An older kernel: the pid may only have been given to another process if the one that
            // connected has ended, and then the socket has hung up.
            let pidfd = pidfd_open(before.pid, PidfdFlags::empty())?;
            if hung_up(socket) {
                return Err(io::Error::from_raw_os_error(libc::ESRCH));
            }
            pidfd
        }
        Err(error) => return Err(error),
    };
    let pid = u32::try_from(before.pid.as_raw_nonzero().get()).unwrap_or(0);
    let command = command_of(pid);
    let peer = Peer { pid, uid: before.uid.as_raw(), command };
    Ok(Identified { peer, pidfd })
}

fn peer_pidfd(socket: &OwnedFd) -> io::Result<OwnedFd> {
    let mut pidfd: RawFd = -1;
    let mut length = size_of::<RawFd>() as libc::socklen_t;
    // SAFETY: the pointers are to two locals that live through the call, and `length` is the size of
    // the first, so the kernel writes no further.
    let done = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_PEERPIDFD,
            (&raw mut pidfd).cast(),
            &raw mut length,
        )
    };
    if done != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call succeeded, so this is a descriptor that was made for us and that nobody else
    // owns.
    Ok(unsafe { OwnedFd::from_raw_fd(pidfd) })
}

fn ready(fd: &impl AsFd, flags: PollFlags) -> bool {
    let mut fds = [PollFd::new(fd, flags)];
    let none = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut fds, Some(&none)).is_ok_and(|n| n > 0) && fds[0].revents().intersects(flags)
}

fn hung_up(socket: &OwnedFd) -> bool {
    ready(socket, PollFlags::HUP)
}

/// A descriptor that can be waited for.
pub(crate) fn watched(fd: Arc<OwnedFd>) -> io::Result<AsyncFd<Arc<OwnedFd>>> {
    // SAFETY: the descriptor has to stay open and the same while the `AsyncFd` lives. An `OwnedFd`
    // behind an `Arc` is closed with the last `Arc`, of which the `AsyncFd` holds one, and can't be
    // exchanged: nobody has it mutably.
    let watched = unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) };
    watched.map_err(Into::into)
}

/// Whether a pidfd's process has ended.
pub(crate) fn has_ended(pidfd: &OwnedFd) -> bool {
    ready(pidfd, PollFlags::IN)
}

/// A process's name, for people: what it says of itself, made harmless.
pub(crate) fn command_of(pid: u32) -> String {
    let comm = fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
    let text = String::from_utf8_lossy(&comm);
    let harmless = text.trim_end_matches('\n').chars();
    let harmless: String =
        harmless.map(|c| if c.is_control() || c == '\u{fffd}' { '?' } else { c }).collect();
    if harmless.is_empty() { "?".to_owned() } else { harmless }
}

/// The number by which one process knows another: its own pid namespace's.
pub(crate) fn pid_as_seen_by(viewer: u32, pid: u32) -> Option<u32> {
    let numbers = |pid: u32| -> Option<Vec<u32>> {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
        line.split_ascii_whitespace().map(|number| number.parse().ok()).collect()
    };
    let (viewers, others) = (numbers(viewer)?, numbers(pid)?);
    let depth = viewers.len().checked_sub(1)?;
    let seen = *others.get(depth)?;
    if depth == 0 || viewer == pid || others.len() > viewers.len() {
        return Some(seen);
    }
    let namespace = |pid: u32| fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
    (namespace(viewer)? == namespace(pid)?).then_some(seen)
}

/// The process of this pid and when it started, if there is one.
pub(crate) fn runner(pid: u32) -> Option<Runner> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the command in parentheses and may contain anything.
    let after = stat.rsplit_once(')')?.1;
    let mut fields = after.split_ascii_whitespace();
    let state = fields.next()?;
    let started_ticks = fields.nth(18)?.parse().ok()?;
    (state != "Z" && state != "X").then_some(Runner { pid, started_ticks })
}

/// A descriptor that becomes readable when this very process ends.
pub(crate) fn watch(runner: Runner) -> io::Result<OwnedFd> {
    let gone = || io::Error::from_raw_os_error(libc::ESRCH);
    let pid = i32::try_from(runner.pid).ok().and_then(Pid::from_raw).ok_or_else(gone)?;
    let pidfd = pidfd_open(pid, PidfdFlags::empty())?;
    // Opened first, compared then: it is the one meant, or an error.
    if self::runner(runner.pid) == Some(runner) { Ok(pidfd) } else { Err(gone()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_known_by_pid_user_and_a_descriptor_that_tells_its_end() {
        let (ours, theirs) = rustix::net::socketpair(
            rustix::net::AddressFamily::UNIX,
            rustix::net::SocketType::SEQPACKET,
            rustix::net::SocketFlags::CLOEXEC,
            None,
        )
        .expect("a pair");
        let known = identify(&ours).expect("identified");
        assert_eq!(known.peer.pid, std::process::id());
        assert_eq!(known.peer.uid, rustix::process::getuid().as_raw());
        assert!(!has_ended(&known.pidfd));
        drop(theirs);
    }

    #[test]
    fn processes_of_one_namespace_know_each_other_by_the_same_numbers() {
        let me = std::process::id();
        assert_eq!(pid_as_seen_by(me, me), Some(me));
        assert_eq!(pid_as_seen_by(me, u32::MAX), None);
    }

    #[test]
    fn a_runner_of_another_start_time_is_another_process() {
        let me = runner(std::process::id()).expect("alive");
        watch(me).expect("watched");
        watch(Runner { started_ticks: me.started_ticks + 1, ..me }).expect_err("another");
        assert_eq!(runner(u32::MAX), None);
    }
}
