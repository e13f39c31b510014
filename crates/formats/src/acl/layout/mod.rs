//! The same elements in a different layout.
//!
//! A layout stores each axis whole, or in blocks: channel `c` of NC1HWC0 is at place `c % C0` of block `c / C0`. So the
//! place of an element is a sum of one offset for each axis, and a conversion copies elements from one sum to another:
//!
//! ```text
//! format + sizes of the axes + sizes of blocks ──► placement (a table of offsets for each axis)
//! placement of the source, placement of the target ──► copy
//! ```
//!
//! Blocks are padded. The sizes without padding are those of `original_shape`, whose axes may be in any order: it is
//! read in each of the orders that frameworks use, and those count in which it fills exactly the stored blocks.

mod axes;
mod copy;
mod placement;

use ulpscope_tensor::DType;

use self::axes::{Axis, Part, Spec};
use self::placement::{Blocks, Extents, Placement};
use super::{DumpTensor, Format};
use crate::bytes::Bytes;
use crate::error::{Error, Fault};
use crate::tensor::Tensor;

/// Elements of a block, except for channels of one byte, which are twice as many.
const BLOCK: usize = 16;

/// The layout of matrices in blocks.
const MATRIX_BLOCKS: &str = "FRACTAL_NZ";

/// A tensor in a different layout.
#[derive(Clone, Debug)]
pub struct Relaid {
    /// Its elements.
    pub tensor: Tensor,
    /// Why the result may not be the expected one, if so.
    pub unsure: Option<String>,
}

impl DumpTensor {
    /// The elements in a layout, without padding if it has no blocks. `origin` is the layout of `original_shape`, if it
    /// is known: the header does not say it.
    pub fn relaid(&self, target: Format, origin: Option<Format>) -> Result<Relaid, Error> {
        let tensor = self.tensor()?;
        self.place(&tensor, target, origin).map_err(Error::whole)
    }

    fn place(&self, tensor: &Tensor, target: Format, origin: Option<Format>) -> Result<Relaid, Fault> {
        let stays = |unsure: Option<String>| Ok(Relaid { tensor: tensor.clone(), unsure });
        // One element is the same in every layout.
        if self.format == target || tensor.view().len() == 1 && self.original_shape.len() <= 1 {
            return stays(None);
        }
        let mut source = Source::of(self, tensor, origin, target)?;
        let is_matrix = target.name() == Some(MATRIX_BLOCKS);
        // Blocks of matrices have rows and columns, whatever the axes are called.
        if is_matrix && source.blocks.0.is_empty() {
            source = Source::unnamed(tensor.shape());
        }
        let axes = source.axes();
        let Some(spec) = axes::spec(target, tensor_rank(target, axes.len())) else {
            return Err(Fault::Unsupported(format!("{} is not converted to {target}", self.format)));
        };
        let is_named = !axes.iter().any(|axis| matches!(axis, Axis::Lead(_) | Axis::Row | Axis::Column));
        // Without blocks and without named axes: in the order of the original tensor.
        let spec = if target == Format::ND || !is_named && !is_matrix { whole(&axes) } else { spec };
        if !is_named && !is_matrix && target != Format::ND {
            let text = format!("{} has no named axes: the original order is kept, not {target}", self.format);
            source.unsure.get_or_insert(text);
        }
        self.copied(tensor, &source, &spec)
    }

