//! `compare`, and what it returns.

use std::path::{Path, PathBuf};

use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyImportError, PyOSError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList};
use ulpscope_cli::compare::explanation;
use ulpscope_cli::compare::result_json::{RankExtras, document, summary_value};
use ulpscope_cli::compare::{Compared, MappingFiles, MemoryOutputs, MemorySink, Request, execute};
use ulpscope_compare::{CompareError, NoProgress, RankResult, Row};
use ulpscope_dump::Select;
use ulpscope_formats::file::Unfinished;
use ulpscope_report::csv::CsvWriter;
use ulpscope_report::xlsx::XlsxWriter;
use ulpscope_report::{Cell, Row as SheetRow, json};
use ulpscope_tensor::Scalar;

use crate::errors::to_python;
use crate::numbers;

/// What came of comparing two dumps.
#[pyclass(frozen, module = "ulpscope")]
pub(crate) struct Comparison {
    compared: Compared<MemorySink>,
    rows: PyOnceLock<Py<PyList>>,
}

/// A call that introduced an error.
#[pyclass(frozen, module = "ulpscope", get_all)]
pub(crate) struct Divergence {
    call: String,
    golden_call: Option<String>,
    module: Option<String>,
    code: Option<String>,
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
    direction: &'static str,
}

/// Compares two dumps: target, the side under suspicion, with golden, the side trusted. Each is the path of whatever
/// a tool left: a dump's folder, a step or rank of it, a dump.json, a .pkl, a folder of tensors, a checkpoint.
/// noise is a second golden run: what differs as much between it and golden is no finding.
#[pyfunction]
#[pyo3(signature = (
    target, golden, *, style = "native", r#match = None, step = None, rank = None, data_mapping = None,
    cell_mapping = None, layer_mapping = None, noise = None
))]
#[expect(clippy::too_many_arguments, reason = "one for each keyword of the Python function")]
pub(crate) fn compare(
    py: Python<'_>,
    target: PathBuf,
    golden: PathBuf,
    style: &str,
    r#match: Option<&str>,
    step: Option<Numbers>,
    rank: Option<Numbers>,
    data_mapping: Option<PathBuf>,
    cell_mapping: Option<PathBuf>,
    layer_mapping: Option<PathBuf>,
    noise: Option<PathBuf>,
) -> PyResult<Comparison> {
    let wrong = |error: String| PyValueError::new_err(error);
    let request = Request {
        target,
        golden,
        style: style.parse().map_err(wrong)?,
        matching: r#match.map(|word| word.parse().map_err(|error| wrong(format!("{error}")))).transpose()?,
        mapping: MappingFiles { data: data_mapping, cell: cell_mapping.map(Some), layer: layer_mapping },
        stack_column: false,
        noise,
        select: Select { steps: Numbers::list(step), ranks: Numbers::list(rank) },
    };
    let compared = py.detach(|| execute(request, &MemoryOutputs, &NoProgress)).map_err(to_python)?;
    // Where nothing at all could be compared there is no result to look at.
    if compared.ranks.iter().all(|rank| rank.result.is_err()) {
        let first = compared.ranks.into_iter().find_map(|rank| rank.result.err());
        return Err(first.map_or_else(|| wrong("no step or rank is on both sides".to_owned()), of_compare));
    }
    Ok(Comparison { compared, rows: PyOnceLock::new() })
}

/// One number, or several.
pub(crate) enum Numbers {
    One(u64),
    Several(Vec<u64>),
}

impl<'py> FromPyObject<'_, 'py> for Numbers {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Numbers> {
        if let Ok(number) = object.extract() {
            return Ok(Numbers::One(number));
        }
        object.extract().map(Numbers::Several).map_err(|_| {
            let found = object.get_type().to_string();
            PyTypeError::new_err(format!("expected a number or a list of numbers from 0 up, found {found}"))
        })
    }
}

impl Numbers {
    fn list(numbers: Option<Numbers>) -> Vec<u64> {
        match numbers {
            None => Vec::new(),
            Some(Numbers::One(number)) => vec![number],
            Some(Numbers::Several(numbers)) => numbers,
        }
    }
}

#[pymethods]
impl Comparison {
    /// Whether everything was compared and agrees.
    #[getter]
    fn ok(&self) -> bool {
        self.compared.agreement.is_agree()
    }

