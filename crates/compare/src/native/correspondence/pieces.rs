//! Inputs that the two programs cut differently: padded to another length, packed, in micro-batches, one token at a time.
//!
//! ```text
//! target   ids [2, 1] ──► embedding(wte) ──► ... ──► linear(head) [2, 1, 50]      piece 3 of 12
//!            is [:, 3:4] of                            is compared with [:, 3:4, :] of
//! golden   ids [2, 12] ─► embedding(wte) ──► ... ──► linear(head) [2, 12, 50]
//! ```
//! Data enters a program at calls that are given it together with a parameter. Where these are given other sizes, content
//! tells which part of one input the other is. From there on, what both programs compute from the same parameter is compared
//! in the same part.

use std::collections::HashSet;

use ulpscope_dump::{Content, Entry, Rank, Role, TensorEntry};

use super::counterparts::Counterparts;
use super::ends::EndApart;
use super::piece_ends;
use super::program::{Program, Value};
use super::slices::{Elements, Slice};
use crate::native::evidence::call_evidence::place;
use crate::native::evidence::flow::Calls;
use crate::native::evidence::measure::recorded;
use crate::native::thresholds::final_results::ALLOWED;
use crate::note::{InputPart, Note};

/// Where data enters a program, at one use of a parameter.
struct Entrance {
    name: String,
    tensor: Box<TensorEntry>,
    shape: Vec<u64>,
}

impl Entrance {
    /// Whether both have the same values, one of them repeated.
    fn is_broadcast_of(&self, other: &Entrance) -> bool {
        let mut sizes = self.shape.iter().zip(&other.shape).filter(|(one, other)| one != other);
        let numbers = [self, other].map(|entrance| recorded(&entrance.tensor));
        let [[max, min, mean, _], others] = numbers;
        max.is_some() && [max, min, mean] == others[..3] && sizes.all(|(&one, &other)| one.min(other) == 1)
    }
}

/// A piece of the target's data and one of the golden's, and which parts of both are the same.
pub(super) struct PiecePair {
    target: usize,
    golden: usize,
    /// Sizes of the two inputs.
    sizes: [Vec<u64>; 2],
    slice: Slice,
}

/// The two programs, with their calls.
pub(super) type Sides<'a> = [(&'a Program, &'a Calls<'a>); 2];

/// Inputs that are cut differently, and what was compared of what follows from them.
#[derive(Debug)]
pub(in crate::native) struct Pieces {
    /// What is said first.
    pub(in crate::native) note: Note,
    /// Calls of the target whose results agree in the part that both have.
    pub(in crate::native) agreeing: Vec<usize>,
    /// Those whose results do not.
    pub(in crate::native) differing: Vec<DifferingPart>,
    /// Whether what is computed from the last parameter was compared, for every piece that both have.
    pub(in crate::native) is_complete: bool,
    /// A final result that is not known to be the same on both sides.
    pub(in crate::native) end: Option<EndApart>,
}

/// A result that differs in the part that both programs have.
#[derive(Clone, Copy, Debug)]
pub(in crate::native) struct DifferingPart {
    /// The call of the target.
    pub(in crate::native) call: usize,
    pub(in crate::native) error: f64,
    pub(in crate::native) allowed: f64,
}

/// Finds inputs that are cut differently; nothing, where there are none. Results may be apart by `limit` and `noise`,
/// whatever rounding explains.
pub(super) fn find<'a>(
    [target, golden]: [&'a Program; 2],
    calls: [&'a Calls<'a>; 2],
    weights: &[(&str, &str)],
    (limit, noise): (f64, f64),
) -> Option<Pieces> {
    let sides = [(target, calls[0]), (golden, calls[1])];
    let (entrances, is_whole) = cut_entrances([target, golden], calls, weights)?;
    let pairs = if is_whole { map(&entrances, calls.map(|calls| calls.rank)) } else { Vec::new() };
    let mut pieces = Pieces {
        note: note(&entrances, &pairs),
        agreeing: Vec::new(),
        differing: Vec::new(),
        is_complete: false,
        end: None,
    };
    let mut compared: [HashSet<usize>; 2] = Default::default();
    let counts = entrances.each_ref().map(Vec::len);
    for (ours, theirs) in weights.iter().filter(|_| !pairs.is_empty()) {
        let uses = [&target.weights[*ours].uses, &golden.weights[*theirs].uses];
        let each = [uses[0].len() / counts[0], uses[1].len() / counts[1]];
        let is_regular =
            (0..2).all(|side| each[side] * counts[side] == uses[side].len()) && each[0] == each[1];
        pieces.is_complete = is_regular && each[0] > 0;
        for pair in pairs.iter().filter(|_| is_regular) {
            for number in 0..each[0] {
                let both = [uses[0][pair.target * each[0] + number], uses[1][pair.golden * each[1] + number]];
                match compare(sides, both, pair) {
                    Some((error, square)) => {
                        compared.iter_mut().zip(both).for_each(|(calls, call)| _ = calls.insert(call));
                        let allowed = limit.max(ALLOWED.get() * square.sqrt());
                        match error <= allowed {
                            true => pieces.agreeing.push(both[0]),
                            false => pieces.differing.push(DifferingPart { call: both[0], error, allowed }),
                        }
                    }
                    None => pieces.is_complete = false,
                }
            }
        }
    }
    if !pairs.is_empty() {
        let ranks = calls.map(|calls| calls.rank);
        let counterparts = Counterparts::of([target, golden], ranks, (limit, noise));
        pieces.end = piece_ends::first_apart(&counterparts, sides, &pairs, &compared);
    }
    pieces.differing.sort_by_key(|part| part.call);
    pieces.agreeing.sort_unstable();
    Some(pieces)
}

