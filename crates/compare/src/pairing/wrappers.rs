//! Modules wrapped on one side only: `Module.module.blocks.0.fc.Linear` and `Module.blocks.0.fc.Linear`.
//!
//! Data-parallel and mixed-precision wrappers add a word before every path of a model; compilers and checkpointing add
//! one inside. The inner words are known. The outer one may be any attribute of the user's, so it is found by trial:
//! the prefix whose removal makes most paths of one side match those of the other.

use std::collections::{BTreeMap, BTreeSet};

use crate::style::Side;

/// Words that `torch.compile`, FSDP and activation checkpointing add inside paths.
const INNER: [&str; 3] = ["_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"];

/// The deepest nesting of wrappers.
const MAX_DEPTH: usize = 4;

/// The words before all paths of one side, with their final dot; empty for none.
#[derive(Debug, Default)]
pub(crate) struct Wrappers {
    target: String,
    golden: String,
}

impl Wrappers {
    /// Examines the paths of all modules, without their first word `Module` and with their class.
    pub(crate) fn of<'a>(
        target: impl Iterator<Item = &'a str>,
        golden: impl Iterator<Item = &'a str>,
    ) -> Wrappers {
        let target: BTreeSet<String> = target.map(without_inner).collect();
        let golden: BTreeSet<String> = golden.map(without_inner).collect();
        let unwrapped = target.intersection(&golden).count();
        let (in_target, target_gain) = best_prefix(&target, &golden);
        let (in_golden, golden_gain) = best_prefix(&golden, &target);
        if target_gain.max(golden_gain) <= unwrapped {
            Wrappers::default()
        } else if target_gain >= golden_gain {
            Wrappers { target: in_target, golden: String::new() }
        } else {
            Wrappers { target: String::new(), golden: in_golden }
        }
    }

    /// A path without its wrappers.
    pub(crate) fn unwrap(&self, side: Side, path: &str) -> String {
        let path = without_inner(path);
        let prefix = match side {
            Side::Target => &self.target,
            Side::Golden => &self.golden,
        };
        match path.strip_prefix(prefix.as_str()) {
            Some(rest) => rest.to_owned(),
            None => path,
        }
    }
}

fn without_inner(path: &str) -> String {
    let parts: Vec<&str> = path.split('.').filter(|part| !INNER.contains(part)).collect();
    parts.join(".")
}

/// The prefix whose removal puts most of `ours` into `theirs`, and how many.
fn best_prefix(ours: &BTreeSet<String>, theirs: &BTreeSet<String>) -> (String, usize) {
    let mut gains: BTreeMap<&str, usize> = BTreeMap::new();
    for path in ours {
        for (dot, _) in path.match_indices('.').take(MAX_DEPTH) {
            if theirs.contains(&path[dot + 1..]) {
                *gains.entry(&path[..=dot]).or_default() += 1;
            }
        }
    }
    // Of equals the shortest: it removes least.
    let best = gains.into_iter().max_by_key(|(prefix, gain)| (*gain, std::cmp::Reverse(prefix.len())));
    best.map_or((String::new(), 0), |(prefix, gain)| (prefix.to_owned(), gain))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wrapped_side_is_unwrapped() {
        let plain = ["tok.Embedding", "blocks.0.Block", "blocks.0.fc.Linear"];
        let wrapped =
            ["module.GPT", "module.tok.Embedding", "module.blocks.0.Block", "module.blocks.0.fc.Linear"];
        let wrappers = Wrappers::of(plain.into_iter(), wrapped.into_iter());
        assert_eq!(wrappers.unwrap(Side::Golden, "module.blocks.0.fc.Linear"), "blocks.0.fc.Linear");
        assert_eq!(wrappers.unwrap(Side::Target, "module.blocks.0.fc.Linear"), "module.blocks.0.fc.Linear");
        assert_eq!(wrappers.unwrap(Side::Target, "_orig_mod.tok.Embedding"), "tok.Embedding");
    }

    #[test]
    fn equal_paths_are_left_alone() {
        let paths = ["module.module.fc.Linear", "module.fc.Linear"];
        let wrappers = Wrappers::of(paths.into_iter(), paths.into_iter());
        assert_eq!(wrappers.unwrap(Side::Target, "module.fc.Linear"), "module.fc.Linear");
    }
}
