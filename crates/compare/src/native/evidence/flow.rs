//! Which call made what another took: the edges along which errors travel.
//!
//! ```text
//! arguments        named in our own dumps; else the last result before with the same digest, or the same statistics
//! gradients        of a call come from the gradients of those who took its results
//! backward calls   use what their forward call took and gave
//! modules          are made of the calls inside them
//! ```

use std::collections::{HashMap, HashSet};
use std::sync::OnceLock;

use ulpscope_dump::operators::ApiName;
use ulpscope_dump::{CallKind, Rank, Role};

use super::entry_store;
use crate::native::evidence::call_evidence::{CallEvidence, EntryEvidence, Relation, Source, hashed, place};
use crate::native::evidence::operation::Operation;
use crate::native::evidence::shared_traits::Shared;
use crate::native::evidence::unit_links::{UnitKinds, UnitLinks, UnitLists};
use crate::native::final_results::final_parameters::FinalParameters;
use crate::style::Side;

/// Modules within modules that are looked through.
const MOST_MODULES: usize = 64;

/// Entries of a unit of which more are found by a table.
const MANY_ENTRIES: usize = 64;

/// Calls of a rank, for looking up where entries came from.
pub(in crate::native) struct Calls<'a> {
    pub(in crate::native) rank: &'a Rank,
    /// What is known of operations, by the number of their base: of other calls, and of backward calls. Calls have few.
    operations: Vec<[OnceLock<Operation>; 2]>,
}

