//! Frames on their way to a client. Sending never waits: a client that lets its queue fill up is
//! dropped, and joins again when it is awake.

use std::{
    io::IoSlice,
    mem::MaybeUninit,
    os::fd::{AsFd, OwnedFd},
};

use halfwarp_api::{
    version::CURRENT,
    wire::{Refusal, ToClient},
};
use halfwarp_broker_core::WelcomeGpu;
use rustix::{
    io::Errno,
    net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, send, sendmsg},
};

use crate::shm::Descriptors;

fn flags() -> SendFlags {
    SendFlags::DONTWAIT | SendFlags::NOSIGNAL
}

pub(crate) fn frame(socket: &OwnedFd, frame: ToClient) -> Result<(), Errno> {
    send(socket, &frame.encode(), flags())?;
    halfwarp_label::frame_sent();
    Ok(())
}

/// A frame that a descriptor travels with.
pub(crate) fn with_memory(
    socket: &OwnedFd,
    frame: ToClient,
    memory: &OwnedFd,
) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors = [memory.as_fd()];
    if !control.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(Errno::NOBUFS);
    }
    sendmsg(socket, &[IoSlice::new(&frame.encode())], &mut control, flags())?;
    halfwarp_label::frame_sent();
    Ok(())
}

pub(crate) fn refused(socket: &OwnedFd, why: Refusal) {
    // Whoever does not hear why sees the connection's end.
    let _ = frame(socket, ToClient::Refused { why, version: CURRENT });
}

/// The welcome with the two descriptors, then a frame for each card.
pub(crate) fn welcome(
    socket: &OwnedFd,
    tenant: u64,
    generation: u64,
    gpus: &[WelcomeGpu],
    pages: &Descriptors,
) -> Result<(), Errno> {
    let count = u8::try_from(gpus.len()).unwrap_or(u8::MAX);
    let welcome = ToClient::Welcome { version: CURRENT, gpus: count, tenant, generation }.encode();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors = pages.each_ref().map(AsFd::as_fd);
    if !control.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(Errno::NOBUFS);
    }
    sendmsg(socket, &[IoSlice::new(&welcome)], &mut control, flags())?;
    for (slot, gpu) in (0..).zip(gpus) {
        let told = ToClient::Gpu {
            gpu: slot,
            uuid: gpu.uuid.0,
            limit: gpu.limit_units,
            context: gpu.context_units,
            swap: gpu.swap,
        };
        frame(socket, told)?;
    }
    halfwarp_label::welcome_sent();
    Ok(())
}
