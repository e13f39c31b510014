//! What is recorded: the settings of a run, as the recorder needs them.

use std::collections::HashSet;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use ulpscope_dump::{CallKind, parse_key};
use ulpscope_formats::file::Format;
use ulpscope_kernels::DigestKind;

use super::limits::Limits;

/// The settings, checked by the front.
pub(super) struct Plan {
    pub(super) task: String,
    pub(super) level: String,
    pub(super) digest: Option<DigestKind>,
    pub(super) format: Format,
    pub(super) stacks: bool,
    pub(super) skip_scalars: bool,
    pub(super) skip_ints: bool,
    scope: Option<(String, String)>,
    list: Vec<String>,
    tensor_list: Vec<String>,
    /// Whether the name of a forward call matches a pattern; nothing where all calls do.
    call: Option<NameTest>,
    /// Whether calls are recorded inside selected modules alone.
    in_modules: bool,
    directions: Either,
    parts: Either,
    pub(super) limits: Limits,
    pub(super) strict: bool,
}

/// Answers whether a name is wanted. It may run Python code, so no lock is held while it is asked.
type NameTest = Box<dyn Fn(&str) -> bool + Send + Sync>;

/// Which of two halves are wanted.
#[derive(Clone, Copy)]
struct Either {
    first: bool,
    second: bool,
}

/// How far a run is within the two names of its scope.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum ScopeState {
    #[default]
    Before,
    Inside,
    After,
}

impl Plan {
    /// `wants_call`: whether a call is wanted by its name; `None` where all are.
    pub(super) fn new(settings: &Bound<'_, PyAny>, wants_call: &Bound<'_, PyAny>) -> PyResult<Plan> {
        let get = |name: &str| settings.getattr(name);
        let digest = match get("digest")?.extract::<Option<String>>()?.as_deref() {
            None => None,
            Some("md5") => Some(DigestKind::Crc32),
            Some("xxh3") => Some(DigestKind::Xxh3),
            Some(other) => return Err(unknown("digest", other, "md5, xxh3")),
        };
        let format = match get("file_format")?.extract::<String>()?.as_str() {
            "pt" => Format::Pt,
            "npy" => Format::Npy,
            "safetensors" => Format::Safetensors,
            other => return Err(unknown("file_format", other, "pt, npy, safetensors")),
        };
        let scope = match get("scope")?.extract::<Vec<String>>()?.as_slice() {
            [] => None,
            [first, last] => Some((first.clone(), last.clone())),
            names => return Err(unknown("scope", &names.join(", "), "two names, the first and the last")),
        };
        let mode: Vec<String> = get("data_mode")?.extract()?;
        let has = |word: &str| mode.iter().any(|found| found == word);
        let either = |first: &str, second: &str| match (has(first), has(second)) {
            (false, false) => Either { first: true, second: true },
            (first, second) => Either { first, second },
        };
        Ok(Plan {
            task: get("task")?.extract()?,
            level: get("level")?.extract()?,
            digest,
            format,
            stacks: get("stacks")?.extract()?,
            skip_scalars: get("skip_scalars")?.extract()?,
            skip_ints: get("skip_ints")?.extract()?,
            scope,
            list: get("list")?.extract()?,
            tensor_list: get("tensor_list")?.extract()?,
            call: name_test(wants_call),
            in_modules: !get("module")?.extract::<Vec<String>>()?.is_empty(),
            directions: either("forward", "backward"),
            parts: either("input", "output"),
            limits: Limits::new(get("max_calls")?.extract()?, get("max_bytes")?.extract()?),
            strict: get("strict")?.extract()?,
        })
    }

    pub(super) fn is_structure(&self) -> bool {
        self.task == "structure"
    }

    /// Whether nesting is told: at these levels a call has the module it runs in as its parent.
    pub(super) fn has_modules(&self) -> bool {
        self.level == "L0" || self.level == "mix"
    }

    pub(super) fn wants_forward(&self) -> bool {
        self.directions.first
    }

    pub(super) fn wants_backward(&self) -> bool {
        self.directions.second
    }

    /// Whether calls are shown that are below autograd: those of a backward pass are shown like any other. Such a call may
    /// come while torch holds the lock of a tensor, which it takes for the tensor's place in the graph.
    fn is_below_autograd(&self) -> bool {
        self.level == "L2"
    }

    /// Whether the graph is asked for the backward calls of calls.
    pub(super) fn watches_gradients(&self) -> bool {
        self.wants_backward() && !self.is_below_autograd()
    }

