//! The backward call of a call: the gradients that arrive at its results, and those it gives to its arguments.
//!
//! Right after a call the autograd graph is walked from the results back to the arguments: the nodes between are what
//! the call put there. A hook on each node that belongs to a result, or leads to an argument, sees what the node takes
//! and what it gives. No node is added and none changed, so the order in which gradients are summed stays as it was, and
//! an argument's gradient is this call's contribution alone.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use ulpscope_formats::json::push_text;

use super::call::{Begun, Edge};
use super::items::Met;
use super::recorder::Recorder;
use super::tensors::Describe;

/// Nodes followed between the results of one call and its arguments.
const MAX_NODES: usize = 1 << 20;

/// A node of the graph, and which gradients it sees.
struct Watched<'py> {
    node: Bound<'py, PyAny>,
    /// Gradients it takes, and the results they belong to.
    taken: Vec<Share>,
    /// Gradients it gives, and the arguments they go to.
    given: Vec<Share>,
}

/// One gradient among those that a node takes or gives.
struct Share {
    position: usize,
    /// The result or argument it belongs to.
    owner: usize,
    /// How that lies in the tensor whose gradient it is, if it is a view of it.
    part: Option<Py<PyAny>>,
}

/// The node at which the gradient of a result arrives.
struct Maker<'py> {
    node: Bound<'py, PyAny>,
    position: usize,
    part: Option<Py<PyAny>>,
    /// The argument that the call changed in place, if that is a view: the node gives its gradient first.
    changed: Option<usize>,
}

/// What has come of a backward call so far.
pub(super) struct Arriving {
    /// The forward call.
    call: Arc<str>,
    parent: Option<Arc<str>>,
    /// For each result, the gradient that arrived, as JSON.
    results: Vec<Option<Vec<u8>>>,
    arguments: Vec<Contribution>,
    /// For each hook, whether it has seen its node in this pass.
    fired: Vec<bool>,
    /// Passes before this one: a graph that is kept can be walked again.
    passes: u64,
}

/// The gradient of an argument.
#[derive(Default)]
struct Contribution {
    /// How many nodes give a part of it.
    expected: usize,
    /// Parts to be summed, kept if there are several.
    parts: Vec<Py<PyAny>>,
    text: Option<Vec<u8>>,
}

