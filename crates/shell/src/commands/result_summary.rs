//! `vcs`: the operators of a result of `vc` that differ, with every number that the result has of them.
//!
//! Columns are found by name, so results of msaccucmp of any release are read. An operator counts if an input or an output
//! of it differs, by the rule that a comparison of a whole network has: its cosine is below the threshold, it is farther from
//! the other side than two vectors of equal length with that cosine are, or a number of it is NaN. The cosine alone hides a
//! wrong scale, and every error of a scalar.

use std::path::{Path, PathBuf};

use ulpscope_compare::styles::msaccucmp::{MISSING, Nearness};
use ulpscope_formats::natural;
use ulpscope_report::panel;
use ulpscope_report::sheet::{self, Sheet, SheetRow};

use crate::folders::{DataKind, file_name, files_below};
use crate::options::Options;
use crate::python_text::texts;
use crate::reply::{Ending, Reply};
use crate::session::Session;

/// The threshold of the cosine.
pub(crate) const COSINE: f64 = 0.98;

/// Operators that are shown.
const SHOWN: usize = 3;

/// Columns of a line in a panel.
const LINE_WIDTH: usize = 110;

/// Numbers besides the cosine.
const METRICS: [&str; 9] = [
    "MaxAbsoluteError",
    "AccumulatedRelativeError",
    "RelativeEuclideanDistance",
    "KullbackLeiblerDivergence",
    "StandardDeviation",
    "MeanAbsoluteError",
    "RootMeanSquareError",
    "MaxRelativeError",
    "MeanRelativeError",
];

pub(crate) fn run(session: &Session, options: &Options) -> Reply {
    let numbers =
        || -> Result<_, String> { Ok((options.tolerance("-c", COSINE)?, options.count("-l", SHOWN)?)) };
    let (threshold, limit) = match numbers() {
        Ok(numbers) => numbers,
        Err(problem) => return Reply::failed(format!("vcs: {problem}")),
    };
    let files = match options.text("-f").map(Path::new) {
        Some(path) if path.is_dir() => results_below(path),
        Some(path) => vec![path.to_owned()],
        None => newest_results(session),
    };
    if files.is_empty() {
        return Reply::failed(format!("vcs: {}; vc makes one", session.folders.missing(DataKind::Results)));
    }
    let mut reply = Reply::default();
    files.iter().for_each(|file| reply.add(of_file(file, threshold, limit)));
    reply
}

/// The results of the newest comparison; none if there is none.
pub(crate) fn newest_results(session: &Session) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = Vec::new();
    for place in session.folders.places(DataKind::Results) {
        let entries = std::fs::read_dir(place).into_iter().flatten().flatten();
        folders.extend(entries.map(|entry| entry.path()).filter(|path| path.is_dir()));
    }
    folders.sort_by(|a, b| natural::compare(file_name(a).as_bytes(), file_name(b).as_bytes()));
    folders
        .into_iter()
        .rev()
        .map(|folder| results_below(&folder))
        .find(|files| !files.is_empty())
        .unwrap_or_default()
}

/// `result_20261115062122.csv`, by number.
fn results_below(folder: &Path) -> Vec<PathBuf> {
    let is_result = |path: &PathBuf| {
        let name = file_name(path);
        let number = name.strip_prefix("result_").and_then(|rest| rest.strip_suffix(".csv"));
        number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    files_below(folder).into_iter().filter(is_result).collect()
}

/// The operators of one result that differ.
pub(crate) fn of_file(path: &Path, threshold: f64, limit: usize) -> Reply {
    let read = sheet::read(path).map_err(|error| error.to_string());
    let ops =
        match read.and_then(|sheet| operators(&sheet).map_err(|why| format!("{}: {why}", path.display()))) {
            Ok(ops) => ops,
            Err(problem) => return Reply::failed(format!("vcs: {problem}")),
        };
    let differ = |tensor: &TensorResult| tensor.differs(threshold);
    let found: Vec<&ComparedOp> =
        ops.iter().filter(|op| op.inputs.iter().chain(&op.outputs).any(differ)).collect();
    let mut reply = Reply::default();
    reply.line(&format!("[INFO] Find {} ops less then {threshold} in {}", found.len(), path.display()));
    for op in found.iter().take(limit) {
        let note = op.inputs.iter().any(differ).then_some("An input differs already.");
        reply.block(&panel(Some(&format!("[{}] {}", op.index, op.name)), &op.lines(note)));
    }
    if found.len() > limit {
        reply.line(&format!("and {} more: vcs -l {}", found.len() - limit, found.len()));
    }
    if !found.is_empty() {
        reply.ending = Ending::Differs;
    }
    reply
}

/// The rows of one index.
struct ComparedOp {
    index: String,
    name: String,
    left: Vec<String>,
    right: Vec<String>,
    inputs: Vec<TensorResult>,
    outputs: Vec<TensorResult>,
}

struct TensorResult {
    number: String,
    cosine: String,
    metrics: Vec<(&'static str, String)>,
    reason: String,
}

impl TensorResult {
    fn differs(&self, threshold: f64) -> bool {
        // A cell without a value is left out of the metrics; nan is a value.
        let number = |text: &str| text.parse::<f64>().ok().filter(|_| text != MISSING);
        let text =
            |name: &str| self.metrics.iter().find(|(one, _)| *one == name).map(|(_, text)| text.as_str());
        let metric = |name: &str| text(name).and_then(number);
        // msaccucmp writes the distance from a scalar of zero as zero; its mean tells it.
        let is_golden_zero = self.reason.contains("This tensor is scalar")
            && text("StandardDeviation").is_some_and(|both| both.ends_with(",(0.000;0.000)"))
            && metric("RelativeEuclideanDistance") == Some(0.0);
        let nearness = Nearness {
            cosine: number(&self.cosine),
            relative_distance: metric("RelativeEuclideanDistance"),
            max_abs: metric("MaxAbsoluteError"),
            is_golden_zero,
        };
        nearness.differs(threshold)
    }

    fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!(" - [{}]{}", self.number, self.cosine)];
        let mut line = String::new();
        for (name, text) in &self.metrics {
            let next = format!("[{name}: {text}]");
            if line.len() + next.len() > LINE_WIDTH {
                lines.push(format!("   {}", std::mem::take(&mut line)));
            }
            line = if line.is_empty() { next } else { format!("{line} {next}") };
        }
        lines.extend((!line.is_empty()).then(|| format!("   {line}")));
        lines.extend(wrapped(&self.reason).into_iter().map(|line| format!("   {line}")));
        lines
    }
}

