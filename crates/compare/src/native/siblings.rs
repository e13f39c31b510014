//! What is ordinary: the other calls of the same kind in the same run.
//!
//! How much larger an error is than expected is a number per call, and its logarithm is scattered about some middle.
//! Before anything is known, the middle is 0 and the spread a factor of [`PRIOR_SPREAD`]; every call of the same kind makes
//! both more certain, by median and median deviation, which a few faulty calls do not move. A call is held against the
//! others, not against itself. Middle and spread are held near the prior: a kernel that is wrong everywhere must not become
//! what is ordinary.
//!
//! A run has thousands of calls, and none of a healthy one is to be accused: a call stands out when a value as large has
//! a chance of less than [`ALARM`] to come up anywhere in the run.

use std::collections::HashMap;

/// The chance of one false alarm in a whole healthy run.
const ALARM: f64 = 0.01;

/// Before anything is known, two calls in three are within this factor of what is expected.
const PRIOR_SPREAD: f64 = 2.0;

/// How many calls the prior counts as.
const PRIOR_CALLS: f64 = 4.0;

/// However alike the others are: no two computations are alike to better than this factor.
const LEAST_SPREAD: f64 = 1.25;

/// However far off the others are, or however scattered: beyond this factor nothing is ordinary.
const MOST: f64 = 4.0;

/// Among so many a single call does not count, and need not be left out.
const MANY: usize = 64;

/// The spread of a normal distribution, in terms of its median deviation.
const DEVIATION: f64 = 1.4826;

/// How many times its expected error each call has, by kind.
#[derive(Debug, Default)]
pub(super) struct Siblings {
    /// Logarithms, in order of size.
    kinds: HashMap<u64, Vec<f64>>,
    /// Of kinds with many calls.
    known: HashMap<u64, Ordinary>,
    /// How many spreads from the middle stand out.
    far: f64,
}

#[derive(Clone, Copy, Debug)]
struct Ordinary {
    middle: f64,
    spread: f64,
}

impl Siblings {
    /// From the kind of each call and how many times its error is what was expected; calls that are equal bit for bit say
    /// nothing and are not among them. `calls` is how many are judged in all.
    pub(super) fn of(excesses: impl Iterator<Item = (u64, f64)>, calls: usize) -> Siblings {
        let mut kinds: HashMap<u64, Vec<f64>> = HashMap::new();
        for (kind, excess) in excesses.filter(|(_, excess)| *excess > 0.0 && excess.is_finite()) {
            kinds.entry(kind).or_default().push(libm::log(excess));
        }
        kinds.values_mut().for_each(|logs| logs.sort_by(f64::total_cmp));
        let many = kinds.iter().filter(|(_, logs)| logs.len() > MANY);
        let known = many.map(|(kind, logs)| (*kind, Ordinary::of(logs))).collect();
        Siblings { kinds, known, far: quantile(ALARM / calls.max(1) as f64) }
    }

    /// How many times further off than what would just not stand out; and how sure it is that it is no accident, from 0
    /// to 1.
    pub(super) fn judge(&self, kind: u64, excess: f64) -> (f64, f64) {
        let Ordinary { middle, spread } = self.others(kind, excess);
        let allowed = libm::exp(middle + self.far * spread);
        let far = (libm::log(excess) - middle) / spread;
        // As sure as half at the edge, and nearly so at half as far again.
        let beyond = (far / self.far - 1.0).max(0.0);
        (excess / allowed, 1.0 - 0.5 * libm::exp(-6.0 * beyond))
    }

    /// How many times what is expected anything may be off of which nothing is known.
    pub(super) fn allowed_by_prior(&self) -> f64 {
        libm::exp(self.far * libm::log(PRIOR_SPREAD))
    }

    fn others(&self, kind: u64, excess: f64) -> Ordinary {
        if let Some(known) = self.known.get(&kind) {
            return *known;
        }
        let Some(logs) = self.kinds.get(&kind) else { return Ordinary::of(&[]) };
        let mut others = logs.clone();
        let own = libm::log(excess);
        if let Ok(at) = others.binary_search_by(|log| log.total_cmp(&own)) {
            others.remove(at);
        }
        Ordinary::of(&others)
    }
}

impl Ordinary {
    /// Of logarithms in order of size.
    fn of(logs: &[f64]) -> Ordinary {
        let (prior, most) = (libm::log(PRIOR_SPREAD), libm::log(MOST));
        let calls = logs.len() as f64;
        let seen = median(logs);
        let mut deviations: Vec<f64> = logs.iter().map(|log| (log - seen).abs()).collect();
        deviations.sort_by(f64::total_cmp);
        let spread = (DEVIATION * median(&deviations)).min(most);
        let known = PRIOR_CALLS + calls;
        Ordinary {
            // Errors smaller than expected leave the expectation where it is: it is a bound for many operations.
            middle: (seen.clamp(0.0, most) * calls) / known,
            spread: ((PRIOR_CALLS * prior * prior + calls * spread * spread) / known)
                .sqrt()
                .max(libm::log(LEAST_SPREAD)),
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
