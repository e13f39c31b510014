//! Scalars as Python's own numbers.

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::PyComplex;
use ulpscope_tensor::Scalar;

pub(crate) fn to_python(py: Python<'_>, scalar: Scalar) -> PyResult<Py<PyAny>> {
    match scalar {
        Scalar::Float(value) => value.into_py_any(py),
        // The stable ABI has no i128; every dtype's integers fit one of these.
        Scalar::Int(value) => match i64::try_from(value) {
            Ok(value) => value.into_py_any(py),
            Err(_) => (value as u64).into_py_any(py),
        },
        Scalar::Bool(value) => value.into_py_any(py),
        Scalar::Complex(re, im) => Ok(PyComplex::from_doubles(py, re, im).into_any().unbind()),
    }
}
