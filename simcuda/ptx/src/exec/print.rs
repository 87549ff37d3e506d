//! `vprintf`: a format and a packed buffer of arguments into text.

use super::access::Env;
use crate::Fault;
use crate::types::Space;

/// Bytes of a format or of a `%s` after which reading gives up.
const MOST_BYTES: usize = 1 << 16;
const MOST_WIDTH: usize = 4096;

/// The text, and the number of arguments in it, which is what device `printf` returns.
pub(crate) fn format(
    env: &mut Env<'_>,
    lane: usize,
    format: u64,
    arguments: u64,
) -> Result<(String, u32), Fault> {
    let format = string(env, lane, format)?;
    let mut arguments = Arguments { env, lane, at: arguments };
    let mut out = Vec::new();
    let mut count = 0;
    let mut rest = format.as_slice();
    while let Some((&first, tail)) = rest.split_first() {
        rest = tail;
        match (first, rest.first()) {
            (b'%', Some(b'%')) => {
                rest = &rest[1..];
                out.push(b'%');
            }
            (b'%', Some(_)) => {
                let spec;
                (spec, rest) = Spec::parse(rest, &mut arguments)?;
                let text = spec.value(&mut arguments)?;
                out.extend(spec.padded(&text));
                count += 1;
            }
            (byte, _) => out.push(byte),
        }
    }
    Ok((String::from_utf8_lossy(&out).into_owned(), count))
}

fn string(env: &mut Env<'_>, lane: usize, address: u64) -> Result<Vec<u8>, Fault> {
    let mut text = Vec::new();
    while text.len() < MOST_BYTES {
        let mut byte = [0];
        let (home, at) = Env::home(Space::Generic, address.wrapping_add(text.len() as u64));
        env.read(lane, home, at, &mut byte)?;
        if byte[0] == 0 {
            break;
        }
        text.push(byte[0]);
    }
    Ok(text)
}

/// The argument buffer: each value at its natural alignment.
struct Arguments<'b, 'e> {
    env: &'b mut Env<'e>,
    lane: usize,
    at: u64,
}

impl Arguments<'_, '_> {
    fn next(&mut self, bytes: u64) -> Result<u64, Fault> {
        self.at = self.at.wrapping_add(bytes - 1) & !(bytes - 1);
        let (home, at) = Env::home(Space::Generic, self.at);
        let mut buffer = [0; 8];
        self.env.read(self.lane, home, at, &mut buffer[..bytes as usize])?;
        self.at = self.at.wrapping_add(bytes);
        Ok(u64::from_le_bytes(buffer))
    }
}

/// One conversion of a format.
#[derive(Default)]
struct Spec {
    left: bool,
    zero: bool,
    plus: bool,
    space: bool,
    alternate: bool,
    width: usize,
    precision: Option<usize>,
    long: bool,
    conversion: u8,
}

