//! The trusted side: tensors of TensorFlow by name, or those of a second NPU dump by operator.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use ulpscope_dump::{Content, Rank, Tool, read_operator_file};
use ulpscope_formats::Tensor;
use ulpscope_formats::acl::{DumpTensor, flat_op_name};

use super::network_error::NetworkError;
use super::npu_dump::NpuDump;
use super::op_graph::{OpGraph, OpPlace, Origin, origin_format};
use super::row::Io;

/// Where a tensor is: the number of its call, and which entry of that.
type EntryPlace = (usize, usize);

/// The trusted side.
pub(super) enum Golden {
    /// What TensorFlow dumped.
    Tensorflow(TfGolden),
    /// A second NPU dump.
    Npu(NpuGolden),
}

pub(super) struct TfGolden {
    rank: Rank,
    /// The executions of an output, in order, by name and number.
    tensors: HashMap<(String, u32), Vec<EntryPlace>>,
    /// Operators that read a variable, by the name of the variable.
    readers: HashMap<String, Vec<String>>,
}

pub(super) struct NpuGolden {
    dump: NpuDump,
    /// The outputs of its own graph by the tensor of the framework that they are; empty if it is paired by operator.
    by_origin: HashMap<(String, u32), (OpPlace, usize)>,
    graph: OpGraph,
}

/// A tensor that was found.
pub(super) struct GoldenTensor {
    pub(super) path: PathBuf,
    pub(super) elements: Elements,
}

/// The elements of a tensor that was found.
pub(super) enum Elements {
    /// In the layout of the framework.
    Plain(Tensor),
    /// In the layout of the device, and the layout of its original shape.
    Stored(DumpTensor, Option<ulpscope_formats::acl::Format>),
    /// It cannot be read, for a reason.
    Unread(String),
}

impl Golden {
    pub(super) fn of(rank: Rank, graph: Option<&Path>) -> Result<Golden, NetworkError> {
        match rank.tool {
            Tool::Tensorflow => TfGolden::of(rank, graph).map(Golden::Tensorflow),
            Tool::Acl => NpuGolden::of(rank, graph).map(Golden::Npu),
            _ => Err(NetworkError::NotAGolden { path: rank.path.clone(), found: rank.describe() }),
        }
    }

    pub(super) fn is_npu(&self) -> bool {
        matches!(self, Golden::Npu(_))
    }
}

impl TfGolden {
    fn of(rank: Rank, graph: Option<&Path>) -> Result<TfGolden, NetworkError> {
        let readers = match graph {
            Some(path) => variable_readers(&ulpscope_graph::open(path)?),
            // The debugger writes the graph of a run beside its tensors. Without one, variables have no values.
            None => {
                ulpscope_graph::open(&rank.path).map(|files| variable_readers(&files)).unwrap_or_default()
            }
        };
        let mut tensors: HashMap<(String, u32), Vec<EntryPlace>> = HashMap::new();
        for call in 0..rank.calls().len() {
            let node = flat_op_name(rank.base(rank.calls()[call].base));
            for (at, entry) in rank.entries(call)?.iter().enumerate() {
                if let Ok(output) = entry.path.parse() {
                    tensors.entry((node.clone(), output)).or_default().push((call, at));
                }
            }
        }
        Ok(TfGolden { rank, tensors, readers })
    }

    fn key(origin: &Origin) -> (String, u32) {
        (flat_op_name(&origin.name), origin.output)
    }

    pub(super) fn has(&self, origin: &Origin) -> bool {
        self.tensors.contains_key(&TfGolden::key(origin))
    }

    /// The tensor of an execution: none if there were fewer, since a different execution has different values. The tensor of
    /// a variable is a handle: its value is what an operator read from it.
    pub(super) fn find(&self, origin: &Origin, execution: usize) -> Option<GoldenTensor> {
        let own = self.find_key(&TfGolden::key(origin), execution);
        let is_read = |found: &GoldenTensor| !matches!(found.elements, Elements::Unread(_));
        if own.as_ref().is_some_and(is_read) {
            return own;
        }
        let readers = self.readers.get(&flat_op_name(&origin.name)).filter(|_| origin.output == 0);
        let mut values = readers.into_iter().flatten().map(|reader| (reader.clone(), 0));
        values.find_map(|key| self.find_key(&key, execution).filter(is_read)).or(own)
    }

