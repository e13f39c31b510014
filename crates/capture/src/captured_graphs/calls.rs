//! The calls of a captured graph, written whenever it is replayed.

use std::collections::BTreeMap;
use std::sync::Arc;

use ulpscope_dump::journal::encode::Ticket;
use ulpscope_dump::writer::LateNumbers;

use crate::captured_graphs::lines::{GraphLines, Numbered};
use crate::captured_graphs::names::{GraphNumber, Name, Numbers, Replays};
use crate::captured_graphs::pieces::{ARGUMENT, AtReplay, FirstNumbers, Piece, pieces};
use crate::gradient_counts::GradientCounts;
use crate::ledger::StepLedger;
use crate::state::StepId;

/// The calls of a captured graph.
#[derive(Debug)]
pub struct GraphCalls {
    graph: GraphNumber,
    lines: Vec<Vec<Piece>>,
    pub(crate) stacks: BTreeMap<u64, String>,
    numbered: Vec<Numbered>,
    growing: Vec<(Name<'static>, u64)>,
    pub(crate) gradients: GradientCounts,
    pub(crate) ids: u64,
    pub(crate) tickets: u64,
    /// Calls that count towards a limit, if there is one.
    pub(crate) places: u64,
    pub(crate) ledger: StepLedger,
}

/// What of a graph's state is not in its lines.
pub(crate) struct GraphTotals {
    pub(crate) gradients: GradientCounts,
    /// The last number of a line.
    pub(crate) last_id: u64,
    pub(crate) tickets: u64,
    pub(crate) places: u64,
    pub(crate) ledger: StepLedger,
}

impl GraphCalls {
    pub(crate) fn new(lines: GraphLines, totals: GraphTotals) -> GraphCalls {
        let GraphLines { graph, text, stacks, numbered, growing, .. } = lines;
        let id = |number: u64| number - graph.first();
        let mut growing: Vec<_> =
            growing.iter().map(|(name, number)| (Name::of(name).into_owned(), id(*number))).collect();
        growing.sort_unstable_by_key(|(_, id)| *id);
        GraphCalls {
            graph,
            lines: text.split_inclusive(|&byte| byte == b'\n').map(|line| pieces(line, graph)).collect(),
            stacks,
            numbered,
            growing,
            gradients: totals.gradients,
            ids: id(totals.last_id),
            tickets: totals.tickets,
            places: totals.places,
            ledger: totals.ledger,
        }
    }

    /// The graph.
    pub fn graph(&self) -> GraphNumber {
        self.graph
    }

    /// How many calls there are.
    pub fn len(&self) -> u64 {
        self.ledger.recorded()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The source of the nth argument of a graph, before it is known.
    pub fn argument(number: usize) -> Arc<str> {
        format!("{ARGUMENT}{number}").into()
    }

    /// The numbers of its calls in a replay, given the next number of a call and the unused one of gradients.
    pub(crate) fn numbers(
        &self,
        mut next: impl FnMut(&Arc<str>) -> u64,
        gradients: &GradientCounts,
    ) -> Vec<u64> {
        let number = |numbered: &Numbered| match numbered {
            Numbered::Call(base) => next(base),
            Numbered::Gradients(base, before) => gradients.unused(base) + before,
        };
        self.numbered.iter().map(number).collect()
    }

    /// The lines of a replay, and how many calls are left out: those of a graph that was not replayed in this step.
    pub(crate) fn text(&self, numbers: &Numbers<'_>, first: FirstNumbers, at: &AtReplay) -> (Vec<u8>, u64) {
        let (mut text, mut left_out) = (Vec::new(), 0);
        for line in &self.lines {
            let start = text.len();
            if line.iter().all(|piece| piece.push(numbers, first, at, &mut text).is_some()) {
                continue;
            }
            text.truncate(start);
            left_out += 1;
        }
        (text, left_out)
    }

    /// The calls of a replay that may grow further: their names and ids.
    pub(crate) fn growing(&self, numbers: &Numbers<'_>, first: FirstNumbers) -> Vec<(String, u64)> {
        let named = |(name, id): &(Name<'_>, u64)| Some((name.at(numbers)?, first.id + id));
        self.growing.iter().filter_map(named).collect()
    }
}
/// A replay whose calls were written.
pub struct Replayed {
    /// The numbers of its calls.
    pub(crate) numbers: Arc<[u64]>,
    /// The step.
    pub step: StepId,
    graph: GraphNumber,
    /// The ticket of the first tensor that the graph measures.
    pub first_ticket: Ticket,
    /// Where their numbers are expected.
    pub late: Arc<LateNumbers>,
}

impl Replayed {
    pub(crate) fn new(
        (step, graph): (StepId, GraphNumber),
        numbers: Arc<[u64]>,
        (first_ticket, late): (Ticket, Arc<LateNumbers>),
    ) -> Replayed {
        Replayed { numbers, step, graph, first_ticket, late }
    }

    /// The name that a call of the graph, or what it has made, has in this replay; that of another graph's is not known.
    pub fn name(&self, name: &str) -> Option<Arc<str>> {
        let others = Replays::new();
        let numbers = Numbers { step: self.step, graph: self.graph, own: &self.numbers, others: &others };
        numbers.name(name).map(Arc::from)
    }
}
