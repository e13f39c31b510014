//! A row of the result: msaccucmp's cells, and what they mean.

use std::fmt;
use std::path::{Path, PathBuf};

use ulpscope_formats::acl::{DumpFile, DumpTensor};
use ulpscope_tensor::DType;

use crate::styles::msaccucmp::{Algorithms, COLUMNS, MISSING};

/// The column of msaccucmp's overflow detection, after the shape.
const OVERFLOW: &str = "OverFlow";

/// What msaccucmp writes if nothing of the framework corresponds to an operator.
pub(super) const NO_COUNTERPART: &str = "*";

/// Inputs or outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Io {
    Input,
    Output,
}

impl Io {
    pub(super) const BOTH: [Io; 2] = [Io::Input, Io::Output];

    pub(super) fn word(self) -> &'static str {
        match self {
            Io::Input => "input",
            Io::Output => "output",
        }
    }

    pub(super) fn of(self, dump: &DumpFile) -> &[DumpTensor] {
        match self {
            Io::Input => &dump.inputs,
            Io::Output => &dump.outputs,
        }
    }
}

/// Which columns a result has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetworkColumns {
    pub(super) has_golden_address: bool,
    pub(super) has_overflow: bool,
}

/// What a row says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowState {
    /// The tensors were compared and agree.
    Agrees,
    /// They were compared and differ.
    Differs,
    /// The operator has no dump file: the device did not dump it.
    NotDumped,
    /// Nothing of the golden corresponds to it.
    Unmatched,
    /// A file cannot be read, or the tensors cannot be compared.
    NotCompared,
}

/// One tensor of an operator, or an operator without a dump file.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkRow {
    /// The number of its group, in order of the graph.
    pub index: usize,
    /// `Conv2D`.
    pub op_type: String,
    /// The operator of the dump.
    pub npu_op: String,
    /// The operators of the framework; none if the compiler added the operator.
    pub ground_truth: Vec<String>,
    /// `input` or `output`, and which; none for an operator without a dump file.
    pub tensor: Option<(&'static str, usize)>,
    /// The tensor of the framework that it was compared with: `LeNet/conv1/Relu:0`.
    pub origin: Option<String>,
    /// The element types of the NPU dump and of the ground truth, if they were compared.
    pub dtypes: [Option<DType>; 2],
    /// The addresses in device memory.
    pub addresses: [Option<u64>; 2],
    /// As it was compared, or as stored.
    pub shape: Option<Vec<usize>>,
    /// Whether a float16 tensor has reached the end of its range.
    pub overflow: Option<bool>,
    /// The files.
    pub paths: [Option<PathBuf>; 2],
    /// The numbers.
    pub measured: Algorithms,
    /// What they mean.
    pub state: RowState,
}

impl NetworkColumns {
    /// The headings.
    pub fn names(self) -> Vec<&'static str> {
        let golden_address = COLUMNS.iter().rposition(|name| *name == "Address");
        let mut names: Vec<&'static str> = COLUMNS
            .iter()
            .enumerate()
            .filter(|(at, _)| self.has_golden_address || Some(*at) != golden_address)
            .map(|(_, name)| *name)
            .collect();
        if self.has_overflow {
            let shape = names.iter().position(|name| *name == "Shape").unwrap_or(0);
            names.insert(shape + 1, OVERFLOW);
        }
        names
    }
}

impl NetworkRow {
    /// `LeNet/conv1/Conv2D:input:0`.
    pub fn label(&self) -> Option<String> {
        self.tensor.map(|(io, at)| format!("{}:{io}:{at}", self.npu_op))
    }

    /// Why there are no numbers, or what they do not say.
    pub fn reason(&self) -> String {
        self.measured.reasons.join(" ")
    }

    /// The cells of a result sheet; the first is the index.
    pub fn cells(&self, columns: NetworkColumns) -> Vec<String> {
        let address = |address: Option<u64>| text(address.filter(|&address| address > 0));
        let mut cells = vec![
            self.index.to_string(),
            self.op_type.clone(),
            self.npu_op.clone(),
            text(self.dtypes[0]),
            address(self.addresses[0]),
            self.ground_truth(),
            text(self.dtypes[1]),
        ];
        if columns.has_golden_address {
            cells.push(address(self.addresses[1]));
        }
        cells.push(text(self.label()));
        let dims = self
            .shape
            .as_ref()
            .map(|shape| format!("[{}]", shape.iter().map(usize::to_string).collect::<Vec<_>>().join(",")));
        cells.push(text(dims));
        if columns.has_overflow {
            cells.push(text(self.overflow.map(|overflow| if overflow { "YES" } else { "NO" })));
        }
        cells.extend(self.measured.values.iter().cloned());
        cells.push(self.reason());
        cells
    }

    /// The headings of msaccucmp's list of pairs.
    pub const MAPPING_COLUMNS: [&'static str; 7] =
        ["Index", "OpType", "NPUDump", "GroundTruth", "TensorIndex", "NPUDumpPath", "GroundTruthPath"];

    /// The cells of msaccucmp's list of pairs.
    pub fn mapping_cells(&self) -> Vec<String> {
        let path = |path: &Option<PathBuf>| text(path.as_deref().map(Path::display));
        vec![
            self.index.to_string(),
            self.op_type.clone(),
            self.npu_op.clone(),
            self.ground_truth(),
            text(self.label()),
            path(&self.paths[0]),
            path(&self.paths[1]),
        ]
    }

    fn ground_truth(&self) -> String {
        if self.ground_truth.is_empty() { NO_COUNTERPART.to_owned() } else { self.ground_truth.join(",") }
    }
}

fn text(value: Option<impl fmt::Display>) -> String {
    value.map_or_else(|| MISSING.to_owned(), |value| value.to_string())
}
