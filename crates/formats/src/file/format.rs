//! The file formats: one row for each, with its names and what its files hold, and its reader and writer.
//!
//! Flags, messages and the formats that capture records are derived from these rows. A new format is a row of the list
//! and an arm in [`decode`], [`encode`] and [`left_out`]; if its files have no first bytes of their own, it is also
//! distinguished in `detect`.

use std::fmt;
use std::io::Write;
use std::path::Path;

use super::records as record_files;
use crate::acl::{self, DumpFile};
use crate::bytes::Bytes;
use crate::error::{Error, Fault};
use crate::tensor::Tensor;
use crate::value::Value;
use crate::{npy, npz, pt, safetensors, tensorflow};

/// The name that numpy gives to an array without a name.
const LONE_ARRAY: &str = "arr_0";

/// The format in which capture saves tensors unless the user chooses another.
const RECORDED_BY_DEFAULT: Format = Format::Pt;

/// What is known of a format.
pub(super) struct FormatRow {
    /// The usual name, with its article.
    name: &'static str,
    /// What `--help` says of it.
    about: &'static str,
    /// The extensions of its files. The first is used for writing, and names the format on the command line.
    extensions: &'static [&'static str],
    /// Extensions that its files also have, and files of other formats, too.
    shared_extensions: &'static [&'static str],
    /// The bytes with which its files begin; `None` if files of other formats begin with them, too.
    pub(super) start: Option<&'static [u8]>,
    holds: Holds,
    records: Option<Records>,
    /// Whether programs of all kinds use it. The others are the files of one tool.
    is_general: bool,
    /// Whether capture saves tensors in it.
    is_recorded: bool,
}

/// What the files of a format can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Holds {
    /// One tensor.
    OneTensor,
    /// Tensors with names.
    NamedTensors,
    /// Tensors, and values around them.
    Values,
    /// No tensors.
    NoTensors,
}

/// The formats of the records of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Records {
    /// [`Format::PklLines`]. If the lines contain every element, they are tensors.
    PklLines,
    /// [`Format::Msprobe`].
    Msprobe,
}

