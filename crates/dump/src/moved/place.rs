//! Where the files of a rank are, on whichever machine.

use std::path::{Path, PathBuf};

use super::far::RankFile;
use crate::find::Opening;
use crate::tree::RankPlace;

impl RankPlace {
    /// The folder of its files.
    pub(crate) fn root(&self) -> &Path {
        let path = self.with_companions();
        match &self.opening {
            Opening::File(_) => path.parent().unwrap_or(path),
            _ => path,
        }
    }

    /// Whether it has records of its tensors beside them.
    pub(crate) fn has_records(&self) -> bool {
        matches!(self.opening, Opening::Msprobe(_) | Opening::Journal(_) | Opening::Pkl(_))
    }

    /// The records that are opened, below the folder of its files.
    pub(crate) fn opened_names(&self) -> Vec<PathBuf> {
        let files = match &self.opening {
            Opening::Msprobe(files) | Opening::Pkl(files) => files.as_slice(),
            Opening::Journal(file) => std::slice::from_ref(file),
            _ => &[],
        };
        let below = |file: &PathBuf| file.strip_prefix(self.root()).ok().map(Path::to_owned);
        files.iter().filter_map(below).collect()
    }

    /// The name of a file of the rank; nothing for other files.
    pub(crate) fn name_of(&self, path: &Path) -> Option<RankFile> {
        if let Some(data) = self.data_folder()
            && let Ok(path) = path.strip_prefix(data)
        {
            return Some(RankFile { in_data: true, path: path.to_owned() });
        }
        path.strip_prefix(self.root()).ok().map(|path| RankFile { in_data: false, path: path.to_owned() })
    }

    /// The same rank with its files in other folders.
    pub(crate) fn in_folders(&self, root: &Path, data: &Path) -> RankPlace {
        let moved = |path: &PathBuf| match path.strip_prefix(self.root()) {
            Ok(below) if below.as_os_str().is_empty() => root.to_owned(),
            Ok(below) => root.join(below),
            Err(_) => path.clone(),
        };
        let all = |files: &[PathBuf]| files.iter().map(moved).collect();
        let opening = match &self.opening {
            Opening::Msprobe(files) => Opening::Msprobe(all(files)),
            Opening::Journal(file) => Opening::Journal(moved(file)),
            Opening::Pkl(files) => Opening::Pkl(all(files)),
            Opening::AsyncNpy(folder) => Opening::AsyncNpy(moved(folder)),
            Opening::Acl(folder, files) => Opening::Acl(moved(folder), files.clone()),
            Opening::Tensorflow(folder, files) => Opening::Tensorflow(moved(folder), files.clone()),
            Opening::Folder(folder, files) => Opening::Folder(moved(folder), files.clone()),
            Opening::File(file) => Opening::File(moved(file)),
            Opening::Entry(path) => Opening::Entry(path.clone()),
        };
        RankPlace { opening, data: self.data.as_ref().map(|_| data.to_owned()), ..self.clone() }
    }
}
