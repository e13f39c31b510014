//! Replay for comparisons: passes calls of a rank to `ulpscope._replay.proving`, which makes them again with torch.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use ulpscope_compare::standards::CheckStatus;
use ulpscope_compare::{Prover, ReplayedError};
use ulpscope_dump::Rank;

use crate::dump_reader::DumpRank;
use crate::interrupt::Stop;

/// Makes calls again in Python.
pub(crate) struct PythonProver {
    prover: Py<PyAny>,
    /// The ranks that are being compared: target and golden.
    ranks: Mutex<Vec<(Arc<Rank>, Py<DumpRank>)>>,
    stop: Stop,
}

/// Status, error, floor, ratio and remark.
type Answer = (String, f64, f64, f64, String);

impl PythonProver {
    /// Imports torch, on the calling thread: it breaks if a thread imports it first that Python did not start.
    pub(crate) fn new(py: Python<'_>, stop: Stop) -> PyResult<PythonProver> {
        let prover = py.import("ulpscope._replay.proving")?.getattr("CallProver")?.call0()?;
        Ok(PythonProver { prover: prover.unbind(), ranks: Mutex::default(), stop })
    }

    fn rank(&self, py: Python<'_>, rank: &Arc<Rank>) -> PyResult<Py<DumpRank>> {
        let mut ranks = self.ranks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, known)) = ranks.iter().find(|(known, _)| Arc::ptr_eq(known, rank)) {
            return Ok(known.clone_ref(py));
        }
        // Those of the pair before are no longer asked for.
        if ranks.len() == 2 {
            ranks.clear();
        }
        let object = Py::new(py, DumpRank::of(Arc::clone(rank)))?;
        ranks.push((Arc::clone(rank), object.clone_ref(py)));
        Ok(object)
    }

    fn ask(&self, py: Python<'_>, rank: &Arc<Rank>, call: usize) -> PyResult<ReplayedError> {
        let rank = self.rank(py, rank)?;
        let answer = self.prover.bind(py).call_method1("replay", (rank, call))?;
        let (status, error, floor, ratio, remark): Answer = answer.extract()?;
        let status = match status.as_str() {
            "error" => CheckStatus::Error,
            "warning" => CheckStatus::Warning,
            _ => CheckStatus::Pass,
        };
        Ok(ReplayedError { error, floor, ratio, status, remark })
    }
}

impl Prover for PythonProver {
    fn replay(&self, rank: &Arc<Rank>, call: usize) -> Result<ReplayedError, String> {
        let interrupted = || "it was interrupted".to_owned();
        if self.stop.load(Ordering::Relaxed) {
            return Err(interrupted());
        }
        let answer =
            Python::try_attach(|py| self.ask(py, rank, call).map_err(|error| error.value(py).to_string()));
        // Python is shutting down.
        answer.unwrap_or_else(|| Err(interrupted()))
    }
}
