//! `ulpscope diff`: whether two files agree, and if not, where they differ.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use anyhow::{anyhow, bail};
use rayon::prelude::*;
use serde_json::{Value as Json, json};
use ulpscope_formats::{Error, Tensor};
use ulpscope_kernels::{
    Comparison, ElementDiff, Threads, Tolerance, compare, first_failing, kl_divergence, worst,
};
use ulpscope_report::{Align, Cell, Emphasis, Record, Table, format_number, format_number_up};

use crate::args::DiffArgs;
use crate::exit::Exit;
use crate::output::Output;
use crate::progress::Progress;
use crate::source::{Source, label, tensors};
use ulpscope_compare::results::{self, Described};

/// Pairs shown in a table, the worst first: the whole table is laid out in memory.
const SHOWN_PAIRS: usize = 1000;

/// The request of `diff`.
pub(crate) struct Diff {
    target: PathBuf,
    golden: PathBuf,
    tolerance: Tolerance,
    rows: usize,
    json: bool,
}

impl From<DiffArgs> for Diff {
    fn from(args: DiffArgs) -> Diff {
        let tolerance = Tolerance { atol: args.atol, rtol: args.rtol };
        Diff { target: args.target, golden: args.golden, tolerance, rows: args.print, json: args.json }
    }
}

/// The tensors of one side.
struct Tensors {
    read: Vec<(String, Tensor)>,
    /// Names of those that could not be read.
    unread: HashSet<String>,
    /// What was left out, and what could not be read.
    notes: Vec<String>,
    errors: Vec<String>,
}

/// Two tensors of one name.
struct Pair {
    name: String,
    target: Tensor,
    golden: Tensor,
}

/// A pair, measured.
struct Measured<'a> {
    pair: &'a Pair,
    comparison: Comparison,
    kl: Option<f64>,
    first_failing: Vec<ElementDiff>,
    worst: Vec<ElementDiff>,
}

/// Tensors that were not measured, as text.
struct Unmatched {
    /// Those that only one side has.
    unpaired: Vec<String>,
    /// Those whose two sides have different shapes.
    shape_mismatch: Vec<String>,
}

impl Unmatched {
    fn is_empty(&self) -> bool {
        self.unpaired.is_empty() && self.shape_mismatch.is_empty()
    }
}

impl Diff {
    pub(crate) fn run(self, output: &mut Output) -> anyhow::Result<Exit> {
        let progress = Progress::of_one("comparing");
        let (target, golden) = rayon::join(|| read(&self.target), || read(&self.golden));
        let (target, golden) = (target?, golden?);
        let (pairs, unpaired) = self.pair(&target, &golden);
        let notes = [target.notes, golden.notes].concat();
        let mut errors = [target.errors, golden.errors].concat();
        let results: Vec<_> = pairs.par_iter().map(|pair| self.measure(pair)).collect();
        drop(progress);

        let mut measured = Vec::new();
        let mut shape_mismatch = Vec::new();
        for (pair, result) in pairs.iter().zip(results) {
            match result {
                Ok(one) => measured.push(one),
                // It concerns the file, not the tensor: report it once.
                Err(error) if error.is::<Error>() => {
                    let said = error.to_string();
                    if !errors.contains(&said) {
                        errors.push(said);
                    }
                }
                Err(shapes) if pair.name.is_empty() => shape_mismatch.push(shapes.to_string()),
                Err(shapes) => shape_mismatch.push(format!("{}: {shapes}", pair.name)),
            }
        }
        let unmatched = Unmatched { unpaired, shape_mismatch };
        if measured.is_empty() && errors.is_empty() && unmatched.is_empty() {
            errors.push(format!("{} and {} hold no tensors", self.target.display(), self.golden.display()));
        }
        if self.json {
            output.json(&self.to_json(&measured, &unmatched, &errors))?;
        } else {
            self.show(&measured, &unmatched, output)?;
        }
        output.notes_and_errors(&notes, &errors);
        let agree = unmatched.is_empty() && measured.iter().all(|one| one.comparison.agrees());
        let compared = if agree { Exit::Done } else { Exit::Differ };
        Ok(compared.max(Exit::of_reading(&errors)))
    }

    /// Pairs by name, in the target's order, and the unpaired tensors. Two files with one tensor each are always a
    /// pair.
    fn pair(&self, target: &Tensors, golden: &Tensors) -> (Vec<Pair>, Vec<String>) {
        let all_read = target.unread.is_empty() && golden.unread.is_empty();
        if let ([(name, target)], [(_, golden)]) = (target.read.as_slice(), golden.read.as_slice())
            && all_read
        {
            return (
                vec![Pair { name: name.clone(), target: target.clone(), golden: golden.clone() }],
                Vec::new(),
            );
        }
        let mut by_name: HashMap<&str, &Tensor> =
            golden.read.iter().map(|(name, tensor)| (name.as_str(), tensor)).collect();
        let mut pairs = Vec::new();
        let mut unpaired = Vec::new();
        let missing = |name: &str, there: &Path, here: &Path| {
            format!("{}: has no counterpart in {}", label(here, name), there.display())
        };
        for (name, tensor) in &target.read {
            match by_name.remove(name.as_str()) {
                Some(golden) => {
                    pairs.push(Pair { name: name.clone(), target: tensor.clone(), golden: golden.clone() });
                }
                // It exists, and its read error is already reported.
                None if golden.unread.contains(name) => {}
                None => unpaired.push(missing(name, &self.golden, &self.target)),
            }
        }
        for (name, _) in &golden.read {
            if by_name.contains_key(name.as_str()) && !target.unread.contains(name) {
                unpaired.push(missing(name, &self.target, &self.golden));
            }
        }
        (pairs, unpaired)
    }

