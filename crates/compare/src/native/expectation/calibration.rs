//! What is ordinary: the other calls of the same kind in the same run.
//!
//! How many times the expected error a call has is a number, and its logarithm is scattered about some middle. Before
//! anything is known, the middle is 0 and the spread a factor of [`PRIOR_SPREAD`]. All calls of the run make both more
//! certain, and then the calls of the same kind, by medians, which a few faulty calls do not move. A
//! call is held against the others, not against itself. Middle and spread stay near the prior: a kernel that is wrong
//! everywhere must not become what is ordinary, and where all is well by luck, a little less luck is no fault.
//!
//! A run has thousands of calls, and none of a healthy one is to be accused: a call stands out when a value as large has
//! a chance of less than [`ALARM`] to come up anywhere in the run.

use std::collections::HashMap;

use crate::native::thresholds::siblings::{
    ALARM, LEAST_ALLOWED, LEAST_SPREAD, MANY_CALLS, MOST_SPREAD, PRIOR_CALLS, PRIOR_SPREAD,
};

/// The spread of a normal distribution, in terms of its median deviation.
const DEVIATION: f64 = 1.4826;

/// How many times its expected error each call has, by kind.
#[derive(Debug)]
pub(in crate::native) struct Calibration {
    /// Logarithms, in order of size, of kinds with few calls.
    kinds: HashMap<u64, Vec<f64>>,
    /// Of kinds with many calls.
    known: HashMap<u64, Ordinary>,
    /// Of all calls.
    run: Ordinary,
    /// How many spreads from the middle stand out.
    far: f64,
}

#[derive(Clone, Copy, Debug)]
struct Ordinary {
    middle: f64,
    spread: f64,
}

impl Calibration {
    /// From the kind of each call and how many times its error is what was expected; calls that are equal bit for bit say
    /// nothing and are not among them. `tests` is how many errors of how many results are held against what is ordinary.
    pub(in crate::native) fn of(excesses: impl Iterator<Item = (u64, f64)>, tests: usize) -> Calibration {
        let mut kinds: HashMap<u64, Vec<f64>> = HashMap::new();
        for (kind, excess) in excesses.filter(|(_, excess)| *excess > 0.0 && excess.is_finite()) {
            kinds.entry(kind).or_default().push(libm::log(excess));
        }
        kinds.values_mut().for_each(|logs| logs.sort_by(f64::total_cmp));
        let mut all: Vec<f64> = kinds.values().flatten().copied().collect();
        all.sort_by(f64::total_cmp);
        let run = Ordinary::prior().learn(&all);
        let many = kinds.iter().filter(|(_, logs)| logs.len() as f64 > MANY_CALLS.get());
        let known = many.map(|(kind, logs)| (*kind, run.learn(logs))).collect();
        kinds.retain(|_, logs| logs.len() as f64 <= MANY_CALLS.get());
        Calibration { kinds, known, run, far: quantile(ALARM.get() / tests.max(1) as f64) }
    }

    /// How many times further off than what would just not stand out; and how sure it is that it is no accident, from 0
    /// to 1.
    pub(in crate::native) fn judge(&self, kind: u64, excess: f64) -> (f64, f64) {
        let Ordinary { middle, spread } = self.others(kind, excess);
        let times = excess / libm::exp(middle + self.far * spread).max(LEAST_ALLOWED.get());
        // As sure as half at the edge; 7 in 8 at four times as far.
        (times, 1.0 - 0.5 / times.max(1.0))
    }

    /// How many times what is expected anything in this run may be off.
    pub(in crate::native) fn allowed_in_run(&self) -> f64 {
        libm::exp(self.run.middle + self.far * self.run.spread).max(LEAST_ALLOWED.get())
    }

    fn others(&self, kind: u64, excess: f64) -> Ordinary {
        if let Some(known) = self.known.get(&kind) {
            return *known;
        }
        let Some(logs) = self.kinds.get(&kind) else { return self.run };
        let mut others = logs.clone();
        let own = libm::log(excess);
        if let Ok(at) = others.binary_search_by(|log| log.total_cmp(&own)) {
            others.remove(at);
        }
        self.run.learn(&others)
    }
}

