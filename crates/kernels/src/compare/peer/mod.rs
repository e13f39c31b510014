//! The errors of two tensors in the arithmetic of the older tools, digit for digit.
//!
//! ```text
//! views ──► spans ──► blocks ──► both sides decoded to f32 or f64 ──► one loop ──► PeerErrors
//! ```
//! The older tools compute the relative error in a type that depends on how the tensors were stored. To divide by a
//! golden of zero, they add that type's epsilon to both sides. The results are an interface: reports are read and
//! compared across versions. The tools differ in the type, in when epsilon is added, and in which errors include
//! it: [`PeerArithmetic`] names the variants. The sums are ours: in f64 and in a fixed order.

mod half;
mod loops;

use ulpscope_tensor::{DType, Scalar, View};

use super::ShapeMismatch;
use super::blocks::{check_shapes, each_run};
use super::pair::{Width, decode};
use crate::blocks::{BLOCK, Reading, over_spans};
use crate::float_env::DefaultFloatEnv;
use crate::level::Level;
use loops::{Loop, Running};

/// How an older tool computes the relative error of two tensors.
///
/// All of them treat bf16 and 8-bit floats as f32, and integers and bool as f64; of complex numbers they use the real
/// part. In all of them, non-finite elements count as zero on both sides if their positions agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerArithmetic {
    /// In f32, or in f64 if either side is. Epsilon is that type's, and affects only the relative error.
    /// (msprobe 26.)
    Promoted,
    /// In the types as stored, including f16. Epsilon is that of golden's type. If golden has a float type, epsilon
    /// stays added and affects the other errors too. (msprobe 1.)
    Stored,
    /// The same, but before non-finite elements are set to zero: their relative error is NaN.
    /// (ptdbg 6.)
    StoredUnmasked,
    /// In f64 throughout, with its epsilon, which affects only the relative error. (ptdbg 4.)
    Double,
}

/// The errors of two tensors as an older tool computes them.
#[derive(Clone, Debug, PartialEq)]
pub struct PeerErrors {
    /// NaN or infinities, of any sign, are on one side at positions where the other side has none. The older tools
    /// then report nothing else, and the other fields are affected by the non-finite elements.
    pub mismatched: bool,
    /// Largest relative error; NaN if any is.
    pub max_rel: f64,
    /// Share of the elements with a relative error under 1/1000, the limit rounded like the errors; zero if there
    /// are none.
    pub under_1e3: f64,
    /// The same for 5/1000.
    pub under_5e3: f64,
    /// Largest absolute error.
    pub max_abs: f64,
    /// Sum of the products of both sides.
    pub dot: f64,
    /// L2 norm of the target.
    pub target_norm: f64,
    /// L2 norm of the golden.
    pub golden_norm: f64,
    /// L2 norm of the difference.
    pub euclid: f64,
}

/// The errors of two tensors in a given arithmetic, with the best instruction set of this machine.
pub fn peer_errors<'a>(
    target: &View<'_>,
    golden: &View<'_>,
    arithmetic: PeerArithmetic,
    reading: impl Into<Reading<'a>>,
) -> Result<PeerErrors, ShapeMismatch> {
    peer_errors_at(Level::best(), target, golden, arithmetic, reading)
}

/// [`peer_errors`] with a given instruction set; to show that the result does not depend on it.
pub fn peer_errors_at<'a>(
    level: Level,
    target: &View<'_>,
    golden: &View<'_>,
    arithmetic: PeerArithmetic,
    reading: impl Into<Reading<'a>>,
) -> Result<PeerErrors, ShapeMismatch> {
    check_shapes(target, golden)?;
    let _env = DefaultFloatEnv::enter();
    let rule = Rule::of(arithmetic, Stored::of(target.dtype()), Stored::of(golden.dtype()));
    let span = |range| {
        let _env = DefaultFloatEnv::enter();
        let mut walk =
            Walk { level, dtypes: (target.dtype(), golden.dtype()), rule, scratch: Scratch::default() };
        let mut running = Running::none();
        each_run(target, golden, range, |_, target, golden| walk.take(target, golden, &mut running));
        running
    };
    let running = over_spans(target.len(), reading, span, Running::merge);
    let share = |under: u64| if target.is_empty() { 0.0 } else { under as f64 / target.len() as f64 };
    Ok(PeerErrors {
        mismatched: running.mismatched,
        max_rel: if running.has_nan { f64::NAN } else { running.max_rel },
        under_1e3: share(running.under[0]),
        under_5e3: share(running.under[1]),
        max_abs: running.max_abs,
        dot: running.dot,
        target_norm: running.target_squares.sqrt(),
        golden_norm: running.golden_squares.sqrt(),
        euclid: running.difference_squares.sqrt(),
    })
}

/// A type of the older tools' arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Float {
    F16,
    F32,
    F64,
}

/// How the older tools store a tensor.
#[derive(Clone, Copy)]
struct Stored {
    float: Float,
    /// It is not a float, but is converted to one in a copy.
    converted: bool,
}

