//! Whether the gradients of parameters agree, of parameters that are split or joined on one side, too.
//!
//! ```text
//! target   q.weight  k.weight  v.weight      one group: the same number of elements, extremes, mean and norm
//! golden   qkv.weight
//! ```
//! Statistics of several tensors add up to those of all their elements, so groups are compared like single parameters.

use super::ends::{EndApart, EndKind};
use super::gradient_cut::gradient_cut;
use super::likeness::distance;
use super::program::{Program, Weight};
use super::weights::{is_same, other_weights};
use crate::native::evidence::measure::Numbers;
use crate::native::thresholds::correspondence::{CANCELS, WITHOUT_A_PART};
use crate::native::thresholds::final_results::ALLOWED_IN_GRADIENTS;

/// What the gradients of parameters say.
#[derive(Debug, Default)]
pub(super) struct Gradients {
    /// Whether any are on both sides.
    pub(super) are_compared: bool,
    /// The one that differs whose parameter is used last: the backward pass gets there first.
    pub(super) apart: Option<EndApart>,
    /// Parameters of the target whose gradients differ, and those whose gradients agree.
    pub(super) differing: Vec<String>,
    pub(super) agreeing: Vec<String>,
}

/// Parameters of both sides that consist of the same elements.
struct Group<'a> {
    target: Vec<&'a str>,
    golden: Vec<&'a str>,
}

impl Gradients {
    pub(super) fn agree(&self) -> bool {
        self.are_compared && self.apart.is_none()
    }

    pub(super) fn of(programs: [&Program; 2], weights: &[(&str, &str)], limit: f64) -> Gradients {
        let [target, golden] = programs;
        let mut found = Gradients::default();
        let mut last_use = None;
        if target.gradients.is_empty() || golden.gradients.is_empty() {
            return found;
        }
        let squares = programs.into_iter().flat_map(|program| &program.values).map(|value| value.square);
        let allowed = (ALLOWED_IN_GRADIENTS.get() * squares.fold(0.0, f64::max).sqrt()).max(limit);
        let sizes = target.gradients.values().map(size).filter(|size| size.is_finite());
        let largest = sizes.fold(0.0, f64::max);
        let others = other_weights([&target.weights, &golden.weights], weights, 0.0);
        let is_other = |pair: &&(&str, &str)| others[0].iter().any(|name| name == pair.0);
        let pairs = weights.iter().filter(|pair| !is_other(pair));
        let mut groups: Vec<Group<'_>> =
            pairs.map(|(ours, theirs)| Group { target: vec![ours], golden: vec![theirs] }).collect();
        groups.extend(joined(programs, &others));
        // Those that differ before the step are compared by name.
        groups.extend(
            weights
                .iter()
                .filter(is_other)
                .map(|(ours, theirs)| Group { target: vec![ours], golden: vec![theirs] }),
        );
        for group in groups {
            let sides = [Side::of(target, &group.target), Side::of(golden, &group.golden)];
            if sides.iter().all(|side| side.has_none) || sides.iter().any(|side| side.is_unknown) {
                continue;
            }
            let [Some(one), Some(other)] = sides.each_ref().map(|side| side.numbers) else { continue };
            found.are_compared = true;
            let count = sides[0].count.max(sides[1].count);
            let apart = distance(count, &one, &other).unwrap_or(0.0);
            let norm = [one, other].into_iter().filter_map(|numbers| numbers[3]).fold(0.0, f64::max);
            let size = norm / (count.max(1) as f64).sqrt();
            let share = if largest > 0.0 { (CANCELS.get() * size / largest).min(1.0) } else { 1.0 };
            let is_whole = sides.iter().all(|side| side.is_whole);
            let unit = programs.into_iter().map(|program| program.unit).fold(0.0, f64::max);
            let allowed = if is_whole { allowed } else { WITHOUT_A_PART.get() * unit };
            let names = group.target.iter().map(|&name| name.to_owned());
            if apart * share <= allowed {
                found.agreeing.extend(names);
                continue;
            }
            found.differing.extend(names);
            let uses = group.target.iter().filter_map(|&name| target.weights[name].uses.last());
            let used = uses.copied().max();
            if found.apart.is_none() || used > last_use {
                let what = EndKind::Gradient { of: group.target.join(", "), cut_off: None };
                found.apart = Some(EndApart { what, error: apart, allowed });
                last_use = used;
            }
        }
        found.find_cut(target);
        found
    }

