//! `cp` and `cn`: two tensors as a whole and by element.

use std::path::{Path, PathBuf};

use ulpscope_compare::flat::{ElementPair, FlatComparison, compare_flat};
use ulpscope_kernels::Tolerance;
use ulpscope_report::{heavy_table, panel, side_by_side};
use ulpscope_tensor::{DType, Scalar, python_float_repr};

use super::find;
use crate::folders::DataKind;
use crate::numpy_text::Digits;
use crate::options::Options;
use crate::pattern;
use crate::reply::{Ending, Reply};
use crate::session::Session;
use crate::tensor_text::{NamedTensor, spec};

const COLUMNS: [&str; 4] = ["Index", "Left", "Right", "Diff"];
const ROWS: usize = 20;
const TOLERANCE: f64 = 0.001;

/// `cp`: writes text files only with `-s`.
pub(crate) fn precision_tool(session: &Session, options: &Options) -> Reply {
    let names: Vec<&str> =
        options.text("-n").into_iter().chain(options.words.iter().map(String::as_str)).collect();
    let [left, right] = names[..] else { return Reply::failed("compare files should be 2.") };
    compare_named(session, "cp", left, right, options, options.has("-s"))
}

/// `cn`: writes text files, as its guide says; both names may be patterns.
pub(crate) fn parse(session: &Session, options: &Options) -> Reply {
    let (left, right) = (options.text("-m").unwrap_or_default(), options.text("-g").unwrap_or_default());
    if !pattern::is_pattern(left) && !pattern::is_pattern(right) {
        return compare_named(session, "cn", left, right, options, true);
    }
    let mut reply = Reply::default();
    let pairs = match pairs(left, right, &mut reply) {
        Ok(pairs) => pairs,
        Err(problem) => return Reply::failed(format!("cn: {problem}")),
    };
    for (left, right) in pairs {
        if session.cancel.is_asked() {
            break;
        }
        reply.add(compare_files(session, "cn", &left, &right, options, true));
    }
    reply
}

/// The files of two patterns that belong together: those whose stars stand for the same, or the only one of each side.
fn pairs(left: &str, right: &str, reply: &mut Reply) -> Result<Vec<(PathBuf, PathBuf)>, String> {
    let (ours, theirs) = (pattern::files(left), pattern::files(right));
    for (name, found) in [(left, &ours), (right, &theirs)] {
        if found.is_empty() {
            return Err(format!("{name}: no file matches"));
        }
    }
    if let ([one], [other]) = (&ours[..], &theirs[..]) {
        return Ok(vec![(one.path.clone(), other.path.clone())]);
    }
    let mut pairs = Vec::new();
    for one in &ours {
        match theirs.iter().find(|other| other.stars == one.stars) {
            Some(other) => pairs.push((one.path.clone(), other.path.clone())),
            None => {
                reply.warning(format!("{}: nothing of {right} has the same text for *", one.path.display()));
            }
        }
    }
    for other in theirs.iter().filter(|other| ours.iter().all(|one| one.stars != other.stars)) {
        reply.warning(format!("{}: nothing of {left} has the same text for *", other.path.display()));
    }
    if pairs.is_empty() {
        return Err(format!("no file of {left} has the same text for * as one of {right}"));
    }
    Ok(pairs)
}

fn compare_named(
    session: &Session,
    command: &str,
    left: &str,
    right: &str,
    options: &Options,
    saves: bool,
) -> Reply {
    let mut reply = Reply::default();
    // An NPU tensor is on the left, a TensorFlow one on the right; either may be anywhere.
    let left = find::one_file(session, left, &[DataKind::Decoded, DataKind::TfDump], &mut reply);
    let right = find::one_file(session, right, &[DataKind::TfDump, DataKind::Decoded], &mut reply);
    match (left, right) {
        (Ok(left), Ok(right)) => reply.add(compare_files(session, command, &left, &right, options, saves)),
        (left, right) => {
            let problems = [left.err(), right.err()];
            problems.into_iter().flatten().for_each(|problem| reply.error(format!("{command}: {problem}")));
        }
    }
    reply
}

