//! Gradients of views: the part of its base that a view shows, and that part of the base's gradient.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::capture::python_objects::ask;
use crate::capture::recorder::Recorder;

impl Recorder {
    /// The part of its base that a view shows. That of a linear layer's result is all of it in a different shape, which
    /// the front would take ten times as long to say.
    pub(super) fn part_of<'py>(
        &self,
        view: &Bound<'py, PyAny>,
        base: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let py = view.py();
        if self.torch.is_plain_tensor(view) && self.torch.is_plain_tensor(base) {
            let [is_whole, base_is_whole] = [view, base].map(is_contiguous);
            if is_whole? && base_is_whole? && count_of(view)? == count_of(base)? {
                return PyTuple::new(py, [view.getattr(intern!(py, "shape"))?]);
            }
        }
        let part = self.torch.front.bind(py).call_method1(intern!(py, "part_of"), (view, base))?;
        Ok(part.cast_into::<PyTuple>()?)
    }

    /// The part of a base's gradient that belongs to a view. Called with all modes disabled.
    pub(super) fn take_part<'py>(
        &self,
        gradient: Bound<'py, PyAny>,
        part: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = part.py();
        // A view of a gradient that requires none has no node.
        let is_only_reshaped = part.len() == 1
            && self.torch.is_plain_tensor(&gradient)
            && is_contiguous(&gradient)?
            && !gradient.getattr(intern!(py, "requires_grad"))?.is_truthy()?;
        match is_only_reshaped {
            true => gradient.call_method1(intern!(py, "view"), (part.get_item(0)?,)),
            false => self.torch.front.bind(py).call_method1(intern!(py, "take_part"), (gradient, part)),
        }
    }
}

fn is_contiguous(tensor: &Bound<'_, PyAny>) -> PyResult<bool> {
    ask(tensor, intern!(tensor.py(), "is_contiguous"))?.is_truthy()
}

fn count_of(tensor: &Bound<'_, PyAny>) -> PyResult<u64> {
    ask(tensor, intern!(tensor.py(), "numel"))?.extract()
}
