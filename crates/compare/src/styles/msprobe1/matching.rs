//! Pairs calls: two queues, read in step.
//!
//! Each turn reads one call from either side and looks for a match of the newest ones among all waiting calls. After a
//! match, all calls that waited before the two are dropped. When one side waits and the other has ended, the walk ends,
//! and the unread calls of target are lost.

use std::collections::HashMap;
use std::ops::Range;

use super::signature::Signature;

/// The result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Matches {
    /// By call of target, golden's.
    pub(crate) partners: Vec<Option<u32>>,
    /// How many calls of target were read; the others have no rows.
    pub(crate) read: usize,
}

/// Matches two sides. Calls without rows are read, and do not wait.
pub(crate) fn matches(target: &[Option<Signature>], golden: &[Option<Signature>]) -> Matches {
    let mut found = Matches { partners: vec![None; target.len()], read: 0 };
    let (mut calls, mut others) = (Queue::new(target), Queue::new(golden));
    for _ in 0..target.len().max(golden.len()) {
        let news = [calls.read(), others.read()];
        if (calls.is_empty() && others.is_empty()) || news == [false, false] {
            continue;
        }
        if calls.is_empty() || others.is_empty() {
            break;
        }
        let Some(pair) = calls.newest().zip(others.newest()).and_then(|(newest, other)| {
            let of_golden = others.first_fitting(newest).map(|other| (calls.end() - 1, other));
            of_golden.or_else(|| calls.first_fitting(other).map(|call| (call, others.end() - 1)))
        }) else {
            continue;
        };
        found.partners[calls.waiting[pair.0]] = Some(others.waiting[pair.1] as u32);
        calls.range.start = pair.0 + 1;
        others.range.start = pair.1 + 1;
    }
    found.read = calls.read;
    found
}

/// One side. Those that have waited are in a list, of which a stretch still waits.
struct Queue<'a> {
    calls: &'a [Option<Signature>],
    read: usize,
    waiting: Vec<usize>,
    range: Range<usize>,
    by_key: HashMap<u64, Vec<usize>>,
}

impl<'a> Queue<'a> {
    fn new(calls: &'a [Option<Signature>]) -> Queue<'a> {
        Queue { calls, read: 0, waiting: Vec::new(), range: 0..0, by_key: HashMap::new() }
    }

    /// Reads one more; says whether it waits now.
    fn read(&mut self) -> bool {
        let Some(call) = self.calls.get(self.read) else { return false };
        self.read += 1;
        let Some(signature) = call else { return false };
        let like = self.by_key.entry(signature.key).or_default();
        // Dropped calls are first in the list; they are removed on each addition, so that lists stay short.
        like.drain(..like.partition_point(|&place| place < self.range.start));
        like.push(self.waiting.len());
        self.waiting.push(self.read - 1);
        self.range.end += 1;
        true
    }

    fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    fn end(&self) -> usize {
        self.range.end
    }

    fn newest(&self) -> Option<&'a Signature> {
        self.calls[*self.waiting.last()?].as_ref()
    }

    /// The first waiting call that matches.
    fn first_fitting(&self, wanted: &Signature) -> Option<usize> {
        let like = self.by_key.get(&wanted.key)?.iter().copied();
        like.filter(|place| self.range.contains(place))
            .find(|&place| self.calls[self.waiting[place]].as_ref().is_some_and(|call| call.fits(wanted)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(keys: &[u64]) -> Vec<Option<Signature>> {
        keys.iter().map(|&key| (key > 0).then(|| Signature::of_key(key))).collect()
    }

    fn pair(target: &[u64], golden: &[u64]) -> (Vec<Option<u32>>, usize) {
        let found = matches(&side(target), &side(golden));
        (found.partners, found.read)
    }

    #[test]
    fn what_waits_before_a_pair_is_given_up() {
        assert_eq!(pair(&[1, 9, 2], &[1, 2]), (vec![Some(0), None, Some(1)], 3));
        assert_eq!(pair(&[1, 2], &[1, 9, 2]), (vec![Some(0), Some(2)], 2));
    }

    #[test]
    fn the_walk_ends_where_one_side_has_nothing() {
        assert_eq!(pair(&[1, 2, 3, 4], &[1]), (vec![Some(0), None, None, None], 2));
        assert_eq!(pair(&[1, 2, 3], &[0, 1, 2]), (vec![None, None, None], 1));
    }
}
