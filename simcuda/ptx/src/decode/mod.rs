//! Names into indices: a parsed module into a `Program`. This file does the module level: which
//! variables exist, where shared memory and parameters lie, which kernels there are. The bodies of
//! functions are lowered by the files beside it.

mod arithmetic;
mod flow;
mod labels;
mod logic;
mod lower;
mod memory;
mod modifiers;
mod operand;
mod warp;

use std::collections::HashMap;

use crate::ast::{FunctionText, Init, Source, Variable};
use crate::error::{PtxError, Result};
use crate::program::{Function, Place, Program};
use crate::types::{Space, window};
use crate::{Global, Kernel, Module, Param, Pointer};
use lower::{Lowering, Symbol};

/// More than any device offers a block.
const MAX_SHARED_BYTES: usize = 1 << 20;
/// The bound of CUDA on the parameters of a kernel.
const MAX_PARAM_BYTES: usize = 32_764;
/// Distance between the addresses of two functions.
pub(crate) const CODE_STEP: u64 = 16;

/// What the bodies need to know of their module.
pub(crate) struct Outline<'a> {
    pub(crate) symbols: HashMap<&'a str, Symbol<'a>>,
    pub(crate) signatures: Vec<Signature<'a>>,
    globals: Vec<Variable<'a>>,
    shared_bytes: usize,
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
}

pub(crate) fn decode(source: &Source<'_>) -> Result<Module> {
    let mut outline = outline(source)?;
    let mut program = Program::default();
    let mut uses = vec![Uses::default(); outline.signatures.len()];
    program.functions.resize_with(outline.signatures.len(), Function::default);
    for text in source.functions.iter().filter(|text| text.body.is_some()) {
        let Some(Symbol::Function(index)) = outline.symbols.get(text.name) else { continue };
        let index = *index;
        let lowered = Lowering::new(&outline, &mut program.code, text, index)?.run(text)?;
        program.functions[index] = lowered.function;
        uses[index] = lowered.uses;
        outline.globals.extend(lowered.globals);
        outline.shared_bytes = lowered.shared_bytes;
    }
    let kernels = kernels(source, &outline, &uses)?;
    let globals = globals(&outline)?;
    Ok(Module { program, kernels, globals })
}

fn outline<'a>(source: &Source<'a>) -> Result<Outline<'a>> {
    let mut outline = Outline {
        symbols: HashMap::new(),
        signatures: Vec::new(),
        globals: Vec::new(),
        shared_bytes: 0,
    };
    for variable in &source.variables {
        let symbol = match variable.space {
            Space::Shared if variable.external || variable.size == 0 => {
                Symbol::DynamicShared { element_bytes: variable.ty.bytes() }
            }
            Space::Shared => {
                let offset = place_shared(&mut outline.shared_bytes, variable)?;
                Symbol::Shared { offset, size: variable.size, element_bytes: variable.ty.bytes() }
            }
            _ if variable.external => continue,
            _ => {
                outline.globals.push(variable.clone());
                Symbol::Global {
                    index: outline.globals.len() - 1,
                    element_bytes: variable.ty.bytes(),
                }
            }
        };
        define(&mut outline.symbols, variable.name, symbol, variable.line)?;
    }
    for text in &source.functions {
        declare(&mut outline, text)?;
    }
    Ok(outline)
}

fn define<'a>(
    symbols: &mut HashMap<&'a str, Symbol<'a>>,
    name: &'a str,
    symbol: Symbol<'a>,
    line: u32,
) -> Result<()> {
    match symbols.insert(name, symbol) {
        None => Ok(()),
        Some(_) => Err(PtxError::new(line, format!("`{name}` is defined twice"))),
    }
}

/// A function may be declared any number of times and defined once.
fn declare<'a>(outline: &mut Outline<'a>, text: &FunctionText<'a>) -> Result<()> {
    let known = match outline.symbols.get(text.name) {
        Some(Symbol::Function(index)) => Some(*index),
        Some(_) => {
            return Err(PtxError::new(text.line, format!("`{}` is defined twice", text.name)));
        }
        None => None,
    };
    let mut signature = signature(text);
    let Some(index) = known else {
        outline.symbols.insert(text.name, Symbol::Function(outline.signatures.len()));
        outline.signatures.push(signature);
        return Ok(());
    };
    if !signature.external && !outline.signatures[index].external {
        return Err(PtxError::new(text.line, format!("`{}` is defined twice", text.name)));
    }
    signature.external &= outline.signatures[index].external;
    if !signature.external && text.body.is_some() {
        outline.signatures[index] = signature;
    }
    Ok(())
}

/// Results first, then parameters, each at its alignment: in registers of its own or in the
/// frame's local memory. `Lowering` lays them out the same way.
fn signature<'a>(text: &FunctionText<'a>) -> Signature<'a> {
    let (mut local, mut registers) = (0, 0);
    let mut place = |variable: &Variable<'_>| {
        if variable.space == Space::Reg {
            registers += 1;
            return Place::Register(registers - 1);
        }
        let offset = local_offset(&mut local, variable);
        Place::Local { offset, size: variable.size }
    };
    let returns = text.returns.iter().map(&mut place).collect();
    let params = if text.entry { Vec::new() } else { text.params.iter().map(place).collect() };
    Signature { name: text.name, external: text.body.is_none(), params, returns }
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

fn kernels(source: &Source<'_>, outline: &Outline<'_>, uses: &[Uses]) -> Result<Vec<Kernel>> {
    let mut kernels = Vec::new();
    for text in source.functions.iter().filter(|text| text.entry && text.body.is_some()) {
        let Some(Symbol::Function(function)) = outline.symbols.get(text.name) else { continue };
        kernels.push(Kernel {
            name: text.name.to_owned(),
            params: param_layout(text)?,
            shared_bytes: shared_bytes(*function, uses),
            max_threads: text.max_threads,
            function: *function,
        });
    }
    Ok(kernels)
}

/// Static shared memory of a kernel: the end of what it and all that it may call refer to.
fn shared_bytes(kernel: usize, uses: &[Uses]) -> usize {
    let mut seen = vec![false; uses.len()];
    let mut open = vec![kernel];
    let mut end = 0;
    while let Some(index) = open.pop() {
        if std::mem::replace(&mut seen[index], true) {
            continue;
        }
        end = end.max(uses[index].shared_end);
        open.extend(&uses[index].calls);
        if uses[index].indirect_calls {
            open.extend(0..uses.len());
        }
    }
    end
}

fn globals(outline: &Outline<'_>) -> Result<Vec<Global>> {
    outline.globals.iter().map(|variable| global(variable, outline)).collect()
}

fn global(variable: &Variable<'_>, outline: &Outline<'_>) -> Result<Global> {
    let bytes = variable.ty.bytes();
    let mut init = Vec::with_capacity(variable.init.len() * bytes);
    let mut pointers = Vec::new();
    for value in &variable.init {
        let bits = match *value {
            Init::Bits(bits) => bits,
            Init::Address { of, addend } => match outline.symbols.get(of) {
                Some(Symbol::Global { index, .. }) if bytes == 8 => {
                    pointers.push(Pointer { offset: init.len(), global: *index, addend });
                    0
                }
                Some(Symbol::Function(index)) if bytes == 8 => function_address(*index),
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
