//! `ulpscope overflow`: the calls of a dump that first produced NaN or infinity.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail};
use serde_json::Value;
use ulpscope_dump::Select;
use ulpscope_session::units::{Dispatcher, DumpNodes, Located, ScanElsewhere};
use ulpscope_session::{
    DEVICE_OVERFLOWS, NumberRanges, OverflowFound, OverflowRequest, ScanHere, anomaly_document,
    anomaly_lines, search_overflow,
};

use crate::args::{OverflowArgs, language};
use crate::exit::Exit;
use crate::output::{Output, unless_broken_pipe};

/// Origins on the terminal; the document has all.
const LISTED: usize = 20;

/// The request of `overflow`.
pub(crate) struct Overflow {
    request: OverflowRequest,
    output: Option<PathBuf>,
    json: bool,
    located: Located,
    resume: bool,
}

impl TryFrom<OverflowArgs> for Overflow {
    type Error = anyhow::Error;

    fn try_from(args: OverflowArgs) -> anyhow::Result<Overflow> {
        let chosen = |numbers: Option<NumberRanges>| numbers.unwrap_or_default().0;
        let request = OverflowRequest {
            dump: args.dump.dump,
            select: Select { steps: chosen(args.dump.step), ranks: chosen(args.dump.rank) },
            language: language(args.lang)?,
        };
        Ok(Overflow {
            request,
            output: args.output,
            json: args.dump.json,
            located: args.engine.located()?,
            resume: args.engine.resume,
        })
    }
}

impl Overflow {
    pub(crate) fn run(
        self,
        dispatcher: Option<&(dyn Dispatcher + Send)>,
        output: &mut Output,
    ) -> anyhow::Result<Exit> {
        let found = self.search(dispatcher)?;
        let OverflowFound { origins, detected, notes, problems, is_whole, .. } = &found;
        if found.measured == 0 && detected.is_empty() && origins.is_empty() && problems.is_empty() {
            let path = self.request.dump.display();
            match found.calls {
                0 => bail!("{path} has no calls, so nothing can be said of NaN and infinity"),
                _ => bail!(
                    "the calls in {path} have no numbers, so nothing can be said of NaN and infinity: record with \
                     task statistics, tensor or overflow_check"
                ),
            }
        }
        let mut document = anomaly_document(origins);
        if !detected.is_empty() {
            document[DEVICE_OVERFLOWS] = detected.iter().map(|one| one.document.clone()).collect::<Value>();
        }
        let mut written = None;
        if let Some(folder) = &self.output {
            written = Some(write(folder, &document)?);
        }
        let shown = if self.json {
            output.json(&document)
        } else {
            let mut lines: Vec<String> =
                detected.iter().take(LISTED).flat_map(|one| one.lines.clone()).collect();
            if detected.len() > LISTED {
                lines.push(format!("and {} more that the device detected", detected.len() - LISTED));
            }
            lines.extend(origins.iter().take(LISTED).flat_map(anomaly_lines));
            if origins.is_empty() {
                let which = if *is_whole { "no call" } else { "no call that was recorded and read" };
                lines.push(format!("{which} produced NaN or infinity"));
            } else if origins.len() > LISTED {
                lines.push(format!("and {} more", origins.len() - LISTED));
            }
            lines.extend(written.map(|path| format!("written: {}", path.display())));
            lines.iter().try_for_each(|line| output.line(line))
        };
        unless_broken_pipe(shown)?;
        let mut errors = problems.listed().to_vec();
        if problems.unlisted() > 0 {
            errors.push(format!("{} more problems of this kind", problems.unlisted()));
        }
        output.notes_and_errors(notes, &errors);
        let found = if origins.is_empty() && detected.is_empty() { Exit::Done } else { Exit::Differ };
        Ok(found.max(Exit::of_reading(&errors)))
    }

    fn search(&self, dispatcher: Option<&(dyn Dispatcher + Send)>) -> anyhow::Result<OverflowFound> {
        let Some(dispatcher) = dispatcher else { return Ok(search_overflow(&self.request, &ScanHere)?) };
        if let Some(folder) = &self.output {
            make_folder(folder)?;
        }
        let OverflowRequest { dump, language, .. } = &self.request;
        let nodes = DumpNodes::from(self.located.clone());
        let results = self.output.as_deref();
        let engine = ScanElsewhere::new(dispatcher, dump, *language, nodes, results, self.resume)
            .context("the answers of ranks cannot be saved")?;
        Ok(search_overflow(&self.request, &engine)?)
    }
}

fn make_folder(folder: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {}", folder.display()))
}

fn write(folder: &Path, document: &Value) -> anyhow::Result<PathBuf> {
    make_folder(folder)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    let path = folder.join(format!("anomaly_analyze_{now}.json"));
    let text = ulpscope_report::json::document(document);
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}
