//! An operator, and its rows.

use std::collections::HashMap;
use std::path::Path;

use ulpscope_dump::read_operator_file;
use ulpscope_formats::acl::{DumpFile, DumpTensor, Format, flat_op_name};
use ulpscope_kernels::{Threads, stats};
use ulpscope_tensor::{DType, Scalar};

use super::Network;
use super::golden::{Elements, Golden, GoldenTensor};
use super::npu_dump::NpuDump;
use super::op_graph::{Group, OpGraph, OpPlace, Origin, origin_format};
use super::pairs::{self, Stored};
use super::row::{Io, NetworkRow, RowState};
use crate::styles::msaccucmp::{self, Algorithms};

/// The largest float16.
const FLOAT16_MAX: f64 = 65504.0;

/// One operator of the graph or of the dump.
pub(super) struct Unit {
    pub(super) index: usize,
    /// Its place in the graph; none if only the dump has it.
    pub(super) place: Option<OpPlace>,
    pub(super) name: String,
    pub(super) flat: String,
    pub(super) op_type: String,
    pub(super) ground_truth: Vec<String>,
    /// Of operators that run as one, the first has the inputs and the last has the outputs.
    has: [bool; 2],
}

/// The operators in the order of their groups. Those that only the dump has come last.
pub(super) fn units(graph: &OpGraph, dump: &NpuDump) -> Vec<Unit> {
    let mut numbers: HashMap<Group, usize> = HashMap::new();
    let ends = l1_ends(graph, dump);
    let mut units: Vec<Unit> = Vec::new();
    for place in graph.places() {
        let (op, group) = (graph.op(place), graph.group(place));
        let has = match ends.get(&group) {
            Some((first, last)) => [*first == place, *last == place],
            None => [true, true],
        };
        let count = numbers.len();
        let index = *numbers.entry(group).or_insert(count);
        if has == [false, false] {
            continue;
        }
        let ground_truth = op.original_names().unwrap_or_else(|| vec![op.name.clone()]);
        units.push(Unit {
            index,
            place: Some(place),
            name: op.name.clone(),
            flat: flat_op_name(&op.name),
            op_type: op.op_type.clone(),
            ground_truth,
            has,
        });
    }
    units.sort_by_key(|unit| unit.index);
    for flat in dump.names().filter(|name| !graph.has_flat(name)) {
        units.push(Unit {
            index: numbers.len() + units.iter().filter(|unit| unit.place.is_none()).count(),
            place: None,
            name: flat.to_owned(),
            flat: flat.to_owned(),
            op_type: dump.op_type(flat).unwrap_or_default().to_owned(),
            ground_truth: Vec::new(),
            has: [true, true],
        });
    }
    units
}

/// The first and the last operator of those that run as one, by time.
fn l1_ends(graph: &OpGraph, dump: &NpuDump) -> HashMap<Group, (OpPlace, OpPlace)> {
    let mut ends: HashMap<Group, [(u64, OpPlace); 2]> = HashMap::new();
    for place in graph.places() {
        let group @ Group::L1(_) = graph.group(place) else { continue };
        let Some(time) = dump.time(&flat_op_name(&graph.op(place).name)) else { continue };
        let one = ends.entry(group).or_insert([(time, place); 2]);
        if time < one[0].0 {
            one[0] = (time, place);
        }
        if time > one[1].0 {
            one[1] = (time, place);
        }
    }
    ends.into_iter().map(|(group, [first, last])| (group, (first.1, last.1))).collect()
}

/// What a tensor is compared with.
pub(super) struct Counterpart {
    /// `LeNet/conv1/Relu:0`.
    pub(super) origin: Option<String>,
    pub(super) format: Option<Format>,
    pub(super) found: Option<GoldenTensor>,
    /// Which execution of the operator it is of.
    pub(super) execution: usize,
}

impl Network {
    /// The rows of an operator: one for each tensor of each execution.
    pub(super) fn rows(&self, unit: &Unit) -> Vec<NetworkRow> {
        let files = self.npu.files(&unit.flat);
        if files.is_empty() {
            let name = &unit.name;
            let reason = format!(
                "[{name}] There is no dump file for my output operator \"{name}\". The type is {}.",
                unit.op_type
            );
            return vec![unit.row(RowState::NotDumped, Algorithms::none(reason))];
        }
        let mut rows = Vec::new();
        for (execution, path) in files.iter().enumerate() {
            match read_operator_file(path) {
                Ok(dump) => rows.extend(self.rows_of(unit, &dump, path, execution)),
                Err(error) => {
                    let reason = format!(
                        "[{}] The dump file of my output operator cannot be read: {error}.",
                        unit.name
                    );
                    let mut row = unit.row(RowState::NotCompared, Algorithms::none(reason));
                    row.paths[0] = Some(path.clone());
                    rows.push(row);
                }
            }
        }
        rows
    }

    fn rows_of(&self, unit: &Unit, dump: &DumpFile, path: &Path, execution: usize) -> Vec<NetworkRow> {
        let mut rows = Vec::new();
        for (io, _) in Io::BOTH.into_iter().zip(unit.has).filter(|(_, has)| *has) {
            for (at, tensor) in io.of(dump).iter().enumerate() {
                let counterpart = self.counterpart(unit, io, at, tensor, execution);
                let mut row = self.row(unit, io, at, tensor, counterpart);
                row.paths[0] = Some(path.to_owned());
                rows.push(row);
            }
        }
        rows
    }