impl ComparedOp {
    fn lines(&self, note: Option<&str>) -> Vec<String> {
        let mut lines =
            vec![format!("Left:  {}", texts(&self.left)), format!("Right: {}", texts(&self.right))];
        lines.extend(note.map(str::to_owned));
        for (title, tensors) in [("Input:", &self.inputs), ("Output:", &self.outputs)] {
            lines.push(title.to_owned());
            lines.extend(tensors.iter().flat_map(TensorResult::lines));
        }
        lines
    }
}

/// The operators of a result, in its order.
fn operators(sheet: &Sheet) -> Result<Vec<ComparedOp>, String> {
    let find = |names: &[&str]| sheet.columns.iter().position(|column| names.contains(&column.as_str()));
    let needed =
        |names: &[&str]| find(names).ok_or_else(|| format!("expected a column {}", names.join(" or ")));
    let index = needed(&["Index"])?;
    let left = needed(&["NPUDump", "LeftOp"])?;
    let right = needed(&["GroundTruth", "RightOp"])?;
    let tensor = needed(&["TensorIndex"])?;
    let cosine = needed(&["CosineSimilarity"])?;
    let reason = find(&["CompareFailReason"]);
    let metrics: Vec<(&'static str, usize)> =
        METRICS.into_iter().filter_map(|name| Some((name, find(&[name])?))).collect();
    let names =
        |text: &str| text.split([',', ' ']).filter(|name| !name.is_empty()).map(str::to_owned).collect();
    let mut ops: Vec<ComparedOp> = Vec::new();
    for row in &sheet.rows {
        let is_same = |op: &ComparedOp| op.index == row[index] && op.name == row[left];
        if !ops.last().is_some_and(is_same) {
            ops.push(ComparedOp {
                index: row[index].to_owned(),
                name: row[left].to_owned(),
                left: names(&row[left]),
                right: names(&row[right]),
                inputs: Vec::new(),
                outputs: Vec::new(),
            });
        }
        let Some(op) = ops.last_mut() else { continue };
        let mut parts = row[tensor].rsplit(':');
        let (Some(number), Some(io)) = (parts.next(), parts.next()) else { continue };
        let result = TensorResult {
            number: number.to_owned(),
            cosine: row[cosine].to_owned(),
            metrics: measured(row, &metrics),
            reason: reason.map(|column| row[column].to_owned()).unwrap_or_default(),
        };
        match io {
            "input" => op.inputs.push(result),
            "output" => op.outputs.push(result),
            _ => {}
        }
    }
    Ok(ops)
}

/// A text in lines of at most the width of a panel, broken between words; a longer word is cut.
fn wrapped(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut room = 0;
    for word in text.split_whitespace() {
        let letters: Vec<char> = word.chars().collect();
        for part in letters.chunks(LINE_WIDTH) {
            let length = part.len();
            match lines.last_mut().filter(|_| length < room) {
                Some(line) => {
                    line.push(' ');
                    line.extend(part);
                    room -= length + 1;
                }
                None => {
                    lines.push(part.iter().collect());
                    room = LINE_WIDTH - length;
                }
            }
        }
    }
    lines
}

/// The numbers of a row that were computed.
fn measured(row: &SheetRow, metrics: &[(&'static str, usize)]) -> Vec<(&'static str, String)> {
    let computed = metrics.iter().filter(|(_, column)| &row[*column] != MISSING);
    computed.map(|&(name, column)| (name, row[column].to_owned())).collect()
}
