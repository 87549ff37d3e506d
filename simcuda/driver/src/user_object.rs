//! User objects: things of the program's that graphs keep alive, ended by a function of its.

use crate::entry::{Done, Sim};
use crate::registry::Registry;
use crate::{graph, raw};
use shim_cuda_headers::*;
use std::ffi::{c_uint, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

static OBJECTS: Registry<UserObject> = Registry::new(0x48);

/// The destructor may run whenever it likes; the driver demands that the program agrees to that.
const NO_DESTRUCTOR_SYNC: c_uint = 1;
/// The caller's references become the graph's.
const MOVE: c_uint = 1;

#[derive(Debug)]
pub(crate) struct UserObject {
    object: usize,
    destroy: usize,
    count: AtomicU64,
}

impl UserObject {
    /// Takes references away; with the last one goes the object.
    fn release(&self, handle: usize, count: u64) -> Done {
        let left = self
            .count
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |held| held.checked_sub(count))
            .map_err(|_| CUresult::INVALID_VALUE)?;
        if left == count {
            OBJECTS.remove(handle);
            raw::call_host_function(
                std::ptr::with_exposed_provenance_mut(self.destroy),
                std::ptr::with_exposed_provenance_mut(self.object),
            );
        }
        Ok(())
    }
}

/// References that a graph holds: object, its handle, how many.
#[derive(Debug, Default)]
pub(crate) struct Held(Vec<(Arc<UserObject>, usize, u64)>);

impl Held {
    /// The graph is gone, and its references with it.
    pub(crate) fn let_go(held: &mut Self) {
        for (object, handle, count) in std::mem::take(&mut held.0) {
            // The graph had them: they cannot be too many.
            let _ = object.release(handle, count);
        }
    }
}

/// A copy of the graph has references of its own.
impl Clone for Held {
    fn clone(&self) -> Self {
        for (object, _, count) in &self.0 {
            object.count.fetch_add(*count, Ordering::Relaxed);
        }
        Self(self.0.clone())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        Self::let_go(self);
    }
}

fn find(object: CUuserObject) -> Result<Arc<UserObject>, CUresult> {
    OBJECTS.get(object.0).ok_or(CUresult::INVALID_VALUE)
}

impl Sim {
    pub(crate) fn cuUserObjectCreate(
        to: *mut CUuserObject,
        object: *mut c_void,
        destroy: CUhostFn,
        count: c_uint,
        flags: c_uint,
    ) -> Done {
        if to.is_null() || destroy.is_null() || count == 0 || flags != NO_DESTRUCTOR_SYNC {
            return Err(CUresult::INVALID_VALUE);
        }
        let made = UserObject {
            object: object.expose_provenance(),
            destroy: destroy.expose_provenance(),
            count: AtomicU64::new(count.into()),
        };
        raw::put(to, CUuserObject(OBJECTS.add(made)))
    }

    pub(crate) fn cuUserObjectRetain(object: CUuserObject, count: c_uint) -> Done {
        let found = find(object)?;
        if count == 0 {
            return Err(CUresult::INVALID_VALUE);
        }
        found.count.fetch_add(count.into(), Ordering::Relaxed);
        Ok(())
    }

    pub(crate) fn cuUserObjectRelease(object: CUuserObject, count: c_uint) -> Done {
        if count == 0 {
            return Err(CUresult::INVALID_VALUE);
        }
        find(object)?.release(object.0, count.into())
    }

    pub(crate) fn cuGraphRetainUserObject(
        graph: CUgraph,
        object: CUuserObject,
        count: c_uint,
        flags: c_uint,
    ) -> Done {
        let (graph, found) = (graph::find(graph)?, find(object)?);
        if count == 0 || flags & !MOVE != 0 {
            return Err(CUresult::INVALID_VALUE);
        }
        if flags & MOVE == 0 {
            found.count.fetch_add(count.into(), Ordering::Relaxed);
        }
        graph.held().0.push((found, object.0, count.into()));
        Ok(())
    }

    pub(crate) fn cuGraphReleaseUserObject(
        graph: CUgraph,
        object: CUuserObject,
        count: c_uint,
    ) -> Done {
        let (graph, found) = (graph::find(graph)?, find(object)?);
        let mut held = graph.held();
        let mut wanted = u64::from(count);
        let there: u64 =
            held.0.iter().filter(|(_, handle, _)| *handle == object.0).map(|(_, _, n)| n).sum();
        if wanted == 0 || wanted > there {
            return Err(CUresult::INVALID_VALUE);
        }
        for (_, _, count) in held.0.iter_mut().filter(|(_, handle, _)| *handle == object.0) {
            let taken = wanted.min(*count);
            *count -= taken;
            wanted -= taken;
        }
        held.0.retain(|(_, _, count)| *count > 0);
        drop(held);
        found.release(object.0, count.into())
    }
}
