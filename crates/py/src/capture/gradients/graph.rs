//! The nodes that a call added to the autograd graph.
//!
//! Right after a call the graph is walked from its results back to its arguments: the nodes between belong to the call.
//! Nodes are identified by their number, which torch assigns in order on each thread.

use std::ops::Range;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use ulpscope_capture::{AddressMap, CallingThreads, Kind, PendingBackward};

use crate::capture::calls::call_in_progress::{CallInProgress, Edge};
use crate::capture::describe::items::Met;
use crate::capture::python_objects::ask;
use crate::capture::recorder::Recorder;

/// Nodes followed between the results of one call and its arguments.
const MAX_NODES: usize = 1 << 20;

/// The number of nodes outside of every thread's numbering: those of functions without derivative, which raise in a
/// backward pass.
const UNNUMBERED: u64 = u64::MAX;

/// A node of the graph, and the gradients that pass through it.
pub(in crate::capture) struct Watched<'py> {
    pub(in crate::capture) node: Bound<'py, PyAny>,
    /// Its input gradients, and the results they belong to.
    pub(in crate::capture) taken: Vec<Share>,
    /// Its output gradients, and the arguments they go to.
    pub(in crate::capture) given: Vec<Share>,
    /// Its output gradients that go to results of the same call.
    pub(in crate::capture) within: Vec<Share>,
    /// Whether all of its inputs and outputs count, in their order.
    pub(in crate::capture) is_whole: bool,
}

/// One input or output gradient of a node.
pub(in crate::capture) struct Share {
    pub(in crate::capture) position: usize,
    /// The result or argument it belongs to.
    pub(in crate::capture) owner: usize,
    /// Its part of the tensor whose gradient it is, if it is a view.
    pub(in crate::capture) part: Option<Py<PyTuple>>,
}

/// The node at which the gradient of a result arrives.
struct Maker<'py> {
    node: Bound<'py, PyAny>,
    position: usize,
    part: Option<Py<PyTuple>>,
    /// The argument that the call changed in place, if it is a view: the node outputs its gradient first.
    changed: Option<usize>,
}

/// The place of a result in the graph, if the call may have used the result itself: gradients from its own nodes do not
/// arrive from outside.
struct Landing<'py> {
    result: usize,
    node: Bound<'py, PyAny>,
    position: usize,
    /// For a view whose gradient is read at its base: the place of the base.
    base: Option<(usize, usize)>,
    /// Whether the call uses the base in a different way.
    is_base_used: bool,
    /// The nodes of the call with a gradient for this place, and its position among their outputs.
    users: Vec<(usize, usize)>,
}

/// The numbers of the nodes that a call created on its thread, and which other nodes were found.
struct Own {
    numbers: Range<u64>,
    met_lower: bool,
    met_higher: bool,
}

impl Own {
    fn new(numbers: Range<u64>) -> Own {
        Own { numbers, met_lower: false, met_higher: false }
    }

    /// Whether a node with this number counts as one of the call.
    fn has(&mut self, number: u64) -> bool {
        self.met_lower |= number < self.numbers.start;
        self.met_higher |= number >= self.numbers.end && number != UNNUMBERED;
        self.numbers.contains(&number)
    }

    /// Whether nodes were found that another thread may have created: this thread has not reached higher numbers yet,
    /// and lower ones are older only if there is no other thread.
    fn met_strangers(&self, threads: &CallingThreads) -> bool {
        self.met_higher || self.met_lower && threads.are_several()
    }
}