impl<'a> Calls<'a> {
    pub(in crate::native) fn of(rank: &'a Rank) -> Calls<'a> {
        let bases = rank.calls().iter().map(|call| call.base.number() as usize + 1).max().unwrap_or(0);
        Calls { rank, operations: (0..bases).map(|_| Default::default()).collect() }
    }

    /// Where a dump says that an entry came from.
    pub(in crate::native) fn source(&self, said: Option<&str>) -> Source {
        let Some(said) = said else { return Source::Unsaid };
        for (word, role) in [(".output.", Role::Output), (".input.", Role::Input)] {
            if let Some((call, path)) = said.rsplit_once(word)
                && let Some(call) = self.rank.find(call)
            {
                return Source::Call(call, place(role, path));
            }
        }
        match said.split_once(':') {
            Some(("gradient", of)) => Source::Gradient(hashed(&of)),
            Some(("buffer", _)) => Source::Buffer,
            Some(_) => Source::Origin,
            None if said == "parameter" => Source::Origin,
            None if said == "buffer" => Source::Buffer,
            // Where only modules were recorded, what happens between them was not: nobody can say that nobody made it.
            None if self.rank.level.as_deref() == Some("L0") => Source::Unsaid,
            None => Source::Outside,
        }
    }

    /// What is known of the operation of a call.
    pub(in crate::native) fn operation(&self, call: usize) -> Operation {
        let of = &self.rank.calls()[call];
        let is_backward = of.kind == CallKind::Backward;
        let known = &self.operations[of.base.number() as usize][usize::from(is_backward)];
        *known.get_or_init(|| Operation::of(self.rank.base(of.base), is_backward))
    }
}

/// What belongs to what among the units of a comparison.
#[derive(Debug)]
pub(in crate::native) struct Flow {
    /// The unit of each call, of the target and of the golden.
    pub(in crate::native) unit_of: [UnitLinks; 2],
    /// Of a backward call, and of the gradients of parameters: the unit of its forward call.
    pub(in crate::native) forward: UnitLinks,
    /// Of a forward call: the unit of its backward call.
    pub(in crate::native) backward: UnitLinks,
    /// The unit of the module a call was made in.
    pub(in crate::native) parent: UnitLinks,
    /// Modules that do not have the same calls inside on both sides.
    pub(in crate::native) rearranged: HashSet<usize>,
    /// The units of the calls inside a module.
    pub(in crate::native) children: UnitLists<usize>,
    /// Calls in execution order, and behind all of them the modules, each behind everything inside it.
    pub(in crate::native) order: Vec<usize>,
    /// What is known of the operation of each.
    pub(in crate::native) operations: UnitKinds<Operation>,
    /// Calls of the same kind: same operation, same direction.
    pub(in crate::native) kinds: Vec<u64>,
    /// Gradients that one side gives at one call and the other at another, as mixed precision does with a weight that many
    /// calls use: kind of the call, and place.
    pub(in crate::native) shared: HashSet<(u64, u64)>,
    /// The gradients of a module's parameters, by the unit of the module.
    pub(in crate::native) gradients: HashMap<usize, usize>,
    /// Units with uninitialised memory among their entries, on both sides.
    pub(in crate::native) blank: HashSet<usize>,
    /// Of units with many entries: the number of the first at a place.
    places: HashMap<usize, HashMap<u64, usize>>,
    /// Who took a result of the unit, on either side: unit and number of the entry.
    pub(in crate::native) takers: UnitLists<(u32, u32)>,
    /// The calls that a user's own backward function makes, by the unit of its backward call.
    pub(in crate::native) inside_backward: HashMap<usize, Vec<usize>>,
    /// Of what lies in the `.grad` of a parameter: the first call of one side alone that writes into it.
    pub(in crate::native) rewritten: HashMap<u64, usize>,
    /// Whether both sides have a backward pass.
    pub(in crate::native) has_gradients: bool,
    /// The sides whose dump does not say where entries came from.
    pub(in crate::native) is_guessed: [bool; 2],
    /// The first gradients of parameters from a backward pass that one side alone makes.
    pub(in crate::native) other_pass: Option<usize>,
}

impl Flow {
    pub(in crate::native) fn of(units: &mut [CallEvidence], calls: (&Calls<'_>, &Calls<'_>)) -> Flow {
        let (target, golden) = calls;
        let mut unit_of = [target, golden].map(|calls| UnitLinks::none(calls.rank.calls().len()));
        for (at, unit) in units.iter().enumerate() {
            for (side, call) in [unit.target(), unit.golden()].into_iter().enumerate() {
                if let Some(call) = call {
                    unit_of[side].set(call, Some(at));
                }
            }
        }
        let is_guessed = find_sources(units);
        let mut flow = Flow {
            unit_of,
            forward: UnitLinks::none(units.len()),
            backward: UnitLinks::none(units.len()),
            parent: UnitLinks::none(units.len()),
            rearranged: HashSet::new(),
            children: UnitLists::of(units.len(), &[]),
            order: Vec::new(),
            operations: UnitKinds::all(Operation::of("", false), units.len()),
            kinds: vec![0; units.len()],
            shared: HashSet::new(),
            gradients: HashMap::new(),
            blank: blank(units),
            places: places(units),
            takers: UnitLists::of(units.len(), &[]),
            inside_backward: HashMap::new(),
            rewritten: HashMap::new(),
            other_pass: None,
            has_gradients: units.iter().any(|unit| unit.kind == CallKind::Backward && !unit.is_lone()),
            is_guessed,
        };
        let mut operations = HashMap::new();
        let mut children: Vec<(u32, usize)> = Vec::new();
        for (at, unit) in units.iter().enumerate() {
            // A pair is asked in the target; what only the golden has, there.
            let (side, call, calls) = match (unit.target(), unit.golden()) {
                (Some(call), _) => (0, call, target),
                (None, Some(call)) => (1, call, golden),
                (None, None) => continue,
            };
            let of = &calls.rank.calls()[call];
            let known = operations.entry((side, of.base, of.kind));
            let operation = *known.or_insert_with(|| flow.operations.add(calls.operation(call)));
            flow.operations.set(at, operation);
            flow.place(at, side, call, unit.kind, calls);
            if let (Some(_), Some(call)) = (unit.target(), unit.golden()) {
                flow.place_in_golden(at, call, golden);
            }
            children.extend(flow.parent.of(at).map(|parent| (parent as u32, at)));
        }
        flow.children = UnitLists::of(units.len(), &children);
        drop(children);
        flow.find_sums(units, calls);
        flow.find_takers(units);
        flow.find_inside_backward(units, calls);
        for (at, unit) in units.iter().enumerate().filter(|(_, unit)| unit.kind == CallKind::Backward) {
            let missing = unit.entries.iter().filter(|entry| entry.state == Relation::Missing);
            flow.shared.extend(missing.map(|entry| (flow.kinds[at], entry.place())));
        }
        flow.order = flow.inside_out(units);
        flow.find_rewritten(units);
        flow.other_pass =
            units.iter().position(|unit| unit.is_lone() && unit.kind == CallKind::ParametersGrad);
        flow
    }

    /// Gradients of parameters that one side alone has, for cutting the batch into more pieces, are parts of those that both
    /// have behind them.
    fn find_sums(&mut self, units: &[CallEvidence], (target, golden): (&Calls<'_>, &Calls<'_>)) {
        let is_sum = |unit: &CallEvidence| unit.kind == CallKind::ParametersGrad;
        if !units.iter().any(|unit| is_sum(unit) && unit.is_lone()) {
            return;
        }
        for (side, calls) in [target, golden].into_iter().enumerate() {
            let call = |at: usize| [units[at].target(), units[at].golden()][side];
            let module = |call: usize| calls.rank.base(calls.rank.calls()[call].base);
            let pairs = (0..units.len()).filter(|&at| is_sum(&units[at]) && !units[at].is_lone());
            let last: HashMap<&str, (usize, usize)> =
                pairs.filter_map(|at| call(at).map(|call| (module(call), (call, at)))).collect();
            for sum in self.gradients.values_mut().filter(|sum| units[**sum].is_lone()) {
                if let Some(part) = call(*sum)
                    && let Some(&(whole, at)) = last.get(module(part))
                    && part < whole
                {
                    *sum = at;
                }
            }
        }
    }

