//! Splits two views into blocks of pairs and runs the loops on them.

use ulpscope_tensor::{DType, View};

use super::distances::RunningDistances;
use super::errors::{BlockErrors, RunningErrors};
use super::exponents::Exponents;
use super::pair::{Form, Masked, Packed, PairBlock, Quad, Scratch, decode, decode_quads};
use super::thresholds::Thresholds;
use super::ulp::Distances;
use super::{ShapeMismatch, Tolerance};
use crate::blocks::{BLOCK, Reading, over_spans};
use crate::float_env::DefaultFloatEnv;
use crate::lanes::{self, Source, prefetch};
use crate::level::{Kernel, Level};

/// The results of a range of blocks.
pub(super) struct Running {
    pub(super) distances: RunningDistances,
    pub(super) errors: Option<RunningErrors>,
    pub(super) equal: bool,
}

impl Running {
    fn merge(self, next: Running) -> Running {
        Running {
            distances: self.distances.merge(next.distances),
            errors: self.errors.zip(next.errors).map(|(mine, more)| mine.merge(more)),
            equal: self.equal && next.equal,
        }
    }
}

/// What to measure beside the distances.
#[derive(Clone, Copy)]
pub(super) struct Errors {
    /// The tolerance of the errors.
    pub(super) tolerance: Tolerance,
    /// Whether to count them by exponent. On small tensors that takes as long as everything else.
    pub(super) with_exponents: bool,
}

/// Walks two views of equal shape and, if requested, measures the errors.
pub(super) fn run(
    level: Level,
    target: &View<'_>,
    golden: &View<'_>,
    errors: Option<Errors>,
    reading: Reading<'_>,
) -> Result<Running, ShapeMismatch> {
    check_shapes(target, golden)?;
    let dtypes = (target.dtype(), golden.dtype());
    let form = Form::of(dtypes.0, dtypes.1);
    let tolerance = errors.map(|errors| errors.tolerance);
    let span = |range: std::ops::Range<usize>| {
        let _env = DefaultFloatEnv::enter();
        let mut running = Running {
            distances: RunningDistances::none(),
            errors: errors.map(|errors| RunningErrors::none(errors.with_exponents)),
            equal: dtypes.0 == dtypes.1,
        };
        let mut scratch = Scratch::new();
        each_run(target, golden, range, |start, target, golden| {
            let walk = Walk { level, form, dtypes, tolerance, scratch: &mut scratch, running: &mut running };
            walk.take(start, target, golden);
        });
        running
    };
    Ok(over_spans(target.len(), reading, span, Running::merge))
}

pub(super) fn check_shapes(target: &View<'_>, golden: &View<'_>) -> Result<(), ShapeMismatch> {
    if target.shape() == golden.shape() {
        Ok(())
    } else {
        Err(ShapeMismatch { target: target.shape().to_vec(), golden: golden.shape().to_vec() })
    }
}

/// Calls `with` for packed runs that together cover the range: the whole range if both views are packed,
/// gathered blocks if one is not.
pub(super) fn each_run(
    target: &View<'_>,
    golden: &View<'_>,
    range: std::ops::Range<usize>,
    mut with: impl FnMut(usize, &[u8], &[u8]),
) {
    let (target_size, golden_size) = (target.dtype().size(), golden.dtype().size());
    if let (Some(target), Some(golden)) = (target.as_packed(), golden.as_packed()) {
        let part = |size: usize| range.start * size..range.end * size;
        return with(range.start, &target[part(target_size)], &golden[part(golden_size)]);
    }
    let mut target_block = vec![0; BLOCK.min(range.len()) * target_size];
    let mut golden_block = vec![0; BLOCK.min(range.len()) * golden_size];
    for start in range.clone().step_by(BLOCK) {
        let count = BLOCK.min(range.end - start);
        target.gather(start, &mut target_block[..count * target_size]);
        golden.gather(start, &mut golden_block[..count * golden_size]);
        with(start, &target_block[..count * target_size], &golden_block[..count * golden_size]);
    }
}

