//! The files of a rank on a different node: questions and answers as they travel.

use serde::{Deserialize, Serialize};
use ulpscope_dump::RankPlace;
use ulpscope_dump::moved::{Documents, FarRank, FileRange, FileState, LocalFiles, RankFile};

/// Asks a node for files of a rank. It does not look into questions and answers.
pub trait FileReader: Sync {
    /// Has [`answer_about_files`] answer on one of these nodes.
    fn ask(&self, nodes: &[String], question: &str) -> Result<Vec<u8>, String>;
}

/// A question about the files of a rank.
#[derive(Debug, Serialize, Deserialize)]
struct Question {
    place: RankPlace,
    asked: Asked,
}

#[derive(Debug, Serialize, Deserialize)]
enum Asked {
    Documents,
    States(Vec<RankFile>),
    Bytes(Vec<FileRange>),
    Digests(Vec<FileRange>, u64),
}

/// Answers a question of a different node about the files of a rank here. Nothing outside the folders of the rank is read,
/// and nothing through a link.
pub fn answer_about_files(question: &str) -> Result<Vec<u8>, String> {
    let question: Question =
        serde_json::from_str(question).map_err(|error| format!("not a question of ulpscope: {error}"))?;
    let files = LocalFiles(&question.place);
    let json = |text: serde_json::Result<Vec<u8>>| text.map_err(|error| error.to_string());
    match question.asked {
        Asked::Documents => json(serde_json::to_vec(&files.documents()?)),
        Asked::States(names) => json(serde_json::to_vec(&files.states(&names)?)),
        Asked::Bytes(ranges) => files.read(&ranges),
        Asked::Digests(ranges, key) => {
            let hashes = files.digests(&ranges, key)?;
            Ok(hashes.iter().flat_map(|hash| hash.to_le_bytes()).collect())
        }
    }
}

/// The files of a rank on other nodes.
pub(super) struct FarFiles<'a> {
    pub(super) reader: &'a dyn FileReader,
    pub(super) nodes: &'a [String],
    pub(super) place: &'a RankPlace,
}

impl FarFiles<'_> {
    fn ask(&self, asked: Asked) -> Result<Vec<u8>, String> {
        let question = Question { place: self.place.clone(), asked };
        let question = serde_json::to_string(&question).map_err(|error| error.to_string())?;
        self.reader.ask(self.nodes, &question)
    }

    fn wrong(&self, found: impl std::fmt::Display) -> String {
        format!("node {}: expected an answer about files, found {found}", self.nodes.join(", "))
    }
}

impl FarRank for FarFiles<'_> {
    fn documents(&self) -> Result<Documents, String> {
        serde_json::from_slice(&self.ask(Asked::Documents)?).map_err(|error| self.wrong(error))
    }

    fn states(&self, files: &[RankFile]) -> Result<Vec<FileState>, String> {
        serde_json::from_slice(&self.ask(Asked::States(files.to_vec()))?).map_err(|error| self.wrong(error))
    }

    fn read(&self, ranges: &[FileRange]) -> Result<Vec<u8>, String> {
        self.ask(Asked::Bytes(ranges.to_vec()))
    }

    fn digests(&self, ranges: &[FileRange], key: u64) -> Result<Vec<u128>, String> {
        let bytes = self.ask(Asked::Digests(ranges.to_vec(), key))?;
        let (hashes, rest) = bytes.as_chunks::<16>();
        if !rest.is_empty() {
            return Err(self.wrong(format!("{} bytes of hashes", bytes.len())));
        }
        Ok(hashes.iter().map(|hash| u128::from_le_bytes(*hash)).collect())
    }
}
