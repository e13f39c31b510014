//! `Divergence`: a call at which two runs stop agreeing.

use pyo3::prelude::*;
use serde_json::Value as Json;
use ulpscope_compare::{ProofVerdict, RankResult};
use ulpscope_report::{Align, Cell, Record, Table, Terminal, escape};

use crate::region::Region;
use crate::result_bytes::{Reduced, hash, packed, reduce, same};

/// A call that introduced an error.
#[pyclass(frozen, module = "ulpscope", get_all)]
#[derive(Clone)]
pub(crate) struct Divergence {
    call: String,
    golden_call: Option<String>,
    region: Option<Region>,
    module: Option<String>,
    code: Option<String>,
    inner_code: Option<String>,
    golden_code: Option<String>,
    golden_inner_code: Option<String>,
    kind: String,
    entry: String,
    why: String,
    confidence: f64,
    line: u64,
    stack: Vec<String>,
    step: Option<u64>,
    rank: String,
    error: Option<f64>,
    floor: Option<f64>,
    downstream: u64,
    direction: String,
    proof: Option<String>,
    proof_reason: Option<String>,
    wrong_side: Option<String>,
    target_own_error: Option<f64>,
    golden_own_error: Option<f64>,
}

packed! {
    Divergence {
        call, golden_call, region, module, code, inner_code, golden_code, golden_inner_code, kind, entry, why, confidence, line,
        stack, step, rank, error, floor, downstream, direction, proof, proof_reason, wrong_side, target_own_error, golden_own_error,
    }
}

impl Divergence {
    pub(crate) fn of<S>(rank: &RankResult<S>, found: &ulpscope_compare::Divergence) -> Divergence {
        let finding = &found.finding;
        let proof = finding.proof.as_ref();
        let (wrong, reason) = match proof.map(|proof| &proof.verdict) {
            Some(ProofVerdict::Proved(wrong)) => (Some(wrong.word().to_owned()), None),
            Some(ProofVerdict::NotReplayable(why)) => (None, Some(why.clone())),
            Some(ProofVerdict::Refuted) | None => (None, None),
        };
        let own = |side: usize| proof.and_then(|proof| proof.own[side].as_ref()).map(|own| own.error);
        Divergence {
            call: found.call.clone(),
            golden_call: found.golden_call.clone(),
            region: finding.cause.region().map(Region::of),
            module: found.module.clone(),
            code: found.code.clone(),
            inner_code: found.inner_code.clone(),
            golden_code: found.golden_code.clone(),
            golden_inner_code: found.golden_inner_code.clone(),
            kind: finding.kind.words().to_owned(),
            entry: finding.entry.clone(),
            why: found.why(),
            confidence: finding.confidence,
            line: found.line,
            stack: found.stack.clone(),
            step: rank.step,
            rank: rank.target.clone(),
            error: finding.measure.map(|measure| measure.error),
            floor: finding.measure.map(|measure| measure.floor),
            downstream: finding.downstream,
            direction: if finding.in_backward { "backward" } else { "forward" }.to_owned(),
            proof: proof.map(|proof| proof.verdict.words().to_owned()),
            proof_reason: reason,
            wrong_side: wrong,
            target_own_error: own(0),
            golden_own_error: own(1),
        }
    }

    /// Whether it is this call of this step and rank.
    pub(crate) fn is_at(&self, step: &Json, rank: &Json, call: &Json) -> bool {
        step.as_u64() == self.step && *rank == *self.rank && *call == *self.call
    }

    pub(crate) fn call(&self) -> &str {
        &self.call
    }

    /// The columns of a table of divergences.
    pub(crate) const COLUMNS: [(&str, Align); 7] = [
        ("call", Align::Left),
        ("kind", Align::Left),
        ("entry", Align::Left),
        ("error", Align::Right),
        ("floor", Align::Right),
        ("confidence", Align::Right),
        ("code", Align::Left),
    ];

    /// A row under [`Divergence::COLUMNS`].
    pub(crate) fn cells(&self) -> Vec<Cell> {
        vec![
            Cell::text(&self.call),
            Cell::text(&self.kind),
            Cell::text(&self.entry),
            Cell::maybe(self.error, Cell::Number),
            Cell::maybe(self.floor, Cell::Number),
            Cell::Number(self.confidence),
            Cell::maybe(self.code.as_ref(), Cell::text),
        ]
    }

    fn table(&self) -> Table {
        let text = |text: &Option<String>| Cell::maybe(text.as_ref(), Cell::text);
        let mut fields = vec![
            ("call", Cell::text(&self.call)),
            ("golden_call", text(&self.golden_call)),
            ("module", text(&self.module)),
            ("code", text(&self.code)),
            ("inner_code", text(&self.inner_code)),
            ("golden_code", text(&self.golden_code)),
            ("golden_inner_code", text(&self.golden_inner_code)),
            ("kind", Cell::text(&self.kind)),
            ("entry", Cell::text(&self.entry)),
            ("why", Cell::text(&self.why)),
            ("error", Cell::maybe(self.error, Cell::Number)),
            ("floor", Cell::maybe(self.floor, Cell::Number)),
            ("confidence", Cell::Number(self.confidence)),
            ("downstream", Cell::count(self.downstream)),
            ("direction", Cell::text(&self.direction)),
            ("step", Cell::maybe(self.step, Cell::count)),
            ("rank", Cell::text(&self.rank)),
            ("line", Cell::count(self.line)),
        ];
        if self.proof.is_some() {
            fields.extend([
                ("proof", text(&self.proof)),
                ("proof_reason", text(&self.proof_reason)),
                ("wrong_side", text(&self.wrong_side)),
                ("target_own_error", Cell::maybe(self.target_own_error, Cell::Number)),
                ("golden_own_error", Cell::maybe(self.golden_own_error, Cell::Number)),
            ]);
        }
        Table::of_record("Divergence", &Record::new(fields))
    }
}

#[pymethods]
impl Divergence {
    fn __repr__(&self) -> String {
        let shown = format!("<Divergence: {} at {}: {}>", self.kind, self.call, self.why);
        escape::terminal(&shown).into_owned()
    }

    fn __str__(&self) -> String {
        Terminal::default().render(&self.table()).trim_end().to_owned()
    }

    fn _repr_html_(&self) -> String {
        self.table().to_html()
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        same(self, other.cast::<Divergence>().ok().map(Bound::get))
    }

    fn __hash__(&self) -> u64 {
        hash(self)
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Reduced<'py>> {
        reduce(py, "Divergence", self)
    }
}
