//! `Comparison`: the result of comparing two dumps, for programs and notebooks.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyImportError, PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList};
use serde_json::Value as Json;
use ulpscope_formats::file::Unfinished;
use ulpscope_page::{MemoryRows, PageError, first_screen_of_result, place_of_page};
use ulpscope_report::{Cell, Emphasis, Record, Row, SheetFormat, Table, Terminal, escape, json};
use ulpscope_session::explanation::Explanation;
use ulpscope_session::result_json::{RankExtras, document};
use ulpscope_session::{Compared, Language, MemorySink};
use ulpscope_tensor::Scalar;

use crate::comparison_page;
use crate::divergence::Divergence;
use crate::errors::shown;
use crate::numbers;
use crate::result_bytes::{Packed, Reduced, hash_of_bytes, packed, reduce};

/// Divergences shown in the table of a comparison; `.divergences` has all.
const SHOWN_DIVERGENCES: usize = 10;

/// The result of comparing two dumps. Truth value: whether everything was compared and agrees.
#[pyclass(frozen, module = "ulpscope")]
pub(crate) struct Comparison {
    outcome: Outcome,
    rows: PyOnceLock<Py<PyList>>,
}

/// Everything that a comparison shows, without the dumps: the content of a pickle.
pub(crate) struct Outcome {
    /// The document of `result.json`, without rows.
    document: Json,
    /// Whether several pairs of ranks were compared.
    several: bool,
    /// One for each compared pair of ranks.
    sheets: Vec<Sheet>,
    divergences: Vec<Divergence>,
    /// Those that replay refuted.
    refuted: Vec<Divergence>,
    problems: Vec<String>,
    /// Side, name, reason.
    partnerless: Vec<(String, String, String)>,
    lone_ranks: Vec<String>,
    notes: Vec<String>,
}

/// The rows of one pair of ranks.
struct Sheet {
    /// Which of the pairs it is.
    number: usize,
    step: Option<u64>,
    rank: String,
    columns: Vec<String>,
    rows: Vec<Row>,
}

packed! { Sheet { number, step, rank, columns, rows } }

impl Packed for Outcome {
    fn pack(&self, out: &mut Vec<u8>) {
        self.document.pack(out);
        self.pack_the_rest(out);
    }

    fn unpack(from: &mut &[u8]) -> Option<Outcome> {
        let outcome = Outcome {
            document: Packed::unpack(from)?,
            several: Packed::unpack(from)?,
            sheets: Packed::unpack(from)?,
            divergences: Packed::unpack(from)?,
            refuted: Packed::unpack(from)?,
            problems: Packed::unpack(from)?,
            partnerless: Packed::unpack(from)?,
            lone_ranks: Packed::unpack(from)?,
            notes: Packed::unpack(from)?,
        };
        outcome.fits_together().then_some(outcome)
    }
}

impl From<Outcome> for Comparison {
    fn from(outcome: Outcome) -> Comparison {
        Comparison { outcome, rows: PyOnceLock::new() }
    }
}

impl Comparison {
    pub(crate) fn of(compared: Compared<MemorySink>) -> Comparison {
        let document = document(&compared, |_, _: &MemorySink| RankExtras::default());
        let listed = compared.outcomes().flat_map(|outcome| outcome.problems.listed());
        let errors = compared.errors().map(|(_, error)| error.to_string());
        let problems = compared.problems.listed().iter().chain(listed).cloned().chain(errors).collect();
        let lone = compared.outcomes().flat_map(|outcome| &outcome.partnerless);
        let partnerless =
            lone.map(|lone| (lone.side.word().to_owned(), lone.name.clone(), lone.reason.clone()));
        let partnerless = partnerless.collect();
        let of_ranks = compared.outcomes().flat_map(|outcome| &outcome.notes).map(ToString::to_string);
        let notes = compared.notes.iter().cloned().chain(of_ranks).collect();
        let ranks = compared.ranks.iter();
        let found: Vec<_> = ranks.filter_map(|rank| Some((rank, &rank.result.as_ref().ok()?.0))).collect();
        let of_rank = |rank, all: &[ulpscope_compare::Divergence]| -> Vec<Divergence> {
            all.iter().map(|one| Divergence::of(rank, one)).collect()
        };
        let divergences =
            found.iter().flat_map(|(rank, outcome)| of_rank(*rank, &outcome.divergences)).collect();
        let refuted = found.iter().flat_map(|(rank, outcome)| of_rank(*rank, &outcome.refuted)).collect();
        let several = compared.ranks.len() > 1;
        let sheets = compared.ranks.into_iter().enumerate().filter_map(|(number, rank)| {
            let (_, sink) = rank.result.ok()?;
            let rows = sink.rows.into_iter().map(|row| Row { cells: row.cells, emphasis: row.emphasis });
            Some(Sheet {
                number,
                step: rank.step,
                rank: rank.target,
                columns: sink.columns,
                rows: rows.collect(),
            })
        });
        let sheets = sheets.collect();
        let lone_ranks = compared.lone_ranks;
        let outcome = Outcome {
            document,
            several,
            sheets,
            divergences,
            refuted,
            problems,
            partnerless,
            lone_ranks,
            notes,
        };
        outcome.into()
    }
}

