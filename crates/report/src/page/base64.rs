//! Base64, the only text in which bytes of a dump stand in a page: it has no character that ends an element.

use std::io::{self, Write};

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Bytes encoded at a time.
const BLOCK: usize = 3 << 12;

/// Writes bytes as base64.
pub(super) fn write(bytes: &[u8], out: &mut impl Write) -> io::Result<()> {
    let mut text = Vec::with_capacity(BLOCK / 3 * 4);
    for block in bytes.chunks(BLOCK) {
        text.clear();
        for three in block.chunks(3) {
            let byte = |at: usize| u32::from(three.get(at).copied().unwrap_or(0));
            let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
            for at in 0..4 {
                let letter = ALPHABET[(bits >> (18 - 6 * at)) as usize & 63];
                text.push(if at <= three.len() { letter } else { b'=' });
            }
        }
        out.write_all(&text)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    #[test]
    fn the_examples_of_the_standard() {
        let examples = [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ];
        for (bytes, text) in examples {
            let mut out = Vec::new();
            super::write(bytes.as_bytes(), &mut out).unwrap();
            assert_eq!(String::from_utf8(out).unwrap(), text);
        }
    }
}
