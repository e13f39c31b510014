//! One tensor of the network, element by element.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use ulpscope_formats::acl::Format;
use ulpscope_formats::{Bytes, Tensor};

use super::Network;
use super::golden::Elements;
use super::network_error::NetworkError;
use super::pairs::{self, Stored};
use super::row::Io;
use super::unit::Counterpart;

/// The axes that elements are counted along, by the number of dimensions.
const AXES: [&str; 2] = ["NCHW", "NCDHW"];

/// Which tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorPlace {
    /// The operator, as the graph or as file names have it.
    pub op: String,
    /// Whether an input is meant, and not an output.
    pub is_input: bool,
    /// Its number.
    pub number: usize,
}

/// Two tensors, element by element.
#[derive(Clone, Debug)]
pub struct SingleOp {
    /// The operator of the dump.
    pub npu_op: String,
    /// What it was compared with.
    pub ground_truth: String,
    /// The names of the axes, `N C H W`; `ID` for a scalar.
    pub axes: String,
    /// The tensor of the NPU dump, in the order of these axes.
    pub target: Tensor,
    golden: Tensor,
    /// Sizes of the axes.
    shape: Vec<usize>,
}

/// Two elements.
#[derive(Clone, Debug, PartialEq)]
pub struct TopElement {
    /// Row-major position.
    pub index: usize,
    /// Position along each axis.
    pub position: Vec<usize>,
    /// The elements of the NPU dump and of the ground truth.
    pub values: [f64; 2],
    /// The absolute difference.
    pub absolute: f64,
    /// The difference in relation to the ground truth, where it has one.
    pub relative: Option<f64>,
}

impl Network {
    /// One tensor and its counterpart, in PyTorch's order of axes.
    pub fn single_op(&self, place: &TensorPlace) -> Result<SingleOp, NetworkError> {
        let no_tensor = |what: String| NetworkError::NoSuchTensor(format!("{}: {what}", place.op));
        let unit = self.units.iter().find(|unit| unit.name == place.op || unit.flat == place.op);
        let unit =
            unit.ok_or_else(|| no_tensor("no operator of the graph or the dump has this name".to_owned()))?;
        let path = self.npu.files(&unit.flat).into_iter().next();
        let path = path.ok_or_else(|| no_tensor("the dump has no file of this operator".to_owned()))?;
        let dump = ulpscope_dump::read_operator_file(&path)?;
        let io = if place.is_input { Io::Input } else { Io::Output };
        let tensors = io.of(&dump);
        let tensor = tensors.get(place.number).ok_or_else(|| {
            no_tensor(format!("{} {} of {} was asked for", io.word(), place.number, tensors.len()))
        })?;
        let Counterpart { origin, format, found, .. } = self.counterpart(unit, io, place.number, tensor, 0);
        let found = found.ok_or_else(|| no_tensor("the golden has no counterpart of it".to_owned()))?;
        let stored = Stored { tensor, origin: self.origin_of(unit, io, place.number) };
        let ground_truth = origin.and_then(|origin| origin.rsplit_once(':').map(|(name, _)| name.to_owned()));
        let (axes, target, golden) = in_named_axes(&stored, found.elements, format).map_err(no_tensor)?;
        let shape = target.shape().to_vec();
        let ground_truth = ground_truth.unwrap_or_else(|| unit.name.clone());
        Ok(SingleOp { npu_op: unit.name.clone(), ground_truth, axes, target, golden, shape })
    }
}

