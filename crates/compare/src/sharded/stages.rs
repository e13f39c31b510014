//! The stages of a pipeline as one rank, and the pieces of a batch as ranks that share it.
//!
//! ```text
//! rank 0   stage 0, pieces 0 1 ┐      place 0   stages 0 and 1, piece 0
//! rank 1   stage 1, pieces 0 1 ┘ ──►  place 1   stages 0 and 1, piece 1
//! ```
//! Each place shows the calls that one process would make for its piece: forward through the stages, backward in reverse,
//! then what belongs to no piece. From there on, pieces are one more axis of ranks that share the batch.

use std::collections::HashMap;
use std::sync::Arc;

use rayon::prelude::*;
use ulpscope_dump::{CallKind, OneOfSeveral, Rank, ShownCall};

use super::parallel::{Grid, Layout};
use super::passes::{Belongs, Passes, Use, entrances, passes};
use super::stage_names::{StageNames, stage_names};

/// Ranks that are joined.
pub(super) struct Joined {
    /// By stage: where its ranks are, with an axis for pieces of the batch after all others.
    pub(super) grids: Vec<Grid>,
    /// By place.
    pub(super) ranks: Vec<Arc<Rank>>,
    /// By call of the first place: its stage.
    pub(super) stage_of: Vec<u32>,
    /// By call of the first place: whether it belongs to no piece.
    pub(super) is_shared: Vec<bool>,
    /// How many pieces there are.
    pub(super) pieces: usize,
    /// By stage: what the golden calls its parameters and modules.
    pub(super) names: Vec<Arc<StageNames>>,
    /// The golden's parameters, as its first pass uses them; nothing if there is one stage.
    pub(super) parameters: Vec<Use>,
}

impl Joined {
    /// Joins the ranks of a run; nothing, if it has one stage and computes the batch at once.
    pub(super) fn of(layout: &Layout, opened: &[Arc<Rank>], golden: &Rank) -> Option<Joined> {
        let stages = layout.stages();
        let entrances = entrances(golden);
        let found: Vec<Passes> = opened
            .par_iter()
            .enumerate()
            .map(|(place, rank)| passes(rank, if layout.stage(place) == 0 { entrances } else { 1 }))
            .collect();
        let pieces = found.iter().map(|passes| passes.count).max()?;
        let is_plain = |passes: &Passes| !passes.of_call.contains(&Belongs::Nothing);
        if stages == 1 && pieces == 1 && found.iter().all(is_plain) {
            return None;
        }
        let first_of: Vec<usize> = (0..stages)
            .map(|stage| (0..opened.len()).find(|&place| layout.stage(place) == stage))
            .collect::<Option<_>>()?;
        let parameters = if stages > 1 { passes(golden, entrances).uses } else { Vec::new() };
        let names = match stages {
            1 => vec![StageNames::default()],
            _ => {
                let sides: Vec<(&Rank, &[Use])> =
                    first_of.iter().map(|&place| (&*opened[place], &found[place].uses[..])).collect();
                stage_names(&sides, (golden, &parameters))
            }
        };
        let names: Vec<Arc<StageNames>> = names.into_iter().map(Arc::new).collect();
        let places = layout.joined(pieces);
        let grids = (0..stages)
            .map(|stage| Grid {
                sizes: places.sizes.clone(),
                numbers: places.members.iter().map(|members| layout.grid.numbers[members[stage]]).collect(),
                has_pieces: pieces > 1,
            })
            .collect();
        let shown: Vec<Shown> = (0..places.members.len())
            .into_par_iter()
            .map(|place| {
                let members: Vec<(&Rank, &Passes)> =
                    places.members[place].iter().map(|&member| (&*opened[member], &found[member])).collect();
                Shown::of(&members, &names, place % pieces)
            })
            .collect();
        let Shown { stage_of, is_shared, .. } = shown.first()?.clone();
        let ranks = shown.into_iter().zip(&places.members).map(|(shown, members)| {
            let one = |(&member, names): (&usize, &Arc<StageNames>)| OneOfSeveral {
                rank: Arc::clone(&opened[member]),
                origins: StageNames::origins(names),
            };
            Rank::of_several(members.iter().zip(&names).map(one).collect(), shown.calls).map(Arc::new)
        });
        let ranks = ranks.collect::<Option<_>>()?;
        Some(Joined { grids, ranks, stage_of, is_shared, pieces, names, parameters })
    }
}

/// What one place shows.
#[derive(Clone)]
struct Shown {
    calls: Vec<ShownCall>,
    stage_of: Vec<u32>,
    is_shared: Vec<bool>,
}

impl Shown {
    fn of(stages: &[(&Rank, &Passes)], names: &[Arc<StageNames>], piece: usize) -> Shown {
        let mut shown = Shown { calls: Vec::new(), stage_of: Vec::new(), is_shared: Vec::new() };
        let mut numbers = Numbers::default();
        let forward = 0..stages.len();
        let sections = [
            (Belongs::Before, forward.clone().collect::<Vec<usize>>()),
            (Belongs::Forward(piece), forward.clone().collect()),
            (Belongs::Backward(piece), forward.clone().rev().collect()),
            (Belongs::After, forward.collect()),
        ];
        for (belongs, order) in sections {
            for stage in order {
                let (rank, passes) = stages[stage];
                let calls = (0..rank.calls().len()).filter(|&call| passes.of_call[call] == belongs);
                for call in calls {
                    let described = &rank.calls()[call];
                    let own = rank.base(described.base);
                    let base = names[stage].base(own);
                    let index =
                        described.index.map(|index| numbers.next(&base, described.kind, (stage, own, index)));
                    shown.calls.push(ShownCall { of: stage as u32, call: call as u32, base, index });
                    shown.stage_of.push(stage as u32);
                    shown.is_shared.push(matches!(belongs, Belongs::Before | Belongs::After));
                }
            }
        }
        shown
    }
}

/// Numbers of calls, as one process would count them.
#[derive(Default)]
struct Numbers<'a> {
    next: HashMap<(String, CallKind), u32>,
    /// Of forward calls, by stage, base and number there.
    forward: HashMap<(usize, &'a str, u32), u32>,
}

impl<'a> Numbers<'a> {
    fn next(&mut self, base: &str, kind: CallKind, own: (usize, &'a str, u32)) -> u32 {
        // A backward call has the number of its forward call.
        let kind = match kind {
            CallKind::Backward => match self.forward.get(&own) {
                Some(&known) => return known,
                None => CallKind::Forward,
            },
            kind => kind,
        };
        let next = self.next.entry((base.to_owned(), kind)).or_default();
        let number = *next;
        *next += 1;
        if kind == CallKind::Forward {
            self.forward.insert(own, number);
        }
        number
    }
}
