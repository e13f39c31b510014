//! A graph as a value.

use std::fmt;
use std::sync::Arc;

use serde::{Serialize, Serializer};

/// A graph, or one of its sub graphs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Graph {
    /// Its name.
    pub name: String,
    /// Session and number, `0_1`, if it has them.
    pub session_graph_id: Option<String>,
    /// Its operators, in the order of the file.
    pub ops: Vec<Op>,
}

/// An operator.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Op {
    /// `LeNet/conv1/Conv2D`.
    pub name: String,
    /// `Conv2D`.
    pub op_type: String,
    /// Its number in the graph.
    pub id: i64,
    /// Where its inputs come from: data in the order of its inputs, then control.
    pub inputs: Vec<Edge>,
    /// Its input tensors.
    pub input_descs: Vec<TensorDesc>,
    /// Its output tensors.
    pub output_descs: Vec<TensorDesc>,
    /// Its attributes, in the order of the file.
    pub attrs: Vec<(Arc<str>, Attr)>,
    /// The graphs that it calls.
    pub subgraphs: Vec<String>,
}

/// Where an input comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The operator; empty if an optional input is not connected.
    pub source: String,
    /// Which of its outputs; -1 if it only has to run before.
    pub index: i64,
}

/// What is known of a tensor.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TensorDesc {
    /// `DT_FLOAT16`.
    pub dtype: Arc<str>,
    /// Dimensions; -1 if one is not known.
    pub shape: Vec<i64>,
    /// `NC1HWC0`.
    pub layout: Arc<str>,
    /// Its attributes.
    pub attrs: Vec<(Arc<str>, Attr)>,
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum Attr {
    /// Text.
    Text(String),
    /// An integer.
    Int(i64),
    /// A float.
    Float(f64),
    /// A boolean.
    Bool(bool),
    /// A list.
    List(Vec<Attr>),
    /// A value that is not read: a tensor, a graph, a function.
    Skipped(String),
}

impl Edge {
    /// Whether it only says which operator runs first.
    pub fn is_control(&self) -> bool {
        self.index < 0
    }
}

/// The value of a named attribute.
pub(crate) fn attr<'a>(attrs: &'a [(Arc<str>, Attr)], name: &str) -> Option<&'a Attr> {
    attrs.iter().rev().find(|(key, _)| &**key == name).map(|(_, value)| value)
}

impl Op {
    /// An attribute by name.
    pub fn attr(&self, name: &str) -> Option<&Attr> {
        attr(&self.attrs, name)
    }

    /// The fusion passes that made it.
    pub fn pass_names(&self) -> Vec<String> {
        self.attr("pass_name").map(Attr::texts).unwrap_or_default()
    }

    /// The name of its kernel.
    pub fn kernel_name(&self) -> Option<String> {
        self.attr(&format!("{}_kernelname", self.name)).map(Attr::to_string)
    }

    /// The operators of the framework's graph that it computes; none if the file does not say it.
    pub fn original_names(&self) -> Option<Vec<String>> {
        self.attr("_datadump_original_op_names").map(Attr::texts)
    }

    /// The edges that carry data.
    pub fn data_inputs(&self) -> impl Iterator<Item = &Edge> {
        self.inputs.iter().filter(|edge| !edge.is_control() && !edge.source.is_empty())
    }
}

impl TensorDesc {
    /// An attribute by name.
    pub fn attr(&self, name: &str) -> Option<&Attr> {
        attr(&self.attrs, name)
    }
}

impl Attr {
    /// The texts of a list, or the one that it is.
    pub fn texts(&self) -> Vec<String> {
        match self {
            Attr::List(items) => items.iter().map(Attr::to_string).collect(),
            one => vec![one.to_string()],
        }
    }
}

impl fmt::Display for Attr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Attr::Text(text) => f.write_str(text),
            Attr::Int(number) => write!(f, "{number}"),
            Attr::Float(number) => write!(f, "{number}"),
            Attr::Bool(flag) => write!(f, "{flag}"),
            Attr::List(items) => {
                f.write_str("[")?;
                for (at, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", if at > 0 { ", " } else { "" })?;
                }
                f.write_str("]")
            }
            Attr::Skipped(what) => write!(f, "({what}, not read)"),
        }
    }
}

impl Serialize for Attr {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Attr::Text(text) => serializer.serialize_str(text),
            Attr::Int(number) => serializer.serialize_i64(*number),
            Attr::Float(number) => serializer.serialize_f64(*number),
            Attr::Bool(flag) => serializer.serialize_bool(*flag),
            Attr::List(items) => serializer.collect_seq(items),
            Attr::Skipped(_) => serializer.serialize_none(),
        }
    }
}
