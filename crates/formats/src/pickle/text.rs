//! The text forms of protocols 0 and 1: numbers and strings in ASCII.

use super::Node;
use crate::error::{Fault, shortened};

fn ascii<'a>(line: &'a [u8], expected: &str) -> Result<&'a str, Fault> {
    std::str::from_utf8(line).map_err(|_| unreadable(line, expected))
}

fn unreadable(line: &[u8], expected: &str) -> Fault {
    Fault::malformed(expected, format!("{:?}", shortened(&String::from_utf8_lossy(line))))
}

/// `I`: a decimal integer, or `00` and `01` for booleans.
pub(super) fn int(line: &[u8]) -> Result<Node, Fault> {
    match line {
        b"00" => Ok(Node::Bool(false)),
        b"01" => Ok(Node::Bool(true)),
        _ => decimal(line),
    }
}

/// `L`: a decimal integer followed by Python 2's `L`.
pub(super) fn long(line: &[u8]) -> Result<Node, Fault> {
    decimal(line.strip_suffix(b"L").unwrap_or(line))
}

fn decimal(line: &[u8]) -> Result<Node, Fault> {
    const EXPECTED: &str = "a decimal integer";
    let text = ascii(line, EXPECTED)?.trim();
    if let Ok(number) = text.parse() {
        return Ok(Node::Int(number));
    }
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return Err(unreadable(line, EXPECTED));
    }
    // Only the size of such a number is reported; a decimal digit needs about 0.415 bytes.
    Ok(Node::HugeInt(digits.len() / 12 * 5 + 1))
}

/// `F`: a decimal float.
pub(super) fn float(line: &[u8]) -> Result<f64, Fault> {
    const EXPECTED: &str = "a decimal float";
    ascii(line, EXPECTED)?.trim().parse().map_err(|_| unreadable(line, EXPECTED))
}

/// A memo number.
pub(super) fn memo_number(line: &[u8]) -> Result<u64, Fault> {
    const EXPECTED: &str = "a memo number";
    ascii(line, EXPECTED)?.parse().map_err(|_| unreadable(line, EXPECTED))
}

/// `S`: a quoted Python 2 string with backslash escapes.
pub(super) fn quoted(line: &[u8]) -> Result<Vec<u8>, Fault> {
    let error = || unreadable(line, "a quoted string");
    let body = match line {
        [b'\'', body @ .., b'\''] | [b'"', body @ .., b'"'] => body,
        _ => return Err(error()),
    };
    let mut out = Vec::with_capacity(body.len());
    let mut rest = body;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        let (&escape, after) = rest.split_first().ok_or_else(error)?;
        rest = after;
        match escape {
            b'n' => out.push(b'\n'),
            b't' => out.push(b'\t'),
            b'r' => out.push(b'\r'),
            b'\\' | b'\'' | b'"' => out.push(escape),
            b'x' => {
                let digits = rest.get(..2).ok_or_else(error)?;
                let digits = std::str::from_utf8(digits).map_err(|_| error())?;
                out.push(u8::from_str_radix(digits, 16).map_err(|_| error())?);
                rest = &rest[2..];
            }
            _ => return Err(error()),
        }
    }
    Ok(out)
}

/// `V`: Latin-1 with `\uXXXX` and `\UXXXXXXXX` for everything else.
pub(super) fn raw_unicode(line: &[u8]) -> Result<String, Fault> {
    let error = || unreadable(line, "text with \\u escapes");
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        let width = match (byte, rest.first()) {
            (b'\\', Some(b'u')) => 4,
            (b'\\', Some(b'U')) => 8,
            _ => {
                out.push(char::from(byte));
                continue;
            }
        };
        let digits = rest.get(1..=width).ok_or_else(error)?;
        let digits = std::str::from_utf8(digits).map_err(|_| error())?;
        let code = u32::from_str_radix(digits, 16).map_err(|_| error())?;
        out.push(char::from_u32(code).ok_or_else(error)?);
        rest = &rest[1 + width..];
    }
    Ok(out)
}
