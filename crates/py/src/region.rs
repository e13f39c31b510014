//! `Region` and `RegionCall`: the calls among which two different programs part.

use pyo3::prelude::*;
use ulpscope_report::escape;
use ulpscope_session::region::{Mark, listed};

use crate::result_bytes::{Reduced, hash, packed, reduce, same};

/// Calls of two programs between values that agree and the first that do not.
#[pyclass(frozen, module = "ulpscope", get_all)]
#[derive(Clone)]
pub(crate) struct Region {
    target: Vec<RegionCall>,
    golden: Vec<RegionCall>,
    after: Vec<(RegionCall, RegionCall)>,
    before: (RegionCall, RegionCall),
}

/// A call of a region.
#[pyclass(frozen, module = "ulpscope", get_all)]
#[derive(Clone)]
pub(crate) struct RegionCall {
    name: String,
    role: String,
    position: u64,
    module: Option<String>,
    code: Option<String>,
    results: Vec<(String, Option<Vec<u64>>)>,
}

packed! {
    Region { target, golden, after, before }
    RegionCall { name, role, position, module, code, results }
}

impl Region {
    pub(crate) fn of(region: &ulpscope_compare::Region) -> Region {
        let [target, golden] = listed(region).map(|side| {
            side.into_iter()
                .map(|(mark, call)| RegionCall::of(mark.word(), call))
                .collect::<Vec<RegionCall>>()
        });
        let pair = |role: &str, [target, golden]: &[ulpscope_compare::RegionCall; 2]| {
            (RegionCall::of(role, target), RegionCall::of(role, golden))
        };
        Region {
            target,
            golden,
            after: region.after.iter().map(|calls| pair("after", calls)).collect(),
            before: pair("before", &region.before),
        }
    }
}

impl RegionCall {
    fn of(role: &str, call: &ulpscope_compare::RegionCall) -> RegionCall {
        RegionCall {
            name: call.name.clone(),
            role: role.to_owned(),
            position: call.at,
            module: call.module.clone(),
            code: call.code.clone(),
            results: call.results.iter().map(|result| (result.dtype.clone(), result.shape.clone())).collect(),
        }
    }
}

#[pymethods]
impl Region {
    fn __repr__(&self) -> String {
        let computing =
            |calls: &[RegionCall]| calls.iter().filter(|call| call.role != Mark::Other.word()).count();
        let shown = format!(
            "<Region: {} computing calls of the target, {} of the golden, before {}>",
            computing(&self.target),
            computing(&self.golden),
            self.before.0.name
        );
        escape::terminal(&shown).into_owned()
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        same(self, other.cast::<Region>().ok().map(Bound::get))
    }

    fn __hash__(&self) -> u64 {
        hash(self)
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Reduced<'py>> {
        reduce(py, "Region", self)
    }
}

#[pymethods]
impl RegionCall {
    fn __repr__(&self) -> String {
        let code = self.code.as_deref().map(|code| format!(" at {code}")).unwrap_or_default();
        escape::terminal(&format!("<RegionCall: {} ({}){code}>", self.name, self.role)).into_owned()
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        same(self, other.cast::<RegionCall>().ok().map(Bound::get))
    }

    fn __hash__(&self) -> u64 {
        hash(self)
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Reduced<'py>> {
        reduce(py, "RegionCall", self)
    }
}
