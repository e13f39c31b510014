//! The names of all calls of both sides in one spelling, as numbers: key (which API or module), number, parent.
//!
//! A model has few distinct names and millions of calls. Each name is rewritten once: first by mapping files, then by
//! removing wrappers, then by adapting the spelling of names that only one side has. A call takes about twenty bytes.

use std::collections::hash_map::Entry as Slot;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

use ulpscope_dump::operators::ApiName;
use ulpscope_dump::{Call, CallKind, Rank};
use ulpscope_formats::names::{CallName, Direction};

use super::How;
use super::wrappers::Wrappers;
use crate::levels;
use crate::mapping::{Mapping, Uses};
use crate::style::Side;

/// The parent of calls made outside all modules, or where none is recorded.
pub(super) const NO_PARENT: u32 = u32::MAX;

/// The forward call of calls that have none, or none that was recorded.
const NO_CALL: u32 = u32::MAX;

/// The names of the calls of one side.
#[derive(Debug, Default)]
pub(super) struct SideNames {
    /// Which API or module; equal for equal ones of both sides.
    pub(super) key: Vec<u32>,
    /// Which call of it; by order if the tool does not count.
    pub(super) number: Vec<u32>,
    /// What it computed.
    pub(super) kind: Vec<CallKind>,
    /// The module it was made in, and whether in its backward pass (the lowest bit).
    pub(super) parent: Vec<u32>,
    /// Whether a mapping file decides its name.
    pub(super) mapped: Vec<bool>,
    /// Whether the level of the other side's capture leaves it out.
    pub(super) left_out: Vec<bool>,
    /// Calls that were running when the run was killed, in order.
    pub(super) running: Vec<u32>,
    /// Whether capture ended before the step did.
    pub(super) is_cut: bool,
    /// The forward call of a backward call.
    forward: Vec<u32>,
}

impl SideNames {
    /// Calls.
    pub(super) fn len(&self) -> usize {
        self.key.len()
    }

    /// The name of a call: key, direction, number.
    pub(super) fn name(&self, call: usize) -> (u32, CallKind, u32) {
        (self.key[call], self.kind[call], self.number[call])
    }

    /// Whether a call was running when the run was killed.
    pub(super) fn is_running(&self, call: usize) -> bool {
        self.running.binary_search(&(call as u32)).is_ok()
    }

    /// The forward call of a backward call: the one recorded under the same name.
    pub(super) fn forward(&self, call: usize) -> Option<usize> {
        let forward = self.forward[call];
        (forward != NO_CALL).then_some(forward as usize)
    }
}

/// The names of the calls of both sides.
#[derive(Debug)]
pub(super) struct Names {
    pub(super) target: SideNames,
    pub(super) golden: SideNames,
    /// The operation of each key; equal for `Torch.add` and `Tensor.__add__`.
    pub(super) operation: Vec<u32>,
    /// Whether both sides recorded the modules that calls were made in.
    pub(super) parents_known: bool,
}

