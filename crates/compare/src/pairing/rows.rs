//! Pairs of calls as pairs of rows, for styles that join rows by name.

use rayon::prelude::*;
use ulpscope_dump::Rank;

use super::{EntryUnit, PairOptions, Unit, pair, pair_entries};

/// Names of the target's rows and their golden rows, in the target's order; and notes.
pub(crate) fn row_pairs(
    target: &Rank,
    golden: &Rank,
    options: &PairOptions,
) -> (Vec<(String, String)>, Vec<String>) {
    let pairing = pair(target, golden, options);
    let rows = |unit: &Unit| -> Vec<(String, String)> {
        let Unit::Pair(pair) = unit else { return Vec::new() };
        // Read errors are reported when the call is compared.
        let (Ok(ours), Ok(theirs)) = (target.entries(pair.target), golden.entries(pair.golden)) else {
            return Vec::new();
        };
        let units = pair_entries(&ours, &theirs, &options.mapping);
        let names = units.into_iter().filter_map(|unit| match unit {
            EntryUnit::Pair(pair) => Some((pair.target.name.clone(), pair.golden.name.clone())),
            _ => None,
        });
        names.collect()
    };
    let rows = pairing.units.par_iter().flat_map_iter(rows).collect();
    (rows, pairing.notes)
}
