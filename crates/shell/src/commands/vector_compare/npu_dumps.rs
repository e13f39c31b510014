//! Every operator of one ACL dump against the same operator of another.
//!
//! Operators are paired by type and name. Of those that ran several times, the first is paired with the first: task and
//! stream ids and times differ between runs and do not count.

use std::collections::HashMap;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use ulpscope_compare::styles::msaccucmp::{self, ALGORITHMS, Algorithms, COLUMNS, MISSING};
use ulpscope_dump::Problems;
use ulpscope_formats::Tensor;
use ulpscope_formats::acl::{DumpFile, DumpTensor, flat_op_name};
use ulpscope_formats::file::Unfinished;
use ulpscope_report::csv::CsvWriter;
use ulpscope_report::{Cell, Emphasis, Row};

use super::result_path;
use crate::folders::file_name;
use crate::npu_files::{NpuFile, npu_files};
use crate::reply::Reply;
use crate::session::Session;

/// Operators whose rows are in memory at a time.
const BATCH: usize = 64;

/// A dump file of one side.
struct Operator {
    file: NpuFile,
    op_type: String,
    /// Type and name, and how many of that name came before it.
    key: (String, usize),
}

/// An operator of the NPU dump, of the ground truth, or of both.
struct Pair {
    mine: Option<NpuFile>,
    golden: Option<NpuFile>,
    op_type: String,
    flat_name: String,
}

/// Compares two dumps, and writes a result into a folder.
pub(super) fn compare(
    session: &Session,
    sides: [&Path; 2],
    folder: &dyn Fn() -> Result<PathBuf, String>,
) -> Result<(PathBuf, Reply), String> {
    let mut reply = Reply::default();
    let [ours, theirs] = [operators(sides[0], &mut reply)?, operators(sides[1], &mut reply)?];
    let pairs = pair(ours, theirs);
    let folder = folder()?;
    let path = result_path(&folder);
    let in_result = |error: std::io::Error| format!("{}: {error}", path.display());
    let unfinished = Unfinished::create(&path).map_err(in_result)?;
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
    let [mine, golden] = sides.map(|side| side.display().to_string());
    for (count, side, other) in [
        (pairs.iter().filter(|pair| pair.golden.is_none()).count(), &mine, &golden),
        (pairs.iter().filter(|pair| pair.mine.is_none()).count(), &golden, &mine),
    ] {
        if count > 0 {
            reply.warning(format!("{count} of the operators of {side} have no counterpart in {other}"));
        }
    }
    Ok((path, reply))
}

/// The operators of one side, in the order they ran.
fn operators(side: &Path, reply: &mut Reply) -> Result<Vec<Operator>, String> {
    let mut problems = Problems::default();
    let files = npu_files(side, &mut problems);
    problems.listed().iter().for_each(|problem| reply.error(format!("vc: {problem}")));
    let with_tensors = files.into_iter().filter(|file| file.is_of_operator() && !file.is_statistics);
    let mut named: Vec<(u64, String, String, NpuFile)> = with_tensors.filter_map(described).collect();
    if named.is_empty() {
        let side = side.display();
        return Err(format!("{side}: no ACL dump files, whose names are type.operator.task.stream.time"));
    }
    named.sort_by(|a, b| (a.0, &a.1, &a.3.path).cmp(&(b.0, &b.1, &b.3.path)));
    let mut counts = HashMap::new();
    Ok(named
        .into_iter()
        .map(|(_, operator, op_type, file)| {
            let count = counts.entry(operator.clone()).or_insert(0);
            *count += 1;
            Operator { file, op_type, key: (operator, *count - 1) }
        })
        .collect())
}

/// When an operator ran, what identifies it, and its type. Without a name in `mapping.csv`, the header of a file that is
/// named with digits has the operator.
fn described(file: NpuFile) -> Option<(u64, String, String, NpuFile)> {
    if let Some(name) = &file.name {
        return Some((name.timestamp, name.operator(), name.op_type.clone(), file));
    }
    let dump = file.read().ok().flatten()?;
    (!dump.op_name.is_empty()).then(|| (dump.dump_time, flat_op_name(&dump.op_name), String::new(), file))
}