impl Names {
    /// Rewrites the names of two ranks. `lenient` looks through wrappers of modules.
    pub(super) fn of(
        target: &Rank,
        golden: &Rank,
        mapping: &Mapping,
        lenient: bool,
        notes: &mut Vec<String>,
    ) -> Names {
        let mut uses = Uses::of(mapping);
        let classes = mapping.layers.as_ref().map(|_| module_classes(target)).unwrap_or_default();
        let mut sides = [
            Rewriting::of(target, Side::Target, mapping, classes),
            Rewriting::of(golden, Side::Golden, mapping, HashMap::new()),
        ];
        for side in &mut sides {
            side.rewrite(&mut uses);
        }
        if lenient {
            let [ours, theirs] =
                sides.each_ref().map(|side| side.bases.iter().filter_map(|base| module_path(&base.text)));
            let wrappers = Rc::new(Wrappers::of(ours, theirs));
            for side in &mut sides {
                side.unwrap(&wrappers);
            }
        }
        respell(&mut sides);
        // Unnumbered backward calls are in reverse order of the forward pass, so numbers cannot be compared.
        let unnumbered = |call: &Call| call.kind == CallKind::Backward && call.index.is_none();
        let backward_by_order = target.calls().iter().chain(golden.calls()).any(unnumbered);
        let mut keys = Keys::default();
        let mut parents = Interner::default();
        let left_out = |rank: &Rank, other: &Rank| {
            let calls = rank.calls().iter();
            calls.map(|call| levels::leaves_out(&other.level, rank.base(call.base))).collect::<Vec<bool>>()
        };
        let left_out = [left_out(target, golden), left_out(golden, target)];
        let [mut target, mut golden] =
            sides.map(|side| side.finish(&mut keys, &mut parents, backward_by_order, &mut uses));
        [target.left_out, golden.left_out] = left_out;
        uses.report(mapping, notes);
        let known = |side: &SideNames| side.parent.iter().any(|&parent| parent != NO_PARENT);
        let parents_known = known(&target) && known(&golden);
        Names { target, golden, operation: keys.operation, parents_known }
    }

    /// Why two calls are paired: a mapping file if it named the target's, equal names if they are, else `other`.
    pub(super) fn how(&self, target: usize, golden: usize, other: How) -> How {
        if self.target.mapped[target] {
            How::Mapped
        } else if self.target.name(target) == self.golden.name(golden) {
            How::Exact
        } else {
            other
        }
    }
}

/// A distinct name, as recorded and as rewritten so far.
struct Base {
    recorded: String,
    text: String,
    mapped: bool,
}

/// The distinct names of one side, being rewritten: those of calls first, then those of parents.
struct Rewriting<'a> {
    rank: &'a Rank,
    side: Side,
    mapping: &'a Mapping,
    classes: HashMap<String, String>,
    bases: Vec<Base>,
    base_of_call: Vec<u32>,
    parent_of_call: Vec<u32>,
    wrappers: Option<Rc<Wrappers>>,
}

