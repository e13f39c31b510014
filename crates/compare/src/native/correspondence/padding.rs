//! Positions of a batch that a mask leaves out as padding. Releases and libraries compute different things there, which no
//! other position depends on.
//!
//! ```text
//! mask     1 1 1 1 1 0 0    logits of both programs: compared where the mask has ones
//!          1 1 1 1 1 1 1
//! ```
//! The mask is an input of both runs: zeros and ones, the zeros before or behind all ones of a row. Kinds of tokens are
//! zeros and ones, too, but they choose rows of a parameter.

use ulpscope_dump::{Content, Entry, Role, TensorEntry};

use super::call_tensors::{OUTSIDE, sizes};
use super::counterparts::Counterparts;
use super::program::print;
use super::slices::Elements;
use crate::style::Side;

/// Calls whose inputs are read for a mask.
const MOST_READ: usize = 16;

/// A mask of rows and positions.
#[derive(Debug, PartialEq)]
pub(super) struct Padding {
    sizes: [usize; 2],
    /// By row and position, one after the other.
    is_kept: Vec<bool>,
}

impl Padding {
    /// The mask that both programs are given, if it leaves anything out.
    pub(super) fn find(counterparts: &Counterparts<'_>) -> Option<Padding> {
        let theirs = masks(counterparts, Side::Golden);
        masks(counterparts, Side::Target).into_iter().find(|mask| theirs.contains(mask))
    }

    fn of(mask: &Elements) -> Option<Padding> {
        let &[rows, length] = mask.shape() else { return None };
        let is_mask = |row: &[f64]| {
            let changes = row.windows(2).filter(|pair| pair[0] != pair[1]).count();
            row.iter().all(|&value| value == 0.0 || value == 1.0)
                && row.contains(&1.0)
                && changes <= if row[0] == 0.0 { 2 } else { 1 }
        };
        let is_padding = rows * length > 0 && mask.values().chunks(length).all(is_mask);
        let is_kept: Vec<bool> = mask.values().iter().map(|&value| value == 1.0).collect();
        (is_padding && is_kept.contains(&false)).then_some(Padding { sizes: [rows, length], is_kept })
    }

    /// Whether two values agree at all positions that the mask keeps, by their elements.
    pub(super) fn is_all_that_differs(&self, counterparts: &Counterparts<'_>, pair: [usize; 2]) -> bool {
        let read = |side: Side| match counterparts.entry(side, pair[side as usize])?.content {
            Content::Tensor(tensor) => Elements::read(counterparts.ranks[side as usize], &tensor),
            _ => None,
        };
        let (Some(one), Some(other)) = (read(Side::Target), read(Side::Golden)) else { return false };
        let positions = self.is_kept.len();
        // Rows and positions may be one dimension on one side.
        let is_by_position = |elements: &Elements| {
            let shape = elements.shape();
            shape.starts_with(&self.sizes) || shape.first() == Some(&positions)
        };
        let is_as_large = one.values().len() == other.values().len() && !one.values().is_empty();
        if !is_as_large || !is_by_position(&one) || !is_by_position(&other) {
            return false;
        }
        let width = one.values().len() / positions;
        let (mut error, mut norms) = (0.0, [0.0, 0.0]);
        for (at, (&one, &other)) in one.values().iter().zip(other.values()).enumerate() {
            if self.is_kept[at / width] {
                error += (one - other) * (one - other);
                norms = [norms[0] + one * one, norms[1] + other * other];
            }
        }
        let [target, golden] = counterparts.pair(pair);
        let norm = f64::max(norms[0], norms[1]);
        norm > 0.0 && (error / norm).sqrt() <= counterparts.allowed(target, golden)
    }
}

/// Whether values may differ at padding alone, where no elements tell: both programs are given a tensor like a mask, by its
/// statistics, and all values have its rows and positions.
pub(super) fn may_be_all_that_differs(counterparts: &Counterparts<'_>, pairs: &[[usize; 2]]) -> bool {
    let like_masks = |side: Side| {
        let mut found: Vec<(Vec<u64>, u64)> = Vec::new();
        for_possible_masks(counterparts, side, |tensor| {
            let (Some(shape), [Some(max), Some(min), ..]) = (&tensor.shape, sizes(tensor)) else { return };
            if (max, min) == (1.0, 0.0) {
                found.push((shape.clone(), print(tensor.count().unwrap_or(0), &sizes(tensor))));
            }
        });
        found
    };
    let theirs = like_masks(Side::Golden);
    like_masks(Side::Target).into_iter().filter(|mask| theirs.contains(mask)).any(|(mask, _)| {
        let positions: u64 = mask.iter().product();
        let is_by_position = |side: Side, value: usize| match counterparts.entry(side, value) {
            Some(Entry { content: Content::Tensor(tensor), .. }) => {
                let shape = tensor.shape.unwrap_or_default();
                shape.starts_with(&mask) || shape.first() == Some(&positions)
            }
            _ => false,
        };
        pairs.iter().all(|&[one, other]| {
            is_by_position(Side::Target, one)
                && is_by_position(Side::Golden, other)
                && counterparts.elements([one, other]).is_none()
        })
    })
}

fn masks(counterparts: &Counterparts<'_>, side: Side) -> Vec<Padding> {
    let mut found = Vec::new();
    for_possible_masks(counterparts, side, |tensor| {
        let elements = Elements::read(counterparts.ranks[side as usize], tensor);
        found.extend(elements.as_ref().and_then(Padding::of));
    });
    found
}

/// Tensors from outside that may be masks: they choose no rows of a parameter.
fn for_possible_masks(counterparts: &Counterparts<'_>, side: Side, mut visit: impl FnMut(&TensorEntry)) {
    let (program, rank) = (counterparts.programs[side as usize], counterparts.ranks[side as usize]);
    for &call in program.may_get_masks.iter().take(MOST_READ) {
        for entry in rank.entries(call).unwrap_or_default() {
            let Content::Tensor(tensor) = &entry.content else { continue };
            let is_input = entry.role == Role::Input && tensor.source.as_deref() == Some(OUTSIDE);
            let is_index = || program.indices.contains(&print(tensor.count().unwrap_or(0), &sizes(tensor)));
            if is_input && !is_index() {
                visit(tensor);
            }
        }
    }
}
