//! What is compared depends on what the dumps hold.

use rayon::prelude::*;
use ulpscope_dump::{Content, Rank, Task};

/// What is compared of each pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// The elements.
    Real,
    /// Max, min, mean, norm.
    Statistics,
    /// Digests.
    Digests,
}

/// Calls searched together for the first digest.
const BATCH: usize = 64;

/// Tensors without a digest after which a dump counts as one without: the tool gives one to every tensor or to none.
const ENOUGH: usize = 1000;

impl Mode {
    /// The mode for two dumps. If they hold different data, both have statistics.
    pub(crate) fn of(target: &Rank, golden: &Rank) -> Mode {
        match (target.task, golden.task) {
            (Task::Tensor, Task::Tensor) => Mode::Real,
            (Task::Statistics, Task::Statistics) if has_digests(target) && has_digests(golden) => {
                Mode::Digests
            }
            _ => Mode::Statistics,
        }
    }
}

/// Notes if the dumps hold different data; the tool itself would stop.
pub(crate) fn fallback(target: &Rank, golden: &Rank) -> Vec<String> {
    if target.task == golden.task {
        return Vec::new();
    }
    let tasks = format!("target's task is {}, golden's is {}", target.task, golden.task);
    vec![format!("{tasks}: statistics are compared, where msprobe would refuse")]
}

fn has_digests(rank: &Rank) -> bool {
    let calls = rank.calls().len();
    let mut seen = 0;
    for start in (0..calls).step_by(BATCH) {
        let found: Vec<(usize, bool)> =
            (start..calls.min(start + BATCH)).into_par_iter().map(|call| digests_in(rank, call)).collect();
        if found.iter().any(|&(_, digest)| digest) {
            return true;
        }
        seen += found.iter().map(|&(tensors, _)| tensors).sum::<usize>();
        if seen >= ENOUGH {
            return false;
        }
    }
    false
}

/// How many tensors a call has, and whether one of them has a digest.
fn digests_in(rank: &Rank, call: usize) -> (usize, bool) {
    let entries = rank.entries(call).unwrap_or_default();
    let tensors = entries.iter().filter_map(|entry| match &entry.content {
        Content::Tensor(tensor) => Some(tensor.digest.is_some()),
        _ => None,
    });
    tensors.fold((0, false), |(count, any), digest| (count + 1, any || digest))
}
