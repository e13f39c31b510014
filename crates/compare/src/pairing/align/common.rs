//! The longest common subsequence of two sequences of tokens, as far as effort allows.
//!
//! Programs differ in few calls, so first comes a search whose cost grows with the differences. If there are too many,
//! the sequences are cut at runs that both have equally often, and the pieces are searched. If both fail (or the budget
//! is spent), tokens are paired in order. Nothing here is quadratic in the length.

use std::collections::HashSet;
use std::ops::Range;

use super::anchors;

/// Steps of the search in total: some seconds. Only sequences with little in common use it up.
pub(super) const BUDGET: u64 = 1_000_000_000;

/// The most differences that the search allows. Its memory grows with their square.
const MAX_EDITS: usize = 2048;

/// The deepest nesting of cuts.
const MAX_DEPTH: usize = 12;

/// Appends the pairs of a common subsequence of `a[ours]` and `b[theirs]` to `found`, in order.
pub(super) fn subsequence(
    a: &[u64],
    b: &[u64],
    ours: Range<u32>,
    theirs: Range<u32>,
    budget: &mut u64,
    found: &mut Vec<(u32, u32)>,
) {
    let ours: Vec<u32> = ours.collect();
    let theirs: Vec<u32> = theirs.collect();
    Search { a, b, budget, found }.run(&ours, &theirs, MAX_DEPTH);
}

struct Search<'a> {
    a: &'a [u64],
    b: &'a [u64],
    budget: &'a mut u64,
    found: &'a mut Vec<(u32, u32)>,
}

impl Search<'_> {
    fn same(&self, a: u32, b: u32) -> bool {
        self.a[a as usize] == self.b[b as usize]
    }

    fn run(&mut self, mut ours: &[u32], mut theirs: &[u32], depth: usize) {
        while let ([a, more @ ..], [b, others @ ..]) = (ours, theirs)
            && self.same(*a, *b)
        {
            self.found.push((*a, *b));
            (ours, theirs) = (more, others);
        }
        let mut tail = Vec::new();
        while let ([more @ .., a], [others @ .., b]) = (ours, theirs)
            && self.same(*a, *b)
        {
            tail.push((*a, *b));
            (ours, theirs) = (more, others);
        }
        if !ours.is_empty() && !theirs.is_empty() {
            self.middle(ours, theirs, depth);
        }
        self.found.extend(tail.into_iter().rev());
    }

    fn middle(&mut self, ours: &[u32], theirs: &[u32], depth: usize) {
        // Tokens that one side lacks cannot be common, and would only slow down the search.
        let here: HashSet<u64> = ours.iter().map(|&at| self.a[at as usize]).collect();
        let there: HashSet<u64> = theirs.iter().map(|&at| self.b[at as usize]).collect();
        let ours: Vec<u32> =
            ours.iter().copied().filter(|&at| there.contains(&self.a[at as usize])).collect();
        let theirs: Vec<u32> =
            theirs.iter().copied().filter(|&at| here.contains(&self.b[at as usize])).collect();
        if ours.is_empty() || theirs.is_empty() || self.search(&ours, &theirs) {
            return;
        }
        let a: Vec<u64> = ours.iter().map(|&at| self.a[at as usize]).collect();
        let b: Vec<u64> = theirs.iter().map(|&at| self.b[at as usize]).collect();
        let cuts = if depth > 0 && *self.budget > 0 { anchors::shared_runs(&a, &b) } else { Vec::new() };
        if cuts.is_empty() {
            let pairs = anchors::in_order(&a, &b);
            self.found.extend(pairs.into_iter().map(|(x, y)| (ours[x], theirs[y])));
            return;
        }
        let (mut x, mut y) = (0, 0);
        for (cut_x, cut_y) in cuts {
            self.run(&ours[x..cut_x], &theirs[y..cut_y], depth - 1);
            self.found.push((ours[cut_x], theirs[cut_y]));
            (x, y) = (cut_x + 1, cut_y + 1);
        }
        self.run(&ours[x..], &theirs[y..], depth - 1);
    }

    /// Myers' greedy search for the fewest differences: for each number of them, the furthest point reached on each
    /// diagonal. Gives up, and finds nothing, at [`MAX_EDITS`] or when the budget is spent.
    fn search(&mut self, ours: &[u32], theirs: &[u32]) -> bool {
        let (n, m) = (ours.len() as i64, theirs.len() as i64);
        let max = (ours.len() + theirs.len()).min(MAX_EDITS) as i64;
        let mut reached = Reached { furthest: vec![UNREACHED; 2 * max as usize + 3], middle: max + 1 };
        let mut trace: Vec<Step> = Vec::new();
        for edits in 0..=max {
            let (low, high) = diagonals(edits, n, m);
            let mut diagonal = low;
            while diagonal <= high {
                let begin = if edits == 0 { 0 } else { reached.step(diagonal, n, m).0 };
                let mut x = begin;
                while x != UNREACHED
                    && i64::from(x) < n
                    && i64::from(x) - diagonal < m
                    && self.same(ours[x as usize], theirs[(i64::from(x) - diagonal) as usize])
                {
                    x += 1;
                }
                *self.budget = self.budget.saturating_sub(1 + (x - begin) as u64);
                reached.set(diagonal, x);
                if diagonal == n - m && i64::from(x) == n {
                    self.trace_back(ours, theirs, &trace, edits, &mut reached);
                    return true;
                }
                diagonal += 2;
            }
            if *self.budget == 0 {
                return false;
            }
            let row = (low..=high).step_by(2).map(|diagonal| reached.get(diagonal)).collect();
            trace.push(Step { low, row });
        }
        false
    }

    fn trace_back(
        &mut self,
        ours: &[u32],
        theirs: &[u32],
        trace: &[Step],
        edits: i64,
        reached: &mut Reached,
    ) {
        let (n, m) = (ours.len() as i64, theirs.len() as i64);
        let mut pairs = Vec::new();
        let (mut x, mut diagonal) = (n, n - m);
        for edits in (0..=edits).rev() {
            let (begin, previous) = match edits.checked_sub(1).and_then(|edits| trace.get(edits as usize)) {
                Some(step) => {
                    for (place, &x) in step.row.iter().enumerate() {
                        reached.set(step.low + 2 * place as i64, x);
                    }
                    // Diagonals beyond those of the step before did not exist yet.
                    reached.set(step.low - 2, UNREACHED);
                    reached.set(step.low + 2 * step.row.len() as i64, UNREACHED);
                    reached.step(diagonal, n, m)
                }
                None => (0, diagonal),
            };
            while x > i64::from(begin) {
                x -= 1;
                pairs.push((ours[x as usize], theirs[(x - diagonal) as usize]));
            }
            if previous < diagonal {
                x -= 1;
            }
            diagonal = previous;
        }
        self.found.extend(pairs.into_iter().rev());
    }
}

