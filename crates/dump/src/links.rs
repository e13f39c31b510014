//! Nothing in a dump leads out of it: links below the path that the user named are not followed.

use std::path::{Component, Path};

use ulpscope_formats::storage::{self, Kind};
use ulpscope_formats::{Error, Fault};

/// Refuses a path that is a link. A missing path of this machine is an error too; buckets have no links.
pub(crate) fn refuse(path: &Path) -> Result<(), Error> {
    if storage::is_remote(path) {
        return Ok(());
    }
    let about = storage::about_itself(path).map_err(|error| Error::whole(error).in_file(path))?;
    if about.kind == Kind::Link {
        let message = "a link, which is not followed, as it may lead out of the dump: put the files here, or name what \
                       it leads to";
        return Err(Error::whole(Fault::Unsupported(message.to_owned())).in_file(path));
    }
    Ok(())
}

/// Refuses a file in or below a folder if it, or any folder on the path, is a link.
pub(crate) fn refuse_below(folder: &Path, name: &Path) -> Result<(), Error> {
    let mut path = folder.to_owned();
    for part in name.components() {
        if !matches!(part, Component::Normal(_)) {
            return Err(escapes(name).in_file(folder));
        }
        path.push(part);
        refuse(&path)?;
    }
    Ok(())
}

fn escapes(name: &Path) -> Error {
    Error::whole(Fault::EscapesFolder(name.display().to_string()))
}
