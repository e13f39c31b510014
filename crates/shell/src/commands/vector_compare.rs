//! `vc`: every operator of one ACL dump against the same operator of another.
//!
//! Operators are paired by type and name. Of those that ran several times, the first is paired with the first: task and
//! stream ids and times differ between runs and do not count.

use std::collections::HashMap;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rayon::prelude::*;
use ulpscope_compare::styles::msaccucmp::{self, ALGORITHMS, Algorithms, COLUMNS, MISSING};
use ulpscope_formats::acl::{self, DumpFile, DumpTensor};
use ulpscope_formats::file::{Format, Unfinished};
use ulpscope_formats::{Access, Bytes};
use ulpscope_report::csv::CsvWriter;
use ulpscope_report::{Cell, Emphasis, Row};

use super::convert::output_folder;
use crate::folders::{file_name, files_below, spelled};
use crate::options::Options;
use crate::reply::Reply;
use crate::session::Session;

/// Where ptdbg_ascend.parse puts results.
const OUTPUT: &str = "./parse_data/compare_result";

/// Operators whose rows are in memory at a time.
const BATCH: usize = 64;

/// A dump file of one side.
struct Operator {
    path: PathBuf,
    /// Type and name, and how many of that name came before it.
    key: (String, String, usize),
}

/// An operator of the NPU dump, of the ground truth, or of both.
struct Pair {
    mine: Option<PathBuf>,
    golden: Option<PathBuf>,
    key: (String, String, usize),
}

/// ptdbg_ascend.parse: `-g` is the ground truth.
pub(crate) fn parse(session: &Session, options: &Options) -> Reply {
    let [mine, golden] = ["-m", "-g"].map(|option| options.text(option).unwrap_or_default());
    let folder = || output_folder(options.text("-out"), OUTPUT.as_ref());
    compare_and_say(session, mine, golden, &folder)
}

/// precision_tool: `-g` is a graph, which two NPU dumps do not need.
pub(crate) fn precision_tool(session: &Session, options: &Options) -> Reply {
    let ([Some(mine), Some(golden)], None) =
        (["-lt", "-rt"].map(|option| options.text(option)), options.text("-g"))
    else {
        return Reply::failed(
            "vc: give two NPU dumps, as in: vc -lt DIR -rt DIR; an NPU dump is compared with a TF dump by \
             ulpscope compare NPU_DUMP TF_DUMP --graph GRAPH",
        );
    };
    let folder = || {
        let moment = jiff::Zoned::now().strftime("%Y%m%d%H%M%S").to_string();
        output_folder(None, &session.folders.results().join(moment))
    };
    compare_and_say(session, mine, golden, &folder)
}

fn compare_and_say(
    session: &Session,
    mine: &str,
    golden: &str,
    folder: &dyn Fn() -> Result<PathBuf, String>,
) -> Reply {
    let started = Instant::now();
    match compare(session, mine, golden, folder) {
        Ok((path, mut reply)) => {
            let seconds = started.elapsed().as_secs();
            reply.line(&format!("[INFO] The comparison result have been written to \"{}\".", path.display()));
            reply.line(&format!("[INFO] The command was completed and took {seconds} seconds."));
            reply.line("[INFO] Compare finished!!");
            reply
        }
        Err(problem) => Reply::failed(format!("vc: {problem}")),
    }
}

fn compare(
    session: &Session,
    mine: &str,
    golden: &str,
    folder: &dyn Fn() -> Result<PathBuf, String>,
) -> Result<(PathBuf, Reply), String> {
    let (ours, theirs) = (operators(mine)?, operators(golden)?);
    let pairs = pair(ours, theirs);
    let folder = folder()?;
    let path = result_path(&folder);
    let in_result = |error: std::io::Error| format!("{}: {error}", path.display());
    let unfinished = Unfinished::create(&path).map_err(in_result)?;
    let mut reply = Reply::default();
    let mut sheet = CsvWriter::new(BufWriter::new(unfinished.file()), &COLUMNS).map_err(in_result)?;
    for (batch_number, batch) in pairs.chunks(BATCH).enumerate() {
        session.cancel.go_on().map_err(|error| error.to_string())?;
        let rows: Vec<Compared> = batch.par_iter().map(Pair::rows).collect();
        for (at, compared) in rows.into_iter().enumerate() {
            let index = batch_number * BATCH + at;
            for cells in compared.rows {
                let cells =
                    std::iter::once(Cell::Int(index as i128)).chain(cells.into_iter().map(Cell::Text));
                sheet.row(&Row { cells: cells.collect(), emphasis: Emphasis::Plain }).map_err(in_result)?;
            }
            compared.problems.into_iter().for_each(|problem| reply.error(format!("vc: {problem}")));
        }
    }
    let out: BufWriter<&File> = sheet.finish().map_err(in_result)?;
    out.into_inner().map_err(|error| error.to_string())?;
    unfinished.finish().map_err(in_result)?;
    for (count, side, other) in [
        (pairs.iter().filter(|pair| pair.golden.is_none()).count(), mine, golden),
        (pairs.iter().filter(|pair| pair.mine.is_none()).count(), golden, mine),
    ] {
        if count > 0 {
            reply.warning(format!("{count} of the operators of {side} have no counterpart in {other}"));
        }
    }
    Ok((path, reply))
}

