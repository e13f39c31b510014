//! What a launch of the kernel is given, in the layout of `statistics.cu`, and what it returns.

use ulpscope_kernels::{Digest, Stats};
use ulpscope_tensor::{DType, NumberKind, Scalar};

use crate::error::Error;

/// Tensors that one launch measures.
pub const MAX_TENSORS: usize = 16;

/// Tensors of a launch whose parameter is a quarter as long: the driver takes longer to pass a longer one.
pub const FEW_TENSORS: usize = 4;

/// Results of a captured graph that one launch copies.
pub(crate) const MAX_TAKEN: usize = 480;

/// The name of the kernel that copies them.
pub(crate) const TAKE: &str = "take_results";

/// Bytes of the partial results of one block, for any dtype.
pub const PARTIAL_BYTES: usize = 72;

pub(crate) const MAX_RANK: usize = 8;

/// Bytes that a thread reads at a time.
const GROUP: u64 = 16;

const THREADS: u64 = 256;

/// Groups per thread from which on a tensor gets more blocks, and the most blocks that it gets. Both are constants: the
/// order of sums depends on them. The end of a block takes as long as reading some groups does, so that few blocks with
/// more groups are faster: as many as an H200 runs at a time (benches/gpu/README.md).
const GROUPS_PER_THREAD: u64 = 16;
pub(crate) const MAX_BLOCKS: u64 = 512;

/// One tensor of a launch.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Tensor {
    address: u64,
    count: u64,
    shape: [u64; MAX_RANK],
    strides: [i64; MAX_RANK],
    partials: u64,
    finished: u64,
    result: u64,
    factors: [u32; MAX_RANK],
    shifts: [u8; MAX_RANK],
    rank: u32,
    first_block: u32,
    blocks: u32,
    is_whole: u32,
}

impl Tensor {
    /// A tensor at an address of the device, with strides in bytes.
    pub fn new(dtype: DType, address: u64, shape: &[usize], strides: &[isize]) -> Result<Tensor, Error> {
        let size = dtype.size() as u64;
        let count = shape.iter().map(|&dim| dim as u64).product::<u64>();
        let groups = count.div_ceil(GROUP / size);
        let blocks = groups.div_ceil(THREADS * GROUPS_PER_THREAD).clamp(1, MAX_BLOCKS) as u32;
        let mut tensor = Tensor { address, count, blocks, ..Tensor::default() };
        if count <= 1 || is_packed(dtype, shape, strides) {
            tensor.is_whole = u32::from(address.is_multiple_of(GROUP));
            return Ok(tensor);
        }
        let joined = joined(shape, strides);
        if joined.len() > MAX_RANK {
            return Err(Error::Rank(joined.len()));
        }
        tensor.rank = joined.len() as u32;
        if let Some((&(length, stride), outer)) = joined.split_last() {
            // The innermost elements are one behind the other, in whole groups, and all groups are aligned.
            let is_whole = stride == size as i64
                && (length * size).is_multiple_of(GROUP)
                && address.is_multiple_of(GROUP)
                && outer.iter().all(|(_, stride)| stride.unsigned_abs().is_multiple_of(GROUP));
            tensor.is_whole = is_whole.into();
        }
        for (dim, (length, stride)) in joined.into_iter().enumerate() {
            (tensor.shape[dim], tensor.strides[dim]) = (length, stride);
            (tensor.factors[dim], tensor.shifts[dim]) = divisor(length);
        }
        Ok(tensor)
    }

    /// The tensor with memory for its results: the addresses of [`PARTIAL_BYTES`] for each block, of 32 bits that are
    /// zero before and after, and of an [`Outcome`].
    pub fn with_memory(self, partials: u64, finished: u64, result: u64) -> Tensor {
        Tensor { partials, finished, result, ..self }
    }

    /// How many blocks it needs.
    pub fn blocks(&self) -> u32 {
        self.blocks
    }
}

/// Whether the elements are one behind the other in memory.
fn is_packed(dtype: DType, shape: &[usize], strides: &[isize]) -> bool {
    let mut packed = dtype.size() as isize;
    shape.iter().zip(strides).rev().all(|(&dim, &stride)| {
        let is_packed = dim == 1 || stride == packed;
        packed = packed.saturating_mul(dim as isize);
        is_packed
    })
}

/// The dimensions, outermost first, with those joined that are one behind the other in memory.
fn joined(shape: &[usize], strides: &[isize]) -> Vec<(u64, i64)> {
    let mut joined: Vec<(u64, i64)> = Vec::new();
    for (&dim, &stride) in shape.iter().zip(strides).filter(|(dim, _)| **dim != 1) {
        let (dim, stride) = (dim as u64, stride as i64);
        match joined.last_mut() {
            Some(last) if last.1 == stride * dim as i64 => *last = (last.0 * dim, stride),
            _ => joined.push((dim, stride)),
        }
    }
    joined
}

/// What divides by a length of at least two: the factor, and by how many bits the product is shifted. Exact for numbers
/// of 31 bits. Larger lengths are divided by, which takes several times as long.
fn divisor(length: u64) -> (u32, u8) {
    let shift = 31 + length.next_power_of_two().trailing_zeros();
    match (1u64.checked_shl(shift), length) {
        (Some(power), ..=0x7fff_ffff) => (power.div_ceil(length) as u32, shift as u8),
        _ => (0, 0),
    }
}

/// The parameter of the kernel.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Launch<const ROOM: usize = MAX_TENSORS> {
    tensors: [Tensor; ROOM],
    count: u32,
    has_digest: u32,
}

