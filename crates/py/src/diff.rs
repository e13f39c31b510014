//! `Diff`, and the function that returns it.

use std::collections::HashMap;

use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use ulpscope_compare::results::{self, Described};
use ulpscope_kernels as kernels;
use ulpscope_kernels::{Comparison, Threads, Tolerance};
use ulpscope_report::{Record, Table, Terminal, json};
use ulpscope_tensor::Scalar;

use crate::input::Input;
use crate::numbers;
use crate::operand::{Named, Operand, prefixed};
use crate::result_bytes::{Reduced, hash, packed, reduce, same};

/// How two tensors differ. Truth value: whether they agree within the tolerance.
#[pyclass(frozen, module = "ulpscope")]
pub(crate) struct Diff {
    target: Described,
    golden: Described,
    comparison: Comparison,
    kl: Option<f64>,
    first_failing: Vec<kernels::ElementDiff>,
    worst: Vec<kernels::ElementDiff>,
}

/// One element on both sides.
#[pyclass(frozen, module = "ulpscope")]
pub(crate) struct ElementDiff {
    coordinates: Vec<usize>,
    target: Scalar,
    golden: Scalar,
    /// Row-major position.
    #[pyo3(get)]
    index: u64,
    /// Absolute difference; NaN when one side is not finite.
    #[pyo3(get)]
    abs: f64,
    /// Relative difference; None if golden is zero.
    #[pyo3(get)]
    rel: Option<f64>,
}

packed! {
    Diff { target, golden, comparison, kl, first_failing, worst }
    ElementDiff { coordinates, target, golden, index, abs, rel }
}

/// Compares two torch tensors, numpy arrays, files or dictionaries (`state_dict()`): target, the suspected side, with
/// golden, the trusted one. Dictionaries, and files with several tensors, are compared name by name: then the result is
/// a dictionary.
#[pyfunction]
#[pyo3(signature = (target, golden, *, atol = 1e-3, rtol = 1e-3, elements = 10))]
pub(crate) fn diff(
    py: Python<'_>,
    target: &Bound<'_, PyAny>,
    golden: &Bound<'_, PyAny>,
    atol: f64,
    rtol: f64,
    elements: usize,
) -> PyResult<Py<PyAny>> {
    let tolerance = Tolerance::new(atol, rtol).map_err(|error| PyValueError::new_err(error.to_string()))?;
    match Operand::pair(target, golden)? {
        (Operand::One(target), Operand::One(golden)) => {
            measure(py, &target, &golden, tolerance, elements)?.into_py_any(py)
        }
        (Operand::Named(targets), Operand::Named(goldens)) => {
            let mut by_name: HashMap<String, Named<'_>> = HashMap::new();
            let names: Vec<String> = targets.iter().map(|(name, _)| name.clone()).collect();
            by_name.extend(targets);
            let mut pairs = Vec::with_capacity(goldens.len());
            let mut only_golden = Vec::new();
            for (name, golden) in goldens {
                match by_name.remove(&name) {
                    Some(target) => pairs.push((name, target, golden)),
                    None => only_golden.push(name),
                }
            }
            let only_target: Vec<_> = names.iter().filter(|name| by_name.contains_key(*name)).collect();
            if !only_target.is_empty() || !only_golden.is_empty() {
                return Err(PyValueError::new_err(format!(
                    "the two sides hold different tensors: only in target {only_target:?}, only in golden {only_golden:?}"
                )));
            }
            let all = py.import("ulpscope._diffs")?.getattr("Diffs")?.call0()?;
            for (name, target, golden) in pairs {
                let (target, golden) = (target.input(&name)?, golden.input(&name)?);
                all.set_item(
                    &name,
                    measure(py, &target, &golden, tolerance, elements)
                        .map_err(|error| prefixed(py, &name, error))?,
                )?;
            }
            Ok(all.unbind())
        }
        (Operand::One(_), Operand::Named(several)) | (Operand::Named(several), Operand::One(_)) => {
            Err(PyValueError::new_err(format!("one side is one tensor, the other holds {}", several.len())))
        }
    }
}

