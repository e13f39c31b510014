//! The changes of dtype in a graph.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::model::Graph;

/// The `Cast` operators from one dtype to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CastGroup {
    /// `DT_FLOAT`.
    pub from: String,
    /// `DT_INT32`.
    pub to: String,
    /// Whether the result may be another number than the input: a fraction is lost, or large values.
    pub loses: bool,
    /// The operators.
    pub ops: Vec<String>,
}

/// Every cast of a graph, by dtypes.
pub fn casts(graph: &Graph) -> Vec<CastGroup> {
    let mut groups: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    for op in graph.ops.iter().filter(|op| op.op_type == "Cast") {
        if let (Some(input), Some(output)) = (op.input_descs.first(), op.output_descs.first()) {
            let key = (input.dtype.to_string(), output.dtype.to_string());
            groups.entry(key).or_default().push(op.name.clone());
        }
    }
    let group = |((from, to), ops): ((String, String), Vec<String>)| {
        let loses = loses(&from, &to);
        CastGroup { from, to, loses, ops }
    };
    groups.into_iter().map(group).collect()
}

/// Bits of the integer part and of precision that a dtype has; none if it is not a number.
fn capacity(dtype: &str) -> Option<(u32, u32)> {
    Some(match dtype.strip_prefix("DT_").unwrap_or(dtype) {
        "DOUBLE" => (1024, 53),
        "FLOAT" => (128, 24),
        "BF16" | "BFLOAT16" => (128, 8),
        "FLOAT16" => (16, 11),
        "INT64" => (63, 63),
        "UINT64" => (64, 64),
        "INT32" => (31, 31),
        "UINT32" => (32, 32),
        "INT16" => (15, 15),
        "UINT16" => (16, 16),
        "INT8" => (7, 7),
        "UINT8" => (8, 8),
        "BOOL" => (1, 1),
        _ => return None,
    })
}

fn loses(from: &str, to: &str) -> bool {
    let is_float =
        |dtype: &str| dtype.contains("FLOAT") || dtype.contains("DOUBLE") || dtype.contains("BF16");
    match (capacity(from), capacity(to)) {
        (Some(before), Some(after)) => {
            before.0 > after.0 || before.1 > after.1 || is_float(from) && !is_float(to)
        }
        // Nothing is known of it.
        _ => from != to,
    }
}
