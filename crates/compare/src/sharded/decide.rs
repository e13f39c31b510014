//! How the tensors of all ranks make the golden's: as capture recorded it, or else by shapes and by content.

use ulpscope_dump::MeshPlacement;

use super::members::{Member, error, is_replica};
use super::parallel::Grid;
use super::rule::{Placed, Rule};
use crate::native::expectation::rounding::unit_roundoff;
use ulpscope_tensor::DType;

/// How near the golden's a tensor must be to be taken for it, or a sum of ranks for a sum. What is left is judged like every
/// difference.
pub(super) const FITS: f64 = 0.05;

/// Ways to merge that are tried at most.
const MAX_CANDIDATES: usize = 2048;

/// How the tensors of all ranks belong together.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Decision {
    pub(super) rule: Option<Rule>,
    /// By axis: whether the ranks along it have the same.
    pub(super) is_equal: Vec<bool>,
    /// Whether capture recorded how.
    pub(super) is_recorded: bool,
}

/// What a tensor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// A parameter before the step: never a part of a sum.
    Parameter,
    /// A gradient: it may be one of a mean over a part of the batch.
    Gradient,
    /// The gradient of a parameter, as it is accumulated.
    ParameterGradient,
    /// Anything else.
    Value,
}

/// Decides for the tensors of all ranks, by place.
pub(super) fn decide(
    grid: &Grid,
    members: &[Member<'_>],
    golden: Option<Member<'_>>,
    content: Content,
) -> Decision {
    let is_equal: Vec<bool> = (0..grid.sizes.len()).map(|axis| is_equal_along(grid, members, axis)).collect();
    let recorded = recorded(grid, members);
    let is_recorded = recorded.iter().any(Option::is_some);
    let rule = rule(grid, members, golden, content, &is_equal, &recorded);
    Decision { rule, is_equal, is_recorded }
}

fn is_equal_along(grid: &Grid, members: &[Member<'_>], axis: usize) -> bool {
    (0..grid.len()).all(|place| {
        let first = grid.first_along(place, axis);
        first == place || is_replica(members[first], members[place])
    })
}

fn rule(
    grid: &Grid,
    members: &[Member<'_>],
    golden: Option<Member<'_>>,
    content: Content,
    is_equal: &[bool],
    recorded: &[Option<(Placed, bool)>],
) -> Option<Rule> {
    let shapes: Vec<Vec<usize>> = members.iter().map(Member::shape).collect::<Option<_>>()?;
    let golden_shape = golden.as_ref().and_then(Member::shape);
    // Indices and masks are no parts of sums: those of a vocabulary that is cut differ from rank to rank.
    let is_number = members[0].tensor.dtype().is_none_or(is_inexact);
    let options = |axis: usize| -> Vec<Placed> {
        if let Some((placed, _)) = recorded[axis] {
            return vec![placed];
        }
        // A rank has one parameter, however many pieces of the batch it computes.
        if content == Content::Parameter && grid.is_of_pieces(axis) {
            return vec![Placed::Same];
        }
        let mut options = Vec::new();
        if is_equal[axis] || content == Content::Parameter {
            options.push(Placed::Same);
        }
        // A norm of tensors that are cut, before ranks sum its squares.
        if golden_shape.is_some() && !is_equal[axis] && content == Content::Value && is_one(&shapes[0]) {
            options.push(Placed::Norm);
        }
        if golden_shape.is_some() {
            options.extend((0..shapes[0].len().min(u8::MAX.into())).map(|dim| Placed::Shard(dim as u8)));
            // Each part of a batch may have an equal share of the loss.
            let is_share = content == Content::Gradient && is_one(&shapes[0]);
            let is_partial = !is_equal[axis] && (is_number || is_one(&shapes[0]));
            if (is_partial || is_share) && content != Content::Parameter {
                options.push(Placed::Sum);
            }
        }
        options
    };
    let mut ways: Vec<Vec<Placed>> = vec![Vec::new()];
    for axis in 0..grid.sizes.len() {
        let options = options(axis);
        ways = ways
            .into_iter()
            .flat_map(|way| options.iter().map(move |&placed| [way.clone(), vec![placed]].concat()))
            .take(MAX_CANDIDATES)
            .collect();
    }
    let mut rules = Vec::new();
    for placed in ways {
        let rule = Rule { placed, scale: 1.0, only: None };
        if rule.is_sum() && rule.is_norm() {
            continue;
        }
        let Some((whole, _)) = rule.slices(grid, &shapes) else { continue };
        if golden_shape.as_ref().is_none_or(|golden| *golden == whole) {
            rules.extend(scaled(rule, grid, (content, is_one(&whole)), recorded));
        }
    }
    let Some(golden) = golden else {
        let is_known = recorded.iter().any(Option::is_some);
        return rules.into_iter().find(|rule| rule.scale == 1.0 && (!rule.is_sum() || is_known));
    };
    // Shapes alone tell.
    let is_plain = |rule: &Rule| {
        let mut placed = rule.placed.iter().zip(recorded);
        placed.all(|(placed, known)| known.is_some() || !matches!(placed, Placed::Sum | Placed::Norm))
    };
    let has_shape = golden_shape.as_ref() == shapes.first();
    if let [rule] = &rules[..]
        && is_plain(rule)
    {
        let is_one_wrong = has_shape
            && !rule.is_sharded()
            && is_equal.contains(&false)
            && recorded.iter().all(Option::is_none);
        return if is_one_wrong {
            differing(grid, members, golden, false, &rules)
        } else {
            Some(rule.clone())
        };
    }
    let mut best: Option<(&Rule, f64)> = None;
    for rule in &rules {
        let Some(error) = error(rule, grid, members, golden) else { continue };
        // Of ways that are equally good, the first, except that a factor of 1 is the simplest.
        let is_better =
            |(before, least): (&Rule, f64)| error < least || error == least && before.scale != 1.0;
        if best.is_none_or(is_better) {
            best = Some((rule, error));
        }
    }
    let Some((rule, least)) = best else {
        // Statistics of sums are unknown.
        let first = rules.iter().find(|rule| rule.scale == 1.0).cloned();
        return if has_shape { differing(grid, members, golden, true, &rules) } else { first };
    };
    // A rank that has the golden's tensor itself has no part of a sum.
    let is_alone = |place: usize| {
        error(&Rule::only(grid, place), grid, members, golden).is_some_and(|alone| alone <= least)
    };
    let is_unfit = content == Content::Value && least > FITS;
    match has_shape && !is_plain(rule) && (is_unfit || (0..grid.len()).any(is_alone)) {
        true => differing(grid, members, golden, false, &rules),
        false => Some(rule.clone()),
    }
}

fn is_inexact(dtype: DType) -> bool {
    unit_roundoff(dtype) > 0.0
}

fn is_one(shape: &[usize]) -> bool {
    shape.iter().product::<usize>() == 1
}

/// A rule with every factor that it may have: a loss may be a mean, and gradients those of a mean over a part of the batch.
fn scaled(
    rule: Rule,
    grid: &Grid,
    (content, is_one): (Content, bool),
    recorded: &[Option<(Placed, bool)>],
) -> Vec<Rule> {
    let mut scales = vec![1.0];
    let is_gradient = matches!(content, Content::Gradient | Content::ParameterGradient);
    for (axis, placed) in rule.placed.iter().enumerate() {
        let part = 1.0 / grid.sizes[axis] as f64;
        match (placed, recorded[axis]) {
            (_, Some((_, true))) => scales.iter_mut().for_each(|scale| *scale *= part),
            (_, Some(_)) | (Placed::Same | Placed::Norm, None) => {}
            (Placed::Shard(_) | Placed::Inner(_), None) if !is_gradient => {}
            (Placed::Sum, None) if !is_gradient && !is_one => {}
            (Placed::Shard(_) | Placed::Inner(_) | Placed::Sum, None) => {
                scales.extend(scales.clone().into_iter().map(|scale| scale * part));
            }
        }
    }
    scales.into_iter().map(|scale| Rule { scale, ..rule.clone() }).collect()
}

/// The rule for ranks that have the shape of the golden's tensor, and different elements. Where statistics cannot tell a sum from
/// replicas that differ, replicas are those of which one is the golden's.
fn differing(
    grid: &Grid,
    members: &[Member<'_>],
    golden: Member<'_>,
    is_open: bool,
    rules: &[Rule],
) -> Option<Rule> {
    let errors: Vec<f64> = (0..grid.len())
        .map(|place| error(&Rule::only(grid, place), grid, members, golden).unwrap_or(f64::INFINITY))
        .collect();
    let is_any_right = errors.iter().any(|&error| error <= FITS);
    if is_open
        && !is_any_right
        && let Some(sum) = rules.iter().find(|rule| rule.is_sum() && rule.scale == 1.0)
    {
        return Some(sum.clone());
    }
    let worst =
        (0..grid.len()).max_by(|&one, &other| errors[one].total_cmp(&errors[other]).then(other.cmp(&one)))?;
    Some(Rule::only(grid, worst))
}

/// By axis: what capture recorded, and whether a sum is a mean.
fn recorded(grid: &Grid, members: &[Member<'_>]) -> Vec<Option<(Placed, bool)>> {
    let unknown = vec![None; grid.sizes.len()];
    let Some(mesh) = members.first().and_then(|member| member.tensor.mesh.as_deref()) else { return unknown };
    let Some(placed) = mesh.placements.iter().map(|text| placement(text)).collect::<Option<Vec<_>>>() else {
        return unknown;
    };
    let mut found = unknown;
    for (dim, placed) in placed.into_iter().enumerate() {
        if let Some(axis) = axis_of(grid, mesh, dim) {
            found[axis] = Some(placed);
        }
    }
    found
}

/// The axis of the ranks along which a dimension of a mesh goes.
fn axis_of(grid: &Grid, mesh: &MeshPlacement, dim: usize) -> Option<usize> {
    let inner: u64 = mesh.sizes[dim + 1..].iter().product();
    let along: Vec<u64> = (0..mesh.sizes[dim])
        .map(|at| mesh.ranks.get((at * inner) as usize).copied())
        .collect::<Option<_>>()?;
    (0..grid.sizes.len()).find(|&axis| {
        let places = (0..grid.len()).filter(|&place| {
            (0..grid.sizes.len()).all(|other| {
                other == axis || {
                    let first = grid.numbers.iter().position(|number| *number == along[0]);
                    first.is_some_and(|first| grid.coordinate(place, other) == grid.coordinate(first, other))
                }
            })
        });
        places.map(|place| grid.numbers[place]).eq(along.iter().copied())
    })
}

/// A placement as torch writes it, and whether it is a mean: `R`, `S(1)`, `P(avg)`, or the longer forms. `_S(1, 2)` is a slice
/// of slices: the second number says how many ranks cut the dimension before.
fn placement(text: &str) -> Option<(Placed, bool)> {
    let inside = |text: &str| {
        let (_, rest) = text.split_once('(')?;
        Some(rest.strip_suffix(')')?.trim_start_matches("dim=").to_owned())
    };
    match text.split('(').next()? {
        "R" | "Replicate" => Some((Placed::Same, false)),
        "S" | "Shard" => Some((Placed::Shard(inside(text)?.parse().ok()?), false)),
        "_S" | "_StridedShard" => {
            let inside = inside(text)?;
            let dim = inside.split(',').next()?.trim();
            Some((Placed::Inner(dim.parse().ok()?), false))
        }
        // The other norms have no squares.
        "_NormP" | "_NormPartial" => {
            let norm = inside(text)?;
            let norm: f64 = norm.trim_start_matches("norm_type=").parse().ok()?;
            (norm == 2.0).then_some((Placed::Norm, false))
        }
        "P" | "Partial" => match inside(text).as_deref() {
            None | Some("sum") => Some((Placed::Sum, false)),
            Some("avg") => Some((Placed::Sum, true)),
            Some(_) => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placements_are_read_in_both_spellings() {
        assert_eq!(placement("R"), Some((Placed::Same, false)));
        assert_eq!(placement("Replicate()"), Some((Placed::Same, false)));
        assert_eq!(placement("S(2)"), Some((Placed::Shard(2), false)));
        assert_eq!(placement("Shard(dim=1)"), Some((Placed::Shard(1), false)));
        assert_eq!(placement("P"), Some((Placed::Sum, false)));
        assert_eq!(placement("Partial(sum)"), Some((Placed::Sum, false)));
        assert_eq!(placement("P(avg)"), Some((Placed::Sum, true)));
        assert_eq!(placement("P(max)"), None);
        assert_eq!(placement("_S(0, 2)"), Some((Placed::Inner(0), false)));
        assert_eq!(placement("_StridedShard(dim=1, sf=2)"), Some((Placed::Inner(1), false)));
        assert_eq!(placement("_NormP(2.0)"), Some((Placed::Norm, false)));
        assert_eq!(placement("_NormP(inf)"), None);
    }

    #[test]
    fn a_mesh_of_some_ranks_is_one_axis() {
        let grid = Grid { sizes: vec![2, 2], numbers: vec![0, 1, 2, 3], has_pieces: false };
        let mesh = |sizes: &[u64], ranks: &[u64]| MeshPlacement {
            sizes: sizes.to_vec(),
            ranks: ranks.to_vec(),
            placements: Vec::new(),
        };
        assert_eq!(axis_of(&grid, &mesh(&[2], &[2, 3]), 0), Some(1));
        assert_eq!(axis_of(&grid, &mesh(&[2], &[1, 3]), 0), Some(0));
        assert_eq!(axis_of(&grid, &mesh(&[2, 2], &[0, 1, 2, 3]), 0), Some(0));
        assert_eq!(axis_of(&grid, &mesh(&[2, 2], &[0, 1, 2, 3]), 1), Some(1));
        assert_eq!(axis_of(&grid, &mesh(&[2], &[0, 3]), 0), None);
    }
}
