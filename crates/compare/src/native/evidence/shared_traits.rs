//! Values of which millions of entries have the same few: each is stored once.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

/// Threads that store values without waiting for one another.
const SHARDS: usize = 16;

/// Stored values. Each thread may store one of its own, so that threads do not wait: a few values become a few more.
#[derive(Debug)]
pub(in crate::native) struct Shared<T> {
    shards: [Mutex<HashSet<Arc<T>>>; SHARDS],
}

impl<T> Default for Shared<T> {
    fn default() -> Shared<T> {
        Shared { shards: std::array::from_fn(|_| Mutex::new(HashSet::new())) }
    }
}

impl<T: Eq + Hash> Shared<T> {
    /// The stored value that equals this one.
    pub(in crate::native) fn of(&self, value: T) -> Arc<T> {
        let shard = rayon::current_thread_index().unwrap_or(0) % SHARDS;
        // A thread that panicked has left a whole set behind: values are stored in one step.
        let mut known = self.shards[shard].lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(stored) = known.get(&value) {
            return Arc::clone(stored);
        }
        let stored = Arc::new(value);
        known.insert(Arc::clone(&stored));
        stored
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_are_stored_once() {
        let known = Shared::default();
        let [one, same, other] = ["a", "a", "b"].map(|text| known.of(text));
        assert!(Arc::ptr_eq(&one, &same));
        assert_eq!((*one, *other), ("a", "b"));
    }
}