    fn copied(&self, tensor: &Tensor, source: &Source, spec: &Spec) -> Result<Relaid, Fault> {
        let missing = |(axis, size): &&(Axis, usize)| {
            *size != 1 && !spec.iter().flatten().any(|part| part.axis() == *axis)
        };
        if let Some((axis, size)) = source.extents.0.iter().find(missing) {
            let text =
                format!("{} has an axis {axis:?} of size {size}, which the target has not", self.format);
            return Err(Fault::Unsupported(text));
        }
        let too_large =
            || Fault::malformed("a shape that fits the address space", format!("{:?}", self.shape));
        let blocks = target_blocks(tensor.dtype());
        let from = Placement::of(&source.spec, &source.extents, &source.blocks, self.groups());
        let to = Placement::of(spec, &source.extents, &blocks, self.groups());
        let (from, to) = from.zip(to).ok_or_else(too_large)?;
        let size = tensor.dtype().size();
        let bytes = to.shape.iter().product::<usize>().checked_mul(size).ok_or_else(too_large)?;
        check_budget(bytes, self.data.len())?;
        // Without elements there is nothing to copy, and the sizes of the other axes may be anything.
        let elements = if tensor.view().is_empty() {
            vec![0; bytes]
        } else {
            copy::copy(&tensor.view().to_packed(), &from, &to, &source.axes(), size, bytes)
        };
        let tensor = Tensor::contiguous(tensor.dtype(), to.shape, Bytes::from(elements))?;
        Ok(Relaid { tensor, unsure: source.unsure.clone() })
    }

    fn groups(&self) -> usize {
        usize::try_from(self.sub_format).unwrap_or(1).max(1)
    }
}

/// The dimensions that a target has, which matters for those with any number of them.
fn tensor_rank(target: Format, axes: usize) -> usize {
    // Four for the last two axes.
    if target.name() == Some(MATRIX_BLOCKS) { axes.max(2) + 2 } else { axes }
}

fn whole(axes: &[Axis]) -> Spec {
    axes.iter().map(|&axis| vec![Part::Whole(axis)]).collect()
}

/// The sizes of blocks that devices use.
fn target_blocks(dtype: DType) -> Blocks {
    let channels = if dtype.size() == 1 { 2 * BLOCK } else { BLOCK };
    Blocks(vec![(Axis::C, channels), (Axis::N, BLOCK), (Axis::Row, BLOCK), (Axis::Column, channels)])
}

/// Blocks are padded: refuses what would need much more memory than the file.
fn check_budget(asked: usize, held: usize) -> Result<(), Fault> {
    const BASE: u64 = 64 << 20;
    const FACTOR: u64 = 16;
    let (asked, file_size) = (asked as u64, held as u64);
    let limit = file_size.saturating_mul(FACTOR).saturating_add(BASE);
    if asked <= limit {
        return Ok(());
    }
    Err(Fault::OverBudget { what: "the blocks of a layout", file_size, limit, asked })
}

/// What is stored.
struct Source {
    spec: Spec,
    extents: Extents,
    blocks: Blocks,
    unsure: Option<String>,
}

impl Source {
    fn of(
        dump: &DumpTensor,
        tensor: &Tensor,
        origin: Option<Format>,
        target: Format,
    ) -> Result<Source, Fault> {
        let shape = tensor.shape();
        let spec = axes::spec(dump.format, shape.len()).filter(|spec| spec.len() == shape.len());
        let Some(spec) = spec else {
            // Three dimensions of NCHW: nobody says which.
            if axes::plain(dump.format).is_some() {
                return Ok(Source::unnamed(shape));
            }
            let text = format!("layout {} with {} dimensions is not converted", dump.format, shape.len());
            return Err(Fault::Unsupported(text));
        };
        if spec.iter().all(|parts| matches!(parts.as_slice(), [Part::Whole(_)])) {
            let axes = spec.iter().flatten().map(|part| part.axis());
            let extents = Extents(axes.zip(shape.iter().copied()).collect());
            return Ok(Source { spec, extents, blocks: Blocks(Vec::new()), unsure: None });
        }
        let blocks = stored_blocks(&spec, shape);
        let original: Option<Vec<usize>> =
            dump.original_shape.iter().map(|&dim| usize::try_from(dim).ok()).collect();
        let original = original.unwrap_or_default();
        let fits = |axes: Vec<Axis>| {
            let extents = Extents(axes.into_iter().zip(original.iter().copied()).collect());
            let placement = Placement::of(&spec, &extents, &blocks, dump.groups())?;
            (placement.shape == shape).then_some(extents)
        };
        let candidates: Vec<Extents> = match dump.format.name() {
            // Rows and columns are the last two; a vector is one row.
            Some(MATRIX_BLOCKS) => {
                fits(axes::unnamed(original.len())).into_iter().filter(|_| !original.is_empty()).collect()
            }
            _ => orders(original.len(), origin, target).into_iter().filter_map(fits).collect(),
        };
        let sizes =
            |extents: &Extents| [Axis::N, Axis::C, Axis::D, Axis::H, Axis::W].map(|axis| extents.of(axis));
        let is_ambiguous =
            origin.is_none() && candidates.windows(2).any(|pair| sizes(&pair[0]) != sizes(&pair[1]));
        let unsure = is_ambiguous.then(|| {
            format!("the original shape {original:?} fits more than one order of axes: the first that fits was used")
        });
        if let Some(extents) = candidates.into_iter().next() {
            return Ok(Source { spec, extents, blocks, unsure });
        }
        Source::with_padding(dump, spec, shape, blocks, &original)
    }

