//! Every libc call the library makes, wrapped so that the rest of it need not say unsafe: memory
//! maps, the join socket, signals, errno, the error stream, the loader.
//!
//! Nothing here changes the process for its program: maps are ours alone, descriptors are
//! close-on-exec, signal masks are put back.

use std::{
    ffi::{CStr, CString, c_int, c_void},
    io, mem,
    os::{
        fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
    ptr::{self, null_mut},
    time::Duration,
};

/// Restores errno when it goes out of scope: a program must not see what our calls did to it.
#[derive(Debug)]
pub(crate) struct Errno(c_int);

impl Errno {
    /// Remembers errno as it is now.
    pub(crate) fn keep() -> Self {
        // SAFETY: libc's pointer to this thread's errno.
        Self(unsafe { *libc::__errno_location() })
    }
}

impl Drop for Errno {
    fn drop(&mut self) {
        // SAFETY: libc's pointer to this thread's errno.
        unsafe { *libc::__errno_location() = self.0 };
    }
}

/// Puts off the cancelling of this thread while it lives: our calls sleep where the driver's need
/// not, and a thread that was unwound there would take the program with it.
#[derive(Debug)]
pub(crate) struct Uncancelled(c_int);

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

impl Uncancelled {
    pub(crate) fn begin() -> Self {
        const DISABLE: c_int = 1;
        let mut before = 0;
        // SAFETY: a writable number.
        unsafe { pthread_setcancelstate(DISABLE, &raw mut before) };
        Self(before)
    }
}

impl Drop for Uncancelled {
    fn drop(&mut self) {
        // SAFETY: the state read before; a null output is allowed.
        unsafe { pthread_setcancelstate(self.0, null_mut()) };
    }
}

/// A variable of the environment, copied. Read once, before threads of ours exist.
pub(crate) fn variable(name: &CStr) -> Option<Vec<u8>> {
    // SAFETY: a NUL-terminated name; the text is copied before anything else runs on this thread.
    let value = unsafe { libc::getenv(name.as_ptr()) };
    if value.is_null() {
        return None;
    }
    // SAFETY: getenv gives a NUL-terminated text.
    Some(unsafe { CStr::from_ptr(value) }.to_bytes().to_vec())
}

/// The environment that this process was started with, as the kernel kept it: what the loader went by.
pub(crate) fn variables_at_start() -> Vec<u8> {
    std::fs::read("/proc/self/environ").unwrap_or_default()
}

/// One variable of [`variables_at_start`].
pub(crate) fn variable_in(environment: &[u8], name: &CStr) -> Option<Vec<u8>> {
    environment.split(|byte| *byte == 0).find_map(|variable| {
        let value = variable.strip_prefix(name.to_bytes())?.strip_prefix(b"=")?;
        Some(value.to_vec())
    })
}

/// Writes `line` to the error stream in one call.
pub(crate) fn write_error(line: &[u8]) {
    // SAFETY: readable for its length; a failed write is nobody's business.
    unsafe { libc::write(2, line.as_ptr().cast(), line.len()) };
}

/// A page of private memory that a forked child reads as zeroes.
pub(crate) fn page_wiped_on_fork(bytes: usize) -> Option<*mut c_void> {
    let prot = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new anonymous mapping, at no address of ours.
    let page = unsafe {
        libc::mmap(null_mut(), bytes, prot, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)
    };
    if page == libc::MAP_FAILED {
        return None;
    }
    // SAFETY: the mapping just made.
    let wiped = unsafe { libc::madvise(page, bytes, libc::MADV_WIPEONFORK) };
    if wiped != 0 {
        // SAFETY: the mapping just made, not handed out.
        unsafe { libc::munmap(page, bytes) };
        return None;
    }
    Some(page)
}

/// Maps a shared page of the broker's, not inherited by a forked child.
pub(crate) fn map_shared(file: &OwnedFd, bytes: usize, writable: bool) -> io::Result<*mut c_void> {
    let prot = if writable { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
    // SAFETY: a new mapping of a descriptor we own, at no address of ours.
    let page =
        unsafe { libc::mmap(null_mut(), bytes, prot, libc::MAP_SHARED, file.as_raw_fd(), 0) };
    if page == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the mapping just made.
    unsafe { libc::madvise(page, bytes, libc::MADV_DONTFORK) };
    Ok(page)
}

/// Private memory of our own, not inherited by a forked child.
pub(crate) fn map_private(bytes: usize) -> Option<*mut c_void> {
    let prot = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new anonymous mapping, at no address of ours.
    let at = unsafe { libc::mmap(null_mut(), bytes, prot, flags, -1, 0) };
    if at == libc::MAP_FAILED {
        return None;
    }
    // SAFETY: the mapping just made.
    unsafe { libc::madvise(at, bytes, libc::MADV_DONTFORK) };
    Some(at)
}

/// Copies between two mappings of ours.
pub(crate) fn copy(to: *mut c_void, from: *mut c_void, bytes: usize) {
    // SAFETY: both are mapped with at least so many bytes, and are different mappings.
    unsafe { ptr::copy_nonoverlapping(from.cast::<u8>(), to.cast::<u8>(), bytes) };
}

/// Unmaps what [`map_shared`] or [`map_private`] mapped.
pub(crate) fn unmap(at: *mut c_void, bytes: usize) {
    // SAFETY: a mapping of ours, to which nothing refers any more.
    unsafe { libc::munmap(at, bytes) };
}

/// Size of the file behind a descriptor.
pub(crate) fn file_bytes(file: &OwnedFd) -> io::Result<u64> {
    // SAFETY: all-zero is a valid stat buffer.
    let mut stat: libc::stat = unsafe { mem::zeroed() };
    // SAFETY: a descriptor we own and a buffer of the right type.
    if unsafe { libc::fstat(file.as_raw_fd(), &raw mut stat) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(u64::try_from(stat.st_size).unwrap_or(0))
}

/// Device and inode of a file, to tell whether two paths are one file.
pub(crate) fn identity(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(path).ok().map(|m| (m.dev(), m.ino()))
}

/// Connects a packet socket to `path` within `limit`. The broker's queue may be full for a moment:
/// that is waited for; nobody listening is not.
pub(crate) fn connect(path: &[u8], limit: Duration) -> io::Result<OwnedFd> {
    // SAFETY: no pointer is passed.
    let raw = unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC, 0) };
    if raw < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just opened, owned by nobody else.
    let socket = unsafe { OwnedFd::from_raw_fd(raw) };
    set_timeout(&socket, libc::SO_SNDTIMEO, limit)?;
    // SAFETY: all-zero is a valid address buffer.
    let mut address: libc::sockaddr_un = unsafe { mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    if path.len() >= address.sun_path.len() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the socket's path is too long"));
    }
    for (to, from) in address.sun_path.iter_mut().zip(path) {
        *to = *from as libc::c_char;
    }
    let length = size_of::<libc::sockaddr_un>() as libc::socklen_t;
    // SAFETY: an address of that type and length.
    let done = unsafe { libc::connect(raw, (&raw const address).cast(), length) };
    if done != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(socket)
}

/// Bounds how long `receive` may wait; zero waits for ever.
pub(crate) fn receive_within(socket: &OwnedFd, limit: Duration) -> io::Result<()> {
    set_timeout(socket, libc::SO_RCVTIMEO, limit)
}

fn set_timeout(socket: &OwnedFd, option: c_int, limit: Duration) -> io::Result<()> {
    let time = libc::timeval {
        tv_sec: libc::time_t::try_from(limit.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_usec: libc::suseconds_t::from(limit.subsec_micros()),
    };
    let length = size_of::<libc::timeval>() as libc::socklen_t;
    // SAFETY: an option value of the option's type and length.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            (&raw const time).cast(),
            length,
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Sends one packet; a closed peer is an error, never a signal.
pub(crate) fn send(socket: RawFd, packet: &[u8]) -> io::Result<()> {
    send_with(socket, packet, libc::MSG_NOSIGNAL)
}

/// Sends one packet if there is room for it now.
pub(crate) fn send_now(socket: RawFd, packet: &[u8]) -> io::Result<()> {
    send_with(socket, packet, libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT)
}

fn send_with(socket: RawFd, packet: &[u8], flags: c_int) -> io::Result<()> {
    loop {
        // SAFETY: readable for its length.
        let sent = unsafe { libc::send(socket, packet.as_ptr().cast(), packet.len(), flags) };
        match usize::try_from(sent) {
            Ok(n) if n == packet.len() => return Ok(()),
            Ok(_) => return Err(io::ErrorKind::WriteZero.into()),
            Err(_) => match io::Error::last_os_error() {
                e if e.kind() == io::ErrorKind::Interrupted => {}
                e => return Err(e),
            },
        }
    }
}

/// Receives one packet into `packet` and up to two descriptors. 0 bytes: the peer is gone.
pub(crate) fn receive(
    socket: RawFd,
    packet: &mut [u8],
    descriptors: &mut Vec<OwnedFd>,
) -> io::Result<usize> {
    let mut part = libc::iovec { iov_base: packet.as_mut_ptr().cast(), iov_len: packet.len() };
    // Room for exactly two descriptors, aligned as a control header asks.
    let mut control = [0u64; 4];
    // SAFETY: all-zero is a valid message header.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control) as _;
    let got = loop {
        // SAFETY: every pointer in `message` is to a live buffer of the length given beside it.
        let got = unsafe { libc::recvmsg(socket, &raw mut message, libc::MSG_CMSG_CLOEXEC) };
        if got >= 0 {
            break got.unsigned_abs();
        }
        match io::Error::last_os_error() {
            e if e.kind() == io::ErrorKind::Interrupted => {}
            e => return Err(e),
        }
    };
    take_descriptors(&message, descriptors);
    Ok(got)
}

/// Takes ownership of the descriptors in a received message.
fn take_descriptors(message: &libc::msghdr, descriptors: &mut Vec<OwnedFd>) {
    // SAFETY: `message` was filled by recvmsg.
    let header = unsafe { libc::CMSG_FIRSTHDR(message) };
    if header.is_null() {
        return;
    }
    // SAFETY: a non-null header of a received message is readable.
    let head = unsafe { ptr::read(header) };
    if head.cmsg_level != libc::SOL_SOCKET || head.cmsg_type != libc::SCM_RIGHTS {
        return;
    }
    // SAFETY: pure arithmetic on a length.
    let head_bytes = unsafe { libc::CMSG_LEN(0) } as usize;
    let count = (head.cmsg_len as usize).saturating_sub(head_bytes) / size_of::<RawFd>();
    // SAFETY: the header is followed by its data.
    let data = unsafe { libc::CMSG_DATA(header) };
    for i in 0..count.min(2) {
        // SAFETY: the kernel wrote `count` descriptors behind the header.
        let raw = unsafe { ptr::read_unaligned(data.cast::<RawFd>().add(i)) };
        // SAFETY: received just now, so it is ours.
        descriptors.push(unsafe { OwnedFd::from_raw_fd(raw) });
    }
}

/// What a thread of ours is to do.
type Body = Box<dyn FnOnce() + Send>;

/// Starts a thread with every signal blocked, so that none of the program's lands on it.
///
/// By libc alone: the standard library's threads register destructors of thread-locals when they
/// start, for which libc takes the loader's lock. A program whose first CUDA call comes from a
/// constructor holds that lock until the call is answered, which takes this thread.
pub(crate) fn spawn_without_signals(
    name: &'static CStr,
    stack_bytes: usize,
    body: impl FnOnce() + Send + 'static,
) -> io::Result<()> {
    let named = move || {
        // SAFETY: this thread itself, and a NUL-terminated name.
        unsafe { libc::pthread_setname_np(libc::pthread_self(), name.as_ptr()) };
        body();
    };
    // SAFETY: all-zero is a valid signal set.
    let mut all: libc::sigset_t = unsafe { mem::zeroed() };
    // SAFETY: as above.
    let mut before: libc::sigset_t = unsafe { mem::zeroed() };
    // SAFETY: a set of the right type.
    unsafe { libc::sigfillset(&raw mut all) };
    // SAFETY: two sets of the right type; a new thread inherits the mask.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before) };
    let started = start_thread(stack_bytes, Box::new(named));
    // SAFETY: the set read just before.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, null_mut()) };
    started
}

fn start_thread(stack_bytes: usize, body: Body) -> io::Result<()> {
    let body = Box::into_raw(Box::new(body));
    // SAFETY: all-zero is room for an attribute object.
    let mut attributes: libc::pthread_attr_t = unsafe { mem::zeroed() };
    // SAFETY: a writable attribute object, initialised once.
    unsafe { libc::pthread_attr_init(&raw mut attributes) };
    // SAFETY: an initialised attribute object; a size that libc finds too small is left as it was.
    unsafe { libc::pthread_attr_setstacksize(&raw mut attributes, stack_bytes) };
    let mut thread: libc::pthread_t = 0;
    // SAFETY: `run_thread` takes back the body, which nobody else has.
    let code = unsafe {
        libc::pthread_create(&raw mut thread, &raw const attributes, run_thread, body.cast())
    };
    // SAFETY: initialised above, not used again.
    unsafe { libc::pthread_attr_destroy(&raw mut attributes) };
    if code != 0 {
        // SAFETY: no thread was started, so the body is still ours.
        drop(unsafe { Box::from_raw(body) });
        return Err(io::Error::from_raw_os_error(code));
    }
    // SAFETY: the thread just started, which nobody else joins or detaches.
    unsafe { libc::pthread_detach(thread) };
    Ok(())
}

extern "C" fn run_thread(body: *mut c_void) -> *mut c_void {
    // SAFETY: `start_thread` passes what it made, once.
    let body: Box<Body> = unsafe { Box::from_raw(body.cast()) };
    // A panic ends this thread, never the program.
    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(*body));
    null_mut()
}

/// Opens a shared object by path, its symbols kept to itself.
pub(crate) fn open_library(path: &Path) -> Option<*mut c_void> {
    let path = CString::new(path.as_os_str().as_bytes()).ok()?;
    // SAFETY: a NUL-terminated path.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    (!handle.is_null()).then_some(handle)
}

/// Paths of all loaded objects, as the loader names them.
pub(crate) fn loaded_objects() -> Vec<Vec<u8>> {
    unsafe extern "C" fn each(info: *mut libc::dl_phdr_info, _: usize, list: *mut c_void) -> c_int {
        // SAFETY: the loader passes a readable struct.
        let name = unsafe { (*info).dlpi_name };
        if !name.is_null() {
            // SAFETY: the loader's names are NUL-terminated.
            let name = unsafe { CStr::from_ptr(name) }.to_bytes().to_vec();
            // SAFETY: the list passed below, used by nobody else meanwhile.
            unsafe { (*list.cast::<Vec<Vec<u8>>>()).push(name) };
        }
        0
    }
    let mut list: Vec<Vec<u8>> = Vec::new();
    // SAFETY: `each` has the type asked for, and `list` outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(each), (&raw mut list).cast()) };
    list
}

/// The inode of the socket behind a descriptor, if a socket is what is there.
pub(crate) fn socket_inode(descriptor: RawFd) -> Option<u64> {
    // SAFETY: all-zero is a valid stat buffer.
    let mut stat: libc::stat = unsafe { mem::zeroed() };
    // SAFETY: any number may be asked about; the buffer is of the right type.
    let done = unsafe { libc::fstat(descriptor, &raw mut stat) };
    (done == 0 && stat.st_mode & libc::S_IFMT == libc::S_IFSOCK).then_some(stat.st_ino)
}

/// Closes a descriptor that was found to be ours.
pub(crate) fn close(descriptor: RawFd) {
    // SAFETY: no pointer is passed; nothing else of ours refers to it.
    unsafe { libc::close(descriptor) };
}