impl<'a> Rewriting<'a> {
    fn of(
        rank: &'a Rank,
        side: Side,
        mapping: &'a Mapping,
        classes: HashMap<String, String>,
    ) -> Rewriting<'a> {
        let mut interner = Interner::default();
        let mut ids = HashMap::new();
        let calls = rank.calls();
        let mut base_of_call = Vec::with_capacity(calls.len());
        for call in calls {
            base_of_call.push(*ids.entry(call.base).or_insert_with(|| interner.id(rank.base(call.base))));
        }
        let mut seen: HashMap<String, u32> = HashMap::new();
        let mut parent_of_call = Vec::with_capacity(calls.len());
        for call in 0..calls.len() {
            parent_of_call.push(match rank.parent(call) {
                None => NO_PARENT,
                Some(name) => match seen.entry(name) {
                    Slot::Occupied(slot) => *slot.get(),
                    Slot::Vacant(slot) => {
                        let id = parent_id(&mut interner, slot.key());
                        *slot.insert(id)
                    }
                },
            });
        }
        let bases = interner.texts.into_iter();
        let bases = bases.map(|text| Base { recorded: text.clone(), text, mapped: false }).collect();
        Rewriting { rank, side, mapping, classes, bases, base_of_call, parent_of_call, wrappers: None }
    }

    /// Applies rewrites that do not depend on the other side: `Cell` → `Module`, cell mapping, layer mapping of
    /// modules.
    fn rewrite(&mut self, uses: &mut Uses) {
        for base in &mut self.bases {
            if let Some(rest) = base.text.strip_prefix("Cell.") {
                base.text = format!("Module.{rest}");
            }
            if self.side == Side::Target
                && let Some(cells) = &self.mapping.cells
                && let Some(renamed) = cells.rename(&base.text, uses)
            {
                base.text = renamed;
                base.mapped = true;
            }
            if let Some(layers) = &self.mapping.layers
                && let Some(path) = module_path(&base.text)
            {
                // A layer mapping is about places in the model. Classes differ between two implementations.
                let (place, _) = split_class(path);
                let place = layers.renamed(self.side, place, &self.classes, uses);
                base.mapped |= place.changed;
                base.text = format!("Module.{}", place.path);
            }
        }
    }

    fn unwrap(&mut self, wrappers: &Rc<Wrappers>) {
        self.wrappers = Some(Rc::clone(wrappers));
        for base in &mut self.bases {
            if let Some(path) = module_path(&base.text) {
                base.text = format!("Module.{}", wrappers.unwrap(self.side, path));
            }
        }
    }

    fn finish(
        self,
        keys: &mut Keys,
        parents: &mut Interner,
        backward_by_order: bool,
        uses: &mut Uses,
    ) -> SideNames {
        let calls = self.rank.calls();
        let mut names = SideNames {
            kind: calls.iter().map(|call| call.kind).collect(),
            forward: forward_calls(self.rank),
            running: self.rank.running().to_vec(),
            is_cut: self.rank.is_cut(),
            ..SideNames::default()
        };
        let mut placed: HashMap<(u32, u32), (u32, bool)> = HashMap::new();
        let mut key_of_base: Vec<Option<u32>> = vec![None; self.bases.len()];
        let mut counted: HashMap<(u32, CallKind), u32> = HashMap::new();
        for (number, call) in calls.iter().enumerate() {
            let (base, parent) = (self.base_of_call[number], self.parent_of_call[number]);
            let text = &self.bases[base as usize];
            let by_place = self.mapping.layers.is_some() && module_path(&text.text).is_none();
            let (key, mapped) = if by_place {
                // A backward call belongs to the module of its forward call.
                let parent = names.forward(number).map_or(parent, |forward| self.parent_of_call[forward]);
                *placed.entry((base, parent >> 1)).or_insert_with(|| self.api_key(base, parent, keys, uses))
            } else {
                let key = *key_of_base[base as usize].get_or_insert_with(|| keys.id(&text.text, &text.text));
                (key, text.mapped)
            };
            names.key.push(key);
            names.mapped.push(mapped);
            // API numbers count over the whole model; within one place, only the order is left.
            let by_order = by_place || backward_by_order && call.kind == CallKind::Backward;
            names.number.push(match call.index {
                Some(index) if !by_order => index,
                _ => {
                    let count = counted.entry((key, call.kind)).or_default();
                    *count += 1;
                    *count - 1
                }
            });
            names.parent.push(match parent {
                NO_PARENT => NO_PARENT,
                parent => (parents.id(&self.bases[(parent >> 1) as usize].text) << 1) | (parent & 1),
            });
        }
        names
    }

    /// The key of an API by the place it was called at, for a layer mapping.
    fn api_key(&self, base: u32, parent: u32, keys: &mut Keys, uses: &mut Uses) -> (u32, bool) {
        let api = &self.bases[base as usize].recorded;
        let operation = api.split_once('.').map_or(api.as_str(), |(_, operation)| operation);
        let layer = match parent {
            NO_PARENT => None,
            parent => module_path(&self.bases[(parent >> 1) as usize].recorded),
        };
        let place = match layer {
            Some(layer) => format!("{}.{operation}", split_class(layer).0),
            None => operation.to_owned(),
        };
        let Some(layers) = &self.mapping.layers else { return (keys.id(api, api), false) };
        let place = layers.renamed(self.side, &place, &self.classes, uses);
        let path = self
            .wrappers
            .as_ref()
            .map_or(place.path.clone(), |wrappers| wrappers.unwrap(self.side, &place.path));
        // No module has a name with a slash.
        (keys.id(&format!("{path}/"), api), true)
    }
}

/// The path and class of a module's base, without the first word.
fn module_path(base: &str) -> Option<&str> {
    base.strip_prefix("Module.").or_else(|| base.strip_prefix("Cell."))
}

/// `blocks.0.fc.Linear` → `blocks.0.fc`, `Linear`.
fn split_class(path: &str) -> (&str, &str) {
    path.rsplit_once('.').unwrap_or((path, ""))
}

