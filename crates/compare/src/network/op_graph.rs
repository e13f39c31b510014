//! The graph of a network: which tensor of the framework each output of an operator is.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use ulpscope_formats::acl::{Format, flat_op_name};
use ulpscope_graph::{Attr, Edge, Graph, Op, TensorDesc};

use super::network_error::NetworkError;
use super::npu_dump::NpuDump;

/// Operators that pass on their input: in a different dtype, or in a different layout.
const PASSES_ON: [&str; 2] = ["Cast", "TransData"];

/// Operators that are fused with those of one number run as one.
const L1_GROUP: &str = "_L1_fusion_sub_graph_no";

/// The graphs of one file.
#[derive(Default)]
pub(super) struct OpGraph {
    path: PathBuf,
    graphs: Vec<Graph>,
    /// Where an operator is, by its name in file names.
    by_flat_name: HashMap<String, OpPlace>,
    /// The operator that calls a graph.
    callers: HashMap<String, OpPlace>,
}

/// The place of an operator: which graph, and which operator of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct OpPlace {
    graph: usize,
    op: usize,
}

/// An output of an operator of the framework.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    pub(super) name: String,
    pub(super) output: u32,
    /// The layout that the framework had it in, if the graph says it.
    pub(super) format: Option<Format>,
}

/// What the compiler made of which operators.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Group {
    /// Operators of the framework, by name.
    Original(Vec<String>),
    /// Operators that run as one.
    L1(i64),
}

impl OpGraph {
    /// The graph of a file or folder that has the operators of a dump: of several, the one that has most of them.
    pub(super) fn of_dump(path: &Path, dump: &NpuDump) -> Result<OpGraph, NetworkError> {
        let files = ulpscope_graph::open(path)?;
        if let Some(file) = files.iter().find(|file| file.is_tensorflow) {
            return Err(NetworkError::TensorflowGraph(file.path.clone()));
        }
        let common = |graph: &OpGraph| dump.names().filter(|name| graph.has_flat(name)).count();
        let graphs = files.into_iter().map(|file| OpGraph::of(file.path, file.graphs));
        let mut best: Option<(usize, OpGraph)> = None;
        for graph in graphs {
            let count = common(&graph);
            if best.as_ref().is_none_or(|(most, _)| count > *most) {
                best = Some((count, graph));
            }
        }
        match best {
            Some((count, graph)) if count > 0 => Ok(graph),
            found => {
                let operators = found.map_or(0, |(_, graph)| graph.by_flat_name.len());
                let (graph, dumped) = (path.to_owned(), dump.names().count());
                Err(NetworkError::NotItsGraph { graph, operators, dumped })
            }
        }
    }

    fn of(path: PathBuf, graphs: Vec<Graph>) -> OpGraph {
        let (mut by_flat_name, mut callers) = (HashMap::new(), HashMap::new());
        for (graph, one) in graphs.iter().enumerate() {
            for (op, operator) in one.ops.iter().enumerate() {
                let place = OpPlace { graph, op };
                by_flat_name.entry(flat_op_name(&operator.name)).or_insert(place);
                for name in &operator.subgraphs {
                    callers.entry(name.clone()).or_insert(place);
                }
            }
        }
        OpGraph { path, graphs, by_flat_name, callers }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Every operator, in the order of the file.
    pub(super) fn places(&self) -> impl Iterator<Item = OpPlace> {
        let of_graph =
            |(graph, one): (usize, &Graph)| (0..one.ops.len()).map(move |op| OpPlace { graph, op });
        self.graphs.iter().enumerate().flat_map(of_graph)
    }

    /// The names of all operators.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.graphs.iter().flat_map(|graph| graph.ops.iter().map(|op| op.name.as_str()))
    }

    pub(super) fn has_flat(&self, flat: &str) -> bool {
        self.by_flat_name.contains_key(flat)
    }

    pub(super) fn op(&self, place: OpPlace) -> &Op {
        &self.graphs[place.graph].ops[place.op]
    }

    /// The group of an operator.
    pub(super) fn group(&self, place: OpPlace) -> Group {
        let op = self.op(place);
        if let Some(Attr::Int(number)) = op.attr(L1_GROUP) {
            return Group::L1(*number);
        }
        match op.original_names() {
            Some(names) if !names.is_empty() => Group::Original(names),
            _ => Group::Original(vec![op.name.clone()]),
        }
    }

    /// The tensor of the framework that an operator itself computes.
    pub(super) fn own_origin(&self, place: OpPlace, output: usize) -> Option<Origin> {
        origin(self.op(place), output)
    }

    /// The tensor of the framework that an output is. If `is_there` has none of the name that an operator itself has,
    /// operators that pass on their input are walked through.
    pub(super) fn output_origin(
        &self,
        place: OpPlace,
        output: usize,
        is_there: &dyn Fn(&Origin) -> bool,
    ) -> Option<Origin> {
        let (mut place, mut output) = (place, output);
        let mut first = None;
        // A graph has no cycles; a file may have any.
        for _ in 0..self.by_flat_name.len() {
            let op = self.op(place);
            let own = origin(op, output);
            if let Some(own) = &own
                && is_there(own)
            {
                return Some(own.clone());
            }
            let next = match op.op_type.as_str() {
                kind if PASSES_ON.contains(&kind) => {
                    self.source(place, output).or_else(|| self.source(place, 0))
                }
                _ => self.through_graphs(place, output),
            };
            first = first.or(own);
            let Some(next) = next else { break };
            (place, output) = next;
        }
        first
    }