    /// The tensor of the golden for one of the dump.
    pub(super) fn counterpart(
        &self,
        unit: &Unit,
        io: Io,
        at: usize,
        tensor: &DumpTensor,
        execution: usize,
    ) -> Counterpart {
        let is_there = |origin: &Origin| match &self.golden {
            Golden::Tensorflow(golden) => golden.has(origin),
            Golden::Npu(golden) => golden.has(origin),
        };
        let origin = match (unit.place, io) {
            (Some(place), Io::Input) => self.graph.input_origin(place, at, &is_there),
            (Some(place), Io::Output) => self.graph.output_origin(place, at, &is_there),
            (None, _) => header_origin(tensor).filter(|_| io == Io::Output),
        };
        let found = match &self.golden {
            Golden::Tensorflow(golden) => origin.as_ref().and_then(|origin| golden.find(origin, execution)),
            Golden::Npu(golden) if golden.has_graph() => {
                origin.as_ref().and_then(|origin| golden.find(origin, execution))
            }
            Golden::Npu(golden) => golden.same(&unit.flat, io, at, execution),
        };
        Counterpart {
            execution,
            format: origin.as_ref().and_then(|origin| origin.format),
            origin: origin.map(|origin| format!("{}:{}", origin.name, origin.output)),
            found,
        }
    }

    fn row(
        &self,
        unit: &Unit,
        io: Io,
        at: usize,
        tensor: &DumpTensor,
        counterpart: Counterpart,
    ) -> NetworkRow {
        let Counterpart { origin, format, found, execution } = counterpart;
        let label = format!("{}:{}:{at}", unit.name, io.word());
        let mut row = unit.row(RowState::Unmatched, Algorithms::none(String::new()));
        row.tensor = Some((io.word(), at));
        row.addresses[0] = Some(tensor.address);
        row.shape = tensor.shape.iter().map(|&dim| usize::try_from(dim).ok()).collect();
        row.overflow = overflow(tensor);
        row.origin.clone_from(&origin);
        let Some(found) = found else {
            let looked_for = match (&origin, self.golden.is_npu()) {
                (Some(origin), _) => format!(" Looked for {origin}."),
                (None, true) => String::new(),
                (None, false) => " The graph names no tensor of the framework for it.".to_owned(),
            };
            let name = &unit.name;
            let repeated = match execution {
                0 => String::new(),
                earlier => format!(" It is of execution {} of the operator.", earlier + 1),
            };
            let reason =
                format!("[{name}] There is no the ground truth dump file for {label}.{looked_for}{repeated}");
            row.measured = Algorithms::none(reason);
            return row;
        };
        row.paths[1] = Some(found.path.clone());
        if let Elements::Stored(golden, _) = &found.elements {
            row.addresses[1] = Some(golden.address);
        }
        let stored = Stored { tensor, origin: self.origin_of(unit, io, at) };
        match pairs::pair(&stored, found.elements, format) {
            Ok(pair) => {
                let files = [&unit.name, origin.as_ref().unwrap_or(&unit.name)];
                row.measured = msaccucmp::measure(&pair.target, &pair.golden, files.map(String::as_str));
                row.measured.reasons.extend(pair.unsure);
                row.dtypes = [Some(pair.target.dtype()), Some(pair.golden.dtype())];
                row.shape = Some(pair.shape);
                let differs = row.measured.nearness.differs(self.min_cosine);
                row.state = if differs { RowState::Differs } else { RowState::Agrees };
            }
            Err(reason) => {
                row.measured = Algorithms::none(format!("[{}] {reason}", unit.name));
                row.state = RowState::NotCompared;
            }
        }
        row
    }

    /// The layout of a tensor's original shape, as the graph says it.
    pub(super) fn origin_of(&self, unit: &Unit, io: Io, at: usize) -> Option<Format> {
        let op = self.graph.op(unit.place?);
        let descs = match io {
            Io::Input => &op.input_descs,
            Io::Output => &op.output_descs,
        };
        descs.get(at).and_then(origin_format)
    }
}

impl Unit {
    fn row(&self, state: RowState, measured: Algorithms) -> NetworkRow {
        NetworkRow {
            index: self.index,
            op_type: self.op_type.clone(),
            npu_op: self.name.clone(),
            ground_truth: self.ground_truth.clone(),
            tensor: None,
            origin: None,
            dtypes: [None, None],
            addresses: [None, None],
            shape: None,
            overflow: None,
            paths: [None, None],
            measured,
            state,
        }
    }
}

/// The tensor of the framework that the header of a dump file names.
fn header_origin(tensor: &DumpTensor) -> Option<Origin> {
    let op = tensor.original_op.as_ref().filter(|op| !op.name.is_empty())?;
    Some(Origin { name: op.name.clone(), output: op.output_index, format: Some(op.format) })
}

/// Whether a float16 tensor has reached the end of its range.
fn overflow(tensor: &DumpTensor) -> Option<bool> {
    let elements = tensor.tensor().ok().filter(|tensor| tensor.dtype() == DType::F16)?;
    let stats = stats(&elements.view(), Threads::One);
    let reaches = |value: Option<Scalar>| value.is_some_and(|value| value.to_f64().abs() >= FLOAT16_MAX);
    Some(stats.pos_inf + stats.neg_inf > 0 || reaches(stats.finite_max) || reaches(stats.finite_min))
}
