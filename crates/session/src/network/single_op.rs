//! msaccucmp's files of one tensor: its elements, the largest differences, and a summary.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use ulpscope_compare::network::{SingleOp, TensorPlace, TopElement};
use ulpscope_formats::file::{self, Format};
use ulpscope_formats::{Error, Value};

/// Elements in a file.
const ROWS_PER_FILE: usize = 1_000_000;

/// Writes all files of a tensor below a folder.
pub(super) fn write(
    details: &SingleOp,
    place: &TensorPlace,
    rows: usize,
    folder: &Path,
    files: &mut Vec<PathBuf>,
    failures: &mut Vec<String>,
) {
    let io = if place.is_input { "input" } else { "output" };
    let op = details.npu_op.replace(['/', '.'], "_");
    let stem = format!("{op}_{io}_{}", place.number);
    let mut keep = |path: PathBuf, written: Result<(), Error>| match written {
        Ok(()) => files.push(path),
        Err(error) => failures.push(error.in_file(&path).to_string()),
    };
    let array = folder.join(format!("{stem}.npy"));
    let written = file::write(&array, Format::Npy, &Value::Tensor(details.target.clone()));
    keep(array, written);
    let header = format!("Index,{},NPUDump,GroundTruth,AbsoluteError,RelativeError\n", details.axes);
    for start in (0..details.count().max(1)).step_by(ROWS_PER_FILE) {
        let end = (start + ROWS_PER_FILE).min(details.count());
        let path = folder.join(format!("{stem}_{start}.csv"));
        let written = file::write_with(&path, |out| {
            let write = |out: &mut dyn Write| -> io::Result<()> {
                out.write_all(header.as_bytes())?;
                (start..end).try_for_each(|index| {
                    let element = details.element(index);
                    let relative =
                        relative(&element).map_or_else(|| "-".to_owned(), |text| format!("{text}\t"));
                    writeln!(out, "{},{relative}", before_relative(&element))
                })
            };
            write(out).map_err(Error::whole)
        });
        keep(path, written);
    }
    let top = details.top(rows);
    for (name, elements) in ["absolute", "relative"].into_iter().zip(&top) {
        let mut text = header.clone();
        for element in elements {
            let relative = relative(element).unwrap_or_else(|| "-".to_owned());
            let _ = writeln!(text, "{},{relative}\t", before_relative(element));
        }
        let path = folder.join(format!("{stem}_{name}_error_topn.csv"));
        let written = file::write_with(&path, |out| out.write_all(text.as_bytes()).map_err(Error::whole));
        keep(path, written);
    }
    let path = folder.join(format!("{stem}_summary.txt"));
    let text = summary(details);
    let written = file::write_with(&path, |out| out.write_all(text.as_bytes()).map_err(Error::whole));
    keep(path, written);
}

fn before_relative(element: &TopElement) -> String {
    let position: Vec<String> = element.position.iter().map(usize::to_string).collect();
    let [target, golden] = element.values;
    let position = position.join(" ");
    format!("{},{position},{target:.6}\t,{golden:.6}\t,{:.6}\t", element.index, element.absolute)
}

fn relative(element: &TopElement) -> Option<String> {
    element.relative.map(|value| format!("{value:.6}"))
}

fn summary(details: &SingleOp) -> String {
    let mut absolute = [f64::INFINITY, f64::NEG_INFINITY];
    let mut relative = absolute;
    let widen = |range: &mut [f64; 2], value: f64| *range = [range[0].min(value), range[1].max(value)];
    for index in 0..details.count() {
        let element = details.element(index);
        widen(&mut absolute, element.absolute);
        element.relative.into_iter().for_each(|value| widen(&mut relative, value));
    }
    let six = |value: f64| if value.is_finite() { format!("{value:.6}") } else { "-".to_owned() };
    format!(
        "TotalCount:{}\nNPUDump:{}\nGroundTruth:{}\nFormat:{}\nMinAbsoluteError:{}\nMaxAbsoluteError:{}\n\
         MinRelativeError:{}\nMaxRelativeError:{}\n",
        details.count(),
        details.npu_op,
        details.ground_truth,
        details.axes,
        six(absolute[0]),
        six(absolute[1]),
        six(relative[0]),
        six(relative[1]),
    )
}
