//! The order of calls over several ranks: what fed a message comes before what received it.
//!
//! Each rank counts its calls. A call that takes part in a collective, or receives a message, waits until the other ranks
//! have arrived there, and goes on from the largest count.

use super::scan::RankScan;
use super::traffic::{Place, Traffic};

/// The count of each call.
pub(super) struct FlowOrder {
    counts: Vec<Vec<u64>>,
}

impl FlowOrder {
    pub(super) fn of(scans: &[RankScan], traffic: &Traffic) -> FlowOrder {
        let mut counts: Vec<Vec<u64>> =
            scans.iter().map(|scan| Vec::with_capacity(scan.states.len())).collect();
        loop {
            let mut is_stuck = true;
            for rank in 0..scans.len() {
                while let Some(count) = next_count(scans, traffic, &counts, rank) {
                    counts[rank].push(count);
                    is_stuck = false;
                }
            }
            if !is_stuck {
                continue;
            }
            // Ranks that wait for each other, as a dump of a damaged run may say: one goes on without the others.
            let waiting = (0..scans.len()).find(|&rank| counts[rank].len() < scans[rank].states.len());
            let Some(rank) = waiting else { break };
            let count = before(&counts[rank]) + 1;
            counts[rank].push(count);
        }
        FlowOrder { counts }
    }

    /// What calls are sorted by.
    pub(super) fn count(&self, scans: &[RankScan], (rank, call): Place) -> u64 {
        let position = scans[rank].position(call);
        position.and_then(|at| self.counts[rank].get(at)).copied().unwrap_or(u64::MAX)
    }
}

/// The count of a rank's next call, if all that it waits for have arrived.
fn next_count(scans: &[RankScan], traffic: &Traffic, counts: &[Vec<u64>], rank: usize) -> Option<u64> {
    let state = scans[rank].states.get(counts[rank].len())?;
    let mut largest = before(&counts[rank]);
    for (other, sent) in traffic.senders(rank, state.call) {
        let Some(at) = scans[other].position(sent) else { continue };
        let arrived = counts.get(other)?.get(..at)?;
        largest = largest.max(before(arrived));
    }
    Some(largest + 1)
}

fn before(counts: &[u64]) -> u64 {
    counts.last().copied().unwrap_or(0)
}
