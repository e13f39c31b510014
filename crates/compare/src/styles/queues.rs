//! How ptdbg_ascend and torch_npu.hooks pair operations: two queues, read in step.
//!
//! Each turn reads one operation from either side and looks for a match of the newest ones among all waiting
//! operations. After a match, all that waited before the two are dropped. Since only the front of a queue is ever
//! removed, a queue is a range of numbers; operations of equal keys are found by a map instead of a full search.

use std::collections::HashMap;
use std::ops::Range;

/// What can be matched.
pub(crate) trait Queued {
    /// Equal for all that may match.
    fn key(&self) -> u128;
}

/// Where the tools differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Habits {
    /// torch_npu.hooks: the newest two are tried first; ends once a side has nothing left.
    Hooks,
    /// ptdbg_ascend before 6.0: the oldest golden is tried first; ends once a side has nothing left.
    Ptdbg4,
    /// ptdbg_ascend 6.0: likewise, but goes on until both sides are read, and looks for partners only when there
    /// is something new in the target.
    Ptdbg6,
}

/// The result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Matches {
    /// Numbers of target and golden, both rising.
    pub(crate) pairs: Vec<(usize, usize)>,
    /// How many were read of the target. The others were never looked at.
    pub(crate) target_read: usize,
    /// How many were read of the golden.
    pub(crate) golden_read: usize,
}

/// Matches two sides.
pub(crate) fn matches<T: Queued>(
    target: &[T],
    golden: &[T],
    habits: Habits,
    fit: impl Fn(&T, &T) -> bool,
) -> Matches {
    let mut found = Matches::default();
    let mut queues = [Queue::new(target), Queue::new(golden)];
    loop {
        let [in_target, in_golden] = &mut queues;
        let (more_target, more_golden) = (in_target.read(), in_golden.read());
        if !more_target && !more_golden {
            break;
        }
        if in_target.is_empty() || in_golden.is_empty() {
            match habits {
                Habits::Ptdbg6 => continue,
                Habits::Hooks | Habits::Ptdbg4 => break,
            }
        }
        if habits == Habits::Ptdbg6 && !more_target {
            continue;
        }
        let newest = (in_target.range.end - 1, in_golden.range.end - 1);
        let fits = |pair: &(usize, usize)| fit(&target[pair.0], &golden[pair.1]);
        let of_golden = in_golden.like(target[newest.0].key()).map(|number| (newest.0, number));
        let of_target = in_target.like(golden[newest.1].key()).map(|number| (number, newest.1));
        let both_newest =
            (habits == Habits::Hooks && target[newest.0].key() == golden[newest.1].key()).then_some(newest);
        let pair = both_newest.into_iter().chain(of_golden).chain(of_target).find(fits);
        if let Some(pair) = pair {
            found.pairs.push(pair);
            in_target.range.start = pair.0 + 1;
            in_golden.range.start = pair.1 + 1;
        }
    }
    found.target_read = queues[0].range.end;
    found.golden_read = queues[1].range.end;
    found
}

/// One side: which operations wait.
struct Queue<'a, T> {
    operations: &'a [T],
    range: Range<usize>,
    by_key: HashMap<u128, Vec<usize>>,
}

