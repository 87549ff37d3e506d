//! Graphs made ready: their tasks in an order that respects all dependencies, launched as a whole,
//! changed without making them anew.

use crate::capture;
use crate::command::Work;
use crate::entry::{Done, Sim};
use crate::event::{self, Record};
use crate::graph::Graph;
use crate::graph_task::{KernelTask, Task};
use crate::raw;
use crate::registry::Registry;
use crate::stream::{self, Stream};
use crate::user_object::Held;
use shim_cuda_headers::*;
use std::ffi::c_uint;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

static EXECS: Registry<Exec> = Registry::new(0x41);
static LAST_ID: AtomicU32 = AtomicU32::new(0);

pub(crate) const AUTO_FREE: u64 = 1;
pub(crate) const UPLOAD: u64 = 2;
pub(crate) const DEVICE_LAUNCH: u64 = 4;
const KNOWN_FLAGS: u64 = 15;

/// One node, made ready.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    /// Handle of the node that it came from.
    pub(crate) node: usize,
    pub(crate) task: Task,
    pub(crate) enabled: bool,
    /// For a graph within the graph: its steps.
    pub(crate) inner: Vec<Self>,
    /// Places, in the order of creation, of the nodes that it follows: what an update compares.
    pub(crate) after: Vec<usize>,
}

#[derive(Debug)]
pub(crate) struct Exec {
    id: u32,
    pub(crate) flags: u64,
    steps: Mutex<Vec<Step>>,
    /// The latest launch's end: launches of one graph follow each other.
    latest: Mutex<Option<Arc<Record>>>,
    /// What it was made of; may take and give memory, and be ready once only.
    source: Arc<Graph>,
    _held: Held,
}

