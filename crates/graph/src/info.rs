//! Operators by name and type, and everything about one of them.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::model::{Attr, Graph, Op, TensorDesc};

/// Which operators: every text that is not empty has to be part of theirs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpFilter {
    /// Of the name.
    pub name: String,
    /// Of the type.
    pub op_type: String,
    /// Of a fusion pass.
    pub fusion: String,
    /// Of the kernel.
    pub kernel: String,
}

/// The operators that pass, in the order of the file.
pub fn list<'a>(graph: &'a Graph, filter: &OpFilter) -> Vec<&'a Op> {
    let passes = |op: &&Op| {
        op.name.contains(&filter.name)
            && op.op_type.contains(&filter.op_type)
            && (filter.fusion.is_empty() || op.pass_names().iter().any(|pass| pass.contains(&filter.fusion)))
            && (filter.kernel.is_empty()
                || op.kernel_name().is_some_and(|name| name.contains(&filter.kernel)))
    };
    graph.ops.iter().filter(passes).collect()
}

/// How many operators there are of each type, by type.
pub fn type_counts(graph: &Graph) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    for op in &graph.ops {
        *counts.entry(op.op_type.as_str()).or_default() += 1;
    }
    counts
}

/// The operators of a name: the one that has exactly this name, or else all that contain it. `_` stands for `/` and `.`
/// as in the names of files.
pub fn find_ops<'a>(graph: &'a Graph, name: &str) -> Vec<&'a Op> {
    let flat = |op: &str| op.replace(['/', '.'], "_");
    let exact: Vec<&Op> = graph.ops.iter().filter(|op| op.name == name).collect();
    if !exact.is_empty() {
        return exact;
    }
    let same: Vec<&Op> = graph.ops.iter().filter(|op| flat(&op.name) == name).collect();
    if !same.is_empty() {
        return same;
    }
    graph.ops.iter().filter(|op| op.name.contains(name) || flat(&op.name).contains(name)).collect()
}

/// Everything about an operator.
#[derive(Clone, Debug, Serialize)]
pub struct OpInfo {
    /// Its name.
    pub name: String,
    /// Its type.
    #[serde(rename = "type")]
    pub op_type: String,
    /// Its number.
    pub id: i64,
    /// The graph that it is in.
    pub graph: String,
    /// The name of its kernel.
    pub kernel: Option<String>,
    /// The fusion passes that made it.
    pub passes: Vec<String>,
    /// The operators of the framework that it computes.
    pub original_ops: Vec<String>,
    /// Its inputs.
    pub inputs: Vec<TensorInfo>,
    /// Its outputs.
    pub outputs: Vec<TensorInfo>,
    /// The operators that have to run before it.
    pub control_inputs: Vec<String>,
    /// Its attributes, by name.
    pub attributes: BTreeMap<String, Attr>,
}

/// An input or output.
#[derive(Clone, Debug, Serialize)]
pub struct TensorInfo {
    /// `DT_FLOAT16`.
    pub dtype: String,
    /// `NC1HWC0`.
    pub layout: String,
    /// Dimensions.
    pub shape: Vec<i64>,
    /// Dimensions in the framework.
    pub origin_shape: Option<Attr>,
    /// The order of axes in the framework.
    pub origin_format: Option<Attr>,
    /// The limits of its values, if known.
    pub value_range: Option<Attr>,
    /// The limits of its dimensions, if known.
    pub shape_range: Option<Attr>,
    /// For an input, the output that it comes from.
    pub source: Option<Consumer>,
    /// For an output, the inputs that it goes to.
    pub consumers: Vec<Consumer>,
}

/// One end of an edge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Consumer {
    /// The operator.
    pub op: String,
    /// Which of its inputs or outputs.
    pub index: i64,
}

/// Everything about an operator of a graph.
pub fn info(graph: &Graph, op: &Op) -> OpInfo {
    let data: Vec<_> = op.inputs.iter().filter(|edge| !edge.is_control()).collect();
    let count = data.len().max(op.input_descs.len());
    let empty = TensorDesc::default();
    let inputs = (0..count).map(|at| {
        let edge = data.get(at).filter(|edge| !edge.source.is_empty());
        let source = edge.map(|edge| Consumer { op: edge.source.clone(), index: edge.index });
        TensorInfo { source, ..tensor(op.input_descs.get(at).unwrap_or(&empty)) }
    });
    let outputs = op.output_descs.iter().enumerate().map(|(at, desc)| {
        let consumers = consumers(graph, op, at as i64);
        TensorInfo { consumers, ..tensor(desc) }
    });
    OpInfo {
        name: op.name.clone(),
        op_type: op.op_type.clone(),
        id: op.id,
        graph: graph.name.clone(),
        kernel: op.kernel_name(),
        passes: op.pass_names(),
        original_ops: op.original_names().unwrap_or_default(),
        inputs: inputs.collect(),
        outputs: outputs.collect(),
        control_inputs: op
            .inputs
            .iter()
            .filter(|edge| edge.is_control())
            .map(|edge| edge.source.clone())
            .collect(),
        attributes: op.attrs.iter().map(|(key, value)| (key.to_string(), value.clone())).collect(),
    }
}

/// Edges are those of inputs: what the file says of destinations does not name every output.
fn consumers(graph: &Graph, op: &Op, output: i64) -> Vec<Consumer> {
    let mut found = Vec::new();
    for consumer in &graph.ops {
        for (at, edge) in consumer.inputs.iter().filter(|edge| !edge.is_control()).enumerate() {
            if edge.source == op.name && edge.index == output {
                found.push(Consumer { op: consumer.name.clone(), index: at as i64 });
            }
        }
    }
    found
}

fn tensor(desc: &TensorDesc) -> TensorInfo {
    let attr = |name: &str| desc.attr(name).cloned();
    TensorInfo {
        dtype: desc.dtype.to_string(),
        layout: desc.layout.to_string(),
        shape: desc.shape.clone(),
        origin_shape: attr("origin_shape"),
        origin_format: attr("origin_format"),
        value_range: attr("value_range"),
        shape_range: attr("shape_range"),
        source: None,
        consumers: Vec::new(),
    }
}
