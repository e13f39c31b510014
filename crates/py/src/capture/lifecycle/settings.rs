//! The settings of a run, as the front has checked them.

use pyo3::exceptions::{PyException, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use ulpscope_capture::{Interruption, NameTest, Plan, Settings};

/// The plan from Python settings.
pub(in crate::capture) fn plan_of(
    settings: &Bound<'_, PyAny>,
    wants_call: &Bound<'_, PyAny>,
) -> PyResult<Plan> {
    let get = |name: &str| settings.getattr(name);
    let settings = Settings {
        task: get("task")?.extract()?,
        level: get("level")?.extract()?,
        digest: get("digest")?.extract()?,
        file_format: get("file_format")?.extract()?,
        stacks: get("stacks")?.extract()?,
        stack_form: get("stack_form")?.extract()?,
        backward_stacks: get("backward_stacks")?.extract()?,
        skip_scalars: get("skip_scalars")?.extract()?,
        skip_ints: get("skip_ints")?.extract()?,
        skip_single_values: get("skip_single_values")?.extract()?,
        scope: get("scope")?.extract()?,
        list: get("list")?.extract()?,
        list_match: get("list_match")?.extract()?,
        tensor_list: get("tensor_list")?.extract()?,
        in_modules: !get("module")?.extract::<Vec<String>>()?.is_empty(),
        data_mode: get("data_mode")?.extract()?,
        max_calls: get("max_calls")?.extract()?,
        max_bytes: get("max_bytes")?.extract()?,
        strict: get("strict")?.extract()?,
        layout: get("layout")?.extract()?,
        layout_path: get("layout_path")?.extract()?,
        sample: match get("sample")? {
            count if count.is_none() => None,
            count => Some(count.extract().unwrap_or(u64::MAX)),
        },
        strides: get("strides")?.extract()?,
        inner_calls: get("inner_calls")?.extract()?,
        gradients: get("gradients")?.extract()?,
        device_statistics: get("device_statistics")?.extract()?,
        flush_interval: get("flush_interval")?.extract()?,
        would_overflow: get("would_overflow")?.extract()?,
    };
    let plan = Plan::new(settings).map_err(|error| PyValueError::new_err(error.to_string()))?;
    Ok(if wants_call.is_none() { plan } else { plan.with_call_test(name_test(wants_call)) })
}

/// The front's test of names, made from patterns. If the test fails, the call is recorded. What is no `Exception`
/// (`KeyboardInterrupt`, `SystemExit`) must end the program.
fn name_test(test: &Bound<'_, PyAny>) -> NameTest {
    let test = test.clone().unbind();
    NameTest::new(move |name| {
        Python::attach(|py| match test.bind(py).call1((name,)).and_then(|answer| answer.is_truthy()) {
            Ok(is_selected) => Ok(is_selected),
            Err(error) if error.is_instance_of::<PyException>(py) => Ok(true),
            Err(error) => Err(error.into()),
        })
    })
}

/// What the test of a name raised, to be raised in the program.
pub(in crate::capture) fn raised_by_test(interruption: Interruption) -> PyErr {
    match interruption.downcast::<PyErr>() {
        Ok(error) => *error,
        Err(other) => PyRuntimeError::new_err(other.to_string()),
    }
}