/// Decodes the range into blocks of quads, for passes that need simplicity more than speed.
pub(super) fn each_quad_block(
    target: &View<'_>,
    golden: &View<'_>,
    range: std::ops::Range<usize>,
    mut with: impl FnMut(usize, &[Quad]),
) {
    let dtypes = (target.dtype(), golden.dtype());
    let form = Form::of(dtypes.0, dtypes.1);
    let level = Level::best();
    let Scratch { target: target_copy, golden: golden_copy, quads, .. } = &mut Scratch::new();
    each_run(target, golden, range, |start, target, golden| {
        let blocks = target.chunks(BLOCK * dtypes.0.size()).zip(golden.chunks(BLOCK * dtypes.1.size()));
        for (index, (target, golden)) in blocks.enumerate() {
            if form == Form::Quad {
                decode_quads((dtypes.0, target), (dtypes.1, golden), quads);
            } else {
                decode::<f64>(level, (dtypes.0, target), target_copy);
                decode::<f64>(level, (dtypes.1, golden), golden_copy);
                quads.clear();
                Packed { source: lanes::F64, target: target_copy, golden: golden_copy }
                    .each::<false>(|_, quad| quads.push(quad));
            }
            with(start + index * BLOCK, quads);
        }
    });
}

/// The state of a walk over a run of pairs.
struct Walk<'a> {
    level: Level,
    form: Form,
    dtypes: (DType, DType),
    tolerance: Option<Tolerance>,
    scratch: &'a mut Scratch,
    running: &'a mut Running,
}

impl Walk<'_> {
    /// Processes a packed run block by block.
    fn take(self, start: usize, target: &[u8], golden: &[u8]) {
        let (target_dtype, golden_dtype) = self.dtypes;
        let Scratch { target: target_copy, golden: golden_copy, quads, masked, exponents } = self.scratch;
        let blocks =
            target.chunks(BLOCK * target_dtype.size()).zip(golden.chunks(BLOCK * golden_dtype.size()));
        for (index, (target, golden)) in blocks.enumerate() {
            let mut block = Block {
                level: self.level,
                dtypes: self.dtypes,
                target,
                golden,
                start: (start + index * BLOCK) as u64,
                tolerance: self.tolerance,
                running: &mut *self.running,
            };
            match self.form {
                Form::F32 => block.narrow(Packed { source: lanes::F32, target, golden }, masked, exponents),
                Form::BF16 => block.narrow(Packed { source: lanes::BF16, target, golden }, masked, exponents),
                Form::F16 => block.narrow(Packed { source: lanes::F16, target, golden }, masked, exponents),
                Form::F64 => block.wide(Packed { source: lanes::F64, target, golden }, masked),
                Form::Narrow => {
                    decode::<f32>(self.level, (target_dtype, target), target_copy);
                    decode::<f32>(self.level, (golden_dtype, golden), golden_copy);
                    let pairs = Packed { source: lanes::F32, target: target_copy, golden: golden_copy };
                    block.narrow(pairs, masked, exponents);
                }
                Form::Wide => {
                    decode::<f64>(self.level, (target_dtype, target), target_copy);
                    decode::<f64>(self.level, (golden_dtype, golden), golden_copy);
                    block.wide(
                        Packed { source: lanes::F64, target: target_copy, golden: golden_copy },
                        masked,
                    );
                }
                Form::Quad => {
                    decode_quads((target_dtype, target), (golden_dtype, golden), quads);
                    block.quads(quads);
                }
            }
        }
    }
}

/// One block of pairs as stored in the tensors, and the destination of its results.
struct Block<'a> {
    level: Level,
    dtypes: (DType, DType),
    target: &'a [u8],
    golden: &'a [u8],
    start: u64,
    tolerance: Option<Tolerance>,
    running: &'a mut Running,
}

