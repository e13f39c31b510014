//! Tensors in the lines of a journal. docs/dumps.md lists the keys.

use ulpscope_kernels::{Statistic, Stats};
use ulpscope_tensor::{DType, Scalar};

use super::rooms::{Room, Ticket};
use super::values::{
    Key, ListText, ObjectText, key, push_flag, push_float, push_int, push_ints, push_name, push_null,
};
use crate::writer::SavedTensor;

/// The type of a tensor. Written before it is measured; [`TensorRest`] follows in the same buffer.
#[derive(Clone, Copy, Debug)]
pub struct TensorHead<'a> {
    /// Its class: `torch.Tensor`.
    pub class: &'a str,
    /// Its dtype as torch prints it: `torch.float32`.
    pub dtype: &'a str,
    /// Its dimensions, outermost first.
    pub shape: &'a [usize],
}

impl TensorHead<'_> {
    /// Appends the beginning of the object.
    pub fn open(&self, out: &mut Vec<u8>) {
        let mut object = ObjectText::open(out);
        object.known_key(key!("type"), out);
        push_name(self.class, out);
        object.known_key(key!("dtype"), out);
        push_name(self.dtype, out);
        object.known_key(key!("shape"), out);
        push_ints(self.shape.iter().map(|&dim| dim as i128), out);
    }
}

/// Everything else about a tensor.
#[derive(Clone, Copy, Debug, Default)]
pub struct TensorRest<'a> {
    /// Its statistics; nothing if it could not be read or should not be.
    pub stats: Option<&'a Stats>,
    /// The ticket of statistics that arrive later.
    pub ticket: Option<Ticket>,
    /// Whether it has no dimensions: then every summary is its value.
    pub is_scalar: bool,
    /// Whether it requires a gradient.
    pub requires_grad: bool,
    /// The digest of its elements.
    pub digest: Option<&'a str>,
    /// Whether a digest arrives with the statistics.
    pub has_late_digest: bool,
    /// Whether the place of its elements arrives with the statistics.
    pub has_late_file: bool,
    /// Where its elements are saved.
    pub saved: Option<&'a SavedTensor>,
    /// Some of its elements, or all of them.
    pub elements: Option<Elements<'a>>,
    /// Whether it is uninitialised memory.
    pub is_blank: bool,
    /// Whether it is an argument that its call had changed before it was recorded.
    pub is_changed: bool,
    /// Further keys with their values as JSON text, each after a comma.
    pub extra: &'a str,
    /// Whether its call was recomputed for the backward pass.
    pub is_recompute: bool,
    /// The call that produced it, or its other source.
    pub source: Option<&'a str>,
}

/// Elements of a tensor in row-major order, as float32.
#[derive(Clone, Copy, Debug)]
pub enum Elements<'a> {
    /// The first ones.
    Sample(&'a [f32]),
    /// All of them.
    All(&'a [f32]),
}

impl TensorRest<'_> {
    /// Appends the rest of the object.
    pub fn close(&self, out: &mut Vec<u8>) {
        let mut object = ObjectText::reopened();
        let (summaries, others) = Statistic::summaries_and_others();
        match self.ticket {
            Some(ticket) => Room::Summaries.push_mark(ticket, out),
            None => summaries.iter().for_each(|statistic| self.push_statistic(statistic, &mut object, out)),
        }
        object.known_key(key!("requires_grad"), out);
        push_flag(self.requires_grad, out);
        push_maybe(key!("md5"), self.digest, &mut object, out);
        if let Some(ticket) = self.ticket.filter(|_| self.has_late_digest) {
            Room::Digest.push_mark(ticket, out);
        }
        if let Some(saved) = self.saved {
            push_saved(saved, &mut object, out);
        }
        if let Some(ticket) = self.ticket.filter(|_| self.has_late_file) {
            Room::Saved.push_mark(ticket, out);
        }
        if let Some(elements) = self.elements {
            let (key, elements) = match elements {
                Elements::Sample(elements) => (key!("sample"), elements),
                Elements::All(elements) => (key!("values"), elements),
            };
            object.known_key(key, out);
            push_floats(elements, out);
        }
        if self.is_blank {
            object.known_key(key!("blank"), out);
            push_flag(true, out);
        }
        if self.is_changed {
            object.known_key(key!("changed"), out);
            push_flag(true, out);
        }
        out.extend_from_slice(self.extra.as_bytes());
        if let Some(stats) = self.stats {
            for statistic in others.iter().filter(|statistic| statistic.is_recorded_of(stats)) {
                self.push_statistic(statistic, &mut object, out);
            }
        }
        if let Some(ticket) = self.ticket {
            Room::Others.push_mark(ticket, out);
        }
        if self.is_recompute {
            object.known_key(key!("is_recompute"), out);
            push_flag(true, out);
        }
        push_maybe(key!("source"), self.source, &mut object, out);
        object.close(out);
    }

    #[inline]
    fn push_statistic(&self, statistic: &Statistic, object: &mut ObjectText, out: &mut Vec<u8>) {
        push_statistic(statistic, self.stats, self.is_scalar, object, out);
    }
}

/// Appends a statistic with its key; `null` if there are no numbers.
#[inline]
pub(super) fn push_statistic(
    statistic: &Statistic,
    stats: Option<&Stats>,
    is_scalar: bool,
    object: &mut ObjectText,
    out: &mut Vec<u8>,
) {
    object.plain_key(statistic.key, out);
    push_scalar(stats.and_then(|stats| statistic.of(stats, is_scalar)), out);
}

/// Adds to the object of a gradient the other arguments that share it.
pub fn add_shared_with(arguments: &[usize], object_text: &mut Vec<u8>) {
    object_text.pop();
    let mut object = ObjectText::reopened();
    object.known_key(key!("shared_with"), object_text);
    push_ints(arguments.iter().map(|&argument| argument as i128), object_text);
    object.close(object_text);
}

/// The file of a tensor, and its part of the file if that holds several.
pub(super) fn push_saved(saved: &SavedTensor, object: &mut ObjectText, out: &mut Vec<u8>) {
    push_maybe(key!("data_name"), Some(&saved.file), object, out);
    let Some(part) = &saved.part else { return };
    object.known_key(key!("data_at"), out);
    push_ints([part.offset.into(), part.length.into()].into_iter(), out);
    push_maybe(key!("data_key"), part.name.as_deref(), object, out);
    push_maybe(key!("data_dtype"), part.dtype.map(DType::name), object, out);
    if let Some(shape) = &part.shape {
        object.known_key(key!("data_shape"), out);
        push_ints(shape.iter().map(|&dim| dim as i128), out);
    }
}

fn push_floats(values: &[f32], out: &mut Vec<u8>) {
    let mut list = ListText::open(out);
    for &value in values {
        list.element(out);
        push_float(f64::from(value), out);
    }
    list.close(out);
}

fn push_maybe(key: Key, text: Option<&str>, object: &mut ObjectText, out: &mut Vec<u8>) {
    if let Some(text) = text {
        object.known_key(key, out);
        push_name(text, out);
    }
}

fn push_scalar(value: Option<Scalar>, out: &mut Vec<u8>) {
    match value {
        None => push_null(out),
        Some(Scalar::Float(value)) => push_float(value, out),
        Some(Scalar::Int(value)) => push_int(value, out),
        Some(Scalar::Bool(value)) => push_flag(value, out),
        Some(value @ Scalar::Complex(..)) => push_float(value.to_f64(), out),
    }
}
