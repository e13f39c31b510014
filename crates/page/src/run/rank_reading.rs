//! Reads a rank: a row for each entry, and what is kept of each call.

use ulpscope_compare::CodeLines;
use ulpscope_dump::{CallKind, Content, Entry, Role};
use ulpscope_report::escape;
use ulpscope_report::page::ColumnValue;

use super::columns::{COLUMNS, ROW_WIDTH};
use super::findings::RunFindingKind;
use super::numbers::TensorNumbers;
use crate::dumps::NamedRank;
use crate::error::PageError;
use crate::flow::position;
use crate::names::TreePlace;
use crate::parts::Parts;
use crate::rows::{ColumnNames, RowChunks};

/// A call of a run.
#[derive(Debug)]
pub(super) struct RunCall {
    pub(super) name: String,
    pub(super) place: TreePlace,
    pub(super) kind: CallKind,
    pub(super) row: u64,
    pub(super) rows: u64,
    pub(super) code: Option<String>,
    /// Of its first tensor among inputs, and among outputs.
    pub(super) input: Option<TensorNumbers>,
    pub(super) output: Option<TensorNumbers>,
    pub(super) nan: u64,
    pub(super) inf: u64,
    /// Norms of the gradients of parameters, by name.
    pub(super) gradients: Vec<(String, f64)>,
    pub(super) finding: Option<RunFindingKind>,
}

impl RunCall {
    /// The numbers that stand for the call: those of its first output, or of what was saved.
    pub(super) fn shown(&self) -> TensorNumbers {
        self.output.unwrap_or_default()
    }

    /// Whether it is the forward call of a module.
    pub(super) fn is_module_result(&self) -> bool {
        self.kind == CallKind::Forward && (self.name.starts_with("Module.") || self.name.starts_with("Cell."))
    }

    /// Its value, if it computes a loss.
    pub(super) fn loss(&self) -> Option<f64> {
        let op = self.place.op.to_lowercase();
        let is_loss = self.kind == CallKind::Forward && (op.contains("loss") || op.contains("cross_entropy"));
        let output = self.output.filter(|output| is_loss && output.count == Some(1))?;
        output.mean.or(output.max)
    }
}

/// What was read of a rank.
#[derive(Debug)]
pub(super) struct RankReading {
    pub(super) calls: Vec<RunCall>,
    pub(super) rows: u64,
    /// Tensors of floats of which it is not known whether all elements are finite.
    pub(super) unmeasured: u64,
}

impl RankReading {
    /// Reads a rank; `left` is how many elements may still be measured.
    pub(super) fn of(
        number: usize,
        opened: &NamedRank,
        columns: &mut ColumnNames,
        left: &mut u64,
        parts: &mut Parts,
    ) -> Result<RankReading, PageError> {
        let rank = &opened.rank;
        let headings = COLUMNS.map(|(name, _)| name.to_owned());
        let mut chunks = RowChunks::of(number, columns, parts);
        let mut calls = Vec::with_capacity(rank.calls().len());
        let mut unmeasured = 0;
        for at in 0..rank.calls().len() {
            let (name, parent, stack) = (rank.name(at), rank.parent(at), rank.stack(at));
            let code = stack
                .as_deref()
                .and_then(|stack| CodeLines::of(stack).own)
                .map(|code| escape::terminal(&code).into_owned());
            let shown = escape::terminal(&name).into_owned();
            let mut call = RunCall {
                place: TreePlace::of(&shown, parent.as_deref().map(escape::terminal).as_deref()),
                name: shown,
                kind: rank.calls()[at].kind,
                row: chunks.rows,
                rows: 0,
                code,
                input: None,
                output: None,
                nan: 0,
                inf: 0,
                gradients: Vec::new(),
                finding: None,
            };
            // What cannot be read is among the problems of the rank.
            for (place, entry) in rank.entries(at).unwrap_or_default().iter().enumerate() {
                let numbers = match &entry.content {
                    Content::Tensor(tensor) => Some(TensorNumbers::of(rank, tensor, left)),
                    _ => None,
                };
                unmeasured += u64::from(numbers.is_some_and(|numbers| numbers.is_unmeasured()));
                call.take(entry, numbers);
                let module = parent.as_deref().filter(|_| place == 0);
                let texts = Texts::of(entry, module, call.code.as_deref().filter(|_| place == 0));
                chunks.push(&headings, &texts.row(&call.name, numbers.unwrap_or_default()).as_slice());
            }
            call.rows = chunks.rows - call.row;
            calls.push(call);
        }
        Ok(RankReading { calls, rows: chunks.finish()?, unmeasured })
    }

