//! How the ranks of a run share its work: which axes there are, and where each rank is.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What the ranks along an axis share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ParallelKind {
    /// The elements of tensors.
    Tensor,
    /// The layers.
    Pipeline,
    /// The batch.
    Data,
}

impl ParallelKind {
    const ALL: [(&'static str, ParallelKind); 3] =
        [("tp", ParallelKind::Tensor), ("pp", ParallelKind::Pipeline), ("dp", ParallelKind::Data)];

    fn word(self) -> &'static str {
        ParallelKind::ALL.iter().find(|(_, kind)| *kind == self).map_or("", |(word, _)| word)
    }

    fn named(word: &str) -> Option<ParallelKind> {
        ParallelKind::ALL.iter().find(|(known, _)| *known == word).map(|(_, kind)| *kind)
    }
}

/// The axes of a run: `tp=2,dp=4`. Ranks that follow each other differ along the first axis of the order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parallel {
    /// The axes with their sizes, innermost first.
    axes: Vec<(ParallelKind, usize)>,
}

/// Text that is no description of axes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadParallel {
    /// A part is neither an axis with its size nor the order.
    #[error("expected tp=N, pp=N, dp=N or order=tp-pp-dp, found {0:?}")]
    Part(String),
    /// A size is no number from 1 up.
    #[error("expected a number of ranks from 1 up after {0}=, found {1:?}")]
    Size(&'static str, String),
    /// An axis is given twice.
    #[error("{0} is given twice")]
    Twice(&'static str),
    /// The order does not name each axis once.
    #[error("expected an order of tp, pp and dp, each once, innermost first, as in tp-pp-dp; found {0:?}")]
    Order(String),
}

/// The order of axes without `order=`, innermost first.
const ORDER: [ParallelKind; 3] = [ParallelKind::Tensor, ParallelKind::Pipeline, ParallelKind::Data];

impl FromStr for Parallel {
    type Err = BadParallel;

    fn from_str(text: &str) -> Result<Parallel, BadParallel> {
        let mut order = ORDER.to_vec();
        let mut sizes: Vec<(ParallelKind, usize)> = Vec::new();
        for part in text.split(',').map(str::trim) {
            let (word, value) = part.split_once('=').ok_or_else(|| BadParallel::Part(part.to_owned()))?;
            if word == "order" {
                let named: Option<Vec<ParallelKind>> = value.split('-').map(ParallelKind::named).collect();
                let is_whole = |named: &Vec<ParallelKind>| {
                    named.len() == ORDER.len() && ORDER.iter().all(|kind| named.contains(kind))
                };
                order = named.filter(is_whole).ok_or_else(|| BadParallel::Order(value.to_owned()))?;
                continue;
            }
            let kind = ParallelKind::named(word).ok_or_else(|| BadParallel::Part(part.to_owned()))?;
            let size: Option<usize> = value.parse().ok().filter(|&size| size > 0);
            let size = size.ok_or_else(|| BadParallel::Size(kind.word(), value.to_owned()))?;
            if sizes.iter().any(|(known, _)| *known == kind) {
                return Err(BadParallel::Twice(kind.word()));
            }
            sizes.push((kind, size));
        }
        let size = |kind| sizes.iter().find(|(known, _)| *known == kind).map_or(1, |(_, size)| *size);
        Ok(Parallel { axes: order.into_iter().map(|kind| (kind, size(kind))).collect() })
    }
}

impl fmt::Display for Parallel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let axes: Vec<String> = self
            .axes
            .iter()
            .filter(|(_, size)| *size > 1)
            .map(|(kind, size)| format!("{}={size}", kind.word()))
            .collect();
        if axes.is_empty() {
            return f.write_str("tp=1");
        }
        f.write_str(&axes.join(","))?;
        let order: Vec<ParallelKind> = self.axes.iter().map(|(kind, _)| *kind).collect();
        if order != ORDER {
            let words: Vec<&str> = order.into_iter().map(ParallelKind::word).collect();
            write!(f, ",order={}", words.join("-"))?;
        }
        Ok(())
    }
}

impl Parallel {
    /// How many ranks there are.
    pub fn ranks(&self) -> Option<usize> {
        self.axes.iter().try_fold(1usize, |ranks, (_, size)| ranks.checked_mul(*size))
    }

    /// Where the ranks are: those of a run with these numbers, in order.
    pub(crate) fn layout(&self, numbers: Vec<u64>) -> Layout {
        let axes: Vec<&(ParallelKind, usize)> =
            self.axes.iter().rev().filter(|(_, size)| *size > 1).collect();
        let pipeline = axes.iter().position(|(kind, _)| *kind == ParallelKind::Pipeline);
        Layout {
            grid: Grid { sizes: axes.iter().map(|(_, size)| *size).collect(), numbers, has_pieces: false },
            pipeline,
        }
    }
}

/// The ranks of a run, of which those along one axis may be the stages of a pipeline.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    /// All ranks.
    pub(crate) grid: Grid,
    /// The axis of stages.
    pub(crate) pipeline: Option<usize>,
}

/// Where ranks are once stages are joined and the batch is cut into pieces.
pub(crate) struct JoinedPlaces {
    /// The sizes of the axes: those of ranks, and the pieces, if there are several.
    pub(crate) sizes: Vec<usize>,
    /// By place and stage: the place of the rank in the layout.
    pub(crate) members: Vec<Vec<usize>>,
}