/// The pairs in the order of the NPU dump; what only the ground truth has comes last.
fn pair(mine: Vec<Operator>, golden: Vec<Operator>) -> Vec<Pair> {
    let flat_name = |operator: &str| operator.split('.').nth(1).unwrap_or(operator).to_owned();
    let mut by_key: HashMap<_, _> =
        (golden.iter().enumerate()).map(|(at, one)| (one.key.clone(), at)).collect();
    let mut pairs: Vec<Pair> = mine
        .into_iter()
        .map(|one| {
            let other = by_key.remove(&one.key).map(|at| golden[at].file.clone());
            let flat_name = flat_name(&one.key.0);
            Pair { mine: Some(one.file), golden: other, op_type: one.op_type, flat_name }
        })
        .collect();
    let mut rest: Vec<usize> = by_key.into_values().collect();
    rest.sort_unstable();
    let only_golden = rest.into_iter().map(|at| Pair {
        mine: None,
        golden: Some(golden[at].file.clone()),
        op_type: golden[at].op_type.clone(),
        flat_name: flat_name(&golden[at].key.0),
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
        let open = |file: &Option<NpuFile>| match file.as_ref().map(read) {
            None => (None, None),
            Some(Ok(dump)) => (Some(dump), None),
            Some(Err(problem)) => (None, Some(problem)),
        };
        let ((mine, my_problem), (golden, golden_problem)) = (open(&self.mine), open(&self.golden));
        let problems: Vec<String> = [&my_problem, &golden_problem].into_iter().flatten().cloned().collect();
        let (op_type, flat_name) = (&self.op_type, &self.flat_name);
        let mut names = [&mine, &golden].into_iter().flatten().map(|dump| dump.op_name.clone());
        let name = names.find(|name| !name.is_empty()).unwrap_or_else(|| flat_name.clone());
        drop(names);
        let mut rows = Vec::new();
        let Some(mine) = mine else {
            let reason = match &my_problem {
                None => format!(
                    "[{name}] There is no dump file for my output operator \"{name}\". The type is {op_type}."
                ),
                Some(why) => {
                    format!("[{name}] The dump file of my output operator \"{name}\" cannot be read: {why}.")
                }
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
                let measured = match &golden_problem {
                    Some(why) => Algorithms::none(format!(
                        "[{name}] The ground truth dump file cannot be read: {why}."
                    )),
                    None => self.measure(sides, &name, &label),
                };
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
        let files = [&self.mine, &self.golden]
            .map(|file| file.as_ref().map(|file| file_name(&file.path)).unwrap_or_default());
        match (in_layout_of(mine, golden), golden.tensor()) {
            (Ok(left), Ok(right)) => msaccucmp::measure(&left, &right, [&files[0], &files[1]]),
            (left, right) => {
                let reasons = [left.err(), right.err().map(|error| error.to_string())].into_iter().flatten();
                Algorithms::none(format!("[{name}] {}", reasons.collect::<Vec<_>>().join("; ")))
            }
        }
    }
}

/// The elements in the layout that the ground truth has: another run may store them differently.
fn in_layout_of(mine: &DumpTensor, golden: &DumpTensor) -> Result<Tensor, String> {
    if mine.format == golden.format {
        return mine.tensor().map_err(|error| error.to_string());
    }
    let relaid = mine.relaid(golden.format, None);
    let text = |why: &dyn std::fmt::Display| {
        format!("The layouts differ: {} and {}: {why}.", mine.format, golden.format)
    };
    relaid.map(|relaid| relaid.tensor).map_err(|error| text(&error))
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

fn read(file: &NpuFile) -> Result<DumpFile, String> {
    match file.read() {
        Ok(Some(dump)) => Ok(dump),
        Ok(None) => Err(format!("{}: not an ACL dump file", file.path.display())),
        Err(error) => Err(error.to_string()),
    }
}