/// The first name `result_{14 digits}.csv` that is not taken.
fn result_path(folder: &Path) -> PathBuf {
    let mut moment = jiff::Zoned::now();
    loop {
        let path = folder.join(format!("result_{}.csv", moment.strftime("%Y%m%d%H%M%S")));
        match moment.checked_add(jiff::ToSpan::second(1)) {
            Ok(next) if path.exists() => moment = next,
            _ => return path,
        }
    }
}

/// The operators of one side, in the order they ran.
fn operators(side: &str) -> Result<Vec<Operator>, String> {
    let path = spelled(Path::new(side));
    let files = if path.is_file() { vec![path] } else { files_below(&path) };
    let mut named: Vec<(u64, String, String, PathBuf)> = files
        .into_iter()
        .filter_map(|path| {
            let (op_type, op_name, time) = parts(&file_name(&path))?;
            Some((time, op_type, op_name, path))
        })
        .collect();
    if named.is_empty() {
        return Err(format!("{side}: no ACL dump files, whose names are type.operator.task.stream.time"));
    }
    named.sort();
    let mut counts = HashMap::new();
    Ok(named
        .into_iter()
        .map(|(_, op_type, op_name, path)| {
            let count = counts.entry((op_type.clone(), op_name.clone())).or_insert(0);
            *count += 1;
            Operator { path, key: (op_type, op_name, *count - 1) }
        })
        .collect())
}

/// The type, the name and the time in the name of a dump file: `Relu.x.25.5.1767261601039759`.
fn parts(name: &str) -> Option<(String, String, u64)> {
    let mut fields = name.split('.');
    let (op_type, op_name) = (fields.next()?, fields.next()?);
    let numbers: Option<Vec<u64>> = fields.map(|field| field.parse().ok()).collect();
    let time = numbers?.into_iter().max().filter(|_| name.split('.').count() >= 4)?;
    Some((op_type.to_owned(), op_name.to_owned(), time))
}

/// The pairs in the order of the NPU dump; what only the ground truth has comes last.
fn pair(mine: Vec<Operator>, golden: Vec<Operator>) -> Vec<Pair> {
    let mut by_key: HashMap<_, _> =
        (golden.iter().enumerate()).map(|(at, one)| (one.key.clone(), at)).collect();
    let mut pairs: Vec<Pair> = mine
        .into_iter()
        .map(|one| {
            let other = by_key.remove(&one.key).map(|at| golden[at].path.clone());
            Pair { mine: Some(one.path), golden: other, key: one.key }
        })
        .collect();
    let mut rest: Vec<usize> = by_key.into_values().collect();
    rest.sort_unstable();
    let only_golden = rest.into_iter().map(|at| Pair {
        mine: None,
        golden: Some(golden[at].path.clone()),
        key: golden[at].key.clone(),
    });
    pairs.extend(only_golden);
    pairs
}

/// The rows of an operator, without their index.
struct Compared {
    rows: Vec<[String; COLUMNS.len() - 1]>,
    problems: Vec<String>,
}

