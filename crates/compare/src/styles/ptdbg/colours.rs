//! Which rows ptdbg_ascend 6.0 colours red or yellow in its workbook.
//!
//! A row is red on its own if the target is not finite or differs much; an output also by comparison with each input of
//! its call. With tensors the tool finds the rows of a call by their names, and miscounts like its successor msprobe 1;
//! its groups are kept as [`Run`]s.

use std::hash::{DefaultHasher, Hash, Hasher};

use ulpscope_report::Emphasis;

/// Rows of one call and side, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    call: u64,
    input: bool,
    rows: u32,
}

impl Run {
    /// Adds a row to the last run, or begins another.
    pub(super) fn add(runs: &mut Vec<Run>, name: &str) {
        let input = name.contains("input");
        let call = name.split(if input { "input" } else { "output" }).next().unwrap_or(name);
        let mut hasher = DefaultHasher::new();
        call.hash(&mut hasher);
        let call = hasher.finish();
        match runs.last_mut() {
            Some(run) if (run.call, run.input) == (call, input) => run.rows += 1,
            _ => runs.push(Run { call, input, rows: 1 }),
        }
    }

    /// Call and side of each of its rows.
    pub(super) fn rows(&self) -> impl Iterator<Item = (u64, bool)> + use<> {
        std::iter::repeat_n((self.call, self.input), self.rows as usize)
    }
}

/// The numbers that decide colours. `None` if the tool does not take a value for a number.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Score {
    /// Max or min of the target is NaN or infinite.
    pub(super) overflow: bool,
    pub(super) target_max: Option<f64>,
    pub(super) golden_max: Option<f64>,
    /// The largest absolute error, or the difference of the maxima.
    pub(super) distance: Option<f64>,
    /// The share of elements with a relative error below 1/1000.
    pub(super) share: Option<f64>,
    pub(super) cosine: Option<f64>,
}

impl Score {
    /// Distance and golden max, where a comparison of output with input is possible.
    fn comparable(&self) -> Option<(f64, f64)> {
        self.target_max?;
        Some((self.distance?, self.golden_max?))
    }
}

/// The colours of the rows of one slice.
pub(super) fn colours(scores: &[Score], inputs: usize, summary: bool) -> Vec<Emphasis> {
    let mut colours: Vec<Emphasis> = scores.iter().map(alone).collect();
    let (inputs, outputs) = scores.split_at(inputs.min(scores.len()));
    let first_output = inputs.len();
    for (number, output) in outputs.iter().enumerate() {
        let colour = &mut colours[first_output + number];
        if *colour == Emphasis::Bad || output.comparable().is_none() {
            continue;
        }
        for input in inputs {
            *colour = match compared(input, output, summary) {
                Emphasis::Bad => Emphasis::Bad,
                Emphasis::Warn if *colour != Emphasis::Bad => Emphasis::Warn,
                _ => *colour,
            };
        }
    }
    colours
}

/// The colour of a row on its own.
fn alone(score: &Score) -> Emphasis {
    const TOO_FAR: f64 = 1e10;
    let far = score.distance.is_some_and(|distance| distance > TOO_FAR);
    if score.overflow || far { Emphasis::Bad } else { Emphasis::Plain }
}

/// The colour of an output in comparison with an input.
fn compared(input: &Score, output: &Score, summary: bool) -> Emphasis {
    let (Some((in_distance, in_max)), Some((out_distance, out_max))) =
        (input.comparable(), output.comparable())
    else {
        return Emphasis::Plain;
    };
    let order = |distance: f64| if distance.abs() < 1.0 { 0.0 } else { distance.abs().log10() };
    let grew = in_distance.abs() <= out_distance.abs() && order(out_distance) - order(in_distance) >= 1.0;
    let (red, yellow) = if summary {
        let relative = |distance: f64, max: f64| (distance / max.max(0.01)).abs();
        let (input, output) = (relative(in_distance, in_max), relative(out_distance, out_max));
        (output > 0.5, output > 0.1 && input < 0.01)
    } else {
        let (red, fell) = match (input.share, output.share) {
            (Some(input), Some(output)) => (input > 0.9 && output < 0.6, input - output > 0.1),
            _ => (false, false),
        };
        let turned =
            matches!((input.cosine, output.cosine), (Some(input), Some(output)) if input - output > 0.1);
        (red, fell || turned)
    };
    match (red, yellow || grew) {
        (true, _) => Emphasis::Bad,
        (false, true) => Emphasis::Warn,
        (false, false) => Emphasis::Plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_a_call_and_side_are_one_run() {
        let mut runs = Vec::new();
        for name in ["a.input.0", "a.input.1", "a.output", "b.output"] {
            Run::add(&mut runs, name);
        }
        let rows: Vec<(u64, bool)> = runs.iter().flat_map(Run::rows).collect();
        assert_eq!((runs.len(), rows.len()), (3, 4));
        assert_eq!(rows[0], rows[1]);
        assert_eq!(rows[1].0, rows[2].0);
        assert_ne!(rows[2].0, rows[3].0);
        assert!(rows[1].1 && !rows[2].1);
    }

    fn score(distance: f64, share: f64) -> Score {
        let (max, distance, share) = (Some(1.0), Some(distance), Some(share));
        Score { overflow: false, target_max: max, golden_max: max, distance, share, cosine: Some(1.0) }
    }

    #[test]
    fn an_output_that_lost_its_inputs_accuracy_is_red() {
        let scores = [score(0.0, 1.0), score(0.5, 0.5), score(0.5, 0.85)];
        assert_eq!(colours(&scores, 1, false), [Emphasis::Plain, Emphasis::Bad, Emphasis::Warn]);
        assert_eq!(colours(&scores, 3, false), [Emphasis::Plain; 3], "inputs are not compared");
    }

    #[test]
    fn errors_that_grow_tenfold_are_yellow() {
        let scores = [score(2.0, 1.0), score(19.0, 1.0), score(20.0, 1.0)];
        assert_eq!(colours(&scores, 1, false), [Emphasis::Plain, Emphasis::Plain, Emphasis::Warn]);
    }

    #[test]
    fn statistics_go_by_the_difference_of_the_maxima() {
        let scores = [score(0.0, 0.0), score(-0.5, 0.0), score(0.6, 0.0), score(0.05, 0.0)];
        let expected = [Emphasis::Plain, Emphasis::Warn, Emphasis::Bad, Emphasis::Plain];
        assert_eq!(colours(&scores, 1, true), expected);
    }

    #[test]
    fn what_is_not_finite_is_red() {
        let overflow = Score { overflow: true, ..Score::default() };
        assert_eq!(colours(&[overflow, score(1e11, 1.0)], 2, false), [Emphasis::Bad; 2]);
    }
}
