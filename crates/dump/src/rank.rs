//! The records of one process: an index of calls, and access to everything in it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use ulpscope_formats::pkl_lines::Frame;
use ulpscope_formats::records::line_to_frame;
use ulpscope_formats::{Access, Bytes, Error, Fault, Tensor, Value, file, storage};

use crate::acl::{DeviceOverflow, OperatorFile};
use crate::address;
use crate::arguments::CallArguments;
use crate::call::{Call, CallKind};
use crate::call_table::CallTable;
use crate::entry::{Content, Data, Entry, TensorEntry};
use crate::file_part::PartFiles;
use crate::key::name_of;
use crate::ledger::Ledger;
use crate::links;
use crate::moved::{MovedTensors, MovedTo};
use crate::names::{NameId, Names};
use crate::problems::Problems;

/// Who wrote a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tool {
    /// Ulpscope, in msprobe's layout.
    Ulpscope,
    /// msprobe of any release.
    Msprobe,
    /// ptdbg_ascend before 6.0.
    Ptdbg4,
    /// ptdbg_ascend 6.0.
    Ptdbg6,
    /// torch_npu.hooks.
    Hooks,
    /// torch_npu.hooks' asynchronous dump: files whose names contain all metadata.
    AsyncNpy,
    /// The dump of an Ascend device: a file for each execution of an operator.
    Acl,
    /// What TensorFlow's debugger dumped, or arrays with its names.
    Tensorflow,
    /// Tensor files or checkpoints of any program.
    Files,
}

/// What a dump records of each tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Task {
    /// Statistics or digests, and the elements.
    Tensor,
    /// Statistics or digests.
    Statistics,
    /// Only the names of the calls, and where they were made.
    Structure,
}

impl fmt::Display for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Tool::Ulpscope => "Ulpscope",
            Tool::Msprobe => "msprobe",
            Tool::Ptdbg4 => "ptdbg_ascend",
            Tool::Ptdbg6 => "ptdbg_ascend 6.0",
            Tool::Hooks => "torch_npu.hooks",
            Tool::AsyncNpy => "torch_npu.hooks (asynchronous)",
            Tool::Acl => "ACL dump",
            Tool::Tensorflow => "TensorFlow dump",
            Tool::Files => "tensor files",
        })
    }
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Task::Tensor => "tensor",
            Task::Statistics => "statistics",
            Task::Structure => "structure",
        })
    }
}

/// The calls of a rank in the order they were recorded: order of execution, a module after the calls inside it.
#[derive(Debug, Default)]
pub(crate) struct Index {
    pub(crate) names: Names,
    pub(crate) calls: Vec<Call>,
    /// The numbers of calls that were running when the run ended, in order.
    pub(crate) running: Vec<u32>,
    /// For finding calls by name, once all are known.
    pub(crate) table: OnceLock<CallTable>,
}

impl Index {
    /// The name of a call.
    pub(crate) fn name(&self, call: usize) -> String {
        let call = &self.calls[call];
        name_of(self.names.text(call.base), call)
    }
}

/// The documents of a rank in msprobe's layout.
#[derive(Debug)]
pub(crate) struct RankDocuments {
    /// `dump.json` or `debug.json`.
    pub(crate) dump: Bytes,
    /// `stack.json`, if there is one.
    pub(crate) stacks: Option<Bytes>,
    /// `construct.json`, if there is one.
    pub(crate) parents: Option<Bytes>,
}

/// Where the entries of a rank come from. One implementation per dump format.
pub(crate) trait Source: Send + Sync {
    /// The entries of a call: inputs, parameters, outputs, gradients, each in order.
    fn entries(&self, index: &Index, call: usize) -> Result<Vec<Entry>, Error>;

    /// The same in the containers that they were passed in; nothing if the format does not record them all.
    fn arguments(&self, _index: &Index, _call: usize) -> Result<Option<CallArguments>, Error> {
        Ok(None)
    }