impl Recorder {
    /// Places hooks on the nodes that a call added to the graph.
    pub(in crate::capture) fn watch_gradients(
        &self,
        recorder: &Bound<'_, Recorder>,
        mut begun: CallInProgress,
        outputs: Vec<Met>,
    ) -> PyResult<()> {
        let py = recorder.py();
        let Some(first) = begun.sequence else { return Ok(()) };
        if self.recording.plan.gradients.are_of_last_node(begun.kind == Kind::Module) {
            return self.watch_last_node(recorder, &begun, &outputs);
        }
        let mut own = Own::new(first..self.torch.next_sequence(py)?);
        if begun.inputs.iter().any(|input| input.unasked.is_some()) {
            self.look_again(py, &mut begun)?;
        }
        let mut graph = Graph { nodes: Vec::new(), by_address: AddressMap::default() };
        // For each argument, how many nodes contribute to its gradient.
        let mut arguments = vec![0; begun.inputs.len()];
        let mut landings = Vec::new();
        // With one result only, no result leads to another of the same call.
        let is_alone = outputs.iter().filter(|met| met.requires_grad).count() < 2;
        for (result, met) in outputs.iter().enumerate() {
            let Some(maker) = self.maker_of(py, met, &begun, is_alone, &mut own)? else { continue };
            if !is_alone && begun.backward_left_out.is_none() {
                landings.extend(maker.landing(met.tensor.bind(py), result, &mut graph)?);
            }
            let Maker { node, position, part, changed } = maker;
            let watched = graph.index_of(node);
            let watched = &mut graph.nodes[watched];
            if let Some(owner) = changed {
                arguments[owner] += 1;
                let part = part.as_ref().map(|part| part.clone_ref(py));
                watched.given.push(Share { position: 0, owner, part });
            }
            watched.taken.push(Share { position, owner: result, part });
        }
        if begun.backward_left_out.is_some() {
            // It is counted where it arrives.
            graph.nodes.retain(Watched::sees_any);
            let pending = PendingBackward::of(&begun, outputs.len(), &[], Vec::new(), graph.nodes.len());
            return self.expect_gradients(recorder, pending, graph.nodes);
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
                for landing in &mut landings {
                    landing.meet(&graph, &node, number, (at, position));
                }
                let given = &graph.nodes[at].given;
                if let Some(owner) = self.argument_at(&node, number, &begun.inputs, given)? {
                    graph.nodes[at].given.push(Share { position, owner, part: None });
                    arguments[owner] += 1;
                } else if !self.torch.is_accumulate_grad(&node) && own.has(sequence_of(&node)?) {
                    graph.index_of(node);
                }
            }
            at += 1;
        }
        if begun.inputs.iter().any(|input| input.unasked.is_some()) {
            if self.look_where_used(py, &mut begun, &graph)? {
                return self.watch_gradients(recorder, begun, outputs);
            }
            self.note_unasked(&begun);
        }
        let is_given = |(input, parts): (&Edge, &usize)| *parts > 0 || !input.requires_grad;
        if own.met_strangers(&self.threads) && !begun.inputs.iter().zip(&arguments).all(is_given) {
            self.note_strangers(&begun);
        }
        // Repeated arguments that one node leads to have separate parts.
        let is_left = |(input, parts): (&Edge, &usize)| *parts == 0 && input.requires_grad;
        let may_share = arguments.iter().any(|&parts| parts > 1)
            || arguments.len() > 1 && begun.inputs.iter().zip(&arguments).any(is_left);
        let shared = match may_share {
            true => self.tell_apart(&begun, &mut graph, &mut arguments)?,
            false => Vec::new(),
        };
        for landing in landings {
            graph.place(landing);
        }
        graph.nodes.retain(Watched::sees_any);
        if graph.nodes.is_empty() {
            return Ok(());
        }
        let pending = PendingBackward::of(&begun, outputs.len(), &arguments, shared, graph.nodes.len());
        self.expect_gradients(recorder, pending, graph.nodes)
    }

    /// Places a hook on the node of the first result alone, whichever call added it: the older tools do so. The node of
    /// a view that this call changed in place is not read; see `maker_of`.
    fn watch_last_node(
        &self,
        recorder: &Bound<'_, Recorder>,
        begun: &CallInProgress,
        outputs: &[Met],
    ) -> PyResult<()> {
        let py = recorder.py();
        let Some(first) = outputs.first().filter(|met| met.requires_grad) else { return Ok(()) };
        let tensor = first.tensor.bind(py);
        let is_changed = begun.inputs.iter().any(|input| input.tensor.is(tensor));
        if is_changed && ask(tensor, intern!(py, "_is_view"))?.is_truthy()? {
            return Ok(());
        }
        let node = tensor.getattr(intern!(py, "grad_fn"))?;
        if node.is_none() {
            return Ok(());
        }
        let node = Watched { node, taken: Vec::new(), given: Vec::new(), within: Vec::new(), is_whole: true };
        self.expect_gradients(recorder, PendingBackward::of(begun, 0, &[], Vec::new(), 1), vec![node])
    }

    /// The node at which the gradient of a result arrives; `None` if the call only returns an argument.
    ///
    /// The gradient of a view is read at its base, if the call also created the base: if the view is changed in place
    /// later, its own node never runs. A view that this call changed in place gets its node when the node is next read;
    /// reading it here would change the order of the graph. Its base already has one.
    fn maker_of<'py>(
        &self,
        py: Python<'py>,
        met: &Met,
        begun: &CallInProgress,
        is_alone: bool,
        own: &mut Own,
    ) -> PyResult<Option<Maker<'py>>> {
        if !met.requires_grad {
            return Ok(None);
        }
        let tensor = met.tensor.bind(py);
        let mut maker = |tensor: &Bound<'py, PyAny>| -> PyResult<Option<Maker<'py>>> {
            let node = tensor.getattr(intern!(py, "grad_fn"))?;
            if node.is_none() || !own.has(sequence_of(&node)?) {
                return Ok(None);
            }
            let position = tensor.getattr(intern!(py, "output_nr"))?.extract()?;
            Ok(Some(Maker { node, position, part: None, changed: None }))
        };
        if !ask(tensor, intern!(py, "_is_view"))?.is_truthy()? {
            return maker(tensor);
        }
        let changed = begun.inputs.iter().position(|input| input.tensor.is(tensor));
        // If several are changed in place, the next one may be a view of the same tensor.
        if is_alone || changed.is_none() {
            self.note_view(begun, tensor, changed)?;
        }
        let base = tensor.getattr(intern!(py, "_base"))?;
        match maker(&base)? {
            Some(found) => {
                let part = self.part_of(tensor, &base)?;
                Ok(Some(Maker { part: Some(part.unbind()), changed, ..found }))
            }
            None if changed.is_some() => Ok(None),
            None => maker(tensor),
        }
    }

    /// Notes that gradients of a call's arguments may be missing, because its graph leads to nodes that another thread
    /// may have created for it.
    fn note_strangers(&self, begun: &CallInProgress) {
        // Without its number, so that there is one note for all calls of the function.
        let note = format!(
            "{} led to parts of the graph that another thread has made, or may have: torch numbers nodes thread by \
             thread, and gradients of its arguments may be missing",
            begun.base()
        );
        self.locked(|state| state.note(note));
    }

    /// The argument whose gradient goes to a node, if any. Of several with the same place, the first without a gradient
    /// from this node.
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
}

