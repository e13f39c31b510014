//! Which parameters and modules of the golden the stages of a pipeline have.
//!
//! Stages use parameters in the order in which the golden does, one stage after the other. So the uses of all stages are
//! aligned with the golden's: as many as possible, then those with the same content, then those with the same name.
//! What a stage calls `layers.0` may be `layers.2` of the golden. Order decides before content, so that a stage with the
//! parameters of a different one is compared with what it should have.

use std::collections::BTreeMap;
use std::sync::Arc;

use ulpscope_dump::{OriginNames, Rank};

use super::passes::Use;
use super::survey::tensor;
use crate::fact::Statistics;
use crate::native::recorded;

/// The largest table of an alignment.
const MAX_CELLS: usize = 1 << 24;

/// What the golden calls parameters and modules of a stage.
#[derive(Clone, Debug, Default)]
pub(super) struct StageNames {
    /// By name of a parameter in the stage.
    parameters: BTreeMap<String, String>,
}

impl StageNames {
    /// What the golden calls a parameter or a buffer.
    pub(super) fn origin(&self, name: &str) -> String {
        if let Some(known) = self.parameters.get(name) {
            return known.clone();
        }
        match name.rsplit_once('.') {
            Some((path, last)) => format!("{}.{last}", self.path(path)),
            None => name.to_owned(),
        }
    }

    /// The first parameter with a name of the stage's own: that, and the golden's.
    pub(super) fn renamed(&self) -> Option<(&str, &str)> {
        let mut names = self.parameters.iter().map(|(own, golden)| (own.as_str(), golden.as_str()));
        names.find(|(own, golden)| own != golden)
    }

    /// What the stage calls a parameter of the golden.
    pub(super) fn own(&self, golden: &str) -> Option<&str> {
        self.parameters.iter().find(|(_, known)| *known == golden).map(|(own, _)| own.as_str())
    }

    /// What the golden calls the module of this path: as the parameters below it say, or like the module around it.
    pub(super) fn path(&self, path: &str) -> String {
        let below = format!("{path}.");
        for (own, golden) in self.parameters.range(below.clone()..) {
            let Some(rest) = own.strip_prefix(&below) else { break };
            if let Some(found) = golden.strip_suffix(rest).and_then(|front| front.strip_suffix('.')) {
                return found.to_owned();
            }
        }
        match path.rsplit_once('.') {
            Some((around, last)) => format!("{}.{last}", self.path(around)),
            None => path.to_owned(),
        }
    }

    /// The base of the name of a call: `Module.layers.0.fc.Linear`.
    pub(super) fn base(&self, base: &str) -> String {
        let module = ["Module.", "Cell."].into_iter().find_map(|kind| Some((kind, base.strip_prefix(kind)?)));
        match module.and_then(|(kind, rest)| Some((kind, rest.rsplit_once('.')?))) {
            Some((kind, (path, class))) => format!("{kind}{}.{class}", self.path(path)),
            None => base.to_owned(),
        }
    }

    /// The same for what a rank shows.
    pub(super) fn origins(names: &Arc<StageNames>) -> OriginNames {
        let names = Arc::clone(names);
        Arc::new(move |name| names.origin(name))
    }
}

/// A use of a parameter, with what it is compared by.
struct Token<'a> {
    used: &'a Use,
    stage: usize,
    numbers: Statistics,
}

fn tokens<'a>(stage: usize, (rank, uses): (&Rank, &'a [Use])) -> Vec<Token<'a>> {
    let numbers = |used: &Use| {
        let entries = rank.entries(used.call).ok()?;
        Some(recorded(tensor(entries.get(used.entry)?)?))
    };
    let token = |used: &'a Use| Token { used, stage, numbers: numbers(used).unwrap_or([None; 4]) };
    uses.iter().map(token).collect()
}

/// Aligns the uses of all stages, each with one of its ranks, with those of the golden.
pub(super) fn stage_names(stages: &[(&Rank, &[Use])], golden: (&Rank, &[Use])) -> Vec<StageNames> {
    let ours: Vec<Token<'_>> =
        stages.iter().enumerate().flat_map(|(stage, &side)| tokens(stage, side)).collect();
    let theirs = tokens(0, golden);
    let mut names = vec![StageNames::default(); stages.len()];
    for (one, other) in aligned(&ours, &theirs) {
        let (one, other) = (&ours[one], &theirs[other]);
        let known = &mut names[one.stage].parameters;
        known.entry(one.used.parameter.clone()).or_insert_with(|| other.used.parameter.clone());
    }
    names
}