fn compare_files(
    session: &Session,
    command: &str,
    left: &Path,
    right: &Path,
    options: &Options,
    saves: bool,
) -> Reply {
    let numbers = || -> Result<_, String> {
        let tolerance = Tolerance {
            atol: options.tolerance("-al", TOLERANCE)?,
            rtol: options.tolerance("-rl", TOLERANCE)?,
        };
        Ok((tolerance, options.count("-p", ROWS)?))
    };
    let read = || -> Result<_, String> {
        let (tolerance, rows) = numbers()?;
        let sides = [NamedTensor::read_one(left)?, NamedTensor::read_one(right)?];
        let [target, golden] = &sides;
        let compared = compare_flat(&target.tensor.view(), &golden.tensor.view(), tolerance, rows);
        let compared = compared.map_err(|error| error.to_string())?;
        for side in &sides {
            side.tensor.check().map_err(|error| error.to_string())?;
        }
        Ok((sides, compared, tolerance))
    };
    match read() {
        Ok((sides, compared, tolerance)) => show(session, &sides, &compared, tolerance, saves),
        Err(problem) => Reply::failed(format!("{command}: {problem}")),
    }
}

/// What tensors of different lengths are compared with.
pub(crate) fn unequal_lengths([left, right]: [usize; 2]) -> Option<String> {
    (left != right).then(|| {
        format!("the numbers of elements differ: {left} and {right}; the shorter one continues with zeros")
    })
}

fn show(
    session: &Session,
    sides: &[NamedTensor; 2],
    compared: &FlatComparison,
    tolerance: Tolerance,
    saves: bool,
) -> Reply {
    let mut reply = Reply::default();
    let [left, right] = sides;
    let lengths = [left, right].map(|side| side.tensor.view().len());
    if let Some(note) = unequal_lengths(lengths) {
        reply.warning(note);
    }
    let dtypes = [left, right].map(|side| side.tensor.dtype());
    let table = |title: &str, pairs: &[ElementPair]| {
        let rows: Vec<Vec<String>> = pairs.iter().map(|pair| row(pair, dtypes)).collect();
        heavy_table(title, &COLUMNS, &rows)
    };
    let tables =
        (table("Error Item Table", &compared.first_failing), table("Top Item Table", &compared.first));
    reply.block(&side_by_side(&tables.0, &tables.1));

    let mut lines = Vec::new();
    for ((title, side), stats) in [("Left:", left), ("Right:", right)].into_iter().zip(&compared.stats) {
        lines.push(title.to_owned());
        lines.push(format!(" ├─ NpyFile: {}", side.label()));
        if saves {
            match side.save_text(&session.cancel) {
                Ok(path) => lines.push(format!(" ├─ TxtFile: {}", path.display())),
                Err(error) => reply.warning(format!("the text file was not written: {error}")),
            }
        }
        lines.push(format!(" └─ NpySpec: {}", spec(&side.tensor, stats)));
    }
    let failing = if compared.count == 0 { 0.0 } else { compared.failing as f64 / compared.count as f64 };
    lines.push(format!("NumCnt:   {}", compared.count));
    lines.push(format!("AllClose: {}", if compared.all_close { "True" } else { "False" }));
    lines.push(format!("CosSim:   {}", Digits::Single.float(compared.cosine)));
    lines.push(format!(
        "ErrorPer: {}  (rl= {}, al= {})",
        python_float_repr(failing),
        python_float_repr(tolerance.rtol),
        python_float_repr(tolerance.atol)
    ));
    reply.block(&panel(None, &lines));
    if !compared.all_close {
        reply.ending = Ending::Differs;
    }
    reply
}

/// A row of a table. Narrow floats are shown as float32, as in the older tools; wider ones and integers in full.
fn row(pair: &ElementPair, dtypes: [DType; 2]) -> Vec<String> {
    let digits = |dtype: DType| match Digits::of(dtype) {
        Digits::Double => Digits::Double,
        _ => Digits::Single,
    };
    let [left, right] = dtypes.map(digits);
    let both = if left == Digits::Double { left } else { right };
    let difference = match pair.values {
        [Scalar::Int(left), Scalar::Int(right)] => left.abs_diff(right).to_string(),
        _ => both.float(pair.difference),
    };
    vec![pair.index.to_string(), left.scalar(pair.values[0]), right.scalar(pair.values[1]), difference]
}
