//! Counting instructions by single steps: what the library adds to a call, to the instruction, with
//! no profiler and no clock. The program stops at breakpoints of its own (`int3`) around each call.

use std::{
    ffi::c_void,
    fs, io,
    ops::Range,
    path::Path,
    ptr,
    time::{Duration, Instant},
};

use crate::trace::{Traced, ptrace, wait_now};

/// `si_code` of a breakpoint instruction, as against a single step.
const SI_KERNEL: i32 = 0x80;

impl Traced {
    /// Lets the process run to its next breakpoint, then counts the instructions up to the one after
    /// it that lie in one of `files` (by their mappings now).
    ///
    /// # Errors
    /// If no breakpoint comes before the deadline, or the process ends.
    pub fn count_to_next_stop(&mut self, files: &[&Path], deadline: Duration) -> io::Result<u64> {
        let tid = self.run_to_own_stop(deadline)?;
        let ranges = mappings(self.pid(), files)?;
        let until = Instant::now() + deadline;
        let mut counted = 0;
        loop {
            let rip = registers(tid)?.rip;
            counted += u64::from(ranges.iter().any(|range| range.contains(&rip)));
            ptrace(libc::PTRACE_SINGLESTEP, tid, 0)?;
            self.wait_for_stop(tid, until)?;
            if stopped_by_instruction(tid)? {
                self.stands(tid);
                return Ok(counted);
            }
        }
    }

    /// Waits until a thread that makes one step has made it. Another that starts meanwhile, or is
    /// started by what the step waits for, is let go on.
    fn wait_for_stop(&mut self, tid: i32, until: Instant) -> io::Result<()> {
        loop {
            match wait_now(tid) {
                Some(status) if libc::WIFSTOPPED(status) => return Ok(()),
                Some(_) => return Err(io::Error::other("the thread has ended")),
                None => self.let_others_go_on(tid),
            }
            if Instant::now() > until {
                return Err(io::ErrorKind::TimedOut.into());
            }
            std::thread::yield_now();
        }
    }
}

/// Whether a thread's last stop was a breakpoint instruction.
pub(crate) fn stopped_by_instruction(tid: i32) -> io::Result<bool> {
    // SAFETY: all-zero is a valid signal description.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    // SAFETY: a stopped tracee of this thread, a writable description.
    let done = unsafe {
        libc::ptrace(libc::PTRACE_GETSIGINFO, tid, ptr::null_mut::<c_void>(), &raw mut info)
    };
    if done != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(info.si_signo == libc::SIGTRAP && info.si_code == SI_KERNEL)
}

/// The registers of a stopped thread.
pub(crate) fn registers(tid: i32) -> io::Result<libc::user_regs_struct> {
    // SAFETY: all-zero is a valid register set.
    let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
    // SAFETY: a stopped tracee of this thread, a writable register set.
    let done = unsafe {
        libc::ptrace(libc::PTRACE_GETREGS, tid, ptr::null_mut::<c_void>(), &raw mut registers)
    };
    if done == 0 { Ok(registers) } else { Err(io::Error::last_os_error()) }
}

/// Where a process has mapped any of these files.
fn mappings(pid: i32, files: &[&Path]) -> io::Result<Vec<Range<u64>>> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps"))?;
    let of_ours = |line: &&str| files.iter().any(|file| line.ends_with(&*file.to_string_lossy()));
    let range = |line: &str| {
        let (from, to) = line.split_whitespace().next()?.split_once('-')?;
        Some(u64::from_str_radix(from, 16).ok()?..u64::from_str_radix(to, 16).ok()?)
    };
    Ok(maps.lines().filter(of_ours).filter_map(range).collect())
}
