//! Whether two programs whose inputs are cut differently end in the same.
//!
//! What is computed from parameters is compared in the part that both have (`pieces.rs`). Behind that, a program may move
//! elements: join pieces, leave out padding. Anything else in which it ends must be computed by the other program, too: as a
//! whole, or in one of the parts.

use std::collections::HashSet;

use super::counterparts::Counterparts;
use super::ends::{EndApart, EndKind};
use super::pieces::{PiecePair, Sides, distance_in_part};
use super::program::Value;
use crate::style::Side;

/// Pairs of results that are tried for one end: a long decoding has thousands.
const MOST_TRIED: usize = 64;

/// The first end of either side that the other does not have. `compared`: by side, the calls whose results were compared.
pub(super) fn first_apart(
    counterparts: &Counterparts<'_>,
    sides: Sides<'_>,
    pairs: &[PiecePair],
    compared: &[HashSet<usize>; 2],
) -> Option<EndApart> {
    let ends = PieceEnds { counterparts, sides, pairs, compared };
    [Side::Target, Side::Golden].into_iter().find_map(|side| {
        let program = counterparts.programs[side as usize];
        let value = program.ends.last.iter().copied().find(|&value| ends.is_apart(side, value))?;
        let what = EndKind::Value(side, program.values[value].call);
        Some(EndApart { what, error: f64::INFINITY, allowed: 0.0 })
    })
}

struct PieceEnds<'a> {
    counterparts: &'a Counterparts<'a>,
    sides: Sides<'a>,
    pairs: &'a [PiecePair],
    compared: &'a [HashSet<usize>; 2],
}

impl PieceEnds<'_> {
    fn is_apart(&self, side: Side, value: usize) -> bool {
        let [here, there] = [side as usize, 1 - side as usize].map(|side| self.counterparts.programs[side]);
        let end = &here.values[value];
        let is_decision = end.unit == 0.0;
        // Losses of pieces are not that of the whole.
        if !is_decision && !end.is_telling() {
            return false;
        }
        let mut others =
            there.ends.last.iter().filter(|&&other| is_decision == (there.values[other].unit == 0.0));
        // What is decided on one side alone is looked at alone.
        if is_decision && others.clone().next().is_none() {
            return false;
        }
        !self.is_moved(side, value)
            && !self.counterparts.stands(side, value)
            && !others.any(|&other| self.is_part(side, end, &there.values[other]))
    }

    /// Whether a value consists of results that were compared.
    fn is_moved(&self, side: Side, value: usize) -> bool {
        let program = self.counterparts.programs[side as usize];
        let (mut known, mut waiting) = (HashSet::from([value]), vec![value]);
        while let Some(value) = waiting.pop() {
            let call = program.values[value].call;
            if self.compared[side as usize].contains(&call) {
                continue;
            }
            let operation = &program.operations[call];
            let moves = operation.reorders || operation.keeps_places || operation.is_view;
            let is_left = program.is_step_end[call] && program.copied(value).is_some();
            let given: Vec<usize> = program.steps[call].given.clone();
            if !(moves && !operation.is_in_place || is_left) || given.is_empty() {
                return false;
            }
            waiting.extend(given.into_iter().filter(|&given| known.insert(given)));
        }
        true
    }

    /// Whether two values agree in one of the parts that both sides have.
    fn is_part(&self, side: Side, one: &Value, other: &Value) -> bool {
        let both = side.in_order(one, other);
        let allowed = self.counterparts.allowed(both[0], both[1]);
        let mut pairs = self.pairs.iter().take(MOST_TRIED);
        pairs.any(|pair| distance_in_part(self.sides, both, pair).is_some_and(|error| error <= allowed))
    }
}
