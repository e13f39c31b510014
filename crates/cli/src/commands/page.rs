//! `ulpscope report` and `ulpscope view`: the page of a comparison or of a dump, as a file or in a browser.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;
use ulpscope_dump::Select;
use ulpscope_formats::{Error, file};
use ulpscope_page::{Page, PageError, PageOptions, ResultFolder, Server, page_of_dump, page_of_result};
use ulpscope_report::page::Template;
use ulpscope_session::{Language, NumberRanges};

use crate::args::{PageArgs, ReportArgs, ViewArgs};
use crate::exit::Exit;
use crate::output::{Output, unless_broken_pipe};
use crate::progress::Progress;
use crate::result_document::{has_result, result_at};

/// The name of a page in a folder.
pub(crate) const REPORT: &str = "report.html";

/// How often a server looks whether it should end.
const PAUSE: Duration = Duration::from_millis(50);

/// What a page shows.
struct PageSource {
    path: PathBuf,
    dumps: bool,
    select: Select,
    language: Option<Language>,
    json: bool,
}

impl From<PageArgs> for PageSource {
    fn from(args: PageArgs) -> PageSource {
        let chosen =
            |numbers: Option<NumberRanges>| numbers.map(|NumberRanges(numbers)| numbers).unwrap_or_default();
        PageSource {
            path: args.source,
            dumps: args.dumps,
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
            let result = ResultFolder::open(&result_at(&self.path)?)?;
            let options = PageOptions { dumps: self.dumps, on_demand, language: self.language };
            return Ok(page_of_result(&result, options)?);
        }
        Ok(page_of_dump(&self.path, &self.select, on_demand)?)
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
        let path = if self.output.is_dir() { self.output.join(REPORT) } else { self.output };
        check_replaceable(&path)?;
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

/// Refuses to write a page over something that is none: a result, a dump, a device.
fn check_replaceable(path: &Path) -> anyhow::Result<()> {
    let Ok(known) = path.metadata() else { return Ok(()) };
    let is_page = path.extension().is_some_and(|extension| extension == "html" || extension == "htm");
    if !known.is_file() || !is_page {
        anyhow::bail!(
            "{}: exists and is no page: expected a new file, a file that ends in .html, or a folder",
            path.display()
        );
    }
    Ok(())
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