    /// Names the call of the target that passes no gradient back, if one explains what differs.
    fn find_cut(&mut self, target: &Program) {
        if let Some(EndApart { what: EndKind::Gradient { cut_off, .. }, .. }) = &mut self.apart {
            *cut_off = gradient_cut(target, &self.differing, &self.agreeing);
        }
    }
}

/// The gradients of a group on one side. One that is not there is zero.
struct Side {
    count: u64,
    numbers: Option<Numbers>,
    has_none: bool,
    is_whole: bool,
    /// Whether one is missing that was made: dumps of earlier releases lack those of the model's own parameters.
    is_unknown: bool,
}

impl Side {
    fn of(program: &Program, names: &[&str]) -> Side {
        let found = || names.iter().map(|&name| (&program.weights[name], program.gradients.get(name)));
        let is_own = |name: &str| !name.contains('.');
        // Looked for only where it matters: there are many parameters.
        let has_own = || program.gradients.keys().any(|name| is_own(name));
        let is_missing = |(name, (weight, gradient)): (&&str, (&Weight, Option<&Weight>))| {
            is_own(name) && gradient.is_none() && weight.gets_gradient
        };
        let zero = |of: &Weight| Weight { numbers: [Some(0.0); 4], ..of.clone() };
        let all: Vec<Weight> =
            found().map(|(weight, gradient)| gradient.cloned().unwrap_or_else(|| zero(weight))).collect();
        Side {
            count: found().map(|(weight, _)| weight.count).sum(),
            numbers: Weight::joined(&all.iter().collect::<Vec<&Weight>>()).map(|all| all.numbers),
            has_none: found().all(|(_, gradient)| gradient.is_none()),
            is_whole: found().all(|(_, gradient)| gradient.is_some()),
            is_unknown: names.iter().zip(found()).any(is_missing) && !has_own(),
        }
    }
}

/// Parameters without counterpart that are the same together: the next of one side in the order of use, until both sides
/// have the same number of elements, and the same statistics.
fn joined<'a>([target, golden]: [&'a Program; 2], others: &'a [Vec<String>; 2]) -> Vec<Group<'a>> {
    let mut groups = Vec::new();
    let count = |program: &Program, name: &String| program.weights[name].count;
    let (mut ours, mut theirs) = (others[0].iter().peekable(), others[1].iter().peekable());
    let mut group = Group { target: Vec::new(), golden: Vec::new() };
    let (mut here, mut there) = (0u64, 0u64);
    loop {
        let next = if here <= there { ours.next().map(|name| (true, name)) } else { None };
        let next = next.or_else(|| theirs.next().map(|name| (false, name)));
        let Some((is_ours, name)) = next.or_else(|| ours.next().map(|name| (true, name))) else { break };
        if is_ours {
            here += count(target, name);
            group.target.push(name);
        } else {
            there += count(golden, name);
            group.golden.push(name);
        }
        if here == there && are_same([target, golden], &group) {
            groups.push(std::mem::replace(&mut group, Group { target: Vec::new(), golden: Vec::new() }));
            (here, there) = (0, 0);
        }
    }
    groups
}

fn are_same([target, golden]: [&Program; 2], group: &Group<'_>) -> bool {
    let all = |program: &Program, names: &[&str]| {
        let weights: Vec<&Weight> = names.iter().filter_map(|name| program.weights.get(*name)).collect();
        Weight::joined(&weights)
    };
    let sides = [all(target, &group.target), all(golden, &group.golden)];
    matches!(sides, [Some(one), Some(other)] if is_same(&one, &other, 0.0))
}

/// The root of the mean square.
fn size(weight: &Weight) -> f64 {
    weight.numbers[3].unwrap_or(0.0) / (weight.count.max(1) as f64).sqrt()
}
