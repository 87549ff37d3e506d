//! Rules: events.

use crate::api::MIB;
use crate::call::{NULL, code, fails, ok};
use crate::rule::rules;

fn event(flags: u32) -> usize {
    let mut event = 0_usize;
    ok!("cuEventCreate", &mut event, flags);
    event
}

rules! {
    /// cuda.h, cuEventCreate, cuEventRecord, cuEventQuery, cuEventSynchronize: an event holds what
    /// was in the stream at the time of the call; before it was recorded it is done; interprocess
    /// events must not time.
    fn an_event_is_done_when_its_stream_has_passed_it(turn) covers [
        cuEventCreate, cuEventDestroy, cuEventDestroy_v2, cuEventRecord, cuEventRecord_ptsz,
        cuEventRecordWithFlags, cuEventRecordWithFlags_ptsz, cuEventQuery, cuEventSynchronize
    ] {
        let (stream, other, gate) = (turn.stream(), turn.stream(), turn.allocate(MIB));
        let names = ["cuEventRecord", "cuEventRecord_ptsz", "cuEventRecordWithFlags", "cuEventRecordWithFlags_ptsz"];
        for (round, name) in names.into_iter().enumerate() {
            let event = event(2);
            ok!("cuEventQuery", event);
            turn.write(gate, &[0; 4]);
            ok!("cuStreamWaitValue32_v2", stream, gate, 1_u32, 1_u32);
            if round < 2 {
                ok!(name, event, stream);
            } else {
                ok!(name, event, stream, 0_u32);
                fails!(1, name, event, stream, 1_u32);
                fails!(1, name, event, stream, 2_u32);
            }
            fails!(600, "cuEventQuery", event);
            ok!("cuStreamWriteValue32_v2", other, gate, 1_u32, 0_u32);
            ok!("cuEventSynchronize", event);
            ok!("cuEventQuery", event);
            let destroy = ["cuEventDestroy", "cuEventDestroy_v2"][round % 2];
            ok!(destroy, event);
            fails!(400, destroy, event);
            fails!(400, "cuEventQuery", event);
        }
        let mut made = 0_usize;
        fails!(1, "cuEventCreate", &mut made, 4_u32);
        fails!(1, "cuEventCreate", &mut made, 0x100_u32);
        fails!(1, "cuEventCreate", NULL, 0_u32);
        fails!(400, "cuEventRecord", 0xDEAD_u64, stream);
    }

    /// cuda.h, cuEventElapsedTime: milliseconds between two recorded events; one not recorded is
    /// CUDA_ERROR_INVALID_HANDLE, one not done CUDA_ERROR_NOT_READY, as is timing switched off
    /// CUDA_ERROR_INVALID_HANDLE.
    fn two_events_tell_the_time_between_them(turn) covers [cuEventElapsedTime, cuEventElapsedTime_v2] {
        let (stream, other, gate) = (turn.stream(), turn.stream(), turn.allocate(MIB));
        for form in ["", "_v2"] {
            let (from, to, name) = (event(0), event(0), format!("cuEventElapsedTime{form}"));
            let mut milliseconds = -1.0_f32;
            fails!(400, &name, &mut milliseconds, from, to);
            turn.write(gate, &[0; 4]);
            ok!("cuEventRecord", from, stream);
            ok!("cuStreamSynchronize", stream);
            ok!("cuStreamWaitValue32_v2", stream, gate, 1_u32, 1_u32);
            ok!("cuEventRecord", to, stream);
            fails!(600, &name, &mut milliseconds, from, to);
            let begun = std::time::Instant::now();
            while begun.elapsed() < std::time::Duration::from_millis(3) {
                std::hint::spin_loop();
            }
            ok!("cuStreamWriteValue32_v2", other, gate, 1_u32, 0_u32);
            ok!("cuEventSynchronize", to);
            ok!(&name, &mut milliseconds, from, to);
            assert!((3.0..5000.0).contains(&milliseconds), "{milliseconds} ms");
            fails!(400, &name, &mut milliseconds, from, event(2));
            fails!(1, &name, NULL, from, to);
        }
    }

    /// cuda.h, cuStreamWaitEvent: all future work of the stream waits for what the event holds, on
    /// the device; an event that was not recorded is nothing to wait for.
    fn a_stream_waits_for_another_streams_event(turn) covers [cuStreamWaitEvent, cuStreamWaitEvent_ptsz] {
        let (a, b, gate, event) = (turn.stream(), turn.stream(), turn.allocate(MIB), event(2));
        for form in ["", "_ptsz"] {
            let name = format!("cuStreamWaitEvent{form}");
            turn.write(gate, &[0; 8]);
            ok!("cuStreamWaitValue32_v2", a, gate, 1_u32, 1_u32);
            ok!("cuEventRecord", event, a);
            ok!(&name, b, event, 0_u32);
            ok!("cuMemsetD8Async", gate + 4, 3_u32, 4_u64, b);
            fails!(600, "cuStreamQuery", b);
            ok!("cuStreamWriteValue32_v2", turn.stream(), gate, 1_u32, 0_u32);
            ok!("cuStreamSynchronize", b);
            assert_eq!(turn.read(gate, 8), [1, 0, 0, 0, 3, 3, 3, 3]);
            fails!(1, &name, b, event, 1_u32);
            fails!(400, &name, b, 0xDEAD_u64, 0_u32);
            ok!(&name, b, crate::events::event(2), 0_u32);
            ok!("cuStreamQuery", b);
        }
    }
}
