//! A torch tensor as [`ulpscope_capture::Flow`] uses it.

use pyo3::intern;
use pyo3::prelude::*;
use ulpscope_capture::{Storage, TensorObject};
use ulpscope_tensor::Region;

use crate::capture::recorder::Recorder;
use crate::capture::torch_api::Torch;

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
    fn ask_region(&self, storage: Storage) -> PyResult<Option<Region>> {
        let (tensor, py) = (&self.object, self.object.py());
        let size: usize = tensor.call_method0(intern!(py, "element_size"))?.extract()?;
        if tensor.call_method0(intern!(py, "is_contiguous"))?.is_truthy()? {
            let count: usize = tensor.call_method0(intern!(py, "numel"))?.extract()?;
            return Ok(Region::new(storage.first_element(), size, &[count], &[1]));
        }
        let shape: Vec<usize> = tensor.getattr(intern!(py, "shape"))?.extract()?;
        let strides: Vec<usize> = tensor.call_method0(intern!(py, "stride"))?.extract()?;
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
        let py = self.object.py();
        let ask = |name| self.object.call_method0(name).ok()?.extract::<usize>().ok();
        let first_element = ask(intern!(py, "data_ptr")).filter(|address| *address != 0)?;
        let before = match ask(intern!(py, "storage_offset"))? {
            0 => 0,
            elements => elements * ask(intern!(py, "element_size"))?,
        };
        Some(Storage::new(first_element.checked_sub(before)?, first_element))
    }

    fn region(&self, storage: Storage) -> Option<Region> {
        self.ask_region(storage).ok()?
    }
}
