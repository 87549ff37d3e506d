//! PTX text into tokens that remember their line. Knows no grammar.

use crate::error::{PtxError, Result};

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind<'a> {
    /// An opcode, a name, a register: `add`, `%r1`, `$L__BB0_2`, `_`.
    Word(&'a str),
    /// A word after a dot, without the dot: a directive or a modifier.
    Dotted(&'a str),
    Int(u64),
    /// `0f…`: the bits of a single.
    Single(u32),
    /// `0d…` or a decimal fraction: the bits of a double.
    Double(u64),
    Text(&'a str),
    Mark(u8),
    End,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Token<'a> {
    pub(crate) kind: Kind<'a>,
    pub(crate) line: u32,
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    line: u32,
}

/// The longest text that is read; compilers write a few megabytes at most.
const MAX_TEXT_BYTES: usize = 32 << 20;
/// Tokens of one text: what is kept of each is larger than most are in the text.
const MAX_TOKENS: usize = 12 << 20;

/// All tokens of `text`, the last one `End`. A NUL ends the text, as it does for a driver.
pub(crate) fn tokens(text: &str) -> Result<Vec<Token<'_>>> {
    let text = text.split('\0').next().unwrap_or("");
    if text.len() > MAX_TEXT_BYTES {
        return Err(PtxError::new(1, format!("the text is over {MAX_TEXT_BYTES} bytes")));
    }
    let mut lexer = Lexer { text, at: 0, line: 1 };
    let mut out = Vec::with_capacity(text.len() / 4);
    loop {
        let token = lexer.next()?;
        if out.len() == MAX_TOKENS {
            return Err(PtxError::new(token.line, format!("there are over {MAX_TOKENS} tokens")));
        }
        out.push(token);
        if token.kind == Kind::End {
            return Ok(out);
        }
    }
}

impl<'a> Lexer<'a> {
    fn next(&mut self) -> Result<Token<'a>> {
        self.skip_blanks()?;
        let line = self.line;
        let kind = match self.peek(0) {
            None => Kind::End,
            Some(b'"') => self.string()?,
            Some(b'.') if self.peek(1).is_some_and(is_word) => {
                self.at += 1;
                Kind::Dotted(self.dotted())
            }
            Some(c) if c.is_ascii_digit() => self.number()?,
            Some(c) if is_word(c) => Kind::Word(self.take_while(is_word)),
            Some(c) if c.is_ascii_graphic() => {
                self.at += 1;
                Kind::Mark(c)
            }
            Some(c) => {
                return Err(PtxError::new(line, format!("byte 0x{c:02x} is not part of PTX")));
            }
        };
        Ok(Token { kind, line })
    }

    fn peek(&self, ahead: usize) -> Option<u8> {
        self.text.as_bytes().get(self.at + ahead).copied()
    }

    fn skip_blanks(&mut self) -> Result<()> {
        while let Some(c) = self.peek(0) {
            match (c, self.peek(1)) {
                (b'\n', _) => {
                    self.line += 1;
                    self.at += 1;
                }
                (b' ' | b'\t' | b'\r' | 0x0b | 0x0c, _) => self.at += 1,
                (b'/', Some(b'/')) => {
                    let rest = &self.text.as_bytes()[self.at..];
                    self.at += rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len());
                }
                (b'/', Some(b'*')) => self.skip_comment()?,
                _ => break,
            }
        }
        Ok(())
    }

    fn skip_comment(&mut self) -> Result<()> {
        let body = &self.text.as_bytes()[self.at + 2..];
        let Some(length) = body.windows(2).position(|pair| pair == b"*/") else {
            return Err(PtxError::new(self.line, "the comment that starts here has no end"));
        };
        self.line += body[..length].iter().filter(|&&b| b == b'\n').count() as u32;
        self.at += length + 4;
        Ok(())
    }

    fn take_while(&mut self, belongs: impl Fn(u8) -> bool) -> &'a str {
        let start = self.at;
        while self.peek(0).is_some_and(&belongs) {
            self.at += 1;
        }
        &self.text[start..self.at]
    }

    /// A modifier may carry `::` (`.shared::cta`).
    fn dotted(&mut self) -> &'a str {
        let start = self.at;
        self.take_while(is_word);
        while self.peek(0) == Some(b':')
            && self.peek(1) == Some(b':')
            && self.peek(2).is_some_and(is_word)
        {
            self.at += 2;
            self.take_while(is_word);
        }
        &self.text[start..self.at]
    }

    fn string(&mut self) -> Result<Kind<'a>> {
        let start = self.at + 1;
        let body = &self.text.as_bytes()[start..];
        let mut length = 0;
        while let Some(&c) = body.get(length) {
            match c {
                b'"' => {
                    self.at = start + length + 1;
                    return Ok(Kind::Text(&self.text[start..start + length]));
                }
                b'\n' => break,
                b'\\' => length += 2,
                _ => length += 1,
            }
        }
        Err(PtxError::new(self.line, "the string that starts here has no end on its line"))
    }

    fn number(&mut self) -> Result<Kind<'a>> {
        let word = self.take_while(|c| c.is_ascii_alphanumeric());
        if self.peek(0) == Some(b'.') && word.bytes().all(|c| c.is_ascii_digit()) {
            return self.fraction(word);
        }
        let bad = || PtxError::new(self.line, format!("`{word}` is not a number"));
        if let Some(hex) = word.strip_prefix("0f").or_else(|| word.strip_prefix("0F")) {
            return exact_hex(hex, 8).map(|v| Kind::Single(v as u32)).ok_or_else(bad);
        }
        if let Some(hex) = word.strip_prefix("0d").or_else(|| word.strip_prefix("0D")) {
            return exact_hex(hex, 16).map(Kind::Double).ok_or_else(bad);
        }
        integer(word).map(Kind::Int).ok_or_else(bad)
    }

    fn fraction(&mut self, whole: &'a str) -> Result<Kind<'a>> {
        let start = self.at - whole.len();
        self.at += 1;
        self.take_while(|c| c.is_ascii_alphanumeric());
        let mantissa = &self.text[start..self.at];
        if mantissa.ends_with(['e', 'E']) && matches!(self.peek(0), Some(b'+' | b'-')) {
            self.at += 1;
            self.take_while(|c| c.is_ascii_digit());
        }
        let text = &self.text[start..self.at];
        let value: f64 = text
            .parse()
            .map_err(|_| PtxError::new(self.line, format!("`{text}` is not a number")))?;
        Ok(Kind::Double(value.to_bits()))
    }
}

fn is_word(c: u8) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, b'_' | b'$' | b'%')
}

fn exact_hex(digits: &str, count: usize) -> Option<u64> {
    (digits.len() == count).then(|| u64::from_str_radix(digits, 16).ok()).flatten()
}

/// Decimal, `0x`, `0b` and octal integers, each with an optional `U`.
fn integer(word: &str) -> Option<u64> {
    let word = word.strip_suffix('U').unwrap_or(word);
    let lower = word.get(..2).unwrap_or("");
    match lower {
        "0x" | "0X" => u64::from_str_radix(&word[2..], 16).ok(),
        "0b" | "0B" => u64::from_str_radix(&word[2..], 2).ok(),
        _ if word.len() > 1 && word.starts_with('0') => u64::from_str_radix(&word[1..], 8).ok(),
        _ => word.parse().ok(),
    }
}
