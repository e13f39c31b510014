//! A comparison as a page.

use ulpscope_page::{MemoryRows, PageError, PageOptions, page_of_result};

/// The page as text.
pub(crate) fn html(rows: &MemoryRows<'_>, dumps: bool) -> Result<String, PageError> {
    let page = page_of_result(rows, PageOptions { dumps, on_demand: false, language: None })?;
    let mut html = Vec::new();
    page.write(&mut html)?;
    // Everything in it is text.
    Ok(String::from_utf8_lossy(&html).into_owned())
}
