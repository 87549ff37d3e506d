//! Tokens into the tree of `ast.rs`: the module level, that is directives, variables and function
//! headers. Bodies are in `statement.rs`.

use crate::ast::{FunctionText, Init, Linkage, Source, Variable};
use crate::error::{PtxError, Result};
use crate::lex::{Kind, Token, tokens};
use crate::types::{Space, Ty};

/// The largest variable a module may declare: more than any device has.
const MAX_VARIABLE_BYTES: usize = 1 << 40;

pub(crate) struct Parser<'a> {
    tokens: Vec<Token<'a>>,
    at: usize,
}

/// Reads a whole module.
pub(crate) fn parse(text: &str) -> Result<Source<'_>> {
    let mut parser = Parser { tokens: tokens(text)?, at: 0 };
    let mut source = Source::default();
    while parser.peek() != Kind::End {
        parser.item(&mut source)?;
    }
    Ok(source)
}

impl<'a> Parser<'a> {
    fn item(&mut self, source: &mut Source<'a>) -> Result<()> {
        let mut linkage = Linkage::Local;
        loop {
            let line = self.line();
            let Kind::Dotted(directive) = self.peek() else {
                return Err(self.unexpected("a directive such as .entry or .global"));
            };
            self.at += 1;
            match directive {
                "extern" => linkage = Linkage::External,
                "visible" => linkage = Linkage::Visible,
                "weak" => linkage = Linkage::Weak,
                "common" => linkage = Linkage::Common,
                "version" | "target" | "address_size" | "file" | "loc" => {
                    self.skip_line(line);
                    return Ok(());
                }
                "section" => return self.skip_braces(),
                "pragma" | "alias" => return self.skip_past(b';'),
                "entry" | "func" => {
                    let function = self.function(directive == "entry", linkage, line)?;
                    source.functions.push(function);
                    return Ok(());
                }
                "global" | "const" | "shared" => {
                    let space = Space::named(directive).unwrap_or(Space::Global);
                    return self.variables(space, linkage, &mut source.variables);
                }
                other => {
                    return Err(PtxError::new(line, format!("directive `.{other}` is not known")));
                }
            }
        }
    }