impl<const ROOM: usize> Launch<ROOM> {
    /// A launch for up to `ROOM` tensors of one dtype.
    pub fn new(tensors: impl IntoIterator<Item = Tensor>, has_digest: bool) -> Launch<ROOM> {
        let mut launch =
            Launch { tensors: [Tensor::default(); ROOM], count: 0, has_digest: has_digest.into() };
        let mut first_block = 0;
        for (place, tensor) in launch.tensors.iter_mut().zip(tensors) {
            *place = Tensor { first_block, ..tensor };
            first_block += tensor.blocks;
            launch.count += 1;
        }
        launch
    }

    /// How many blocks are launched.
    pub fn blocks(&self) -> u32 {
        self.tensors[..self.count as usize].iter().map(|tensor| tensor.blocks).sum()
    }
}

/// The parameter of the kernel that copies results.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taking {
    results: u64,
    slots: [u64; MAX_TAKEN],
    count: u32,
}

impl Taking {
    /// Copies results, one behind the other from an address on, to up to [`MAX_TAKEN`] slots.
    pub(crate) fn new(results: u64, slots: impl IntoIterator<Item = u64>) -> Taking {
        let mut taking = Taking { results, slots: [0; MAX_TAKEN], count: 0 };
        for (place, slot) in taking.slots.iter_mut().zip(slots) {
            *place = slot;
            taking.count += 1;
        }
        taking
    }
}

/// The name of the kernel for a dtype.
pub fn function_name(dtype: DType) -> Result<String, Error> {
    match torch_name(dtype) {
        Some(name) => Ok(format!("statistics_{name}")),
        None => Err(Error::Dtype(dtype)),
    }
}

/// The name of the kernel for [`FEW_TENSORS`] of a dtype, if it has one.
pub fn name_for_few(dtype: DType) -> Option<String> {
    let has_one = matches!(dtype, DType::F32 | DType::F16 | DType::BF16);
    has_one.then(|| function_name(dtype).ok()).flatten().map(|name| name + "_few")
}

/// Whether there is a kernel for a dtype.
pub(crate) fn has_function(dtype: DType) -> bool {
    torch_name(dtype).is_some()
}

fn torch_name(dtype: DType) -> Option<&'static str> {
    dtype.printed_name().strip_prefix("torch.")
}

/// What the kernel writes for a tensor.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    sum: f64,
    squares: f64,
    largest: u64,
    smallest: u64,
    nan: u64,
    pos_inf: u64,
    neg_inf: u64,
    zeros: u64,
    digest: u64,
    /// Not zero when the rest is there.
    pub done: u64,
}

impl Outcome {
    /// The digest of the elements, as the host computes it; meaningless if the launch had none.
    pub fn digest(&self) -> Digest {
        Digest::Mix64(self.digest)
    }

    /// The statistics of a tensor of this dtype and number of elements, all of which occur `repeats` times. Subnormals
    /// are not counted.
    pub fn stats(&self, dtype: DType, count: u64, repeats: u64) -> Stats {
        let [nan, pos_inf, neg_inf, zeros] =
            [self.nan, self.pos_inf, self.neg_inf, self.zeros].map(|number| number * repeats);
        let count = count * repeats;
        let has_finite = nan + pos_inf + neg_inf < count;
        let scalar = |bits: u64| {
            has_finite.then(|| match dtype.encoding().kind() {
                NumberKind::Bool => Scalar::Bool(bits != 0),
                NumberKind::Signed => Scalar::Int((bits as i64).into()),
                NumberKind::Unsigned => Scalar::Int(bits.into()),
                // Adding zero turns -0.0 into zero, as on the host.
                NumberKind::Float | NumberKind::Complex => Scalar::Float(f64::from_bits(bits) + 0.0),
            })
        };
        let extreme = |finite: Option<Scalar>, this: (u64, f64), other: f64| match () {
            () if count == 0 => None,
            () if nan > 0 => Some(Scalar::Float(f64::NAN)),
            () if this.0 > 0 => Some(Scalar::Float(this.1)),
            () => finite.or(Some(Scalar::Float(other))),
        };
        let canonical = |value: f64| if value.is_nan() { f64::NAN } else { value };
        let (finite_max, finite_min) = (scalar(self.largest), scalar(self.smallest));
        Stats {
            count,
            max: extreme(finite_max, (pos_inf, f64::INFINITY), f64::NEG_INFINITY),
            min: extreme(finite_min, (neg_inf, f64::NEG_INFINITY), f64::INFINITY),
            mean: (count > 0).then(|| canonical(self.sum * repeats as f64 / count as f64)),
            norm: canonical((self.squares * repeats as f64).sqrt()),
            nan,
            pos_inf,
            neg_inf,
            zeros,
            subnormals: 0,
            finite_max,
            finite_min,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_product_and_a_shift_divide() {
        const LARGEST: u64 = (1 << 31) - 1;
        for length in [2, 3, 5, 7, 64, 1023, 50257, 65_537, 1 << 20, (1 << 30) + 1, LARGEST - 1, LARGEST] {
            let (factor, shift) = divisor(length);
            for number in
                [0, 1, length - 1, length, length + 1, 7 * length - 1, 7 * length, LARGEST - 1, LARGEST]
            {
                let number = number.min(LARGEST);
                assert_eq!((number * u64::from(factor)) >> shift, number / length, "{number} / {length}");
            }
        }
        assert_eq!(divisor(1 << 40), (0, 0));
    }
}
