//! Operations on Python objects that are cheaper than those of pyo3. Each runs for every call.

use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyString;

/// Calls a method without arguments, without creating a bound method.
pub(crate) fn ask<'py>(
    object: &Bound<'py, PyAny>,
    method: &Bound<'py, PyString>,
) -> PyResult<Bound<'py, PyAny>> {
    let end = std::ptr::null_mut::<ffi::PyObject>();
    // SAFETY: both are alive while they are borrowed, the list of arguments ends with a null pointer, and what comes back
    // is a reference of our own, or null with an error set.
    #[expect(unsafe_code)]
    unsafe {
        let result = ffi::PyObject_CallMethodObjArgs(object.as_ptr(), method.as_ptr(), end);
        Bound::from_owned_ptr_or_err(object.py(), result)
    }
}

/// Calls a function with one argument, without creating a tuple.
pub(in crate::capture) fn call_one<'py>(
    function: &Bound<'py, PyAny>,
    argument: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let end = std::ptr::null_mut::<ffi::PyObject>();
    // SAFETY: as above.
    #[expect(unsafe_code)]
    unsafe {
        let result = ffi::PyObject_CallFunctionObjArgs(function.as_ptr(), argument.as_ptr(), end);
        Bound::from_owned_ptr_or_err(function.py(), result)
    }
}

/// Calls a method with one argument, without creating a bound method.
pub(in crate::capture) fn call_with<'py>(
    object: &Bound<'py, PyAny>,
    method: &Bound<'py, PyString>,
    argument: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let end = std::ptr::null_mut::<ffi::PyObject>();
    // SAFETY: all three are alive while they are borrowed, the list of arguments ends with a null pointer, and what
    // comes back is a reference of our own, or null with an error set.
    #[expect(unsafe_code)]
    unsafe {
        let result =
            ffi::PyObject_CallMethodObjArgs(object.as_ptr(), method.as_ptr(), argument.as_ptr(), end);
        Bound::from_owned_ptr_or_err(object.py(), result)
    }
}

/// Leaves a context manager without an error.
pub(in crate::capture) fn leave(manager: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = manager.py();
    let exit = intern!(py, "__exit__");
    let none = py.None();
    let (none, end) = (none.as_ptr(), std::ptr::null_mut::<ffi::PyObject>());
    // SAFETY: as above.
    #[expect(unsafe_code)]
    unsafe {
        let result = ffi::PyObject_CallMethodObjArgs(manager.as_ptr(), exit.as_ptr(), none, none, none, end);
        Bound::from_owned_ptr_or_err(py, result).map(drop)
    }
}

/// Removes an object from the garbage collector's lists if the collector cannot free it anyway: there is one per call,
/// and visiting them repeatedly took a seventh of the time.
pub(in crate::capture) fn untrack(object: &Bound<'_, PyAny>) {
    // SAFETY: only what is tracked has what untracking looks for. Weak references without a callback, and torch's
    // handles of hooks, which hold a weak reference and numbers, refer to nothing that could refer back to them; what
    // our own hooks refer to they do not tell the collector. They are freed by their counts; freeing untracks again,
    // which is allowed.
    #[expect(unsafe_code)]
    unsafe {
        if ffi::PyObject_GC_IsTracked(object.as_ptr()) == 1 {
            ffi::PyObject_GC_UnTrack(object.as_ptr().cast());
        }
    }
}

/// Whether this is the only reference to an object.
pub(in crate::capture) fn is_held_alone<T>(object: &Py<T>, _gil: Python<'_>) -> bool {
    // SAFETY: the object is alive while it is borrowed, and its count is only changed with the GIL held.
    #[expect(unsafe_code)]
    unsafe {
        ffi::Py_REFCNT(object.as_ptr()) == 1
    }
}
