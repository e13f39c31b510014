//! What is compared with what: operations matched, their rows counted, and cut into units.

use std::collections::HashSet;
use std::ops::Range;

use ulpscope_dump::{Content, Entry, Error, Rank, Task};
use ulpscope_formats::Fault;
use ulpscope_report::{Cell, Emphasis};

use crate::style::{Judged, Partnerless, Plan, Row, Side};

use super::super::lines::{self, LinePlace, is_tensor_or_number};
use super::super::msprobe1::slices::{Slice, slices};
use super::super::queues::{Habits, matches};
use super::colours::{Run, colours};
use super::fields;
use super::ops::{Grouping, Kinds, Op, Ops, group};
use super::stat_columns::StatColumns;
use super::table::{Made, Table};
use super::{Ptdbg, Release};

const NO_PARTNER: &str = "the other dump has no operation of these names";
const OTHER_STRUCTURE: &str =
    "the other dump has an operation of these names, but with other dtypes or shapes";
const PASSED_BY: &str = "the other dump has the same operation, but not where ptdbg_ascend looks for it";
const NEVER_READ: &str = "ptdbg_ascend stops reading once one of the dumps has nothing left to match";
const NO_END: &str = "ptdbg_ascend drops trailing lines that no output follows";
const NO_STACK_END: &str = "ptdbg_ascend drops trailing lines that no stack follows";

/// A matched pair, or an unpaired target.
struct Item {
    target: u32,
    golden: Option<u32>,
    first_row: usize,
}

/// The plan for two ranks.
pub(super) struct PtdbgPlan<'a> {
    ranks: [&'a Rank; 2],
    table: Table,
    by_stack: bool,
    sides: [Ops; 2],
    read: [usize; 2],
    items: Vec<Item>,
    units: Vec<Slice>,
    columns: [StatColumns; 2],
}

