//! The files below the user's paths, in natural order.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use ulpscope_formats::natural;
use ulpscope_formats::storage::{self, Kind};

use crate::names::Distinct;

/// A file to process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// Where it is.
    pub(crate) path: PathBuf,
    /// Its path below the named folder, or its bare name if the user named the file itself; unique among all files.
    pub(crate) relative: PathBuf,
    /// Whether the user named this file, and not a folder above it.
    pub(crate) named: bool,
}

/// The result of a walk.
#[derive(Debug, Default)]
pub(crate) struct Walk {
    /// The files, in order.
    pub(crate) files: Vec<Found>,
    /// Links that were not followed, because they lead to a folder or out of the tree.
    pub(crate) links: Vec<PathBuf>,
    /// Folders and links that could not be read.
    pub(crate) failures: Vec<(PathBuf, io::Error)>,
}

/// Whether a path below a folder resolves to a file inside it, through any links.
pub(crate) fn stays_within(folder: &Path, path: &Path) -> io::Result<bool> {
    let lands = fs::canonicalize(path)?;
    Ok(lands.starts_with(fs::canonicalize(folder)?) && lands.is_file())
}

/// The note that a link was not followed.
pub(crate) fn leads_out(link: &Path) -> String {
    format!("{}: not followed: a link that leads out of the folder, or to a folder", link.display())
}

impl Walk {
    /// Walks each of `roots`. Folders at or below `except` (canonical) are left out.
    pub(crate) fn of(roots: &[PathBuf], except: Option<&Path>) -> Walk {
        let mut walk = Walk::default();
        for root in roots {
            if storage::is_folder(root) {
                walk.folder(root, except);
            } else {
                // A missing path is reported as a file that cannot be opened.
                let relative = root.file_name().map_or_else(|| root.clone(), PathBuf::from);
                walk.files.push(Found { path: root.clone(), relative, named: true });
            }
        }
        let mut given = Distinct::default();
        for found in &mut walk.files {
            found.relative = given.give(std::mem::take(&mut found.relative).into_os_string()).into();
        }
        walk
    }

    /// Notes on links that were not followed.
    pub(crate) fn notes(&self) -> Vec<String> {
        self.links.iter().map(|link| leads_out(link)).collect()
    }

    /// The named folders without any file.
    pub(crate) fn empty_folders(&self, roots: &[PathBuf]) -> Vec<String> {
        let failed = |root: &&PathBuf| !self.failures.iter().any(|(path, _)| path.starts_with(root));
        let empty = |root: &&PathBuf| !self.files.iter().any(|found| found.path.starts_with(root));
        let roots = roots.iter().filter(|root| storage::is_folder(root)).filter(failed).filter(empty);
        roots.map(|root| format!("{}: there is no file in this folder", root.display())).collect()
    }

    /// Errors of folders and links that could not be read.
    pub(crate) fn errors(&self) -> Vec<String> {
        self.failures.iter().map(|(path, error)| format!("{}: {error}", path.display())).collect()
    }

    /// Reports files of unknown formats: a note, or an error if there are no others.
    pub(crate) fn report_foreign(&self, foreign: usize, notes: &mut Vec<String>, errors: &mut Vec<String>) {
        match self.files.len() {
            1 if foreign == 1 => errors.push("no file has a known format (1 file)".to_owned()),
            all if foreign == all => errors.push(format!("no file has a known format ({all} files)")),
            all => notes.push(format!("{foreign} of {all} files are of no known format")),
        }
    }

    fn folder(&mut self, root: &Path, except: Option<&Path>) {
        let inside = match storage::real_path(root) {
            Ok(inside) => inside,
            Err(error) => return self.failures.push((root.to_owned(), error)),
        };
        // An explicit stack, since trees may be deep. Last in, first out, so each folder's names are pushed in reverse.
        let mut stack = vec![root.to_owned()];
        while let Some(path) = stack.pop() {
            match self.visit(&path, root, &inside, except) {
                Ok(below) => stack.extend(below),
                Err(error) => self.failures.push((path, error)),
            }
        }
    }

    /// Adds a file, or returns the contents of a folder in reverse order.
    fn visit(
        &mut self,
        path: &Path,
        root: &Path,
        inside: &Path,
        except: Option<&Path>,
    ) -> io::Result<Vec<PathBuf>> {
        let about = if path == root { storage::about(path)? } else { storage::about_itself(path)? };
        if about.kind == Kind::Link {
            let lands = fs::canonicalize(path)?;
            if !lands.starts_with(inside) || !lands.is_file() {
                self.links.push(path.to_owned());
                return Ok(Vec::new());
            }
        } else if about.kind == Kind::Folder {
            if except.is_some_and(|except| fs::canonicalize(path).is_ok_and(|path| path == except)) {
                return Ok(Vec::new());
            }
            let mut below =
                storage::list(path)?.into_iter().map(|item| path.join(item.name)).collect::<Vec<_>>();
            below.sort_by(|a, b| {
                natural::compare(b.as_os_str().as_encoded_bytes(), a.as_os_str().as_encoded_bytes())
            });
            return Ok(below);
        }
        let relative = path.strip_prefix(root).unwrap_or(path).to_owned();
        self.files.push(Found { path: path.to_owned(), relative, named: false });
        Ok(Vec::new())
    }
}
