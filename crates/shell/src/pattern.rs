//! File names with `*` in them.

use std::fs;
use std::path::{Path, PathBuf};

use ulpscope_formats::natural;

/// A file that a pattern found, and what its stars stand for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Matched {
    pub(crate) path: PathBuf,
    pub(crate) stars: Vec<String>,
}

/// Whether a name is a pattern: a file of that very name is none.
pub(crate) fn is_pattern(name: &str) -> bool {
    name.contains('*') && !Path::new(name).exists()
}

/// The files whose name matches the last part of the pattern, in natural order. Folders in front of it are taken as they
/// are.
pub(crate) fn files(pattern: &str) -> Vec<Matched> {
    let path = Path::new(pattern);
    let Some(name) = path.file_name().map(|name| name.to_string_lossy().into_owned()) else {
        return Vec::new();
    };
    let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let Ok(entries) = fs::read_dir(folder.unwrap_or(Path::new("."))) else { return Vec::new() };
    let mut found: Vec<Matched> = entries
        .flatten()
        .filter_map(|entry| {
            let stars = stars(&name, &entry.file_name().to_string_lossy())?;
            let path = folder
                .map_or_else(|| PathBuf::from(entry.file_name()), |folder| folder.join(entry.file_name()));
            path.is_file().then_some(Matched { path, stars })
        })
        .collect();
    found.sort_by(|a, b| {
        natural::compare(a.path.as_os_str().as_encoded_bytes(), b.path.as_os_str().as_encoded_bytes())
    });
    found
}

/// What the stars of a pattern stand for in a name that matches it; each as short as possible.
fn stars(pattern: &str, name: &str) -> Option<Vec<String>> {
    let mut parts = pattern.split('*');
    let mut rest = name.strip_prefix(parts.next()?)?;
    let mut found = Vec::new();
    let mut parts = parts.peekable();
    while let Some(part) = parts.next() {
        let at = if parts.peek().is_none() {
            rest.ends_with(part).then(|| rest.len() - part.len())?
        } else {
            rest.find(part)?
        };
        found.push(rest[..at].to_owned());
        rest = &rest[at + part.len()..];
    }
    rest.is_empty().then_some(found)
}

#[cfg(test)]
mod tests {
    use super::stars;

    #[test]
    fn stars_stand_for_what_is_between() {
        let found = |pattern, name| stars(pattern, name).map(|stars| stars.join("|"));
        assert_eq!(found("my_data*.npy", "my_data_3.npy").as_deref(), Some("_3"));
        assert_eq!(found("*.output.*.npy", "a.b.output.0.npy").as_deref(), Some("a.b|0"));
        assert_eq!(found("my_data*.npy", "other.npy"), None);
        assert_eq!(found("a*", "a").as_deref(), Some(""));
        assert_eq!(found("a", "a").as_deref(), Some(""));
        assert_eq!(found("a", "ab"), None);
    }
}
