//! A page that is ready to be written or served.

use std::io::{self, Write};

use serde_json::Value as Json;
use ulpscope_report::page::{Effort, PageWriter, Template, deflate};

use crate::error::PageError;
use crate::parts::{FinishedParts, Parts};

/// Makes parts on request, from dumps that are still there.
pub(crate) trait LiveParts: Send + Sync {
    /// A part, not compressed; nothing if there is no such part.
    fn part(&self, name: &str) -> Option<Vec<u8>>;
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

    /// A part by its name, compressed.
    pub(crate) fn part(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        if let Some(part) = self.parts.get(name)? {
            return Ok(Some(part));
        }
        self.live
            .as_ref()
            .and_then(|live| live.part(name))
            .map(|bytes| deflate(&bytes, Effort::Quick))
            .transpose()
    }
}
