//! Names that a user types, as files: a path, a bare file name, or the beginning of one.

use std::path::{Path, PathBuf};

use super::convert;
use crate::folders::{DataKind, file_name, spelled};
use crate::reply::Reply;
use crate::session::Session;

/// Files that a beginning of a name may stand for; more are not shown.
const MAX_FOUND: usize = 10;

/// The tensor files that a name stands for: at least one.
pub(crate) fn tensor_files(session: &Session, name: &str, reply: &mut Reply) -> Result<Vec<PathBuf>, String> {
    if let Some(path) = exact(session, name, &[DataKind::Decoded, DataKind::TfDump], reply)? {
        return Ok(vec![path]);
    }
    let beginning = name.replace('/', "_");
    let mut found: Vec<PathBuf> = [DataKind::Decoded, DataKind::TfDump]
        .into_iter()
        .flat_map(|kind| session.folders.files(kind))
        .filter(|path| is_tensor_file(path) && file_name(path).starts_with(&beginning))
        .collect();
    if found.is_empty() || name.is_empty() {
        return Err(not_found(session, name, &[DataKind::Decoded, DataKind::TfDump]));
    }
    if found.len() > MAX_FOUND {
        reply.warning(format!("{} files begin with {name}; the first {MAX_FOUND} are shown", found.len()));
        found.truncate(MAX_FOUND);
    }
    Ok(found)
}

/// The one file that a name stands for, looked for in folders of these kinds in turn.
pub(crate) fn one_file(
    session: &Session,
    name: &str,
    kinds: &[DataKind],
    reply: &mut Reply,
) -> Result<PathBuf, String> {
    exact(session, name, kinds, reply)?.ok_or_else(|| not_found(session, name, kinds))
}

fn exact(
    session: &Session,
    name: &str,
    kinds: &[DataKind],
    reply: &mut Reply,
) -> Result<Option<PathBuf>, String> {
    let path = spelled(Path::new(name));
    if path.is_file() {
        return Ok(Some(path));
    }
    if path.is_dir() {
        return Err(format!("{name}: is a folder; expected a file"));
    }
    let is_bare = Path::new(name).components().count() == 1;
    if !is_bare {
        return Ok(None);
    }
    for &kind in kinds {
        let mut found: Vec<PathBuf> =
            session.folders.files(kind).into_iter().filter(|path| file_name(path) == name).collect();
        let Some(newest) = found.pop() else { continue };
        if !found.is_empty() {
            reply.warning(format!(
                "{} files are named {name}; the newest is {}",
                found.len() + 1,
                newest.display()
            ));
        }
        return Ok(Some(newest));
    }
    convert::decode_named(session, name)
}

fn is_tensor_file(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "npy")
}

fn not_found(session: &Session, name: &str, kinds: &[DataKind]) -> String {
    let places: Vec<String> = kinds
        .iter()
        .flat_map(|&kind| session.folders.places(kind))
        .map(|place| place.display().to_string())
        .collect();
    format!("{name}: no such file, here or in {}", places.join(", "))
}
