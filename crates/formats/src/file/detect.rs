//! Detects the format of a file: by its first bytes, and by its name where they are not enough.

use std::path::Path;

use super::format::Format;
use crate::error::{Error, Fault};
use crate::tensorflow::{DebugFileName, EVENT_START};

/// Bytes that an error shows of a file of unknown format.
const SHOWN_BYTES: usize = 8;

/// How the stems of msprobe's files end.
const MSPROBE_NAMES: [&str; 4] = ["dump", "debug", "stack", "construct"];

/// A key that only msprobe's dumps have, and how near the start it must be.
const DUMP_KEY: &[u8] = b"\"dump_data_dir\"";
const LOOKED_AT: usize = 1024;

/// Digits of the time in microseconds at the end of an ACL dump's file name.
const ACL_TIME_DIGITS: usize = 16;

impl Format {
    /// The format of a whole file name: not every `.json` is msprobe's, and the name of an ACL dump ends with a time.
    fn of_name(path: &Path) -> Option<Format> {
        match Format::of_extension(path) {
            Some(Format::Msprobe) => {
                let stem = path.file_stem()?.to_str()?;
                MSPROBE_NAMES.iter().any(|name| stem.ends_with(name)).then_some(Format::Msprobe)
            }
            Some(format) => Some(format),
            None if is_debug_event(path) => Some(Format::TfEvent),
            None => {
                let time = path.extension()?.to_str()?;
                let digits = time.bytes().all(|byte| byte.is_ascii_digit());
                (digits && time.len() == ACL_TIME_DIGITS).then_some(Format::Acl)
            }
        }
    }

    /// The format of the first bytes. `path` decides only between formats that begin alike.
    fn of_content(path: &Path, bytes: &[u8]) -> Option<Format> {
        // It begins like many texts; the name says what it is.
        if bytes.first() == Some(&EVENT_START) && is_debug_event(path) {
            return Some(Format::TfEvent);
        }
        let begins = |format: &Format| format.row().start.is_some_and(|start| bytes.starts_with(start));
        if let Some(format) = Format::ALL.into_iter().find(begins) {
            return Some(format);
        }
        if bytes.starts_with(b"PK\x03\x04") || bytes.starts_with(b"PK\x05\x06") {
            return of_zip(path, bytes);
        }
        // Both begin with a 64-bit length. Its upper bytes are zero in every possible file, which is never so in a
        // pickle or a text.
        if let Some((length, rest)) = bytes.split_first_chunk::<8>()
            && u64::from_le_bytes(*length) <= rest.len() as u64
        {
            if rest.starts_with(b"{") {
                return Some(Format::Safetensors);
            }
            // The first field of the protobuf header is the version, a text. A nano header has a magic number.
            if rest.starts_with(b"\x0a") || rest.starts_with(&[0x5a; 4]) {
                return Some(Format::Acl);
            }
        }
        if let [0x80, 2..=5, ..] = bytes {
            return Some(Format::Pt);
        }
        let text = bytes.trim_ascii_start();
        match text.first()? {
            // A `.json` file with a list at the top is of no format that we read.
            b'[' => (Format::of_extension(path) != Some(Format::Msprobe)).then_some(Format::PklLines),
            // Whatever its name, a dump says near the start where its tensors are.
            b'{' => {
                let top = &text[..text.len().min(LOOKED_AT)];
                top.windows(DUMP_KEY.len()).any(|window| window == DUMP_KEY).then_some(Format::Msprobe)
            }
            _ => None,
        }
    }

    /// The format of a file: by its content, or by its name if the content is not conclusive.
    pub fn detect(path: &Path, bytes: &[u8]) -> Result<Format, Error> {
        // If the name promises a format, its reader is used and says what is wrong with the file.
        Format::of_content(path, bytes).or_else(|| Format::of_name(path)).ok_or_else(|| {
            let found = if bytes.is_empty() {
                "nothing: it is empty".to_owned()
            } else {
                bytes[..bytes.len().min(SHOWN_BYTES)].escape_ascii().to_string()
            };
            Error::whole(Fault::UnknownFormat { found })
        })
    }
}

/// Whether a name is that of a file of TensorFlow's debugger.
fn is_debug_event(path: &Path) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_some_and(|name| DebugFileName::parse(name).is_some())
}

/// A `.npz` contains arrays; an archive of torch begins with its pickle. Only the name of the first entry is checked:
/// the chosen reader checks the rest. The name of the file decides for other archives.
fn of_zip(path: &Path, bytes: &[u8]) -> Option<Format> {
    const NAME_LENGTH_AT: usize = 26;
    const NAME_AT: usize = 30;
    let name_length = bytes.get(NAME_LENGTH_AT..NAME_LENGTH_AT + 2);
    let name = name_length.and_then(|length| {
        let length = usize::from(length[0]) | usize::from(length[1]) << 8;
        bytes.get(NAME_AT..NAME_AT + length)
    });
    match name {
        Some(name) if name.ends_with(b".npy") => Some(Format::Npz),
        Some(name) if name.ends_with(b"/data.pkl") => Some(Format::Pt),
        _ => Format::of_extension(path).filter(|format| matches!(format, Format::Npz | Format::Pt)),
    }
}
