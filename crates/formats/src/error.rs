//! The error of this crate: the file, the place in it and the fault.

use std::fmt;
use std::path::{Path, PathBuf};

use ulpscope_tensor::ViewError;

/// Why a file cannot be read or written.
#[derive(Debug)]
pub struct Error {
    /// The file. Readers of plain bytes leave it empty, and [`Error::in_file`] fills it in.
    pub file: Option<PathBuf>,
    /// Where in the file.
    pub place: Place,
    /// What is wrong there.
    pub fault: Fault,
}

/// A place in a file, in the terms of its format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// The file as a whole.
    Whole,
    /// A byte offset.
    Byte(u64),
    /// A line number, from 1.
    Line(u64),
    /// A named part: an archive entry, a header key, a tensor.
    Part(String),
}

/// One variant per way a file can be wrong.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// The operating system refused.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// The file, or a length field in it, ends before the announced data is complete.
    #[error("truncated: expected {expected}, found {found}")]
    Truncated {
        /// What was expected.
        expected: String,
        /// What was found.
        found: String,
    },
    /// Another program shortened the file while it was read, so zeros may have been read.
    #[error(
        "shrank from {from} to {to} bytes while it was read: another program is writing to it; read it again when that is done"
    )]
    Shrank {
        /// Its size when it was opened.
        from: u64,
        /// Its size now.
        to: u64,
    },
    /// Pages of the mapped file could not be read, and its size does not explain why.
    #[error(
        "part of it could not be read: it was shortened and written again meanwhile, or its disk failed; read it again"
    )]
    LostPages,
    /// The file does not begin with the magic of its format.
    #[error("not {expected}: it begins with {found}")]
    Magic {
        /// The expected format, with its magic.
        expected: &'static str,
        /// The first bytes found.
        found: String,
    },
    /// Neither the content nor the name of the file matches a known format.
    #[error("of no known format: it begins with {found}")]
    UnknownFormat {
        /// The first bytes found.
        found: String,
    },
    /// A number in the file exceeds a named limit.
    #[error("{what} of {found} exceeds the limit of {limit}")]
    TooLarge {
        /// What is too large.
        what: &'static str,
        /// The limit.
        limit: u64,
        /// The number found.
        found: u64,
    },
    /// The content of a file needs more memory than its size justifies.
    #[error(
        "{what} need {asked} bytes of memory; the limit for a file of {file_size} bytes is {limit} (16 × its size + 64 \
         MiB): store numbers as tensors, or split the file"
    )]
    OverBudget {
        /// What the memory is for.
        what: &'static str,
        /// The size of the file, or of the part of it that is read separately.
        file_size: u64,
        /// The memory that a file of this size may use.
        limit: u64,
        /// The requested memory, in total for the file.
        asked: u64,
    },
    /// Nesting beyond a named limit.
    #[error("nested deeper than {limit} levels")]
    TooDeep {
        /// The limit.
        limit: usize,
    },
    /// The bytes do not follow the format.
    #[error("expected {expected}, found {found}")]
    Malformed {
        /// What the format requires here.
        expected: String,
        /// What was found here.
        found: String,
    },
    /// Well formed, but of a kind that is not supported.
    #[error("{0}")]
    Unsupported(String),
    /// A pickle names a callable. Nothing in a file is ever run.
    #[error("the file asks to run {0}, which is refused: expected only tensors and plain values")]
    WouldRun(String),
    /// A name in the file leads out of its folder, or is a link.
    #[error("{0:?} leads out of its folder; expected a plain relative name")]
    EscapesFolder(String),
    /// Shape, strides and bytes do not match. Boxed: otherwise this variant alone would make every `Result` of this
    /// crate large.
    #[error("{0}")]
    View(Box<ViewError>),
}

impl From<ViewError> for Fault {
    fn from(error: ViewError) -> Fault {
        Fault::View(Box::new(error))
    }
}

impl Error {
    /// An error at a place in a file that is not named yet.
    pub fn at(place: Place, fault: impl Into<Fault>) -> Error {
        Error { file: None, place, fault: fault.into() }
    }

    /// An error about the file as a whole.
    pub fn whole(fault: impl Into<Fault>) -> Error {
        Error::at(Place::Whole, fault)
    }

    /// The same error with the name of its file. A name that it already has is kept.
    pub fn in_file(mut self, path: &Path) -> Error {
        self.file.get_or_insert_with(|| path.to_owned());
        self
    }

    /// The same error within a named part of the file: `archive entry`, then the place it already had. A name too
    /// long for a message is shortened.
    pub fn in_part(mut self, part: &str) -> Error {
        // The only tensor of a file has no name.
        if part.is_empty() {
            return self;
        }
        let part = shortened(part);
        self.place = Place::Part(match self.place {
            Place::Whole => part,
            inner => format!("{part}, {inner}"),
        });
        self
    }
}

impl Fault {
    /// Shorthand for [`Fault::Malformed`].
    pub fn malformed(expected: impl Into<String>, found: impl Into<String>) -> Fault {
        Fault::Malformed { expected: expected.into(), found: found.into() }
    }

    /// Shorthand for [`Fault::Truncated`].
    pub fn truncated(expected: impl Into<String>, found: impl Into<String>) -> Fault {
        Fault::Truncated { expected: expected.into(), found: found.into() }
    }
}

/// The first bytes of a file, for [`Fault::Magic`].
pub(crate) fn beginning(bytes: &[u8]) -> String {
    const SHOWN: usize = 8;
    match bytes {
        [] => "nothing (the file is empty)".to_owned(),
        _ => format!("\"{}\"", bytes[..bytes.len().min(SHOWN)].escape_ascii()),
    }
}

/// Text from a file, shortened for a message: names and keys may be megabytes long.
pub(crate) fn shortened(text: &str) -> String {
    const SHOWN: usize = 120;
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Whole => f.write_str("whole file"),
            Place::Byte(at) => write!(f, "byte {at}"),
            Place::Line(line) => write!(f, "line {line}"),
            Place::Part(name) => f.write_str(name),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{}: ", file.display())?;
        }
        if self.place != Place::Whole {
            write!(f, "{}: ", self.place)?;
        }
        write!(f, "{}", self.fault)
    }
}

/// The message is complete: a source would be printed a second time.
impl std::error::Error for Error {}