/// The fields of the document that change when the same dumps are compared again: how long it took, and where it ran.
const CIRCUMSTANCES: [&str; 2] = ["seconds", "directory"];

impl Outcome {
    /// Everything except the document.
    fn pack_the_rest(&self, out: &mut Vec<u8>) {
        self.several.pack(out);
        self.sheets.pack(out);
        self.divergences.pack(out);
        self.refuted.pack(out);
        self.problems.pack(out);
        self.partnerless.pack(out);
        self.lone_ranks.pack(out);
        self.notes.pack(out);
    }

    /// Whether every sheet has its rank in the document, and every row one cell per column.
    fn fits_together(&self) -> bool {
        let ranks = self.document.get("ranks").and_then(Json::as_array);
        let has_rank =
            |sheet: &Sheet| ranks.and_then(|all| all.get(sheet.number)).is_some_and(Json::is_object);
        let is_full = |sheet: &Sheet| sheet.rows.iter().all(|row| row.cells.len() >= sheet.columns.len());
        self.sheets.iter().all(|sheet| has_rank(sheet) && is_full(sheet))
    }

    /// The bytes that must match for two comparisons to be equal.
    fn identity(&self) -> Vec<u8> {
        let mut document = self.document.clone();
        if let Json::Object(fields) = &mut document {
            fields.retain(|name, _| !CIRCUMSTANCES.contains(&name.as_str()));
        }
        let mut bytes = document.packed();
        self.pack_the_rest(&mut bytes);
        bytes
    }

    /// The divergence that the document names as the first. With several ranks it need not be the first of all.
    fn first_divergence(&self) -> Option<&Divergence> {
        let first = &self.document["first_divergence"];
        let is_first = |one: &&Divergence| one.is_at(&first["step"], &first["rank"], &first["call"]);
        self.divergences.iter().find(is_first).or(self.divergences.first())
    }

    /// A text of the document.
    fn text(&self, name: &str) -> &str {
        self.document[name].as_str().unwrap_or_default()
    }

    /// The document and the rows, for a page.
    fn rows_of_page(&self) -> MemoryRows<'_> {
        let sheets = self.sheets.iter();
        let sheets = sheets.map(|sheet| (sheet.number, sheet.columns.as_slice(), sheet.rows.as_slice()));
        MemoryRows { document: &self.document, sheets: sheets.collect() }
    }

    fn document_with_rows(&self) -> Json {
        let mut document = self.document.clone();
        for sheet in &self.sheets {
            let named = |row: &Row| {
                let cells = sheet.columns.iter().zip(&row.cells);
                Json::Object(cells.map(|(column, cell)| (column.clone(), cell.to_json())).collect())
            };
            document["ranks"][sheet.number]["rows_to_look_at"] = sheet.rows.iter().map(named).collect();
        }
        document
    }
}

#[pymethods]
impl Comparison {
    /// Whether everything was compared and agrees.
    #[getter]
    fn ok(&self) -> bool {
        self.outcome.document["ok"] == true
    }

    fn __bool__(&self) -> bool {
        self.ok()
    }

    /// `agree`, `differ` or `inconclusive`.
    #[getter]
    fn agreement(&self) -> &str {
        self.outcome.text("agreement")
    }

    /// Why, in a sentence.
    #[getter]
    fn reason(&self) -> &str {
        self.outcome.text("reason")
    }

    /// The row to look at, in the fields of older tools: one text per compared pair of ranks.
    #[getter]
    fn advice(&self) -> Vec<&str> {
        let ranks = self.outcome.document["ranks"].as_array();
        ranks.into_iter().flatten().filter_map(|rank| rank["advice"].as_str()).collect()
    }