fn measure(
    py: Python<'_>,
    target: &Input<'_>,
    golden: &Input<'_>,
    tolerance: Tolerance,
    elements: usize,
) -> PyResult<Diff> {
    let measured = target.detached_pair(golden, py, |target, golden| {
        let comparison = kernels::compare(target, golden, tolerance, Threads::All)?;
        let differ = comparison.distances.worst_index.is_some();
        let listed = if differ { elements } else { 0 };
        Ok(Diff {
            target: Described::of(target),
            golden: Described::of(golden),
            kl: kernels::kl_divergence(target, golden, Threads::All),
            first_failing: kernels::first_failing(target, golden, tolerance, listed)?,
            worst: kernels::worst(target, golden, listed)?,
            comparison,
        })
    })?;
    measured.map_err(|error: kernels::ShapeMismatch| PyValueError::new_err(error.to_string()))
}

impl Diff {
    fn record(&self) -> Record {
        results::of_comparison(&self.target, &self.golden, &self.comparison, self.kl)
    }

    /// The numbers, and the worst elements below them.
    fn tables(&self) -> [Table; 2] {
        let worst = results::element_table("worst elements", &self.worst, &self.target, &self.golden);
        [Table::of_record("Diff", &self.record()), worst]
    }

    fn elements(&self, elements: &[kernels::ElementDiff]) -> Vec<ElementDiff> {
        let shown = |element: &kernels::ElementDiff| ElementDiff {
            coordinates: self.golden.coordinates(element.index),
            target: element.target,
            golden: element.golden,
            index: element.index,
            abs: element.abs,
            rel: element.rel,
        };
        elements.iter().map(shown).collect()
    }
}

#[pymethods]
impl ElementDiff {
    /// One index per dimension.
    #[getter]
    fn coordinates<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.coordinates)
    }

    /// The target's element.
    #[getter]
    fn target(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        numbers::to_python(py, self.target)
    }

    /// The golden's element.
    #[getter]
    fn golden(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        numbers::to_python(py, self.golden)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let (target, golden) = (self.target(py)?, self.golden(py)?);
        let at = &self.coordinates;
        // Python's number format, so that all three look alike.
        let abs = self.abs.into_py_any(py)?;
        Ok(format!("ElementDiff(at {at:?}: target {target}, golden {golden}, abs {abs})"))
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        same(self, other.cast::<ElementDiff>().ok().map(Bound::get))
    }

    fn __hash__(&self) -> u64 {
        hash(self)
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Reduced<'py>> {
        reduce(py, "ElementDiff", self)
    }
}

/// Read-only attributes, each a field of the comparison.
#[pymethods]
impl Diff {
    /// Number of pairs.
    #[getter]
    fn count(&self) -> u64 {
        self.comparison.distances.count
    }

    /// Pairs that are finite on both sides; distances are taken over these.
    #[getter]
    fn finite(&self) -> u64 {
        self.comparison.distances.finite
    }

    /// Same dtype and the same bits in every element.
    #[getter]
    fn equal(&self) -> bool {
        self.comparison.distances.equal
    }

    /// Cosine of the angle between the two as vectors; 1 when both are zero, None when one is.
    #[getter]
    fn cosine(&self) -> Option<f64> {
        self.comparison.distances.cosine
    }

    /// L2 norm of the difference.
    #[getter]
    fn euclid(&self) -> f64 {
        self.comparison.distances.euclid
    }

    /// `euclid` over the L2 norm of golden.
    #[getter]
    fn rel_l2(&self) -> f64 {
        self.comparison.distances.rel_l2
    }

    /// Root of the mean squared difference.
    #[getter]
    fn rmse(&self) -> f64 {
        self.comparison.distances.rmse
    }

    /// Mean relative difference in percent.
    #[getter]
    fn mape(&self) -> f64 {
        self.comparison.mape
    }

    /// Largest absolute difference.
    #[getter]
    fn max_abs(&self) -> f64 {
        self.comparison.distances.max_abs
    }

    /// Mean absolute difference.
    #[getter]
    fn mean_abs(&self) -> f64 {
        self.comparison.mean_abs
    }