impl Spec {
    fn parse<'t>(
        mut text: &'t [u8],
        arguments: &mut Arguments<'_, '_>,
    ) -> Result<(Self, &'t [u8]), Fault> {
        let mut spec = Self::default();
        while let Some((&flag, tail)) = text.split_first() {
            match flag {
                b'-' => spec.left = true,
                b'0' => spec.zero = true,
                b'+' => spec.plus = true,
                b' ' => spec.space = true,
                b'#' => spec.alternate = true,
                _ => break,
            }
            text = tail;
        }
        (spec.width, text) = number(text, arguments)?;
        if let Some((b'.', tail)) = text.split_first() {
            let precision;
            (precision, text) = number(tail, arguments)?;
            spec.precision = Some(precision);
        }
        while let Some((&size, tail)) = text.split_first() {
            match size {
                b'l' | b'j' | b'z' | b't' | b'L' | b'q' => spec.long = true,
                b'h' => {}
                _ => {
                    spec.conversion = size;
                    return Ok((spec, tail));
                }
            }
            text = tail;
        }
        Ok((spec, text))
    }

    fn value(&self, arguments: &mut Arguments<'_, '_>) -> Result<String, Fault> {
        let int_bytes = if self.long { 8 } else { 4 };
        Ok(match self.conversion {
            b'd' | b'i' => {
                let value = arguments.next(int_bytes)?;
                let value = if self.long { value as i64 } else { i64::from(value as i32) };
                self.signed(value < 0, self.digits(value.unsigned_abs().to_string()))
            }
            b'u' => self.digits(arguments.next(int_bytes)?.to_string()),
            b'x' => self.prefixed("0x", format!("{:x}", arguments.next(int_bytes)?)),
            b'X' => self.prefixed("0X", format!("{:X}", arguments.next(int_bytes)?)),
            b'o' => self.prefixed("0", format!("{:o}", arguments.next(int_bytes)?)),
            b'p' => format!("0x{:x}", arguments.next(8)?),
            b'c' => char::from(arguments.next(4)? as u8).to_string(),
            b's' => {
                let address = arguments.next(8)?;
                let text = string(arguments.env, arguments.lane, address)?;
                let length = self.precision.unwrap_or(text.len()).min(text.len());
                String::from_utf8_lossy(&text[..length]).into_owned()
            }
            b'f' | b'F' | b'e' | b'E' | b'g' | b'G' | b'a' | b'A' => {
                let value = f64::from_bits(arguments.next(8)?);
                self.signed(value.is_sign_negative() && !value.is_nan(), self.float(value.abs()))
            }
            // What C does not define is shown as it stands.
            other => format!("%{}", char::from(other)),
        })
    }

    fn digits(&self, digits: String) -> String {
        let least = self.precision.unwrap_or(0).min(MOST_WIDTH);
        format!("{digits:0>least$}")
    }

    fn prefixed(&self, prefix: &str, digits: String) -> String {
        let digits = self.digits(digits);
        if self.alternate && digits != "0" { format!("{prefix}{digits}") } else { digits }
    }

    fn signed(&self, negative: bool, digits: String) -> String {
        let sign = match (negative, self.plus, self.space) {
            (true, ..) => "-",
            (_, true, _) => "+",
            (_, _, true) => " ",
            _ => "",
        };
        format!("{sign}{digits}")
    }

    fn float(&self, value: f64) -> String {
        let upper = self.conversion.is_ascii_uppercase();
        if !value.is_finite() {
            let text = if value.is_nan() { "nan" } else { "inf" };
            return if upper { text.to_uppercase() } else { text.to_owned() };
        }
        let precision = self.precision.unwrap_or(6).min(MOST_WIDTH);
        let text = match self.conversion.to_ascii_lowercase() {
            b'e' => exponential(value, precision),
            b'g' => self.general(value, precision.max(1)),
            _ => format!("{value:.precision$}"),
        };
        if upper { text.to_uppercase() } else { text }
    }

    /// The shorter of the two forms, without trailing zeros.
    fn general(&self, value: f64, precision: usize) -> String {
        let scientific = format!("{value:.*e}", precision - 1);
        let exponent = scientific.split_once('e').and_then(|(_, e)| e.parse::<i32>().ok());
        let exponent = exponent.unwrap_or(0);
        let text = if exponent < -4 || exponent >= precision as i32 {
            exponential(value, precision - 1)
        } else {
            let decimals = (precision as i32 - 1 - exponent).max(0) as usize;
            format!("{value:.decimals$}")
        };
        let (mantissa, tail) = match text.find('e') {
            Some(at) => text.split_at(at),
            None => (text.as_str(), ""),
        };
        if self.alternate || !mantissa.contains('.') {
            return text;
        }
        format!("{}{tail}", mantissa.trim_end_matches('0').trim_end_matches('.'))
    }

    fn padded(&self, text: &str) -> Vec<u8> {
        let width = self.width.min(MOST_WIDTH);
        let missing = width.saturating_sub(text.len());
        let number = !matches!(self.conversion, b's' | b'c');
        let float = self.conversion.to_ascii_lowercase().is_ascii_lowercase()
            && matches!(self.conversion.to_ascii_lowercase(), b'e' | b'f' | b'g' | b'a');
        let zero = self.zero && number && !self.left && (float || self.precision.is_none());
        if zero {
            let sign = text.len() - text.trim_start_matches(['-', '+', ' ']).len();
            let (sign, digits) = text.split_at(sign);
            return format!("{sign}{}{digits}", "0".repeat(missing)).into_bytes();
        }
        let blanks = " ".repeat(missing);
        let (before, after) = if self.left { ("", blanks.as_str()) } else { (&*blanks, "") };
        format!("{before}{text}{after}").into_bytes()
    }
}

/// C writes at least two digits of exponent, and its sign.
fn exponential(value: f64, precision: usize) -> String {
    let text = format!("{value:.precision$e}");
    let Some((mantissa, exponent)) = text.split_once('e') else { return text };
    let (sign, digits) = match exponent.strip_prefix('-') {
        Some(digits) => ('-', digits),
        None => ('+', exponent),
    };
    format!("{mantissa}e{sign}{digits:0>2}")
}

/// A width or precision: digits, or `*` for an argument.
fn number<'t>(
    text: &'t [u8],
    arguments: &mut Arguments<'_, '_>,
) -> Result<(usize, &'t [u8]), Fault> {
    if let Some((b'*', tail)) = text.split_first() {
        return Ok((arguments.next(4)? as usize, tail));
    }
    let length = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, tail) = text.split_at(length);
    let value = digits.iter().fold(0_usize, |value, digit| {
        value.saturating_mul(10).saturating_add(usize::from(digit - b'0'))
    });
    Ok((value, tail))
}