    fn measure<'a>(&self, pair: &'a Pair) -> anyhow::Result<Measured<'a>> {
        let (target, golden) = (pair.target.view(), pair.golden.view());
        let comparison = compare(&target, &golden, self.tolerance, Threads::All)?;
        let kl = kl_divergence(&target, &golden, Threads::All);
        let (mut first, mut largest) = (Vec::new(), Vec::new());
        // Equal bits need no further comparison.
        if !comparison.distances.equal {
            if !comparison.agrees() {
                first = first_failing(&target, &golden, self.tolerance, self.rows)?;
            }
            largest = worst(&target, &golden, self.rows)?;
        }
        pair.target.check()?;
        pair.golden.check()?;
        Ok(Measured { pair, comparison, kl, first_failing: first, worst: largest })
    }

    fn show(
        &self,
        measured: &[Measured<'_>],
        unmatched: &Unmatched,
        output: &mut Output,
    ) -> anyhow::Result<()> {
        self.show_pairs(measured, output)?;
        let Unmatched { unpaired, shape_mismatch } = unmatched;
        unpaired.iter().chain(shape_mismatch).try_for_each(|one| output.line(one))?;
        if !unmatched.is_empty() {
            let count = unpaired.len() + shape_mismatch.len();
            let words = if count == 1 { "1 tensor has".to_owned() } else { format!("{count} tensors have") };
            let said = format!("differ: {words} no counterpart, or a different shape");
            output.verdict(&said, Emphasis::Bad)?;
        }
        Ok(())
    }

    fn show_pairs(&self, measured: &[Measured<'_>], output: &mut Output) -> anyhow::Result<()> {
        let mut by_error: Vec<&Measured<'_>> = measured.iter().collect();
        by_error.sort_by(|a, b| b.badness().total_cmp(&a.badness()));
        if let [first, _, ..] = by_error.as_slice() {
            output.table(&overview(&by_error[..by_error.len().min(SHOWN_PAIRS)]))?;
            if let more @ 1.. = by_error.len().saturating_sub(SHOWN_PAIRS) {
                output.line(&format!("and {more} more pairs, none worse than these (--json lists all)"))?;
            }
            output.line("")?;
            if first.comparison.distances.equal {
                return Ok(output.verdict("all pairs are equal bit by bit", Emphasis::Good)?);
            }
            output.line(&format!("the worst pair: {}", first.pair.name))?;
        }
        match by_error.first() {
            Some(one) => self.show_one(one, output),
            None => Ok(()),
        }
    }

    fn show_one(&self, one: &Measured<'_>, output: &mut Output) -> anyhow::Result<()> {
        let (target, golden) = (one.pair.target.view(), one.pair.golden.view());
        output.table(&Table::of_record("", &self.readable(one)))?;
        if !one.comparison.distances.equal {
            output.line("")?;
            output.table(&results::exponent_bars(&one.comparison.exponents).to_table())?;
        }
        for (title, elements) in
            [("first failing elements", &one.first_failing), ("worst elements", &one.worst)]
        {
            if !elements.is_empty() {
                output.line("")?;
                let sides = (Described::of(&target), Described::of(&golden));
                output.table(&results::element_table(title, elements, &sides.0, &sides.1))?;
            }
        }
        output.line("")?;
        if target.dtype() != golden.dtype() {
            output.line(&format!(
                "the dtypes differ: target is {}, golden is {}; compared by value",
                target.dtype(),
                golden.dtype()
            ))?;
        }
        let emphasis = if one.comparison.agrees() { Emphasis::Good } else { Emphasis::Bad };
        Ok(output.verdict(&self.verdict(&one.comparison), emphasis)?)
    }

    /// The record for people: one line per side, no zero rows about NaN and Inf, and no histogram, which is drawn as
    /// bars.
    fn readable(&self, one: &Measured<'_>) -> Record {
        let mut record = one.record();
        record.fields.retain(|(name, _)| *name != "exponents");
        for (name, cell) in &mut record.fields {
            match (*name, &mut *cell) {
                ("target", _) => *cell = side(&self.target, &one.pair.target),
                ("golden", _) => *cell = side(&self.golden, &one.pair.golden),
                ("non_finite", Cell::Record(counts)) => {
                    counts.fields.retain(|(_, count)| *count != Cell::Int(0));
                    if counts.fields.is_empty() {
                        *cell = Cell::text("none");
                    }
                }
                _ => {}
            }
        }
        record
    }

    fn verdict(&self, comparison: &Comparison) -> String {
        let limit = format!(
            "{} + {} * |golden|",
            format_number(self.tolerance.atol),
            format_number(self.tolerance.rtol)
        );
        if comparison.distances.equal {
            "agree: equal bit by bit".to_owned()
        } else if comparison.agrees() {
            format!("agree: all {} elements are within {limit}", comparison.distances.count)
        } else {
            // With a NaN or Inf on one side only, no tolerance is enough.
            let needed = if comparison.needed_atol.is_finite() {
                format!(
                    "; it takes --atol {} or --rtol {}",
                    format_number_up(comparison.needed_atol),
                    format_number_up(comparison.needed_rtol)
                )
            } else {
                String::new()
            };
            format!(
                "differ: {} of {} elements are beyond {limit}{needed}",
                comparison.over_tolerance, comparison.distances.count
            )
        }
    }

    fn to_json(&self, measured: &[Measured<'_>], unmatched: &Unmatched, errors: &[String]) -> Json {
        let pairs: Vec<Json> = measured
            .iter()
            .map(|one| {
                let mut fields = vec![("name", Cell::text(&one.pair.name))];
                fields.push(("agree", Cell::Flag(one.comparison.agrees())));
                fields.extend(one.record().fields);
                let mut pair = Record::new(fields).to_json();
                let (target, golden) = one.sides();
                for (key, elements) in [("first_failing", &one.first_failing), ("worst", &one.worst)] {
                    let elements = elements.iter();
                    pair[key] = elements
                        .map(|element| results::of_element(element, &target, &golden).to_json())
                        .collect();
                }
                pair
            })
            .collect();
        json!({
            "target": self.target.display().to_string(),
            "golden": self.golden.display().to_string(),
            "atol": Cell::Number(self.tolerance.atol).to_json(),
            "rtol": Cell::Number(self.tolerance.rtol).to_json(),
            "agree": errors.is_empty()
                && unmatched.is_empty()
                && measured.iter().all(|one| one.comparison.agrees()),
            "pairs": pairs,
            "unpaired": unmatched.unpaired,
            "shape_mismatch": unmatched.shape_mismatch,
            "errors": errors,
        })
    }
}

impl Measured<'_> {
    fn record(&self) -> Record {
        let (target, golden) = self.sides();
        results::of_comparison(&target, &golden, &self.comparison, self.kl)
    }

    fn sides(&self) -> (Described, Described) {
        (Described::of(&self.pair.target.view()), Described::of(&self.pair.golden.view()))
    }

    /// Orders pairs: those with disagreeing NaN or Inf first, then by the size of the error relative to the
    /// golden, and equal bits last.
    fn badness(&self) -> f64 {
        if self.comparison.distances.non_finite.mismatched > 0 {
            f64::INFINITY
        } else if self.comparison.distances.equal {
            -1.0
        } else {
            self.comparison.distances.rel_l2
        }
    }
}

fn overview(pairs: &[&Measured<'_>]) -> Table {
    let fields = ["over_tolerance", "rel_l2", "max_abs", "max_rel", "cosine", "max_ulp", "worst_index"];
    let mut columns = vec![("pair", Align::Left), ("verdict", Align::Left)];
    columns.extend(fields.map(|field| (field, Align::Right)));
    let mut table = Table::new("", &columns);
    for one in pairs {
        let (verdict, emphasis) = if one.comparison.distances.equal {
            ("equal", Emphasis::Good)
        } else if one.comparison.agrees() {
            ("agrees", Emphasis::Good)
        } else {
            ("differs", Emphasis::Bad)
        };
        let record = one.record();
        let mut cells = vec![Cell::text(&one.pair.name), Cell::text(verdict)];
        cells.extend(fields.map(|field| record.get(field).cloned().unwrap_or(Cell::Missing)));
        table.push(cells, emphasis);
    }
    table
}

fn side(path: &Path, tensor: &Tensor) -> Cell {
    Cell::Text(format!("{} {:?} {}", tensor.dtype(), tensor.shape(), path.display()))
}

fn read(path: &Path) -> anyhow::Result<Tensors> {
    // The error's text already includes its source: convert to text, so that it is not repeated.
    let value = match Source::read(path).map_err(|error| anyhow!("{error}"))? {
        Source::Tensors(value) => value,
        Source::Records(_) => bail!("{}: holds records, not tensors", path.display()),
    };
    let said = |(name, reason): &(String, &str)| format!("{}: {reason}", label(path, name));
    let unread = value.unread();
    Ok(Tensors {
        read: tensors(&value),
        notes: value.opaque().iter().map(said).collect(),
        errors: unread.iter().map(said).collect(),
        unread: unread.into_iter().map(|(name, _)| name).collect(),
    })
}