    /// Largest relative difference, where golden is not zero.
    #[getter]
    fn max_rel(&self) -> f64 {
        self.comparison.distances.max_rel
    }

    /// Mean relative difference; a zero golden counts as zero.
    #[getter]
    fn mean_rel(&self) -> f64 {
        self.comparison.mean_rel
    }

    /// Sum of the relative differences.
    #[getter]
    fn accumulated_rel(&self) -> f64 {
        self.comparison.accumulated_rel
    }

    /// Kullback-Leibler divergence of the two, scaled to distributions.
    #[getter]
    fn kl(&self) -> Option<f64> {
        self.kl
    }

    /// Share of pairs with a relative difference under 1/1000.
    #[getter]
    fn under_1e3(&self) -> f64 {
        self.comparison.distances.under_1e3
    }

    /// Share of pairs with a relative difference under 5/1000.
    #[getter]
    fn under_5e3(&self) -> f64 {
        self.comparison.distances.under_5e3
    }

    /// Pairs where golden is zero and target is not.
    #[getter]
    fn zero_golden(&self) -> u64 {
        self.comparison.distances.zero_golden
    }

    /// Pairs where one side is not finite and the other is finite or a different non-finite value.
    #[getter]
    fn non_finite_mismatched(&self) -> u64 {
        self.comparison.distances.non_finite.mismatched
    }

    /// Largest distance in units in the last place; for equal, real dtypes.
    #[getter]
    fn max_ulp(&self) -> Option<u64> {
        self.comparison.max_ulp
    }

    /// Mean distance in units in the last place; for equal, real dtypes.
    #[getter]
    fn mean_ulp(&self) -> Option<f64> {
        self.comparison.mean_ulp
    }

    /// Pairs over the tolerance, including non-finite mismatches.
    #[getter]
    fn over_tolerance(&self) -> u64 {
        self.comparison.over_tolerance
    }

    /// The smallest atol that passes with the given rtol.
    #[getter]
    fn needed_atol(&self) -> f64 {
        self.comparison.needed_atol
    }

    /// The smallest rtol that passes with the given atol.
    #[getter]
    fn needed_rtol(&self) -> f64 {
        self.comparison.needed_rtol
    }

    /// Row-major position of the worst element; None when all agree.
    #[getter]
    fn worst_index(&self) -> Option<u64> {
        self.comparison.distances.worst_index
    }

    /// Sizes of the absolute differences: (e, count) for those in [2^e, 2^(e+1)).
    #[getter]
    fn exponents(&self) -> Vec<(i32, u64)> {
        self.comparison.exponents.rows.clone()
    }

    /// The first elements over the tolerance, in order.
    #[getter]
    fn first_failing(&self) -> Vec<ElementDiff> {
        self.elements(&self.first_failing)
    }

    /// The elements with the largest absolute difference, largest first.
    #[getter]
    fn worst(&self) -> Vec<ElementDiff> {
        self.elements(&self.worst)
    }

    /// Whether every pair is within the tolerance: the command would end with exit code 0.
    #[getter]
    fn ok(&self) -> bool {
        self.comparison.agrees()
    }

    /// The same as `ok`.
    #[getter]
    fn agrees(&self) -> bool {
        self.comparison.agrees()
    }

    fn __bool__(&self) -> bool {
        self.comparison.agrees()
    }

    /// The fields as strict JSON; non-finite numbers become the strings "NaN", "Infinity", "-Infinity".
    fn to_json(&self) -> String {
        json::line(&self.record().to_json())
    }

    fn __repr__(&self) -> String {
        let shown = self.tables().map(|table| Terminal::default().render(&table)).join("\n");
        // The prompt ends the line.
        shown.trim_end().to_owned()
    }

    fn _repr_html_(&self) -> String {
        self.tables().iter().map(Table::to_html).collect()
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        same(self, other.cast::<Diff>().ok().map(Bound::get))
    }

    fn __hash__(&self) -> u64 {
        hash(self)
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Reduced<'py>> {
        reduce(py, "Diff", self)
    }
}