impl<'a> PtdbgPlan<'a> {
    pub(super) fn new(style: &Ptdbg, target: &'a Rank, golden: &'a Rank) -> Result<PtdbgPlan<'a>, Error> {
        let ranks = [target, golden];
        let table = table(style.release, ranks)?;
        let by_stack = ranks.iter().all(|rank| ends_with_stacks(rank));
        let with_runs = table == Table::Tensors6;
        let how = Grouping { release: style.release, fuzzy: style.fuzzy, by_stack, with_runs };
        let mut kinds = Kinds::default();
        let sides = ranks.map(|rank| group(rank, how, &mut kinds));
        let habits = match style.release {
            Release::V4 => Habits::Ptdbg4,
            Release::V6 => Habits::Ptdbg6,
        };
        let fit = |target: &Op, golden: &Op| target.fits(golden, &kinds);
        let found = matches(&sides[0].ops, &sides[1].ops, habits, fit);
        let read = [found.target_read, found.golden_read];
        let mut plan = PtdbgPlan {
            ranks,
            table,
            by_stack,
            sides,
            read,
            items: Vec::new(),
            units: Vec::new(),
            columns: [StatColumns::default(); 2],
        };
        plan.lay_out(&found.pairs);
        Ok(plan)
    }

    /// Rows in order: unmatched operations before the match that gave them up, the rest at the end.
    fn lay_out(&mut self, pairs: &[(usize, usize)]) {
        let mut pairs = pairs.iter().copied().peekable();
        let mut rows = 0;
        for (number, op) in self.sides[0].ops[..self.read[0]].iter().enumerate() {
            if op.lines == 0 {
                continue;
            }
            let golden = pairs.next_if(|pair| pair.0 == number).map(|pair| pair.1 as u32);
            self.items.push(Item { target: number as u32, golden, first_row: rows });
            self.columns[0].take_all(&op.columns);
            match golden {
                Some(golden) => self.columns[1].take_all(&self.sides[1].ops[golden as usize].columns),
                None => self.columns[1].take_text(),
            }
            let (start, end) = (rows, rows + op.lines as usize);
            rows = end;
            if self.table != Table::Tensors6 {
                // Unpaired statistics are not coloured.
                self.units.push(Slice { start, end, inputs: op.inputs as usize, seen: golden.is_some() });
            }
        }
        if self.table == Table::Tensors6 {
            let runs = self.sides[0].ops[..self.read[0]].iter().flat_map(|op| &op.runs);
            self.units = slices(runs.flat_map(Run::rows));
        }
    }

    fn rows(&self, unit: usize) -> Range<usize> {
        self.units[unit].start..self.units[unit].end
    }

    /// The items that have rows in a range.
    fn items_of(&self, rows: &Range<usize>) -> &[Item] {
        let from = self.items.partition_point(|item| item.first_row <= rows.start).saturating_sub(1);
        let to = self.items.partition_point(|item| item.first_row < rows.end);
        &self.items[from..to]
    }

    fn op(&self, side: Side, number: u32) -> &Op {
        &self.sides[side as usize].ops[number as usize]
    }

    fn lines(&self, side: Side, from: LinePlace, count: u32) -> Vec<Entry> {
        lines::read(self.ranks[side as usize], is_tensor_or_number, from, count as usize)
    }

    /// Makes the rows of an item that lie in a range.
    fn make(&self, item: &Item, rows: &Range<usize>, judged: &mut Judged, all: &mut Vec<Made>) {
        let op = self.op(Side::Target, item.target);
        let golden_op = item.golden.map(|number| self.op(Side::Golden, number));
        let targets = self.lines(Side::Target, op.start, op.lines);
        let goldens = golden_op.map(|op| self.lines(Side::Golden, op.start, op.lines));
        for (number, target) in targets.iter().enumerate() {
            if !rows.contains(&(item.first_row + number)) {
                continue;
            }
            let golden = goldens.as_ref().and_then(|goldens| goldens.get(number));
            let mut made = match golden {
                Some(golden) => {
                    self.table.matched((self.ranks[0], target), (self.ranks[1], golden), &self.columns)
                }
                None => self.table.unmatched(target, &self.columns),
            };
            if self.by_stack {
                let first = number == 0
                    && match (golden_op, self.table.release()) {
                        (Some(_), Release::V6) => target.name.contains("input"),
                        _ => true,
                    };
                made.cells.push(self.stack_cell(op, first));
            }
            judged.problems.extend(made.problem.take());
            all.push(made);
        }
    }

    /// The stack, in the first row of an operation. 6.0 prints `None` in the others.
    fn stack_cell(&self, op: &Op, first: bool) -> Cell {
        let call = op.stack.filter(|_| first).map(|call| call as usize);
        match call.and_then(|call| self.ranks[0].frames(call)) {
            Some(frames) => Cell::Text(fields::stack(&frames)),
            None if self.table.release() == Release::V6 => Cell::text("None"),
            None => Cell::Missing,
        }
    }

    /// Entries of one side that no row shows, or only an unpaired row.
    fn partnerless_on(&self, side: Side, found: &mut Vec<Partnerless>) {
        let own = &self.sides[side as usize];
        let other = &self.sides[1 - side as usize];
        let known: HashSet<u64> = other.ops.iter().map(|op| op.names).collect();
        let same: HashSet<(u128, u128)> = other.ops.iter().map(Op::identity).collect();
        let partnered: HashSet<u32> = match side {
            Side::Target => {
                self.items.iter().filter(|item| item.golden.is_some()).map(|item| item.target).collect()
            }
            Side::Golden => self.items.iter().filter_map(|item| item.golden).collect(),
        };
        let mut note = |name: &str, reason: &str| {
            found.push(Partnerless {
                side,
                name: name.to_owned(),
                reason: reason.to_owned(),
                is_joined: false,
            });
        };
        for (number, op) in own.ops.iter().enumerate() {
            if partnered.contains(&(number as u32)) {
                continue;
            }
            let reason = match number < self.read[side as usize] {
                false => NEVER_READ,
                true if same.contains(&op.identity()) => PASSED_BY,
                true if known.contains(&op.names) => OTHER_STRUCTURE,
                true => NO_PARTNER,
            };
            let lines = self.lines(side, op.start, op.lines);
            for name in lines::stems(lines.iter().map(|line| line.name.as_str())) {
                note(name, reason);
            }
        }
        let trailing = own.trailing.map(|(from, count)| self.lines(side, from, count)).unwrap_or_default();
        for name in lines::stems(trailing.iter().map(|line| line.name.as_str())) {
            note(name, if self.by_stack { NO_STACK_END } else { NO_END });
        }
    }
}

impl PtdbgPlan<'_> {
    /// Bytes of tensors that a unit reads, both sides counted.
    fn bytes(&self, unit: usize) -> u64 {
        if !self.table.reads_tensors() {
            return 0;
        }
        let sum = |item: &Item| {
            let golden = item.golden.map_or(0, |number| self.op(Side::Golden, number).bytes);
            if golden == 0 { 0 } else { self.op(Side::Target, item.target).bytes.saturating_add(golden) }
        };
        // An item that begins in an earlier unit is counted there.
        let rows = self.rows(unit);
        self.items_of(&rows)
            .iter()
            .filter(|item| rows.contains(&item.first_row))
            .map(sum)
            .fold(0, u64::saturating_add)
    }
}