impl Exec {
    pub(crate) fn steps(&self) -> MutexGuard<'_, Vec<Step>> {
        self.steps.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Exec {
    fn drop(&mut self) {
        self.source.ready.store(false, Ordering::Relaxed);
    }
}

/// The graph's nodes in order, or `None` if they make a circle.
pub(crate) fn steps_of(graph: &Graph) -> Option<Vec<Step>> {
    let nodes = graph.nodes();
    let order = Graph::in_order(&nodes)?;
    let place = |handle: usize| nodes.keys().position(|other| *other == handle);
    let mut steps = Vec::with_capacity(order.len());
    for handle in order {
        let node = &nodes[&handle];
        let inner = match &node.task {
            Task::Child(child) => steps_of(child)?,
            _ => Vec::new(),
        };
        let mut after: Vec<usize> = node.after.iter().filter_map(|edge| place(edge.from)).collect();
        after.sort_unstable();
        steps.push(Step { node: handle, task: node.task.clone(), enabled: true, inner, after });
    }
    Some(steps)
}

pub(crate) fn find(exec: CUgraphExec) -> Result<Arc<Exec>, CUresult> {
    EXECS.get(exec.0).ok_or(CUresult::INVALID_VALUE)
}

/// The step of the node, also within inner graphs.
fn step(steps: &mut [Step], node: usize) -> Option<&mut Step> {
    for step in steps {
        if step.node == node {
            return Some(step);
        }
        if let Some(found) = self::step(&mut step.inner, node) {
            return Some(found);
        }
    }
    None
}

pub(crate) fn task_of(exec: CUgraphExec, node: CUgraphNode) -> Result<Task, CUresult> {
    let exec = find(exec)?;
    let mut steps = exec.steps();
    step(&mut steps, node.0).map(|step| step.task.clone()).ok_or(CUresult::INVALID_VALUE)
}

/// Has the node's step do something else of the same kind.
pub(crate) fn set_task(exec: CUgraphExec, node: CUgraphNode, task: Task) -> Done {
    let exec = find(exec)?;
    let mut steps = exec.steps();
    let step = step(&mut steps, node.0).ok_or(CUresult::INVALID_VALUE)?;
    replace(step, task)
}

pub(crate) fn replace(step: &mut Step, task: Task) -> Done {
    match (&step.task, task) {
        // Memory stays where it is.
        (Task::Allocate(_) | Task::Free(_) | Task::Child(_), _) => Err(CUresult::INVALID_VALUE),
        // Attributes stay; another context's function cannot come in.
        (Task::Kernel(before), Task::Kernel(after)) => {
            if before.context != after.context {
                return Err(CUresult::INVALID_VALUE);
            }
            let attributes = before.attributes.clone();
            step.task = Task::Kernel(KernelTask { attributes, ..after });
            Ok(())
        }
        (before, after) if before.kind() == after.kind() => {
            step.task = after;
            Ok(())
        }
        _ => Err(CUresult::INVALID_VALUE),
    }
}

/// Replaces what an inner graph does by what a graph of the same shape does.
pub(crate) fn set_child(exec: CUgraphExec, node: CUgraphNode, graph: &Graph) -> Done {
    let exec = find(exec)?;
    let mut steps = exec.steps();
    let step = step(&mut steps, node.0).ok_or(CUresult::INVALID_VALUE)?;
    if !matches!(step.task, Task::Child(_)) {
        return Err(CUresult::INVALID_VALUE);
    }
    let fresh = steps_of(graph).ok_or(CUresult::INVALID_VALUE)?;
    let same = |(a, b): (&Step, &Step)| a.task.kind() == b.task.kind() && a.after == b.after;
    if fresh.len() != step.inner.len() || !step.inner.iter().zip(&fresh).all(same) {
        return Err(CUresult::INVALID_VALUE);
    }
    for (old, new) in step.inner.iter_mut().zip(fresh) {
        old.task = new.task;
        old.inner = new.inner;
    }
    Ok(())
}

/// Makes the graph ready.
pub(crate) fn instantiate(graph: &Arc<Graph>, flags: u64) -> Result<CUgraphExec, CUresult> {
    if flags & !KNOWN_FLAGS != 0 || graph.capturing.load(Ordering::Relaxed) {
        return Err(CUresult::INVALID_VALUE);
    }
    // Kernels that launch graphs need a device runtime, which is not in this driver.
    if flags & DEVICE_LAUNCH != 0 {
        return Err(CUresult::NOT_SUPPORTED);
    }
    let steps = steps_of(graph).ok_or(CUresult::INVALID_VALUE)?;
    if graph.has_memory() && graph.ready.swap(true, Ordering::Relaxed) {
        return Err(CUresult::NOT_SUPPORTED);
    }
    let exec = Exec {
        id: LAST_ID.fetch_add(1, Ordering::Relaxed) + 1,
        flags,
        steps: Mutex::new(steps),
        latest: Mutex::default(),
        source: Arc::clone(graph),
        _held: graph.held().clone(),
    };
    Ok(CUgraphExec(EXECS.add(exec)))
}

/// Memory that these steps take, and that they give.
fn memory(steps: &[Step]) -> (Vec<Arc<crate::graph_memory::GraphBlock>>, Vec<u64>) {
    let (mut taken, mut given) = (Vec::new(), Vec::new());
    for step in steps {
        match &step.task {
            Task::Allocate(block) => taken.push(Arc::clone(block)),
            Task::Free(block) => given.push(block.base),
            _ => {}
        }
    }
    (taken, given)
}

/// Takes what the launch needs before anything is queued: all of it, or the launch is refused.
fn obtain(exec: &Exec, steps: &[Step], stream: &Stream) -> Done {
    let (taken, given) = memory(steps);
    for block in taken.iter().filter(|block| block.is_open()) {
        if exec.flags & AUTO_FREE == 0 {
            return Err(CUresult::INVALID_VALUE);
        }
        block.close()?;
        stream.submit(Work::End(Arc::clone(block)))?;
    }
    for (index, block) in taken.iter().enumerate() {
        if let Err(code) = block.obtain(given.contains(&block.base)) {
            for obtained in &taken[..index] {
                let _ = obtained.close();
                obtained.end();
            }
            return Err(code);
        }
    }
    // What an earlier launch of another graph took, this one gives.
    let own = |base: &u64| taken.iter().any(|block| block.base == *base);
    for block in given.iter().filter(|b| !own(b)).filter_map(|b| crate::graph_memory::at(*b)) {
        block.close()?;
    }
    Ok(())
}

fn run(steps: &[Step], stream: &Stream) -> Done {
    for step in steps.iter().filter(|step| step.enabled) {
        match &step.task {
            Task::Child(_) => run(&step.inner, stream)?,
            Task::Record(event) => event::record_in(CUevent(*event), stream)?,
            Task::Wait(event) => {
                if let Some(record) = event::latest_record(CUevent(*event))? {
                    stream.submit(Work::Await(record))?;
                }
            }
            task => task.works().into_iter().try_for_each(|work| stream.submit(work).map(drop))?,
        }
    }
    Ok(())
}

fn launch(exec: &Exec, stream: &Stream) -> Done {
    stream.context.engine.check()?;
    if stream.is_capturing() {
        let child = exec.source.copy(true)?;
        return capture::add(stream, Task::Child(child));
    }
    let steps = exec.steps().clone();
    let mut latest = exec.latest.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(before) = latest.take() {
        stream.submit(Work::Await(before))?;
    }
    obtain(exec, &steps, stream)?;
    run(&steps, stream)?;
    let end = Arc::new(Record::default());
    stream.submit(Work::Record(Arc::clone(&end)))?;
    *latest = Some(end);
    Ok(())
}

impl Sim {
    /// Partial: checked; a launch needs no upload.
    pub(crate) fn cuGraphUpload(exec: CUgraphExec, stream: CUstream) -> Done {
        find(exec)?;
        let stream = stream::resolve(stream)?;
        capture::forbid_on(&stream)?;
        stream.context.engine.check()
    }