    /// The numbers of calls, those with findings first.
    pub(super) fn by_importance(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.calls.len()).collect();
        order.sort_by_key(|&call| match self.calls[call].finding {
            Some(kind) => kind as usize,
            None => usize::MAX,
        });
        order
    }
}

impl RunCall {
    fn take(&mut self, entry: &Entry, numbers: Option<TensorNumbers>) {
        let Some(numbers) = numbers else { return };
        match entry.role {
            Role::Input => {
                self.input.get_or_insert(numbers);
            }
            Role::Output | Role::Saved => {
                self.output.get_or_insert(numbers);
                self.nan += numbers.nan.unwrap_or(0);
                self.inf += numbers.inf.unwrap_or(0);
            }
            Role::ParameterGrad => {
                self.output.get_or_insert(numbers);
                self.nan += numbers.nan.unwrap_or(0);
                self.inf += numbers.inf.unwrap_or(0);
                let name = format!("{}.{}", self.place.path, entry.path);
                self.gradients.extend(numbers.norm.map(|norm| (escape::terminal(&name).into_owned(), norm)));
            }
            Role::Parameter => {}
        }
    }
}

/// The texts of a row.
struct Texts {
    entry: String,
    dtype: String,
    shape: String,
    source: Option<String>,
    digest: Option<String>,
    module: Option<String>,
    code: Option<String>,
}

impl Texts {
    fn of(entry: &Entry, module: Option<&str>, code: Option<&str>) -> Texts {
        let said = |text: &str| escape::terminal(text).into_owned();
        let (dtype, shape, source, digest) = match &entry.content {
            Content::None => ("None".to_owned(), None, None, None),
            Content::Scalar { kind, .. } => (said(kind), None, None, None),
            Content::Other(_) => ("object".to_owned(), None, None, None),
            Content::Tensor(tensor) => (
                said(tensor.dtype.strip_prefix("torch.").unwrap_or(&tensor.dtype)),
                tensor.shape.clone(),
                tensor.source.as_deref().map(said),
                tensor.digest.as_deref().map(said),
            ),
        };
        Texts {
            entry: said(&position(entry)),
            dtype,
            shape: shape.map(|shape| format!("{shape:?}")).unwrap_or_default(),
            source,
            digest,
            module: module.map(said),
            code: code.map(said),
        }
    }

    /// The row, in the order of the columns.
    fn row<'a>(&'a self, call: &'a str, numbers: TensorNumbers) -> [ColumnValue<'a>; ROW_WIDTH] {
        let text =
            |text: &'a str| if text.is_empty() { ColumnValue::Missing } else { ColumnValue::Text(text) };
        let maybe =
            |text: &'a Option<String>| text.as_deref().map_or(ColumnValue::Missing, ColumnValue::Text);
        let number = |number: Option<f64>| number.map_or(ColumnValue::Missing, ColumnValue::Number);
        let count = |count: Option<u64>| number(count.map(|count| count as f64));
        [
            ColumnValue::Text(call),
            ColumnValue::Text(&self.entry),
            text(&self.dtype),
            text(&self.shape),
            number(numbers.max),
            number(numbers.min),
            number(numbers.mean),
            number(numbers.norm),
            number(numbers.max_abs()),
            count(numbers.nan),
            count(numbers.inf),
            number(numbers.zeros),
            maybe(&self.source),
            maybe(&self.digest),
            maybe(&self.module),
            maybe(&self.code),
        ]
    }
}
