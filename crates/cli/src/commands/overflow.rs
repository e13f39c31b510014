//! `ulpscope overflow`: the calls of a dump that first produced NaN or infinity.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail};
use ulpscope_compare::overflow::{device_overflows, non_finite_origins};
use ulpscope_dump::{Dump, Select};
use ulpscope_session::{
    DEVICE_OVERFLOWS, Language, NumberRanges, anomaly_document, anomaly_lines, device_overflow_lines,
    device_overflow_list,
};

use crate::args::{OverflowArgs, language};
use crate::exit::Exit;
use crate::output::{Output, unless_broken_pipe};

/// Origins on the terminal; the document has all.
const LISTED: usize = 20;

/// The request of `overflow`.
pub(crate) struct Overflow {
    dump: PathBuf,
    select: Select,
    output: Option<PathBuf>,
    json: bool,
    language: Language,
}

impl TryFrom<OverflowArgs> for Overflow {
    type Error = anyhow::Error;

    fn try_from(args: OverflowArgs) -> anyhow::Result<Overflow> {
        let chosen = |numbers: Option<NumberRanges>| numbers.unwrap_or_default().0;
        let language = language(args.lang)?;
        Ok(Overflow {
            dump: args.dump.dump,
            select: Select { steps: chosen(args.dump.step), ranks: chosen(args.dump.rank) },
            output: args.output,
            json: args.dump.json,
            language,
        })
    }
}

impl Overflow {
    pub(crate) fn run(self, output: &mut Output) -> anyhow::Result<Exit> {
        let dump = Dump::open(&self.dump, &self.select)?;
        let mut problems = dump.problems.clone();
        let mut notes = dump.notes.clone();
        let whole = notes.len();
        let search = non_finite_origins(&dump, &mut notes, &mut problems);
        let origins = search.origins;
        let is_whole = notes.len() == whole && problems.is_empty();
        let detected = device_overflows(&dump, &mut problems);
        if search.measured == 0 && detected.is_empty() && origins.is_empty() && problems.is_empty() {
            let path = self.dump.display();
            match search.calls {
                0 => bail!("{path} has no calls, so nothing can be said of NaN and infinity"),
                _ => bail!(
                    "the calls in {path} have no numbers, so nothing can be said of NaN and infinity: record with \
                     task statistics, tensor or overflow_check"
                ),
            }
        }
        let mut document = anomaly_document(&origins);
        if !detected.is_empty() {
            document[DEVICE_OVERFLOWS] = device_overflow_list(&detected);
        }
        let mut written = None;
        if let Some(folder) = &self.output {
            written = Some(write(folder, &document)?);
        }
        let shown = if self.json {
            output.json(&document)
        } else {
            let mut lines: Vec<String> = detected
                .iter()
                .take(LISTED)
                .flat_map(|one| device_overflow_lines(one, self.language))
                .collect();
            if detected.len() > LISTED {
                lines.push(format!("and {} more that the device detected", detected.len() - LISTED));
            }
            lines.extend(origins.iter().take(LISTED).flat_map(anomaly_lines));
            if origins.is_empty() {
                let which = if is_whole { "no call" } else { "no call that was recorded and read" };
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
        output.notes_and_errors(&notes, &errors);
        let found = if origins.is_empty() && detected.is_empty() { Exit::Done } else { Exit::Differ };
        Ok(found.max(Exit::of_reading(&errors)))
    }
}

fn write(folder: &Path, document: &serde_json::Value) -> anyhow::Result<PathBuf> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    let path = folder.join(format!("anomaly_analyze_{now}.json"));
    let text = ulpscope_report::json::document(document);
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}
