//! The ranks of a run that are merged: their calls, and the tensors of one call on all of them.

use std::collections::HashMap;
use std::sync::Arc;

use ulpscope_dump::{Entry, Rank};

use super::members::{Member, error};
use super::parallel::{Grid, Layout};
use super::passes::Use;
use super::stage_names::StageNames;
use super::stages::Joined;
use super::survey::{SurveyedCall, SurveyedEntry, tensor};

/// The ranks of a run that are merged, and the golden.
pub(super) struct Ranks {
    pub(super) grid: Grid,
    /// By stage: the same, with the numbers of its ranks.
    grids: Vec<Grid>,
    /// By place: stages that are joined show the calls of one piece of the batch.
    pub(super) ranks: Vec<Arc<Rank>>,
    /// The ranks that were recorded.
    pub(super) recorded: Vec<Arc<Rank>>,
    /// What stages are made of; nothing if every rank has all layers and computes its part of the batch at once.
    pub(super) joined: Option<Stages>,
    /// By place and number of the first rank's call: the number of the same call.
    calls: Vec<Vec<Option<u32>>>,
}

/// What is known of calls of ranks that are joined.
pub(super) struct Stages {
    /// By call of the first place: its stage.
    stage_of: Vec<u32>,
    /// By call of the first place: whether it belongs to no piece of the batch.
    is_shared: Vec<bool>,
    /// How many pieces there are.
    pub(super) pieces: usize,
    /// By stage: what the golden calls its parameters and modules.
    pub(super) names: Vec<Arc<StageNames>>,
    /// The golden's parameters, as its first pass uses them.
    pub(super) parameters: Vec<Use>,
}

impl Ranks {
    pub(super) fn of(layout: &Layout, recorded: Vec<Arc<Rank>>, golden: &Rank) -> Ranks {
        let (grids, ranks, joined) = match Joined::of(layout, &recorded, golden) {
            Some(Joined { grids, ranks, stage_of, is_shared, pieces, names, parameters }) => {
                (grids, ranks, Some(Stages { stage_of, is_shared, pieces, names, parameters }))
            }
            None => (vec![layout.grid.clone()], recorded.clone(), None),
        };
        let first = Arc::clone(&ranks[0]);
        let calls = ranks.iter().map(|rank| {
            let by_name: HashMap<String, u32> =
                (0..rank.calls().len()).map(|call| (rank.name(call), call as u32)).collect();
            (0..first.calls().len()).map(|call| by_name.get(&first.name(call)).copied()).collect()
        });
        let calls = calls.collect();
        Ranks { grid: grids[0].clone(), grids, ranks, recorded, joined, calls }
    }

    pub(super) fn first(&self) -> &Rank {
        &self.ranks[0]
    }

    /// How many stages the layers are in.
    pub(super) fn stages(&self) -> usize {
        self.grids.len()
    }

    /// The stage that makes a call.
    pub(super) fn stage(&self, call: usize) -> usize {
        self.joined.as_ref().map_or(0, |joined| joined.stage_of[call] as usize)
    }

    /// How many pieces of the batch each rank computes, one after the other.
    pub(super) fn pieces(&self) -> usize {
        self.joined.as_ref().map_or(1, |joined| joined.pieces)
    }

    /// Whether a call computes a piece of the batch, and is no step of an optimizer or of the schedule.
    pub(super) fn is_of_piece(&self, call: usize) -> bool {
        self.joined.as_ref().is_some_and(|joined| !joined.is_shared[call])
    }

    /// Whether every rank makes a call for a piece of the batch.
    pub(super) fn has_piece(&self, call: usize, piece: usize) -> bool {
        self.calls.iter().skip(piece).step_by(self.pieces()).all(|calls| calls[call].is_some())
    }

    /// The numbers of the ranks that make a call.
    pub(super) fn numbers(&self, call: usize) -> Vec<u64> {
        let mut numbers = self.grid_of(call).numbers.clone();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }

    /// How far an entry is from the golden's, merged; nothing if that cannot be told.
    pub(super) fn error(
        &self,
        call: usize,
        surveyed: &SurveyedCall,
        entry: &SurveyedEntry,
        golden: &Rank,
    ) -> Option<f64> {
        let theirs = golden.entries(surveyed.partner? as usize).ok()?;
        let theirs = theirs.iter().find(|other| Some(&other.name) == entry.golden.as_ref())?;
        let golden = Member { rank: golden, tensor: tensor(theirs)? };
        let entries = self.entries(call)?;
        let of = entries[0].iter().find(|one| one.name == entry.name)?;
        error(entry.rule.as_ref()?, self.grid_of(call), &self.members(&entries, of)?, golden)
    }

    /// The ranks that make a call.
    pub(super) fn grid_of(&self, call: usize) -> &Grid {
        &self.grids[self.stage(call)]
    }

    /// Whether every rank makes a call of the first.
    pub(super) fn has_call(&self, call: usize) -> bool {
        self.calls.iter().all(|calls| calls[call].is_some())
    }

    /// The entries of a call on each rank; nothing where a rank lacks it or it cannot be read.
    pub(super) fn entries(&self, call: usize) -> Option<Vec<Arc<Vec<Entry>>>> {
        let shared = self.joined.as_ref().filter(|joined| joined.is_shared[call]);
        let each = shared.map_or(1, |joined| joined.pieces);
        let mut entries: Vec<Arc<Vec<Entry>>> = Vec::with_capacity(self.ranks.len());
        for (place, (rank, calls)) in self.ranks.iter().zip(&self.calls).enumerate() {
            entries.push(match place % each {
                0 => Arc::new(rank.entries(calls[call]? as usize).ok()?),
                // What belongs to no piece was recorded once.
                _ => Arc::clone(&entries[place - 1]),
            });
        }
        Some(entries)
    }

    /// One tensor on every rank, by the entries of a call on each.
    pub(super) fn members<'a>(
        &'a self,
        entries: &'a [Arc<Vec<Entry>>],
        of: &Entry,
    ) -> Option<Vec<Member<'a>>> {
        let member = |(rank, entries): (&'a Arc<Rank>, &'a Arc<Vec<Entry>>)| {
            let same = entries.iter().find(|entry| entry.role == of.role && entry.path == of.path)?;
            Some(Member { rank, tensor: tensor(same)? })
        };
        self.ranks.iter().zip(entries).map(member).collect()
    }
}
