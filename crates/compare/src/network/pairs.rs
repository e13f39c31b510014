//! Brings two tensors into one layout.

use ulpscope_formats::acl::{DumpTensor, Format};
use ulpscope_formats::{Bytes, Tensor};

use super::golden::Elements;

/// Two tensors whose elements correspond in order.
pub(super) struct Pair {
    /// In one dimension.
    pub(super) target: Tensor,
    /// Likewise.
    pub(super) golden: Tensor,
    /// The shape of the target: of plain data, whose axes have no names, the number of elements.
    pub(super) shape: Vec<usize>,
    /// Why the pair may not be the right one.
    pub(super) unsure: Option<String>,
}

/// A target and the layout of its original shape.
pub(super) struct Stored<'a> {
    pub(super) tensor: &'a DumpTensor,
    pub(super) origin: Option<Format>,
}

/// Brings the target into the layout of the golden, which the framework had it in.
pub(super) fn pair(target: &Stored<'_>, golden: Elements, format: Option<Format>) -> Result<Pair, String> {
    let (laid_out, golden, unsure) = match golden {
        Elements::Unread(reason) => return Err(format!("The ground truth cannot be read: {reason}.")),
        Elements::Plain(golden) => {
            let (laid_out, unsure) = as_framework(target, &golden, format)?;
            (laid_out, golden, unsure)
        }
        // Equal layouts have equal padding.
        Elements::Stored(golden, _) if golden.format == target.tensor.format => {
            (read(target.tensor)?, read(&golden)?, None)
        }
        Elements::Stored(golden, origin) => {
            let origin = origin.or(target.origin);
            let (left, unsure) = relaid(target.tensor, Format::ND, target.origin)?;
            let (right, other) = relaid(&golden, Format::ND, origin)?;
            (left, right, unsure.or(other))
        }
    };
    let counts = [laid_out.view().len(), golden.view().len()];
    if counts[0] != counts[1] {
        return Err(format!(
            "The numbers of elements differ: {} of shape {:?} and {} of shape {:?}.",
            counts[0],
            laid_out.shape(),
            counts[1],
            golden.shape()
        ));
    }
    let shape = if target.tensor.format == Format::ND { vec![counts[0]] } else { laid_out.shape().to_vec() };
    let unsure = unsure.or_else(|| other_order(&laid_out, &golden));
    let flat = |tensor: &Tensor| flattened(tensor);
    Ok(Pair { target: flat(&laid_out)?, golden: flat(&golden)?, shape, unsure })
}

/// The sizes of both, if they are not in the same order.
fn other_order(target: &Tensor, golden: &Tensor) -> Option<String> {
    let sizes = |tensor: &Tensor| -> Vec<usize> {
        tensor.shape().iter().copied().filter(|&size| size != 1).collect()
    };
    let (left, right) = (sizes(target), sizes(golden));
    let is_same_rank = left.len() == right.len();
    (is_same_rank && left != right).then(|| {
        format!(
            "The shapes {:?} and {:?} differ: elements are compared in order.",
            target.shape(),
            golden.shape()
        )
    })
}

fn as_framework(
    target: &Stored<'_>,
    golden: &Tensor,
    format: Option<Format>,
) -> Result<(Tensor, Option<String>), String> {
    let stored = read(target.tensor)?;
    let is_single = stored.shape().iter().all(|&size| size == 1);
    if target.tensor.format == Format::ND || is_single {
        return Ok((stored, None));
    }
    // Matrices in blocks have no named axes, whatever the framework called those of the tensor.
    let is_matrix = Format::from_name("FRACTAL_NZ") == Some(target.tensor.format);
    let wanted = if is_matrix { Format::ND } else { format.unwrap_or(Format::ND) };
    let first = relaid(target.tensor, wanted, target.origin);
    let fits = |found: &Result<(Tensor, Option<String>), String>| {
        found.as_ref().is_ok_and(|(tensor, _)| tensor.shape() == golden.shape())
    };
    if fits(&first) {
        return first;
    }
    // The framework may have computed in the other order of axes than the graph says.
    let other = match wanted.name() {
        Some("NHWC") => Format::from_name("NCHW"),
        Some("NCHW") => Format::from_name("NHWC"),
        _ => None,
    };
    let second = other.map(|other| relaid(target.tensor, other, target.origin));
    match second {
        Some(second) if fits(&second) => second,
        _ => first,
    }
}

fn read(tensor: &DumpTensor) -> Result<Tensor, String> {
    tensor.tensor().map_err(|error| format!("The NPU dump cannot be read: {error}."))
}

/// A tensor in a layout, and why it may not be the expected one.
pub(super) fn relaid(
    tensor: &DumpTensor,
    target: Format,
    origin: Option<Format>,
) -> Result<(Tensor, Option<String>), String> {
    let relaid =
        tensor.relaid(target, origin).map_err(|error| format!("The layout is not converted: {error}."))?;
    Ok((relaid.tensor, relaid.unsure))
}

fn flattened(tensor: &Tensor) -> Result<Tensor, String> {
    if let Some(flat) = tensor.flattened() {
        return Ok(flat);
    }
    let view = tensor.view();
    let bytes = Bytes::from(view.to_packed().into_owned());
    Tensor::contiguous(tensor.dtype(), vec![view.len()], bytes).map_err(|error| error.to_string())
}
