//! The run directory: one broker in it at a time, two sockets, and the state. Whatever goes wrong
//! on the way to serving, what was made here is removed again.
//!
//! `join/join.sock` lies in a directory of its own, because that is what a container gets to see.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, Permissions},
    io::{self, Read, Seek, Write},
    os::{
        fd::OwnedFd,
        unix::{
            fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt},
            net::UnixListener,
        },
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::{FlockOperation, flock},
    net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with},
};

use crate::failure::Failure;

/// A path of a unix socket has room for 107 bytes.
const SOCKET_PATH_BYTES: usize = 107;
/// Connections that may wait to be accepted; the kernel's own maximum applies as well.
const BACKLOG: i32 = 4096;

/// A directory that is ours while this lives.
#[derive(Debug)]
pub(crate) struct RunDir {
    path: PathBuf,
    private: bool,
    lock: Locked,
    sockets: Vec<PathBuf>,
    /// The directory was not there before.
    made: bool,
}

impl RunDir {
    /// Makes the directory if there is none, and takes it.
    pub(crate) fn take(path: &Path, private: bool) -> Result<Self, Failure> {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let longest = path.join("join/join.sock");
        let tried = || format!("using {} as the run directory", path.display());
        if longest.as_os_str().len() > SOCKET_PATH_BYTES {
            let found = format!("{} is longer than a socket's path may be", longest.display());
            return Err(Failure::new(tried(), found, "name a shorter directory with --run-dir"));
        }
        let help = "name a directory that this user can write with --run-dir";
        let made = make_dir(&path, private).map_err(|e| Failure::new(tried(), e, help))?;
        let me = format!("{} {}", std::process::id(), path.display());
        let lock = match Locked::take(&path.join("lock"), 0o600, &me) {
            Ok(lock) => lock,
            Err(NotLocked::Held(by)) => {
                let found = format!("a broker serves there already (pid and directory: {by})");
                return Err(Failure::new(tried(), found, "use that one, or end it"));
            }
            Err(NotLocked::Io(error)) => return Err(Failure::new(tried(), error, help)),
        };
        Ok(Self { path, private, lock, sockets: Vec::new(), made })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn api_socket(&self) -> PathBuf {
        self.path.join("api.sock")
    }

    pub(crate) fn join_socket(&self) -> PathBuf {
        self.path.join("join/join.sock")
    }

    /// Listens for commands; only this user and root get in.
    pub(crate) fn listen_api(&mut self) -> Result<UnixListener, Failure> {
        let path = self.api_socket();
        let listen = || {
            clear(&path)?;
            let listener = socket_at(&path, SocketType::STREAM, 0o600)?;
            Ok(UnixListener::from(listener))
        };
        let listener = listen().map_err(|e: io::Error| not_served(&path, &e))?;
        self.sockets.push(path);
        Ok(listener)
    }

    /// Listens for processes; on a node those of every user.
    pub(crate) fn listen_join(&mut self) -> Result<OwnedFd, Failure> {
        let path = self.join_socket();
        let mode = if self.private { 0o600 } else { 0o666 };
        let listen = || {
            make_dir(&self.path.join("join"), self.private)?;
            clear(&path)?;
            socket_at(&path, SocketType::SEQPACKET, mode)
        };
        let listener = listen().map_err(|e: io::Error| not_served(&path, &e))?;
        self.sockets.push(path);
        Ok(listener)
    }
}

impl Drop for RunDir {
    fn drop(&mut self) {
        for socket in &self.sockets {
            let _ = fs::remove_file(socket);
        }
        let _ = fs::remove_dir(self.path.join("join"));
        self.lock.remove();
        if self.made {
            // Stays if it holds the state.
            let _ = fs::remove_dir(&self.path);
        }
    }
}

fn not_served(path: &Path, error: &io::Error) -> Failure {
    let help = "see that the disk has room and that nothing else lies at that path";
    Failure::new(format!("listening at {}", path.display()), error, help)
}

/// Makes a directory that others can't write, or checks the one that is there; whether it was made.
fn make_dir(path: &Path, private: bool) -> io::Result<bool> {
    let made = match DirBuilder::new().mode(if private { 0o700 } else { 0o755 }).create(path) {
        Ok(()) => true,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
        Err(error) => return Err(error),
    };
    let found = fs::symlink_metadata(path)?;
    let me = rustix::process::geteuid().as_raw();
    if !found.is_dir() {
        return Err(io::Error::other("it is no directory"));
    }
    if found.uid() != me || found.permissions().mode() & 0o022 != 0 {
        return Err(io::Error::other("others than this user can write it"));
    }
    Ok(made)
}

/// Removes a socket that an earlier broker left. The lock is held, so nobody listens there.
fn clear(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => fs::remove_file(path),
        Ok(_) => Err(io::Error::other("something that is no socket lies there")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

fn socket_at(path: &Path, kind: SocketType, mode: u32) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, kind, flags, None)?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    let ready = fs::set_permissions(path, Permissions::from_mode(mode))
        .and_then(|()| listen(&socket, BACKLOG).map_err(Into::into));
    if ready.is_err() {
        let _ = fs::remove_file(path);
    }
    ready.map(|()| socket)
}

/// A file that says who holds it, held as long as this lives.
#[derive(Debug)]
pub(crate) struct Locked {
    file: File,
    path: PathBuf,
}

#[derive(Debug)]
pub(crate) enum NotLocked {
    /// What the holder wrote.
    Held(String),
    Io(io::Error),
}

impl Locked {
    pub(crate) fn take(path: &Path, mode: u32, me: &str) -> Result<Self, NotLocked> {
        loop {
            let mut file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .mode(mode)
                .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC)
                .open(path)
                .map_err(NotLocked::Io)?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(rustix::io::Errno::WOULDBLOCK) => {
                    let mut by = String::new();
                    let _ = (&file).take(4096).read_to_string(&mut by);
                    return Err(NotLocked::Held(by.trim().to_owned()));
                }
                Err(error) => return Err(NotLocked::Io(error.into())),
            }
            // The former holder may have removed the file between the opening and the lock.
            let here = fs::symlink_metadata(path);
            let same = here.is_ok_and(|h| {
                file.metadata().is_ok_and(|m| (h.dev(), h.ino()) == (m.dev(), m.ino()))
            });
            if !same {
                continue;
            }
            // By mask or by an earlier owner it may be less open than it has to be.
            let _ = file.set_permissions(Permissions::from_mode(mode));
            let written = file
                .set_len(0)
                .and_then(|()| file.seek(io::SeekFrom::Start(0)))
                .and_then(|_| file.write_all(format!("{me}\n").as_bytes()));
            let held = Self { file, path: path.to_owned() };
            if let Err(error) = written {
                held.remove();
                return Err(NotLocked::Io(error));
            }
            return Ok(held);
        }
    }

    /// Takes the file away while it is still held.
    fn remove(&self) {
        let _ = fs::remove_file(&self.path);
        let _ = self.file.sync_data();
    }
}

