//! What a program of values needs of the tensors of a call.
//!
//! All calls are read once, to be compared. Two different programs need most of that again, as values, and reading takes
//! longer than what is concluded of it. So where pairing shows that two programs differ, this is kept from the first reading.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use ulpscope_dump::{CallKind, Content, Entry, Role, TensorEntry};
use ulpscope_formats::json::Json;

use super::program::{Value, Weight};
use crate::native::evidence::call_evidence::{Source, hashed, place};
use crate::native::evidence::flow::Calls;
use crate::native::evidence::measure::{Numbers, recorded};
use crate::native::expectation::rounding::unit_roundoff;

/// How dumps name a parameter that a call was given.
const PARAMETER: &str = "parameter:";

/// Likewise what lies in the `.grad` of a parameter.
const GRADIENT: &str = "gradient:";

/// Likewise what nothing recorded made.
pub(super) const OUTSIDE: &str = "outside";

/// Entries of a side whose tensors are kept: some 100 MB. Calls beyond that are read again.
const MOST_KEPT: usize = 1 << 19;

/// The tensors of a call.
#[derive(Clone, Debug, Default)]
pub(in crate::native) struct CallTensors {
    /// What it was given, in order.
    pub(super) taken: Vec<Taken>,
    /// The first of these, if the call may write into it and return nothing.
    pub(super) first: Option<Box<Made>>,
    /// What it returned; of gradients of parameters, these.
    pub(super) made: Vec<Made>,
    /// Whether a gradient of a result is computed; a dump that does not say so leaves that open.
    pub(super) goes_back: bool,
    /// Whether the dump says that a gradient of a result is computed.
    pub(super) wants_gradient: bool,
    /// Whether it was given a float of which a gradient is computed, and returned one of which none is.
    pub(super) is_cut_off: bool,
    /// Whether it was given a parameter, which may have no name.
    pub(super) is_given_parameter: bool,
}

/// A tensor that a call was given.
#[derive(Clone, Debug)]
pub(super) enum Taken {
    /// A parameter.
    Parameter(Box<ParameterUse>),
    /// What lies in the `.grad` of a parameter.
    Gradient,
    /// Nothing recorded made it. Nothing of it, where its size is not known.
    Outside {
        tensor: Option<Box<Weight>>,
        /// Whether it is an exact tensor of two dimensions.
        may_be_mask: bool,
    },
    /// What a call returned: its number, and the place; nothing, where the dump does not say.
    Made(Option<(u32, u64)>),
}

/// A parameter that a call was given.
#[derive(Clone, Debug)]
pub(super) struct ParameterUse {
    pub(super) name: String,
    /// Nothing, where its size is not known.
    pub(super) weight: Option<Weight>,
    pub(super) is_in_graph: bool,
}

/// A tensor that a call returned.
#[derive(Clone, Debug)]
pub(super) struct Made {
    pub(super) place: u64,
    pub(super) count: Option<u64>,
    pub(super) numbers: Numbers,
    pub(super) unit: f64,
    pub(super) shape: u64,
    pub(super) has_elements: bool,
}

impl CallTensors {
    /// Takes them from the entries of a forward call.
    pub(super) fn of(calls: &Calls<'_>, call: usize, entries: &[Entry]) -> CallTensors {
        let is_taken = |role: Role| matches!(role, Role::Input | Role::Parameter);
        let mut taken = tensors(entries, is_taken).peekable();
        let may_write = calls.operation(call).assigns;
        let first = taken.peek().filter(|_| may_write).map(|(_, tensor)| Box::new(Made::of(0, tensor)));
        let inputs = || tensors(entries, is_taken);
        let results = || tensors(entries, |role| role == Role::Output);
        let is_given_gradient = inputs().any(|(_, tensor)| is_wanted(tensor));
        let is_cut = |tensor: &TensorEntry| unit(tensor) > 0.0 && !is_in_graph(tensor);
        CallTensors {
            wants_gradient: results().any(|(_, tensor)| is_wanted(tensor)),
            is_cut_off: is_given_gradient && results().any(|(_, tensor)| is_cut(tensor)),
            is_given_parameter: inputs().any(|(_, tensor)| is_parameter(tensor)),
            first,
            taken: taken.map(|(_, tensor)| Taken::of(calls, tensor)).collect(),
            made: results().map(|(entry, tensor)| Made::of(place(entry.role, &entry.path), tensor)).collect(),
            goes_back: results().any(|(_, tensor)| is_in_graph(tensor)),
        }
    }
}

