//! A rank of ptdbg_ascend or torch_npu.hooks: a `.pkl` of JSON lines. ptdbg_ascend has a folder of `.npy`
//! files of the same name beside it.
//!
//! A call is a range of lines. The index keeps the place of each range. Lines are decoded again on request, in
//! the order of the file, so that the entries of all calls are exactly the data lines of the file.

use std::ops::Range;
use std::path::{Path, PathBuf};

use ulpscope_formats::json::Json;
use ulpscope_formats::msprobe::{Item, plain_file_name};
use ulpscope_formats::names::{Direction, LineName, Role as LineRole};
use ulpscope_formats::pkl_lines::{
    CallLines, CallNumbers, Frame, Kind, Line, Lines, Outline, Outlines, Part, Payload, Shape, Values, kind,
    line_name, tensor_of,
};
use ulpscope_formats::records::{frame_info_to_line, frame_to_line, line_to_frame};
use ulpscope_formats::storage;
use ulpscope_formats::{Access, Bytes, Error, Fault};

use crate::call::{Call, CallKind};
use crate::damage::Damage;
use crate::entry::{Content, Data, Entry, Role, TensorEntry};
use crate::file_part::PartFiles;
use crate::problems::Problems;
use crate::rank::{Index, Rank, Source, Task, Tool};

/// Opens a `.pkl` and finds its calls. The rest is read on request. `data` is the folder of its tensors, if it is not
/// the one beside it.
pub(crate) fn open(path: &Path, data: Option<&Path>) -> Result<Rank, Error> {
    let bytes = Bytes::map(path, Access::ReadOnly)?;
    let lines = bytes.clone();
    lines.reading(|| index(path, data, bytes))
}

/// Finds the calls of a `.pkl`.
fn index(path: &Path, data: Option<&Path>, bytes: Bytes) -> Result<Rank, Error> {
    let Some(kind) = kind(&bytes) else {
        let expected = "lines of ptdbg_ascend ([name, step, [], dtype, shape, stats]) or torch_npu.hooks \
                        ([name, values, dtype, shape])";
        let found = if bytes.is_empty() { "an empty file" } else { "none of that form among the first" };
        return Err(Error::whole(Fault::malformed(expected, found)).in_file(path));
    };
    if data.is_some() && !is_ptdbg(kind) {
        let message = "has the elements in its own lines: leave the folder of tensors out";
        return Err(Error::whole(Fault::Unsupported(message.to_owned())).in_file(path));
    }
    let mut indexer = Indexer::new(kind);
    let mut problems = Problems::default();
    for outline in Outlines::new(&bytes) {
        match outline {
            Ok(outline) => indexer.line(&outline),
            Err(error) => problems.add(&error.in_file(path)),
        }
    }
    indexer.close();
    let beside = path.with_extension("");
    let beside = (is_ptdbg(kind) && is_folder(&beside)).then_some(beside);
    let data = data.map(Path::to_owned).or(beside);
    let task = match kind {
        _ if indexer.only_stacks => Task::Structure,
        Kind::HooksFull | Kind::HooksOverflow => Task::Tensor,
        _ if data.is_some() => Task::Tensor,
        _ => Task::Statistics,
    };
    Ok(Rank {
        path: path.to_owned(),
        tool: match kind {
            Kind::Ptdbg4 => Tool::Ptdbg4,
            Kind::Ptdbg6 => Tool::Ptdbg6,
            Kind::HooksSample | Kind::HooksFull | Kind::HooksOverflow => Tool::Hooks,
        },
        task,
        level: indexer.level().map(str::to_owned),
        index: indexer.index,
        source: Box::new(PklSource {
            bytes,
            kind,
            path: path.to_owned(),
            damage: Damage::default(),
            has_stacks: indexer.has_stacks,
            data,
        }),
        problems,
        part_files: PartFiles::default(),
        moved: None,
    })
}

fn is_ptdbg(kind: Kind) -> bool {
    matches!(kind, Kind::Ptdbg4 | Kind::Ptdbg6)
}

/// Whether this is a folder and not a link to one.
fn is_folder(path: &Path) -> bool {
    storage::about_itself(path).is_ok_and(|about| about.kind == storage::Kind::Folder)
}

