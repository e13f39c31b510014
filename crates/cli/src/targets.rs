//! Where the results of `convert` go.
//!
//! Every name is decided before anything is written, so that it depends on nothing but the names of the sources:
//! two that would land in one place get two, whichever is done first. And nothing lands outside the destination.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use ulpscope_formats::file::Format;
use ulpscope_formats::{Error, Fault};

use crate::records;
use crate::walk::Found;

/// What the user named as the destination.
pub(crate) enum Destination {
    /// One file becomes one file (or a folder of them).
    File(PathBuf),
    /// A tree becomes a tree below this folder.
    Folder(PathBuf),
}

/// The places kept for one source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Target {
    /// The file it becomes.
    pub(crate) file: PathBuf,
    /// The folder its tensors go to, should one file not hold them.
    pub(crate) folder: PathBuf,
}

impl Destination {
    /// A place for each source, in their order.
    pub(crate) fn targets(&self, sources: &[Found], format: Format) -> Vec<Target> {
        let folder = match self {
            Destination::File(path) => {
                let target = Target { file: path.clone(), folder: without_extension(path, format) };
                return vec![target; sources.len()];
            }
            Destination::Folder(folder) => folder,
        };
        // The folders of the source are folders of the result.
        let ancestors = sources.iter().flat_map(|found| found.relative.ancestors().skip(1));
        let mut taken = Taken { names: ancestors.map(Path::to_owned).collect(), format };
        let mut targets = vec![Target::default(); sources.len()];
        // Who can keep its name does, whatever its neighbours are called.
        let (keeping, renamed): (Vec<usize>, Vec<usize>) =
            (0..sources.len()).partition(|&at| short(&sources[at], format) == sources[at].relative);
        for at in keeping.into_iter().chain(renamed) {
            let kept = taken.target(&sources[at]);
            targets[at] = Target { file: folder.join(kept.file), folder: folder.join(kept.folder) };
        }
        targets
    }
}

/// Relative names that are spoken for.
struct Taken {
    names: HashSet<PathBuf>,
    format: Format,
}

impl Taken {
    fn target(&mut self, found: &Found) -> Target {
        let format = self.format;
        let extension = format.extension();
        // `x.pt` and `x.npz` lie side by side, or `x` is a folder: the old extension stays.
        let files = [short(found, format), with_suffix(&found.relative, extension)].into_iter();
        let file = self.first_free(
            files.chain(numbered(&found.relative).map(|name| with_suffix(&name, extension))),
            |file| match format {
                Format::Msprobe => records::stacks_of(&found.relative, file),
                _ => None,
            },
        );
        let folder = if format == Format::Npy {
            let folders = [without_extension(&file, format), found.relative.clone()].into_iter();
            self.first_free(folders.chain(numbered(&found.relative)), |_| None)
        } else {
            PathBuf::new()
        };
        Target { file, folder }
    }

    /// Takes the first name that is free together with its companion. The names never end, and those taken do.
    fn first_free(
        &mut self,
        mut names: impl Iterator<Item = PathBuf>,
        companion: impl Fn(&Path) -> Option<PathBuf>,
    ) -> PathBuf {
        let free = |name: &PathBuf| !self.names.contains(name);
        let name = names.find(|name| free(name) && companion(name).as_ref().is_none_or(free));
        let name = name.unwrap_or_default();
        self.names.extend(companion(&name));
        self.names.insert(name.clone());
        name
    }
}

/// The source's name with the extension of the format.
fn short(found: &Found, format: Format) -> PathBuf {
    match Format::of_extension(&found.relative) {
        Some(_) => found.relative.with_extension(format.extension()),
        None => with_suffix(&found.relative, format.extension()),
    }
}

fn without_extension(file: &Path, format: Format) -> PathBuf {
    let has_it = file.extension().is_some_and(|extension| extension == format.extension());
    if has_it { file.with_extension("") } else { file.to_owned() }
}

fn numbered(path: &Path) -> impl Iterator<Item = PathBuf> {
    (2u64..).map(|number| {
        let mut name = path.as_os_str().to_owned();
        name.push(format!("-{number}"));
        name.into()
    })
}

fn with_suffix(path: &Path, extension: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(extension);
    name.into()
}

/// Makes sure that a file may be written: its folder exists and is below `root`, and nothing is replaced that was
/// not meant to be.
pub(crate) fn make_room(path: &Path, root: Option<&Path>, replace: bool) -> Result<(), Error> {
    let check = || {
        if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            if let Some(root) = root {
                // A link that was already there may lead anywhere: what exists is looked at before any folder is
                // made within it.
                let mut folders = parent.ancestors();
                let deepest = folders.find(|folder| fs::symlink_metadata(folder).is_ok()).unwrap_or(root);
                if !fs::canonicalize(deepest)?.starts_with(root) {
                    return Err(Fault::EscapesFolder(parent.display().to_string()));
                }
            }
            fs::create_dir_all(parent)?;
        }
        if !replace && fs::symlink_metadata(path).is_ok() {
            return Err(Fault::Unsupported("exists already; use --force to replace it".to_owned()));
        }
        Ok(())
    };
    check().map_err(|fault| Error::whole(fault).in_file(path))
}