    /// The same for an input: the output that it comes from.
    pub(super) fn input_origin(
        &self,
        place: OpPlace,
        input: usize,
        is_there: &dyn Fn(&Origin) -> bool,
    ) -> Option<Origin> {
        let (source, output) = self.source(place, input)?;
        self.output_origin(source, output, is_there)
    }

    /// Where the data of an input comes from. Inputs that are not connected have no data and do not count.
    fn source(&self, place: OpPlace, input: usize) -> Option<(OpPlace, usize)> {
        let edge = self.op(place).data_inputs().nth(input)?;
        self.end(place.graph, edge)
    }

    fn end(&self, graph: usize, edge: &Edge) -> Option<(OpPlace, usize)> {
        let output = usize::try_from(edge.index).ok()?;
        // Names repeat in different graphs; an edge stays within one.
        // So do flat names in one: `a/b` and `a_b`.
        let is_source = |place: &&OpPlace| place.graph == graph && self.op(**place).name == edge.source;
        let known = self.by_flat_name.get(&flat_op_name(&edge.source)).filter(is_source);
        let op = match known {
            Some(place) => place.op,
            None => self.graphs[graph].ops.iter().position(|op| op.name == edge.source)?,
        };
        Some((OpPlace { graph, op }, output))
    }

    /// From the input of a called graph to what the caller passes, and from a call to the output of its graph.
    fn through_graphs(&self, place: OpPlace, output: usize) -> Option<(OpPlace, usize)> {
        let op = self.op(place);
        if let Some(Attr::Int(input)) = op.attr("_parent_node_index").filter(|_| op.op_type == "Data") {
            let &caller = self.callers.get(&self.graphs[place.graph].name)?;
            return self.source(caller, usize::try_from(*input).ok()?);
        }
        let called = op.subgraphs.first()?;
        let graph = self.graphs.iter().position(|graph| graph.name == *called)?;
        let last = self.graphs[graph].ops.iter().position(|op| op.op_type == "NetOutput")?;
        self.source(OpPlace { graph, op: last }, output)
    }
}

/// The tensor of the framework that an output says it is; nothing for an output of an operator that the compiler added,
/// or of an inner operator of a group.
fn origin(op: &Op, output: usize) -> Option<Origin> {
    let desc = op.output_descs.get(output);
    let named = desc.and_then(|desc| desc.attr("_datadump_origin_name")).map(Attr::to_string);
    let index = desc.and_then(|desc| desc.attr("_datadump_origin_output_index"));
    let index = match index {
        Some(Attr::Int(index)) => u32::try_from(*index).ok()?,
        _ => u32::try_from(output).ok()?,
    };
    let name = match (named.filter(|name| !name.is_empty()), op.original_names().as_deref()) {
        (Some(name), _) => name,
        (None, None) => op.name.clone(),
        (None, Some([one])) => one.clone(),
        (None, Some(_)) => return None,
    };
    Some(Origin { name, output: index, format: desc.and_then(origin_format) })
}

/// The layout that the framework had a tensor in.
pub(super) fn origin_format(desc: &TensorDesc) -> Option<Format> {
    let named = |name: &str| desc.attr(name).and_then(|attr| Format::from_name(&attr.to_string()));
    named("_datadump_origin_format").or_else(|| named("origin_format"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn op(name: &str, inputs: &[(&str, i64)], outputs: Vec<TensorDesc>) -> Op {
        let edge = |&(source, index): &(&str, i64)| Edge { source: source.to_owned(), index };
        Op {
            name: name.to_owned(),
            op_type: "Relu".to_owned(),
            inputs: inputs.iter().map(edge).collect(),
            output_descs: outputs,
            ..Op::default()
        }
    }

    fn graph(ops: Vec<Op>) -> OpGraph {
        OpGraph::of(PathBuf::new(), vec![Graph { ops, ..Graph::default() }])
    }

    fn named(name: &str) -> TensorDesc {
        let attrs = vec![
            ("_datadump_origin_name".into(), Attr::Text(name.to_owned())),
            ("_datadump_origin_output_index".into(), Attr::Int(0)),
        ];
        TensorDesc { attrs, ..TensorDesc::default() }
    }

    #[test]
    fn names_that_are_equal_in_file_names_are_different_operators() {
        let ops = vec![op("a/b", &[], vec![named("first")]), op("a_b", &[], vec![named("second")])];
        let graph = graph([ops, vec![op("c", &[("a_b", 0), ("a/b", 0)], vec![])]].concat());
        let origin = |input| graph.input_origin(OpPlace { graph: 0, op: 2 }, input, &|_| true);
        assert_eq!(origin(0).map(|origin| origin.name).as_deref(), Some("second"));
        assert_eq!(origin(1).map(|origin| origin.name).as_deref(), Some("first"));
    }

    #[test]
    fn an_output_without_a_description_is_not_the_first() {
        let graph = graph(vec![op("split", &[], vec![named("framework/split")])]);
        let origin = graph.own_origin(OpPlace { graph: 0, op: 0 }, 1);
        let expected = Origin { name: "split".to_owned(), output: 1, format: None };
        assert_eq!(origin, Some(expected));
    }
}