/// Groups lines into calls.
struct Indexer {
    kind: Kind,
    index: Index,
    numbers: CallNumbers,
    open: Option<(CallLines, Range<u64>)>,
    only_stacks: bool,
    has_stacks: bool,
}

impl Indexer {
    fn new(kind: Kind) -> Indexer {
        let (index, numbers) = (Index::default(), CallNumbers::default());
        Indexer { kind, index, numbers, open: None, only_stacks: true, has_stacks: false }
    }

    fn line(&mut self, line: &Outline<'_>) {
        let part = line.part;
        self.only_stacks &= part != Part::Entry;
        self.has_stacks |= part != Part::Entry;
        let place = line.place.start as u64..line.place.end as u64;
        let Some(name) = line_name(&line.name, self.kind) else {
            // A name of unknown form is kept as a saved value.
            self.close();
            let base = self.index.names.id(&line.name);
            self.index.calls.push(Call { base, index: None, kind: CallKind::Saved, place });
            return;
        };
        match &mut self.open {
            Some((lines, whole)) if lines.continue_with(&name, part) => {
                lines.take(&name, part);
                whole.end = place.end;
            }
            _ => {
                self.close();
                self.open = Some((CallLines::begin(name, part), place));
            }
        }
    }

    fn close(&mut self) {
        let Some((lines, place)) = self.open.take() else { return };
        let name = &lines.name;
        let number = match name.index {
            // As written, even if another call has it: a module that runs twice keeps its name.
            Some(number) => number,
            None => self.numbers.give(name).0,
        };
        let base = self.index.names.id(&name.base);
        let (index, kind) = (u32::try_from(number).ok(), name.direction.into());
        self.index.calls.push(Call { base, index, kind, place });
    }

    /// Modules or APIs: a dump has only one of them, so the first call decides.
    fn level(&self) -> Option<&'static str> {
        let base = self.index.names.text(self.index.calls.first()?.base);
        Some(if base.starts_with("Module.") { "L0" } else { "L1" })
    }
}

struct PklSource {
    bytes: Bytes,
    kind: Kind,
    path: PathBuf,
    /// Lines that turned out to be damaged when they were decoded.
    damage: Damage,
    /// Whether any line is a stack or a frame of one.
    has_stacks: bool,
    /// The folder of the `.npy` files, if there is one.
    data: Option<PathBuf>,
}

impl PklSource {
    /// The lines of a call with the wanted parts. Unreadable lines are noted, unless they were listed when
    /// the rank was opened.
    fn lines(&self, index: &Index, call: usize, wanted: impl Fn(Part) -> bool) -> Vec<Line> {
        let place = &index.calls[call].place;
        let text = self.bytes.get(place.start as usize..place.end as usize).unwrap_or_default();
        let mut lines = Vec::new();
        let mut damaged = false;
        for outline in Outlines::new(text).flatten().filter(|outline| wanted(outline.part)) {
            match decoded(text, &outline) {
                Some(line) => lines.push(line),
                None => damaged = true,
            }
        }
        if damaged {
            self.damage.take(call, || {
                let damaged = Outlines::new(text).flatten().filter(|line| decoded(text, line).is_none());
                damaged.map(|line| place.start + line.place.start as u64).collect()
            });
        }
        lines
    }

    fn entry(&self, line: Line) -> Option<Entry> {
        let name = line.name()?.to_owned();
        let (role, path) = match line_name(&name, self.kind) {
            Some(parsed) => role_and_path(&parsed, is_ptdbg(self.kind)),
            None => (Role::Saved, String::new()),
        };
        let content = match line {
            Line::HooksTensor { values, dtype, shape, .. } => self.hooks_tensor(&values, dtype, shape),
            Line::HooksValue { value, .. } => Item::plain(value).into(),
            Line::PtdbgEntry { stats, dtype, shape: Shape::Text(_), .. } => {
                let kind = dtype.trim_start_matches("<class '").trim_end_matches("'>").to_owned();
                Content::Scalar { kind, value: stats.into_iter().next().unwrap_or(Json::Null) }
            }
            Line::PtdbgEntry { payload, dtype, shape: Shape::Dims(dims), stats, .. } => {
                let mut stats = stats.into_iter();
                let stats = std::array::from_fn(|_| stats.next().unwrap_or(Json::Null));
                let digest = match payload {
                    Payload::Digest(text) => Some(text),
                    Payload::Values(_) => None,
                };
                tensor(TensorEntry {
                    stats,
                    digest,
                    data: self.file_of(&name),
                    ..TensorEntry::bare(dtype, Some(dims))
                })
            }
            Line::HooksFrame { .. } | Line::Stack { .. } | Line::Other(_) => return None,
        };
        Some(Entry { name, role, path, content })
    }

