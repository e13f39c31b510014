//! The columns of a row, and how they are filled.

use ulpscope_dump::{Content, Entry};
use ulpscope_report::Cell;

use crate::fact::Fact;
use crate::native::attribution::verdict::emphasis;
use crate::native::evidence::measure::{Measured, Numbers};
use crate::proof::{Proof, ProofVerdict, ReplayedError};
use crate::stack::CodeLines;
use crate::style::{Row, Verdict};

/// Heading and meaning of each column, in order.
pub const COLUMNS: [(&str, &str); 49] = [
    ("call", "the call, by its name in the target"),
    ("entry", "the argument or result: role and position"),
    (
        "verdict",
        "equal, noise, inherited, differs, not finite, both NaN, only in target, only in golden, not compared; on the \
         row that shows that its call introduced an error, the call's class",
    ),
    ("why", "the reason of the verdict"),
    (
        "class",
        "what became of the call: equal, noise, inherited, diverged here, origin differs, non-finite born here, \
         different program, not comparable",
    ),
    ("expected", "the rel_l2 that rounding and the inputs allow; on the row that shows most"),
    ("basis", "what was compared: elements, statistics, digest or value"),
    ("how", "how the two were paired: exact, shape, fuzzy, aligned, mapped or order of arguments"),
    ("target_name", "the entry's name in the target"),
    ("golden_name", "the entry's name in the golden"),
    ("target_dtype", "dtype or type in the target"),
    ("golden_dtype", "dtype or type in the golden"),
    ("target_shape", "dimensions in the target"),
    ("golden_shape", "dimensions in the golden"),
    ("cosine", "cosine of the angle between the two"),
    ("rel_l2", "Euclidean distance over the golden's norm"),
    ("euclid", "Euclidean distance"),
    ("rmse", "root of the mean squared error"),
    ("mape", "mean relative error, in percent"),
    ("max_abs", "largest absolute error"),
    ("mean_abs", "mean absolute error"),
    ("max_rel", "largest relative error, where golden is not zero"),
    ("mean_rel", "mean relative error"),
    ("accumulated_rel", "sum of the relative errors"),
    ("under_1e3", "share of elements with a relative error under 1/1000"),
    ("under_5e3", "share of elements with a relative error under 5/1000"),
    ("max_ulp", "largest distance in units in the last place"),
    ("mean_ulp", "mean distance in units in the last place"),
    ("needed_atol", "the atol that would have let every element pass, with the rtol of the dtype"),
    ("zero_golden", "elements where golden is zero and target is not"),
    ("non_finite", "elements that are NaN or infinite on one side only"),
    ("worst_index", "position of the largest error, row-major"),
    ("target_max", "largest element, as recorded"),
    ("target_min", "smallest element, as recorded"),
    ("target_mean", "mean, as recorded"),
    ("target_norm", "L2 norm, as recorded"),
    ("golden_max", "likewise in the golden"),
    ("golden_min", "likewise"),
    ("golden_mean", "likewise"),
    ("golden_norm", "likewise"),
    ("max_diff", "difference of the two maxima"),
    ("min_diff", "difference of the two minima"),
    ("mean_diff", "difference of the two means"),
    ("norm_diff", "difference of the two norms"),
    ("target_digest", "hash of the bytes, as recorded"),
    ("golden_digest", "likewise"),
    ("module", "the module the call was made in; on the first row of a call"),
    ("code", "the line of the user's code that made the call; on the first row of a call"),
    ("inner_code", "the innermost line outside of torch, if it is a different one: that of a library"),
];

/// Likewise the columns that replay adds behind them. All but the first are numbers of the call, on the row that shows most.
pub const PROOF_COLUMNS: [(&str, &str); 6] = [
    ("proof", "what replay says of the finding: proved, refuted or not replayable; and why"),
    ("wrong_side", "who is far from the reference: target, golden or both"),
    ("target_own_error", "relative error of the target's result against the same call in raised precision"),
    ("target_own_floor", "what rounding explains of it"),
    ("golden_own_error", "likewise in the golden"),
    ("golden_own_floor", "likewise"),
];

