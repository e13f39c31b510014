//! A torch tensor as [`ulpscope_capture::Flow`] uses it.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyString;
use ulpscope_capture::{Storage, TensorObject};
use ulpscope_tensor::Region;

use crate::capture::python_objects::ask;
use crate::capture::recorder::Recorder;
use crate::capture::torch_api::Torch;
use crate::input::{Span, span_of};

/// A tensor, and the access to torch.
pub(in crate::capture) struct TorchTensor<'a, 'py> {
    torch: &'a Torch,
    object: Bound<'py, PyAny>,
}

impl Recorder {
    /// A tensor for the flow of data.
    pub(in crate::capture) fn tensor<'a, 'py>(&'a self, object: &Bound<'py, PyAny>) -> TorchTensor<'a, 'py> {
        TorchTensor { torch: &self.torch, object: object.clone() }
    }

    /// The owner of a tensor's elements, if it is known as an alias.
    pub(in crate::capture) fn owner_of<'py>(&self, tensor: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> {
        self.flow.owner_of(&self.tensor(tensor)).map(|owner| owner.object)
    }
}

impl TorchTensor<'_, '_> {
    /// Where its elements are, if its exchange table may be asked. One answer takes less time than a question by name.
    fn span(&self) -> Option<Span> {
        let may_ask = self.torch.is_plain_tensor(&self.object) && self.torch.has_only_met_memory();
        if may_ask { span_of(&self.object).ok()? } else { None }
    }

    /// The storage of a tensor whose elements are there.
    fn storage_of(&self, span: &Span) -> Option<Storage> {
        let before = self.number(intern!(self.object.py(), "storage_offset"))? * span.size;
        Some(Storage::new(span.address.checked_sub(before)?, span.address))
    }

    fn number(&self, method: &Bound<'_, PyString>) -> Option<usize> {
        ask(&self.object, method).ok()?.extract().ok()
    }

    fn ask_region(&self, storage: Storage) -> PyResult<Option<Region>> {
        let (tensor, py) = (&self.object, self.object.py());
        let size: usize = ask(tensor, intern!(py, "element_size"))?.extract()?;
        if ask(tensor, intern!(py, "is_contiguous"))?.is_truthy()? {
            let count: usize = ask(tensor, intern!(py, "numel"))?.extract()?;
            return Ok(Region::new(storage.first_element(), size, &[count], &[1]));
        }
        let shape: Vec<usize> = tensor.getattr(intern!(py, "shape"))?.extract()?;
        let strides: Vec<usize> = ask(tensor, intern!(py, "stride"))?.extract()?;
        Ok(Region::new(storage.first_element(), size, &shape, &strides))
    }
}

impl TensorObject for TorchTensor<'_, '_> {
    type Weak = Py<PyAny>;
    type Error = PyErr;

    fn address(&self) -> usize {
        self.object.as_ptr() as usize
    }

    fn weak(&self) -> PyResult<Py<PyAny>> {
        self.torch.weak_reference(&self.object)
    }

    fn another(&self, reference: &Py<PyAny>) -> Py<PyAny> {
        reference.clone_ref(self.object.py())
    }

    fn is(&self, reference: &Py<PyAny>) -> bool {
        Torch::refers_to(reference, &self.object)
    }

    fn upgrade(&self, reference: &Py<PyAny>) -> Option<Self> {
        let object = reference.bind(self.object.py()).call0().ok().filter(|object| !object.is_none())?;
        Some(TorchTensor { torch: self.torch, object })
    }

    fn is_parameter(&self) -> bool {
        self.object.get_type().is(&self.torch.parameter)
    }

    fn base(&self) -> PyResult<Option<Self>> {
        let object = self.object.getattr(intern!(self.object.py(), "_base"))?;
        Ok((!object.is_none()).then_some(TorchTensor { torch: self.torch, object }))
    }

    fn storage(&self) -> Option<Storage> {
        if let Some(span) = self.span() {
            return self.storage_of(&span);
        }
        let py = self.object.py();
        let first_element = self.number(intern!(py, "data_ptr")).filter(|address| *address != 0)?;
        let before = match self.number(intern!(py, "storage_offset"))? {
            0 => 0,
            elements => elements * self.number(intern!(py, "element_size"))?,
        };
        Some(Storage::new(first_element.checked_sub(before)?, first_element))
    }

    fn region(&self, storage: Storage) -> Option<Region> {
        match self.span() {
            Some(span) => span.region(),
            None => self.ask_region(storage).ok()?,
        }
    }

    fn part(&self) -> Option<(Storage, Region)> {
        if let Some(span) = self.span() {
            return Some((self.storage_of(&span)?, span.region()?));
        }
        let storage = self.storage()?;
        Some((storage, self.region(storage)?))
    }
}

impl Span {
    fn region(&self) -> Option<Region> {
        Region::new(self.address, self.size, &self.shape, &self.strides)
    }
}
