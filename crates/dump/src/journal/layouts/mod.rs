//! Layouts: the files that are made of the journal of a step.
//!
//! A run always records into a journal, which survives a kill. When the recording of a step ends or pauses, its
//! layout makes the files of a tool from it:
//!
//! ```text
//!              ┌──► msprobe: dump.json, stack.json, construct.json, ledger.json in the folder of the journal
//! Documents ───┤
//!              └──► torch_npu_hooks: lines at the end of one text file, for all steps
//! ```
//! A layout may be asked for the same step several times: whenever recording pauses. It then replaces what it made
//! before. To add a layout, add a module, a variant of [`Layout`], and its name in [`Layout::new`].

mod msprobe;
mod target;
mod torch_npu_hooks;

use std::path::Path;

use thiserror::Error as ThisError;
use ulpscope_formats::Error;

use self::target::Target;
use self::torch_npu_hooks::LinesFile;
use super::documents::Documents;
use crate::problems::Problems;

pub(super) use self::msprobe::write_ledger;

/// What is made of the journal of a step.
#[derive(Debug, Default)]
pub enum Layout {
    /// The documents of msprobe, in the folder of the journal.
    #[default]
    Msprobe,
    /// The lines of torch_npu.hooks, in one text file.
    TorchNpuHooks(LinesFile),
}

/// A layout that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, ThisError)]
pub enum LayoutError {
    /// No layout has this name.
    #[error("layout: expected {}, found {found}", Layout::NAMES.join(", "))]
    Unknown {
        /// The name.
        found: String,
    },
    /// The layout writes to a file that was not given.
    #[error("layout_path: layout {0} needs the path of its file")]
    NoPath(&'static str),
    /// The path has a placeholder that does not exist.
    #[error("layout_path: {{{0}}} is no placeholder; expected {{step}} or {{rank}}")]
    Placeholder(String),
}

/// A step whose files are made.
pub(super) struct FinishedStep<'a> {
    /// The folder of the journal.
    pub(super) folder: &'a Path,
    /// The journal.
    pub(super) path: &'a Path,
    /// The journal as documents.
    pub(super) documents: Documents<'a>,
    /// The lines of the journal that could not be read.
    pub(super) problems: &'a Problems,
}

impl Layout {
    /// The names of all layouts.
    pub const NAMES: [&'static str; 2] = ["msprobe", "torch_npu_hooks"];

    /// The layout of a name. Layouts other than msprobe write to `path`, in which `{step}` and `{rank}` stand for the
    /// number of the step and of the rank.
    pub fn new(name: &str, path: Option<&str>) -> Result<Layout, LayoutError> {
        let target = |name| path.ok_or(LayoutError::NoPath(name)).and_then(Target::new);
        match name {
            "msprobe" => Ok(Layout::Msprobe),
            "torch_npu_hooks" => Ok(Layout::TorchNpuHooks(LinesFile::new(target("torch_npu_hooks")?))),
            other => Err(LayoutError::Unknown { found: other.to_owned() }),
        }
    }

    /// Makes the files of a step. The ledger is in the folder of the journal, whichever the layout.
    pub(super) fn write(&self, step: &FinishedStep<'_>) -> Result<(), Error> {
        match self {
            Layout::Msprobe => msprobe::write(step),
            Layout::TorchNpuHooks(file) => file.write(step),
        }
    }
}
