//! Which device and step the files of an ACL dump belong to: their folders say it.

use std::path::{Path, PathBuf};

use ulpscope_formats::storage;

use crate::find::digits;
use crate::listing::TensorFile;

/// Digits of the time that a dump's folder is named after: year to second.
const TIME_DIGITS: usize = 14;

/// The files of one device and step.
#[derive(Clone, Debug)]
pub(crate) struct AclPlace {
    pub(crate) step: Option<u64>,
    pub(crate) device: Option<u64>,
    /// The innermost folder that has all of them.
    pub(crate) folder: PathBuf,
    /// With paths below that folder.
    pub(crate) files: Vec<TensorFile>,
}

/// Device and step of a folder, and the folder of the run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Position {
    run: PathBuf,
    device: Option<u64>,
    step: Option<u64>,
}

/// Groups the files below a folder by device and step, in order.
pub(crate) fn groups(root: &Path, files: &[TensorFile]) -> Vec<AclPlace> {
    // `.` and links do not show the real name.
    let whole = storage::real_path(root).unwrap_or_else(|_| root.to_owned());
    let mut found: Vec<(Position, Vec<TensorFile>)> = Vec::new();
    for file in files {
        let position = position(&whole.join(&file.path));
        match found.iter_mut().find(|(known, _)| *known == position) {
            Some((_, files)) => files.push(file.clone()),
            None => found.push((position, vec![file.clone()])),
        }
    }
    found.into_iter().map(|(position, files)| place(root, &position, files)).collect()
}

fn place(root: &Path, position: &Position, mut files: Vec<TensorFile>) -> AclPlace {
    let mut common = files.first().and_then(|file| file.path.parent()).unwrap_or(Path::new("")).to_owned();
    while !files.iter().all(|file| file.path.starts_with(&common)) {
        if !common.pop() {
            break;
        }
    }
    for file in &mut files {
        let below = |path: &Path| path.strip_prefix(&common).unwrap_or(path).to_owned();
        *file = TensorFile { path: below(&file.path), named: below(&file.named) };
    }
    AclPlace { step: position.step, device: position.device, folder: root.join(common), files }
}

/// What the folders around a file say. The last one that is named after a time begins the run.
fn position(file: &Path) -> Position {
    let folders: Vec<&str> = file
        .parent()
        .into_iter()
        .flat_map(Path::iter)
        .map(|name| name.to_str().unwrap_or_default())
        .collect();
    let is_time = |name: &&str| name.len() == TIME_DIGITS && digits(name).is_some();
    let Some(at) = folders.iter().rposition(is_time) else { return Position::default() };
    let number = |name: &&str| digits(name).filter(|_| !name.is_empty());
    let (device, step) = match &folders[at + 1..] {
        [device] | [device, _] | [device, _, _] => (number(device), None),
        [device, _, _, step] => (number(device), number(step)),
        _ => (None, None),
    };
    if device.is_none() {
        return Position::default();
    }
    Position { run: folders[..=at].iter().collect(), device, step }
}