    pub(crate) fn cuGraphLaunch(exec: CUgraphExec, stream: CUstream) -> Done {
        let exec = find(exec)?;
        launch(&exec, &*stream::resolve(stream)?)
    }

    pub(crate) fn cuGraphExecDestroy(exec: CUgraphExec) -> Done {
        let gone = EXECS.remove(exec.0).ok_or(CUresult::INVALID_VALUE)?;
        gone.source.ready.store(false, Ordering::Relaxed);
        Ok(())
    }

    pub(crate) fn cuGraphExecGetFlags(exec: CUgraphExec, flags: *mut u64) -> Done {
        raw::put(flags, find(exec)?.flags)
    }

    pub(crate) fn cuGraphExecGetId(exec: CUgraphExec, id: *mut c_uint) -> Done {
        raw::put(id, find(exec)?.id)
    }

    /// Only kernels, copies and fills can be switched off.
    pub(crate) fn cuGraphNodeSetEnabled(
        exec: CUgraphExec,
        node: CUgraphNode,
        enabled: c_uint,
    ) -> Done {
        let exec = find(exec)?;
        let mut steps = exec.steps();
        let step = step(&mut steps, node.0).ok_or(CUresult::INVALID_VALUE)?;
        if !matches!(step.task, Task::Kernel(_) | Task::Copy(_) | Task::Fill { .. }) {
            return Err(CUresult::INVALID_VALUE);
        }
        step.enabled = enabled != 0;
        Ok(())
    }

    pub(crate) fn cuGraphNodeGetEnabled(
        exec: CUgraphExec,
        node: CUgraphNode,
        enabled: *mut c_uint,
    ) -> Done {
        let exec = find(exec)?;
        let mut steps = exec.steps();
        let step = step(&mut steps, node.0).ok_or(CUresult::INVALID_VALUE)?;
        if !matches!(step.task, Task::Kernel(_) | Task::Copy(_) | Task::Fill { .. }) {
            return Err(CUresult::INVALID_VALUE);
        }
        raw::put(enabled, c_uint::from(step.enabled))
    }
}
