//! A folder of torch_npu.hooks' asynchronous dump: `.npy` files whose names contain all metadata,
//! `3_Functional_relu_forward_input0_shape[2,3]_stride[3,1]_offset[0]_format[2].npy`.
//!
//! The first number counts groups of tensors in the order of writing; inputs and outputs of a call are separate
//! groups. In that order, the names form calls just as the lines of a `.pkl` do.

use std::path::{Path, PathBuf};

use ulpscope_formats::names::LineName;
use ulpscope_formats::pkl_lines::{CallLines, CallNumbers, Part};
use ulpscope_formats::{Access, Bytes, Error, npy};

use crate::call::Call;
use crate::entry::{Content, Data, Entry, TensorEntry};
use crate::file_part::PartFiles;
use crate::find::digits;
use crate::listing::Listing;
use crate::pkl::role_and_path;
use crate::problems::Problems;
use crate::rank::{Index, Rank, Source, Task, Tool};

/// Where the name of the entry ends.
const SHAPE: &str = "_shape[";

/// Whether a file has such a name.
pub(crate) fn is_name(file: &str) -> bool {
    parse(file).is_some()
}

/// A file's name, split into its parts.
struct Parsed {
    group: u64,
    name: LineName,
    shape: Vec<u64>,
}

fn parse(file: &str) -> Option<Parsed> {
    let (front, layout) = file.strip_suffix(".npy")?.split_once(SHAPE)?;
    let (shape, rest) = layout.split_once(']')?;
    if !(rest.contains("_stride[") && rest.contains("_offset[")) {
        return None;
    }
    let dims = shape.split(',').filter(|dim| !dim.is_empty());
    let shape = dims.map(digits).collect::<Option<Vec<u64>>>()?;
    let (group, _) = front.split_once('_')?;
    let group = digits(group)?;
    // `input0` is `input.0` in a line of a `.pkl`.
    let entry = front.trim_end_matches(|last: char| last.is_ascii_digit());
    let position = &front[entry.len()..];
    let dotted = if position.is_empty() { entry.to_owned() } else { format!("{entry}.{position}") };
    Some(Parsed { group, name: LineName::from_hooks(&dotted)?, shape })
}

/// Opens a folder. The file names are the index.
pub(crate) fn open(folder: &Path) -> Result<Rank, Error> {
    let mut files: Vec<(Parsed, String)> = Vec::new();
    for file in Listing::read(folder)?.files {
        if let Some(parsed) = parse(&file) {
            files.push((parsed, file));
        }
    }
    files.sort_by(|(a, file), (b, other)| (a.group, &a.name.path, file).cmp(&(b.group, &b.name.path, other)));
    let mut index = Index::default();
    let mut numbers = CallNumbers::default();
    let mut open: Option<(CallLines, u64)> = None;
    for (number, (Parsed { name, .. }, _)) in files.iter().enumerate() {
        match &mut open {
            Some((lines, _)) if lines.continue_with(name, Part::Entry) => lines.take(name, Part::Entry),
            _ => {
                close(&mut index, &mut numbers, open.take(), number as u64);
                open = Some((CallLines::begin(name.clone(), Part::Entry), number as u64));
            }
        }
    }
    close(&mut index, &mut numbers, open, files.len() as u64);
    Ok(Rank {
        path: folder.to_owned(),
        tool: Tool::AsyncNpy,
        task: Task::Tensor,
        level: None,
        index,
        source: Box::new(AsyncSource { folder: folder.to_owned(), files }),
        problems: Problems::default(),
        part_files: PartFiles::default(),
        moved: None,
    })
}

fn close(index: &mut Index, numbers: &mut CallNumbers, open: Option<(CallLines, u64)>, end: u64) {
    let Some((lines, start)) = open else { return };
    let number = u32::try_from(numbers.give(&lines.name).0).ok();
    let base = index.names.id(&lines.name.base);
    index.calls.push(Call { base, index: number, kind: lines.name.direction.into(), place: start..end });
}

struct AsyncSource {
    folder: PathBuf,
    files: Vec<(Parsed, String)>,
}

impl AsyncSource {
    fn entry(&self, parsed: &Parsed, file: &str) -> Entry {
        let (role, path) = role_and_path(&parsed.name, false);
        let name = file.split_once(SHAPE).map_or(file, |(name, _)| name).to_owned();
        let header = Bytes::map(&self.folder.join(file), Access::ReadOnly)
            .and_then(|bytes| bytes.reading(|| npy::read(&bytes)));
        // A file that cannot be read is reported when its elements are requested.
        let dtype = header.map(|tensor| format!("torch.{}", tensor.dtype())).unwrap_or_default();
        let bare = TensorEntry::bare(dtype, Some(parsed.shape.clone()));
        let tensor = TensorEntry { data: Data::File(file.to_owned()), ..bare };
        Entry { name, role, path, content: Content::Tensor(Box::new(tensor)) }
    }
}

impl Source for AsyncSource {
    fn entries(&self, index: &Index, call: usize) -> Result<Vec<Entry>, Error> {
        let place = &index.calls[call].place;
        let files = self.files.get(place.start as usize..place.end as usize).unwrap_or_default();
        Ok(files.iter().map(|(parsed, file)| self.entry(parsed, file)).collect())
    }

    fn stack(&self, _index: &Index, _call: usize) -> Option<Vec<String>> {
        None
    }

    fn has_stacks(&self, _index: &Index) -> bool {
        false
    }

    fn parent(&self, _index: &Index, _call: usize) -> Option<String> {
        None
    }

    fn data_folder(&self) -> Option<&Path> {
        Some(&self.folder)
    }

    fn late_problems(&self) -> Problems {
        Problems::default()
    }
}