    /// A user's own backward function is recorded behind the calls that it makes, which are forward calls in the middle of
    /// the backward pass, in no module.
    fn find_inside_backward(&mut self, units: &[CallEvidence], (target, golden): (&Calls<'_>, &Calls<'_>)) {
        let mut begun: Option<Vec<usize>> = None;
        for (at, unit) in units.iter().enumerate() {
            if unit.kind == CallKind::Forward && self.parent.of(at).is_none() && !unit.adds_nothing {
                // What has a backward call of its own belongs to the forward pass of another batch.
                match self.backward.of(at) {
                    Some(_) => begun = None,
                    None => begun.iter_mut().for_each(|inside| inside.push(at)),
                }
                continue;
            }
            let base =
                |calls: &Calls<'_>, call: usize| calls.rank.base(calls.rank.calls()[call].base).to_owned();
            let base = match (unit.target(), unit.golden()) {
                (Some(call), _) => base(target, call),
                (None, Some(call)) => base(golden, call),
                (None, None) => String::new(),
            };
            let inside = begun.replace(Vec::new()).unwrap_or_default();
            let is_later = |first: &usize| self.forward.of(at).is_some_and(|forward| forward < *first);
            let is_own = unit.kind == CallKind::Backward && ApiName::of(&base).namespace == "Autograd";
            if is_own && inside.first().is_some_and(is_later) {
                self.inside_backward.insert(at, inside);
            }
            // Behind the backward pass come calls of another kind: those of an optimizer, or of the next batch.
            if !matches!(unit.kind, CallKind::Backward | CallKind::ParametersGrad) {
                begun = None;
            }
        }
    }

    fn find_rewritten(&mut self, units: &[CallEvidence]) {
        let writes = |&(at, unit): &(usize, &CallEvidence)| unit.is_lone() && self.operations[at].is_in_place;
        let lone: Vec<(usize, &CallEvidence)> = units.iter().enumerate().filter(writes).collect();
        for (at, unit) in lone {
            for source in
                unit.entries.iter().filter(|entry| entry.is_taken()).flat_map(|entry| entry.sources())
            {
                if let Source::Gradient(of) = source {
                    self.rewritten.entry(of).or_insert(at);
                }
            }
        }
    }

    fn place(&mut self, at: usize, side: usize, call: usize, kind: CallKind, calls: &Calls<'_>) {
        let rank = calls.rank;
        let base = rank.base(rank.calls()[call].base);
        let operation = ApiName::of(base).function;
        self.kinds[at] = place(if kind == CallKind::Forward { Role::Input } else { Role::Output }, operation);
        let unit = |call: Option<usize>| call.and_then(|call| self.unit_of[side].of(call));
        let parent = unit(rank.parent_call(call));
        if matches!(kind, CallKind::Backward | CallKind::ParametersGrad) {
            let forward = unit(rank.forward(call));
            self.forward.set(at, forward);
            match forward {
                Some(forward) if kind == CallKind::Backward => self.backward.set(forward, Some(at)),
                Some(module) => {
                    self.gradients.insert(module, at);
                }
                None => {}
            }
        }
        self.parent.set(at, parent);
    }

    /// Where a pair stands in the golden: what a target without modules does not say, and whether it says otherwise.
    fn place_in_golden(&mut self, at: usize, call: usize, golden: &Calls<'_>) {
        let parent = golden.rank.parent_call(call);
        match (self.parent.of(at), parent.and_then(|parent| self.unit_of[1].of(parent))) {
            (None, Some(parent)) => self.parent.set(at, Some(parent)),
            (Some(here), Some(there)) if here != there => self.rearranged.extend([here, there]),
            _ => {}
        }
    }

    /// Whether calls inside it were recorded.
    pub(in crate::native) fn is_composite(&self, at: usize) -> bool {
        !self.children[at].is_empty()
    }

    /// The unit that made an entry, on a side.
    pub(in crate::native) fn maker(&self, side: Side, entry: &EntryEvidence) -> Option<usize> {
        match entry.sources()[side as usize] {
            Source::Call(call, _) => self.unit_of[side as usize].of(call),
            _ => None,
        }
    }

