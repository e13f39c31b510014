//! The path that a layout writes to, with the numbers of the step and of the rank.

use std::path::{Path, PathBuf};

use super::LayoutError;

/// A path with placeholders: `/runs/step{step}/rank{rank}/dump.pkl`.
#[derive(Debug)]
pub(super) struct Target {
    pieces: Vec<Piece>,
}

#[derive(Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Step,
    Rank,
}

impl Target {
    /// The target of a path with placeholders. `{{` and `}}` stand for braces.
    pub(super) fn new(path: &str) -> Result<Target, LayoutError> {
        let mut pieces = Vec::new();
        let mut text = String::new();
        let mut rest = path;
        while let Some(at) = rest.find(['{', '}']) {
            text.push_str(&rest[..at]);
            let from = &rest[at..];
            if let Some(brace) = ["{{", "}}"].into_iter().find(|brace| from.starts_with(brace)) {
                text.push_str(&brace[1..]);
                rest = &from[2..];
                continue;
            }
            let end = from.find('}').unwrap_or(from.len());
            let piece = match &from[..end] {
                "{step" => Piece::Step,
                "{rank" => Piece::Rank,
                other => return Err(LayoutError::Placeholder(other.trim_start_matches('{').to_owned())),
            };
            pieces.extend([Piece::Text(std::mem::take(&mut text)), piece]);
            rest = from.get(end + 1..).unwrap_or_default();
        }
        text.push_str(rest);
        pieces.push(Piece::Text(text));
        Ok(Target { pieces })
    }

    /// The path for the step and the rank of a folder: `…/step3/rank0`. A single process counts as rank 0; one of
    /// several without a rank has its process id: `…/step3/proc1234`.
    pub(super) fn path(&self, folder: &Path) -> PathBuf {
        let number = |folder: Option<&Path>| {
            let name = folder.and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
            let digits =
                name.unwrap_or_default().trim_start_matches(|c: char| !c.is_ascii_digit()).to_owned();
            if digits.is_empty() { "0".to_owned() } else { digits }
        };
        let text = |piece: &Piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Step => number(folder.parent()),
            Piece::Rank => number(Some(folder)),
        };
        self.pieces.iter().map(text).collect::<String>().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_replaced_by_the_names_of_the_folders() {
        let path =
            |template: &str, folder: &str| Target::new(template).map(|target| target.path(Path::new(folder)));
        let whole = path("/a/step{step}/rank{rank}/x_{step}.pkl", "/runs/step12/rank3");
        assert_eq!(whole, Ok(PathBuf::from("/a/step12/rank3/x_12.pkl")));
        assert_eq!(path("{rank}", "/runs/step1/rank"), Ok(PathBuf::from("0")));
        assert_eq!(path("{rank}", "/runs/step1/proc71"), Ok(PathBuf::from("71")));
        assert_eq!(path("{{step}}/é", "/runs/step1/rank"), Ok(PathBuf::from("{step}/é")));
        assert_eq!(path("a/{steps}", "x"), Err(LayoutError::Placeholder("steps".to_owned())));
        assert_eq!(path("a/{", "x"), Err(LayoutError::Placeholder(String::new())));
        assert_eq!(path("a/}", "x"), Err(LayoutError::Placeholder(String::new())));
    }
}
