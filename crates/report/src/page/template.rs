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
        "this build of ulpscope has no page: install Node.js 20 or newer with npm, run `make web` in its source, and build it \
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
