//! Recording errors are counted and reported once, and the run continues.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use pyo3::exceptions::{PyException, PyRuntimeError};
use pyo3::intern;
use pyo3::prelude::*;

use crate::capture::calls::call_in_progress::CallInProgress;
use crate::capture::recorder::{Recorder, kind_of};

/// Different failures reported to the user; the ledger counts all.
const MAX_TOLD: usize = 100;

/// The subject of an error.
#[derive(Clone, Copy)]
pub(in crate::capture) enum Of<'a> {
    /// Something that is not counted yet.
    Unmet(&'a str),
    /// A call that is counted as seen, without an outcome yet.
    New(&'a str),
    /// A call that counts as recorded.
    Recorded(&'a str),
    /// A call that counts as left out, or something that is no call.
    Beside(&'a str),
}

/// The same, owned.
pub(in crate::capture) struct OfCall {
    name: Arc<str>,
    is_recorded: bool,
}

impl OfCall {
    pub(in crate::capture) fn borrowed(&self) -> Of<'_> {
        if self.is_recorded { Of::Recorded(&self.name) } else { Of::Beside(&self.name) }
    }
}

impl CallInProgress {
    /// The subject of an error at the end of the call.
    pub(in crate::capture) fn of(&self) -> OfCall {
        OfCall { name: Arc::clone(&self.name), is_recorded: self.is_recorded() }
    }
}

/// Runs our own code: a panic becomes an error like any other. (State is under locks, which a panic leaves unchanged or
/// with one line missing.)
pub(in crate::capture) fn caught<T>(body: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    without_panic(body).unwrap_or_else(|mistake| Err(PyRuntimeError::new_err(mistake)))
}

/// Runs our own code; returns the message if it panics.
fn without_panic<T>(body: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(body))
        .map_err(|panic| format!("a mistake in Ulpscope itself, please report it: {}", words_of(&*panic)))
}

fn words_of(panic: &(dyn Any + Send)) -> &str {
    let words = panic.downcast_ref::<String>().map(String::as_str);
    words.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no words")
}

impl Recorder {
    /// Suppresses a recording error, unless the user wants errors raised, or it is not ours.
    pub(in crate::capture) fn guarded<T>(
        &self,
        py: Python<'_>,
        of: Of<'_>,
        result: PyResult<T>,
    ) -> PyResult<Option<T>> {
        let error = match result {
            Ok(value) => return Ok(Some(value)),
            Err(error) => error,
        };
        if self.recording.plan.strict || !error.is_instance_of::<PyException>(py) {
            return Err(error);
        }
        let (Of::Unmet(name) | Of::New(name) | Of::Recorded(name) | Of::Beside(name)) = of;
        let text = format!("{name}: {}: {}", kind_of(error.value(py)), error.value(py));
        let ended = self.locked(|state| {
            match of {
                Of::Unmet(_) => {
                    state.ledger.meet();
                    state.ledger.fail(text.clone());
                }
                Of::New(_) => state.ledger.fail(text.clone()),
                Of::Recorded(_) => {
                    state.ledger.take_back();
                    state.ledger.fail(text.clone());
                }
                Of::Beside(_) => state.note(text.clone()),
            }
            state.ended.clone()
        });
        let message = match ended {
            Some(why) => {
                let was_on = self.is_collecting.swap(false, Ordering::Relaxed);
                self.is_on.store(false, Ordering::Relaxed);
                was_on.then(|| format!("capture has ended, and the run goes on without it: {why}"))
            }
            None => self.is_news(&text).then(|| format!("could not record {text}; the run goes on")),
        };
        if let Some(message) = message {
            self.warn(py, message)?;
        }
        Ok(None)
    }

    /// Reports a message to the user, once.
    pub(in crate::capture) fn warn_once(&self, py: Python<'_>, message: String) -> PyResult<()> {
        if self.is_new(message.clone()) { self.warn(py, message) } else { Ok(()) }
    }

    fn warn(&self, py: Python<'_>, message: String) -> PyResult<()> {
        self.torch.front.bind(py).call_method1(intern!(py, "warn"), (message,)).map(|_| ())
    }

    /// Whether this was not reported yet: a function that fails repeatedly is reported once.
    fn is_news(&self, text: &str) -> bool {
        self.is_new(text.chars().filter(|character| !character.is_ascii_digit()).collect())
    }

    fn is_new(&self, kind: String) -> bool {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.len() < MAX_TOLD && told.insert(kind)
    }
}

#[cfg(test)]
mod tests {
    use std::panic::panic_any;

    use super::*;

    #[test]
    fn a_panic_is_caught_and_reported_with_its_message() {
        let told = |words: &str| Err(format!("a mistake in Ulpscope itself, please report it: {words}"));
        assert_eq!(without_panic(|| -> u8 { panic!("plain words") }), told("plain words"));
        let number = 7;
        assert_eq!(without_panic(|| -> u8 { panic!("words with a {number}") }), told("words with a 7"));
        assert_eq!(without_panic(|| -> u8 { panic_any(7) }), told("no words"));
        assert_eq!(without_panic(|| 5), Ok(5));
    }
}
