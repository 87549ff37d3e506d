//! Handles: what a program holds instead of an object. A number that no object has is
//! `INVALID_HANDLE` (or what its call says), never a wild pointer.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

#[derive(Debug)]
pub(crate) struct Registry<T> {
    next: AtomicUsize,
    objects: RwLock<BTreeMap<usize, Arc<T>>>,
}

impl<T> Registry<T> {
    /// `kind` keeps the handles of different registries apart.
    pub(crate) const fn new(kind: usize) -> Self {
        Self { next: AtomicUsize::new((kind << 40) + 64), objects: RwLock::new(BTreeMap::new()) }
    }

    /// A handle that no object has or will have but the one that it is used for.
    pub(crate) fn fresh(&self) -> usize {
        self.next.fetch_add(64, Ordering::Relaxed)
    }

    pub(crate) fn insert(&self, handle: usize, object: Arc<T>) {
        self.objects.write().unwrap_or_else(PoisonError::into_inner).insert(handle, object);
    }

    /// Registers the object under a handle of its own.
    pub(crate) fn add(&self, object: T) -> usize {
        let handle = self.fresh();
        self.insert(handle, Arc::new(object));
        handle
    }

    pub(crate) fn get(&self, handle: usize) -> Option<Arc<T>> {
        self.objects.read().unwrap_or_else(PoisonError::into_inner).get(&handle).cloned()
    }

    pub(crate) fn remove(&self, handle: usize) -> Option<Arc<T>> {
        self.objects.write().unwrap_or_else(PoisonError::into_inner).remove(&handle)
    }

    /// Takes out all that `chosen` says.
    pub(crate) fn remove_all(&self, chosen: impl Fn(&T) -> bool) -> Vec<Arc<T>> {
        let mut objects = self.objects.write().unwrap_or_else(PoisonError::into_inner);
        let handles: Vec<usize> = objects
            .iter()
            .filter(|(_, object)| chosen(object))
            .map(|(handle, _)| *handle)
            .collect();
        handles.into_iter().filter_map(|handle| objects.remove(&handle)).collect()
    }

    /// A handle of an object that `chosen` says.
    pub(crate) fn find_handle(&self, chosen: impl Fn(&T) -> bool) -> Option<usize> {
        let objects = self.objects.read().unwrap_or_else(PoisonError::into_inner);
        objects.iter().find(|(_, object)| chosen(object)).map(|(handle, _)| *handle)
    }

    pub(crate) fn all(&self) -> Vec<Arc<T>> {
        self.objects.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }
}
