//! Who is let in at `api.sock`: the broker's user and root, so many at a time, each as long as it
//! says something. What leaks connections then takes no descriptors that tenants need to join.

use std::{
    future::Future,
    io,
    os::unix::net::UnixListener as StdListener,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::{
    extract::connect_info::Connected,
    serve::{IncomingStream, Listener},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{UnixListener, UnixStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, Sleep, sleep},
};

/// What the API's users may take of the broker.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) connections_max: usize,
    /// A connection on which nothing moves for so long is closed.
    pub(crate) silent_max: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { connections_max: 256, silent_max: Duration::from_secs(30) }
    }
}

/// The user at the other end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct User(pub(crate) u32);

#[derive(Debug)]
pub(crate) struct OwnersOnly {
    listener: UnixListener,
    places: Arc<Semaphore>,
    silent_max: Duration,
}

impl OwnersOnly {
    pub(crate) fn at(listener: StdListener, limits: Limits) -> io::Result<Self> {
        let listener = UnixListener::from_std(listener)?;
        let places = Arc::new(Semaphore::new(limits.connections_max));
        Ok(Self { listener, places, silent_max: limits.silent_max })
    }

    fn let_in(&self, stream: UnixStream) -> Option<(Visit, User)> {
        let me = rustix::process::geteuid().as_raw();
        let user = match stream.peer_cred().map(|peer| peer.uid()) {
            Ok(uid) if uid == me || uid == 0 => User(uid),
            Ok(uid) => {
                tracing::warn!(uid, "a stranger was turned away from api.sock");
                return None;
            }
            Err(error) => {
                tracing::debug!(%error, "a peer that the kernel does not name");
                return None;
            }
        };
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            tracing::warn!("api.sock has as many connections as it may: one was turned away");
            return None;
        };
        let silence = Box::pin(sleep(self.silent_max));
        Some((Visit { stream, silence, silent_max: self.silent_max, _place: place }, user))
    }
}

impl Listener for OwnersOnly {
    type Io = Visit;
    type Addr = User;

    async fn accept(&mut self) -> (Visit, User) {
        loop {
            match self.listener.accept().await {
                Ok((stream, _)) => {
                    if let Some(visit) = self.let_in(stream) {
                        return visit;
                    }
                }
                Err(error) => {
                    tracing::debug!(%error, "accepting a command");
                    sleep(Duration::from_millis(50)).await;
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<User> {
        Ok(User(rustix::process::geteuid().as_raw()))
    }
}

impl Connected<IncomingStream<'_, OwnersOnly>> for User {
    fn connect_info(stream: IncomingStream<'_, OwnersOnly>) -> Self {
        *stream.remote_addr()
    }
}

/// A connection that is over when nothing has moved on it for too long.
#[derive(Debug)]
pub(crate) struct Visit {
    stream: UnixStream,
    silence: Pin<Box<Sleep>>,
    silent_max: Duration,
    _place: OwnedSemaphorePermit,
}

impl Visit {
    /// `done`, with the silence measured anew; an error once it has lasted too long.
    fn heard<T>(
        &mut self,
        context: &mut Context<'_>,
        done: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if done.is_ready() {
            let until = Instant::now() + self.silent_max;
            self.silence.as_mut().reset(until);
            return done;
        }
        ready!(self.silence.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Visit {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let done = Pin::new(&mut self.stream).poll_read(context, into);
        self.heard(context, done)
    }
}

impl AsyncWrite for Visit {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.heard(context, done)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