impl Stored {
    fn of(dtype: DType) -> Stored {
        let float = match dtype.numpy_code() {
            _ if !dtype.is_float() => return Stored { float: Float::F64, converted: true },
            Some(_) if dtype.size() == 2 => Float::F16,
            Some(_) if dtype.size() == 8 => Float::F64,
            // Floats that NumPy lacks are stored as binary32.
            Some(_) | None => Float::F32,
        };
        Stored { float, converted: false }
    }
}

/// An arithmetic for two given types.
#[derive(Clone, Copy)]
struct Rule {
    /// The type to which the sum of target and epsilon is rounded.
    target: Float,
    /// The type to which difference and quotient are rounded.
    result: Float,
    epsilon: f64,
    /// Epsilon stays added for the other errors.
    for_good: bool,
    unmasked: bool,
}

impl Rule {
    fn of(arithmetic: PeerArithmetic, target: Stored, golden: Stored) -> Rule {
        let promoted = target.float.max(golden.float);
        match arithmetic {
            PeerArithmetic::Promoted => Rule::passing(promoted.max(Float::F32)),
            PeerArithmetic::Double => Rule::passing(Float::F64),
            PeerArithmetic::Stored | PeerArithmetic::StoredUnmasked => {
                let unmasked = arithmetic == PeerArithmetic::StoredUnmasked;
                if golden.converted {
                    return Rule { unmasked, ..Rule::passing(Float::F64) };
                }
                let epsilon = golden.float.epsilon();
                Rule { target: target.float, result: promoted, epsilon, for_good: true, unmasked }
            }
        }
    }

    /// One type for everything, and an epsilon that is not kept.
    fn passing(float: Float) -> Rule {
        Rule { target: float, result: float, epsilon: float.epsilon(), for_good: false, unmasked: false }
    }
}

impl Float {
    fn epsilon(self) -> f64 {
        match self {
            Float::F16 => 1.0 / 1024.0,
            Float::F32 => f32::EPSILON.into(),
            Float::F64 => f64::EPSILON,
        }
    }
}

/// Reused memory of one thread: both sides of a block, decoded.
#[derive(Default)]
struct Scratch {
    target: Vec<u8>,
    golden: Vec<u8>,
}

struct Walk {
    level: Level,
    dtypes: (DType, DType),
    rule: Rule,
    scratch: Scratch,
}

impl Walk {
    /// Processes a packed run block by block.
    fn take(&mut self, target: &[u8], golden: &[u8], running: &mut Running) {
        let blocks =
            target.chunks(BLOCK * self.dtypes.0.size()).zip(golden.chunks(BLOCK * self.dtypes.1.size()));
        for (target, golden) in blocks {
            let block = match (self.rule.target, self.rule.result) {
                (Float::F16, Float::F16) => self.block::<f32, 16, 16>(target, golden),
                (Float::F16, Float::F32) => self.block::<f32, 16, 32>(target, golden),
                (_, Float::F16 | Float::F32) => self.block::<f32, 32, 32>(target, golden),
                (Float::F16, Float::F64) => self.block::<f64, 16, 64>(target, golden),
                (Float::F32, Float::F64) => self.block::<f64, 32, 64>(target, golden),
                (Float::F64, Float::F64) => self.block::<f64, 64, 64>(target, golden),
            };
            running.add(block);
        }
    }

    fn block<T: loops::Value, const TARGET: u32, const RESULT: u32>(
        &mut self,
        target: &[u8],
        golden: &[u8],
    ) -> Running {
        self.decode::<T>(target, golden);
        let Scratch { target, golden } = &self.scratch;
        let Rule { epsilon, for_good, unmasked, .. } = self.rule;
        let pairs = T::packed(target, golden);
        match (for_good, unmasked) {
            (false, false) => self.level.run(Loop::<T, TARGET, RESULT, false, false> { pairs, epsilon }),
            (false, true) => self.level.run(Loop::<T, TARGET, RESULT, false, true> { pairs, epsilon }),
            (true, false) => self.level.run(Loop::<T, TARGET, RESULT, true, false> { pairs, epsilon }),
            (true, true) => self.level.run(Loop::<T, TARGET, RESULT, true, true> { pairs, epsilon }),
        }
    }

    fn decode<T: Width>(&mut self, target: &[u8], golden: &[u8]) {
        for (dtype, block, out) in [
            (self.dtypes.0, target, &mut self.scratch.target),
            (self.dtypes.1, golden, &mut self.scratch.golden),
        ] {
            if dtype.is_complex() {
                decode_real_parts::<T>(dtype, block, out);
            } else {
                decode::<T>(self.level, (dtype, block), out);
            }
        }
    }
}

fn decode_real_parts<T: Width>(dtype: DType, block: &[u8], out: &mut Vec<u8>) {
    out.resize(block.len() / dtype.size() * T::SIZE, 0);
    for (element, out) in block.chunks_exact(dtype.size()).zip(out.chunks_exact_mut(T::SIZE)) {
        let real = match Scalar::read(dtype, element) {
            Scalar::Complex(real, _) => real,
            other => other.to_f64(),
        };
        T::from_lane(real).put(out);
    }
}