    /// Where a call was made, innermost frame first.
    fn stack(&self, index: &Index, call: usize) -> Option<Vec<String>>;

    /// The same, split into fields.
    fn frames(&self, index: &Index, call: usize) -> Option<Vec<Frame>> {
        Some(self.stack(index, call)?.iter().map(|line| line_to_frame(line)).collect())
    }

    /// Whether stacks were recorded. The tools do so for all calls or for none.
    fn has_stacks(&self, index: &Index) -> bool;

    /// The call of the module in which a call was made.
    fn parent(&self, index: &Index, call: usize) -> Option<String>;

    /// The same as a call of the index; nothing if that is not known without its name.
    fn parent_call(&self, _index: &Index, _call: usize) -> Option<usize> {
        None
    }

    /// The folder of [`Data::File`] paths.
    fn data_folder(&self) -> Option<&Path>;

    /// The documents, if the rank has msprobe's layout.
    fn documents(&self) -> Result<Option<RankDocuments>, Error> {
        Ok(None)
    }

    /// What the run recorded about its own capture.
    fn ledger(&self) -> Option<Ledger> {
        None
    }

    /// Whether the run did not reach the end of the step.
    fn is_journal(&self) -> bool {
        false
    }

    /// How the run ended, if it did not end normally.
    fn notes(&self) -> &[String] {
        &[]
    }

    /// What the device detected, in order of time.
    fn device_overflows(&self) -> &[DeviceOverflow] {
        &[]
    }

    /// The file of one entry of a call, if each entry has its own.
    fn entry_file(&self, _index: &Index, _call: usize, _entry: usize) -> Option<PathBuf> {
        None
    }

    /// The files of an ACL dump, one for each call.
    fn operator_files(&self) -> &[OperatorFile] {
        &[]
    }

    /// The files of an ACL dump that cannot be read.
    fn unread_operator_files(&self) -> &[OperatorFile] {
        &[]
    }

    /// Problems found after the rank was opened, in files that are read on request.
    fn late_problems(&self) -> Problems;
}

/// What one process recorded in one step.
pub struct Rank {
    /// The file or folder it was read from.
    pub path: PathBuf,
    /// Who wrote it.
    pub tool: Tool,
    /// What it recorded.
    pub task: Task,
    /// `L0`, `L1`, `mix`, `debug`, where recorded.
    pub level: Option<String>,
    pub(crate) index: Index,
    pub(crate) source: Box<dyn Source>,
    pub(crate) problems: Problems,
    /// The files of tensors that hold several, once they were asked for.
    pub(crate) part_files: PartFiles,
    /// Where its tensors are, if its files were on a different machine.
    pub(crate) moved: Option<MovedTensors>,
}

impl Rank {
    /// The calls.
    pub fn calls(&self) -> &[Call] {
        &self.index.calls
    }

    /// The text of a call's base, `Functional.linear`.
    pub fn base(&self, base: NameId) -> &str {
        self.index.names.text(base)
    }

    /// The name of a call, the same for all tools: `Functional.linear.0.forward`,
    /// `Module.fc.Linear.forward.0`.
    pub fn name(&self, call: usize) -> String {
        self.index.name(call)
    }