    /// The units that made an entry, on either side.
    pub(in crate::native) fn makers(&self, entry: &EntryEvidence) -> [Option<usize>; 2] {
        [Side::Target, Side::Golden].map(|side| self.maker(side, entry))
    }

    /// The first entry of a unit at a place.
    pub(in crate::native) fn entry_at<'u>(
        &self,
        units: &'u [CallEvidence],
        at: usize,
        place: u64,
    ) -> Option<&'u EntryEvidence> {
        match self.places.get(&at) {
            Some(places) => units[at].entries.get(*places.get(&place)?),
            None => units[at].entries.iter().find(|entry| entry.place() == place),
        }
    }

    /// Whether the two runs take an argument from different calls, from different results of one, or one of them from no
    /// call.
    pub(in crate::native) fn is_wired_otherwise(
        &self,
        entry: &EntryEvidence,
        units: &[CallEvidence],
    ) -> bool {
        match (entry.sources(), self.makers(entry)) {
            ([Source::Call(_, target), Source::Call(_, golden)], [Some(one), Some(other)]) => {
                let is_other = |made: &EntryEvidence| made.golden_place() != golden;
                one != other || self.entry_at(units, one, target).is_some_and(is_other)
            }
            // What was looked for and not found may have been made all the same.
            ([Source::Call(..), given], _) | ([given, Source::Call(..)], _) if given.is_given() => {
                self.is_guessed == [false; 2]
            }
            _ => false,
        }
    }

    /// The units that a unit's arguments come from; of a backward call also its forward call.
    pub(in crate::native) fn upstream(&self, at: usize, unit: &CallEvidence) -> Vec<usize> {
        let mut all: Vec<usize> =
            unit.entries.iter().flat_map(|entry| self.makers(entry)).flatten().collect();
        if let Some(forward) = self.forward.of(at) {
            all.push(forward);
            let takers = self.takers[forward].iter();
            all.extend(takers.filter_map(|&(taker, _)| self.backward.of(taker as usize)));
        }
        all
    }

    fn find_takers(&mut self, units: &[CallEvidence]) {
        let mut takers: Vec<(u32, (u32, u32))> = Vec::new();
        for (at, unit) in units.iter().enumerate() {
            for (number, entry) in unit.entries.iter().enumerate() {
                let mut makers = self.makers(entry);
                if makers[0] == makers[1] {
                    makers[1] = None;
                }
                for made_by in makers.into_iter().flatten() {
                    takers.push((made_by as u32, (at as u32, number as u32)));
                }
            }
        }
        self.takers = UnitLists::of(units.len(), &takers);
    }

    /// Whether what units without partner gave went into calls that both sides have, or was left in parameters that agree.
    pub(in crate::native) fn joined(&self, units: &[CallEvidence], kept: &FinalParameters) -> Vec<bool> {
        let mut joined: Vec<bool> = units.iter().map(|unit| !unit.is_lone()).collect();
        let lone: Vec<usize> = (0..units.len()).filter(|&at| units[at].is_lone()).collect();
        let is_taken = |joined: &[bool], at: usize| {
            // What a module gave was given by a call inside it.
            self.is_composite(at)
                || units[at].adds_nothing
                || kept.is_towards(at)
                || self.is_answered_for(at, units)
                || self.takers[at].iter().any(|&(taker, _)| joined[taker as usize])
        };
        for &at in lone.iter().rev() {
            joined[at] = is_taken(&joined, at);
        }
        // Of a result that nobody took, such as a loss, gradients alone go on, back the way that results came.
        for &at in lone.iter().filter(|&&at| self.backward.of(at).is_some()) {
            let makers = units[at].entries.iter().flat_map(|entry| self.makers(entry)).flatten();
            let goes_back = |maker: usize| joined[maker] && self.backward.of(maker).is_some();
            joined[at] |= makers.collect::<Vec<usize>>().into_iter().any(goes_back);
        }
        for &at in lone.iter().rev() {
            joined[at] |= is_taken(&joined, at);
        }
        for &at in &lone {
            joined[at] |= self.forward.of(at).is_some_and(|forward| joined[forward]);
        }
        joined
    }

    /// Whether the results of a module that both sides have show what a call inside it is good for: unless that stays in a
    /// tensor that the call wrote into, or is another order of elements, which statistics do not show.
    pub(in crate::native) fn is_answered_for(&self, at: usize, units: &[CallEvidence]) -> bool {
        let mut above = self.parent.of(at);
        // In a circle, which only a damaged dump has, nothing is outside.
        for _ in 0..MOST_MODULES {
            match above {
                Some(module) if units[module].is_lone() => above = self.parent.of(module),
                Some(module) => {
                    let is_blurred = units[module].entries.iter().any(|entry| entry.is_blurred);
                    let operation = &self.operations[at];
                    return !operation.is_in_place
                        && !(is_blurred && (operation.reorders || operation.is_ranking));
                }
                None => return false,
            }
        }
        false
    }

    /// How many modules each unit is inside of. In a circle, which only a damaged dump has, one is the outermost.
    fn depths(&self) -> Vec<usize> {
        let mut depths: Vec<Option<usize>> = vec![None; self.parent.len()];
        for start in 0..self.parent.len() {
            let (mut path, mut above) = (Vec::new(), Some(start));
            while let Some(at) = above.filter(|&at| depths[at].is_none()) {
                depths[at] = Some(0);
                path.push(at);
                above = self.parent.of(at);
            }
            let outermost = above.and_then(|at| depths[at]).map_or(0, |depth| depth + 1);
            for (inside, at) in path.into_iter().rev().enumerate() {
                depths[at] = Some(outermost + inside);
            }
        }
        depths.into_iter().map(Option::unwrap_or_default).collect()
    }

    /// Calls in execution order, behind them the gradients of parameters, which are sums of what calls gave, and behind all
    /// of them the modules, each behind everything inside it.
    fn inside_out(&self, units: &[CallEvidence]) -> Vec<usize> {
        let depths = self.depths();
        let mut composites: Vec<(usize, usize)> =
            (0..self.parent.len()).filter(|&at| self.is_composite(at)).map(|at| (depths[at], at)).collect();
        composites.sort_by_key(|&(depth, at)| (std::cmp::Reverse(depth), at));
        let is_sum = |at: usize| units[at].kind == CallKind::ParametersGrad;
        let leaves = (0..self.parent.len()).filter(|&at| !self.is_composite(at));
        let (sums, leaves): (Vec<usize>, Vec<usize>) = leaves.partition(|&at| is_sum(at));
        leaves.into_iter().chain(sums).chain(composites.into_iter().map(|(_, at)| at)).collect()
    }
}

