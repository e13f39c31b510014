//! Other routes to the same results.
//!
//! ```text
//! target   q ──► mul ──► matmul ───────────► softmax
//! golden   q ───────────► matmul ──► mul ──► softmax
//!              └─ on the route ─┘            └─ where they meet
//! ```
//! Two programs that compute the same in different ways are far apart in between, and agree again behind. What is wrong does
//! not become right by itself, so where everything that was computed from another program's results agrees, nothing is wrong
//! with them. They are followed from where the programs part, over whoever took what was made there: to calls whose
//! arguments or results agree, which end the route, or to results that nobody took and gradients that were handed out,
//! which are other ones, as is what stays in a tensor that was written into. Calls that pick, cut off or cover up may hide an
//! error, and end no route.

use std::collections::{BTreeSet, HashMap, HashSet};

use ulpscope_dump::{CallKind, Role};

use crate::native::attribution::conclude::Attribution;
use crate::native::attribution::conclusion::Cause;
use crate::native::evidence::call_evidence::{CallEvidence, EntryEvidence, Relation, Source};
use crate::native::evidence::tensor_error::{TensorError, ratio};
use crate::native::expectation::expectations::ErrorProfile;
use crate::native::thresholds::routes::UNDONE;

/// Routes that were found so far, by unit.
#[derive(Debug, Default)]
pub(in crate::native) struct Routes {
    /// Units that compute something else.
    on: HashSet<usize>,
    /// Units that compute the same from it.
    meeting: HashSet<usize>,
    /// Units from which one was looked for.
    tried: HashSet<usize>,
    /// Where each begins, and where it first ends.
    pub(in crate::native) ends: Vec<(usize, usize)>,
}

impl Routes {
    pub(in crate::native) fn is_on(&self, at: usize) -> bool {
        self.on.contains(&at)
    }

    pub(in crate::native) fn meet_at(&self, at: usize) -> bool {
        self.meeting.contains(&at)
    }
}

impl Attribution<'_> {
    /// Takes back that a route begins where a unit belongs.
    pub(in crate::native) fn leave_route(&mut self, part: usize) {
        let first = self.regions.first(part);
        self.routes.on.remove(&first);
        self.routes.ends.retain(|&(start, _)| start != first);
    }

    /// Looks for a route that begins at a unit, for a cause that may be one. Whether there is.
    pub(in crate::native) fn is_route(&mut self, start: usize, cause: Cause) -> bool {
        let programs_part = matches!(cause, Cause::Lone | Cause::Wiring | Cause::Argument | Cause::Shape);
        if !programs_part || !self.routes.tried.insert(start) {
            return false;
        }
        let keeps_shape = results(&self.units[start]).all(|result| result.state != Relation::Unlike);
        let mut route = Route {
            walk: self,
            levels: HashMap::new(),
            on: HashSet::new(),
            meeting: HashSet::new(),
            mended: HashSet::new(),
            unlike: HashSet::new(),
            first: None,
            is_reordering: cause == Cause::Argument && keeps_shape && self.flow.operations[start].reorders,
        };
        let Some(first) = route.follow(start) else { return false };
        let Route { on, meeting, .. } = route;
        self.routes.on.extend(on);
        self.routes.meeting.extend(meeting);
        self.routes.ends.push((start, first));
        true
    }
}

/// A route that is being followed.
struct Route<'w, 'a> {
    walk: &'w Attribution<'a>,
    /// The largest relative errors of what goes into it on the way to a unit.
    levels: HashMap<usize, ErrorProfile>,
    on: HashSet<usize>,
    meeting: HashSet<usize>,
    /// Results of units on it that agree: unit with place, and unit with path.
    mended: HashSet<(usize, u64)>,
    /// Units on it that work on other shapes than their partner, or on what was made of such.
    unlike: HashSet<usize>,
    /// The first unit found where the programs meet again.
    first: Option<usize>,
    /// Whether the programs part at a call that puts the same elements in another order: sums over all of them are the same then,
    /// and prove nothing.
    is_reordering: bool,
}