/// The class of each module of a rank, by its path.
fn module_classes(rank: &Rank) -> HashMap<String, String> {
    let mut classes = HashMap::new();
    for call in rank.calls() {
        if let Some(path) = module_path(rank.base(call.base)) {
            let (path, class) = split_class(path);
            classes.entry(path.to_owned()).or_insert_with(|| class.to_owned());
        }
    }
    classes
}

/// The forward call of each backward call, by their recorded names.
fn forward_calls(rank: &Rank) -> Vec<u32> {
    let calls = rank.calls();
    let of_kind = |kind| move |number: &u32| calls[*number as usize].kind == kind;
    let name = |number: u32| (calls[number as usize].base, calls[number as usize].index);
    let mut forward: Vec<u32> = (0..calls.len() as u32).filter(of_kind(CallKind::Forward)).collect();
    forward.sort_by_key(|&number| name(number));
    let mut found = vec![NO_CALL; calls.len()];
    // Without numbers a name does not identify a call.
    let numbered = |number: &u32| calls[*number as usize].index.is_some();
    for number in (0..calls.len() as u32).filter(of_kind(CallKind::Backward)).filter(numbered) {
        let at = forward.partition_point(|&other| name(other) < name(number));
        if let Some(&call) = forward.get(at).filter(|&&other| name(other) == name(number)) {
            found[number as usize] = call;
        }
    }
    found
}

/// The base of a parent's name, and whether it is a backward call.
fn parent_id(interner: &mut Interner, name: &str) -> u32 {
    match CallName::from_msprobe(name) {
        Some(call) => (interner.id(&call.base) << 1) | u32::from(call.direction == Direction::Backward),
        None => interner.id(name) << 1,
    }
}

/// Respells names that only one side has and that differ from a name of the other only in `_` for `.` or `/`.
fn respell(sides: &mut [Rewriting<'_>; 2]) {
    let [target, golden] = sides;
    let texts = |bases: &[Base]| bases.iter().map(|base| base.text.clone()).collect::<BTreeSet<_>>();
    let (ours, theirs) = (texts(&target.bases), texts(&golden.bases));
    let (ours, theirs) = (folds(ours.difference(&theirs)), folds(theirs.difference(&ours)));
    let spellings: BTreeMap<&String, &String> = ours
        .iter()
        .filter_map(|(fold, ours)| Some(((*ours)?, theirs.get(fold).copied().flatten()?)))
        .collect();
    for base in &mut target.bases {
        if let Some(spelling) = spellings.get(&base.text) {
            base.text = (*spelling).clone();
        }
    }
}

/// Texts by their form with only dots; ambiguous forms have no text.
fn folds<'a>(texts: impl Iterator<Item = &'a String>) -> BTreeMap<String, Option<&'a String>> {
    let mut folds = BTreeMap::new();
    for text in texts {
        folds
            .entry(text.replace(['_', '/'], "."))
            .and_modify(|spelling| *spelling = None)
            .or_insert(Some(text));
    }
    folds
}

/// Each distinct text once.
#[derive(Debug, Default)]
struct Interner {
    ids: HashMap<String, u32>,
    texts: Vec<String>,
}

impl Interner {
    fn id(&mut self, text: &str) -> u32 {
        if let Some(&id) = self.ids.get(text) {
            return id;
        }
        let id = self.texts.len() as u32;
        self.ids.insert(text.to_owned(), id);
        self.texts.push(text.to_owned());
        id
    }
}

/// Keys, and the operation of each.
#[derive(Debug, Default)]
struct Keys {
    keys: Interner,
    operations: Interner,
    operation: Vec<u32>,
}

impl Keys {
    /// The key of a text, for an API or module of this base.
    fn id(&mut self, text: &str, base: &str) -> u32 {
        let key = self.keys.id(text);
        if key as usize == self.operation.len() {
            self.operation.push(self.operations.id(ApiName::of(base).operation()));
        }
        key
    }
}
