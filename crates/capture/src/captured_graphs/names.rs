//! Names of calls in a captured graph. A call has the number of its place there, from 2⁶³ on, which no step reaches; a
//! replay puts the next numbers of its step into their place.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use crate::state::StepId;

/// The first number of all graphs.
const FIRST: u64 = 1 << 63;

/// Places of one graph.
const PLACES: u64 = 1 << 32;
/// A captured graph of this run; zero is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct GraphNumber(pub(crate) u32);

impl GraphNumber {
    /// The first number of its calls.
    pub(crate) fn first(self) -> u64 {
        FIRST + u64::from(self.0) * PLACES
    }
}

/// A call by its place in a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GraphPlace {
    graph: GraphNumber,
    index: usize,
}

impl GraphPlace {
    fn of(number: u64) -> Option<GraphPlace> {
        let place = number.checked_sub(FIRST)?;
        let graph = GraphNumber(u32::try_from(place / PLACES).ok()?);
        Some(GraphPlace { graph, index: (place % PLACES) as usize })
    }
}

/// Whether a name is that of a call in a graph, whichever replay of it is meant.
pub fn is_in_graph(name: &str) -> bool {
    Name::of(name).place.is_some()
}

/// The name of a call, or a source: the text around its number, if that is a place in a graph.
#[derive(Clone, Debug)]
pub(super) struct Name<'a> {
    pub(super) before: Cow<'a, str>,
    pub(super) place: Option<GraphPlace>,
    after: Cow<'a, str>,
}

impl<'a> Name<'a> {
    pub(super) fn of(text: &'a str) -> Name<'a> {
        let mut start = 0;
        for part in text.split('.') {
            let number = (part.len() >= 19).then(|| part.parse().ok()).flatten();
            if let Some(place) = number.and_then(GraphPlace::of) {
                let (before, after) = (&text[..start], &text[start + part.len()..]);
                return Name { before: before.into(), place: Some(place), after: after.into() };
            }
            start += part.len() + 1;
        }
        Name { before: text.into(), place: None, after: "".into() }
    }

    pub(super) fn into_owned(self) -> Name<'static> {
        Name {
            before: self.before.into_owned().into(),
            place: self.place,
            after: self.after.into_owned().into(),
        }
    }

    /// The text with the number of a replay; `None` if there was none in this step.
    pub(super) fn at(&self, numbers: &Numbers<'_>) -> Option<String> {
        match self.place {
            None => Some(self.before.to_string()),
            Some(place) => {
                let number = numbers.of(place)?;
                Some(format!("{}{number}{}", self.before, self.after))
            }
        }
    }
}
/// The latest replay of each graph: its step, and the numbers of its calls.
pub(crate) type Replays = HashMap<GraphNumber, (StepId, Arc<[u64]>)>;

/// The numbers of calls in a replay.
#[derive(Clone, Copy)]
pub(crate) struct Numbers<'a> {
    pub(crate) step: StepId,
    pub(crate) graph: GraphNumber,
    pub(crate) own: &'a [u64],
    /// The backward pass of a graph may be another graph.
    pub(crate) others: &'a Replays,
}

impl Numbers<'_> {
    fn of(&self, place: GraphPlace) -> Option<u64> {
        if place.graph == self.graph {
            return self.own.get(place.index).copied();
        }
        let (step, numbers) = self.others.get(&place.graph)?;
        numbers.get(place.index).copied().filter(|_| *step == self.step)
    }

    /// A name with its number; `None` for that of a graph that was not replayed in this step.
    pub(crate) fn name(&self, name: &str) -> Option<String> {
        Name::of(name).at(self)
    }
}
