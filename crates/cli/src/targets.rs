//! Where `convert` writes its results.
//!
//! Every name is decided before anything is written, and depends only on the names of the sources: two sources with the
//! same target get different ones, whichever is done first. Nothing is written outside the destination.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use ulpscope_formats::file::{Format, Holds, Records};
use ulpscope_formats::{Error, Fault};

use crate::records;
use crate::walk::Found;

/// The user's destination.
pub(crate) enum Destination {
    /// One file becomes one file (or a folder of them).
    File(PathBuf),
    /// A tree becomes a tree below this folder.
    Folder(PathBuf),
}

/// The paths reserved for one source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Target {
    /// The file it becomes.
    pub(crate) file: PathBuf,
    /// The folder for its tensors, if one file cannot hold them.
    pub(crate) folder: PathBuf,
}

impl Target {
    /// The file of one part of a source that has several: its name, then the suffix of the part.
    pub(crate) fn part(&self, format: Format, suffix: &str, extension: &str) -> PathBuf {
        with_suffix(&with_suffix(&without_extension(&self.file, format), suffix), extension)
    }
}

impl Destination {
    /// The target of each source, in order.
    pub(crate) fn targets(&self, sources: &[Found], format: Format) -> Vec<Target> {
        let folder = match self {
            Destination::File(path) => {
                let target = Target { file: path.clone(), folder: without_extension(path, format) };
                return vec![target; sources.len()];
            }
            Destination::Folder(folder) => folder,
        };
        // Folders of the source are also folders of the result.
        let ancestors = sources.iter().flat_map(|found| found.relative.ancestors().skip(1));
        let mut taken = Taken { names: ancestors.map(Path::to_owned).collect(), format };
        let mut targets = vec![Target::default(); sources.len()];
        // A source that can keep its name does so, whatever its neighbours are called.
        let (keeping, renamed): (Vec<usize>, Vec<usize>) =
            (0..sources.len()).partition(|&at| short(&sources[at], format) == sources[at].relative);
        for at in keeping.into_iter().chain(renamed) {
            let kept = taken.target(&sources[at]);
            targets[at] = Target { file: folder.join(kept.file), folder: folder.join(kept.folder) };
        }
        targets
    }
}

/// Relative names in use.
struct Taken {
    names: HashSet<PathBuf>,
    format: Format,
}

impl Taken {
    fn target(&mut self, found: &Found) -> Target {
        let format = self.format;
        let extension = format.extension();
        // `x.pt` and `x.npz` are in one folder, or `x` is a folder: keep the old extension.
        let files = [short(found, format), with_suffix(&found.relative, extension)].into_iter();
        let file = self.first_free(
            files.chain(numbered(&found.relative).map(|name| with_suffix(&name, extension))),
            |file| match format.records() {
                Some(Records::Msprobe) => records::stacks_of(&found.relative, file),
                Some(Records::PklLines) | None => None,
            },
        );
        let folder = if format.holds() == Holds::OneTensor {
            let folders = [without_extension(&file, format), found.relative.clone()].into_iter();
            self.first_free(folders.chain(numbered(&found.relative)), |_| None)
        } else {
            PathBuf::new()
        };
        Target { file, folder }
    }

    /// Reserves the first name that is free together with its companion. `names` is endless, names in use are not.
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

/// Ensures that a file may be written: its folder exists and is below `root`, and no file is replaced without
/// permission.
pub(crate) fn make_room(path: &Path, root: Option<&Path>, replace: bool) -> Result<(), Error> {
    let check = || {
        if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            if let Some(root) = root {
                // An existing link may lead anywhere: check what exists before any folder is created in it.
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
