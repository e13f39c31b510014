//! The arguments of `stats` and `diff`: a tensor, a file, or a dictionary of tensors.

use std::ffi::CString;
use std::path::{Path, PathBuf};

use pyo3::exceptions::{PyTypeError, PyUserWarning, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use ulpscope_dump::tensor_at;
use ulpscope_formats::file;
use ulpscope_formats::{Access, Tensor, Value};

use crate::errors::{shown, to_python};
use crate::files::MAX_DEPTH;
use crate::input::Input;
use crate::interrupt::{LONG_WORK_BYTES, Stop, abandonable};

/// One argument.
pub(crate) enum Operand<'py> {
    /// One tensor.
    One(Input<'py>),
    /// The tensors of a file or a dictionary, by dotted name, in order.
    Named(Vec<(String, Named<'py>)>),
}

/// A tensor with a name.
pub(crate) enum Named<'py> {
    /// Of a file.
    File(Tensor),
    /// Of a dictionary; a tensor on another device is copied only when it is measured.
    Object(Bound<'py, PyAny>),
}

impl<'py> Named<'py> {
    /// The tensor to measure. Errors name it.
    pub(crate) fn input(self, name: &str) -> PyResult<Input<'py>> {
        match self {
            Named::File(tensor) => Ok(Input::File(tensor)),
            Named::Object(object) => Input::of(&object).map_err(|error| prefixed(object.py(), name, error)),
        }
    }
}

impl<'py> Operand<'py> {
    /// The argument, with a Python warning about tensors of a file that cannot be read.
    pub(crate) fn readable(object: &Bound<'py, PyAny>) -> PyResult<Operand<'py>> {
        let report = |problem: String| {
            let category = object.py().get_type::<PyUserWarning>();
            PyErr::warn(object.py(), &category, &CString::new(shown(problem))?, 1)
        };
        Ok(Operand::of(object, report)?.without_lone_name(object))
    }

    /// Both sides of a comparison. Files must be read completely: unread parts cannot agree.
    pub(crate) fn pair(
        target: &Bound<'py, PyAny>,
        golden: &Bound<'py, PyAny>,
    ) -> PyResult<(Operand<'py>, Operand<'py>)> {
        let whole = |object| Operand::of(object, |problem| Err(PyValueError::new_err(shown(problem))));
        let (one, other) = (whole(target)?, whole(golden)?);
        // The only tensor of a file has a name that a dictionary may also have.
        if is_dict(target) || is_dict(golden) {
            return Ok((one, other));
        }
        Ok((one.without_lone_name(target), other.without_lone_name(golden)))
    }

    fn of(object: &Bound<'py, PyAny>, report: impl FnOnce(String) -> PyResult<()>) -> PyResult<Operand<'py>> {
        if is_dict(object) {
            let mut found = Vec::new();
            collect(object, "", &mut found, MAX_DEPTH)?;
            // Otherwise two empty sides would agree.
            if found.is_empty() {
                let expected = "a torch tensor, a numpy array or a path";
                return Err(PyTypeError::new_err(format!(
                    "expected {expected}, found a dictionary without tensors"
                )));
            }
            return Ok(Operand::Named(found));
        }
        let Some(path) = path_of(object)? else { return Input::of(object).map(Operand::One) };
        let value = read(object.py(), &path)?;
        let unread = value.unread();
        if !unread.is_empty() {
            let reasons: Vec<_> = unread.iter().map(|(name, reason)| format!("{name}: {reason}")).collect();
            report(format!("{}: not every tensor can be read: {}", path.display(), reasons.join("; ")))?;
        }
        let tensors = value.tensors().into_iter();
        let tensors: Vec<_> = tensors.map(|(name, tensor)| (name, Named::File(tensor.clone()))).collect();
        if tensors.is_empty() {
            let message = format!("{}: expected tensors, found none", path.display());
            return Err(PyValueError::new_err(shown(message)));
        }
        Ok(Operand::Named(tensors))
    }

    /// A file with one tensor becomes that tensor; a dictionary stays one.
    fn without_lone_name(self, object: &Bound<'py, PyAny>) -> Operand<'py> {
        match self {
            Operand::Named(tensors) if tensors.len() == 1 && !is_dict(object) => {
                match tensors.into_iter().next() {
                    Some((_, Named::File(tensor))) => Operand::One(Input::File(tensor)),
                    other => Operand::Named(other.into_iter().collect()),
                }
            }
            other => other,
        }
    }
}

fn is_dict(object: &Bound<'_, PyAny>) -> bool {
    object.is_instance_of::<PyDict>()
}

fn read(py: Python<'_>, path: &Path) -> PyResult<Value> {
    let is_long = path.metadata().is_ok_and(|metadata| metadata.len() > LONG_WORK_BYTES as u64);
    let read = |path: &Path| match tensor_at(path)? {
        Some(tensor) => Ok(Value::Tensor(tensor)),
        None => file::read(path, Access::ReadOnly).map(|opened| opened.value),
    };
    let value = if is_long {
        let path = path.to_owned();
        abandonable(py, Stop::default(), move |_| read(&path))?
    } else {
        py.detach(|| read(path))
    };
    value.map_err(to_python)
}

/// Everything in a dictionary that may be a tensor, by dotted path. Other values are skipped.
fn collect<'py>(
    object: &Bound<'py, PyAny>,
    path: &str,
    found: &mut Vec<(String, Named<'py>)>,
    depth: usize,
) -> PyResult<()> {
    let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    let Some(depth) = depth.checked_sub(1) else {
        return Err(PyValueError::new_err(format!("containers are nested deeper than {MAX_DEPTH} levels")));
    };
    if let Ok(dict) = object.cast::<PyDict>() {
        for (key, value) in dict.iter() {
            collect(&value, &below(&key.str()?.to_string_lossy()), found, depth)?;
        }
        return Ok(());
    }
    if object.is_instance_of::<PyList>() || object.is_instance_of::<PyTuple>() {
        for (index, item) in object.try_iter()?.enumerate() {
            collect(&item?, &below(&index.to_string()), found, depth)?;
        }
        return Ok(());
    }
    let is_plain = object.is_none()
        || object.is_instance_of::<PyBool>()
        || object.is_instance_of::<PyInt>()
        || object.is_instance_of::<PyFloat>()
        || object.is_instance_of::<PyString>()
        || object.is_instance_of::<PyBytes>();
    // Numpy scalars are Python numbers, and also tensors.
    if !is_plain || object.hasattr("__array_interface__")? {
        found.push((path.to_owned(), Named::Object(object.clone())));
    }
    Ok(())
}

/// The same error, with the name of the tensor.
pub(crate) fn prefixed(py: Python<'_>, name: &str, error: PyErr) -> PyErr {
    // Other exception classes may need more arguments than a message.
    if error.is_instance_of::<PyValueError>(py) || error.is_instance_of::<PyTypeError>(py) {
        return PyErr::from_type(error.get_type(py), shown(format!("{name}: {}", error.value(py))));
    }
    error
}

/// The path, if the object is one.
fn path_of(object: &Bound<'_, PyAny>) -> PyResult<Option<PathBuf>> {
    if object.is_instance_of::<PyString>() || object.hasattr(pyo3::intern!(object.py(), "__fspath__"))? {
        object.extract().map(Some)
    } else {
        Ok(None)
    }
}
