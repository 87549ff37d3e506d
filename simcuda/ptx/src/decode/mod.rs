//! Names into indices: parsed texts into one `Program`. `outline.rs` says what exists and what names
//! mean; this file makes kernels and variables of it, and has the bodies of functions lowered by the
//! files beside it.

mod arithmetic;
mod flow;
mod labels;
mod logic;
mod lower;
mod memory;
mod modifiers;
mod names;
mod operand;
mod outline;
mod warp;

use std::cell::Cell;
use std::collections::{HashMap, HashSet};

use crate::ast::{FunctionText, Init, Variable};
use crate::error::{LinkError, PtxError, Result};
use crate::program::{Function, Place, Program};
use crate::types::{Space, window};
use crate::{Global, Kernel, Module, Param, Pointer};
use lower::{Lowering, Symbol};
use outline::Symbols;
pub(crate) use outline::Unit;

/// More than any device offers a block.
const MAX_SHARED_BYTES: usize = 1 << 20;
/// The bound of CUDA on the parameters of a kernel.
const MAX_PARAM_BYTES: usize = 32_764;
/// Steps along calls for all kernels of a module together.
const MAX_CALL_STEPS: usize = 1 << 22;
/// The heap that CUDA gives a program that does not ask for another.
pub(crate) const HEAP_BYTES: usize = 8 << 20;
/// Distance between the addresses of two functions.
pub(crate) const CODE_STEP: u64 = 16;

/// What the bodies need to know of their module.
#[derive(Default)]
pub(crate) struct Outline<'a> {
    /// What names mean, in each of the texts.
    pub(crate) symbols: Vec<Symbols<'a>>,
    pub(crate) signatures: Vec<Signature<'a>>,
    /// With the text they are of.
    globals: Vec<(usize, Variable<'a>)>,
    shared_bytes: usize,
    /// The text that has the definition of a name that several may have.
    winners: HashMap<&'a str, usize>,
}

/// How a function is called. `external` ones have no body here.
pub(crate) struct Signature<'a> {
    pub(crate) name: &'a str,
    pub(crate) external: bool,
    pub(crate) params: Vec<Place>,
    pub(crate) returns: Vec<Place>,
}

/// What a function's body turned out to use; summed over calls for each kernel.
#[derive(Clone, Default)]
pub(crate) struct Uses {
    pub(crate) shared_end: usize,
    pub(crate) calls: Vec<usize>,
    pub(crate) indirect_calls: bool,
    /// `malloc` or `free`.
    pub(crate) heap: bool,
}

