//! Skips a value at memory speed.
//!
//! An index of a dump needs to know where values end, not what they contain. This follows the same grammar as the
//! reader, but decodes nothing. It may give up at any point (very deep nesting, an error). The slower reader then
//! reads the same bytes and says what is wrong.

/// One bit of a `u64` per open container.
const MAX_DEPTH: u32 = 60;

/// Where the value at `at`, or after spaces there, ends; nothing if it is malformed, incomplete or nested deeply.
pub(crate) fn value(bytes: &[u8], mut at: usize) -> Option<usize> {
    // A bit for each open container, innermost last: whether it is an object.
    let mut open = 0u64;
    let mut depth = 0;
    loop {
        at = space(bytes, at);
        let empty = match *bytes.get(at)? {
            first @ (b'{' | b'[') => {
                depth += 1;
                if depth > MAX_DEPTH {
                    return None;
                }
                open = open << 1 | u64::from(first == b'{');
                at = space(bytes, at + 1);
                // The closing bracket of either kind is two after the opening one.
                let empty = *bytes.get(at)? == first + 2;
                if !empty {
                    if first == b'{' {
                        at = key(bytes, at)?;
                    }
                    continue;
                }
                empty
            }
            b'"' => {
                at = text(bytes, at + 1)?;
                false
            }
            b'-' | b'0'..=b'9' => {
                at = number(bytes, at)?;
                false
            }
            b'n' => word(bytes, &mut at, b"null")?,
            b't' => word(bytes, &mut at, b"true")?,
            b'f' => word(bytes, &mut at, b"false")?,
            b'N' => word(bytes, &mut at, b"NaN")?,
            b'I' => word(bytes, &mut at, b"Infinity")?,
            _ => return None,
        };
        if empty {
            at += 1;
            depth -= 1;
            open >>= 1;
        }
        loop {
            if depth == 0 {
                return Some(at);
            }
            at = space(bytes, at);
            match (*bytes.get(at)?, open & 1) {
                (b',', object) => {
                    at += 1;
                    if object == 1 {
                        at = key(bytes, space(bytes, at))?;
                    }
                    break;
                }
                (b'}', 1) | (b']', 0) => {
                    at += 1;
                    depth -= 1;
                    open >>= 1;
                }
                _ => return None,
            }
        }
    }
}

/// Where the white space at `at` ends.
pub(crate) fn space(bytes: &[u8], mut at: usize) -> usize {
    while let Some(b' ' | b'\n' | b'\r' | b'\t') = bytes.get(at) {
        at += 1;
    }
    at
}

/// The position after the closing quote of the string whose first character is at `at`.
pub(crate) fn text(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        // Eight bytes at a time, while none of them is special.
        while let Some(eight) = bytes.get(at..at + 8)
            && !any_special(u64::from_le_bytes(eight.try_into().ok()?))
        {
            at += 8;
        }
        match *bytes.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            0..=0x1f => return None,
            _ => at += 1,
        }
    }
}

/// Whether any of eight bytes is a quote, a backslash or a control character. A byte after such a byte may be
/// misjudged; that costs only a second look.
fn any_special(eight: u64) -> bool {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let zero = |bytes: u64| bytes.wrapping_sub(ONES) & !bytes & HIGH;
    let quote = zero(eight ^ (ONES * u64::from(b'"')));
    let backslash = zero(eight ^ (ONES * u64::from(b'\\')));
    let control = eight.wrapping_sub(ONES * 0x20) & !eight & HIGH;
    quote | backslash | control != 0
}

fn key(bytes: &[u8], at: usize) -> Option<usize> {
    if *bytes.get(at)? != b'"' {
        return None;
    }
    let at = space(bytes, text(bytes, at + 1)?);
    (*bytes.get(at)? == b':').then_some(at + 1)
}

fn number(bytes: &[u8], start: usize) -> Option<usize> {
    let digits = |mut at: usize| {
        while bytes.get(at).is_some_and(u8::is_ascii_digit) {
            at += 1;
        }
        at
    };
    let first = start + usize::from(bytes[start] == b'-');
    if bytes.get(first) == Some(&b'I') {
        let mut at = first;
        word(bytes, &mut at, b"Infinity")?;
        return Some(at);
    }
    let mut at = digits(first);
    if at == first || (bytes[first] == b'0' && at > first + 1) {
        return None;
    }
    if bytes.get(at) == Some(&b'.') {
        let fraction = digits(at + 1);
        if fraction == at + 1 {
            return None;
        }
        at = fraction;
    }
    if let Some(b'e' | b'E') = bytes.get(at) {
        let signed = at + 1 + usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
        at = digits(signed);
        if at == signed {
            return None;
        }
    }
    Some(at)
}

/// Skips a word. Returns false, because a word is not an empty container.
fn word(bytes: &[u8], at: &mut usize, word: &[u8]) -> Option<bool> {
    bytes.get(*at..)?.starts_with(word).then(|| *at += word.len())?;
    Some(false)
}
