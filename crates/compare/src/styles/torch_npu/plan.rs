//! Pairs of operations, and their rows.

use ulpscope_dump::{Content, Data, Entry, Error, Rank};
use ulpscope_formats::json::python_float_repr;
use ulpscope_formats::{Fault, Tensor};
use ulpscope_report::{Cell, Emphasis};
use ulpscope_tensor::View;

use crate::style::{Judged, Partnerless, Plan, Row, Side, Verdict};

use super::super::lines::{self, LinePlace, is_tensor};
use super::super::python_text;
use super::super::queues::{Habits, Matches, matches};
use super::numbers::{Numbers, four_decimals, measure};
use super::ops::{Op, Ops, group};

const COLUMNS: [&str; 9] = [
    "NPU Name",
    "Bench Name",
    "NPU Tensor Dtype",
    "Bench Tensor Dtype",
    "NPU Tensor Shape",
    "Bench Tensor Shape",
    "Cosine",
    "RMSE",
    "MAPE",
];

/// What the columns say of tensors of different shapes. The first has a blank at its end.
const NOT_CALCULATED: [&str; 3] = ["cannot be calculated ", "cannot be calculated", "cannot be calculated"];

const SKIPPED: &str =
    "no operation of these names was found for it; torch_npu.hooks leaves it out of its table";
const NEVER_READ: &str = "torch_npu.hooks stops reading once one of the dumps has nothing left to match";
const NO_OUTPUT: &str = "torch_npu.hooks drops trailing lines that no output follows";

/// Two ranks laid side by side.
pub(super) struct HooksPlan<'a> {
    ranks: [&'a Rank; 2],
    sides: [Ops; 2],
    found: Matches,
}

impl<'a> HooksPlan<'a> {
    pub(super) fn new(shapes: bool, target: &'a Rank, golden: &'a Rank) -> HooksPlan<'a> {
        let ranks = [target, golden];
        let sides = ranks.map(|rank| group(rank, shapes));
        let readable = |target: &Op, golden: &Op| target.lines > 0 && golden.lines > 0;
        let found = matches(&sides[0].ops, &sides[1].ops, Habits::Hooks, readable);
        HooksPlan { ranks, sides, found }
    }

    fn ops(&self, unit: usize) -> [&Op; 2] {
        let (target, golden) = self.found.pairs[unit];
        [&self.sides[0].ops[target], &self.sides[1].ops[golden]]
    }

    fn lines(&self, side: Side, from: LinePlace, count: u32) -> Vec<Entry> {
        lines::read(self.ranks[side as usize], is_tensor, from, count as usize)
    }

    /// Entries of one side that no row shows.
    fn partnerless_on(&self, side: Side, found: &mut Vec<Partnerless>) {
        let own = &self.sides[side as usize];
        let (read, partnered): (usize, Vec<usize>) = match side {
            Side::Target => (self.found.target_read, self.found.pairs.iter().map(|pair| pair.0).collect()),
            Side::Golden => (self.found.golden_read, self.found.pairs.iter().map(|pair| pair.1).collect()),
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
            if partnered.binary_search(&number).is_ok() {
                continue;
            }
            let lines = self.lines(side, op.start, op.lines);
            let reason = if number < read { SKIPPED } else { NEVER_READ };
            for name in lines::stems(lines.iter().map(|line| line.name.as_str())) {
                note(name, reason);
            }
        }
        let trailing = own.trailing.map(|(from, count)| self.lines(side, from, count)).unwrap_or_default();
        for name in lines::stems(trailing.iter().map(|line| line.name.as_str())) {
            note(name, NO_OUTPUT);
        }
    }
}