/// One module out of the texts, whose names for each other are resolved.
pub(crate) fn decode(units: &[Unit<'_>]) -> std::result::Result<Module, LinkError> {
    let mut outline = outline::outline(units)?;
    let mut program = Program::default();
    let mut uses = vec![Uses::default(); outline.signatures.len()];
    program.functions.resize_with(outline.signatures.len(), Function::default);
    for (index, unit) in units.iter().enumerate() {
        let in_unit = |error: PtxError| LinkError::of(unit.name, error);
        for text in unit.source.functions.iter().filter(|text| text.body.is_some()) {
            if !outline.uses_body(index, text) {
                continue;
            }
            let Some(Symbol::Function(function)) = outline.symbols[index].get(text.name) else {
                continue;
            };
            let function = *function;
            let lowering = Lowering::new(&outline, index, &mut program.code, text, function);
            let lowered = lowering.and_then(|lowering| lowering.run(text)).map_err(in_unit)?;
            program.functions[function] = lowered.function;
            uses[function] = lowered.uses;
            outline.globals.extend(lowered.globals.into_iter().map(|global| (index, global)));
            outline.shared_bytes = lowered.shared_bytes;
        }
    }
    let kernels = kernels(units, &outline, &uses)?;
    let mut globals = globals(units, &outline)?;
    if uses.iter().any(|uses| uses.heap) {
        program.heap = Some(globals.len());
        globals.push(heap());
    }
    Ok(Module { program, kernels, globals })
}

/// The memory that `malloc` gives out on the device.
fn heap() -> Global {
    Global {
        name: "%heap".to_owned(),
        size: HEAP_BYTES,
        align: 256,
        init: Vec::new(),
        pointers: Vec::new(),
        constant: false,
    }
}

/// The next free place for `variable` in local memory.
pub(crate) fn local_offset(end: &mut usize, variable: &Variable<'_>) -> usize {
    let offset = end.next_multiple_of(variable.align);
    *end = offset.saturating_add(variable.size);
    offset
}

pub(crate) fn place_shared(end: &mut usize, variable: &Variable<'_>) -> Result<usize> {
    let offset = end.next_multiple_of(variable.align);
    let after = offset.saturating_add(variable.size);
    if after > MAX_SHARED_BYTES {
        return Err(PtxError::new(
            variable.line,
            format!("shared memory up to `{}` is over {MAX_SHARED_BYTES} bytes", variable.name),
        ));
    }
    *end = after;
    Ok(offset)
}

/// Places of a kernel's parameters in its parameter buffer.
pub(crate) fn param_layout(text: &FunctionText<'_>) -> Result<Vec<Param>> {
    let mut end = 0_usize;
    let mut params = Vec::with_capacity(text.params.len());
    for variable in &text.params {
        let offset = end.next_multiple_of(variable.align);
        end = offset.saturating_add(variable.size);
        if end > MAX_PARAM_BYTES || variable.space == Space::Reg {
            return Err(PtxError::new(
                variable.line,
                format!("parameter `{}` of a kernel does not fit", variable.name),
            ));
        }
        params.push(Param { offset, size: variable.size, align: variable.align });
    }
    Ok(params)
}

fn kernels(
    units: &[Unit<'_>],
    outline: &Outline<'_>,
    uses: &[Uses],
) -> std::result::Result<Vec<Kernel>, LinkError> {
    let mut kernels = Vec::new();
    let shared = SharedBytes::new(uses);
    for (index, unit) in units.iter().enumerate() {
        for text in unit.source.functions.iter().filter(|text| text.entry && text.body.is_some()) {
            let Some(Symbol::Function(function)) = outline.symbols[index].get(text.name) else {
                continue;
            };
            if !outline.uses_body(index, text) {
                continue;
            }
            kernels.push(Kernel {
                name: text.name.to_owned(),
                params: param_layout(text).map_err(|error| LinkError::of(unit.name, error))?,
                shared_bytes: shared.of(*function),
                max_threads: text.max_threads,
                function: Some(*function),
            });
        }
    }
    Ok(kernels)
}

/// Static shared memory of kernels: the end of what a kernel and all that it may call refer to.
struct SharedBytes<'u> {
    uses: &'u [Uses],
    /// Of all functions together: what a call by address may reach.
    all: usize,
    /// Steps that walks may still take; then a kernel gets the most there is, which is never wrong.
    steps: Cell<usize>,
}

impl<'u> SharedBytes<'u> {
    fn new(uses: &'u [Uses]) -> Self {
        let all = uses.iter().map(|uses| uses.shared_end).max().unwrap_or(0);
        Self { uses, all, steps: Cell::new(MAX_CALL_STEPS) }
    }

    fn of(&self, kernel: usize) -> usize {
        let mut seen = HashSet::from([kernel]);
        let mut open = vec![kernel];
        let mut end = 0;
        while let Some(index) = open.pop() {
            let uses = &self.uses[index];
            // Nothing more to learn: the rest of the walk can only find less.
            let left = self.steps.get().saturating_sub(1 + uses.calls.len());
            self.steps.set(left);
            if uses.indirect_calls || end == self.all || left == 0 {
                return self.all;
            }
            end = end.max(uses.shared_end);
            open.extend(uses.calls.iter().filter(|call| seen.insert(**call)));
        }
        end
    }
}

fn globals(
    units: &[Unit<'_>],
    outline: &Outline<'_>,
) -> std::result::Result<Vec<Global>, LinkError> {
    let each = outline.globals.iter();
    each.map(|(unit, variable)| {
        let symbols = &outline.symbols[*unit];
        global(variable, symbols).map_err(|error| LinkError::of(units[*unit].name, error))
    })
    .collect()
}

fn global(variable: &Variable<'_>, symbols: &Symbols<'_>) -> Result<Global> {
    let bytes = variable.ty.bytes();
    let mut init = Vec::with_capacity(variable.init.len() * bytes);
    let mut pointers = Vec::new();
    for value in &variable.init {
        let bits = match *value {
            Init::Bits(bits) => bits,
            Init::Address { of, addend } => match symbols.get(of) {
                Some(Symbol::Global { index, .. }) if bytes == 8 => {
                    pointers.push(Pointer { offset: init.len(), global: *index, addend });
                    0
                }
                Some(Symbol::Function(index)) if bytes == 8 => function_address(*index),
                Some(Symbol::Undefined) => return Err(PtxError::undefined(variable.line, of)),
                _ => {
                    return Err(PtxError::new(
                        variable.line,
                        format!("`{}` cannot start with the address of `{of}`", variable.name),
                    ));
                }
            },
        };
        init.extend_from_slice(&bits.to_le_bytes()[..bytes]);
    }
    Ok(Global {
        name: variable.name.to_owned(),
        size: variable.size,
        align: variable.align,
        init,
        pointers,
        constant: variable.space == Space::Const,
    })
}

pub(crate) fn function_address(index: usize) -> u64 {
    window::CODE + (index as u64 + 1) * CODE_STEP
}