    /// `agree`, `differ` or `inconclusive`.
    #[getter]
    fn agreement(&self) -> &'static str {
        self.compared.agreement.answer().word()
    }

    /// Why, in a sentence.
    #[getter]
    fn reason(&self) -> String {
        self.compared.agreement.to_string()
    }

    /// The names of a row's values, in order.
    #[getter]
    fn columns(&self) -> Vec<String> {
        let mut columns: Vec<String> =
            if self.several() { vec!["step".to_owned(), "rank".to_owned()] } else { Vec::new() };
        // An older tool's columns depend on what a rank recorded.
        for column in self.sinks().flat_map(|(_, sink)| &sink.columns) {
            if !columns.contains(column) {
                columns.push(column.clone());
            }
        }
        columns
    }

    /// One dictionary per entry, in order.
    #[getter]
    fn rows(&self, py: Python<'_>) -> PyResult<Py<PyList>> {
        let rows = self.rows.get_or_try_init(py, || -> PyResult<Py<PyList>> {
            let columns = self.columns();
            let list = PyList::empty(py);
            self.each_row(|cells, _| {
                let row = PyDict::new(py);
                for (column, cell) in columns.iter().zip(cells) {
                    row.set_item(column, to_object(py, cell)?)?;
                }
                list.append(row)
            })?;
            Ok(list.unbind())
        })?;
        Ok(rows.clone_ref(py))
    }

    /// The first call at which the two stop agreeing, if they do.
    #[getter]
    fn first_divergence(&self) -> Option<Divergence> {
        let (rank, first) = self.compared.first_divergence()?;
        Some(Divergence::of(rank, first))
    }

    /// Every call that introduced an error, in order of steps, ranks and execution.
    #[getter]
    fn divergences(&self) -> Vec<Divergence> {
        let ranks = self.compared.ranks.iter();
        let found = ranks.filter_map(|rank| Some((rank, &rank.result.as_ref().ok()?.0.divergences)));
        found.flat_map(|(rank, all)| all.iter().map(|one| Divergence::of(rank, one))).collect()
    }

    /// The numbers over all ranks.
    #[getter]
    fn summary(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let text = summary_value(&self.compared).to_string();
        py.import("json")?.call_method1("loads", (text,))?.into_py_any(py)
    }

    /// What could not be read.
    #[getter]
    fn problems(&self) -> Vec<String> {
        let ranks = self.compared.outcomes().flat_map(|outcome| outcome.problems.listed());
        let errors = self.compared.errors().map(|(_, error)| error.to_string());
        self.compared.problems.listed().iter().chain(ranks).cloned().chain(errors).collect()
    }

    /// What only one side has: (side, name, reason).
    #[getter]
    fn partnerless(&self) -> Vec<(&'static str, String, String)> {
        let lone = self.compared.outcomes().flat_map(|outcome| &outcome.partnerless);
        lone.map(|lone| (lone.side.word(), lone.name.clone(), lone.reason.clone())).collect()
    }

    /// Steps and ranks that only one side has, in words.
    #[getter]
    fn lone_ranks(&self) -> Vec<String> {
        self.compared.lone_ranks.clone()
    }

    /// What to know of how it was done.
    #[getter]
    fn notes(&self) -> Vec<String> {
        let of_ranks = self.compared.outcomes().flat_map(|outcome| &outcome.notes);
        self.compared.notes.iter().chain(of_ranks).cloned().collect()
    }

    /// What broke, where, how large, what it did, how sure, what could not be seen and what to do next, in words.
    fn explain(&self) -> String {
        explanation::explain(&self.compared).to_string()
    }

    /// Writes the rows as .csv.
    fn to_csv(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        self.write(py, &path, |unfinished| {
            let mut writer = CsvWriter::new(unfinished.file(), &self.columns())?;
            self.each_row(|cells, row| writer.row(&sheet_row(cells, row)))?;
            writer.finish().map(drop)
        })
    }

    /// Writes the rows as a workbook.
    fn to_xlsx(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        self.write(py, &path, |unfinished| {
            let mut writer = XlsxWriter::new(unfinished.file(), &self.columns())?;
            self.each_row(|cells, row| writer.row(&sheet_row(cells, row)))?;
            writer.finish().map(drop)
        })
    }

    /// Everything as JSON text, rows included; also into a file, if one is named.
    #[pyo3(signature = (path = None))]
    fn to_json(&self, py: Python<'_>, path: Option<PathBuf>) -> PyResult<String> {
        let document = document(&self.compared, |_, sink: &MemorySink| RankExtras {
            columns: &sink.columns,
            rows: &sink.rows,
            files: &[],
        });
        let text = json::document(&document);
        if let Some(path) = path {
            self.write(py, &path, |unfinished| {
                std::io::Write::write_all(&mut unfinished.file(), text.as_bytes())
            })?;
        }
        Ok(text)
    }

    /// The rows as a pandas DataFrame.
    fn to_pandas(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let pandas = py.import("pandas").map_err(|error| {
            let message =
                format!("to_pandas() needs pandas, which cannot be imported: {error}; `.rows` needs nothing");
            PyImportError::new_err(message)
        })?;
        let options = PyDict::new(py);
        options.set_item("columns", self.columns())?;
        pandas.call_method("DataFrame", (self.rows(py)?,), Some(&options))?.into_py_any(py)
    }

    fn __repr__(&self) -> String {
        let counts = self.compared.counts();
        let first = self.compared.first_divergence();
        let first =
            first.map_or_else(String::new, |(_, first)| format!(", first divergence {:?}", first.call));
        format!("<Comparison: {}, {} of {} rows differ{first}>", self.agreement(), counts.failed, counts.rows)
    }
}

