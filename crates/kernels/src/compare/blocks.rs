//! From two views to blocks of pairs, and through the loops.

use ulpscope_tensor::{DType, View};

use super::distances::RunningDistances;
use super::errors::RunningErrors;
use super::pair::{Form, Masked, Packed, PairBlock, Quad, Scratch, decode, decode_quads};
use super::ulp::Distances;
use super::{ShapeMismatch, Tolerance};
use crate::blocks::{BLOCK, Threads, over_spans};
use crate::float_env::DefaultFloatEnv;
use crate::lanes::{self, Source};
use crate::level::Level;

/// What is known after some run of blocks.
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

/// Walks two views of equal shape; with a tolerance, the errors are measured too.
pub(super) fn run(
    level: Level,
    target: &View<'_>,
    golden: &View<'_>,
    tolerance: Option<Tolerance>,
    threads: Threads,
) -> Result<Running, ShapeMismatch> {
    check_shapes(target, golden)?;
    let dtypes = (target.dtype(), golden.dtype());
    let form = Form::of(dtypes.0, dtypes.1);
    let span = |range: std::ops::Range<usize>| {
        let _env = DefaultFloatEnv::enter();
        let mut running = Running {
            distances: RunningDistances::none(),
            errors: tolerance.map(|_| RunningErrors::none()),
            equal: dtypes.0 == dtypes.1,
        };
        let mut scratch = Scratch::default();
        each_run(target, golden, range, |start, target, golden| {
            let walk = Walk { level, form, dtypes, tolerance, scratch: &mut scratch, running: &mut running };
            walk.take(start, target, golden);
        });
        running
    };
    Ok(over_spans(target.len(), threads, span, Running::merge))
}

pub(super) fn check_shapes(target: &View<'_>, golden: &View<'_>) -> Result<(), ShapeMismatch> {
    if target.shape() == golden.shape() {
        Ok(())
    } else {
        Err(ShapeMismatch { target: target.shape().to_vec(), golden: golden.shape().to_vec() })
    }
}

/// Calls `with` for packed runs that together make up the range: the whole of it where both views are packed,
/// gathered blocks where one is not.
fn each_run(
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

/// Decodes the range into blocks of quads, for passes where convenience matters more than speed.
pub(super) fn each_quad_block(
    target: &View<'_>,
    golden: &View<'_>,
    range: std::ops::Range<usize>,
    mut with: impl FnMut(usize, &[Quad]),
) {
    let dtypes = (target.dtype(), golden.dtype());
    let form = Form::of(dtypes.0, dtypes.1);
    let Scratch { target: target_copy, golden: golden_copy, quads, .. } = &mut Scratch::default();
    each_run(target, golden, range, |start, target, golden| {
        let blocks = target.chunks(BLOCK * dtypes.0.size()).zip(golden.chunks(BLOCK * dtypes.1.size()));
        for (index, (target, golden)) in blocks.enumerate() {
            if form == Form::Quad {
                decode_quads((dtypes.0, target), (dtypes.1, golden), quads);
            } else {
                decode::<f64>(dtypes.0, target, target_copy);
                decode::<f64>(dtypes.1, golden, golden_copy);
                quads.clear();
                Packed { source: lanes::F64, target: target_copy, golden: golden_copy }
                    .each(|_, quad| quads.push(quad));
            }
            with(start + index * BLOCK, quads);
        }
    });
}

/// What it takes to walk a run of pairs.
struct Walk<'a> {
    level: Level,
    form: Form,
    dtypes: (DType, DType),
    tolerance: Option<Tolerance>,
    scratch: &'a mut Scratch,
    running: &'a mut Running,
}

impl Walk<'_> {
    /// Takes a packed run block by block.
    fn take(self, start: usize, target: &[u8], golden: &[u8]) {
        let (target_dtype, golden_dtype) = self.dtypes;
        let Scratch { target: target_copy, golden: golden_copy, quads, masked } = self.scratch;
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
                Form::F32 => block.narrow(Packed { source: lanes::F32, target, golden }, masked),
                Form::BF16 => block.narrow(Packed { source: lanes::BF16, target, golden }, masked),
                Form::F16 => block.narrow(Packed { source: lanes::F16, target, golden }, masked),
                Form::F64 => block.wide(Packed { source: lanes::F64, target, golden }, masked),
                Form::Narrow => {
                    decode::<f32>(target_dtype, target, target_copy);
                    decode::<f32>(golden_dtype, golden, golden_copy);
                    block.narrow(
                        Packed { source: lanes::F32, target: target_copy, golden: golden_copy },
                        masked,
                    );
                }
                Form::Wide => {
                    decode::<f64>(target_dtype, target, target_copy);
                    decode::<f64>(golden_dtype, golden, golden_copy);
                    block.wide(
                        Packed { source: lanes::F64, target: target_copy, golden: golden_copy },
                        masked,
                    );
                }
                Form::Quad => {
                    decode_quads((target_dtype, target), (golden_dtype, golden), quads);
                    let added = block.running.distances.add_quads(block.level, quads, block.start);
                    block.look_closer(&quads[..], added.differs);
                }
            }
        }
    }
}

/// One block of pairs as it lies in the tensors, and where its results go.
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
    fn narrow<S: Source<Value = f32>>(&mut self, pairs: Packed<'_, S>, masked: &mut Masked) {
        let added = self.running.distances.add_narrow(self.level, pairs, self.start, masked);
        if added.masked {
            self.look_closer(masked.pairs(lanes::F32), added.differs);
        } else {
            self.look_closer(pairs, added.differs);
        }
    }

    fn wide(&mut self, pairs: Packed<'_, lanes::F64>, masked: &mut Masked) {
        let added = self.running.distances.add_wide(self.level, pairs, self.start, masked);
        self.look_closer(if added.masked { masked.pairs(lanes::F64) } else { pairs }, added.differs);
    }

    /// Tells whether the block is bit-equal, and if it is not and a tolerance is given, measures its errors.
    fn look_closer<P: PairBlock>(&mut self, pairs: P, differs: bool) {
        let same_dtype = self.dtypes.0 == self.dtypes.1;
        let same = same_dtype && !differs && self.target == self.golden;
        self.running.equal &= same;
        if let (Some(tolerance), Some(errors), false) = (self.tolerance, &mut self.running.errors, same) {
            errors.add(self.level, pairs, tolerance);
            if same_dtype {
                let distances = Distances { dtype: self.dtypes.0, target: self.target, golden: self.golden };
                errors.ulp.add(self.level.run(distances));
            }
        }
    }
}