    /// The call of a name; the last one if it occurs twice.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.index.find_name(name)
    }

    /// The forward call with the base and number of a call.
    pub fn forward(&self, call: usize) -> Option<usize> {
        let Call { base, index, .. } = self.index.calls[call];
        self.index.find_parts(base, index, CallKind::Forward)
    }

    /// The entries of a call, in the order of its tool: for msprobe inputs, parameters, outputs, gradients,
    /// each in order; for a `.pkl` in the order of its lines.
    pub fn entries(&self, call: usize) -> Result<Vec<Entry>, Error> {
        self.source.entries(&self.index, call)
    }

    /// The arguments and results of a call in the containers that they were passed in. Nothing for tools whose
    /// records are incomplete: ptdbg_ascend and torch_npu.hooks leave out keyword arguments.
    pub fn arguments(&self, call: usize) -> Result<Option<CallArguments>, Error> {
        self.source.arguments(&self.index, call)
    }

    /// Where a call was made, innermost frame first: `File {path}, line {n}, in {function}, \n {code}`.
    pub fn stack(&self, call: usize) -> Option<Vec<String>> {
        self.source.stack(&self.index, call)
    }

    /// The same, split into fields: what the older tools print of a stack.
    pub fn frames(&self, call: usize) -> Option<Vec<Frame>> {
        self.source.frames(&self.index, call)
    }

    /// Whether the dump has stacks: for msprobe, whether there is a `stack.json`, even an empty one; for a
    /// `.pkl`, whether any line is a stack. Reads nothing.
    pub fn has_stacks(&self) -> bool {
        self.source.has_stacks(&self.index)
    }

    /// The tool and what it recorded, for people: `msprobe, tensor, level L1, 440 calls`.
    pub fn describe(&self) -> String {
        let level = self.level.as_ref().map(|level| format!(", level {level}")).unwrap_or_default();
        let calls = self.index.calls.len();
        let plural = if calls == 1 { "" } else { "s" };
        match self.tool {
            Tool::Files => format!("{}, {calls} value{plural}", self.tool),
            _ => format!("{}, {}{level}, {calls} call{plural}", self.tool, self.task),
        }
    }

    /// The name of the module's call in which a call was made.
    pub fn parent(&self, call: usize) -> Option<String> {
        self.source.parent(&self.index, call)
    }

    /// The module's call in which a call was made, if it was recorded.
    pub fn parent_call(&self, call: usize) -> Option<usize> {
        let known = self.source.parent_call(&self.index, call);
        known.or_else(|| self.find(&self.parent(call)?))
    }

    /// The elements of a tensor, mapped; nothing if only statistics were recorded. Links are not followed:
    /// nothing in a dump leads out of it.
    pub fn tensor(&self, entry: &TensorEntry) -> Result<Option<Tensor>, Error> {
        let (name, part) = match &entry.data {
            Data::None | Data::Sample(_) => return Ok(None),
            Data::Tensor(tensor) => return Ok(Some(tensor.clone())),
            Data::Assembled(assembled) => return assembled.tensor().map(Some),
            Data::Refused(why) => {
                return Err(Error::whole(Fault::Unsupported(why.clone())).in_file(&self.path));
            }
            Data::File(name) => (name, None),
            Data::Part(part) => (&part.file, Some(part)),
        };
        let Some(folder) = self.source.data_folder() else { return Ok(None) };
        let path = folder.join(name);
        match self.moved.as_ref().map(|moved| moved.place(&path, part.map(|part| &**part))) {
            None | Some(MovedTo::Mirror) => {}
            Some(MovedTo::Left) => return Ok(None),
            Some(MovedTo::Same(same)) => {
                let read = || match (part, same.part) {
                    (Some(part), Some([offset, length])) => {
                        let part = part.at(offset, length);
                        self.part_files.tensor(&same.path, &part, entry, || Ok(()))
                    }
                    _ => lone_tensor(file::read(&same.path, Access::ReadOnly)?.value),
                };
                // The bytes are the same, and so is what is wrong with them.
                return read().map(Some).map_err(|error| Error { file: None, ..error }.in_file(&path));
            }
        }
        let check = || {
            // If the folder is not the one that the user named, it could be a link too.
            if folder != self.path {
                links::refuse(folder)?;
            }
            links::refuse_below(folder, Path::new(name))
        };
        let tensor = match part {
            Some(part) => self.part_files.tensor(&path, part, entry, check)?,
            None => {
                check()?;
                let value = file::read(&path, Access::ReadOnly)?.value;
                lone_tensor(value).map_err(|error| error.in_file(&path))?
            }
        };
        // Whoever asks for elements reads them.
        tensor.fetch()?;
        Ok(Some(tensor))
    }

    /// How a command line names the elements of a tensor: the path of its file, or `DUMP:ENTRY` if the file holds
    /// others too. Nothing if there is no such file.
    pub fn tensor_address(&self, entry: &Entry) -> Option<PathBuf> {
        let Content::Tensor(tensor) = &entry.content else { return None };
        let path = self.source.data_folder()?.join(tensor.data.file()?);
        if !storage::is_file(&path) {
            return None;
        }
        match &tensor.data {
            Data::Part(_) => {
                let folder = if storage::is_folder(&self.path) { &self.path } else { self.path.parent()? };
                Some(address::of_entry(folder, &entry.name))
            }
            Data::None
            | Data::File(_)
            | Data::Tensor(_)
            | Data::Sample(_)
            | Data::Assembled(_)
            | Data::Refused(_) => Some(path),
        }
    }

    /// What the run recorded about its own capture; nothing for a dump of a different tool. If the ledger cannot be
    /// read, that is a problem from the first request on.
    pub fn ledger(&self) -> Option<Ledger> {
        self.source.ledger()
    }

    /// Whether this is the journal of a step that has not ended: the run was killed before that, or is still
    /// running. If the run was killed later, everything is recorded, and its journal is a dump like any other.
    pub fn is_journal(&self) -> bool {
        self.source.is_journal()
    }

    /// Whether capture ended before the step did: calls may be missing.
    pub fn is_cut(&self) -> bool {
        self.is_journal() || self.ledger().is_some_and(|ledger| ledger.ended.is_some())
    }

    /// The numbers of the calls that were running when the run was killed, in order: they have arguments and no
    /// results.
    pub fn running(&self) -> &[u32] {
        &self.index.running
    }

    /// How the run ended, if it was killed: inside which calls, and which line is incomplete. Everything recorded
    /// before that is still valid.
    pub fn notes(&self) -> &[String] {
        self.source.notes()
    }

    /// The overflows that an Ascend device detected, in order of time; other dumps have none.
    pub fn device_overflows(&self) -> &[DeviceOverflow] {
        self.source.device_overflows()
    }

    /// The file of one entry of a call, by its position among [`Rank::entries`]; nothing if entries share files.
    pub fn entry_file(&self, call: usize, entry: usize) -> Option<PathBuf> {
        self.source.entry_file(&self.index, call, entry)
    }

    /// The files of an ACL dump, one for each call in the order of the calls, below [`Rank::path`]; other dumps have none.
    pub fn operator_files(&self) -> &[OperatorFile] {
        self.source.operator_files()
    }

    /// The files of an ACL dump that cannot be read, below [`Rank::path`]: they are no calls, but their operators ran.
    pub fn unread_operator_files(&self) -> &[OperatorFile] {
        self.source.unread_operator_files()
    }

    /// What could not be read so far.
    pub fn problems(&self) -> Problems {
        let mut problems = self.problems.clone();
        problems.extend(self.source.late_problems());
        problems
    }
}

impl fmt::Debug for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rank")
            .field("path", &self.path)
            .field("tool", &self.tool)
            .field("task", &self.task)
            .field("calls", &self.index.calls.len())
            .finish_non_exhaustive()
    }
}

/// The single tensor of a file of a dump.
fn lone_tensor(value: Value) -> Result<Tensor, Error> {
    if let Value::Tensor(tensor) = value {
        return Ok(tensor);
    }
    if let [(_, why), ..] = value.unread().as_slice() {
        return Err(Error::whole(Fault::Unsupported((*why).to_owned())));
    }
    match value.tensors().as_slice() {
        [(_, tensor)] => Ok((*tensor).clone()),
        tensors => Err(Error::whole(Fault::malformed("one tensor", format!("{} tensors", tensors.len())))),
    }
}