impl Divergence {
    fn of<S>(rank: &RankResult<S>, found: &ulpscope_compare::Divergence) -> Divergence {
        let finding = &found.finding;
        Divergence {
            call: found.call.clone(),
            golden_call: found.golden_call.clone(),
            module: found.module.clone(),
            code: found.code.clone(),
            kind: finding.kind.words().to_owned(),
            entry: finding.entry.clone(),
            why: finding.why.clone(),
            confidence: finding.confidence,
            line: found.line,
            stack: found.stack.clone(),
            step: rank.step,
            rank: rank.target.clone(),
            error: finding.measure.map(|measure| measure.error),
            floor: finding.measure.map(|measure| measure.floor),
            downstream: finding.downstream,
            direction: if finding.in_backward { "backward" } else { "forward" },
        }
    }
}

#[pymethods]
impl Divergence {
    fn __repr__(&self) -> String {
        format!("<Divergence: {} at {}: {}>", self.kind, self.call, self.why)
    }
}

impl Comparison {
    fn several(&self) -> bool {
        self.compared.ranks.len() > 1
    }

    fn sinks(&self) -> impl Iterator<Item = (&RankResult<MemorySink>, &MemorySink)> {
        self.compared.ranks.iter().filter_map(|rank| Some((rank, &rank.result.as_ref().ok()?.1)))
    }

    /// Every row with its cells in the order of [`Comparison::columns`]; step and rank in front where there are several.
    fn each_row<E>(&self, mut see: impl FnMut(&[Cell], &Row) -> Result<(), E>) -> Result<(), E> {
        let columns = self.columns();
        for (rank, sink) in self.sinks() {
            if !self.several() {
                sink.rows.iter().try_for_each(|row| see(&row.cells, row))?;
                continue;
            }
            let places: Vec<Option<usize>> = columns
                .iter()
                .skip(2)
                .map(|column| sink.columns.iter().position(|own| own == column))
                .collect();
            for row in &sink.rows {
                let mut cells = vec![Cell::maybe(rank.step, Cell::count), Cell::text(rank.target.as_str())];
                cells.extend(
                    places.iter().map(|place| place.map_or(Cell::Missing, |at| row.cells[at].clone())),
                );
                see(&cells, row)?;
            }
        }
        Ok(())
    }

    fn write(
        &self,
        py: Python<'_>,
        path: &Path,
        content: impl FnOnce(&Unfinished) -> std::io::Result<()> + Send,
    ) -> PyResult<()> {
        let written = py.detach(|| {
            let unfinished = Unfinished::create(path)?;
            content(&unfinished)?;
            unfinished.finish()
        });
        written.map_err(|error| PyOSError::new_err(format!("{}: {error}", path.display())))
    }
}

fn sheet_row(cells: &[Cell], row: &Row) -> SheetRow {
    SheetRow { cells: cells.to_vec(), emphasis: row.emphasis }
}

fn to_object(py: Python<'_>, cell: &Cell) -> PyResult<Py<PyAny>> {
    match cell {
        Cell::Missing => Ok(py.None()),
        Cell::Text(text) => text.into_py_any(py),
        Cell::Int(value) => numbers::to_python(py, Scalar::Int(*value)),
        Cell::Number(value) | Cell::Exact(value) | Cell::Share(value) => value.into_py_any(py),
        Cell::ExactSingle(value) => f64::from(*value).into_py_any(py),
        Cell::Flag(value) => value.into_py_any(py),
        Cell::Index { flat, .. } => flat.into_py_any(py),
        Cell::List(items) => {
            let items: PyResult<Vec<_>> = items.iter().map(|item| to_object(py, item)).collect();
            PyList::new(py, items?)?.into_py_any(py)
        }
        Cell::Complex(..) | Cell::Record(_) => cell.to_string().into_py_any(py),
    }
}

fn of_compare(error: CompareError) -> PyErr {
    match error {
        CompareError::Dump(error) => to_python(error),
        CompareError::Write(error) => PyOSError::new_err(error.to_string()),
    }
}
