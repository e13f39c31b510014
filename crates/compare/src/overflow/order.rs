//! The order of calls over several ranks: what fed a message comes before what received it.
//!
//! Each rank counts its calls. A call that takes part in a collective, or receives a message, waits until the other ranks
//! have arrived there, and goes on from the largest count.

use super::scan::RankScan;
use super::traffic::{Link, Place, Traffic};

/// The count of each call.
pub(super) struct FlowOrder {
    ranks: Vec<Counted>,
}

/// The counts of a rank: those of the calls that wait for other ranks. All others count one more than the call before.
#[derive(Default)]
struct Counted {
    /// The positions of calls that wait, in order, with their places in the scan.
    waiting: Vec<(u64, usize)>,
    /// The counts of the first of them.
    counts: Vec<u64>,
}

impl Counted {
    /// The count of the last call before a position, if the rank has come so far.
    fn before(&self, position: u64) -> Option<u64> {
        let earlier = self.waiting.partition_point(|&(at, _)| at < position);
        if earlier > self.counts.len() {
            return None;
        }
        let last = earlier.checked_sub(1).map(|last| (self.waiting[last].0, self.counts[last]));
        Some(last.map_or(position, |(at, count)| count + (position - at - 1)))
    }
}

impl FlowOrder {
    pub(super) fn of(scans: &[RankScan], traffic: &Traffic) -> FlowOrder {
        let waiting = |(rank, scan): (usize, &RankScan)| {
            let states = scan.states.iter().enumerate();
            let waits = states.filter(|(at, _)| !traffic.links((rank, *at)).is_empty());
            Counted { waiting: waits.map(|(at, state)| (state.position, at)).collect(), counts: Vec::new() }
        };
        let mut order = FlowOrder { ranks: scans.iter().enumerate().map(waiting).collect() };
        // The largest count of a collective, once all ranks have arrived.
        let mut largest = vec![None; traffic.collectives.len()];
        loop {
            let mut is_stuck = true;
            for rank in 0..scans.len() {
                while let Some(count) = order.next_count(scans, traffic, &mut largest, rank) {
                    order.ranks[rank].counts.push(count);
                    is_stuck = false;
                }
            }
            if !is_stuck {
                continue;
            }
            // Ranks that wait for each other, as a dump of a damaged run may say: one goes on without the others.
            let waits = |one: &&mut Counted| one.counts.len() < one.waiting.len();
            let Some(rank) = order.ranks.iter_mut().find(waits) else { break };
            let (position, _) = rank.waiting[rank.counts.len()];
            let count = rank.before(position).unwrap_or(0) + 1;
            rank.counts.push(count);
        }
        order
    }

    /// What calls are sorted by.
    pub(super) fn count(&self, scans: &[RankScan], (rank, at): Place) -> u64 {
        self.ranks[rank].before(scans[rank].states[at].position + 1).unwrap_or(u64::MAX)
    }

    /// The count of a rank's next call that waits, if all that it waits for have arrived.
    fn next_count(
        &self,
        scans: &[RankScan],
        traffic: &Traffic,
        largest: &mut [Option<u64>],
        rank: usize,
    ) -> Option<u64> {
        let own = &self.ranks[rank];
        let &(position, at) = own.waiting.get(own.counts.len())?;
        let arrived = |(rank, at): Place| self.ranks[rank].before(scans[rank].states[at].position);
        let mut count = own.before(position)?;
        for link in traffic.links((rank, at)) {
            let of_link = match *link {
                Link::Message(sent) => arrived(sent)?,
                Link::Collective(number) => match largest[number] {
                    Some(known) => known,
                    None => {
                        let mut most = 0;
                        for &part in &traffic.collectives[number] {
                            most = most.max(arrived(part)?);
                        }
                        *largest[number].insert(most)
                    }
                },
            };
            count = count.max(of_link);
        }
        Some(count + 1)
    }
}