/// Whether one may be the other, or a slice of it.
fn fits(one: &Token<'_>, other: &Token<'_>) -> bool {
    let last = |name: &'_ str| name.rsplit('.').next().map(str::to_owned);
    let (ours, theirs) = (&one.used.shape, &other.used.shape);
    let is_part = |(&own, &whole): (&u64, &u64)| own == whole || own > 0 && whole % own == 0;
    last(&one.used.parameter) == last(&other.used.parameter)
        && ours.len() == theirs.len()
        && ours.iter().zip(theirs).all(is_part)
}

/// What a pair counts besides being one.
fn likeness(one: &Token<'_>, other: &Token<'_>) -> u32 {
    let is_same = one.numbers == other.numbers && one.numbers != [None; 4];
    2 * u32::from(is_same) + u32::from(one.used.parameter == other.used.parameter)
}

fn aligned(ours: &[Token<'_>], theirs: &[Token<'_>]) -> Vec<(usize, usize)> {
    let is_regular =
        ours.len() == theirs.len() && ours.iter().zip(theirs).all(|(one, other)| fits(one, other));
    if is_regular {
        return (0..ours.len()).map(|at| (at, at)).collect();
    }
    let width = theirs.len() + 1;
    if (ours.len() + 1).saturating_mul(width) > MAX_CELLS {
        return Vec::new();
    }
    // The best of what is left, from each pair of places on: pairs first, likeness second.
    let mut best = vec![(0u32, 0u32); (ours.len() + 1) * width];
    let paired = |best: &[(u32, u32)], at: usize, other: usize| {
        let (pairs, like) = best[(at + 1) * width + other + 1];
        fits(&ours[at], &theirs[other]).then(|| (pairs + 1, like + likeness(&ours[at], &theirs[other])))
    };
    for at in (0..ours.len()).rev() {
        for other in (0..theirs.len()).rev() {
            let alone = best[(at + 1) * width + other].max(best[at * width + other + 1]);
            best[at * width + other] = paired(&best, at, other).unwrap_or((0, 0)).max(alone);
        }
    }
    let (mut at, mut other) = (0, 0);
    let mut pairs = Vec::new();
    while at < ours.len() && other < theirs.len() {
        let here = best[at * width + other];
        if paired(&best, at, other) == Some(here) {
            pairs.push((at, other));
            (at, other) = (at + 1, other + 1);
        } else if best[(at + 1) * width + other] == here {
            at += 1;
        } else {
            other += 1;
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(parameter: &str, shape: &[u64]) -> Use {
        Use { parameter: parameter.to_owned(), call: 0, entry: 0, shape: shape.to_vec() }
    }

    fn token(used: &Use, mean: f64) -> Token<'_> {
        Token { used, stage: 0, numbers: [Some(mean); 4] }
    }

    #[test]
    fn modules_follow_the_parameters_below_them() {
        let pairs = [("0.fc.weight", "layers.2.fc.weight"), ("1.weight", "head.weight")];
        let parameters = pairs.map(|(own, golden)| (own.to_owned(), golden.to_owned())).into();
        let names = StageNames { parameters };
        assert_eq!(names.origin("0.fc.weight"), "layers.2.fc.weight");
        assert_eq!(names.origin("0.mask"), "layers.2.mask");
        assert_eq!(names.base("Module.0.fc.Linear"), "Module.layers.2.fc.Linear");
        assert_eq!(names.base("Module.0.drop.Dropout"), "Module.layers.2.drop.Dropout");
        assert_eq!(names.base("Module.1.Linear"), "Module.head.Linear");
        assert_eq!(names.base("Functional.linear"), "Functional.linear");
    }

    #[test]
    fn order_decides_before_content() {
        let ours = ["a.weight", "b.weight"].map(|name| used(name, &[4]));
        let theirs = ["c.weight", "d.weight"].map(|name| used(name, &[8]));
        let (ours, theirs) =
            ([token(&ours[0], 2.0), token(&ours[1], 1.0)], [token(&theirs[0], 1.0), token(&theirs[1], 2.0)]);
        assert_eq!(aligned(&ours, &theirs), [(0, 0), (1, 1)]);
    }

    #[test]
    fn content_decides_what_is_missing() {
        let uses = ["a.weight", "b.weight", "c.weight"].map(|name| used(name, &[4]));
        let theirs = [token(&uses[0], 1.0), token(&uses[1], 2.0), token(&uses[2], 3.0)];
        let own = ["0.weight", "1.weight"].map(|name| used(name, &[4]));
        assert_eq!(aligned(&[token(&own[0], 1.0), token(&own[1], 3.0)], &theirs), [(0, 0), (1, 2)]);
        let other = used("0.weight", &[3]);
        assert_eq!(aligned(&[token(&other, 1.0)], &theirs), []);
    }
}