impl Recorder {
    /// Places hooks on what a call has put into the graph.
    pub(super) fn watch_gradients(
        &self,
        recorder: &Bound<'_, Recorder>,
        begun: Begun,
        outputs: Vec<Met>,
    ) -> PyResult<()> {
        let py = recorder.py();
        let Some(first_own) = begun.sequence else { return Ok(()) };
        let mut graph = Graph { nodes: Vec::new(), by_address: HashMap::new() };
        let mut arguments: Vec<Contribution> = begun.inputs.iter().map(|_| Contribution::default()).collect();
        for (result, met) in outputs.iter().enumerate() {
            let Some(maker) = self.maker_of(py, met, &begun.inputs, first_own)? else { continue };
            let Maker { node, position, part, changed } = maker;
            let watched = graph.index_of(node);
            let watched = &mut graph.nodes[watched];
            if let Some(owner) = changed {
                arguments[owner].expected += 1;
                let part = part.as_ref().map(|part| part.clone_ref(py));
                watched.given.push(Share { position: 0, owner, part });
            }
            watched.taken.push(Share { position, owner: result, part });
        }
        let mut at = 0;
        while at < graph.nodes.len() && graph.nodes.len() < MAX_NODES {
            let next = graph.nodes[at].node.getattr(intern!(py, "next_functions"))?;
            let next = next.cast::<PyTuple>()?;
            for (position, edge) in next.iter().enumerate() {
                let (node, number): (Bound<'_, PyAny>, usize) = edge.extract()?;
                if node.is_none() {
                    continue;
                }
                let given = &graph.nodes[at].given;
                if let Some(owner) = self.argument_at(&node, number, &begun.inputs, given)? {
                    graph.nodes[at].given.push(Share { position, owner, part: None });
                    arguments[owner].expected += 1;
                } else if !self.torch.is_accumulate_grad(&node) && sequence_of(&node)? >= first_own {
                    graph.index_of(node);
                }
            }
            at += 1;
        }
        graph.nodes.retain(|watched| !watched.taken.is_empty() || !watched.given.is_empty());
        if graph.nodes.is_empty() {
            return Ok(());
        }
        let arriving = Arc::new(Mutex::new(Arriving {
            call: begun.name,
            parent: begun.parent,
            results: vec![None; outputs.len()],
            arguments,
            fired: vec![false; graph.nodes.len()],
            passes: 0,
        }));
        for (index, Watched { node, taken, given }) in graph.nodes.into_iter().enumerate() {
            let call = Arc::clone(&arriving);
            let hook = GradientHook { recorder: recorder.clone().unbind(), call, index, taken, given };
            let handle = node.call_method1(intern!(py, "register_hook"), (hook,))?;
            self.keep_handle(handle);
        }
        Ok(())
    }

    /// The node at which the gradient of a result arrives; none where the call only hands on what it was given.
    ///
    /// A view's gradient is looked for at its base, if the call made that, too: were the view changed in place later,
    /// its own node would be passed by. And a view that was changed in place by this very call gets its node when it is
    /// next asked for; asking here would put the node elsewhere in the order of the graph. Its base has one already.
    fn maker_of<'py>(
        &self,
        py: Python<'py>,
        met: &Met,
        inputs: &[Edge],
        first_own: u64,
    ) -> PyResult<Option<Maker<'py>>> {
        if !met.requires_grad {
            return Ok(None);
        }
        let tensor = met.tensor.bind(py);
        let maker = |tensor: &Bound<'py, PyAny>| -> PyResult<Option<Maker<'py>>> {
            let node = tensor.getattr(intern!(py, "grad_fn"))?;
            if node.is_none() || sequence_of(&node)? < first_own {
                return Ok(None);
            }
            let position = tensor.getattr(intern!(py, "output_nr"))?.extract()?;
            Ok(Some(Maker { node, position, part: None, changed: None }))
        };
        if !tensor.call_method0(intern!(py, "_is_view"))?.is_truthy()? {
            return maker(tensor);
        }
        let changed = inputs.iter().position(|input| input.tensor.is(tensor));
        let base = tensor.getattr(intern!(py, "_base"))?;
        match maker(&base)? {
            Some(found) => {
                let part = self.torch.front.bind(py).call_method1(intern!(py, "part_of"), (tensor, base))?;
                Ok(Some(Maker { part: Some(part.unbind()), changed, ..found }))
            }
            None if changed.is_some() => Ok(None),
            None => maker(tensor),
        }
    }

    /// The argument whose gradient goes to a node, if one's does. Of several with the same place in the graph, the
    /// first that this node has not given anything yet.
    fn argument_at(
        &self,
        node: &Bound<'_, PyAny>,
        number: usize,
        inputs: &[Edge],
        given: &[Share],
    ) -> PyResult<Option<usize>> {
        let py = node.py();
        let leaf = match self.torch.is_accumulate_grad(node) {
            true => Some(node.getattr(intern!(py, "variable"))?),
            false => None,
        };
        let mut last = None;
        for (index, input) in inputs.iter().enumerate().filter(|(_, input)| input.requires_grad) {
            let is_here = match (&input.node, &leaf) {
                (Some(own), None) => own.is(node) && input.number == number,
                (None, Some(leaf)) => leaf.is(&input.tensor),
                _ => false,
            };
            if is_here {
                last = Some(index);
                if given.iter().all(|share| share.owner != index) {
                    break;
                }
            }
        }
        Ok(last)
    }

    /// Writes what has come of backward calls that will not be completed any more.
    pub(super) fn flush_gradients(&self) -> PyResult<()> {
        for call in self.take_started() {
            let line = {
                let mut arriving = lock(&call);
                arriving.fired.contains(&true).then(|| arriving.take())
            };
            if let Some(finished) = line {
                self.write_backward(finished)?;
            }
        }
        Ok(())
    }

    fn write_backward(&self, finished: Finished) -> PyResult<()> {
        let Finished { name, parent, results, arguments } = finished;
        if self.plan.scopes_backward() && !self.locked(|state| self.plan.in_scope(&name, &mut state.scope)) {
            self.locked(|state| state.ledger.skip("not selected"));
            return Ok(());
        }
        let mut line = b"{\"call\":".to_vec();
        push_text(&name, &mut line);
        if let Some(parent) = parent {
            line.extend_from_slice(b",\"parent\":");
            push_text(&parent, &mut line);
        }
        line.extend_from_slice(b",\"data\":{");
        let sections = [
            (b"\"input\":[".as_slice(), results, self.plan.wants_inputs()),
            (b"\"output\":[", arguments, self.plan.wants_outputs()),
        ];
        let mut separator: &[u8] = b"";
        for (head, texts, _) in sections.into_iter().filter(|(_, _, is_wanted)| *is_wanted) {
            line.extend_from_slice(separator);
            line.extend_from_slice(head);
            for (position, text) in texts.into_iter().enumerate() {
                if position > 0 {
                    line.push(b',');
                }
                line.extend_from_slice(text.as_deref().unwrap_or(b"null"));
            }
            line.push(b']');
            separator = b",";
        }
        line.extend_from_slice(b"}}\n");
        self.append(|state| {
            state.ledger.seen += 1;
            state.ledger.recorded += 1;
            state.append(None, &line)
        })
    }
}