impl Plan for HooksPlan<'_> {
    fn columns(&self) -> Vec<String> {
        COLUMNS.map(str::to_owned).to_vec()
    }

    fn units(&self) -> usize {
        self.found.pairs.len()
    }

    fn judge(&self, unit: usize) -> Judged {
        let ops = self.ops(unit);
        let [target, golden] = ops.map(|op| Some(op.start.call as usize));
        let bytes = ops[0].bytes.saturating_add(ops[1].bytes);
        let mut judged = Judged { target, golden, bytes, ..Judged::default() };
        let lines = |side: Side| self.lines(side, ops[side as usize].start, ops[side as usize].lines);
        for (target, golden) in lines(Side::Target).iter().zip(&lines(Side::Golden)) {
            let row = row((self.ranks[0], target), (self.ranks[1], golden), &mut judged.problems);
            judged.rows.push(row);
        }
        judged
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

fn row(target: (&Rank, &Entry), golden: (&Rank, &Entry), problems: &mut Vec<String>) -> Row {
    let sides = [target, golden];
    let names = sides.map(|(_, entry)| entry.name.clone());
    let dtypes = sides.map(|(_, entry)| described(entry).0);
    let shapes = sides.map(|(_, entry)| described(entry).1);
    let alike = shapes[0] == shapes[1];
    let mut cells: Vec<Cell> = [names, dtypes, shapes].into_iter().flatten().map(Cell::Text).collect();
    let measured = if alike { measured(sides, problems) } else { None };
    let verdict = match &measured {
        Some(numbers) if numbers.passes => Verdict::Pass,
        Some(_) => Verdict::Fail,
        None if alike => Verdict::NotCompared,
        // Nothing can be calculated because they differ.
        None => Verdict::Fail,
    };
    match measured {
        Some(numbers) => {
            cells.push(match numbers.similarity.is_nan() {
                true => Cell::text("nan"),
                false => Cell::Exact(numbers.similarity),
            });
            // pandas prints nothing for NaN in a column of numbers.
            cells.push(if numbers.rmse.is_nan() { Cell::Missing } else { Cell::Exact(numbers.rmse) });
            cells.push(Cell::Text(format!("{}%", python_float_repr(four_decimals(numbers.mape)))));
        }
        None => cells.extend(NOT_CALCULATED.map(Cell::text)),
    }
    Row::new(cells, Emphasis::Plain, verdict)
}

/// What was measured on two lines of one shape. What cannot be is noted in `problems`.
fn measured(sides: [(&Rank, &Entry); 2], problems: &mut Vec<String>) -> Option<Numbers> {
    let [target, golden] = sides
        .map(|(rank, entry)| Values::of(rank, entry).map_err(|error| problems.push(error.to_string())).ok());
    let (target, golden) = (target?, golden?);
    let (target, golden) = (target.view(), golden.view());
    if target.len() != golden.len() {
        problems.push(format!(
            "{}: expected as many values on both sides, found {} in the target and {} in the golden; \
             compare samples with samples",
            sides[0].1.name,
            target.len(),
            golden.len()
        ));
        return None;
    }
    Some(measure((0..target.len()).map(|index| (target.get(index), golden.get(index)))))
}

/// Dtype and shape, as the tool prints them.
fn described(entry: &Entry) -> (String, String) {
    match &entry.content {
        Content::Tensor(tensor) => {
            (tensor.dtype.clone(), python_text::sizes(tensor.shape.as_deref().unwrap_or_default()))
        }
        _ => (String::new(), String::new()),
    }
}

/// The numbers of a line, where they lie: all elements, or some and three statistics.
enum Values<'e> {
    Elements(Tensor),
    Sample(&'e [f64]),
}

impl<'e> Values<'e> {
    fn of(rank: &Rank, entry: &'e Entry) -> Result<Values<'e>, Error> {
        let nothing = || {
            let fault = Fault::malformed(format!("the values of {}", entry.name), "none recorded");
            Error::whole(fault).in_file(&rank.path)
        };
        let Content::Tensor(tensor) = &entry.content else { return Err(nothing()) };
        match &tensor.data {
            Data::Sample(sample) => Ok(Values::Sample(sample)),
            _ => Ok(Values::Elements(rank.tensor(tensor)?.ok_or_else(nothing)?)),
        }
    }

    fn view(&self) -> Viewed<'_> {
        match self {
            Values::Elements(tensor) => Viewed::Elements(tensor.view()),
            Values::Sample(sample) => Viewed::Sample(sample),
        }
    }
}

/// The same, ready to be read.
enum Viewed<'v> {
    Elements(View<'v>),
    Sample(&'v [f64]),
}

impl Viewed<'_> {
    fn len(&self) -> usize {
        match self {
            Viewed::Elements(view) => view.len(),
            Viewed::Sample(sample) => sample.len(),
        }
    }

    fn get(&self, index: usize) -> f64 {
        match self {
            Viewed::Elements(view) => view.get(index).to_f64(),
            Viewed::Sample(sample) => sample[index],
        }
    }
}
