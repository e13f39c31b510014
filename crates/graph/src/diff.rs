//! Where graphs differ: operators that only one has, and dtypes or layouts of the same tensor.

use std::collections::HashMap;

use serde::Serialize;

use crate::model::{Graph, Op};

/// Operators that compilers add, move and remove.
const IGNORED: [&str; 10] = [
    "TransData",
    "Cast",
    "Recv",
    "Send",
    "Variable",
    "NetOutput",
    "NoOp",
    "Assign",
    "Constant",
    "StreamActive",
];

/// How two graphs differ.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GraphDiff {
    /// Operators of both that are compared.
    pub compared: usize,
    /// Those that differ.
    pub different: Vec<OpDifference>,
    /// Operators that only the first graph has, by name.
    pub only_left: Vec<String>,
    /// Operators that only the second graph has, by name.
    pub only_right: Vec<String>,
    /// Graphs that were compared.
    pub graphs: usize,
    /// Graphs that only the first side has, by name.
    pub only_left_graphs: Vec<String>,
    /// Graphs that only the second side has, by name.
    pub only_right_graphs: Vec<String>,
}

impl GraphDiff {
    /// Whether nothing differs.
    pub fn is_same(&self) -> bool {
        self.different.is_empty()
            && [&self.only_left, &self.only_right, &self.only_left_graphs, &self.only_right_graphs]
                .iter()
                .all(|names| names.is_empty())
    }
}

/// How an operator differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OpDifference {
    /// Its name.
    pub op: String,
    /// One line for each difference.
    pub differences: Vec<String>,
}

/// Whether two graphs belong together.
type Rule = fn(&Graph, &Graph) -> bool;

/// Compares the graphs of two runs. Graphs of one session and number belong together: names have times in them. Those
/// without are paired by name, and the rest in order.
pub fn diff_all(left: &[Graph], right: &[Graph]) -> GraphDiff {
    let mut free: Vec<&Graph> = right.iter().collect();
    let mut pairs: Vec<(&Graph, Option<&Graph>)> = left.iter().map(|graph| (graph, None)).collect();
    let by_id = |one: &Graph, other: &Graph| {
        one.session_graph_id.is_some() && one.session_graph_id == other.session_graph_id
    };
    let by_name = |one: &Graph, other: &Graph| one.name == other.name;
    let in_order =
        |one: &Graph, other: &Graph| one.session_graph_id.is_none() || other.session_graph_id.is_none();
    let rules: [Rule; 3] = [by_id, by_name, in_order];
    for belongs in rules {
        for (graph, partner) in pairs.iter_mut().filter(|(_, partner)| partner.is_none()) {
            if let Some(at) = free.iter().position(|other| belongs(graph, other)) {
                *partner = Some(free.remove(at));
            }
        }
    }
    let mut all = GraphDiff::default();
    for (graph, partner) in pairs {
        let Some(partner) = partner else {
            all.only_left_graphs.push(graph.name.clone());
            continue;
        };
        let found = diff(graph, partner);
        all.graphs += 1;
        all.compared += found.compared;
        all.different.extend(found.different);
        all.only_left.extend(found.only_left);
        all.only_right.extend(found.only_right);
    }
    all.only_right_graphs.extend(free.into_iter().map(|graph| graph.name.clone()));
    all
}

/// Compares two graphs by the names of operators.
pub fn diff(left: &Graph, right: &Graph) -> GraphDiff {
    let counts = |op: &&Op| !IGNORED.contains(&op.op_type.as_str());
    let others: HashMap<&str, &Op> =
        right.ops.iter().filter(counts).map(|op| (op.name.as_str(), op)).collect();
    let mine: HashMap<&str, &Op> = left.ops.iter().filter(counts).map(|op| (op.name.as_str(), op)).collect();
    let mut found = GraphDiff { graphs: 1, ..GraphDiff::default() };
    for op in left.ops.iter().filter(counts) {
        let Some(other) = others.get(op.name.as_str()) else {
            found.only_left.push(op.name.clone());
            continue;
        };
        found.compared += 1;
        let differences = differences(op, other);
        if !differences.is_empty() {
            found.different.push(OpDifference { op: op.name.clone(), differences });
        }
    }
    let lone = right.ops.iter().filter(counts).filter(|op| !mine.contains_key(op.name.as_str()));
    found.only_right.extend(lone.map(|op| op.name.clone()));
    found
}

fn differences(left: &Op, right: &Op) -> Vec<String> {
    let mut found = Vec::new();
    if left.op_type != right.op_type {
        found.push(format!("type {} and {}", left.op_type, right.op_type));
    }
    for (what, mine, others) in [
        ("input", &left.input_descs, &right.input_descs),
        ("output", &left.output_descs, &right.output_descs),
    ] {
        if mine.len() != others.len() {
            found.push(format!("{} and {} {what}s", mine.len(), others.len()));
        }
        for (at, (one, other)) in mine.iter().zip(others).enumerate() {
            for (field, left, right) in
                [("dtype", &one.dtype, &other.dtype), ("layout", &one.layout, &other.layout)]
            {
                if left != right {
                    found.push(format!("{what} {at}: {field} {left} and {right}"));
                }
            }
        }
    }
    found
}
