//! Reads pickles as data and never runs them.
//!
//! A pickle is a program for a small stack machine, and Python lets it call anything. The [machine] here only
//! records it: a request to call something becomes a [`Node::Call`] that is not executed, and a name becomes a
//! [`Node::Global`] that is not looked up. A few constructors are known (tensors, ordered dictionaries, numpy
//! arrays). Their reader works out afterwards what they would have returned.
//!
//! ```text
//! bytes ──► machine ──► Pickle (a flat list of nodes that refer to each other by number) ──► pt::objects ──► Value
//! ```
//!
//! The nodes are in one list because a pickle may be nested as deeply as it is long and may contain itself: a list of
//! numbers is freed without recursion and has no reference cycles.

mod input;
mod machine;
pub(crate) mod opcode;
mod refused;
mod step;
mod text;

use std::ops::Range;

pub(crate) use machine::read;

use crate::bytes::Bytes;
use crate::error::{Error, Fault, Place, shortened};

/// The number of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Id(u32);

/// One object of a pickle.
#[derive(Debug)]
pub(crate) enum Node {
    None,
    Bool(bool),
    Int(i128),
    /// An integer beyond 128 bits: its length in bytes.
    HugeInt(usize),
    Float(f64),
    Text(Box<str>),
    /// Bytes, in place in the file if the pickle stores them unchanged.
    Bytes(Bytes),
    List(Vec<Id>),
    Tuple(Vec<Id>),
    Dict(Vec<(Id, Id)>),
    Set(Vec<Id>),
    FrozenSet(Vec<Id>),
    /// A class or function, by name only. Boxed, to keep the many small nodes small.
    Global(Box<Name>),
    Call(Box<Call>),
    /// Something stored outside the pickle, under the id in this node.
    Persistent(Id),
}

/// The module and name of a class or function.
#[derive(Debug)]
pub(crate) struct Name {
    pub module: Box<str>,
    pub name: Box<str>,
}

/// A call that the pickle requests, and what it then does with the result.
#[derive(Debug)]
pub(crate) struct Call {
    pub callable: Id,
    pub args: Id,
    /// The argument of the object's `__setstate__`.
    pub state: Option<Id>,
    /// Items to append to it.
    pub items: Vec<Id>,
    /// Items to set in it by key.
    pub pairs: Vec<(Id, Id)>,
}

/// A pickle as a graph of nodes.
#[derive(Debug)]
pub(crate) struct Pickle {
    nodes: Vec<Node>,
    /// For each node, the byte of the opcode that created it; in pickles of more than 4 GiB, at most the largest
    /// `u32`.
    places: Vec<u32>,
    root: Id,
    range: Range<usize>,
}

impl Name {
    /// `module.name`, shortened for a message.
    fn dotted(&self) -> String {
        shortened(&format!("{}.{}", self.module, self.name))
    }
}

impl Pickle {
    pub fn root(&self) -> Id {
        self.root
    }

    /// The bytes of the pickle, from its first opcode to the end of its last.
    pub fn range(&self) -> Range<usize> {
        self.range.clone()
    }

    pub fn node(&self, id: Id) -> &Node {
        &self.nodes[id.0 as usize]
    }

    /// Every node, reachable from the root or not.
    pub fn ids(&self) -> impl Iterator<Item = Id> + use<> {
        // The machine stops long before the count exceeds 32 bits.
        (0..self.nodes.len() as u32).map(Id)
    }

    pub fn text(&self, id: Id) -> Option<&str> {
        match self.node(id) {
            Node::Text(text) => Some(text),
            _ => None,
        }
    }

    pub fn int(&self, id: Id) -> Option<i128> {
        match self.node(id) {
            Node::Int(number) => Some(*number),
            _ => None,
        }
    }

    pub fn tuple(&self, id: Id) -> Option<&[Id]> {
        match self.node(id) {
            Node::Tuple(items) => Some(items),
            _ => None,
        }
    }

    /// Module and name of a class or function.
    pub fn global(&self, id: Id) -> Option<(&str, &str)> {
        match self.node(id) {
            Node::Global(global) => Some((&global.module, &global.name)),
            _ => None,
        }
    }

    /// An error at the place of the node: something else was expected.
    pub fn unexpected(&self, id: Id, expected: impl Into<String>) -> Error {
        self.fault_at(id, Fault::malformed(expected, self.describe(id)))
    }

    /// An error at the place of the node.
    pub fn fault_at(&self, id: Id, fault: impl Into<Fault>) -> Error {
        Error::at(Place::Byte(self.places[id.0 as usize].into()), fault)
    }

    /// A description of a node for a message.
    pub fn describe(&self, id: Id) -> String {
        describe(&self.nodes, id)
    }
}

fn describe(nodes: &[Node], id: Id) -> String {
    match &nodes[id.0 as usize] {
        Node::None => "None".to_owned(),
        Node::Bool(flag) => if *flag { "True" } else { "False" }.to_owned(),
        Node::Int(number) => format!("the integer {number}"),
        Node::HugeInt(bytes) => format!("an integer of {bytes} bytes"),
        Node::Float(number) => format!("the float {number}"),
        Node::Text(text) => format!("the text {:?}", shortened(text)),
        Node::Bytes(bytes) => format!("{} bytes", bytes.len()),
        Node::List(items) => format!("a list of {}", items.len()),
        Node::Tuple(items) => format!("a tuple of {}", items.len()),
        Node::Dict(pairs) => format!("a dictionary of {}", pairs.len()),
        Node::Set(items) | Node::FrozenSet(items) => format!("a set of {}", items.len()),
        Node::Global(global) => format!("the name {}", global.dotted()),
        Node::Call(call) => match &nodes[call.callable.0 as usize] {
            Node::Global(global) => format!("a call of {}", global.dotted()),
            _ => "a call".to_owned(),
        },
        Node::Persistent(_) => "a reference to stored data".to_owned(),
    }
}
