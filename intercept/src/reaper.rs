//! Our thread's part in frees: what is dying is unmapped once no work can touch it, which is seen by
//! marks behind all work of every card. Nothing is waited for.

use std::time::Duration;

use shim_cuda_headers::CUdeviceptr;

use crate::{
    backing,
    mark::{Marks, State},
    process::Process,
};

const FIRST_LOOK: Duration = Duration::from_micros(20);
const LAST_LOOK: Duration = Duration::from_micros(500);
/// While something is captured, or on its way.
const LATER: Duration = Duration::from_millis(5);

/// Our thread's memory of it.
#[derive(Debug, Default)]
pub(crate) struct Reaper {
    list: Vec<CUdeviceptr>,
    marks: Option<Marks>,
    look: Duration,
}

impl Reaper {
    /// Goes on; when to look again, if at all.
    pub(crate) fn step(&mut self, process: &Process) -> Option<Duration> {
        if self.list.is_empty() {
            self.list = process.swap.backing().take_dying();
            self.look = FIRST_LOOK;
        }
        if self.list.is_empty() {
            return None;
        }
        match self.marks.get_or_insert_with(|| Marks::set(process, process.slots())).look() {
            State::Running => {
                let look = self.look;
                self.look = (look * 2).min(LAST_LOOK);
                Some(look)
            }
            // Work beside an open capture can't be seen.
            State::Captured => {
                self.marks = None;
                Some(LATER)
            }
            State::Passed => {
                self.marks = None;
                self.reap(process);
                // Others may have come meanwhile.
                Some(if self.list.is_empty() { Duration::ZERO } else { LATER })
            }
        }
    }

    /// No work is left on any card: takes all back that is dying.
    pub(crate) fn reap_all(&mut self, process: &Process) {
        self.marks.take().into_iter().for_each(Marks::abandon);
        self.list.extend(process.swap.backing().take_dying());
        self.reap(process);
    }

    fn reap(&mut self, process: &Process) {
        let stuck = std::mem::take(&mut *process.swap.stuck());
        let gone = {
            let mut backing = process.swap.backing();
            // Who waits does so until the driver has it all back, not only the books.
            process.swap.set_reaping(true);
            backing.reap(&mut self.list)
        };
        for gone in stuck.into_iter().chain(gone) {
            backing::undo_or_keep(process, gone);
        }
        process.swap.set_reaping(false);
    }
}