impl Route<'_, '_> {
    /// Follows a route from a unit on: where it ends, if all of it ends well.
    fn follow(&mut self, start: usize) -> Option<usize> {
        let flow = self.walk.flow;
        // In execution order: whether a maker is on the route is known before it is asked who took what it made.
        let mut waiting = BTreeSet::from([start]);
        while let Some(at) = waiting.pop_first() {
            let is_known = self.on.contains(&at) || self.meeting.contains(&at);
            if is_known || flow.is_composite(at) || at != start && flow.operations[at].ignores_values {
                continue;
            }
            self.bring_in(at);
            if self.gets_other_gradients(at) {
                continue;
            }
            let is_lone = self.walk.units[at].is_lone();
            if !is_lone && at != start && self.arguments_agree(at) && self.is_clear(at) {
                self.meet(at);
                continue;
            }
            // Its gradients depend on what it was given, whatever it made of it.
            waiting.extend(flow.backward.of(at));
            let undone: Vec<&EntryEvidence> = self.undone(at).collect();
            let all_undone = undone.len() == results(&self.walk.units[at]).count();
            if !undone.is_empty() && all_undone && self.is_clear(at) {
                if self.may_hide(at) || self.is_reordering && flow.operations[at].reduces {
                    return None;
                }
                self.meeting.insert(at);
                self.meet(at);
                continue;
            }
            let undone: Vec<(usize, u64)> =
                undone.into_iter().flat_map(|result| [(at, result.place()), (at, result.path)]).collect();
            self.mended.extend(undone);
            if self.ends_open(at) {
                return None;
            }
            if let Some(sums) = flow.forward.of(at).and_then(|forward| self.agreeing_sums(at, forward))
                && !self.is_reordering
            {
                self.meet(sums);
            }
            self.on.insert(at);
            waiting.extend(self.next(at));
        }
        self.first
    }

    fn meet(&mut self, at: usize) {
        self.first = Some(self.first.map_or(at, |first| first.min(at)));
    }

    /// Errors that come with the arguments stay; but not those of a cause that is known, or of another place where the
    /// programs part.
    fn bring_in(&mut self, at: usize) {
        let walk = self.walk;
        let mut level = ErrorProfile::default();
        if walk.units[at].entries.iter().any(|entry| entry.is_tensor && entry.state == Relation::Unlike) {
            self.unlike.insert(at);
        }
        for maker in walk.flow.upstream(at, &walk.units[at]) {
            if self.unlike.contains(&maker) {
                self.unlike.insert(at);
            }
            let is_clean = match walk.done.class(maker) {
                Some(_) => walk.done.cause(maker).is_none() && walk.done.from(maker).is_none(),
                None => !walk.regions.may_part_from(maker, walk.at),
            };
            if let Some(&known) = self.levels.get(&maker) {
                level = level.max(known);
            } else if is_clean && !walk.regions.is_part(maker) {
                level = level.max(walk.regions.brought(maker));
            }
        }
        self.levels.insert(at, level);
    }

    /// Whether gradients arrive at a backward call that are others already for what happened behind the route: nothing can be
    /// told by what becomes of them.
    fn gets_other_gradients(&self, at: usize) -> bool {
        let flow = self.walk.flow;
        let Some(forward) = flow.forward.of(at) else { return false };
        flow.takers[forward].iter().any(|&(taker, number)| {
            let taken = &self.walk.units[taker as usize].entries[number as usize];
            let back = flow
                .backward
                .of(taker as usize)
                .filter(|&back| !self.on.contains(&back) && !flow.is_composite(back));
            let is_other = |back: usize| {
                let unit = &self.walk.units[back];
                let mut given = results(unit).filter(|given| given.is_gradient_of(taken));
                !unit.is_lone() && given.any(|given| !self.agrees(at, given))
            };
            back.is_some_and(is_other)
        })
    }

    /// Who took what a unit gave; of a backward call, the backward calls of who made what its forward call took.
    fn next(&self, at: usize) -> Vec<usize> {
        let flow = self.walk.flow;
        let takers = flow.takers[at].iter().map(|&(taker, _)| taker as usize);
        let forward = flow.forward.of(at).filter(|_| self.walk.units[at].kind == CallKind::Backward);
        let back = forward.into_iter().flat_map(|forward| self.makers_of(forward, |_| true));
        takers.chain(back.filter_map(|maker| flow.backward.of(maker))).collect()
    }