impl Ordinary {
    fn prior() -> Ordinary {
        Ordinary { middle: 0.0, spread: PRIOR_SPREAD.get() }
    }

    /// What is ordinary among calls, if this was before they were seen: of logarithms in order of size.
    fn learn(self, logs: &[f64]) -> Ordinary {
        let calls = logs.len() as f64;
        let seen = median(logs);
        // Of those above the middle: how far some are below what is expected says nothing of the others.
        let above = &logs[logs.len() / 2..];
        let deviations: Vec<f64> = above.iter().map(|log| log - seen).collect();
        let spread = (DEVIATION * median(&deviations)).clamp(LEAST_SPREAD.get(), MOST_SPREAD.get());
        let known = PRIOR_CALLS.get() + calls;
        Ordinary {
            middle: (PRIOR_CALLS.get() * self.middle + calls * seen.min(MOST_SPREAD.get())) / known,
            spread: ((PRIOR_CALLS.get() * self.spread * self.spread + calls * spread * spread) / known)
                .sqrt(),
        }
    }
}

/// Of values in order of size; 0 of none.
fn median(values: &[f64]) -> f64 {
    if values.is_empty() {
        return 0.0;
    }
    let half = values.len() / 2;
    if values.len() % 2 == 1 { values[half] } else { f64::midpoint(values[half - 1], values[half]) }
}

