//! What a call takes and gives, as one number: the shapes of its tensors, in order.
//!
//! The dtype is left out, so that a run in bf16 pairs with one in fp32. So are plain values, which tools describe
//! differently, and parameters, which older releases do not record.

use std::hash::{DefaultHasher, Hash, Hasher};

use rayon::prelude::*;
use ulpscope_dump::{Content, Entry, Rank, Role};

/// The signature of calls whose entries cannot be read.
const UNREADABLE: u64 = 0;

/// The signature of a call.
pub(super) fn of(rank: &Rank, call: usize) -> u64 {
    rank.entries(call).map_or(UNREADABLE, |entries| of_entries(&entries))
}

/// The signatures of all calls of a rank.
pub(super) fn of_all(rank: &Rank) -> Vec<u64> {
    (0..rank.calls().len()).into_par_iter().map(|call| of(rank, call)).collect()
}

fn of_entries(entries: &[Entry]) -> u64 {
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
        }
    }
    hasher.finish()
}
