//! `ulpscope report` and `ulpscope view`: the page of a comparison or of a dump, as a file or in a browser.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;
use ulpscope_dump::Select;
use ulpscope_formats::{Error, file};
use ulpscope_page::{
    DumpPlaces, Page, PageError, PageOptions, ResultFolder, Server, page_of_dump, page_of_result,
    place_of_page,
};
use ulpscope_report::page::Template;
use ulpscope_session::{Language, NumberRanges};

use crate::args::{PageArgs, ReportArgs, ViewArgs};
use crate::exit::Exit;
use crate::output::{Output, unless_broken_pipe};
use crate::progress::Progress;
use crate::result_document::{has_result, result_at};

/// The name of the standard output among files.
const STANDARD_OUTPUT: &str = "-";

/// How often a server looks whether it should end.
const PAUSE: Duration = Duration::from_millis(50);

/// What a page shows.
struct PageSource {
    path: PathBuf,
    dumps: Option<DumpPlaces>,
    select: Select,
    language: Option<Language>,
    json: bool,
}

impl From<PageArgs> for PageSource {
    fn from(args: PageArgs) -> PageSource {
        let chosen =
            |numbers: Option<NumberRanges>| numbers.map(|NumberRanges(numbers)| numbers).unwrap_or_default();
        let places = DumpPlaces { target: args.target, golden: args.golden };
        let reads_dumps = args.dumps || places.is_named();
        PageSource {
            path: args.source,
            dumps: reads_dumps.then_some(places),
            select: Select { steps: chosen(args.step), ranks: chosen(args.rank) },
            language: args.lang,
            json: args.json,
        }
    }
}

impl PageSource {
    fn page(&self, on_demand: bool) -> anyhow::Result<Page> {
        Template::built()?;
        let _progress = Progress::of_one("reading");
        if has_result(&self.path) {
            let result = ResultFolder::open(&result_at(&self.path)?)?.select(&self.select)?;
            let options = PageOptions { dumps: self.dumps.clone(), on_demand, language: self.language };
            return Ok(page_of_result(&result, options)?);
        }
        if self.dumps.as_ref().is_some_and(DumpPlaces::is_named) {
            anyhow::bail!(
                "{}: --target and --golden are for a result of `ulpscope compare -o`, and this is none; leave them out, or name \
                 the result",
                self.path.display()
            );
        }
        Ok(page_of_dump(&self.path, &self.select, on_demand, self.language)?)
    }
}

/// The request of `report`.
pub(crate) struct WritePage {
    source: PageSource,
    output: PathBuf,
}

impl From<ReportArgs> for WritePage {
    fn from(args: ReportArgs) -> WritePage {
        WritePage { source: args.page.into(), output: args.output }
    }
}

impl WritePage {
    pub(crate) fn run(self, output: &mut Output) -> anyhow::Result<Exit> {
        if self.output.as_os_str() == STANDARD_OUTPUT {
            return self.print(output);
        }
        let path = place_of_page(&self.output)?;
        let page = self.source.page(false)?;
        write_page(&page, &path)?;
        let shown = if self.source.json {
            output.json(&json!({ "page": path.display().to_string(), "notes": page.notes }))
        } else {
            output.line(&format!("wrote {}", path.display()))
        };
        unless_broken_pipe(shown)?;
        page.notes.iter().for_each(|note| output.complain(&format!("note: {note}")));
        Ok(Exit::Done)
    }
}

impl WritePage {
    /// Writes the page to the standard output.
    fn print(self, output: &mut Output) -> anyhow::Result<Exit> {
        if self.source.json {
            anyhow::bail!(
                "--json and the page cannot both be on the standard output; write the page to a file with -o FILE"
            );
        }
        let page = self.source.page(false)?;
        let mut html = Vec::new();
        page.write(&mut html)?;
        unless_broken_pipe(output.escaped_bytes(&html))?;
        page.notes.iter().for_each(|note| output.complain(&format!("note: {note}")));
        Ok(Exit::Done)
    }
}

/// Writes a page, complete or not at all.
pub(crate) fn write_page(page: &Page, path: &Path) -> Result<(), Error> {
    file::write_with(path, |out| {
        page.write(out).map_err(|error| match error {
            PageError::Write(error) => Error::whole(error),
            other => Error::whole(std::io::Error::other(other.to_string())),
        })
    })
}

/// The request of `view`.
pub(crate) struct ServePage {
    source: PageSource,
    port: u16,
}

impl From<ViewArgs> for ServePage {
    fn from(args: ViewArgs) -> ServePage {
        ServePage { source: args.page.into(), port: args.port }
    }
}

impl ServePage {
    pub(crate) fn run(self, output: &mut Output) -> anyhow::Result<Exit> {
        let page = self.source.page(true)?;
        page.notes.iter().for_each(|note| output.complain(&format!("note: {note}")));
        let server = Server::of(page, self.port)?;
        let address = server.address();
        let stop = Arc::new(AtomicBool::new(false));
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&stop))?;
        }
        server.start();
        let shown = if self.source.json {
            output.json(&json!({ "address": address }))
        } else {
            output.line(&format!("{address}  (Ctrl-C ends it)"))
        };
        unless_broken_pipe(shown.and_then(|()| output.flush()))?;
        while !stop.load(Ordering::Relaxed) {
            std::thread::sleep(PAUSE);
        }
        Ok(Exit::Done)
    }
}
