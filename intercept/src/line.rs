//! The connection to the broker, in a process that is not ours: its program may close any descriptor,
//! also this one, and open a file of its own under the same number. So nothing is sent to, received
//! from or closed under that number unless what lies there is still the socket that we opened.
//!
//! Not the frames, and not how a connection is made: that is `attach`.

use std::{
    io,
    os::fd::{AsRawFd, IntoRawFd, OwnedFd, RawFd},
    sync::{PoisonError, RwLock},
    time::Duration,
};

use crate::{sys, wait::Bell};

/// How long our thread sleeps at most before it looks whether the descriptor is still ours: one that
/// the program has closed is not woken by anything else.
pub(crate) const LOOK: Duration = Duration::from_secs(1);

/// A descriptor and the inode of the socket that we opened behind it.
#[derive(Clone, Copy, Debug)]
struct Own {
    number: RawFd,
    inode: u64,
}

impl Own {
    fn of(socket: OwnedFd) -> io::Result<Self> {
        let inode = sys::socket_inode(socket.as_raw_fd()).ok_or(io::ErrorKind::NotConnected)?;
        Ok(Self { number: socket.into_raw_fd(), inode })
    }

    /// The descriptor, if it is still ours.
    fn number(self) -> io::Result<RawFd> {
        if sys::socket_inode(self.number) == Some(self.inode) {
            Ok(self.number)
        } else {
            Err(io::ErrorKind::NotConnected.into())
        }
    }

    fn close(self) {
        if let Ok(number) = self.number() {
            sys::close(number);
        }
    }
}

/// The connection that stands now.
#[derive(Debug)]
pub(crate) struct Line(RwLock<Own>);

impl Line {
    pub(crate) fn new(socket: OwnedFd) -> io::Result<Self> {
        Own::of(socket).map(|own| Self(RwLock::new(own)))
    }

    fn own(&self) -> Own {
        *self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `send` with the descriptor, which no other thread replaces meanwhile: a number that was
    /// let go could be anybody's by the time the packet is written. (A connection is replaced only
    /// after it has ended, and then a send does not wait.)
    fn while_it_stands<R>(&self, send: impl FnOnce(RawFd) -> io::Result<R>) -> io::Result<R> {
        let own = self.0.read().unwrap_or_else(PoisonError::into_inner);
        send(own.number()?)
    }

    /// Sends one packet; an error means that it did not arrive.
    pub(crate) fn send(&self, packet: &[u8]) -> io::Result<()> {
        self.while_it_stands(|number| sys::send(number, packet))
    }

    /// Sends one packet if there is room for it now.
    pub(crate) fn send_now(&self, packet: &[u8]) -> io::Result<()> {
        self.while_it_stands(|number| sys::send_now(number, packet))
    }

    /// Receives one packet; 0 bytes if none came within `at_most` or the bell rang first. An error
    /// means that the connection is gone, on either side.
    pub(crate) fn receive(
        &self,
        packet: &mut [u8],
        descriptors: &mut Vec<OwnedFd>,
        bell: &Bell,
        at_most: Duration,
    ) -> io::Result<usize> {
        if !bell.wait(self.own().number()?, at_most) {
            return Ok(0);
        }
        // What can be read is asked once more whether it is ours: that sleep was long.
        match sys::receive(self.own().number()?, packet, descriptors) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            other => other,
        }
    }

    /// Puts a new connection in the place of this one.
    pub(crate) fn replace(&self, socket: OwnedFd) -> io::Result<()> {
        let new = Own::of(socket)?;
        let old = {
            let mut own = self.0.write().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *own, new)
        };
        old.close();
        Ok(())
    }

    /// Ends the connection of a process that does not join after all.
    pub(crate) fn close(&self) {
        self.own().close();
    }
}