impl Block<'_> {
    fn narrow<S: Source<Value = f32>>(
        &mut self,
        pairs: Packed<'_, S>,
        masked: &mut Masked,
        exponents: &mut Exponents,
    ) {
        let same = self.is_same();
        let distances = &mut self.running.distances;
        if same && distances.add_same(self.level, pairs) {
            return;
        }
        let wanted = self.tolerance.map(|tolerance| {
            let so_far = self.running.errors.as_ref().map_or(0.0, |errors| errors.max_relative_excess);
            Thresholds::new(tolerance, so_far)
        });
        let counts = self.running.errors.as_ref().is_some_and(|errors| errors.buckets.is_some());
        let mut exponents = counts.then_some(exponents);
        let added = distances.add_narrow(self.level, pairs, self.start, wanted, exponents.as_deref_mut());
        if let Some(errors) = added {
            self.look_closer_narrow(pairs, same, errors, exponents);
            return;
        }
        let pairs = distances.mask(pairs, lanes::F32, self.start, masked);
        let errors = distances.add_narrow(self.level, pairs, self.start, wanted, exponents.as_deref_mut());
        self.look_closer_narrow(pairs, same, errors.expect("masked"), exponents);
    }

    fn wide(&mut self, pairs: Packed<'_, lanes::F64>, masked: &mut Masked) {
        let same = self.is_same();
        let (level, start) = (self.level, self.start);
        let distances = &mut self.running.distances;
        if same && distances.add_same(level, pairs) {
            return;
        }
        let with_errors = self.tolerance.is_some() && !same;
        if let Some(errors) = distances.add_wide(level, pairs, start, with_errors) {
            self.look_closer(pairs, same, errors);
            return;
        }
        let pairs = distances.mask(pairs, lanes::F64, start, masked);
        let errors = distances.add_masked(level, pairs, start, with_errors);
        self.look_closer(pairs, same, errors);
    }

    fn quads(&mut self, quads: &mut [Quad]) {
        let same = self.is_same();
        let with_errors = self.tolerance.is_some() && !same;
        let errors = self.running.distances.add_quads(self.level, quads, self.start, with_errors);
        self.look_closer(&*quads, same, errors);
    }

    /// Whether both sides have the same dtype and bits. If not, the tensors are not equal.
    fn is_same(&mut self) -> bool {
        let same = self.dtypes.0 == self.dtypes.1 && self.level.run(SameBytes(self.target, self.golden));
        self.running.equal &= same;
        same
    }

    /// Adds the errors of a block that has some, if there is a tolerance.
    fn look_closer<P: PairBlock>(&mut self, pairs: P, same: bool, block: BlockErrors) {
        if let (Some(tolerance), Some(errors), false) = (self.tolerance, &mut self.running.errors, same) {
            errors.add(self.level, pairs, block, tolerance);
            if let Some(buckets) = &mut errors.buckets {
                buckets.add_pairs(self.level, pairs);
            }
            self.add_ulp(block);
        }
    }

    /// The same for narrow pairs, which have bytes of exponents.
    fn look_closer_narrow<S: Source<Value = f32>>(
        &mut self,
        pairs: Packed<'_, S>,
        same: bool,
        block: BlockErrors,
        exponents: Option<&mut Exponents>,
    ) {
        if let (Some(tolerance), Some(errors), false) = (self.tolerance, &mut self.running.errors, same) {
            errors.add_short(self.level, pairs, block, tolerance);
            if let (Some(buckets), Some(exponents)) = (&mut errors.buckets, exponents) {
                buckets.add_bytes(self.level, pairs, exponents, block);
            }
            self.add_ulp(block);
        }
    }

    /// Adds the distances in units in the last place, which exist only within one dtype. The lean loop measures
    /// those of f32. If it treated a different dtype as f32, that result is meaningless.
    fn add_ulp(&mut self, block: BlockErrors) {
        let (Some(errors), true) = (&mut self.running.errors, self.dtypes.0 == self.dtypes.1) else { return };
        errors.ulp.add(if self.dtypes.0 == DType::F32 {
            block.ulp
        } else {
            self.level.run(Distances { dtype: self.dtypes.0, target: self.target, golden: self.golden })
        });
    }
}

/// Whether two byte ranges are equal. Unlike a plain comparison it prefetches memory.
struct SameBytes<'a>(&'a [u8], &'a [u8]);

impl Kernel for SameBytes<'_> {
    type Output = bool;

    #[inline(always)]
    fn run<const FMA: bool>(self) -> bool {
        const LINE: usize = 64;
        const LINES: usize = 16;
        // Tensors that differ mostly do so from the start: the first few lines then decide.
        self.0.chunks(LINE * LINES).zip(self.1.chunks(LINE * LINES)).all(|(a, b)| {
            let (lines_a, tail_a) = a.as_chunks::<LINE>();
            let (lines_b, tail_b) = b.as_chunks::<LINE>();
            let mut different = [0u8; LINE];
            for (line_a, line_b) in lines_a.iter().zip(lines_b) {
                prefetch(line_a);
                prefetch(line_b);
                for ((byte, a), b) in different.iter_mut().zip(line_a).zip(line_b) {
                    *byte |= a ^ b;
                }
            }
            different == [0; LINE] && tail_a == tail_b
        })
    }
}
