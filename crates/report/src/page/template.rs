//! The built page, into which data is put.

/// The page that `make web` built; `None` if this program was built without it.
const BUILT: Option<&str> = include!(concat!(env!("OUT_DIR"), "/page.rs"));

/// Where the first screen is put, as html.
const STATIC: &str = "<!--ulpscope:static-->";

/// Where the parts are put.
const PARTS: &str = "<!--ulpscope:parts-->";

/// Why there is no page.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum NoPage {
    /// It was not there when this program was built.
    #[error(
        "this build of ulpscope has no page: install Node.js 20.19 or newer with npm, run `make web` in its source, and build it \
         again; wheels have the page"
    )]
    NotBuilt,
    /// It lacks a place for data, or has several.
    #[error(
        "the built page must have the comment {0} exactly once; run `make web` in its source, and build it again"
    )]
    NoPlace(&'static str),
}

/// A built page, split at the places for data.
#[derive(Clone, Copy, Debug)]
pub struct Template<'a> {
    pub(super) before: &'a str,
    pub(super) between: &'a str,
    pub(super) after: &'a str,
}

impl<'a> Template<'a> {
    /// The page of this program.
    pub fn built() -> Result<Template<'static>, NoPage> {
        Template::of(BUILT.ok_or(NoPage::NotBuilt)?)
    }

    /// A page, from its html.
    pub fn of(html: &'a str) -> Result<Template<'a>, NoPage> {
        let (before, rest) = split(html, STATIC)?;
        let (between, after) = split(rest, PARTS)?;
        Ok(Template { before, between, after })
    }

    /// The page for a server, which sends parts on request below this address.
    pub fn served(&self, first_screen: &str, parts: &str) -> String {
        let Template { before, between, after } = self;
        format!("{before}{first_screen}{between}<meta name=\"ulpscope-parts\" content=\"{parts}\">{after}")
    }
}

fn split<'a>(html: &'a str, place: &'static str) -> Result<(&'a str, &'a str), NoPage> {
    let (before, after) = html.split_once(place).ok_or(NoPage::NoPlace(place))?;
    if after.contains(place) { Err(NoPage::NoPlace(place)) } else { Ok((before, after)) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::page::PageWriter;

    const PAGE: &str = "<body><!--ulpscope:static--><p><!--ulpscope:parts--></body>";

    #[test]
    fn data_is_put_into_its_places() {
        let template = Template::of(PAGE).unwrap();
        assert_eq!(
            template.served("<i>screen</i>", "parts/"),
            "<body><i>screen</i><p><meta name=\"ulpscope-parts\" content=\"parts/\"></body>"
        );
        let mut page = PageWriter::start(template, "", Vec::new()).unwrap();
        page.part("rows/0/1/0", b"foo").unwrap();
        let html = String::from_utf8(page.finish().unwrap()).unwrap();
        assert_eq!(
            html,
            "<body><p><script type=\"text/plain\" data-part=\"rows/0/1/0\">Zm9v</script>\n</body>"
        );
    }

    #[test]
    fn a_page_without_places_is_refused() {
        assert_eq!(Template::of("<body>").unwrap_err(), NoPage::NoPlace(STATIC));
        assert_eq!(Template::of(STATIC).unwrap_err(), NoPage::NoPlace(PARTS));
        assert_eq!(Template::of(&PAGE.repeat(2)).unwrap_err(), NoPage::NoPlace(STATIC));
    }

    #[test]
    fn a_part_with_a_name_of_others_is_refused() {
        let mut page = PageWriter::start(Template::of(PAGE).unwrap(), "", Vec::new()).unwrap();
        for name in ["\"><script>", "rows/0/a b", "../x", "A"] {
            assert!(page.part(name, b"").is_err(), "{name}");
        }
    }
}
