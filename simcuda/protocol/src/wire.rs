//! How messages travel: one message is one packet of a `SOCK_SEQPACKET` socket, in postcard's
//! form, with at most one descriptor beside it.

use rustix::io::retry_on_intr;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Longest message: a device's list of two thousand processes fits.
pub const MAX_BYTES: usize = 64 << 10;

/// Sends one message. A peer that is gone is an error, never a signal.
pub fn send<M: Serialize>(
    socket: BorrowedFd<'_>,
    message: &M,
    descriptor: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let bytes = postcard::to_stdvec(message).map_err(io::Error::other)?;
    if bytes.len() > MAX_BYTES {
        return Err(io::Error::other("message longer than a packet may be"));
    }
    retry_on_intr(|| {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut beside = SendAncillaryBuffer::new(&mut space);
        if let Some(descriptor) = &descriptor {
            beside.push(SendAncillaryMessage::ScmRights(std::slice::from_ref(descriptor)));
        }
        sendmsg(socket, &[IoSlice::new(&bytes)], &mut beside, SendFlags::NOSIGNAL)
    })?;
    Ok(())
}

/// Receives one message, or `None` when the peer closed the connection.
pub fn receive<M: DeserializeOwned>(
    socket: BorrowedFd<'_>,
) -> io::Result<Option<(M, Option<OwnedFd>)>> {
    let mut bytes = vec![0; MAX_BYTES];
    let (length, descriptor) = retry_on_intr(|| {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut beside = RecvAncillaryBuffer::new(&mut space);
        let got = recvmsg(
            socket.as_fd(),
            &mut [IoSliceMut::new(&mut bytes)],
            &mut beside,
            RecvFlags::CMSG_CLOEXEC,
        )?;
        let mut descriptor = None;
        for message in beside.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                descriptor = rights.last();
            }
        }
        if got.flags.contains(ReturnFlags::TRUNC) {
            return Err(rustix::io::Errno::MSGSIZE);
        }
        Ok((got.bytes, descriptor))
    })?;
    if length == 0 {
        return Ok(None);
    }
    let message = postcard::from_bytes(&bytes[..length])
        .map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))?;
    Ok(Some((message, descriptor)))
}
