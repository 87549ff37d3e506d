//! One broker per card: a lock for each GPU UUID in a directory that all brokers of the machine
//! share. Simulated machines have UUIDs of their own, so they never meet.

use std::{
    fs::{self, DirBuilder, Permissions},
    io,
    os::unix::fs::{DirBuilderExt, PermissionsExt},
    path::{Path, PathBuf},
};

use halfwarp_broker_core::CardFacts;

use crate::{
    failure::Failure,
    run_dir::{Locked, NotLocked, RemovedWhenDropped},
};

const SHARED: &str = "/run/lock/halfwarp";

/// Takes every card, or none.
pub(crate) fn take(
    dir: Option<&Path>,
    run_dir: &Path,
    cards: &[CardFacts],
) -> Result<Vec<RemovedWhenDropped>, Failure> {
    let dir = match dir {
        Some(dir) => ready(dir, 0o755).map(|()| dir.to_owned()),
        None => usual_dir(),
    };
    let dir = dir.map_err(|e| {
        let tried = "making the directory of the cards' locks";
        Failure::new(tried, e, "name one that this user can write with --lock-dir")
    })?;
    let me = format!("{} {}", std::process::id(), run_dir.display());
    let mut locks = Vec::new();
    for card in cards {
        let path = dir.join(format!("{}.lock", card.uuid));
        match Locked::take(&path, 0o666, &me) {
            Ok(lock) => locks.push(RemovedWhenDropped(lock)),
            Err(NotLocked::Held(by)) => {
                return Err(Failure::new(
                    format!("taking GPU {} ({})", card.index, card.uuid),
                    format!("another broker has it (pid and run directory: {by})"),
                    "use that broker, or end it first",
                ));
            }
            Err(NotLocked::Io(error)) => {
                let tried = format!("locking {}", path.display());
                return Err(Failure::new(tried, error, "name another directory with --lock-dir"));
            }
        }
    }
    Ok(locks)
}

/// The directory of all users, or where there is none, this user's.
fn usual_dir() -> io::Result<PathBuf> {
    if ready(Path::new(SHARED), 0o1777).is_ok() {
        return Ok(SHARED.into());
    }
    let uid = rustix::process::getuid().as_raw();
    let own = PathBuf::from(format!("/tmp/halfwarp-locks-{uid}"));
    ready(&own, 0o700)?;
    Ok(own)
}

/// Makes the directory if it is not there; it must be one, and not a link to one.
fn ready(dir: &Path, mode: u32) -> io::Result<()> {
    match DirBuilder::new().mode(mode).create(dir) {
        // Whatever the mask says.
        Ok(()) => fs::set_permissions(dir, Permissions::from_mode(mode))?,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    if fs::symlink_metadata(dir)?.is_dir() {
        Ok(())
    } else {
        Err(io::Error::other(format!("{} is no directory", dir.display())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use halfwarp_broker_core::Uuid;

    fn card(n: u8) -> CardFacts {
        let name = "card".to_owned();
        let index = u32::from(n);
        CardFacts { uuid: Uuid([n; 16]), index, name, total_bytes: 1, multiprocessors: None }
    }

    #[test]
    fn a_card_has_one_broker_and_the_other_is_told_whose_it_is() {
        let dir = tempfile::tempdir().expect("a directory");
        let first = take(Some(dir.path()), Path::new("/run/one"), &[card(0), card(1)]);
        let first = first.expect("taken");
        let refused = take(Some(dir.path()), Path::new("/run/two"), &[card(2), card(1)]);
        let refused = refused.expect_err("held").to_string();
        assert!(refused.contains("/run/one") && refused.contains("GPU 1"), "{refused}");
        assert!(!dir.path().join(format!("{}.lock", Uuid([2; 16]))).exists(), "nothing half done");
        drop(first);
        take(Some(dir.path()), Path::new("/run/two"), &[card(2), card(1)]).expect("free again");
    }
}
