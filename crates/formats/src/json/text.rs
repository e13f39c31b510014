//! JSON strings: decodes escapes, and encodes them as Python does.

use std::borrow::Cow;

/// Why a string cannot be decoded: the position, what was expected and what was found.
pub(super) struct TextFault {
    pub(super) at: usize,
    pub(super) expected: &'static str,
    pub(super) found: String,
}

/// Decodes the inside of a string; without escapes it is borrowed. An unpaired surrogate, which Python can write,
/// becomes the replacement character.
pub(super) fn decode(raw: &[u8], escaped: bool) -> Result<Cow<'_, str>, TextFault> {
    let text = std::str::from_utf8(raw).map_err(|error| TextFault {
        at: error.valid_up_to(),
        expected: "UTF-8 text",
        found: format!("byte 0x{:02x}", raw.get(error.valid_up_to()).copied().unwrap_or_default()),
    })?;
    if !escaped {
        return Ok(Cow::Borrowed(text));
    }
    let mut decoded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(backslash) = rest.find('\\') {
        decoded.push_str(&rest[..backslash]);
        let at = text.len() - rest.len() + backslash;
        let escape = &rest[backslash + 1..];
        let (character, taken) = decode_escape(escape).ok_or_else(|| TextFault {
            at,
            expected: r#"one of \" \\ \/ \b \f \n \r \t \uXXXX"#,
            found: format!("\\{}", escape.chars().take(5).collect::<String>()),
        })?;
        decoded.push(character);
        rest = &escape[taken..];
    }
    decoded.push_str(rest);
    Ok(Cow::Owned(decoded))
}

/// The character of an escape, and how many bytes it has after the backslash.
fn decode_escape(escape: &str) -> Option<(char, usize)> {
    let simple = match escape.as_bytes().first()? {
        b'"' => '"',
        b'\\' => '\\',
        b'/' => '/',
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => return decode_unicode(escape),
        _ => return None,
    };
    Some((simple, 1))
}

fn decode_unicode(escape: &str) -> Option<(char, usize)> {
    let unit = hex4(escape.get(1..5)?)?;
    if let Some(character) = char::from_u32(unit) {
        return Some((character, 5));
    }
    let partner = escape.get(5..7).filter(|mark| *mark == "\\u").and_then(|_| hex4(escape.get(7..11)?));
    match partner {
        Some(low @ 0xdc00..=0xdfff) if unit < 0xdc00 => {
            let pair = 0x1_0000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
            Some((char::from_u32(pair)?, 11))
        }
        _ => Some((char::REPLACEMENT_CHARACTER, 5)),
    }
}

fn hex4(digits: &str) -> Option<u32> {
    // `from_str_radix` alone would also accept a sign.
    if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    u32::from_str_radix(digits, 16).ok()
}

/// Appends a string with its quotes. Everything except printable ASCII is escaped.
pub fn encode(text: &str, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.push(b'"');
    let mut rest = text;
    while let Some(special) =
        rest.bytes().position(|byte| !(b' '..=b'~').contains(&byte) || byte == b'"' || byte == b'\\')
    {
        out.extend_from_slice(&rest.as_bytes()[..special]);
        let mut characters = rest[special..].chars();
        let Some(character) = characters.next() else { break };
        match character {
            '"' => out.extend_from_slice(b"\\\""),
            '\\' => out.extend_from_slice(b"\\\\"),
            '\n' => out.extend_from_slice(b"\\n"),
            '\r' => out.extend_from_slice(b"\\r"),
            '\t' => out.extend_from_slice(b"\\t"),
            '\u{8}' => out.extend_from_slice(b"\\b"),
            '\u{c}' => out.extend_from_slice(b"\\f"),
            _ => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    out.extend_from_slice(b"\\u");
                    for shift in [12, 8, 4, 0] {
                        out.push(HEX[usize::from(*unit >> shift & 0xf)]);
                    }
                }
            }
        }
        rest = characters.as_str();
    }
    out.extend_from_slice(rest.as_bytes());
    out.push(b'"');
}