/// Whether inputs are cut differently.
pub(super) fn is_cut_differently(
    programs: [&Program; 2],
    calls: [&Calls<'_>; 2],
    weights: &[(&str, &str)],
) -> bool {
    cut_entrances(programs, calls, weights).is_some()
}

/// Where data of other sizes enters the two programs, at the uses of one parameter, and whether it does at all of them.
fn cut_entrances(
    programs: [&Program; 2],
    calls: [&Calls<'_>; 2],
    weights: &[(&str, &str)],
) -> Option<([Vec<Entrance>; 2], bool)> {
    let depends = programs.map(depends_on_parameters);
    weights.iter().find_map(|&(ours, theirs)| {
        let names = [ours, theirs];
        let uses = [0, 1].map(|side: usize| &programs[side].weights[names[side]].uses);
        let found = [0, 1].map(|side: usize| {
            let entrance = |&call: &usize| entrance(programs[side], calls[side], &depends[side], call);
            uses[side].iter().filter_map(entrance).collect::<Vec<Entrance>>()
        });
        let is_whole = (0..2).all(|side| found[side].len() == uses[side].len());
        is_cut(&found).then_some((found, is_whole))
    })
}

/// Which values are computed from any parameter.
fn depends_on_parameters(program: &Program) -> Vec<bool> {
    let mut depends = vec![false; program.values.len()];
    for step in &program.steps {
        let does = !step.weights.is_empty() || step.given.iter().any(|&value| depends[value]);
        step.returned.iter().for_each(|&value| depends[value] = does);
    }
    depends
}

/// The data that a call is given beside a parameter; nothing, where all it is given was computed from parameters.
fn entrance(program: &Program, calls: &Calls<'_>, depends: &[bool], call: usize) -> Option<Entrance> {
    if program.steps[call].given.iter().any(|&value| depends[value]) {
        return None;
    }
    let entries = calls.rank.entries(call).ok()?;
    entries.into_iter().find_map(|entry| match entry.content {
        Content::Tensor(tensor) if entry.role == Role::Input => {
            let source = tensor.source.as_deref().unwrap_or_default();
            let is_model = ["parameter", "buffer", "gradient"].iter().any(|kind| source.starts_with(kind));
            let shape = tensor.shape.clone().filter(|shape| !shape.is_empty() && !is_model)?;
            Some(Entrance { name: entry.name, tensor, shape })
        }
        _ => None,
    })
}

/// Whether sizes differ, beyond a different order of dimensions.
fn is_cut([target, golden]: &[Vec<Entrance>; 2]) -> bool {
    let shapes = |side: &[Entrance]| side.iter().map(|entrance| entrance.shape.clone()).collect::<Vec<_>>();
    let (ours, theirs) = (shapes(target), shapes(golden));
    let known = |own: &[Vec<u64>], other: &[Vec<u64>]| own.iter().all(|shape| other.contains(shape));
    let sorted = |shape: &[u64]| {
        let mut shape = shape.to_vec();
        shape.sort_unstable();
        shape
    };
    // What is the same for every row may be given once.
    let is_broadcast = target.iter().zip(golden).all(|(one, other)| one.is_broadcast_of(other));
    let is_turned = ours.len() == theirs.len()
        && ours.iter().zip(&theirs).all(|(one, other)| sorted(one) == sorted(other));
    let is_known = known(&ours, &theirs) && known(&theirs, &ours);
    !ours.is_empty()
        && !theirs.is_empty()
        && ours.iter().zip(&theirs).all(|(one, other)| one.len() == other.len())
        && !is_known
        && !is_turned
        && !is_broadcast
}

/// Which pieces are parts of which, by content; nothing, unless all of one side are parts of the other's.
fn map(entrances: &[Vec<Entrance>; 2], ranks: [&Rank; 2]) -> Vec<PiecePair> {
    let read = |side: usize| -> Option<Vec<Elements>> {
        entrances[side].iter().map(|entrance| Elements::read(ranks[side], &entrance.tensor)).collect()
    };
    let Some([ours, theirs]) = read(0).and_then(|ours| Some([ours, read(1)?])) else { return Vec::new() };
    let both = [&ours, &theirs];
    for side in [0, 1] {
        // Pieces follow one another.
        let (mut whole, mut from) = (0, 0);
        let found: Option<Vec<PiecePair>> = (0..both[side].len())
            .map(|part| {
                let wholes = (whole..both[1 - side].len()).chain(0..whole);
                let (at, slice) = wholes.into_iter().find_map(|at| {
                    let from = if at == whole { from } else { 0 };
                    let (part, of) = (&both[side][part], &both[1 - side][at]);
                    Slice::locate(part, of, from)
                        .or_else(|| Slice::locate(part, of, 0))
                        .map(|slice| (at, slice))
                })?;
                (whole, from) = (at, slice.end());
                let [target, golden] = if side == 0 { [part, at] } else { [at, part] };
                let sizes = [entrances[0][target].shape.clone(), entrances[1][golden].shape.clone()];
                let slice = if side == 0 { slice } else { slice.swapped() };
                Some(PiecePair { target, golden, sizes, slice })
            })
            .collect();
        if let Some(found) = found.filter(|found| !found.is_empty()) {
            return found;
        }
    }
    Vec::new()
}

/// The relative distance of what two calls return, in the part that both have, and the square of accumulated rounding;
/// nothing, where elements were not recorded or it is not known which part that is.
fn compare(sides: Sides<'_>, calls: [usize; 2], pair: &PiecePair) -> Option<(f64, f64)> {
    let values = [0, 1].map(|side| {
        let (program, _) = sides[side];
        program.steps[calls[side]].returned.first().map(|&value| &program.values[value])
    });
    let [Some(one), Some(other)] = values else { return None };
    let error = distance_in_part(sides, [one, other], pair)?;
    Some((error, one.square.max(other.square)))
}

/// The relative distance of a value of the target and one of the golden, in the part that both have.
pub(super) fn distance_in_part(sides: Sides<'_>, values: [&Value; 2], pair: &PiecePair) -> Option<f64> {
    let read = |side: usize| match entry(sides[side].1.rank, values[side])?.content {
        Content::Tensor(tensor) => Elements::read(sides[side].1.rank, &tensor),
        _ => None,
    };
    pair.slice.distance([&read(0)?, &read(1)?], &pair.sizes)
}

fn entry(rank: &Rank, value: &Value) -> Option<Entry> {
    let entries = rank.entries(value.call).ok()?;
    entries.into_iter().find(|entry| place(entry.role, &entry.path) == value.place)
}

fn note([target, golden]: &[Vec<Entrance>; 2], pairs: &[PiecePair]) -> Note {
    let differs = |one: &&Entrance| !golden.iter().any(|other| other.shape == one.shape);
    let number = target.iter().position(|one| differs(&one)).unwrap_or(0);
    let found = pairs.iter().find(|pair| pair.target == number).or(pairs.first());
    let [one, other] = match found {
        Some(pair) => [&target[pair.target], &golden[pair.golden]],
        None => [&target[number], &golden[number.min(golden.len() - 1)]],
    };
    let sizes = one.shape.iter().zip(&other.shape).enumerate();
    let sizes = sizes.filter(|(_, (one, other))| one != other);
    let part = pairs.first().zip(pairs.last()).map(|(first, last)| InputPart {
        target: first.slice.words(0, &first.sizes),
        golden: first.slice.words(1, &first.sizes),
        pieces: [target.len() as u64, golden.len() as u64],
        last: (pairs.len() > 1).then(|| {
            let side = if last.slice.words(0, &last.sizes).is_none() { 1 } else { 0 };
            last.slice.words(side, &last.sizes).unwrap_or_default()
        }),
    });
    Note::InputsCutDifferently {
        target: one.name.clone(),
        golden: other.name.clone(),
        sizes: sizes.map(|(dimension, (&one, &other))| (dimension as u64, [one, other])).collect(),
        part,
    }
}