impl<'py> Maker<'py> {
    /// Where a result is in the graph. The node of a view that was changed in place is not read; see `maker_of`.
    fn landing(
        &self,
        tensor: &Bound<'py, PyAny>,
        result: usize,
        graph: &mut Graph<'py>,
    ) -> PyResult<Option<Landing<'py>>> {
        let py = tensor.py();
        let own = Landing {
            result,
            node: self.node.clone(),
            position: self.position,
            base: None,
            is_base_used: false,
            users: Vec::new(),
        };
        if self.part.is_none() {
            return Ok(Some(own));
        }
        let version = tensor.getattr(intern!(py, "_version"))?;
        if self.changed.is_some() || version.extract::<u64>()? > 0 {
            return Ok(None);
        }
        Ok(Some(Landing {
            node: tensor.getattr(intern!(py, "grad_fn"))?,
            position: tensor.getattr(intern!(py, "output_nr"))?.extract()?,
            base: Some((graph.index_of(self.node.clone()), self.position)),
            ..own
        }))
    }
}

impl Landing<'_> {
    /// Visits an edge of the graph, from the node and position `from`.
    fn meet(&mut self, graph: &Graph<'_>, node: &Bound<'_, PyAny>, number: usize, from: (usize, usize)) {
        if self.position == number && self.node.is(node) {
            self.users.push(from);
        } else if let Some((base, position)) = self.base {
            self.is_base_used |= position == number && graph.nodes[base].node.is(node);
        }
    }
}

impl Watched<'_> {
    fn sees_any(&self) -> bool {
        !(self.taken.is_empty() && self.given.is_empty() && self.within.is_empty())
    }
}

pub(in crate::capture) fn sequence_of(node: &Bound<'_, PyAny>) -> PyResult<u64> {
    ask(node, intern!(node.py(), "_sequence_nr"))?.extract()
}

impl Share {
    /// This gradient among all inputs or outputs of a node.
    pub(in crate::capture) fn of<'py>(
        &self,
        recorder: &Recorder,
        gradients: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = gradients.py();
        let gradient = gradients.get_item(self.position)?;
        match &self.part {
            Some(part) if !gradient.is_none() => recorder.take_part(gradient, part.bind(py)),
            _ => Ok(gradient),
        }
    }
}

/// Up to this many nodes are searched one by one; more of them by address.
const FEW: usize = 16;

/// The nodes found so far, kept alive so that addresses are not reused.
pub(in crate::capture) struct Graph<'py> {
    pub(in crate::capture) nodes: Vec<Watched<'py>>,
    by_address: AddressMap<usize>,
}

impl<'py> Graph<'py> {
    /// The index of a node.
    pub(in crate::capture) fn find(&self, node: &Bound<'_, PyAny>) -> Option<usize> {
        self.nodes.iter().position(|watched| watched.node.is(node))
    }

    fn index_of(&mut self, node: Bound<'py, PyAny>) -> usize {
        let number = self.nodes.len();
        if number < FEW {
            if let Some(found) = self.find(&node) {
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
        self.nodes.push(Watched {
            node,
            taken: Vec::new(),
            given: Vec::new(),
            within: Vec::new(),
            is_whole: false,
        });
        number
    }

    /// Notes the gradients that the call adds to its own results. If the call uses a view, the view's gradient is not
    /// at its base alone: it is then read at the view.
    fn place(&mut self, landing: Landing<'py>) {
        let Landing { result: owner, node, position, base, is_base_used, users } = landing;
        if let Some((base, _)) = base.filter(|_| is_base_used || !users.is_empty()) {
            self.nodes[base].taken.retain(|share| share.owner != owner);
            let own = self.index_of(node);
            self.nodes[own].taken.push(Share { position, owner, part: None });
        }
        for (user, position) in users {
            self.nodes[user].within.push(Share { position, owner, part: None });
        }
    }
}
