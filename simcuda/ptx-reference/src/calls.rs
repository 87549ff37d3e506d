//! Calls of a program's own functions: two words in, one out, over parameters in memory.

use crate::program::{Register, Source};

#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) function: usize,
    /// By way of an address in a register.
    pub(crate) indirect: bool,
    pub(crate) d: Register,
    pub(crate) arguments: [Source; 2],
}
