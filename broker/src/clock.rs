//! The two clocks, and an alarm by the first. Decisions use the monotonic one; the other is for people.

use std::{
    io,
    os::fd::OwnedFd,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use halfwarp_broker_core::Nanos;
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};
use tokio::io::unix::AsyncFd;

use crate::peer;

/// `CLOCK_MONOTONIC`.
pub(crate) fn now() -> Nanos {
    let time = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// Seconds since the Unix epoch.
pub(crate) fn wall_s() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

/// Rings at a time of [`now`]'s clock, to the microsecond: the runtime's own timers round to a
/// millisecond, which is much of a turn's hand-over.
#[derive(Debug)]
pub(crate) struct Alarm(AsyncFd<Arc<OwnedFd>>);

impl Alarm {
    pub(crate) fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        Ok(Self(peer::watched(Arc::new(timer))?))
    }

    /// Waits until then. Dropped before, it rings no more once it is set anew.
    pub(crate) async fn at(&self, at: Nanos) -> io::Result<()> {
        let seconds = i64::try_from(at / 1_000_000_000).unwrap_or(i64::MAX);
        let nanos = at % 1_000_000_000;
        // All zero would switch it off.
        let time = Timespec { tv_sec: seconds, tv_nsec: nanos.max(1) as _ };
        let once = Itimerspec { it_interval: Timespec::default(), it_value: time };
        timerfd_settime(self.0.get_ref(), TimerfdTimerFlags::ABSTIME, &once)?;
        let mut rung = self.0.readable().await?;
        rung.clear_ready();
        Ok(())
    }
}
