//! A page that is ready to be written or served.

use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::Value as Json;
use ulpscope_report::escape;
use ulpscope_report::page::{Effort, PageWriter, Template, deflate};

use crate::error::PageError;
use crate::parts::{FinishedParts, Parts};

/// Makes parts on request, from dumps that are still there.
pub(crate) trait LiveParts: Send + Sync {
    /// A part, compressed; nothing if there is no such part. An error says what to do about it.
    fn part(&self, name: &str) -> Result<Option<Vec<u8>>, String>;
}

/// The name of a page in a folder.
pub const REPORT: &str = "report.html";

/// The file of a page: in a folder, it has a name of its own. Refuses to write a page over something that is none: a
/// result, a dump, a checkpoint, a device.
pub fn place_of_page(path: &Path) -> Result<PathBuf, PageError> {
    let path = if path.is_dir() { path.join(REPORT) } else { path.to_owned() };
    let Ok(known) = path.metadata() else { return Ok(path) };
    let is_page = path.extension().is_some_and(|extension| extension == "html" || extension == "htm");
    if known.is_file() && is_page { Ok(path) } else { Err(PageError::Occupied { path }) }
}

/// A page: its parts, and its first screen.
pub struct Page {
    parts: FinishedParts,
    live: Option<Box<dyn LiveParts>>,
    first_screen: String,
    /// What to know of how it was made.
    pub notes: Vec<String>,
}

impl std::fmt::Debug for Page {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Page").field("notes", &self.notes).finish_non_exhaustive()
    }
}

impl Page {
    pub(crate) fn of(
        mut parts: Parts,
        manifest: &Json,
        first_screen: String,
        live: Option<Box<dyn LiveParts>>,
        notes: Vec<String>,
    ) -> Result<Page, PageError> {
        parts.add_json("manifest", manifest)?;
        Ok(Page { parts: parts.finish()?, live, first_screen, notes })
    }

    /// The verdict, the first divergence and a small chart, as html that runs no script.
    pub fn first_screen(&self) -> &str {
        &self.first_screen
    }

    /// Writes the page as one html file.
    pub fn write(&self, out: impl Write) -> Result<(), PageError> {
        let mut page = PageWriter::start(Template::built()?, &self.first_screen, out)?;
        self.parts.write_to(&mut page)?;
        page.finish()?;
        Ok(())
    }

    /// A part by its name, compressed. An error says what to do about it.
    pub(crate) fn part(&self, name: &str) -> Result<Option<Vec<u8>>, String> {
        let stored = self.parts.get(name).map_err(|error| {
            format!("the data of the page cannot be read: {error}; start `ulpscope view` again")
        })?;
        match (stored, &self.live) {
            (Some(part), _) => Ok(Some(part)),
            (None, Some(live)) => live.part(name).map_err(|why| escape::terminal(&why).into_owned()),
            (None, None) => Ok(None),
        }
    }
}

/// A part that is made on request, compressed.
pub(crate) fn quickly(bytes: &[u8]) -> Result<Option<Vec<u8>>, String> {
    deflate(bytes, Effort::Quick).map(Some).map_err(|error| error.to_string())
}