    fn makers_of(&self, at: usize, wanted: impl Fn(&EntryEvidence) -> bool) -> Vec<usize> {
        let taken = self.walk.units[at].entries.iter().filter(|entry| entry.is_taken() && wanted(entry));
        let makers = taken.flat_map(|entry| self.walk.flow.makers(entry));
        makers.flatten().collect()
    }

    fn arguments_agree(&self, at: usize) -> bool {
        let flow = self.walk.flow;
        let agree = |unit: &CallEvidence| {
            let mut taken = unit.entries.iter().filter(|entry| entry.is_taken() && entry.is_tensor);
            taken.all(|entry| {
                self.agrees(at, entry) && (entry.state == Relation::Equal || !self.is_thinned(entry))
            })
        };
        // Of a gradient that arrives, those who took the result are the makers.
        let forward = flow.forward.of(at);
        let is_thinned = |&(taker, number): &(u32, u32)| {
            let taken = &self.walk.units[taker as usize].entries[number as usize];
            let is_mended = |back: usize| {
                let mut given = results(&self.walk.units[back]).filter(|given| given.is_gradient_of(taken));
                given.any(|given| self.mended.contains(&(back, given.path)))
            };
            let back = flow.backward.of(taker as usize);
            back.is_some_and(|back| self.on.contains(&back) && !is_mended(back))
        };
        let takers = || forward.into_iter().flat_map(|at| &flow.takers[at]);
        let is_joined = takers().any(|&(taker, _)| self.walk.units[taker as usize].is_lone())
            || !takers().any(is_thinned);
        is_joined && agree(&self.walk.units[at]) && forward.is_none_or(|at| agree(&self.walk.units[at]))
    }

    /// Whether an argument comes from one call of both sides that is on the route and did not undo the error: if that is
    /// small, it is so beside something large.
    fn is_thinned(&self, entry: &EntryEvidence) -> bool {
        let (makers, Source::Call(_, place)) = (self.walk.flow.makers(entry), entry.sources()[0]) else {
            return false;
        };
        match makers {
            [Some(one), Some(other)] => {
                one == other && self.on.contains(&one) && !self.mended.contains(&(one, place))
            }
            _ => false,
        }
    }

    /// Whether agreement at a unit means anything. Statistics stay the same where elements change places, until a
    /// call computes something from many of them.
    fn is_clear(&self, at: usize) -> bool {
        let unit = &self.walk.units[at];
        let agree = || results(unit).all(|entry| self.agrees(at, entry));
        !unit.entries.iter().any(|entry| entry.is_blurred) || self.walk.flow.operations[at].mixes && agree()
    }

    /// The results of a unit that agree because it undoes the errors of its arguments.
    fn undone(&self, at: usize) -> impl Iterator<Item = &EntryEvidence> {
        let unit = &self.walk.units[at];
        let mut taken = unit.entries.iter().filter(|entry| entry.is_taken());
        let is_mismatched =
            taken.any(|entry| entry.numbers.as_ref().is_some_and(|extent| extent.mismatched > 0));
        let excesses = self.walk.expectations.excesses(at);
        let is_undone = move |number: usize| {
            let excess = excesses.iter().find(|excess| excess.entry == number);
            is_mismatched || excess.is_none_or(|excess| excess.times.whole < UNDONE.get())
        };
        let results = unit.entries.iter().enumerate().filter(|(_, entry)| is_result(entry));
        results
            .filter(move |(number, entry)| self.agrees(at, entry) && is_undone(*number))
            .map(|(_, entry)| entry)
    }

    /// Whether agreement of a unit's results says nothing of its arguments. Exact results are decisions.
    fn may_hide(&self, at: usize) -> bool {
        self.walk.flow.operations[at].may_hide
            || results(&self.walk.units[at]).any(|entry| {
                entry.numbers.is_none() && !matches!(entry.state, Relation::Missing | Relation::Blank)
            })
    }

