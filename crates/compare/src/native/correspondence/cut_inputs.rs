//! Inputs of the two runs that have different sizes: another batch, another sequence length, padding, one token at a time.
//!
//! Where they have, results cover different parts of the data, and that has to be said before anything else.

use ulpscope_dump::{CallKind, Content, Role};

use crate::native::NativePlan;
use crate::native::evidence::call_evidence::{CallEvidence, Relation, Source};
use crate::note::Note;
use crate::style::Side;

/// Calls of a side whose inputs are read. The first calls of a run are given its data.
const MOST_READ: usize = 64;

/// Inputs that are named.
const SHOWN: usize = 3;

/// A tensor that a run is given.
#[derive(Debug, PartialEq)]
struct Input {
    name: String,
    dtype: String,
    shape: Vec<u64>,
}

impl Input {
    fn is_like(&self, other: &Input) -> bool {
        self.dtype == other.dtype && self.shape == other.shape
    }

    /// Whether it may be a different part of the same data: only sizes differ.
    fn may_map_to(&self, other: &Input) -> bool {
        self.dtype == other.dtype && self.shape.len() == other.shape.len()
    }
}

/// A note for each input whose size differs.
pub(in crate::native) fn cut_inputs(plan: &NativePlan<'_>, units: &[CallEvidence]) -> Vec<Note> {
    let [ours, theirs] = [Side::Target, Side::Golden].map(|side| inputs(plan, units, side));
    let alone = |own: &[Input], other: &[Input]| {
        (0..own.len())
            .filter(|&at| !other.iter().any(|other| other.is_like(&own[at])))
            .collect::<Vec<usize>>()
    };
    let (alone, mut open) = (alone(&ours, &theirs), alone(&theirs, &ours));
    let notes = alone.into_iter().filter_map(|at| {
        let found = open.iter().position(|&other| ours[at].may_map_to(&theirs[other]))?;
        let (one, other) = (&ours[at], &theirs[open.remove(found)]);
        let sizes = one.shape.iter().zip(&other.shape).enumerate();
        let sizes = sizes.filter(|(_, (one, other))| one != other);
        Some(Note::InputsCutDifferently {
            target: one.name.clone(),
            golden: other.name.clone(),
            sizes: sizes.map(|(dimension, (&one, &other))| (dimension as u64, [one, other])).collect(),
            part: None,
        })
    });
    notes.take(SHOWN).collect()
}

/// The inputs of one side that the other may not have, in order; one of each dtype and shape.
fn inputs(plan: &NativePlan<'_>, units: &[CallEvidence], side: Side) -> Vec<Input> {
    let calls = if side == Side::Target { &plan.target } else { &plan.golden };
    let takes_input = |unit: &&CallEvidence| {
        let mut entries = unit.entries.iter().filter(|entry| entry.is_tensor && entry.is_taken());
        unit.kind == CallKind::Forward && entries.any(|entry| entry.sources()[side as usize].is_outside())
    };
    let call = |unit: &CallEvidence| if side == Side::Target { unit.target() } else { unit.golden() };
    // Where all pairs have the same shapes, nothing is read.
    let has_other_shape = units.iter().any(|unit| {
        let outside = unit.entries.iter().filter(|entry| entry.sources().iter().any(Source::is_outside));
        outside.into_iter().any(|entry| matches!(entry.state, Relation::Unlike | Relation::Lone(_)))
    });
    if !has_other_shape {
        return Vec::new();
    }
    let mut found: Vec<Input> = Vec::new();
    for call in units.iter().filter(takes_input).filter_map(call).take(MOST_READ) {
        for entry in calls.rank.entries(call).unwrap_or_default() {
            let Content::Tensor(tensor) = &entry.content else { continue };
            let is_input = entry.role == Role::Input && calls.source(tensor.source.as_deref()).is_outside();
            let Some(shape) = tensor.shape.clone().filter(|shape| is_input && !shape.is_empty()) else {
                continue;
            };
            let input = Input { name: entry.name.clone(), dtype: tensor.dtype.clone(), shape };
            if !found.iter().any(|known| known.is_like(&input)) {
                found.push(input);
            }
        }
    }
    found
}
