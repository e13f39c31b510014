//! The page of one run.

use std::path::Path;

use ulpscope_dump::Select;

use crate::error::PageError;
use crate::page::Page;

/// Makes the page of a dump.
pub fn page_of_dump(_path: &Path, _select: &Select, _on_demand: bool) -> Result<Page, PageError> {
    unreachable!()
}
