//! How often each parameter of a module has got a gradient in a step: the number of the call that has it.

use std::collections::{BTreeMap, HashMap};

/// By the module's name, and by that of the parameter in it.
#[derive(Debug, Default)]
pub(crate) struct GradientCounts(BTreeMap<String, HashMap<String, u64>>);

impl GradientCounts {
    /// Counts a gradient; returns how many the parameter had before.
    pub(crate) fn next(&mut self, base: &str, parameter: &str) -> u64 {
        if !self.0.contains_key(base) {
            self.0.insert(base.to_owned(), HashMap::new());
        }
        let Some(counts) = self.0.get_mut(base) else { return 0 };
        match counts.get_mut(parameter) {
            Some(count) => {
                *count += 1;
                *count - 1
            }
            None => {
                counts.insert(parameter.to_owned(), 1);
                0
            }
        }
    }

    /// The first number that no parameter of a module has used.
    pub(crate) fn unused(&self, base: &str) -> u64 {
        self.0.get(base).and_then(|counts| counts.values().copied().max()).unwrap_or(0)
    }

    /// Adds those of a replayed graph, which were numbered from the unused one on.
    pub(crate) fn add(&mut self, replayed: &GradientCounts) {
        for (base, counts) in &replayed.0 {
            let unused = self.unused(base);
            let own = self.0.entry(base.clone()).or_default();
            own.extend(counts.iter().map(|(parameter, count)| (parameter.clone(), unused + count)));
        }
    }
}
