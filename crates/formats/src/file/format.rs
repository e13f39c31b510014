//! Which format a file has: its first bytes decide, its name only where they cannot.

use std::fmt;
use std::path::Path;

use crate::error::{Error, Fault};

/// The formats this crate reads and writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// NumPy array.
    Npy,
    /// Zip of NumPy arrays.
    Npz,
    /// PyTorch, zip or legacy.
    Pt,
    /// safetensors.
    Safetensors,
    /// JSON lines of ptdbg_ascend and torch_npu.hooks, named `.pkl` although they are no pickles.
    PklLines,
    /// One of msprobe's JSON files.
    Msprobe,
    /// ACL dump file, protobuf or nano header.
    Acl,
}

/// Bytes shown of a file that nobody knows.
const SHOWN_BYTES: usize = 8;

/// How the stems of msprobe's files end.
const MSPROBE_NAMES: [&str; 4] = ["dump", "debug", "stack", "construct"];

/// A key that only msprobe's dumps have, and how far in front it stands.
const DUMP_KEY: &[u8] = b"\"dump_data_dir\"";
const LOOKED_AT: usize = 1024;

/// Digits of the time in microseconds that ends the name of an ACL dump file.
const ACL_TIME_DIGITS: usize = 16;

impl Format {
    /// The name people call it by, with its article.
    pub const fn name(self) -> &'static str {
        match self {
            Format::Npy => "a .npy file",
            Format::Npz => "a .npz file",
            Format::Pt => "a PyTorch file",
            Format::Safetensors => "a .safetensors file",
            Format::PklLines => "a JSON-lines .pkl file",
            Format::Msprobe => "a msprobe JSON file",
            Format::Acl => "an ACL dump file",
        }
    }

    /// The extension to write under.
    pub const fn extension(self) -> &'static str {
        match self {
            Format::Npy => "npy",
            Format::Npz => "npz",
            Format::Pt => "pt",
            Format::Safetensors => "safetensors",
            Format::PklLines => "pkl",
            Format::Msprobe => "json",
            Format::Acl => "acl",
        }
    }

    /// The format an extension stands for.
    pub fn of_extension(path: &Path) -> Option<Format> {
        let extension = path.extension()?.to_str()?.to_ascii_lowercase();
        Some(match extension.as_str() {
            "npy" => Format::Npy,
            "npz" => Format::Npz,
            "pt" | "pth" | "ckpt" => Format::Pt,
            "safetensors" => Format::Safetensors,
            "pkl" => Format::PklLines,
            "json" => Format::Msprobe,
            "acl" => Format::Acl,
            _ => return None,
        })
    }

    /// The format a whole name announces: not every `.json` is msprobe's, and an ACL dump's name ends in a time.
    fn of_name(path: &Path) -> Option<Format> {
        match Format::of_extension(path) {
            Some(Format::Msprobe) => {
                let stem = path.file_stem()?.to_str()?;
                MSPROBE_NAMES.iter().any(|name| stem.ends_with(name)).then_some(Format::Msprobe)
            }
            Some(format) => Some(format),
            None => {
                let time = path.extension()?.to_str()?;
                let digits = time.bytes().all(|byte| byte.is_ascii_digit());
                (digits && time.len() == ACL_TIME_DIGITS).then_some(Format::Acl)
            }
        }
    }

    /// The format a file's first bytes announce. `path` settles only what two formats share.
    fn of_content(path: &Path, bytes: &[u8]) -> Option<Format> {
        if bytes.starts_with(b"\x93NUMPY") {
            return Some(Format::Npy);
        }
        if bytes.starts_with(b"PK\x03\x04") || bytes.starts_with(b"PK\x05\x06") {
            return of_zip(path, bytes);
        }
        // Both begin with a length of 64 bits; its upper bytes are zero in any file that can exist, which no
        // pickle and no text can say of theirs.
        if let Some((length, rest)) = bytes.split_first_chunk::<8>()
            && u64::from_le_bytes(*length) <= rest.len() as u64
        {
            if rest.starts_with(b"{") {
                return Some(Format::Safetensors);
            }
            // The first field of the protobuf header is the version, a text; a nano header has a mark.
            if rest.starts_with(b"\x0a") || rest.starts_with(&[0x5a; 4]) {
                return Some(Format::Acl);
            }
        }
        if let [0x80, 2..=5, ..] = bytes {
            return Some(Format::Pt);
        }
        let text = bytes.trim_ascii_start();
        match text.first()? {
            // A list in a `.json` is somebody else's.
            b'[' => (Format::of_extension(path) != Some(Format::Msprobe)).then_some(Format::PklLines),
            // Whatever it is called, a dump says near its top where its tensors are.
            b'{' => {
                let top = &text[..text.len().min(LOOKED_AT)];
                top.windows(DUMP_KEY.len()).any(|window| window == DUMP_KEY).then_some(Format::Msprobe)
            }
            _ => None,
        }
    }

    /// The format of a file, by its content first and its name where the content says nothing.
    pub fn detect(path: &Path, bytes: &[u8]) -> Result<Format, Error> {
        // A name that promises a format is taken at its word: its reader then says what is wrong with the file.
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

/// An archive of arrays has arrays in it; what torch writes begins with its pickle. Only the first entry's name
/// is looked at: the reader that is chosen looks at the rest. An archive of something else is told by its name,
/// or is not ours.
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

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
