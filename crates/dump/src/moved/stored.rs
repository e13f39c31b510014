//! The tensors of a rank that are in files, and what was recorded of each.

use std::collections::hash_map::DefaultHasher;
use std::collections::{HashMap, HashSet};
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};

use ulpscope_formats::json::Json;
use ulpscope_kernels::SUMMARIES;

use super::far::{FarRank, FileRange, FileState, RankFile};
use crate::entry::{Content, Data, TensorEntry};
use crate::file_part::FilePart;
use crate::rank::Rank;

/// Files that are asked for at a time.
pub(super) const FILES_AT_ONCE: usize = 4096;

/// Where a rank reads a tensor.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TensorPlace {
    /// The file.
    pub(crate) path: PathBuf,
    /// Offset and length; nothing if it is the whole file.
    pub(crate) part: Option<[u64; 2]>,
}

impl TensorPlace {
    pub(crate) fn of(path: &Path, part: Option<&FilePart>) -> TensorPlace {
        TensorPlace { path: path.to_owned(), part: part.map(|part| [part.offset, part.length]) }
    }
}

/// A tensor in a file.
pub(super) struct StoredTensor {
    pub(super) range: FileRange,
    pub(super) place: TensorPlace,
    /// Made of what was recorded of it; nothing if that is only dtype and shape.
    pub(super) recorded: Option<u64>,
}

/// The tensors of a rank, each once, in the order of the calls, and what is found under the names of their files.
pub(super) struct StoredTensors {
    pub(super) tensors: Vec<StoredTensor>,
    pub(super) states: HashMap<RankFile, FileState>,
    /// Files that have several tensors.
    pub(super) packs: HashSet<RankFile>,
}

impl StoredTensors {
    /// `name` gives the name of a file, and `far` says what is found there.
    pub(super) fn of(
        rank: &Rank,
        far: &dyn FarRank,
        name: &dyn Fn(&Path) -> Option<RankFile>,
    ) -> Result<StoredTensors, String> {
        let mut known = HashSet::new();
        let mut named: Vec<(RankFile, TensorPlace, Option<u64>)> = Vec::new();
        let folder = rank.source.data_folder();
        for call in 0..rank.calls().len() {
            // What cannot be read is reported when it is compared.
            for entry in rank.entries(call).unwrap_or_default() {
                let Content::Tensor(tensor) = &entry.content else { continue };
                let (Some(folder), Some(file)) = (folder, tensor.data.file()) else { continue };
                let part = if let Data::Part(part) = &tensor.data { Some(&**part) } else { None };
                let place = TensorPlace::of(&folder.join(file), part);
                let Some(file) = name(&place.path) else { continue };
                if known.insert(place.clone()) {
                    named.push((file, place, recorded(tensor)));
                }
            }
        }
        let is_part = |(_, place, _): &&(RankFile, TensorPlace, Option<u64>)| place.part.is_some();
        let packs = named.iter().filter(is_part).map(|(file, ..)| file.clone()).collect();
        let states = states_of(named.iter().map(|(file, ..)| file.clone()).collect(), far)?;
        let stored = |(file, place, recorded): (RankFile, TensorPlace, Option<u64>)| {
            let Some(FileState::Size(size)) = states.get(&file) else { return None };
            let [offset, length] = place.part.unwrap_or([0, *size]);
            // What is not in the file is reported when it is read.
            offset.checked_add(length).filter(|end| end <= size)?;
            Some(StoredTensor { range: FileRange { file, offset, length }, place, recorded })
        };
        let tensors = named.into_iter().filter_map(stored).collect();
        Ok(StoredTensors { tensors, states, packs })
    }
}

/// What the dump says of a tensor, as a number; nothing if it has neither statistics nor a digest.
fn recorded(tensor: &TensorEntry) -> Option<u64> {
    if tensor.stats == [const { Json::Null }; SUMMARIES] && tensor.digest.is_none() {
        return None;
    }
    let mut hasher = DefaultHasher::new();
    let stats = format!("{:?}", tensor.stats);
    (&tensor.dtype, &tensor.shape, stats, &tensor.digest).hash(&mut hasher);
    Some(hasher.finish())
}

fn states_of(names: HashSet<RankFile>, far: &dyn FarRank) -> Result<HashMap<RankFile, FileState>, String> {
    let mut names: Vec<RankFile> = names.into_iter().collect();
    names.sort();
    let mut states = HashMap::new();
    for some in names.chunks(FILES_AT_ONCE) {
        let found = far.states(some)?;
        if found.len() != some.len() {
            return Err(format!("expected the states of {} files, found {}", some.len(), found.len()));
        }
        states.extend(some.iter().cloned().zip(found));
    }
    Ok(states)
}