impl Layout {
    /// How many stages there are.
    pub(crate) fn stages(&self) -> usize {
        self.pipeline.map_or(1, |axis| self.grid.sizes[axis])
    }

    /// The stage of the rank at a place.
    pub(crate) fn stage(&self, place: usize) -> usize {
        self.pipeline.map_or(0, |axis| self.grid.coordinate(place, axis))
    }

    /// The places of joined ranks: in order, and of each rank the pieces one after the other.
    pub(crate) fn joined(&self, pieces: usize) -> JoinedPlaces {
        let axes = (0..self.grid.sizes.len()).filter(|axis| Some(*axis) != self.pipeline);
        let sizes = axes.map(|axis| self.grid.sizes[axis]).chain((pieces > 1).then_some(pieces)).collect();
        let step: usize = self.pipeline.map_or(0, |axis| self.grid.sizes[axis + 1..].iter().product());
        let first = (0..self.grid.len()).filter(|&place| self.stage(place) == 0);
        let members = first.flat_map(|place| {
            let stages: Vec<usize> = (0..self.stages()).map(|stage| place + stage * step).collect();
            vec![stages; pieces]
        });
        JoinedPlaces { sizes, members: members.collect() }
    }
}

/// Ranks along axes. Axes are outermost first: the last rank number changes fastest along the last axis.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Grid {
    /// The sizes of the axes, each at least 2.
    pub(crate) sizes: Vec<usize>,
    /// By place: the number of the rank.
    pub(crate) numbers: Vec<u64>,
    /// Whether places along the last axis are the pieces of the batch that one rank computes.
    pub(crate) has_pieces: bool,
}

impl Grid {
    /// How many ranks there are.
    pub(crate) fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Whether places along an axis are the same rank.
    pub(crate) fn is_of_pieces(&self, axis: usize) -> bool {
        self.has_pieces && axis + 1 == self.sizes.len()
    }

    /// Where along an axis a place is.
    pub(crate) fn coordinate(&self, place: usize, axis: usize) -> usize {
        let inner: usize = self.sizes[axis + 1..].iter().product();
        place / inner % self.sizes[axis]
    }

    /// The place that differs along one axis alone, at its beginning.
    pub(crate) fn first_along(&self, place: usize, axis: usize) -> usize {
        let inner: usize = self.sizes[axis + 1..].iter().product();
        place - self.coordinate(place, axis) * inner
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_axis_of_the_order_is_the_innermost() {
        let grid =
            |text: &str, ranks| text.parse::<Parallel>().expect("axes").layout((0..ranks).collect()).grid;
        let tp_first = grid("tp=2,dp=3", 6);
        assert_eq!(tp_first.sizes, [3, 2]);
        let along = |grid: &Grid, axis| (0..6).map(|place| grid.coordinate(place, axis)).collect::<Vec<_>>();
        assert_eq!(along(&tp_first, 0), [0, 0, 1, 1, 2, 2]);
        assert_eq!(along(&tp_first, 1), [0, 1, 0, 1, 0, 1]);
        let dp_first = grid("tp=2,dp=3,order=dp-pp-tp", 6);
        assert_eq!(dp_first.sizes, [2, 3]);
        assert_eq!(along(&dp_first, 0), [0, 0, 0, 1, 1, 1]);
        assert_eq!(dp_first.first_along(5, 0), 2);
        assert_eq!(dp_first.first_along(5, 1), 3);
    }

    #[test]
    fn what_is_wrong_is_said() {
        let error = |text: &str| text.parse::<Parallel>().expect_err("it is wrong");
        assert_eq!(error("tp"), BadParallel::Part("tp".to_owned()));
        assert_eq!(error("ep=2"), BadParallel::Part("ep=2".to_owned()));
        assert_eq!(error("tp=0"), BadParallel::Size("tp", "0".to_owned()));
        assert_eq!(error("tp=2,tp=2"), BadParallel::Twice("tp"));
        assert_eq!(error("tp=2,order=tp-dp"), BadParallel::Order("tp-dp".to_owned()));
    }

    #[test]
    fn stages_are_joined_and_pieces_follow_each_other() {
        let layout = |text: &str| text.parse::<Parallel>().expect("axes").layout((0..8).collect());
        let inner = layout("tp=2,pp=2,dp=2");
        assert_eq!((inner.stages(), inner.stage(1), inner.stage(2), inner.stage(6)), (2, 0, 1, 1));
        let places = inner.joined(1);
        assert_eq!(places.sizes, [2, 2]);
        assert_eq!(places.members, [[0, 2], [1, 3], [4, 6], [5, 7]]);
        let outer = layout("tp=2,pp=2,dp=2,order=tp-dp-pp").joined(2);
        assert_eq!(outer.sizes, [2, 2, 2]);
        assert_eq!(outer.members[..4], [[0, 4], [0, 4], [1, 5], [1, 5]]);
    }

    #[test]
    fn it_is_written_as_it_is_read() {
        let written = |text: &str| text.parse::<Parallel>().expect("axes").to_string();
        assert_eq!(written("tp=2,pp=1,dp=4"), "tp=2,dp=4");
        assert_eq!(written("dp=4, order=dp-tp-pp,tp=2"), "dp=4,tp=2,order=dp-tp-pp");
        assert_eq!(written("tp=1"), "tp=1");
    }
}