/// The cells under [`PROOF_COLUMNS`]; empty ones for a row without a proof.
pub(super) fn proof_cells(proof: Option<&Proof>) -> [Cell; 6] {
    let Some(Proof { verdict, own }) = proof else { return [const { Cell::Missing }; 6] };
    let (text, wrong) = match verdict {
        ProofVerdict::Proved(wrong) => (verdict.words().to_owned(), Some(wrong.word())),
        ProofVerdict::Refuted => (verdict.words().to_owned(), None),
        ProofVerdict::NotReplayable(why) => (format!("{}: {why}", verdict.words()), None),
    };
    let [target, golden] = own.each_ref().map(|own| {
        let number = |of: fn(&ReplayedError) -> f64| Cell::maybe(own.as_ref().map(of), Cell::Exact);
        [number(|own| own.error), number(|own| own.floor)]
    });
    let [target_error, target_floor] = target;
    let [golden_error, golden_floor] = golden;
    [Cell::text(text), Cell::maybe(wrong, Cell::text), target_error, target_floor, golden_error, golden_floor]
}

/// Where in a row stands what is said of it in the end.
const ENTRY: usize = 1;
pub(super) const VERDICT: usize = 2;
pub(super) const WHY: usize = 3;
pub(super) const CLASS: usize = 4;
pub(super) const EXPECTED: usize = 5;
const TARGET_NAME: usize = 8;
const GOLDEN_NAME: usize = 9;
const TARGET_DTYPE: usize = 10;
const GOLDEN_DTYPE: usize = 11;

/// Role and position of a row's entry.
pub(super) fn entry(row: &Row) -> &str {
    text_at(row, ENTRY).unwrap_or_default()
}

/// The name of a row's entry in the target.
pub(super) fn target_name(row: &Row) -> Option<&str> {
    text_at(row, TARGET_NAME)
}

/// The name of a row's entry in the target, or in the golden where the target lacks it.
pub(super) fn name(row: &Row) -> Option<&str> {
    target_name(row).or_else(|| text_at(row, GOLDEN_NAME))
}

/// The dtype of a row's entry in the target, or in the golden where the target lacks it.
pub(super) fn dtype(row: &Row) -> &str {
    text_at(row, TARGET_DTYPE).or_else(|| text_at(row, GOLDEN_DTYPE)).unwrap_or_default()
}

fn text_at(row: &Row, column: usize) -> Option<&str> {
    match &row.cells[column] {
        Cell::Text(text) if !text.is_empty() => Some(text),
        _ => None,
    }
}

/// What a row is made of.
#[derive(Default)]
pub(super) struct Line<'a> {
    pub(super) call: &'a str,
    pub(super) how: &'a str,
    pub(super) target: Option<&'a Entry>,
    pub(super) golden: Option<&'a Entry>,
    pub(super) measured: Option<&'a Measured>,
    pub(super) module: Option<&'a str>,
    pub(super) code: Option<&'a CodeLines>,
}