/// Both in PyTorch's order of axes if they have named ones, else as they were compared.
fn in_named_axes(
    stored: &Stored<'_>,
    golden: Elements,
    format: Option<Format>,
) -> Result<(String, Tensor, Tensor), String> {
    if let (Elements::Plain(tensor), Some(letters)) = (&golden, format.and_then(Format::name))
        && let Some(axes) =
            AXES.into_iter().find(|axes| is_order_of(letters, axes) && axes.len() == tensor.shape().len())
        && let Some(wanted) = Format::from_name(axes)
        && let Some(golden) = permuted(tensor, letters, axes)
    {
        let (target, _) = pairs::relaid(stored.tensor, wanted, stored.origin)?;
        if target.shape() == golden.shape() {
            return Ok((spaced(axes), target, golden));
        }
    }
    let pair = pairs::pair(stored, golden, format)?;
    let (axes, mut shape) = match pair.shape.len() {
        _ if stored.tensor.shape.is_empty() => ("ID".to_owned(), vec![1]),
        5 => (spaced(AXES[1]), pair.shape),
        _ => (spaced(AXES[0]), pair.shape),
    };
    while axes != "ID" && shape.len() < AXES[0].len() {
        shape.push(1);
    }
    let shaped = |tensor: &Tensor| {
        let bytes = Bytes::from(tensor.view().to_packed().into_owned());
        Tensor::contiguous(tensor.dtype(), shape.clone(), bytes).map_err(|error| error.to_string())
    };
    Ok((axes, shaped(&pair.target)?, shaped(&pair.golden)?))
}

fn is_order_of(letters: &str, axes: &str) -> bool {
    let sorted = |text: &str| {
        let mut bytes = text.as_bytes().to_vec();
        bytes.sort_unstable();
        bytes
    };
    sorted(letters) == sorted(axes)
}

fn spaced(axes: &str) -> String {
    axes.chars().map(String::from).collect::<Vec<_>>().join(" ")
}

/// The same elements with the axes in a different order.
fn permuted(tensor: &Tensor, letters: &str, axes: &str) -> Option<Tensor> {
    let order: Vec<usize> = axes.chars().map(|axis| letters.find(axis)).collect::<Option<_>>()?;
    let shape = order.iter().map(|&at| tensor.shape()[at]).collect();
    let strides = order.iter().map(|&at| tensor.strides()[at]).collect();
    let view =
        Tensor::strided(tensor.dtype(), shape, strides, tensor.storage().clone(), tensor.origin()).ok()?;
    let bytes = Bytes::from(view.view().to_packed().into_owned());
    Tensor::contiguous(view.dtype(), view.shape().to_vec(), bytes).ok()
}

/// An element with its place in an order of floats.
#[derive(PartialEq)]
struct Ranked(f64, usize);

impl Eq for Ranked {}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Ranked) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ranked {
    fn cmp(&self, other: &Ranked) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0).then_with(|| other.1.cmp(&self.1))
    }
}

impl SingleOp {
    /// The number of elements.
    pub fn count(&self) -> usize {
        self.target.view().len()
    }

    /// The elements at a position.
    pub fn element(&self, index: usize) -> TopElement {
        let values = [&self.target, &self.golden].map(|tensor| tensor.view().get(index).to_f64());
        let absolute = (values[0] - values[1]).abs();
        let relative = absolute / values[1].abs();
        let mut rest = index;
        let mut position: Vec<usize> = Vec::new();
        for &size in self.shape.iter().rev() {
            position.push(rest % size.max(1));
            rest /= size.max(1);
        }
        position.reverse();
        TopElement {
            index,
            position,
            values,
            absolute,
            relative: Some(relative).filter(|value| value.is_finite()),
        }
    }

    /// The elements with the largest absolute differences, and those with the largest relative ones, largest first.
    pub fn top(&self, rows: usize) -> [Vec<TopElement>; 2] {
        [false, true].map(|by_relative| {
            let mut largest: BinaryHeap<Reverse<Ranked>> = BinaryHeap::new();
            for index in 0..self.count() {
                let element = self.element(index);
                let size = if by_relative { element.relative } else { Some(element.absolute) };
                if let Some(size) = size.filter(|size| !size.is_nan()) {
                    largest.push(Reverse(Ranked(size, index)));
                }
                if largest.len() > rows {
                    largest.pop();
                }
            }
            let mut found: Vec<Ranked> = largest.into_iter().map(|Reverse(ranked)| ranked).collect();
            found.sort_by(|a, b| b.cmp(a));
            found.into_iter().map(|Ranked(_, index)| self.element(index)).collect()
        })
    }
}
