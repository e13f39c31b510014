//! The inputs and outputs of a call: the shapes of its tensors, in order, as one number.
//!
//! The dtype is left out, so that a run in bf16 pairs with one in fp32. So are scalars, which tools describe
//! differently, and parameters, which older releases do not record.

use std::hash::{DefaultHasher, Hash, Hasher};

use rayon::prelude::*;
use ulpscope_dump::{Content, Entry, Rank, Role};
use ulpscope_formats::json::Json;

/// The signature of a call. All calls whose entries cannot be read have the same one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Signature {
    shapes: u64,
    /// Whether the dump says that the call is a recomputation for the backward pass.
    pub(super) is_recompute: bool,
}

/// The signature of a call.
pub(super) fn of(rank: &Rank, call: usize) -> Signature {
    rank.entries(call).map_or(Signature::default(), |entries| of_entries(&entries))
}

/// The signatures of all calls of a rank.
pub(super) fn of_all(rank: &Rank) -> Vec<Signature> {
    (0..rank.calls().len()).into_par_iter().map(|call| of(rank, call)).collect()
}

/// Whether two calls recorded the same statistics or digests for all their results, and at least one.
pub(super) fn same_results(target: &Rank, target_call: usize, golden: &Rank, golden_call: usize) -> bool {
    let results = |rank: &Rank, call| -> Option<Vec<_>> {
        let mut found = Vec::new();
        for entry in rank.entries(call).ok()? {
            if let (Role::Output, Content::Tensor(tensor)) = (entry.role, entry.content) {
                found.push((tensor.stats, tensor.digest));
            }
        }
        let recorded =
            |(stats, digest): &([Json; 4], Option<String>)| digest.is_some() || stats[0] != Json::Null;
        found.iter().any(recorded).then_some(found)
    };
    match (results(target, target_call), results(golden, golden_call)) {
        (Some(target), Some(golden)) => target == golden,
        _ => false,
    }
}

fn of_entries(entries: &[Entry]) -> Signature {
    let mut is_recompute = false;
    let mut hasher = DefaultHasher::new();
    for entry in entries {
        let side = match entry.role {
            Role::Input => 0u8,
            Role::Output => 1,
            Role::ParameterGrad | Role::Saved => 2,
            Role::Parameter => continue,
        };
        if let Content::Tensor(tensor) = &entry.content {
            (side, &tensor.shape).hash(&mut hasher);
            is_recompute |= tensor.recompute;
        }
    }
    Signature { shapes: hasher.finish(), is_recompute }
}