impl Line<'_> {
    /// The row, with its verdict in words and in colour. The text of what was seen is made in the end.
    pub(super) fn row(&self, word: &str, fact: Option<Fact>, verdict: Verdict) -> Row {
        let entry = self.target.or(self.golden);
        let mut cells = Vec::with_capacity(COLUMNS.len());
        cells.extend([
            Cell::text(self.call),
            entry.map_or(Cell::Missing, |entry| Cell::text(position(entry))),
            Cell::text(word),
            Cell::Missing,
            Cell::Missing,
            Cell::Missing,
            self.measured.map_or(Cell::Missing, |measured| Cell::text(measured.basis.word())),
            text(self.how),
        ]);
        for side in [self.target, self.golden] {
            cells.push(Cell::maybe(side, |entry| Cell::text(entry.name.as_str())));
        }
        for side in [self.target, self.golden] {
            cells.push(Cell::maybe(side, kind));
        }
        for side in [self.target, self.golden] {
            cells.push(Cell::maybe(side, shape));
        }
        self.push_metrics(&mut cells);
        let none = [None; 4];
        let (target, golden) =
            self.measured.map_or((&none, &none), |measured| (&measured.target, &measured.golden));
        push_numbers(&mut cells, target);
        push_numbers(&mut cells, golden);
        for (target, golden) in target.iter().zip(golden) {
            let difference = target.zip(*golden).map(|(target, golden)| target - golden);
            cells.push(Cell::maybe(difference, Cell::Exact));
        }
        for side in [self.target, self.golden] {
            cells.push(Cell::maybe(side.and_then(digest), Cell::text));
        }
        cells.push(Cell::maybe(self.module, Cell::text));
        cells.push(Cell::maybe(self.code.and_then(|code| code.own.as_deref()), Cell::text));
        cells.push(Cell::maybe(self.code.and_then(|code| code.inner.as_deref()), Cell::text));
        Row { fact: fact.map(Box::new), ..Row::new(cells, emphasis(verdict), verdict) }
    }

    fn push_metrics(&self, cells: &mut Vec<Cell>) {
        let Some(comparison) = self.measured.and_then(|measured| measured.comparison.as_ref()) else {
            cells.extend(std::iter::repeat_n(Cell::Missing, 18));
            return;
        };
        let distances = &comparison.distances;
        let nothing_finite = distances.finite == 0 && distances.count > 0;
        if distances.non_finite.mismatched > 0 || nothing_finite {
            // Taken over the rest, or over nothing, they would look like those of a good pair.
            cells.extend(std::iter::repeat_n(Cell::Exact(f64::NAN), 15));
            cells.push(Cell::count(distances.zero_golden));
            cells.push(Cell::count(distances.non_finite.mismatched));
            cells.push(Cell::maybe(distances.worst_index, Cell::count));
            return;
        }
        cells.extend([
            Cell::maybe(distances.cosine, Cell::Exact),
            Cell::Exact(distances.rel_l2),
            Cell::Exact(distances.euclid),
            Cell::Exact(distances.rmse),
            Cell::Exact(comparison.mape),
            Cell::Exact(distances.max_abs),
            Cell::Exact(comparison.mean_abs),
            Cell::Exact(distances.max_rel),
            Cell::Exact(comparison.mean_rel),
            Cell::Exact(comparison.accumulated_rel),
            Cell::Exact(distances.under_1e3),
            Cell::Exact(distances.under_5e3),
            Cell::maybe(comparison.max_ulp, Cell::count),
            Cell::maybe(comparison.mean_ulp, Cell::Exact),
            Cell::Exact(comparison.needed_atol),
            Cell::count(distances.zero_golden),
            Cell::count(distances.non_finite.mismatched),
            Cell::maybe(distances.worst_index, Cell::count),
        ]);
    }
}

fn text(text: &str) -> Cell {
    if text.is_empty() { Cell::Missing } else { Cell::text(text) }
}

/// `input.0`, `parameter.weight`, `output.1`.
fn position(entry: &Entry) -> String {
    let role = entry.role.word();
    if entry.path.is_empty() { role.to_owned() } else { format!("{role}.{}", entry.path) }
}

fn kind(entry: &Entry) -> Cell {
    match &entry.content {
        Content::None => Cell::text("None"),
        Content::Tensor(tensor) => Cell::text(tensor.dtype.strip_prefix("torch.").unwrap_or(&tensor.dtype)),
        Content::Scalar { kind, .. } => Cell::text(kind.as_str()),
        Content::Other(_) => Cell::text("object"),
    }
}

fn shape(entry: &Entry) -> Cell {
    match &entry.content {
        Content::Tensor(tensor) => Cell::maybe(tensor.shape.as_ref(), |shape| {
            Cell::List(shape.iter().map(|&dim| Cell::count(dim)).collect())
        }),
        _ => Cell::Missing,
    }
}

fn digest(entry: &Entry) -> Option<&str> {
    match &entry.content {
        Content::Tensor(tensor) => tensor.digest.as_deref(),
        _ => None,
    }
}

fn push_numbers(cells: &mut Vec<Cell>, numbers: &Numbers) {
    cells.extend(numbers.iter().map(|number| Cell::maybe(*number, Cell::Exact)));
}