    fn agrees(&self, at: usize, entry: &EntryEvidence) -> bool {
        match entry.state {
            Relation::Equal | Relation::Blank | Relation::Missing => true,
            Relation::Apart => entry.numbers.as_ref().is_some_and(|extent| self.is_near(at, extent)),
            _ => false,
        }
    }

    fn is_near(&self, at: usize, extent: &TensorError) -> bool {
        let level = self.levels.get(&at).copied().unwrap_or_default();
        let allowed = self.walk.carried(extent, level);
        extent.mismatched == 0 && self.walk.is_explained(ErrorProfile::relative(extent), allowed)
    }

    /// Whether something that a unit gave is another and was computed on with by nobody.
    fn ends_open(&self, at: usize) -> bool {
        let (unit, flow) = (&self.walk.units[at], self.walk.flow);
        if unit.is_lone() {
            let mut takers = flow.takers[at].iter();
            let is_used = takers.any(|&(taker, _)| self.goes_on(taker as usize))
                || flow.backward.of(at).or(flow.forward.of(at)).is_some();
            return !is_used && !unit.adds_nothing && !flow.is_answered_for(at, self.walk.units);
        }
        let is_handed_on = |result: &EntryEvidence| {
            match flow.forward.of(at) {
            Some(forward) => {
                let makers = self.makers_of(forward, |entry| result.is_gradient_of(entry));
                makers.into_iter().any(|maker| flow.backward.of(maker).is_some()) || self.agreeing_sums(at, forward).is_some()
            }
            // A call that gives back its argument has no takers of its own. The loss of a piece of a batch is not that of all of
            // it; what becomes of its gradients tells.
            None if flow.takers[at].is_empty() => {
                unit.adds_nothing
                    || flow.is_answered_for(at, self.walk.units)
                    || self.unlike.contains(&at) && flow.backward.of(at).is_some()
            }
            None => flow.takers[at].iter().filter(|(taker, _)| self.goes_on(*taker as usize)).any(|&(taker, number)| {
                let sources = self.walk.units[taker as usize].entries[number as usize].sources();
                let comes_from = |source: Source, call: Option<usize>, place: u64| {
                    matches!(source, Source::Call(maker, made_at) if Some(maker) == call && made_at == place)
                };
                comes_from(sources[0], unit.target(), result.place())
                    || comes_from(sources[1], unit.golden(), result.golden_place())
            }),
        }
        };
        let stays = flow.operations[at].is_in_place;
        results(unit).any(|result| !self.agrees(at, result) && (stays || !is_handed_on(result)))
    }

    /// Whether a unit does something with what it takes: a call that gives back its argument leaves that to others.
    fn goes_on(&self, at: usize) -> bool {
        !self.walk.units[at].adds_nothing || !self.walk.flow.takers[at].is_empty()
    }

    /// The gradients of the parameters of a call's module, of which each call gives its portion, if all of them agree. What
    /// cancels out is held against what it stands with.
    fn agreeing_sums(&self, at: usize, forward: usize) -> Option<usize> {
        let module = self.walk.flow.parent.of(forward)?;
        let sums = *self.walk.flow.gradients.get(&module)?;
        let beside = self.walk.expectations.beside(sums);
        let agrees = |gradient: &EntryEvidence| match &gradient.numbers {
            Some(extent) if gradient.state == Relation::Apart => {
                let norm = extent.norm.max(beside * extent.count.sqrt());
                let drift = extent.drift * ratio(extent.norm, norm);
                self.is_near(at, &TensorError { norm, drift, ..*extent })
            }
            _ => self.agrees(at, gradient),
        };
        let mut gradients = results(&self.walk.units[sums]).peekable();
        (gradients.peek().is_some() && gradients.all(agrees)).then_some(sums)
    }
}

fn results(unit: &CallEvidence) -> impl Iterator<Item = &EntryEvidence> {
    unit.entries.iter().filter(|entry| is_result(entry))
}

fn is_result(entry: &EntryEvidence) -> bool {
    !entry.is_taken() && entry.role != Role::Saved && entry.is_tensor
}