    fn find_key(&self, key: &(String, u32), execution: usize) -> Option<GoldenTensor> {
        let places = self.tensors.get(key)?;
        let &(call, at) = places.get(execution)?;
        let path = self.rank.entry_file(call, at).unwrap_or_else(|| self.rank.path.clone());
        let read = || {
            let entries = self.rank.entries(call).map_err(|error| error.to_string())?;
            let Some(Content::Tensor(entry)) = entries.get(at).map(|entry| &entry.content) else {
                return Err(
                    "it is the handle of a variable; name TensorFlow's graph with --golden-graph".to_owned()
                );
            };
            let tensor = self.rank.tensor(entry).map_err(|error| error.to_string())?;
            tensor.ok_or_else(|| "it has no elements".to_owned())
        };
        let elements = read().map_or_else(Elements::Unread, Elements::Plain);
        Some(GoldenTensor { path, elements })
    }
}

/// The operators that read each variable, as file names have them.
fn variable_readers(files: &[ulpscope_graph::GraphFile]) -> HashMap<String, Vec<String>> {
    let mut readers: HashMap<String, Vec<String>> = HashMap::new();
    let ops = files.iter().flat_map(|file| &file.graphs).flat_map(|graph| &graph.ops);
    // The debugger puts copies between operators.
    let copied: HashMap<&str, &str> = ops
        .clone()
        .filter(|op| ["Copy", "CopyHost"].contains(&op.op_type.as_str()))
        .filter_map(|op| Some((op.name.as_str(), op.data_inputs().next()?.source.as_str())))
        .collect();
    for op in ops.filter(|op| op.op_type == "ReadVariableOp") {
        if let Some(edge) = op.data_inputs().next() {
            let variable = copied.get(edge.source.as_str()).copied().unwrap_or(&edge.source);
            readers.entry(flat_op_name(variable)).or_default().push(flat_op_name(&op.name));
        }
    }
    readers
}

impl NpuGolden {
    fn of(rank: Rank, graph: Option<&Path>) -> Result<NpuGolden, NetworkError> {
        let dump = NpuDump::of(rank);
        let graph = graph.map(|path| OpGraph::of_dump(path, &dump)).transpose()?.unwrap_or_default();
        let mut by_origin = HashMap::new();
        for place in graph.places() {
            for output in 0..graph.op(place).output_descs.len() {
                // The operator that computed a tensor, and not one that passes it on.
                let own = graph.own_origin(place, output);
                if let Some(origin) = own.filter(|_| dump.has(&graph.op(place).name)) {
                    by_origin.entry(TfGolden::key(&origin)).or_insert((place, output));
                }
            }
        }
        Ok(NpuGolden { dump, by_origin, graph })
    }

    /// Whether its tensors are found through its own graph.
    pub(super) fn has_graph(&self) -> bool {
        !self.by_origin.is_empty()
    }

    pub(super) fn has(&self, origin: &Origin) -> bool {
        self.by_origin.contains_key(&TfGolden::key(origin))
    }

    /// The output that is a tensor of the framework.
    pub(super) fn find(&self, origin: &Origin, execution: usize) -> Option<GoldenTensor> {
        let &(place, output) = self.by_origin.get(&TfGolden::key(origin))?;
        let op = self.graph.op(place);
        let format = op.output_descs.get(output).and_then(origin_format);
        self.stored(&flat_op_name(&op.name), Io::Output, output, execution, format)
    }

    /// The same input or output of the same operator.
    pub(super) fn same(&self, flat: &str, io: Io, at: usize, execution: usize) -> Option<GoldenTensor> {
        self.stored(flat, io, at, execution, None)
    }

    fn stored(
        &self,
        flat: &str,
        io: Io,
        at: usize,
        execution: usize,
        format: Option<ulpscope_formats::acl::Format>,
    ) -> Option<GoldenTensor> {
        let files = self.dump.files(flat);
        let path = files.get(execution)?.clone();
        let elements = match read_operator_file(&path) {
            Ok(dump) => match io.of(&dump).get(at) {
                Some(tensor) => Elements::Stored(tensor.clone(), format),
                None => return None,
            },
            Err(error) => Elements::Unread(error.to_string()),
        };
        Some(GoldenTensor { path, elements })
    }
}
