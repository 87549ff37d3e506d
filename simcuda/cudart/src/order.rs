//! Streams and events.

use std::ffi::c_uint;

use crate::{
    Code,
    driver::{Handle, done},
    thread::{answer, ready},
};

macro_rules! passed_on {
    ($($name:ident $field:ident ($($arg:ident: $ty:ty),*);)*) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $name($($arg: $ty),*) -> Code {
            // SAFETY: the program's own handles and outputs, passed on unchanged.
            answer(|| done(unsafe { (ready()?.$field)($($arg),*) }))
        }
    )*};
}

passed_on! {
    cudaStreamCreateWithFlags stream_create (to: *mut Handle, flags: c_uint);
    cudaStreamDestroy stream_destroy (stream: Handle);
    cudaStreamSynchronize stream_synchronize (stream: Handle);
    cudaStreamQuery stream_query (stream: Handle);
    cudaStreamWaitEvent stream_wait (stream: Handle, event: Handle, flags: c_uint);
    cudaEventCreateWithFlags event_create (to: *mut Handle, flags: c_uint);
    cudaEventDestroy event_destroy (event: Handle);
    cudaEventRecord event_record (event: Handle, stream: Handle);
    cudaEventSynchronize event_synchronize (event: Handle);
    cudaEventQuery event_query (event: Handle);
    cudaEventElapsedTime event_elapsed (to: *mut f32, from: Handle, until: Handle);
}

#[unsafe(no_mangle)]
extern "C" fn cudaStreamCreate(to: *mut Handle) -> Code {
    cudaStreamCreateWithFlags(to, 0)
}

#[unsafe(no_mangle)]
extern "C" fn cudaEventCreate(to: *mut Handle) -> Code {
    cudaEventCreateWithFlags(to, 0)
}