impl<'a, T: Queued> Queue<'a, T> {
    fn new(operations: &'a [T]) -> Queue<'a, T> {
        Queue { operations, range: 0..0, by_key: HashMap::new() }
    }

    /// Takes in one more, if there is one.
    fn read(&mut self) -> bool {
        let number = self.range.end;
        let Some(operation) = self.operations.get(number) else { return false };
        let like = self.by_key.entry(operation.key()).or_default();
        // Dropped operations are first in the list; they are removed on each addition, so that lists stay short.
        let given_up = like.partition_point(|&number| number < self.range.start);
        like.drain(..given_up);
        like.push(number);
        self.range.end += 1;
        true
    }

    fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// Those of a key that wait, oldest first.
    fn like(&self, key: u128) -> impl Iterator<Item = usize> {
        let waiting = self.range.clone();
        self.by_key.get(&key).into_iter().flatten().copied().filter(move |number| waiting.contains(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Queued for char {
        fn key(&self) -> u128 {
            self.to_ascii_lowercase() as u128
        }
    }

    fn pair(target: &str, golden: &str, habits: Habits) -> Matches {
        let sides = [target, golden].map(|side| side.chars().collect::<Vec<char>>());
        matches(&sides[0], &sides[1], habits, |target, golden| target == golden)
    }

    #[test]
    fn a_side_with_nothing_left_ends_it_before_6_0() {
        for habits in [Habits::Hooks, Habits::Ptdbg4] {
            let found = pair("abcdef", "ab", habits);
            assert_eq!(found.pairs, [(0, 0), (1, 1)]);
            assert_eq!(found.target_read, 3, "the third was read, the others never");
        }
        let found = pair("abcdef", "ab", Habits::Ptdbg6);
        assert_eq!((found.pairs.len(), found.target_read), (2, 6));
    }

    #[test]
    fn an_extra_call_is_given_up_on_either_side() {
        for habits in [Habits::Hooks, Habits::Ptdbg4, Habits::Ptdbg6] {
            assert_eq!(pair("axbc", "abc", habits).pairs, [(0, 0), (2, 1), (3, 2)], "{habits:?}");
        }
        for habits in [Habits::Hooks, Habits::Ptdbg4] {
            assert_eq!(pair("abc", "axbc", habits).pairs, [(0, 0), (1, 2), (2, 3)], "{habits:?}");
        }
        // 6.0 looks for partners only when the target has something new: `c` of the golden comes too late.
        assert_eq!(pair("abc", "axbc", Habits::Ptdbg6).pairs, [(0, 0), (1, 2)]);
    }

    #[test]
    fn the_tools_disagree_about_the_order_of_search() {
        // When the second `b` of the golden is new, the first still waits.
        let golden = "xbb";
        assert_eq!(pair("ayb", golden, Habits::Hooks).pairs, [(2, 2)]);
        assert_eq!(pair("ayb", golden, Habits::Ptdbg4).pairs, [(2, 1)]);
    }

    #[test]
    fn equal_keys_do_not_suffice() {
        assert_eq!(pair("aBc", "abc", Habits::Ptdbg4).pairs, [(0, 0), (2, 2)]);
    }

    /// The same with lists and nothing else.
    fn by_looking_at_all(target: &str, golden: &str, habits: Habits) -> Vec<(usize, usize)> {
        let (mut left, mut right) = (target.char_indices(), golden.char_indices());
        let (mut waiting, mut partners) = (Vec::new(), Vec::new());
        let mut pairs = Vec::new();
        loop {
            let (new, new_partner) = (left.next(), right.next());
            waiting.extend(new);
            partners.extend(new_partner);
            let over = habits != Habits::Ptdbg6 && (waiting.is_empty() || partners.is_empty());
            if over || (new.is_none() && new_partner.is_none()) {
                return pairs;
            }
            if habits == Habits::Ptdbg6 && (new.is_none() || partners.is_empty()) {
                continue;
            }
            let (newest, newest_partner) = (waiting.len() - 1, partners.len() - 1);
            let mut tried: Vec<(usize, usize)> =
                (0..=newest_partner).map(|partner| (newest, partner)).collect();
            if habits == Habits::Hooks {
                tried.rotate_right(1);
            }
            tried.extend((0..newest).map(|older| (older, newest_partner)));
            if let Some((a, b)) = tried.into_iter().find(|&(a, b)| waiting[a].1 == partners[b].1) {
                pairs.push((waiting[a].0, partners[b].0));
                waiting.drain(..=a);
                partners.drain(..=b);
            }
        }
    }

    #[test]
    fn the_map_finds_what_looking_at_all_finds() {
        let mut state = 1u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        for _ in 0..500 {
            let kinds = 2 + random(7);
            let mut side = || -> String {
                let len = random(12);
                (0..len).map(|_| char::from(b'a' + random(kinds) as u8)).collect()
            };
            let (target, golden) = (side(), side());
            for habits in [Habits::Hooks, Habits::Ptdbg4, Habits::Ptdbg6] {
                let expected = by_looking_at_all(&target, &golden, habits);
                assert_eq!(pair(&target, &golden, habits).pairs, expected, "{target} {golden} {habits:?}");
            }
        }
    }
}
