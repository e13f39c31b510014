//! Pairs of operations, and their rows.

use ulpscope_dump::{Content, Data, Entry, Error, Rank};
use ulpscope_formats::Fault;
use ulpscope_formats::json::python_float_repr;
use ulpscope_report::{Cell, Emphasis};

use crate::style::{Judged, Partnerless, Plan, Row, Side, Verdict};

use super::super::lines::{self, is_tensor};
use super::super::python_text;
use super::super::queues::{Habits, Matches, matches};
use super::numbers::{four_decimals, measure};
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
        let found = matches(&sides[0].ops, &sides[1].ops, Habits::Hooks, |_, _| true);
        HooksPlan { ranks, sides, found }
    }

    fn ops(&self, unit: usize) -> [&Op; 2] {
        let (target, golden) = self.found.pairs[unit];
        [&self.sides[0].ops[target], &self.sides[1].ops[golden]]
    }

    /// What one side has and no row shows.
    fn partnerless_on(&self, side: Side, found: &mut Vec<Partnerless>) {
        let own = &self.sides[side as usize];
        let (read, partnered): (usize, Vec<usize>) = match side {
            Side::Target => (self.found.target_read, self.found.pairs.iter().map(|pair| pair.0).collect()),
            Side::Golden => (self.found.golden_read, self.found.pairs.iter().map(|pair| pair.1).collect()),
        };
        let mut note = |name: &str, reason: &str| {
            found.push(Partnerless { side, name: name.to_owned(), reason: reason.to_owned() });
        };
        for (number, op) in own.ops.iter().enumerate() {
            if partnered.binary_search(&number).is_ok() {
                continue;
            }
            let lines = lines::read(self.ranks[side as usize], is_tensor, op.start, op.lines as usize);
            let reason = if number < read { SKIPPED } else { NEVER_READ };
            for name in lines::stems(lines.iter().map(|line| line.name.as_str())) {
                note(name, reason);
            }
        }
        for name in lines::stems(own.trailing.iter().map(String::as_str)) {
            note(name, NO_OUTPUT);
        }
        for (name, why) in &own.unread {
            note(name, why);
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
        let bytes = ops.map(|op| op.bytes).iter().sum();
        let mut judged = Judged { target, golden, bytes, ..Judged::default() };
        let lines =
            |side: usize| lines::read(self.ranks[side], is_tensor, ops[side].start, ops[side].lines as usize);
        for (target, golden) in lines(0).iter().zip(&lines(1)) {
            let row = row((self.ranks[0], target), (self.ranks[1], golden), &mut judged.problems);
            judged.rows.push(row);
        }
        judged
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
    let values = sides.map(|(rank, entry)| if alike { values(rank, entry) } else { Ok(Vec::new()) });
    let verdict = match values {
        [Ok(target), Ok(golden)] if alike && target.len() == golden.len() => {
            let numbers = measure(&target, &golden);
            cells.push(match numbers.similarity.is_nan() {
                true => Cell::text("nan"),
                false => Cell::Exact(numbers.similarity),
            });
            // pandas prints nothing for NaN in a column of numbers.
            cells.push(if numbers.rmse.is_nan() { Cell::Missing } else { Cell::Exact(numbers.rmse) });
            cells.push(Cell::Text(format!("{}%", python_float_repr(four_decimals(numbers.mape)))));
            if numbers.passes { Verdict::Pass } else { Verdict::Fail }
        }
        values => {
            cells.extend(NOT_CALCULATED.map(Cell::text));
            for value in &values {
                problems.extend(value.as_ref().err().map(Error::to_string));
            }
            if let [Ok(target), Ok(golden)] = values
                && alike
            {
                problems.push(format!(
                    "{}: expected as many values on both sides, found {} in the target and {} in the golden; \
                     compare samples with samples",
                    sides[0].1.name,
                    target.len(),
                    golden.len()
                ));
            }
            Verdict::NotCompared
        }
    };
    Row { cells, emphasis: Emphasis::Plain, verdict }
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

/// The numbers of a line: all elements, or some and three statistics.
fn values(rank: &Rank, entry: &Entry) -> Result<Vec<f64>, Error> {
    let nothing = || {
        let fault = Fault::malformed(format!("the values of {}", entry.name), "none recorded");
        Error::whole(fault).in_file(&rank.path)
    };
    let Content::Tensor(tensor) = &entry.content else { return Err(nothing()) };
    if let Data::Sample(sample) = &tensor.data {
        return Ok(sample.clone());
    }
    let tensor = rank.tensor(tensor)?.ok_or_else(nothing)?;
    let view = tensor.view();
    Ok((0..view.len()).map(|index| view.get(index).to_f64()).collect())
}