    /// What is to be said of backward calls that nobody counts, given whether calls were left out.
    pub(super) fn unwatched(&self, has_left_out: bool) -> Option<&'static str> {
        if self.is_below_autograd() {
            return None;
        }
        if !self.wants_backward() {
            return Some("backward calls are not selected: they are neither watched nor counted");
        }
        let goes_along = has_left_out && self.wants_forward() && !self.scopes_backward();
        goes_along.then_some("the backward calls of calls that were left out are neither watched nor counted")
    }

    pub(super) fn wants_inputs(&self) -> bool {
        self.parts.first && !self.is_structure()
    }

    pub(super) fn wants_outputs(&self) -> bool {
        self.parts.second && !self.is_structure()
    }

    /// Whether the tensors of a call get files.
    pub(super) fn saves(&self, name: &str) -> bool {
        self.task == "tensor" || self.tensor_list.iter().any(|part| name.contains(part.as_str()))
    }

    /// Whether a name is on the list; everything is on an empty one.
    pub(super) fn is_listed(&self, name: &str) -> bool {
        self.list.is_empty() || self.has_listed(name)
    }

    /// Whether a name matches an entry of the list.
    pub(super) fn has_listed(&self, name: &str) -> bool {
        self.list.iter().any(|part| name.contains(part.as_str()))
    }

    /// Notes which entries of the list a name matches.
    pub(super) fn match_list(&self, name: &str, matched: &mut HashSet<usize>) {
        let found = |(_, part): &(usize, &String)| name.contains(part.as_str());
        matched.extend(self.list.iter().enumerate().filter(found).map(|(number, _)| number));
    }

    pub(super) fn has_list(&self) -> bool {
        !self.list.is_empty()
    }

    /// What is to be said of names in the settings that a step knows no call of, given how far it came in the scope, and
    /// which entries of the list it has met.
    pub(super) fn unmatched(&self, scope: ScopeState, listed: &HashSet<usize>) -> Vec<String> {
        if self.level == "debug" {
            return Vec::new();
        }
        let scope = self.scope.as_ref().and_then(|(first, last)| match scope {
            ScopeState::Before => {
                Some(format!("scope: no call {first} was seen in this step: nothing of it is recorded"))
            }
            ScopeState::Inside => Some(format!(
                "scope: no call {last} was seen after {first} in this step: everything from there to its end is recorded"
            )),
            ScopeState::After => None,
        });
        let parts = self.list.iter().enumerate().filter(|(number, _)| !listed.contains(number));
        let parts =
            parts.map(|(_, part)| format!("list: {part:?} is part of no name that was seen in this step"));
        scope.into_iter().chain(parts).collect()
    }

    /// Whether a call that begins lies within the scope, which it may open: both ends belong to it.
    pub(super) fn in_scope(&self, name: &str, state: &mut ScopeState) -> bool {
        let Some((first, _)) = &self.scope else { return true };
        if *state == ScopeState::Before && name == first {
            *state = ScopeState::Inside;
        }
        *state == ScopeState::Inside
    }

    /// Closes the scope if the call that ends is its last: what runs within a module belongs to it.
    pub(super) fn leave_scope(&self, name: &str, state: &mut ScopeState) {
        if self.scope.as_ref().is_some_and(|(_, last)| last == name) && *state == ScopeState::Inside {
            *state = ScopeState::After;
        }
    }

    /// Whether a forward call is wanted by its name, and by the modules it runs in: `is_inside` says whether one of
    /// these is selected.
    pub(super) fn is_selected(&self, name: &str, is_inside: bool) -> bool {
        (is_inside || !self.in_modules) && self.call.as_ref().is_none_or(|test| test(name))
    }

    /// Whether calls are selected by their names or modules.
    pub(super) fn selects(&self) -> bool {
        self.scope.is_some() || !self.list.is_empty() || self.call.is_some() || self.in_modules
    }

    pub(super) fn has_scope(&self) -> bool {
        self.scope.is_some()
    }

    /// Whether the ends of the scope are backward calls; otherwise a backward call goes with its forward one.
    pub(super) fn scopes_backward(&self) -> bool {
        let is_backward = |name: &str| matches!(parse_key(name), (_, _, CallKind::Backward));
        self.scope.as_ref().is_some_and(|(first, _)| is_backward(first))
    }
}

/// The test of names that the front has made of patterns. A call of which it cannot be told is recorded.
fn name_test(test: &Bound<'_, PyAny>) -> Option<NameTest> {
    if test.is_none() {
        return None;
    }
    let test = test.clone().unbind();
    Some(Box::new(move |name| {
        Python::attach(|py| {
            test.bind(py).call1((name,)).and_then(|answer| answer.is_truthy()).unwrap_or(true)
        })
    }))
}

fn unknown(what: &str, found: &str, expected: &str) -> PyErr {
    PyValueError::new_err(format!("{what}: expected {expected}, found {found}"))
}