fn blank(units: &[CallEvidence]) -> HashSet<usize> {
    let is_blank = |unit: &CallEvidence| unit.entries.iter().any(|entry| entry.state == Relation::Blank);
    (0..units.len()).filter(|&at| is_blank(&units[at])).collect()
}

/// The numbers of entries by their places, of units with many. Calls on lists have thousands, each of which is asked for.
fn places(units: &[CallEvidence]) -> HashMap<usize, HashMap<u64, usize>> {
    let many = units.iter().enumerate().filter(|(_, unit)| unit.entries.len() > MANY_ENTRIES);
    let by_place = |unit: &CallEvidence| {
        let mut places = HashMap::with_capacity(unit.entries.len());
        for (number, entry) in unit.entries.iter().enumerate() {
            places.entry(entry.place()).or_insert(number);
        }
        places
    };
    many.map(|(at, unit)| (at, by_place(unit))).collect()
}

/// Of entries whose dump does not say where they came from: the first result before that looks the same.
/// On which sides they were looked for.
fn find_sources(units: &mut [CallEvidence]) -> [bool; 2] {
    let mut is_guessed = [false; 2];
    let known = Shared::default();
    for side in [Side::Target, Side::Golden] {
        let at = side as usize;
        let says =
            |unit: &CallEvidence| unit.entries.iter().any(|entry| entry.sources()[at] != Source::Unsaid);
        if units.iter().any(says) {
            continue;
        }
        is_guessed[at] = true;
        let mut made: HashMap<u64, Source> = HashMap::new();
        entry_store::change(units, |unit, entries| {
            let Some(call) = [unit.target(), unit.golden()][at] else { return };
            let prints = unit.prints.iter().flat_map(|prints| &prints.0).map(|prints| prints[at]);
            for (entry, print) in entries.iter_mut().zip(prints).filter(|(_, print)| *print != 0) {
                if entry.is_taken() {
                    // What no recorded call made came from outside, as far as one can see.
                    // A gradient comes from those who took the result, found or not.
                    let unknown =
                        if unit.kind == CallKind::Backward { Source::Unsaid } else { Source::Outside };
                    entry.set_source(side, made.get(&print).copied().unwrap_or(unknown), &known);
                } else {
                    // A module is listed behind the call inside it that made the same.
                    made.entry(print).or_insert(Source::Call(call, entry.place()));
                }
            }
        });
    }
    units.iter_mut().for_each(|unit| unit.prints = None);
    is_guessed
}