    fn file_of(&self, name: &str) -> Data {
        if self.data.is_none() {
            return Data::None;
        }
        let file = format!("{name}.npy");
        match plain_file_name(&file) {
            Ok(_) => Data::File(file),
            Err(error) => Data::Refused(error.to_string()),
        }
    }

    fn hooks_tensor(&self, values: &Values, dtype: String, shape: Vec<u64>) -> Content {
        let (stats, data) = if self.kind == Kind::HooksSample {
            let sample = (0..values.len()).map(|at| values.number(at).unwrap_or(f64::NAN)).collect();
            (values.sampled_stats(), Data::Sample(sample))
        } else {
            let data = match tensor_of(values, &dtype, &shape) {
                Ok(tensor) => Data::Tensor(tensor),
                Err(fault) => Data::Refused(fault.to_string()),
            };
            ([Json::Null, Json::Null, Json::Null, Json::Null], data)
        };
        tensor(TensorEntry { stats, data, ..TensorEntry::bare(dtype, Some(shape)) })
    }
}

/// The line of an outline; nothing if it turns out to be damaged.
fn decoded(text: &[u8], outline: &Outline<'_>) -> Option<Line> {
    match Lines::within(&text[outline.place.clone()], 1, 0).next()? {
        Ok((_, Line::Other(_))) | Err(_) => None,
        Ok((_, line)) => Some(line),
    }
}

/// The role and path of an entry, the same for all tools.
pub(crate) fn role_and_path(name: &LineName, ptdbg: bool) -> (Role, String) {
    // torch_npu.hooks calls the gradients of a call's arguments its inputs.
    let swapped = name.direction == Direction::Backward && !ptdbg;
    let role = match (name.role, swapped) {
        (LineRole::Input, false) | (LineRole::Output, true) => Role::Input,
        (LineRole::Output, false) | (LineRole::Input, true) => Role::Output,
        (LineRole::Stack, _) => Role::Saved,
    };
    // The name of a single result has no position; a list of one would have it.
    let path: Vec<String> = name.path.iter().map(usize::to_string).collect();
    (role, if path.is_empty() { "0".to_owned() } else { path.join(".") })
}

fn tensor(entry: TensorEntry) -> Content {
    Content::Tensor(Box::new(entry))
}

impl Source for PklSource {
    fn entries(&self, index: &Index, call: usize) -> Result<Vec<Entry>, Error> {
        let lines = self.lines(index, call, |part| part == Part::Entry);
        self.bytes.check_faults()?;
        Ok(lines.into_iter().filter_map(|line| self.entry(line)).collect())
    }

    fn stack(&self, index: &Index, call: usize) -> Option<Vec<String>> {
        let mut stack: Option<Vec<String>> = None;
        for line in self.lines(index, call, |part| part != Part::Entry) {
            match line {
                Line::Stack { frames, .. } => return Some(frames.iter().map(frame_to_line).collect()),
                Line::HooksFrame { frame, .. } => {
                    stack.get_or_insert_default().push(frame_info_to_line(&frame));
                }
                _ => {}
            }
        }
        stack
    }

    fn frames(&self, index: &Index, call: usize) -> Option<Vec<Frame>> {
        for line in self.lines(index, call, |part| part != Part::Entry) {
            if let Line::Stack { frames, .. } = line {
                return Some(frames);
            }
        }
        Some(self.stack(index, call)?.iter().map(|line| line_to_frame(line)).collect())
    }

    fn has_stacks(&self, _index: &Index) -> bool {
        self.has_stacks
    }

    fn parent(&self, _index: &Index, _call: usize) -> Option<String> {
        None
    }

    fn data_folder(&self) -> Option<&Path> {
        self.data.as_deref()
    }

    fn late_problems(&self) -> Problems {
        self.damage.problems(&self.bytes, &self.path)
    }
}