/// How many standard deviations above the mean a normal value is with this chance.
fn quantile(chance: f64) -> f64 {
    // Bisection: once a run.
    let (mut low, mut high) = (0.0, 40.0);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if 0.5 * libm::erfc(middle * std::f64::consts::FRAC_1_SQRT_2) > chance {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of a standard normal distribution, always the same for a seed.
    fn normals(seed: u64) -> impl Iterator<Item = f64> {
        let mut state = seed;
        let mut uniform = move || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1u64 << 53) as f64
        };
        std::iter::repeat_with(move || {
            let (size, turn) = (1.0 - uniform(), uniform());
            (-2.0 * libm::log(size)).sqrt() * libm::cos(std::f64::consts::TAU * turn)
        })
    }

    /// Calls of a run in which all is well, the kinds in turn: one kind scattered as the prior says, several as little as
    /// is believed.
    fn healthy(seed: u64, calls: usize, kinds: u64) -> Vec<(u64, f64)> {
        let spread = if kinds == 1 { PRIOR_SPREAD.get() } else { LEAST_SPREAD.get() };
        let excesses = normals(seed).map(|normal| libm::exp(spread * normal));
        (0..kinds).cycle().zip(excesses).take(calls).collect()
    }

    fn learnt(calls: &[(u64, f64)], tests: usize) -> Calibration {
        Calibration::of(calls.iter().copied(), tests)
    }

    #[test]
    fn one_call_far_off_stands_out_from_its_siblings() {
        let mut calls = healthy(1, 48, 1);
        calls.push((0, 50.0));
        let siblings = learnt(&calls, calls.len());
        let (times, confidence) = siblings.judge(0, 50.0);
        assert!(times > 2.0 && confidence > 0.75, "{times} {confidence}");
        let alarms = calls.iter().filter(|(kind, excess)| siblings.judge(*kind, *excess).0 > 1.0);
        assert_eq!(alarms.count(), 1);
    }

    #[test]
    fn what_is_wrong_everywhere_does_not_become_ordinary() {
        let calls = vec![(0, 50.0); 49];
        let siblings = learnt(&calls, calls.len());
        assert!(siblings.judge(0, 50.0).0 > 1.0, "{siblings:?}");
        // However far off and scattered: a factor of 4 for the middle, and as much for each spread.
        let wild: Vec<(u64, f64)> =
            normals(2).take(20_000).map(|normal| (0, libm::exp(20.0 + 9.0 * normal))).collect();
        let siblings = learnt(&wild, wild.len());
        let most = libm::exp(MOST_SPREAD.get() + siblings.far * MOST_SPREAD.get());
        assert!((0.99..=1.0).contains(&(siblings.allowed_in_run() / most)), "{siblings:?}");
        // However near: an expected error is not known any better.
        let near = learnt(&[(0, 1e-9); 500], 1);
        assert!(near.judge(0, 2.99).0 < 1.0 && near.judge(0, 3.01).0 > 1.0, "{near:?}");
    }

    /// Of 500 healthy runs, how many are accused.
    fn accused(calls: usize, kinds: u64, tests: usize) -> usize {
        let is_accused = |seed: &u64| {
            let calls = healthy(*seed, calls, kinds);
            let siblings = learnt(&calls, tests);
            calls.iter().any(|&(kind, excess)| siblings.judge(kind, excess).0 > 1.0)
        };
        (0..500).filter(is_accused).count()
    }

    /// No more often than [`ALARM`] says, whether calls have many of their kind or few: 5 runs in 500 are expected to be
    /// accused, and three standard deviations more are 11.
    #[test]
    fn a_healthy_run_is_hardly_ever_accused() {
        for (calls, kinds) in [(10_000, 1), (10_000, 10), (10_000, 100), (10_000, 1_000), (300, 10)] {
            let all = accused(calls, kinds, calls);
            assert!(all <= 11, "{calls} calls of {kinds} kinds: {all} in 500");
        }
        // Held against what is rare among a hundred, ten thousand have a rare one nearly always.
        let few = accused(10_000, 1, 100);
        assert!(few > 250, "{few} in 500");
    }

    #[test]
    fn a_call_is_compared_with_the_others_and_not_with_itself() {
        let with = |own: f64| {
            let mut calls = healthy(3, 1_000, 1);
            calls.extend([(1, 0.5), (1, 1.0), (1, 2.0), (1, own)]);
            learnt(&calls, calls.len())
        };
        let logs = [0.5f64, 1.0, 2.0].map(libm::log);
        for own in [0.1, 1.5, 2.0, 40.0] {
            let siblings = with(own);
            let (others, expected) = (siblings.others(1, own), siblings.run.learn(&logs));
            assert_eq!((others.middle, others.spread), (expected.middle, expected.spread), "{own}");
        }
    }

    /// Where a call is left out, that of those beyond the middle of its kind: to leave out one from below it moves the middle.
    #[test]
    fn further_off_is_never_judged_nearer() {
        for seed in 0..500 {
            let few = 3 + (seed as usize) % (MANY_CALLS.get() as usize - 3);
            let (mut calls, many) = (healthy(seed, few, 1), healthy(seed + 1, 500, 1));
            calls.sort_by(|(_, one), (_, other)| one.total_cmp(other));
            let known = calls.iter().copied().chain(many.iter().map(|(_, excess)| (1, *excess)));
            let siblings = Calibration::of(known, 1_000);
            let rises = |kind: u64, excesses: &[(u64, f64)]| {
                let times: Vec<f64> =
                    excesses.iter().map(|(_, excess)| siblings.judge(kind, *excess).0).collect();
                times.windows(2).all(|pair| pair[0] <= pair[1])
            };
            assert!(rises(0, &calls[few / 2 + 1..]), "among few, seed {seed}: {calls:?}");
            assert!(rises(1, &calls), "among many, seed {seed}: {calls:?}");
            assert!(rises(2, &calls), "of a kind never seen, seed {seed}: {calls:?}");
        }
    }

    #[test]
    fn the_chance_of_an_alarm_is_shared_by_all_tests() {
        for (tests, far) in [(10, 3.0902), (10_000_000, 5.9978)] {
            let siblings = learnt(&[], tests);
            assert!((siblings.far - far).abs() < 1e-4, "{tests}: {}", siblings.far);
            assert_eq!(siblings.far, quantile(ALARM.get() / tests as f64));
        }
    }
}
