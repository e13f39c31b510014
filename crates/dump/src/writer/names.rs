//! Names of entries as names of files.

use std::borrow::Cow;

use ulpscope_kernels::{DigestKind, digest};
use ulpscope_tensor::{DType, View};

/// Bytes of a file's name before its suffix; file systems allow 255 in total.
const MAX_STEM: usize = 200;

/// A valid file name: names come from programs and may contain anything. Characters that would leave the folder or
/// are invalid become `_`; a name that is too long ends with a digest of the whole.
pub(crate) fn file_stem(stem: &str) -> Cow<'_, str> {
    let is_unfit = |character: char| character.is_control() || matches!(character, '/' | '\\' | ':');
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    if stem.len() <= MAX_STEM && stem.bytes().all(is_plain) && stem.bytes().any(|byte| byte != b'.') {
        return Cow::Borrowed(stem);
    }
    let fit: String =
        stem.chars().map(|character| if is_unfit(character) { '_' } else { character }).collect();
    let fit = if fit.trim_matches('.').is_empty() { format!("_{fit}") } else { fit };
    if fit.len() <= MAX_STEM {
        return Cow::Owned(fit);
    }
    let mut end = MAX_STEM - 9;
    while !fit.is_char_boundary(end) {
        end -= 1;
    }
    let view = View::contiguous(DType::U8, vec![stem.len()], stem.as_bytes());
    let whole = view.map(|view| digest(&view, DigestKind::Crc32).to_string()).unwrap_or_default();
    Cow::Owned(format!("{}~{whole}", &fit[..end]))
}