/// The number of a node in the autograd graph.
pub(super) fn sequence_of(node: &Bound<'_, PyAny>) -> PyResult<u64> {
    node.call_method0(intern!(node.py(), "_sequence_nr"))?.extract()
}

impl Share {
    /// The gradient, of all that a node takes or gives.
    fn of<'py>(&self, recorder: &Recorder, gradients: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        let py = gradients.py();
        let gradient = gradients.get_item(self.position)?;
        match &self.part {
            Some(part) if !gradient.is_none() => {
                recorder.torch.front.bind(py).call_method1(intern!(py, "take_part"), (gradient, part))
            }
            _ => Ok(gradient),
        }
    }
}

/// Nodes that are looked for one by one; with more of them, by their addresses.
const FEW: usize = 16;

/// The nodes found so far; each is kept, so that its address stays its own.
struct Graph<'py> {
    nodes: Vec<Watched<'py>>,
    by_address: HashMap<usize, usize>,
}

impl<'py> Graph<'py> {
    fn index_of(&mut self, node: Bound<'py, PyAny>) -> usize {
        let number = self.nodes.len();
        if number < FEW {
            if let Some(found) = self.nodes.iter().position(|watched| watched.node.is(&node)) {
                return found;
            }
        } else {
            if number == FEW {
                let address =
                    |(index, watched): (usize, &Watched<'_>)| (watched.node.as_ptr() as usize, index);
                self.by_address = self.nodes.iter().enumerate().map(address).collect();
            }
            if let Some(&found) = self.by_address.get(&(node.as_ptr() as usize)) {
                return found;
            }
            self.by_address.insert(node.as_ptr() as usize, number);
        }
        self.nodes.push(Watched { node, taken: Vec::new(), given: Vec::new() });
        number
    }
}

/// A backward call, ready to be written.
struct Finished {
    name: String,
    parent: Option<String>,
    results: Vec<Option<Vec<u8>>>,
    arguments: Vec<Option<Vec<u8>>>,
}

impl Arriving {
    /// The name in this pass over the graph: the second is `Tensor.mul@2.0.backward`.
    fn name(&self) -> String {
        let Some((base, number)) = self.call.rsplit_once(".forward") else { return self.call.to_string() };
        if self.passes == 0 {
            return format!("{base}.backward{number}");
        }
        let pass = self.passes + 1;
        // The number of a module call stands behind its direction, that of an API call before.
        match base.rsplit_once('.').filter(|_| number.is_empty()) {
            Some((base, number)) => format!("{base}@{pass}.{number}.backward"),
            None => format!("{base}@{pass}.backward{number}"),
        }
    }

