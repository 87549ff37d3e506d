//! (being written)
pub(crate) fn unload_all(_: &crate::context::Context) {}
