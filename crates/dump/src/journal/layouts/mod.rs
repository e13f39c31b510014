//! Layouts: the files that are made of the journal of a step.
//!
//! A run always records into a journal, which survives a kill. When the recording of a step ends or pauses, its
//! layout makes the files of a tool from it:
//!
//! ```text
//!              ┌──► msprobe: dump.json, stack.json, construct.json, ledger.json in the folder of the journal
//! Documents ───┤
//!              ├──► torch_npu_hooks: lines at the end of one text file, for all steps
//!              ├──► torch_npu_hooks_async: the saved tensors under telling names in one folder, for all steps
//!              └──► ptdbg_ascend: lines in one text file, and beside it a folder of .npy files
//! ```
//! A layout may be asked for the same step several times: whenever recording pauses. It then replaces what it made
//! before. To add a layout, add a module, a variant of [`Layout`], and its name in [`Layout::new`].

mod msprobe;
mod ptdbg_ascend;
mod steps_in_one_place;
mod target;
mod torch_npu_hooks;
mod torch_npu_hooks_async;

use std::path::Path;

use thiserror::Error as ThisError;
use ulpscope_formats::{Bytes, Error};

use self::ptdbg_ascend::LinesAndArrays;
use self::target::Target;
use self::torch_npu_hooks::LinesFile;
use self::torch_npu_hooks_async::TensorFolder;
use super::documents::Documents;
use super::open::made;
use crate::problems::Problems;

pub(super) use self::msprobe::write_ledger;

impl FinishedStep<'_> {
    /// Writes the ledger to the folder of the journal.
    fn write_ledger(&self) -> Result<(), Error> {
        self.write_ledger_with(self.problems)
    }

    /// The same, with these problems in place of those of the journal.
    fn write_ledger_with(&self, problems: &Problems) -> Result<(), Error> {
        let ledger = self.documents.ledger(problems).map_err(|error| error.in_file(self.path))?;
        ledger.map_or(Ok(()), |ledger| write_ledger(self.folder, &ledger))
    }

    /// The `dump.json` of the step, in a file without a name.
    fn dump(&self) -> Result<Bytes, Error> {
        made(self.path, &|out| self.documents.journal.reading(|| self.documents.dump(out)))
    }

    /// The stacks of all calls by name, in a file without a name.
    fn all_stacks(&self) -> Result<Bytes, Error> {
        made(self.path, &|out| self.documents.journal.reading(|| self.documents.all_stacks(out)))
    }
}

/// What is made of the journal of a step.
#[derive(Debug, Default)]
pub enum Layout {
    /// The documents of msprobe, in the folder of the journal.
    #[default]
    Msprobe,
    /// The lines of torch_npu.hooks, in one text file.
    TorchNpuHooks(LinesFile),
    /// The files of torch_npu.hooks' asynchronous dump, in one folder.
    TorchNpuHooksAsync(TensorFolder),
    /// The lines of ptdbg_ascend in a text file, and its arrays in a folder.
    PtdbgAscend(LinesAndArrays),
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
    pub const NAMES: [&'static str; 4] =
        ["msprobe", "torch_npu_hooks", "torch_npu_hooks_async", "ptdbg_ascend"];

    /// The layout of a name. Layouts other than msprobe write to `path`, in which `{step}` and `{rank}` stand for the
    /// number of the step and of the rank.
    pub fn new(name: &str, path: Option<&str>) -> Result<Layout, LayoutError> {
        let target = |name| path.ok_or(LayoutError::NoPath(name)).and_then(Target::new);
        match name {
            "msprobe" => Ok(Layout::Msprobe),
            "torch_npu_hooks" => Ok(Layout::TorchNpuHooks(LinesFile::new(target("torch_npu_hooks")?))),
            "torch_npu_hooks_async" => {
                Ok(Layout::TorchNpuHooksAsync(TensorFolder::new(target("torch_npu_hooks_async")?)))
            }
            "ptdbg_ascend" => Ok(Layout::PtdbgAscend(LinesAndArrays::new(target("ptdbg_ascend")?))),
            other => Err(LayoutError::Unknown { found: other.to_owned() }),
        }
    }

    /// Makes the files of a step. The ledger is in the folder of the journal, whichever the layout.
    pub(super) fn write(&self, step: &FinishedStep<'_>) -> Result<(), Error> {
        match self {
            Layout::Msprobe => msprobe::write(step),
            Layout::TorchNpuHooks(file) => file.write(step),
            Layout::TorchNpuHooksAsync(folder) => folder.write(step),
            Layout::PtdbgAscend(place) => place.write(step),
        }
    }
}
