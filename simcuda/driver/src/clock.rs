//! The clock of all simulated cards, and passing time on it without burning the host's processor.

use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// How far a lane's time may be behind the clock: a host that is loaded wakes threads late, and what
/// they then catch up on keeps its modelled times. More than this is not made up for.
pub(crate) const MOST_LAG_NS: u64 = 200_000_000;

/// How long a sleeper goes without looking whether it must end.
const NAP: Duration = Duration::from_millis(5);

/// Less than this is waited for awake: a sleep would take longer.
const AWAKE_NS: u64 = 10_000;

/// Nanoseconds, the same in all processes, never 0.
pub(crate) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned() + 1
}

/// Returns when the clock has come to `until_ns`, or `stop` says so.
pub(crate) fn pass_until(until_ns: u64, stop: impl Fn() -> bool) {
    loop {
        let left_ns = until_ns.saturating_sub(now_ns());
        if left_ns == 0 || stop() {
            return;
        }
        if left_ns < AWAKE_NS {
            std::thread::yield_now();
        } else {
            std::thread::sleep(Duration::from_nanos(left_ns).min(NAP));
        }
    }
}

/// The end of something, or the earliest time that may still be said of it.
pub(crate) fn within_lag(end_ns: u64) -> u64 {
    end_ns.max(now_ns().saturating_sub(MOST_LAG_NS))
}