impl Plan for PtdbgPlan<'_> {
    fn columns(&self) -> Vec<String> {
        self.table.columns(self.by_stack)
    }

    fn units(&self) -> usize {
        self.units.len()
    }

    fn judge(&self, unit: usize) -> Judged {
        let rows = self.rows(unit);
        let items = self.items_of(&rows);
        let mut judged = Judged { bytes: self.bytes(unit), ..Judged::default() };
        if let [item] = items {
            judged.target = Some(self.op(Side::Target, item.target).start.call as usize);
            judged.golden = item.golden.map(|number| self.op(Side::Golden, number).start.call as usize);
        }
        let mut all = Vec::new();
        for item in items {
            self.make(item, &rows, &mut judged, &mut all);
        }
        let scores: Vec<_> = all.iter().map(|made| made.score).collect();
        let unit = &self.units[unit];
        let painted = match self.table {
            Table::Tensors6 | Table::Statistics6 if unit.seen => {
                colours(&scores, unit.inputs, self.table == Table::Statistics6)
            }
            _ => vec![Emphasis::Plain; all.len()],
        };
        judged.rows = all
            .into_iter()
            .zip(painted)
            .map(|(made, emphasis)| Row::new(made.cells, emphasis, made.verdict))
            .collect();
        judged
    }

    fn notes(&self) -> Vec<String> {
        let stacks = self.ranks.iter().filter(|rank| ends_with_stacks(rank)).count();
        let one_sided = "only one of the dumps has stacks: the column NPU_Stack_Info is left out";
        let poor = self.ranks.iter().find(|rank| rank.task != Task::Tensor);
        let fallback = match poor {
            Some(rank)
                if self.table == Table::Statistics6
                    && self.ranks.iter().any(|rank| rank.task == Task::Tensor) =>
            {
                Some(format!("{} has no tensors: statistics are compared", rank.path.display()))
            }
            _ => None,
        };
        (stacks == 1).then(|| one_sided.to_owned()).into_iter().chain(fallback).collect()
    }

    fn problems(&self) -> Vec<String> {
        self.sides.iter().flat_map(|side| &side.unread).cloned().collect()
    }

    fn partnerless(&self) -> Vec<Partnerless> {
        let mut found = Vec::new();
        self.partnerless_on(Side::Target, &mut found);
        self.partnerless_on(Side::Golden, &mut found);
        found
    }
}

/// Whether operations end with their stacks. Where a file of stacks is there and empty, none would ever end.
fn ends_with_stacks(rank: &Rank) -> bool {
    rank.has_stacks() && (0..rank.calls().len()).any(|call| rank.frames(call).is_some())
}

/// Which table the dumps allow.
fn table(release: Release, ranks: [&Rank; 2]) -> Result<Table, Error> {
    let all_tensors = ranks.iter().all(|rank| rank.task == Task::Tensor);
    match release {
        Release::V4 if all_tensors => Ok(Table::Tensors4),
        Release::V4 => {
            let poor = ranks.iter().find(|rank| rank.task != Task::Tensor).unwrap_or(&ranks[0]);
            let fault = Fault::malformed(
                "a dump with the elements of its tensors, which is all that ptdbg_ascend before 6.0 compares \
                 (use the style ptdbg-6 or native)",
                format!("one with {} only", poor.task),
            );
            Err(Error::whole(fault).in_file(&poor.path))
        }
        Release::V6 if ranks.iter().all(|rank| has_digests(rank)) => Ok(Table::Digests6),
        Release::V6 if all_tensors => Ok(Table::Tensors6),
        Release::V6 => Ok(Table::Statistics6),
    }
}

/// Whether the first tensor has a digest.
fn has_digests(rank: &Rank) -> bool {
    let mut first = None;
    for call in 0..rank.calls().len() {
        let entries = rank.entries(call).unwrap_or_default();
        first = entries.iter().find_map(|entry| match &entry.content {
            Content::Tensor(tensor) => Some(tensor.digest.is_some()),
            _ => None,
        });
        if first.is_some() {
            break;
        }
    }
    first.unwrap_or(false)
}