const UNREACHED: i32 = -1;

/// The points reached with some number of differences.
struct Step {
    low: i64,
    row: Vec<i32>,
}

/// The furthest point on each diagonal, as its place in our sequence.
struct Reached {
    furthest: Vec<i32>,
    middle: i64,
}

impl Reached {
    fn get(&self, diagonal: i64) -> i32 {
        self.furthest.get((diagonal + self.middle) as usize).copied().unwrap_or(UNREACHED)
    }

    fn set(&mut self, diagonal: i64, x: i32) {
        if let Some(place) = self.furthest.get_mut((diagonal + self.middle) as usize) {
            *place = x;
        }
    }

    /// Where a diagonal is entered with one more difference, and from which one: by skipping a token of either side,
    /// whichever gets further.
    fn step(&self, diagonal: i64, n: i64, m: i64) -> (i32, i64) {
        let skip_ours = match self.get(diagonal - 1) {
            x if x != UNREACHED && i64::from(x) < n => x + 1,
            _ => UNREACHED,
        };
        let skip_theirs = match self.get(diagonal + 1) {
            x if x != UNREACHED && i64::from(x) - diagonal <= m => x,
            _ => UNREACHED,
        };
        if skip_ours >= skip_theirs { (skip_ours, diagonal - 1) } else { (skip_theirs, diagonal + 1) }
    }
}

/// The diagonals that some number of differences can reach; every second one.
fn diagonals(edits: i64, n: i64, m: i64) -> (i64, i64) {
    let low = -edits.min(m);
    let high = edits.min(n);
    (low + (low + edits).rem_euclid(2), high - (high + edits).rem_euclid(2))
}