impl Pair {
    fn rows(&self) -> Compared {
        let mut problems = Vec::new();
        let mut open = |path: &Option<PathBuf>| {
            path.as_deref().and_then(|path| read(path).map_err(|problem| problems.push(problem)).ok())
        };
        let (mine, golden) = (open(&self.mine), open(&self.golden));
        let (op_type, flat_name, _) = &self.key;
        let mut names = [&mine, &golden].into_iter().flatten().map(|dump| dump.op_name.clone());
        let name = names.find(|name| !name.is_empty()).unwrap_or_else(|| flat_name.clone());
        drop(names);
        let mut rows = Vec::new();
        let Some(mine) = mine else {
            let reason = match &self.mine {
                None => format!(
                    "[{name}] There is no dump file for my output operator \"{name}\". The type is {op_type}."
                ),
                Some(_) => format!("[{name}] The dump file of my output operator \"{name}\" cannot be read."),
            };
            let none = Algorithms::none(reason);
            rows.push(row(op_type, [&name, &name], [None, None], MISSING.to_owned(), &none));
            return Compared { rows, problems };
        };
        let theirs = golden.as_ref().map_or("*", |_| name.as_str());
        for (io, of) in [("input", inputs as fn(&DumpFile) -> &[DumpTensor]), ("output", outputs)] {
            let (left, right) = (of(&mine), golden.as_ref().map_or(&[][..], of));
            for index in 0..left.len().max(right.len()) {
                let label = format!("{name}:{io}:{index}");
                let sides = [left.get(index), right.get(index)];
                let measured = self.measure(sides, &name, &label);
                rows.push(row(op_type, [&name, theirs], sides, label, &measured));
            }
        }
        Compared { rows, problems }
    }

    fn measure(&self, sides: [Option<&DumpTensor>; 2], name: &str, label: &str) -> Algorithms {
        let [Some(mine), Some(golden)] = sides else {
            let what = if sides[0].is_none() { "my" } else { "the ground truth" };
            return Algorithms::none(format!("[{name}] There is no {what} dump file for {label}."));
        };
        if mine.format != golden.format {
            return Algorithms::none(format!(
                "[{name}] The layouts differ: {} and {}.",
                mine.format, golden.format
            ));
        }
        let files = [&self.mine, &self.golden].map(|path| path.as_deref().map(file_name).unwrap_or_default());
        match (mine.tensor(), golden.tensor()) {
            (Ok(left), Ok(right)) => msaccucmp::measure(&left, &right, [&files[0], &files[1]]),
            (left, right) => {
                let reasons = [left.err(), right.err()].into_iter().flatten().map(|error| error.to_string());
                Algorithms::none(format!("[{name}] {}", reasons.collect::<Vec<_>>().join("; ")))
            }
        }
    }
}

fn inputs(dump: &DumpFile) -> &[DumpTensor] {
    &dump.inputs
}

fn outputs(dump: &DumpFile) -> &[DumpTensor] {
    &dump.outputs
}

fn row(
    op_type: &str,
    names: [&str; 2],
    sides: [Option<&DumpTensor>; 2],
    label: String,
    measured: &Algorithms,
) -> [String; COLUMNS.len() - 1] {
    let data_type = |side: Option<&DumpTensor>| {
        side.map_or_else(
            || MISSING.to_owned(),
            |tensor| match tensor.data_type.elements() {
                Ok(dtype) => dtype.to_string(),
                Err(_) => tensor.data_type.to_string(),
            },
        )
    };
    let address = |side: Option<&DumpTensor>| match side {
        Some(tensor) if tensor.address > 0 => tensor.address.to_string(),
        _ => MISSING.to_owned(),
    };
    let shape = sides.into_iter().flatten().next().map_or_else(
        || MISSING.to_owned(),
        |tensor| format!("[{}]", tensor.shape.iter().map(u64::to_string).collect::<Vec<_>>().join(",")),
    );
    let mut cells: [String; COLUMNS.len() - 1] = Default::default();
    let before = [
        op_type.to_owned(),
        names[0].to_owned(),
        data_type(sides[0]),
        address(sides[0]),
        names[1].to_owned(),
        data_type(sides[1]),
        address(sides[1]),
        label,
        shape,
    ];
    let start = before.len();
    cells[..start].clone_from_slice(&before);
    cells[start..start + ALGORITHMS].clone_from_slice(&measured.values);
    cells[start + ALGORITHMS] = measured.reasons.join(" ");
    cells
}

fn read(path: &Path) -> Result<DumpFile, String> {
    let read = || {
        let bytes = Bytes::map(path, Access::ReadOnly)?;
        bytes.reading(|| {
            Format::detect(path, &bytes)?;
            acl::read(&bytes)
        })
    };
    read().map_err(|error: ulpscope_formats::Error| error.in_file(path).to_string())
}