/// Locks whose files go with them.
#[derive(Debug)]
pub(crate) struct RemovedWhenDropped(pub(crate) Locked);

impl Drop for RemovedWhenDropped {
    fn drop(&mut self) {
        self.0.remove();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_directory_has_one_broker_and_nothing_stays_when_it_goes() {
        let root = tempfile::tempdir().expect("a directory");
        let path = root.path().join("run");
        let mut first = RunDir::take(&path, true).expect("taken");
        let refused = RunDir::take(&path, true).expect_err("held").to_string();
        assert!(refused.contains(&std::process::id().to_string()), "{refused}");
        first.listen_api().expect("listens");
        first.listen_join().expect("listens");
        assert_eq!(fs::metadata(first.api_socket()).expect("there").mode() & 0o777, 0o600);
        drop(first);
        assert!(!path.exists(), "made here, removed here");
        fs::create_dir(&path).expect("made by somebody else");
        drop(RunDir::take(&path, true).expect("taken"));
        assert_eq!(fs::read_dir(&path).expect("stays").count(), 0);
        RunDir::take(&path, true).expect("free again");
    }

    #[test]
    fn stale_sockets_are_replaced_and_other_files_are_not() {
        let root = tempfile::tempdir().expect("a directory");
        let stale = UnixListener::bind(root.path().join("api.sock"));
        drop(stale.expect("bound"));
        let mut dir = RunDir::take(root.path(), true).expect("taken");
        dir.listen_api().expect("replaced");
        fs::create_dir(root.path().join("join")).expect("made");
        fs::write(root.path().join("join/join.sock"), "a file").expect("written");
        let refused = dir.listen_join().expect_err("a file").to_string();
        assert!(refused.contains("no socket"), "{refused}");
        drop(dir);
        let kept = fs::read_to_string(root.path().join("join/join.sock")).expect("there");
        assert_eq!(kept, "a file");
    }

    #[test]
    fn a_bad_run_directory_is_refused_in_words() {
        let root = tempfile::tempdir().expect("a directory");
        let file = root.path().join("file");
        fs::write(&file, "").expect("written");
        let open = root.path().join("open");
        fs::create_dir(&open).expect("made");
        fs::set_permissions(&open, Permissions::from_mode(0o777)).expect("opened");
        let long = root.path().join("x".repeat(100));
        for (path, said) in [(&file, "no directory"), (&open, "can write"), (&long, "longer")] {
            let refused = RunDir::take(path, true).expect_err("refused").to_string();
            assert!(refused.contains(said) && refused.contains("--run-dir"), "{refused}");
        }
        let missing = root.path().join("a/b");
        RunDir::take(&missing, true).expect_err("no parent");
    }
}
