//! A comparison as a page.

use ulpscope_page::{DumpPlaces, MemoryRows, Page, PageError, PageOptions, page_of_result};

/// The page.
pub(crate) fn page(rows: &MemoryRows<'_>, dumps: bool) -> Result<Page, PageError> {
    let dumps = dumps.then(DumpPlaces::default);
    page_of_result(rows, PageOptions { dumps, on_demand: false, language: None })
}

/// The page as text.
pub(crate) fn html(page: &Page) -> Result<String, PageError> {
    let mut html = Vec::new();
    page.write(&mut html)?;
    // Everything in it is text.
    Ok(String::from_utf8_lossy(&html).into_owned())
}
