//! Functions of torch: the front's description of each, and how a call of one was written.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyDict, PyList, PyTuple, PyWeakrefMethods, PyWeakrefReference};
use ulpscope_capture::{AddressMap, CallStack};
use ulpscope_dump::operators::ApiName;

use crate::capture::calls::arguments::Arguments;
use crate::capture::torch_api::Torch;

/// Functions remembered before dead ones are removed.
const SWEEP: usize = 1 << 10;

/// The front's description of a function.
pub(in crate::capture) struct Function {
    pub(in crate::capture) treatment: Treatment,
    /// Its own name, without the prefix.
    name: String,
    /// `{Prefix}.{name}`.
    pub(in crate::capture) base: Arc<str>,
    /// Its names when called through an operator.
    operators: Vec<(String, Arc<str>)>,
    /// The positions of the arguments that it modifies.
    changes: Vec<usize>,
    /// The parameter that must be set for that; empty if it always modifies them.
    changes_if: String,
    /// Whether its result shares the elements of its first argument without torch reporting it.
    pub(in crate::capture) gives_alias: bool,
    /// Whether it gives its first argument different memory, and writes to none.
    pub(in crate::capture) gives_memory: bool,
    /// The names of its parameters, if known.
    parameters: Vec<String>,
    /// Whether it is written in Python, and may pass its arguments on in a different form.
    is_in_python: bool,
    is_method: bool,
    /// Whether it is a torch operator, or registered as one: its schema says what it modifies.
    is_operator: bool,
    /// Whether it belongs to the program, and may replace one of torch's.
    pub(in crate::capture) is_of_program: bool,
    /// Whether it is one of torch's operators, and writes to no argument but those above and `out`.
    writes_no_other: bool,
}

/// An argument that a call modified.
pub(in crate::capture) struct Changed<'py> {
    pub(in crate::capture) position: usize,
    /// Its name among the entries of the call: `input.0`, `input.out`.
    pub(in crate::capture) place: String,
    pub(in crate::capture) argument: Bound<'py, PyAny>,
}

/// What to do with a call.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::capture) enum Treatment {
    /// Do not record it: it computes nothing.
    Pass,
    /// Neither record nor count it: it only runs other calls.
    Through,
    /// Record it, but not the calls inside it.
    Record,
}

/// The functions so far, by address.
#[derive(Default)]
pub(in crate::capture) struct Functions {
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    functions: AddressMap<(Held, Arc<Function>)>,
    sweep_at: usize,
}

/// How a function is referenced.
enum Held {
    /// A permanent function of torch; keeping it keeps its address.
    Always(Py<PyAny>),
    /// A function that a program may create at run time, with the objects of its closure.
    Weakly(Py<PyWeakrefReference>),
}

impl Held {
    fn new(function: &Bound<'_, PyAny>) -> Held {
        if function.is_instance_of::<PyCFunction>() {
            return Held::Always(function.clone().unbind());
        }
        match PyWeakrefReference::new(function) {
            Ok(reference) => Held::Weakly(reference.unbind()),
            // Descriptors of classes written in C.
            Err(_) => Held::Always(function.clone().unbind()),
        }
    }

    fn is(&self, function: &Bound<'_, PyAny>) -> bool {
        match self {
            Held::Always(known) => known.is(function),
            Held::Weakly(reference) => {
                reference.bind(function.py()).upgrade().is_some_and(|known| known.is(function))
            }
        }
    }

    fn is_there(&self, py: Python<'_>) -> bool {
        match self {
            Held::Always(_) => true,
            Held::Weakly(reference) => reference.bind(py).upgrade().is_some(),
        }
    }
}

