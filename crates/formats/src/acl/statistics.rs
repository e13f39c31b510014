//! The file of statistics that a device writes instead of elements, one line for each tensor:
//! `Conv2D.conv.14.5.1767261601009597.csv`.
//!
//! Columns are found by name: which statistics there are, and in which order, is a setting of the dump.

use super::MAX_ENTRIES;
use super::data_type::DataType;
use crate::bytes::Bytes;
use crate::error::{Error, Fault, Place, shortened};
use crate::tensor::MAX_RANK;

/// More columns than any version writes.
const MAX_COLUMNS: usize = 64;

/// The statistics of one tensor. Those without a column, or without a number in it, are missing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TensorStatistics {
    /// Whether it is an input; otherwise it is an output.
    pub is_input: bool,
    /// Its number among them.
    pub index: u64,
    /// What an element is, if the name is known.
    pub data_type: Option<DataType>,
    /// The name of the layout.
    pub format: String,
    /// Dimensions in memory.
    pub shape: Option<Vec<u64>>,
    /// The largest element.
    pub max: Option<f64>,
    /// The smallest.
    pub min: Option<f64>,
    /// The mean.
    pub mean: Option<f64>,
    /// How many elements there are.
    pub count: Option<u64>,
    /// How many are NaN.
    pub nan: Option<u64>,
    /// How many are infinite, of either sign.
    pub inf: Option<u64>,
}

/// Reads a file of statistics.
pub fn read_statistics(bytes: &Bytes) -> Result<Vec<TensorStatistics>, Error> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let fault = Fault::malformed("text in UTF-8", "other bytes");
        Error::at(Place::Byte(error.valid_up_to() as u64), fault)
    })?;
    let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let header: Vec<&str> = match lines.next() {
        Some((_, header)) => header.split(',').map(str::trim).take(MAX_COLUMNS).collect(),
        None => return Err(Error::whole(Fault::malformed("a line of column names", "an empty file"))),
    };
    for needed in ["Input/Output", "Index"] {
        if !header.contains(&needed) {
            let found = format!("{:?}", shortened(&header.join(",")));
            let fault = Fault::malformed(format!("a column {needed} of ACL statistics"), found);
            return Err(Error::at(Place::Line(1), fault));
        }
    }
    let mut tensors = Vec::new();
    for (at, line) in lines {
        let wrong = |fault: Fault| Error::at(Place::Line(at as u64 + 1), fault);
        if tensors.len() == MAX_ENTRIES {
            let (limit, found) = (MAX_ENTRIES as u64, MAX_ENTRIES as u64 + 1);
            return Err(wrong(Fault::TooLarge { what: "number of tensors", limit, found }));
        }
        let cells: Vec<&str> = line.split(',').map(str::trim).take(MAX_COLUMNS).collect();
        tensors.push(row(&header, &cells).map_err(wrong)?);
    }
    Ok(tensors)
}

fn row(header: &[&str], cells: &[&str]) -> Result<TensorStatistics, Fault> {
    let cell = |name: &str| {
        let at = header.iter().position(|column| *column == name)?;
        cells.get(at).copied().filter(|text| !text.is_empty())
    };
    let is_input = match cell("Input/Output").unwrap_or_default().to_ascii_lowercase().as_str() {
        "input" => true,
        "output" => false,
        other => return Err(Fault::malformed("Input or Output", format!("{:?}", shortened(other)))),
    };
    let index = cell("Index").unwrap_or_default();
    let index = index
        .parse()
        .map_err(|_| Fault::malformed("the number of a tensor", format!("{:?}", shortened(index))))?;
    let number = |name: &str| cell(name)?.parse::<f64>().ok();
    let count = |name: &str| cell(name)?.parse::<u64>().ok();
    let infinite = [count("Negative Inf Count"), count("Positive Inf Count")];
    let inf = infinite.iter().flatten().try_fold(0u64, |sum, &one| sum.checked_add(one));
    Ok(TensorStatistics {
        is_input,
        index,
        data_type: cell("Data Type").and_then(DataType::from_name),
        format: cell("Format").unwrap_or_default().to_owned(),
        shape: cell("Shape").map(dimensions).unwrap_or(Some(Vec::new())),
        max: number("Max Value"),
        min: number("Min Value"),
        mean: number("Avg Value"),
        count: count("Count"),
        nan: count("Nan Count"),
        inf: inf.filter(|_| infinite.iter().any(Option::is_some)),
    })
}

/// `4x50x50x16`.
fn dimensions(text: &str) -> Option<Vec<u64>> {
    let dims: Option<Vec<u64>> =
        text.split('x').take(MAX_RANK + 1).map(|dim| dim.trim().parse().ok()).collect();
    dims.filter(|dims| dims.len() <= MAX_RANK)
}
