//! Where a comparison runs: an engine finds the dumps and has the pairs of ranks compared.

use std::path::Path;

use ulpscope_compare::{
    Outputs, Progress, Prover, RankGroup, RankPair, RankResult, Style, compare_dumps, compare_groups,
};
use ulpscope_dump::{Dump, Error, Select};

use crate::Request;

/// The pairs of ranks of a comparison, and how to compare them.
pub struct Work<'a> {
    /// The request.
    pub request: &'a Request,
    /// Its style.
    pub style: &'a dyn Style,
    /// In order of steps, then ranks.
    pub pairs: &'a [RankPair<'a>],
}

/// Compares pairs of ranks, here or elsewhere. The result of a pair does not depend on the engine.
pub trait Engine {
    /// Has the rows of a pair.
    type Sink;

    /// Finds the steps and ranks of a dump.
    fn find(&self, path: &Path, select: &Select) -> Result<Dump, Error>;

    /// Compares every pair; the results are in the order of the pairs. The failure of one pair is its result.
    fn answer(&self, work: &Work<'_>) -> Result<Vec<RankResult<Self::Sink>>, Error>;

    /// The option that keeps ranks from being merged; `None` if they can be.
    fn unfit_to_merge(&self) -> Option<&'static str>;

    /// Merges the ranks of each group, and compares them with their golden; the results are in the order of the groups.
    fn answer_merged(
        &self,
        request: &Request,
        groups: &[RankGroup<'_>],
    ) -> Result<Vec<RankResult<Self::Sink>>, Error>;
}

/// Compares in this process, on all cores.
pub struct Threads<'a, O> {
    /// Receives the rows.
    pub outputs: &'a O,
    /// Is told of every compared call.
    pub progress: &'a dyn Progress,
    /// Makes blamed calls again.
    pub prover: Option<&'a dyn Prover>,
}

impl<O: Outputs> Engine for Threads<'_, O> {
    type Sink = O::Sink;

    fn find(&self, path: &Path, select: &Select) -> Result<Dump, Error> {
        Dump::open(path, select)
    }

    fn answer(&self, work: &Work<'_>) -> Result<Vec<RankResult<O::Sink>>, Error> {
        Ok(compare_dumps(work.style, work.pairs, self.outputs, self.progress, self.prover))
    }

    fn unfit_to_merge(&self) -> Option<&'static str> {
        self.prover.map(|_| "--prove")
    }

    fn answer_merged(
        &self,
        request: &Request,
        groups: &[RankGroup<'_>],
    ) -> Result<Vec<RankResult<O::Sink>>, Error> {
        Ok(compare_groups(&request.pairing()?, groups, self.outputs, self.progress))
    }
}