/// Makes the enum and the table of its rows, so that neither can lack what the other has.
macro_rules! formats {
    ($($(#[$doc:meta])+ $format:ident: $row:expr;)+) => {
        /// The formats this crate reads and writes.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Format {
            $($(#[$doc])+ $format,)+
        }

        impl Format {
            /// Every format.
            pub const ALL: [Format; COUNT] = [$(Format::$format),+];
        }

        const COUNT: usize = [$(stringify!($format)),+].len();

        /// In the order of the enum.
        static ROWS: [FormatRow; COUNT] = [$($row),+];
    };
}

formats! {
    /// NumPy array.
    Npy: FormatRow {
        name: "a .npy file", about: "NumPy array: one tensor", extensions: &["npy"], shared_extensions: &[],
        start: Some(b"\x93NUMPY"), holds: Holds::OneTensor, records: None, is_general: true, is_recorded: true,
    };
    /// Zip of NumPy arrays.
    Npz: FormatRow {
        name: "a .npz file", about: "Zip of NumPy arrays", extensions: &["npz"], shared_extensions: &[],
        start: None, holds: Holds::NamedTensors, records: None, is_general: true, is_recorded: false,
    };
    /// PyTorch, zip or legacy.
    Pt: FormatRow {
        name: "a PyTorch file", about: "PyTorch, loadable with weights_only=True",
        extensions: &["pt", "pth", "ckpt"], shared_extensions: &["bin", "pickle"],
        start: None, holds: Holds::Values, records: None, is_general: true, is_recorded: true,
    };
    /// safetensors.
    Safetensors: FormatRow {
        name: "a .safetensors file", about: "safetensors", extensions: &["safetensors"], shared_extensions: &[],
        start: None, holds: Holds::Values, records: None, is_general: true, is_recorded: true,
    };
    /// ACL dump file, protobuf or nano header.
    Acl: FormatRow {
        name: "an ACL dump file", about: "ACL dump file", extensions: &["acl"], shared_extensions: &[],
        start: None, holds: Holds::NamedTensors, records: None, is_general: false, is_recorded: false,
    };
    /// Event of TensorFlow's debugger.
    TfEvent: FormatRow {
        name: "an event of TensorFlow's debugger", about: "Event of TensorFlow's debugger: one tensor",
        extensions: &["tfdbg"], shared_extensions: &[],
        start: None, holds: Holds::OneTensor, records: None, is_general: false, is_recorded: false,
    };
    /// JSON lines of ptdbg_ascend and torch_npu.hooks, named `.pkl` although they are not pickles.
    PklLines: FormatRow {
        name: "a JSON-lines .pkl file",
        about: "JSON lines: tensors as torch_npu.hooks writes them, records as ptdbg_ascend does",
        extensions: &["pkl"], shared_extensions: &[],
        start: None, holds: Holds::NamedTensors, records: Some(Records::PklLines), is_general: false,
        is_recorded: false,
    };
    /// One of msprobe's JSON files.
    Msprobe: FormatRow {
        name: "a msprobe JSON file", about: "msprobe's dump.json and stack.json: records only",
        extensions: &["json"], shared_extensions: &[],
        start: None, holds: Holds::NoTensors, records: Some(Records::Msprobe), is_general: false,
        is_recorded: false,
    };
}

impl Format {
    pub(super) fn row(self) -> &'static FormatRow {
        &ROWS[self as usize]
    }

    /// The usual name, with its article.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// What it is, in a few words.
    pub fn about(self) -> &'static str {
        self.row().about
    }

    /// The file extension for writing, which also names the format on the command line.
    pub fn extension(self) -> &'static str {
        self.row().extensions[0]
    }

    /// What its files can hold.
    pub fn holds(self) -> Holds {
        self.row().holds
    }

    /// Which records of a run it is, if it is one of them.
    pub fn records(self) -> Option<Records> {
        self.row().records
    }

    /// The format of an extension.
    pub fn of_extension(path: &Path) -> Option<Format> {
        let extension = path.extension()?.to_str()?.to_ascii_lowercase();
        Format::ALL.into_iter().find(|format| format.row().extensions.contains(&extension.as_str()))
    }

    /// Whether files with this extension may hold tensors.
    pub fn may_hold_tensors(extension: &str) -> bool {
        let extension = extension.to_ascii_lowercase();
        Format::ALL.iter().filter(|format| format.holds() != Holds::NoTensors).any(|format| {
            let row = format.row();
            row.extensions.iter().chain(row.shared_extensions).any(|own| *own == extension)
        })
    }

    /// The extensions of the formats that programs of all kinds use, for messages: `.npy, .npz`, and before the last one
    /// of them `before_last`.
    pub fn general_extensions(before_last: &str) -> String {
        let general = Format::ALL.into_iter().filter(|format| format.row().is_general);
        let names: Vec<String> = general.map(|format| format!(".{}", format.extension())).collect();
        match names.as_slice() {
            [others @ .., last] if !others.is_empty() => format!("{}{before_last}{last}", others.join(", ")),
            names => names.concat(),
        }
    }

    /// The formats in which capture saves tensors, the default first.
    pub fn recorded() -> impl Iterator<Item = Format> {
        let others = |format: &Format| format.row().is_recorded && *format != RECORDED_BY_DEFAULT;
        std::iter::once(RECORDED_BY_DEFAULT).chain(Format::ALL.into_iter().filter(others))
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Reads bytes of a known format.
pub fn decode(format: Format, bytes: &Bytes) -> Result<Value, Error> {
    match format {
        Format::Npy => npy::read(bytes).map(Value::Tensor),
        Format::Npz => npz::read(bytes),
        Format::Pt => pt::read(bytes),
        Format::Safetensors => safetensors::read(bytes),
        Format::PklLines => record_files::read_lines(bytes),
        Format::Msprobe => record_files::read_json(bytes),
        Format::Acl => acl::read(bytes).map(|dump| dump.to_value()),
        Format::TfEvent => match tensorflow::read_debug_tensor(bytes)?.tensor {
            Some(tensor) => Ok(Value::Tensor(tensor)),
            None => Ok(Value::Unread("the handle of a variable, which has no elements".to_owned())),
        },
    }
}

/// Writes a value in a format. `name` is the operator's name in an ACL dump or an event of TensorFlow.
pub fn encode(format: Format, value: &Value, name: &str, out: &mut dyn Write) -> Result<(), Error> {
    match format {
        Format::Npy => npy::write(&lone_tensor(format, value)?.view(), out),
        Format::TfEvent => tensorflow::write_debug_tensor(name, &lone_tensor(format, value)?, out),
        Format::Npz if matches!(value, Value::Tensor(_)) => {
            npz::write(&Value::Dict(vec![(Value::Str(LONE_ARRAY.to_owned()), value.clone())]), out)
        }
        Format::Npz => npz::write(value, out),
        Format::Pt => pt::write(value, out),
        Format::Safetensors => safetensors::write(value, out),
        Format::PklLines => record_files::write_lines(value, out),
        Format::Msprobe => record_files::write_json(value, out),
        Format::Acl => acl::write(&DumpFile::from_value(value, name)?, out),
    }
}

/// The tensor of a format that holds one.
fn lone_tensor(format: Format, value: &Value) -> Result<Tensor, Error> {
    match value.tensors().as_slice() {
        [(_, tensor)] => Ok((*tensor).clone()),
        tensors => {
            let found = tensors.len();
            let message = format!("{format} holds one tensor, and there are {found}");
            Err(Error::whole(Fault::Unsupported(message)))
        }
    }
}

/// The dotted paths of everything in a value that [`encode`] would silently leave out: a tensor format cannot hold
/// the plain values around the tensors. Values for which the write fails are not among them.
pub fn left_out(format: Format, value: &Value) -> Vec<String> {
    match format {
        Format::Pt | Format::Msprobe => return Vec::new(),
        Format::Safetensors => return safetensors::left_out(value),
        // Without tensors the value is a list of records, which is written completely.
        Format::PklLines if value.tensors().is_empty() => return Vec::new(),
        Format::Npy | Format::Npz | Format::Acl | Format::TfEvent | Format::PklLines => {}
    }
    let mut paths = Vec::new();
    value.visit(&mut |path, part| {
        if !matches!(part, Value::Tensor(_) | Value::Dict(_) | Value::List(_) | Value::Tuple(_)) {
            paths.push(path.to_owned());
        }
    });
    paths
}