    /// The stored sizes, where they are known without the original shape.
    fn with_padding(
        dump: &DumpTensor,
        spec: Spec,
        shape: &[usize],
        blocks: Blocks,
        original: &[usize],
    ) -> Result<Source, Fault> {
        let mut extents: Vec<(Axis, usize)> = Vec::new();
        for (parts, &size) in spec.iter().zip(shape) {
            let [part] = parts.as_slice() else {
                return Err(Fault::malformed(
                    format!("an original shape that fills {} blocks of shape {shape:?}", dump.format),
                    format!("{original:?}"),
                ));
            };
            match part {
                Part::Whole(axis) => extents.push((*axis, size)),
                Part::Block(axis) => {
                    let block = blocks.0.iter().find(|(one, _)| one == axis).map_or(1, |(_, size)| *size);
                    extents.push((*axis, size.saturating_mul(block)));
                }
                Part::Within(_) => {}
            }
        }
        // The order of PyTorch for named axes; rows before columns.
        let order = [Axis::N, Axis::C, Axis::D, Axis::H, Axis::W, Axis::Row, Axis::Column];
        extents.sort_by_key(|(axis, _)| order.iter().position(|one| one == axis).map_or(0, |at| at + 1));
        let text = format!(
            "the original shape {original:?} does not fill the stored {shape:?}: padding was not removed"
        );
        Ok(Source { spec, extents: Extents(extents), blocks, unsure: Some(text) })
    }

    fn unnamed(shape: &[usize]) -> Source {
        let axes = axes::unnamed(shape.len());
        let extents = Extents(axes.iter().copied().zip(shape.iter().copied()).collect());
        Source { spec: whole(&axes), extents, blocks: Blocks(Vec::new()), unsure: None }
    }

    fn axes(&self) -> Vec<Axis> {
        self.extents.0.iter().map(|(axis, _)| *axis).collect()
    }
}

/// The orders in which a framework may have had the axes, the likeliest first.
fn orders(rank: usize, origin: Option<Format>, target: Format) -> Vec<Vec<Axis>> {
    const KNOWN: [&str; 6] = ["NCHW", "NHWC", "HWCN", "NCDHW", "NDHWC", "DHWCN"];
    let known = KNOWN.iter().filter_map(|name| Format::from_name(name));
    let named = origin.into_iter().chain([target]).chain(known.filter(|_| origin.is_none()));
    let mut orders: Vec<Vec<Axis>> = Vec::new();
    for axes in named.filter_map(axes::plain).filter(|axes| axes.len() == rank) {
        if !orders.contains(&axes) {
            orders.push(axes);
        }
    }
    orders
}

/// The sizes of the blocks of a stored tensor.
fn stored_blocks(spec: &Spec, shape: &[usize]) -> Blocks {
    let within = |(parts, &size): (&Vec<Part>, &usize)| match parts.as_slice() {
        [Part::Within(axis)] => Some((*axis, size)),
        _ => None,
    };
    Blocks(spec.iter().zip(shape).filter_map(within).collect())
}