    fn function(&mut self, entry: bool, linkage: Linkage, line: u32) -> Result<FunctionText<'a>> {
        let returns = if self.peek() == Kind::Mark(b'(') { self.formals()? } else { Vec::new() };
        let name = self.word("the function's name")?;
        let params = if self.peek() == Kind::Mark(b'(') { self.formals()? } else { Vec::new() };
        let max_threads = self.performance_directives()?;
        let body = if self.eat(b';') { None } else { Some(self.body()?) };
        Ok(FunctionText { name, line, entry, linkage, returns, params, max_threads, body })
    }

    fn formals(&mut self) -> Result<Vec<Variable<'a>>> {
        self.expect(b'(')?;
        let mut formals = Vec::new();
        while !self.eat(b')') {
            let space = match self.peek() {
                Kind::Dotted("param") => Space::Param,
                Kind::Dotted("reg") => Space::Reg,
                _ => return Err(self.unexpected("a .param or .reg declaration")),
            };
            self.at += 1;
            let (ty, align, lanes) = self.type_and_alignment()?;
            formals.push(self.declarator(space, ty, align, lanes, Linkage::Local)?);
            if !self.eat(b',') && self.peek() != Kind::Mark(b')') {
                return Err(self.unexpected("`,` or `)`"));
            }
        }
        Ok(formals)
    }

    /// What may stand between a header and its body. Only the bound on threads matters here.
    fn performance_directives(&mut self) -> Result<Option<u32>> {
        let mut max_threads = None;
        while let Kind::Dotted(directive) = self.peek() {
            let line = self.line();
            self.at += 1;
            if directive == "pragma" {
                self.skip_past(b';')?;
                continue;
            }
            let mut product = 1_u64;
            while let Kind::Int(value) = self.peek() {
                self.at += 1;
                product = product.saturating_mul(value);
                if !self.eat(b',') {
                    break;
                }
            }
            if matches!(directive, "maxntid" | "reqntid") {
                let threads = u32::try_from(product)
                    .map_err(|_| PtxError::new(line, format!(".{directive} is out of range")))?;
                max_threads = Some(threads);
            }
        }
        Ok(max_threads)
    }

    /// The declarations after a state space, up to and with the semicolon.
    pub(crate) fn variables(
        &mut self,
        space: Space,
        linkage: Linkage,
        into: &mut Vec<Variable<'a>>,
    ) -> Result<()> {
        let (ty, align, lanes) = self.type_and_alignment()?;
        loop {
            let mut variable = self.declarator(space, ty, align, lanes, linkage)?;
            if self.eat(b'=') {
                variable.init = self.initialiser()?;
            }
            if variable.init.len().saturating_mul(ty.bytes()) > variable.size {
                return Err(PtxError::new(
                    variable.line,
                    format!("the initialiser of `{}` is longer than the variable", variable.name),
                ));
            }
            into.push(variable);
            if self.eat(b';') {
                return Ok(());
            }
            self.expect(b',')?;
        }
    }

    /// Type, alignment (0 when not given) and vector length, in whatever order they come.
    pub(crate) fn type_and_alignment(&mut self) -> Result<(Ty, usize, usize)> {
        let (mut ty, mut align, mut lanes) = (None, 0, 1);
        let mut pointee = false;
        while let Kind::Dotted(word) = self.peek() {
            self.at += 1;
            match word {
                "align" => {
                    let bytes = self.integer("an alignment")?;
                    if !bytes.is_power_of_two() || bytes > 4096 {
                        return Err(self.before(format!("an alignment of {bytes} is not possible")));
                    }
                    // After `.ptr` it is about what the pointer points at.
                    if !pointee {
                        align = bytes as usize;
                    }
                }
                "ptr" => pointee = true,
                "v2" => lanes = 2,
                "v4" => lanes = 4,
                "attribute" => self.skip_past(b')')?,
                _ if pointee && Space::named(word).is_some() => {}
                _ => match Ty::named(word) {
                    Some(named) => ty = Some(named),
                    None => return Err(self.before(format!("`.{word}` is not a type"))),
                },
            }
        }
        let ty = ty.ok_or_else(|| self.unexpected("a type such as .b32"))?;
        Ok((ty, align, lanes))
    }

    fn declarator(
        &mut self,
        space: Space,
        ty: Ty,
        align: usize,
        lanes: usize,
        linkage: Linkage,
    ) -> Result<Variable<'a>> {
        let line = self.line();
        let name = self.word("a name")?;
        let mut count = None;
        if self.eat(b'<') {
            count = Some(self.integer("a number of variables")?);
            self.expect(b'>')?;
        }
        let mut size = ty.bytes() * lanes;
        let natural = size;
        while self.eat(b'[') {
            let count = match self.peek() {
                // `extern .shared x[]`: its size comes with the launch.
                Kind::Mark(b']') => 0,
                _ => self.integer("a number of elements")? as usize,
            };
            self.expect(b']')?;
            size = size
                .checked_mul(count)
                .filter(|&bytes| bytes <= MAX_VARIABLE_BYTES)
                .ok_or_else(|| PtxError::new(line, format!("`{name}` is too large")))?;
        }
        let align = if align == 0 { natural } else { align };
        Ok(Variable { name, line, space, ty, align, size, init: Vec::new(), linkage, count })
    }

    fn initialiser(&mut self) -> Result<Vec<Init<'a>>> {
        let mut values = Vec::new();
        let mut depth = 0_u32;
        loop {
            if self.eat(b'{') {
                depth += 1;
                continue;
            }
            if self.peek() != Kind::Mark(b'}') {
                values.push(self.initial_value()?);
            }
            while depth > 0 && self.eat(b'}') {
                depth -= 1;
            }
            if depth == 0 {
                return Ok(values);
            }
            self.expect(b',')?;
        }
    }

    fn initial_value(&mut self) -> Result<Init<'a>> {
        let negative = self.eat(b'-');
        match self.peek() {
            Kind::Int(value) => {
                self.at += 1;
                Ok(Init::Bits(if negative { value.wrapping_neg() } else { value }))
            }
            Kind::Single(bits) => {
                self.at += 1;
                Ok(Init::Bits(u64::from(bits) ^ if negative { 1 << 31 } else { 0 }))
            }
            Kind::Double(bits) => {
                self.at += 1;
                Ok(Init::Bits(bits ^ if negative { 1 << 63 } else { 0 }))
            }
            Kind::Word(word) if !negative => {
                self.at += 1;
                let generic = word == "generic" && self.eat(b'(');
                let of = if generic { self.word("a variable")? } else { word };
                if generic {
                    self.expect(b')')?;
                }
                let addend = if self.eat(b'+') { self.integer("an offset")? } else { 0 };
                Ok(Init::Address { of, addend })
            }
            _ => Err(self.unexpected("an initial value")),
        }
    }

    pub(crate) fn peek(&self) -> Kind<'a> {
        self.tokens[self.at].kind
    }

    pub(crate) fn peek_second(&self) -> Kind<'a> {
        self.tokens.get(self.at + 1).map_or(Kind::End, |token| token.kind)
    }

    pub(crate) fn line(&self) -> u32 {
        self.tokens[self.at].line
    }

    /// Steps over one token; the end stays where it is.
    pub(crate) fn advance(&mut self) {
        if self.peek() != Kind::End {
            self.at += 1;
        }
    }

    pub(crate) fn eat(&mut self, mark: u8) -> bool {
        let found = self.peek() == Kind::Mark(mark);
        if found {
            self.at += 1;
        }
        found
    }

    pub(crate) fn expect(&mut self, mark: u8) -> Result<()> {
        if self.eat(mark) {
            return Ok(());
        }
        Err(self.unexpected(&format!("`{}`", mark as char)))
    }

    pub(crate) fn word(&mut self, what: &str) -> Result<&'a str> {
        match self.peek() {
            Kind::Word(word) => {
                self.at += 1;
                Ok(word)
            }
            _ => Err(self.unexpected(what)),
        }
    }

    pub(crate) fn integer(&mut self, what: &str) -> Result<u64> {
        let negative = self.eat(b'-');
        match self.peek() {
            Kind::Int(value) => {
                self.at += 1;
                Ok(if negative { value.wrapping_neg() } else { value })
            }
            _ => Err(self.unexpected(what)),
        }
    }

    /// An error about the token in hand.
    pub(crate) fn unexpected(&self, wanted: &str) -> PtxError {
        let found = match self.peek() {
            Kind::Word(word) => format!("`{word}`"),
            Kind::Dotted(word) => format!("`.{word}`"),
            Kind::Mark(mark) => format!("`{}`", mark as char),
            Kind::Text(_) => "a string".to_owned(),
            Kind::Int(_) | Kind::Single(_) | Kind::Double(_) => "a number".to_owned(),
            Kind::End => "the end of the text".to_owned(),
        };
        PtxError::new(self.line(), format!("expected {wanted}, found {found}"))
    }

    /// An error about the token just read.
    fn before(&self, reason: String) -> PtxError {
        PtxError::new(self.tokens[self.at.saturating_sub(1)].line, reason)
    }

    /// Steps over the rest of a directive that ends with its line.
    pub(crate) fn skip_line(&mut self, line: u32) {
        while self.peek() != Kind::End && self.line() == line {
            self.at += 1;
        }
    }

    pub(crate) fn skip_past(&mut self, mark: u8) -> Result<()> {
        while self.peek() != Kind::End {
            if self.eat(mark) {
                return Ok(());
            }
            self.at += 1;
        }
        Err(self.unexpected(&format!("`{}`", mark as char)))
    }

    pub(crate) fn skip_braces(&mut self) -> Result<()> {
        let mut depth = 0_u32;
        while self.peek() != Kind::End {
            if self.eat(b'{') {
                depth += 1;
            } else if self.eat(b'}') {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return Ok(());
                }
            } else {
                self.at += 1;
            }
        }
        Err(self.unexpected("`}`"))
    }
}