impl Functions {
    /// The description of a function; the front is called if it is new.
    pub(in crate::capture) fn describe(
        &self,
        torch: &Torch,
        function: &Bound<'_, PyAny>,
    ) -> PyResult<Arc<Function>> {
        let address = function.as_ptr() as usize;
        if let Some((held, known)) = self.lock().functions.get(&address)
            && held.is(function)
        {
            return Ok(Arc::clone(known));
        }
        let asked = Arc::new(Function::ask(torch, function)?);
        let held = Held::new(function);
        let mut known = self.lock();
        if known.functions.len() >= known.sweep_at.max(SWEEP) {
            known.functions.retain(|_, (held, _)| held.is_there(function.py()));
            known.sweep_at = 2 * known.functions.len();
        }
        let before = known.functions.insert(address, (held, Arc::clone(&asked)));
        drop(known);
        drop(before);
        Ok(asked)
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The front's answer: treatment, prefix, name, operators, modified arguments, the parameter that enables that,
/// parameters, the kind of function, whether it belongs to the program, and whether it writes to no other argument.
type Answer =
    (String, String, String, Vec<(String, String)>, Vec<usize>, String, Vec<String>, String, bool, bool);

impl Function {
    fn ask(torch: &Torch, function: &Bound<'_, PyAny>) -> PyResult<Function> {
        let py = function.py();
        let told = torch.front.bind(py).call_method1(intern!(py, "function"), (function,))?;
        let (
            treatment,
            prefix,
            name,
            operators,
            changes,
            changes_if,
            parameters,
            kind,
            is_of_program,
            writes_no_other,
        ): Answer = told.extract()?;
        let api = ApiName { namespace: &prefix, function: &name };
        Ok(Function {
            treatment: match treatment.as_str() {
                "pass" => Treatment::Pass,
                "through" => Treatment::Through,
                _ => Treatment::Record,
            },
            base: format!("{prefix}.{name}").into(),
            operators: operators
                .into_iter()
                .map(|(operator, name)| (operator, format!("{prefix}.{name}").into()))
                .collect(),
            changes,
            changes_if,
            parameters,
            is_in_python: kind == "python",
            is_operator: kind == "operator",
            is_of_program,
            writes_no_other,
            is_method: prefix == "Tensor",
            gives_alias: api.shares_elements(),
            gives_memory: api.replaces_memory(),
            name,
        })
    }

    /// The name of a call: the operator, if one made the call. `sum(tensors)` adds in C code, so the caller neither has
    /// the operator nor mentions the function.
    pub(in crate::capture) fn name_for(&self, hint: Option<&str>, stack: Option<&CallStack>) -> &Arc<str> {
        let operator = hint.or_else(|| stack.and_then(|stack| stack.operator.as_deref()));
        let found = match operator {
            Some(operator) => self.operators.iter().find(|(known, _)| known == operator),
            None => self.operators.first().filter(|_| stack.is_some_and(|stack| !stack.mentions(&self.name))),
        };
        found.map_or(&self.base, |(_, base)| base)
    }

    /// Whether the instruction of its caller decides its name.
    pub(in crate::capture) fn has_operators(&self) -> bool {
        !self.operators.is_empty()
    }

    /// Whether it is written in Python.
    pub(in crate::capture) fn is_in_python(&self) -> bool {
        self.is_in_python
    }

    /// Whether a call of it may modify arguments.
    pub(in crate::capture) fn may_change(&self) -> bool {
        !self.changes.is_empty()
    }

    /// Whether a call leaves all its arguments as they are.
    pub(in crate::capture) fn only_reads(&self, arguments: Arguments<'_, '_>) -> PyResult<bool> {
        if !self.writes_no_other || self.gives_memory || self.may_change() && self.changes(arguments)? {
            return Ok(false);
        }
        Ok(self.value("out", arguments)?.is_none())
    }

    /// Whether a call modifies the arguments that it may modify.
    fn changes(&self, arguments: Arguments<'_, '_>) -> PyResult<bool> {
        match self.changes_if.as_str() {
            "" => Ok(true),
            parameter => self.value(parameter, arguments)?.map_or(Ok(false), |value| value.is_truthy()),
        }
    }

    /// The arguments that a call modified, and their places among the recorded ones.
    pub(in crate::capture) fn changed_by<'py>(
        &self,
        arguments: Arguments<'_, 'py>,
        recorded: Arguments<'_, 'py>,
    ) -> PyResult<Vec<Changed<'py>>> {
        let mut changed = Vec::new();
        let is_set = self.may_change() && self.changes(arguments)?;
        for &position in self.changes.iter().filter(|_| is_set) {
            let argument = match (self.parameters.get(position), arguments.kwargs) {
                _ if position < arguments.args.len() => Some(arguments.args.get_item(position)?),
                (Some(name), Some(kwargs)) => kwargs.get_item(name)?,
                _ => None,
            };
            if let Some(argument) = argument {
                let place = recorded.place_of(&argument, position);
                changed.push(Changed { position, place, argument });
            }
        }
        Ok(changed)
    }

    /// The recorded result of a call, if it differs from the returned value: tensors that an operator wrote to are
    /// results, too; and a function that returns nothing may have modified a list, as those of optimizers do.
    pub(in crate::capture) fn result<'py>(
        &self,
        output: &Bound<'py, PyAny>,
        changed: &[Changed<'py>],
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = output.py();
        if !self.is_operator {
            let list = changed.first().filter(|first| first.position == 0 && output.is_none());
            return Ok(list
                .map(|first| first.argument.clone())
                .filter(|argument| argument.is_instance_of::<PyList>()));
        }
        let mut results = match output.cast::<PyTuple>() {
            Ok(several) => several.iter().collect(),
            Err(_) if output.is_none() => Vec::new(),
            Err(_) => vec![output.clone()],
        };
        let returned = results.len();
        for Changed { argument, .. } in changed {
            if !results.iter().any(|result| result.is(argument)) {
                results.push(argument.clone());
            }
        }
        Ok(match results.as_slice() {
            _ if results.len() == returned => None,
            [one] => Some(one.clone()),
            several => Some(PyTuple::new(py, several)?.into_any()),
        })
    }

    /// The value of a parameter, if it was passed.
    fn value<'py>(&self, name: &str, arguments: Arguments<'_, 'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let position = self.parameters.iter().position(|parameter| parameter == name);
        if let Some(position) = position.filter(|position| *position < arguments.args.len()) {
            return arguments.args.get_item(position).map(Some);
        }
        arguments.kwargs.map_or(Ok(None), |kwargs| kwargs.get_item(name))
    }

    /// The arguments as the caller passed them. A Python function passes its arguments on in a different form, those
    /// with defaults by name; `None` if that cannot be undone.
    pub(in crate::capture) fn as_passed<'py>(
        &self,
        stack: &CallStack,
        arguments: Arguments<'_, 'py>,
    ) -> PyResult<Option<(Bound<'py, PyTuple>, Bound<'py, PyDict>)>> {
        let Some(positional) = stack.positional else { return Ok(None) };
        if !self.is_in_python || !stack.mentions(&self.name) {
            return Ok(None);
        }
        let py = arguments.args.py();
        let value = |name: &str| self.value(name, arguments);
        let positional = positional + usize::from(self.is_method);
        let mut args = Vec::with_capacity(positional);
        for position in 0..positional {
            let Some(name) = self.parameters.get(position) else { return Ok(None) };
            let Some(value) = value(name)? else { return Ok(None) };
            args.push(value);
        }
        let kwargs = PyDict::new(py);
        for name in &stack.keywords {
            let Some(value) = value(name)? else { return Ok(None) };
            kwargs.set_item(name, value)?;
        }
        Ok(Some((PyTuple::new(py, args)?, kwargs)))
    }
}
