//! Result sheets from Python: rows of plain values.

use std::path::{Path, PathBuf};

use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyOSError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyList, PyString, PyTuple};
use ulpscope_formats::file::Unfinished;
use ulpscope_report::{Cell, Emphasis, Row, SheetFormat};

use crate::errors::shown;

/// Writes a sheet in the format of its name's suffix. It appears complete or not at all.
#[pyfunction]
pub(crate) fn write_sheet(path: PathBuf, columns: Vec<String>, rows: &Bound<'_, PyAny>) -> PyResult<()> {
    let Some(format) = SheetFormat::of_extension(&path) else {
        let message =
            format!("{}: expected a name that ends in {}", path.display(), SheetFormat::extensions());
        return Err(PyValueError::new_err(shown(message)));
    };
    let failed = |error: std::io::Error| named(&path, &error);
    let unfinished = Unfinished::create(&path).map_err(failed)?;
    let file = unfinished.file().try_clone().map_err(failed)?;
    let mut sheet = format.open(std::io::BufWriter::new(file), &columns).map_err(failed)?;
    for row in rows.try_iter()? {
        let cells = row?.try_iter()?.map(|value| to_cell(&value?)).collect::<PyResult<Vec<_>>>()?;
        sheet.row(&Row { cells, emphasis: Emphasis::Plain }).map_err(failed)?;
    }
    sheet.finish().and_then(|()| unfinished.finish_beside()).map(drop).map_err(failed)
}

fn named(path: &Path, error: &std::io::Error) -> PyErr {
    PyOSError::new_err(shown(format!("{}: {error}", path.display())))
}

/// A cell of a plain value.
fn to_cell(value: &Bound<'_, PyAny>) -> PyResult<Cell> {
    if value.is_none() {
        return Ok(Cell::Missing);
    }
    if let Ok(flag) = value.cast::<PyBool>() {
        return Ok(Cell::Flag(flag.is_true()));
    }
    if value.is_instance_of::<PyInt>() {
        return value.extract::<i64>().map(|number| Cell::Int(number.into()));
    }
    if value.is_instance_of::<PyFloat>() {
        return value.extract().map(Cell::Number);
    }
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(Cell::Text(text.to_string_lossy().into_owned()));
    }
    if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        let items = value.try_iter()?.map(|item| to_cell(&item?)).collect::<PyResult<Vec<_>>>()?;
        return Ok(Cell::List(items));
    }
    let kind = value.get_type().fully_qualified_name()?;
    Err(PyTypeError::new_err(format!("expected a plain value in a row, found {kind}")))
}

/// The plain value of a cell; texts for what has no other form.
pub(crate) fn to_object(py: Python<'_>, cell: &Cell) -> PyResult<Py<PyAny>> {
    match cell {
        Cell::Missing => Ok(py.None()),
        Cell::Text(text) => text.into_py_any(py),
        Cell::Int(value) => (*value as i64).into_py_any(py),
        Cell::Number(value) | Cell::Exact(value) | Cell::Share(value) => value.into_py_any(py),
        Cell::Flag(value) => value.into_py_any(py),
        Cell::List(items) => {
            let items = items.iter().map(|item| to_object(py, item)).collect::<PyResult<Vec<_>>>()?;
            PyList::new(py, items)?.into_py_any(py)
        }
        other => other.to_string().into_py_any(py),
    }
}
