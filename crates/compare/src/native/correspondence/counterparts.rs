//! Which values of one program the other program computes, too, whatever the calls and the shapes.
//!
//! Statistics find them: values of the same size, computed from the same parameters, with the same extremes, mean and
//! norm as far as rounding lets them. Where both sides recorded the elements of the same shape, these decide.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use rayon::prelude::*;
use ulpscope_dump::{Content, Entry, Rank};

use super::likeness::distance;
use super::program::{Program, Value};
use crate::native::evidence::call_evidence::place;
use crate::native::evidence::measure::{State, measure};
use crate::native::evidence::tensor_error::extent;
use crate::native::thresholds::correspondence::{ROUNDED_NORM, WIDEST};
use crate::native::thresholds::final_results::ALLOWED;
use crate::native::thresholds::sentinels::GAP;
use crate::style::Side;

/// Values that look the same whose elements are compared; more are alike for being nearly constant.
pub(super) const MOST_COMPARED: usize = 8;

/// The values of two programs, and which of them have a counterpart.
pub(super) struct Counterparts<'a> {
    pub(super) programs: [&'a Program; 2],
    pub(super) ranks: [&'a Rank; 2],
    /// By side: the values of a size and stage, by norm.
    like: [HashMap<Likes, Vec<usize>>; 2],
    /// By side and value: the counterpart that is most alike.
    pub(super) nearest: [Vec<Option<usize>>; 2],
    /// What elements say of values that have one.
    refuted: Mutex<HashMap<(usize, usize), bool>>,
    limit: f64,
    /// How far apart two runs of one program are.
    pub(super) noise: f64,
    /// By side: the largest square of accumulated rounding, if the statistics of all values are such that values which are
    /// alike have norms that are.
    largest_squares: [Option<f64>; 2],
}

/// What values must have in common: the number of elements and, if they can be told from others, the stage.
type Likes = (u64, Option<Option<u32>>);

impl<'a> Counterparts<'a> {
    /// `limit`: how far apart two values may be whatever rounding explains.
    pub(super) fn of(
        programs: [&'a Program; 2],
        ranks: [&'a Rank; 2],
        (limit, noise): (f64, f64),
    ) -> Counterparts<'a> {
        let mut found = Counterparts {
            programs,
            ranks,
            like: programs.map(|program| group(&program.values)),
            nearest: programs.map(|program| vec![None; program.values.len()]),
            refuted: Mutex::default(),
            limit,
            noise,
            largest_squares: programs.map(largest_square),
        };
        for side in [Side::Target, Side::Golden] {
            let values = (0..programs[side as usize].values.len()).into_par_iter();
            found.nearest[side as usize] = values.map(|value| found.most_alike(side, value)).collect();
        }
        found
    }

    /// Whether elements say that a value has a counterpart, and not statistics alone, which do not see other places.
    pub(super) fn is_sure(&self, side: Side, value: usize) -> bool {
        self.by_elements(side, value).any(|agrees| agrees == Some(true))
    }

    /// Whether elements agree with those of each value that looks the same in the same shape; nothing, where a side has
    /// none.
    fn by_elements(&self, side: Side, value: usize) -> impl Iterator<Item = Option<bool>> {
        let one = &self.programs[side as usize].values[value];
        let others = &self.programs[1 - side as usize].values;
        let alike = self.alike(side, value).into_iter().filter(|&other| others[other].shape == one.shape);
        alike.take(MOST_COMPARED).map(move |other| {
            let pair = if side == Side::Target { [value, other] } else { [other, value] };
            self.elements(pair).map(|error| error <= self.allowed(one, &others[other]))
        })
    }

    /// How far apart two values may be, relative to their size.
    pub(super) fn allowed(&self, target: &Value, golden: &Value) -> f64 {
        if target.unit == 0.0 && golden.unit == 0.0 {
            return 0.0;
        }
        self.limit.max(ALLOWED.get() * target.square.max(golden.square).sqrt())
    }

    /// Whether the other program computes a value, too.
    pub(super) fn has(&self, side: Side, value: usize) -> bool {
        self.nearest[side as usize][value].is_some() && !self.is_refuted(side, value)
    }

    /// Whether the other program computes a value, too, and does not write into it afterwards.
    pub(super) fn stands(&self, side: Side, value: usize) -> bool {
        let others = &self.programs[1 - side as usize].values;
        self.has(side, value)
            && self.alike(side, value).into_iter().any(|other| !others[other].is_overwritten)
    }

    /// Whether the two programs compute in the same dtype, from parameters of the same.
    pub(super) fn has_same_dtypes(&self) -> bool {
        let [one, other] = self.programs.map(|program| {
            let stored = program.weights.values().map(|weight| weight.unit).fold(0.0, f64::max);
            (program.unit, stored)
        });
        one == other
    }

    /// Whether one program alone rounds values to a coarser dtype than that of both.
    pub(super) fn rounds_on_one_side(&self) -> bool {
        let [one, other] = self.programs.map(|program| {
            let is_coarse = |value: &Value| value.stage.is_some() && value.unit > program.unit;
            program.values.iter().any(is_coarse)
        });
        one != other && self.has_same_dtypes()
    }

    /// Two values, by their numbers.
    pub(super) fn pair(&self, [target, golden]: [usize; 2]) -> [&Value; 2] {
        [&self.programs[0].values[target], &self.programs[1].values[golden]]
    }

    /// How many elements of two exact values differ; nothing, where a side has no elements.
    pub(super) fn differing_elements(&self, [target, golden]: [usize; 2]) -> Option<f64> {
        if !self.have_elements([target, golden]) {
            return None;
        }
        let [one, other] = [self.entry(Side::Target, target)?, self.entry(Side::Golden, golden)?];
        let measured = measure((self.ranks[0], &one), (self.ranks[1], &other));
        let comparison = measured.comparison.as_ref()?;
        Some(if matches!(measured.state, State::Equal) { 0.0 } else { comparison.over_tolerance as f64 })
    }

    /// The values of the other program that look the same, the most alike first.
    fn alike(&self, side: Side, value: usize) -> Vec<usize> {
        let mut found: Vec<Alike> = self.all_alike(side, value).collect();
        found.sort_by(in_order);
        found.into_iter().map(|(_, _, other)| other).collect()
    }

    /// The first of them.
    fn most_alike(&self, side: Side, value: usize) -> Option<usize> {
        self.all_alike(side, value).min_by(in_order).map(|(_, _, other)| other)
    }

    fn all_alike(&self, side: Side, value: usize) -> impl Iterator<Item = Alike> {
        let (here, there) = (side as usize, 1 - side as usize);
        let one = &self.programs[here].values[value];
        let others = &self.programs[there].values;
        let group = self.like[there].get(&likes(one)).map_or(&[][..], Vec::as_slice);
        let norm = norm(one);
        let near = norm.is_finite().then(|| {
            let least = self.least_norm(side, one);
            let from = group.partition_point(|&other| self::norm(&others[other]) < least * norm);
            let to = group.partition_point(|&other| self::norm(&others[other]) <= norm / least);
            &group[from..to]
        });
        near.unwrap_or(group).iter().filter_map(move |&other| {
            let value = &others[other];
            let allowed = self.allowed(one, value);
            let apart =
                distance(one.count, &one.numbers, &value.numbers).filter(|&apart| apart <= allowed)?;
            let times = if allowed > 0.0 { apart / allowed } else { 0.0 };
            Some((times, one.shape != value.shape, other))
        })
    }

    /// How many times smaller the norm of a value may be that is alike. How far apart two values may be is not known before both
    /// are; and beside sentinels, norms say nothing.
    fn least_norm(&self, side: Side, one: &Value) -> f64 {
        let widest = WIDEST.get();
        let Some(square) = self.largest_squares[1 - side as usize] else { return 1.0 - widest };
        let [max, min, ..] = one.numbers;
        // No smallest element within such norms is a sentinel beside this largest one.
        let has_sentinels =
            max.is_none_or(|max| GAP.get() * max.abs() * (1.0 - widest) <= ROUNDED_NORM.get() * norm(one));
        if has_sentinels
            || min.is_none_or(|min| !min.is_finite() || min.abs() > ROUNDED_NORM.get() * norm(one))
        {
            return 1.0 - widest;
        }
        let allowed = self.limit.max(ALLOWED.get() * one.square.max(square).sqrt());
        // A little more, for the roundings of comparing.
        1.0 - (allowed * 1.001 + 1e-12).min(widest)
    }

    /// Whether elements show that a value has no counterpart: all that look the same in its shape differ.
    fn is_refuted(&self, side: Side, value: usize) -> bool {
        let key = (side as usize, value);
        // A thread that panicked has left whole answers behind.
        let refuted = || self.refuted.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(&known) = refuted().get(&key) {
            return known;
        }
        let mut compared = self.by_elements(side, value).peekable();
        let is_refuted = compared.peek().is_some() && compared.all(|agrees| agrees == Some(false));
        refuted().insert(key, is_refuted);
        is_refuted
    }

    /// The relative distance of the elements of two values; nothing, where a side has none.
    pub(super) fn elements(&self, [target, golden]: [usize; 2]) -> Option<f64> {
        if !self.have_elements([target, golden]) {
            return None;
        }
        let [one, other] = [self.entry(Side::Target, target)?, self.entry(Side::Golden, golden)?];
        let measured = measure((self.ranks[0], &one), (self.ranks[1], &other));
        measured.comparison.as_ref()?;
        let (Content::Tensor(one), Content::Tensor(other)) = (&one.content, &other.content) else {
            return None;
        };
        match (&measured.state, extent(one, other, &measured)) {
            (State::Equal, _) => Some(0.0),
            (_, Some(extent)) if extent.mismatched == 0 => Some(extent.relative()),
            _ => Some(f64::INFINITY),
        }
    }

    /// Whether elements of both values were recorded: otherwise nothing is read for them.
    fn have_elements(&self, pair: [usize; 2]) -> bool {
        self.pair(pair).into_iter().all(|value| value.has_elements)
    }

    /// What the dump has of a value.
    pub(super) fn entry(&self, side: Side, value: usize) -> Option<Entry> {
        let Value { call, place: wanted, .. } = self.programs[side as usize].values[value];
        let entries = self.ranks[side as usize].entries(call).ok()?;
        entries.into_iter().find(|entry| place(entry.role, &entry.path) == wanted)
    }

    /// How far apart two values are: by elements, or else by statistics.
    pub(super) fn apart(&self, [target, golden]: [usize; 2]) -> f64 {
        let (one, other) = (&self.programs[0].values[target], &self.programs[1].values[golden]);
        let by_elements = if one.shape == other.shape { self.elements([target, golden]) } else { None };
        by_elements.or_else(|| distance(one.count, &one.numbers, &other.numbers)).unwrap_or(f64::INFINITY)
    }
}

/// The largest square of accumulated rounding, if every value with a largest element has a smallest one within its norm.
fn largest_square(program: &Program) -> Option<f64> {
    let is_whole = |value: &Value| {
        let [max, min, _, norm] = value.numbers;
        // One without a norm is found by none that has one.
        let Some(norm) = norm else { return true };
        max.is_none() || min.is_some_and(|min| !min.is_finite() || min.abs() <= ROUNDED_NORM.get() * norm)
    };
    let values = &program.values;
    let largest = || values.iter().map(|value| value.square).fold(0.0, f64::max);
    values.iter().all(is_whole).then(largest)
}

/// How far apart a value is from another, relative to what may be; whether its shape differs; and its number.
type Alike = (f64, bool, usize);

/// The most alike first.
fn in_order(one: &Alike, other: &Alike) -> Ordering {
    one.0.total_cmp(&other.0).then((one.1, one.2).cmp(&(other.1, other.2)))
}

fn group(values: &[Value]) -> HashMap<Likes, Vec<usize>> {
    let mut groups: HashMap<Likes, Vec<usize>> = HashMap::new();
    for (number, value) in values.iter().enumerate() {
        groups.entry(likes(value)).or_default().push(number);
    }
    for group in groups.values_mut() {
        group.sort_by(|&one, &other| norm(&values[one]).total_cmp(&norm(&values[other])));
    }
    groups
}

fn likes(value: &Value) -> Likes {
    (value.count, value.is_telling().then_some(value.stage))
}

fn norm(value: &Value) -> f64 {
    value.numbers[3].unwrap_or(f64::NAN)
}