    /// Hands out what has arrived and makes room for another pass.
    fn take(&mut self) -> Finished {
        let name = self.name();
        self.passes += 1;
        self.fired.fill(false);
        Finished {
            name,
            parent: self.parent.as_deref().map(|parent| parent.replacen(".forward", ".backward", 1)),
            results: self.results.iter_mut().map(Option::take).collect(),
            arguments: self
                .arguments
                .iter_mut()
                .map(|argument| {
                    argument.parts.clear();
                    argument.text.take()
                })
                .collect(),
        }
    }
}

fn lock(call: &Mutex<Arriving>) -> MutexGuard<'_, Arriving> {
    call.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A hook on one node.
#[pyclass(frozen, module = "ulpscope._core")]
struct GradientHook {
    recorder: Py<Recorder>,
    call: Arc<Mutex<Arriving>>,
    index: usize,
    taken: Vec<Share>,
    given: Vec<Share>,
}

#[pymethods]
impl GradientHook {
    fn __call__(&self, given: &Bound<'_, PyAny>, taken: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = given.py();
        let recorder = self.recorder.bind(py).get();
        if !recorder.is_collecting() {
            return Ok(());
        }
        let (Ok(given), Ok(taken)) = (given.cast::<PyTuple>(), taken.cast::<PyTuple>()) else {
            // Compiled autograd, to see what a backward pass does: there are no gradients yet.
            let note = "a backward pass was compiled: its gradients are not seen";
            recorder.locked(|state| state.ledger.note(note.to_owned()));
            return Ok(());
        };
        let seen = recorder.torch.plainly(py, || self.see(recorder, given, taken));
        match seen {
            Ok(()) => Ok(()),
            seen => {
                let name = lock(&self.call).name();
                recorder.guarded(py, &name, seen).map(|_| ())
            }
        }
    }
}

impl GradientHook {
    fn see(
        &self,
        recorder: &Recorder,
        given: &Bound<'_, PyTuple>,
        taken: &Bound<'_, PyTuple>,
    ) -> PyResult<()> {
        // The node was seen before in what was taken for one pass: the graph is being walked again.
        let earlier = {
            let mut arriving = lock(&self.call);
            arriving.fired[self.index].then(|| arriving.take())
        };
        if let Some(finished) = earlier {
            recorder.write_backward(finished)?;
        }
        let name = lock(&self.call).name();
        for share in &self.taken {
            let text = describe(recorder, share.of(recorder, taken)?, &name, "input", share.owner)?;
            lock(&self.call).results[share.owner] = text;
        }
        for share in &self.given {
            let gradient = share.of(recorder, given)?;
            let argument = share.owner;
            let expected = lock(&self.call).arguments[argument].expected;
            let whole = if expected > 1 { self.sum(recorder, argument, gradient)? } else { Some(gradient) };
            if let Some(whole) = whole {
                let text = describe(recorder, whole, &name, "output", argument)?;
                lock(&self.call).arguments[argument].text = text;
            }
        }
        let (finished, is_first) = {
            let mut arriving = lock(&self.call);
            let is_first = !arriving.fired.contains(&true);
            arriving.fired[self.index] = true;
            (arriving.fired.iter().all(|fired| *fired).then(|| arriving.take()), is_first)
        };
        match finished {
            Some(finished) => recorder.write_backward(finished),
            None => {
                if is_first {
                    recorder.keep_started(Arc::clone(&self.call));
                }
                Ok(())
            }
        }
    }

    /// Takes a part of a gradient in; the sum, once all parts are there.
    fn sum<'py>(
        &self,
        recorder: &Recorder,
        argument: usize,
        part: Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = part.py();
        let parts = {
            let mut arriving = lock(&self.call);
            let own = &mut arriving.arguments[argument];
            own.parts.push(part.unbind());
            if own.parts.len() < own.expected {
                return Ok(None);
            }
            std::mem::take(&mut own.parts)
        };
        let parts = PyList::new(py, parts.iter().filter(|part| !part.is_none(py)))?;
        recorder.torch.front.bind(py).call_method1(intern!(py, "add"), (parts,)).map(Some)
    }
}

/// A gradient as JSON; nothing where there is none.
fn describe(
    recorder: &Recorder,
    gradient: Bound<'_, PyAny>,
    call: &str,
    part: &str,
    position: usize,
) -> PyResult<Option<Vec<u8>>> {
    if gradient.is_none() {
        return Ok(None);
    }
    let py = gradient.py();
    let stem = recorder.plan.saves(call).then(|| format!("{call}.{part}.{position}"));
    let requires_grad = gradient.getattr(intern!(py, "requires_grad"))?.is_truthy()?;
    let mut text = Vec::with_capacity(256);
    let describe = Describe { recorder, file: stem.as_deref(), source: None, is_recompute: false };
    describe.push(&gradient, requires_grad, &mut text)?;
    Ok(Some(text))
}