    /// The names of a row's values, in order.
    #[getter]
    fn columns(&self) -> Vec<String> {
        let mut columns: Vec<String> =
            if self.outcome.several { vec!["step".to_owned(), "rank".to_owned()] } else { Vec::new() };
        // An older tool's columns depend on what a rank recorded.
        for column in self.outcome.sheets.iter().flat_map(|sheet| &sheet.columns) {
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
            self.each_row(|row| {
                let shown = PyDict::new(py);
                for (column, cell) in columns.iter().zip(&row.cells) {
                    shown.set_item(column, to_object(py, cell)?)?;
                }
                list.append(shown)
            })?;
            Ok(list.unbind())
        })?;
        Ok(rows.clone_ref(py))
    }

    /// The first call that introduced an error; None if no call did.
    #[getter]
    fn first_divergence(&self) -> Option<Divergence> {
        self.outcome.first_divergence().cloned()
    }

    /// Every call that introduced an error, in order of steps, ranks and execution.
    #[getter]
    fn divergences(&self) -> Vec<Divergence> {
        self.outcome.divergences.clone()
    }

    /// Every call that was blamed until replay refuted it; empty without prove.
    #[getter]
    fn refuted(&self) -> Vec<Divergence> {
        self.outcome.refuted.clone()
    }

    /// Counts over all ranks.
    #[getter]
    fn summary(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let text = self.outcome.document["summary"].to_string();
        py.import("json")?.call_method1("loads", (text,))?.into_py_any(py)
    }

    /// What could not be read or compared, one message each.
    #[getter]
    fn problems(&self) -> Vec<String> {
        self.outcome.problems.clone()
    }

    /// Calls that only one side has: (side, name, reason).
    #[getter]
    fn partnerless(&self) -> Vec<(String, String, String)> {
        self.outcome.partnerless.clone()
    }

    /// Steps and ranks that only one side has.
    #[getter]
    fn lone_ranks(&self) -> Vec<String> {
        self.outcome.lone_ranks.clone()
    }

    /// Facts about how the comparison was done, such as warnings of the ledgers.
    #[getter]
    fn notes(&self) -> Vec<String> {
        self.outcome.notes.clone()
    }

    /// What broke, where, how large it is, its effects, the confidence, limitations and next steps, as text; in English
    /// (`"en"`) or Chinese (`"zh"`), by default in the language of the comparison.
    #[pyo3(signature = (lang = None))]
    fn explain(&self, lang: Option<&str>) -> PyResult<Cow<'_, str>> {
        let Some(lang) = lang else {
            return Ok(escape::lines(self.outcome.text("explanation")));
        };
        let language: Language =
            lang.parse().map_err(|error: String| PyValueError::new_err(format!("lang: {error}")))?;
        let statements = serde_json::from_value(self.outcome.document["statements"].clone());
        let explanation: Explanation = statements.map_err(|_| {
            PyValueError::new_err(
                "this comparison was made by a different version of ulpscope, and has its explanation in one language \
                 only; compare again",
            )
        })?;
        Ok(Cow::Owned(explanation.text(language.words())))
    }

    /// Writes the rows as .csv.
    fn to_csv(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        self.write_sheet(py, &path, SheetFormat::Csv)
    }

    /// Writes the rows as a workbook.
    fn to_xlsx(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        self.write_sheet(py, &path, SheetFormat::Xlsx)
    }

    /// Writes the rows in the format that the path ends in, such as .csv or .xlsx.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let Some(format) = SheetFormat::of_extension(&path) else {
            let expected = SheetFormat::extensions();
            let message = format!("{}: expected a name that ends in {expected}", path.display());
            return Err(PyValueError::new_err(shown(message)));
        };
        self.write_sheet(py, &path, format)
    }

    /// Everything, including rows, as JSON text; also written to path if given.
    #[pyo3(signature = (path = None))]
    fn to_json(&self, py: Python<'_>, path: Option<PathBuf>) -> PyResult<String> {
        let text = json::document(&self.outcome.document_with_rows());
        if let Some(path) = path {
            self.write(py, &path, |unfinished| {
                std::io::Write::write_all(&mut unfinished.file(), text.as_bytes())
            })?;
        }
        Ok(text)
    }

    /// Writes everything as one html page, which needs no network; in a folder, as report.html. Nothing but a page is
    /// replaced. Without a path, returns the page as text. dumps:
    /// whether stacks, data flow and values of tensors are read from the dumps, if they are still there.
    #[pyo3(signature = (path = None, *, dumps = true))]
    fn to_html(&self, py: Python<'_>, path: Option<PathBuf>, dumps: bool) -> PyResult<Option<String>> {
        let failed = |error: PageError| PyOSError::new_err(shown(error.to_string()));
        let path = path.map(|path| place_of_page(&path)).transpose().map_err(failed)?;
        let page =
            py.detach(|| comparison_page::page(&self.outcome.rows_of_page(), dumps)).map_err(failed)?;
        let Some(path) = path else {
            return py.detach(|| comparison_page::html(&page)).map(Some).map_err(failed);
        };
        self.write(py, &path, |unfinished| {
            let out = std::io::BufWriter::new(unfinished.file());
            page.write(out).map_err(|error| match error {
                PageError::Write(error) => error,
                other => std::io::Error::other(other.to_string()),
            })
        })?;
        Ok(None)
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
        let summary = &self.outcome.document["summary"];
        let first = self.outcome.first_divergence();
        let first = first.map_or_else(String::new, |first| format!(", first divergence {:?}", first.call()));
        let (agreement, failed, rows) = (self.agreement(), &summary["failed"], &summary["rows"]);
        let shown = format!("<Comparison: {agreement}, {failed} of {rows} rows differ{first}>");
        escape::terminal(&shown).into_owned()
    }

    fn __str__(&self) -> String {
        let shown: Vec<String> =
            self.tables().iter().map(|table| Terminal::default().render(table)).collect();
        shown.join("\n").trim_end().to_owned()
    }

    /// The first screen of the page, and the first divergences.
    fn _repr_html_(&self, py: Python<'_>) -> String {
        let screen = py.detach(|| first_screen_of_result(&self.outcome.rows_of_page()));
        let tables = self.tables();
        // What the first screen says stands in the first table, too.
        let shown = match &screen {
            Ok(_) => &tables[1..],
            Err(_) => &tables[..],
        };
        screen.unwrap_or_default() + &shown.iter().map(Table::to_html).collect::<String>()
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        let other = other.cast::<Comparison>();
        other.is_ok_and(|other| self.outcome.identity() == other.get().outcome.identity())
    }

    fn __hash__(&self) -> u64 {
        // Rows may be many, and comparisons with equal dumps and counts rarely differ.
        let known = ["target", "golden", "style", "agreement", "reason", "summary"];
        let known: Vec<u8> = known.iter().flat_map(|&name| self.outcome.document[name].packed()).collect();
        hash_of_bytes(&known)
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Reduced<'py>> {
        reduce(py, "Comparison", &self.outcome)
    }
}