impl Taken {
    fn of(calls: &Calls<'_>, tensor: &TensorEntry) -> Taken {
        let source = tensor.source.as_deref();
        if let Some(name) = source.and_then(|source| source.strip_prefix(PARAMETER)) {
            let (weight, is_in_graph) = (Weight::of(tensor), is_in_graph(tensor));
            Taken::Parameter(Box::new(ParameterUse { name: name.to_owned(), weight, is_in_graph }))
        } else if source.is_some_and(|source| source.starts_with(GRADIENT)) {
            Taken::Gradient
        } else if source == Some(OUTSIDE) {
            let may_be_mask = unit(tensor) == 0.0 && tensor.shape.iter().flatten().count() == 2;
            Taken::Outside { tensor: Weight::of(tensor).map(Box::new), may_be_mask }
        } else {
            Taken::Made(made_at(calls, source))
        }
    }
}

impl Made {
    pub(super) fn of(place: u64, tensor: &TensorEntry) -> Made {
        Made {
            place,
            count: tensor.count(),
            numbers: sizes(tensor),
            unit: unit(tensor),
            shape: shape(tensor),
            has_elements: tensor.has_data(),
        }
    }

    /// The value of a call.
    pub(super) fn value(&self, call: usize) -> Value {
        let Made { place, count, numbers, unit, shape, has_elements } = *self;
        let count = count.unwrap_or(0);
        Value { call, place, count, numbers, unit, shape, has_elements, ..Value::default() }
    }
}

/// The call that made a tensor, and the place, by the source that a dump names.
pub(super) fn made_at(calls: &Calls<'_>, source: Option<&str>) -> Option<(u32, u64)> {
    match calls.source(source) {
        Source::Call(maker, place) => Some((maker as u32, place)),
        _ => None,
    }
}

/// The tensors of calls that were kept while they were read.
#[derive(Debug, Default)]
pub(in crate::native) struct KeptTensors {
    /// By call; empty, where none are kept.
    calls: Vec<OnceLock<CallTensors>>,
    /// How many there are.
    count: AtomicUsize,
}

impl KeptTensors {
    /// Room for those of all calls.
    pub(in crate::native) fn of_all(calls: &Calls<'_>) -> KeptTensors {
        let calls = calls.rank.calls().iter().map(|_| OnceLock::new()).collect();
        KeptTensors { calls, count: AtomicUsize::new(0) }
    }

    /// Keeps those of a call that was read.
    pub(in crate::native) fn keep(&self, calls: &Calls<'_>, call: usize, entries: &[Entry]) {
        let Some(kept) = self.calls.get(call) else { return };
        let is_forward = calls.rank.calls()[call].kind == CallKind::Forward;
        if !is_forward || self.count.fetch_add(entries.len(), Ordering::Relaxed) > MOST_KEPT {
            return;
        }
        kept.get_or_init(|| CallTensors::of(calls, call, entries));
    }

    /// Those of a call.
    pub(super) fn get(&self, call: usize) -> Option<&CallTensors> {
        self.calls.get(call)?.get()
    }
}

pub(super) fn tensors(
    entries: &[Entry],
    wanted: impl Fn(Role) -> bool,
) -> impl Iterator<Item = (&Entry, &TensorEntry)> {
    entries.iter().filter(move |entry| wanted(entry.role)).filter_map(|entry| match &entry.content {
        Content::Tensor(tensor) => Some((entry, &**tensor)),
        _ => None,
    })
}

/// Whether a gradient of it is computed; a dump that does not say so leaves that open.
fn is_in_graph(tensor: &TensorEntry) -> bool {
    !matches!(tensor.requires_grad, Json::Bool(false))
}

/// Whether a dump says that a gradient of it is computed.
fn is_wanted(tensor: &TensorEntry) -> bool {
    matches!(tensor.requires_grad, Json::Bool(true))
}

/// Whether it is a parameter, with a name or without.
fn is_parameter(tensor: &TensorEntry) -> bool {
    tensor.source.as_deref().is_some_and(|source| source.starts_with("parameter"))
}

/// The statistics of a tensor. The norm of a single number is recorded with its sign.
pub(super) fn sizes(tensor: &TensorEntry) -> Numbers {
    let [max, min, mean, norm] = recorded(tensor);
    [max, min, mean, norm.map(f64::abs)]
}

pub(super) fn unit(tensor: &TensorEntry) -> f64 {
    tensor.dtype().map_or(0.0, unit_roundoff)
}

fn shape(tensor: &TensorEntry) -> u64 {
    let dimensions = tensor.shape.iter().flatten().filter(|&&size| size != 1);
    hashed(&dimensions.collect::<Vec<&u64>>())
}
