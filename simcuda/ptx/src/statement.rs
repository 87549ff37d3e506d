//! The statements of a function body and the operands of its instructions.

use crate::ast::{Base, Guard, Instruction, Linkage, Operand, Statement};
use crate::error::{PtxError, Result};
use crate::lex::Kind;
use crate::parse::Parser;
use crate::types::Space;

/// Blocks inside blocks; compilers use two or three.
const MAX_DEPTH: usize = 64;
/// The longest opcodes of the ISA have about a dozen.
const MAX_MODIFIERS: usize = 32;

impl<'a> Parser<'a> {
    pub(crate) fn body(&mut self) -> Result<Vec<Statement<'a>>> {
        self.expect(b'{')?;
        let mut statements = Vec::new();
        let mut depth = 1;
        loop {
            if self.eat(b'{') {
                depth += 1;
                if depth > MAX_DEPTH {
                    return Err(self.unexpected("fewer blocks inside blocks"));
                }
                statements.push(Statement::Open);
            } else if self.eat(b'}') {
                depth -= 1;
                if depth == 0 {
                    return Ok(statements);
                }
                statements.push(Statement::Close);
            } else {
                self.statement(&mut statements)?;
            }
        }
    }

    fn statement(&mut self, into: &mut Vec<Statement<'a>>) -> Result<()> {
        let line = self.line();
        match self.peek() {
            Kind::Dotted(directive) => {
                self.advance();
                self.directive(directive, line, into)
            }
            Kind::Word(name) if self.peek_second() == Kind::Mark(b':') => {
                self.advance();
                self.advance();
                self.label(name, line, into)
            }
            Kind::Word(_) | Kind::Mark(b'@') => {
                let instruction = self.instruction()?;
                into.push(Statement::Instruction(instruction));
                Ok(())
            }
            Kind::Mark(b';') => {
                self.advance();
                Ok(())
            }
            _ => Err(self.unexpected("an instruction, a label or `}`")),
        }
    }

    fn directive(
        &mut self,
        directive: &'a str,
        line: u32,
        into: &mut Vec<Statement<'a>>,
    ) -> Result<()> {
        match directive {
            "reg" => self.registers(into),
            "local" | "shared" | "param" | "global" | "const" => {
                let space = Space::named(directive).unwrap_or(Space::Local);
                let mut variables = Vec::new();
                self.variables(space, Linkage::Local, &mut variables)?;
                into.extend(variables.into_iter().map(Statement::Variable));
                Ok(())
            }
            "pragma" => self.skip_past(b';'),
            "loc" | "file" => {
                self.skip_line(line);
                Ok(())
            }
            "section" => self.skip_braces(),
            other => Err(PtxError::new(line, format!("directive `.{other}` is not known here"))),
        }
    }

    fn registers(&mut self, into: &mut Vec<Statement<'a>>) -> Result<()> {
        let (ty, _, lanes) = self.type_and_alignment()?;
        loop {
            let name = self.word("a register's name")?;
            let mut count = None;
            if self.eat(b'<') {
                count = Some(self.integer("a number of registers")?);
                self.expect(b'>')?;
            }
            if lanes != 1 && count.is_some() {
                return Err(self.unexpected("a single vector register"));
            }
            into.push(Statement::Registers { ty, name, count, lanes });
            if self.eat(b';') {
                return Ok(());
            }
            self.expect(b',')?;
        }
    }

    fn label(&mut self, name: &'a str, line: u32, into: &mut Vec<Statement<'a>>) -> Result<()> {
        match self.peek() {
            Kind::Dotted("branchtargets") => {
                self.advance();
                let mut labels = vec![self.word("a label")?];
                while self.eat(b',') {
                    labels.push(self.word("a label")?);
                }
                self.expect(b';')?;
                into.push(Statement::Targets { name, labels });
                Ok(())
            }
            // What an indirect call may reach is checked when it is made.
            Kind::Dotted("callprototype" | "calltargets") => self.skip_past(b';'),
            _ => {
                into.push(Statement::Label { name, line });
                Ok(())
            }
        }
    }

    fn instruction(&mut self) -> Result<Instruction<'a>> {
        let mut guard = None;
        if self.eat(b'@') {
            let negated = self.eat(b'!');
            guard = Some(Guard { register: self.word("a predicate register")?, negated });
        }
        let line = self.line();
        let opcode = self.word("an opcode")?;
        let mut modifiers = Vec::new();
        while let Kind::Dotted(modifier) = self.peek() {
            self.advance();
            if modifiers.len() == MAX_MODIFIERS {
                return Err(self.unexpected("fewer modifiers"));
            }
            modifiers.push(modifier);
        }
        let mut operands = Vec::new();
        while !self.eat(b';') {
            operands.push(self.operand()?);
            if !self.eat(b',') && self.peek() != Kind::Mark(b';') {
                return Err(self.unexpected("`,` or `;`"));
            }
        }
        Ok(Instruction { line, guard, opcode, modifiers, operands })
    }

    fn operand(&mut self) -> Result<Operand<'a>> {
        match self.peek() {
            Kind::Mark(b'{') => {
                self.advance();
                Ok(Operand::Vector(self.simple_operands(b'}')?))
            }
            Kind::Mark(b'(') => {
                self.advance();
                Ok(Operand::List(self.simple_operands(b')')?))
            }
            Kind::Mark(b'[') => self.address(),
            _ => self.simple_operand(),
        }
    }

    fn simple_operands(&mut self, end: u8) -> Result<Vec<Operand<'a>>> {
        let mut operands = Vec::new();
        while !self.eat(end) {
            operands.push(self.simple_operand()?);
            if !self.eat(b',') && self.peek() != Kind::Mark(end) {
                return Err(self.unexpected(&format!("`,` or `{}`", end as char)));
            }
        }
        Ok(operands)
    }

    fn simple_operand(&mut self) -> Result<Operand<'a>> {
        match self.peek() {
            Kind::Mark(b'!') => {
                self.advance();
                Ok(Operand::Not(self.word("a predicate register")?))
            }
            Kind::Mark(b'-') => {
                self.advance();
                self.number(true)
            }
            Kind::Int(_) | Kind::Single(_) | Kind::Double(_) => self.number(false),
            Kind::Word(name) => {
                self.advance();
                self.named_operand(name)
            }
            _ => Err(self.unexpected("an operand")),
        }
    }

    fn number(&mut self, negative: bool) -> Result<Operand<'a>> {
        let sign = u64::from(negative);
        let operand = match self.peek() {
            Kind::Int(value) if negative => Operand::Int(value.wrapping_neg()),
            Kind::Int(value) => Operand::Int(value),
            Kind::Single(bits) => Operand::Single(bits ^ (sign << 31) as u32),
            Kind::Double(bits) => Operand::Double(bits ^ (sign << 63)),
            _ => return Err(self.unexpected("a number")),
        };
        self.advance();
        Ok(operand)
    }

    fn named_operand(&mut self, name: &'a str) -> Result<Operand<'a>> {
        match self.peek() {
            Kind::Mark(b'|') => {
                self.advance();
                Ok(Operand::Pair(name, self.word("a second destination")?))
            }
            Kind::Mark(b'[') => {
                self.advance();
                let index = self.integer("an index")?;
                self.expect(b']')?;
                Ok(Operand::Element(name, index))
            }
            Kind::Mark(b'+') => {
                self.advance();
                Ok(Operand::Offset(name, self.integer("an offset")?))
            }
            Kind::Dotted(member) => {
                self.advance();
                Ok(Operand::Member(name, member))
            }
            _ => Ok(Operand::Name(name)),
        }
    }

    fn address(&mut self) -> Result<Operand<'a>> {
        self.expect(b'[')?;
        let (base, mut offset) = match self.peek() {
            Kind::Word(name) => {
                self.advance();
                (Base::Name(name), 0)
            }
            _ => (Base::Absolute, self.integer("an address")?),
        };
        loop {
            let negative = match self.peek() {
                Kind::Mark(b'+') => false,
                Kind::Mark(b'-') => true,
                _ => break,
            };
            self.advance();
            let value = self.integer("an offset")?;
            offset = offset.wrapping_add(if negative { value.wrapping_neg() } else { value });
        }
        self.expect(b']')?;
        Ok(Operand::Address { base, offset })
    }
}