impl Comparison {
    /// The verdict and its numbers, and the first of the calls that introduced an error.
    fn tables(&self) -> Vec<Table> {
        let document = &self.outcome.document;
        let count = |name: &str| Cell::maybe(document["summary"][name].as_u64(), Cell::count);
        let text = |name: &str| Cell::text(self.outcome.text(name));
        let record = Record::new(vec![
            ("agreement", text("agreement")),
            ("reason", text("reason")),
            ("target", text("target")),
            ("golden", text("golden")),
            ("style", text("style")),
            ("rows", count("rows")),
            ("passed", count("passed")),
            ("failed", count("failed")),
            ("warned", count("warned")),
            ("not_compared", count("not_compared")),
            ("only_in_target", count("only_in_target")),
            ("only_in_golden", count("only_in_golden")),
            ("problems", count("problems")),
        ]);
        let mut tables = vec![Table::of_record("Comparison", &record)];
        let all = &self.outcome.divergences;
        if !all.is_empty() {
            let title = match all.len() {
                count if count > SHOWN_DIVERGENCES => {
                    format!("the first {SHOWN_DIVERGENCES} of {count} divergences")
                }
                _ => "divergences".to_owned(),
            };
            let mut table = Table::new(title, &Divergence::COLUMNS);
            let shown = all.iter().take(SHOWN_DIVERGENCES);
            shown.for_each(|one| table.push(one.cells(), Emphasis::Bad));
            tables.push(table);
        }
        tables
    }

    /// Every row with its cells in the order of [`Comparison::columns`]; step and rank first if there are several.
    fn each_row<E>(&self, mut see: impl FnMut(&Row) -> Result<(), E>) -> Result<(), E> {
        let columns = self.columns();
        for sheet in &self.outcome.sheets {
            if !self.outcome.several {
                sheet.rows.iter().try_for_each(&mut see)?;
                continue;
            }
            let places: Vec<Option<usize>> = columns
                .iter()
                .skip(2)
                .map(|column| sheet.columns.iter().position(|own| own == column))
                .collect();
            for row in &sheet.rows {
                let mut cells = vec![Cell::maybe(sheet.step, Cell::count), Cell::text(sheet.rank.as_str())];
                cells.extend(
                    places.iter().map(|place| place.map_or(Cell::Missing, |at| row.cells[at].clone())),
                );
                see(&Row { cells, emphasis: row.emphasis })?;
            }
        }
        Ok(())
    }

    fn write_sheet(&self, py: Python<'_>, path: &Path, format: SheetFormat) -> PyResult<()> {
        self.write(py, path, |unfinished| {
            let mut writer = format.open(unfinished.file(), &self.columns())?;
            self.each_row(|row| writer.row(row))?;
            writer.finish()
        })
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
        written.map_err(|error| PyOSError::new_err(shown(format!("{}: {error}", path.display()))))
    }
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
