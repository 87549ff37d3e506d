//! What the kernel must be able to do, found out by doing it.

use std::os::unix::net::UnixStream;

use nix::sys::socket::{getsockopt, sockopt};
use rustix::{
    fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create},
    process::{PidfdFlags, getpid, pidfd_open},
};

use super::Finding;

pub(super) fn features() -> Vec<Finding> {
    vec![sealed_memory(), process_descriptors(), peers()]
}

fn sealed_memory() -> Finding {
    const NAME: &str = "sealed memory";
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let tried = memfd_create("halfwarp-doctor", flags).and_then(|memory| {
        ftruncate(&memory, 4096)?;
        fcntl_add_seals(&memory, SealFlags::SHRINK | SealFlags::GROW)?;
        fcntl_add_seals(&memory, SealFlags::FUTURE_WRITE | SealFlags::SEAL)
    });
    match tried {
        Ok(()) => Finding::ok(NAME, "memfd takes the seals of the shared pages"),
        Err(error) => Finding::fail(
            NAME,
            format!("sealing a memfd: {error}"),
            "use a kernel from 5.1 on, and allow memfd_create in this sandbox",
        ),
    }
}

fn process_descriptors() -> Finding {
    const NAME: &str = "pidfd";
    match pidfd_open(getpid(), PidfdFlags::empty()) {
        Ok(_) => Finding::ok(NAME, "the end of a process can be waited for"),
        Err(error) => Finding::fail(
            NAME,
            format!("pidfd_open: {error}"),
            "use a kernel from 5.3 on, and allow pidfd_open in this sandbox",
        ),
    }
}

fn peers() -> Finding {
    const NAME: &str = "SO_PEERPIDFD";
    let tried = UnixStream::pair()
        .map_err(|error| error.to_string())
        .and_then(|(one, _other)| getsockopt(&one, sockopt::PeerPidfd).map_err(|e| e.to_string()));
    match tried {
        Ok(_) => Finding::ok(NAME, "the kernel says who is at the other end of a socket"),
        Err(error) => Finding::warn(
            NAME,
            format!("not available ({error}): the broker opens a pidfd by number and checks again"),
            "nothing has to be done; kernels from 6.5 on have it",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Outcome;

    #[test]
    fn whatever_the_kernel_lacks_is_named_with_what_helps() {
        for finding in features() {
            assert_eq!(finding.fix.is_none(), finding.outcome == Outcome::Ok, "{finding:?}");
        }
    }
}
