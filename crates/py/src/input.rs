//! From a Python object to a view: torch tensors, numpy arrays, and objects with the same interfaces.
//!
//! The object keeps its memory. It is read with the GIL released while the caller holds a reference. If another thread
//! writes to the tensor, the numbers are from some moment in between, as with torch itself. The caller must not free
//! the memory during a call (`untyped_storage().resize_(0)`): every reader of a tensor relies on that, including
//! torch's own kernels.

use std::cell::RefCell;

use pyo3::exceptions::{PyAttributeError, PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyType};
use ulpscope_formats::{Bytes, Tensor, check_memory};
use ulpscope_gpu::{GpuTensor, Stream};
use ulpscope_kernels::stoppable;
use ulpscope_tensor::{DType, View};

use crate::capture::ask;
use crate::dlpack::{self, DLTensor, DataType, ExchangeApi};
use crate::errors::to_python;
use crate::files::FileTensor;
use crate::interrupt::{LONG_WORK_BYTES, interruptible};

/// No view begins so many bytes after its storage. Most addresses are larger, and need no second question.
const LARGEST_OFFSET: u64 = 1 << 40;

/// A tensor with another owner: a Python object, which is kept alive, or a file.
pub(crate) enum Input<'py> {
    Object { owner: Bound<'py, PyAny>, layout: Layout },
    File(Tensor),
}

/// Where the elements of a Python object are. It has no Python objects, so it can be used without the GIL.
pub(crate) struct Layout {
    dtype: DType,
    shape: Vec<usize>,
    /// In bytes.
    strides: Vec<isize>,
    /// Address of element zero.
    address: usize,
}

impl<'py> Input<'py> {
    /// A torch tensor on any device, a numpy array, or a tensor read from a file.
    pub(crate) fn of(object: &Bound<'py, PyAny>) -> PyResult<Input<'py>> {
        let py = object.py();
        if let Some(layout) = exchange(object)?.filter(|found| found.on_cpu) {
            return Ok(Input::Object { owner: object.clone(), layout: layout.layout });
        }
        if let Ok(tensor) = object.cast::<FileTensor>() {
            return Ok(Input::File(tensor.get().tensor().clone()));
        }
        if object.hasattr(intern!(py, "data_ptr"))? {
            return Input::of_torch(object);
        }
        if object.hasattr(intern!(py, "__array_interface__"))? {
            return Input::of_numpy(object);
        }
        let kind = object.get_type().fully_qualified_name()?;
        Err(PyTypeError::new_err(format!("expected a torch tensor, a numpy array or a path, found {kind}")))
    }

    /// A torch tensor in ordinary memory, if its exchange table gives its address.
    pub(crate) fn in_memory(object: &Bound<'py, PyAny>) -> PyResult<Option<Input<'py>>> {
        Ok(exchange(object)?.and_then(|found| found.in_memory(object)))
    }

    /// The same for a pass that asks for magnitudes alone: a pending conjugation or negation does not change these.
    /// Runs no function of torch.
    pub(crate) fn magnitudes_in_memory(object: &Bound<'py, PyAny>) -> PyResult<Option<Input<'py>>> {
        Ok(exchange_unasked(object)?.and_then(|found| found.in_memory(object)))
    }

    /// A torch tensor that the fast path does not support: on another device, with a pending conjugation or negation,
    /// or in a torch release without it.
    fn of_torch(tensor: &Bound<'py, PyAny>) -> PyResult<Input<'py>> {
        let py = tensor.py();
        let plain = if lies_plainly(tensor)? {
            tensor.clone()
        } else {
            let plain = tensor.call_method0(intern!(py, "detach"))?.call_method0(intern!(py, "cpu"))?;
            plain.call_method0(intern!(py, "resolve_conj"))?.call_method0(intern!(py, "resolve_neg"))?
        };
        if let Some(found) = exchange(&plain)? {
            return Ok(Input::Object { owner: plain, layout: found.layout });
        }
        let layout = plain.getattr(intern!(py, "layout"))?.str()?.to_string();
        if layout != "torch.strided" {
            return Err(PyValueError::new_err(format!(
                "expected a dense tensor, found {layout}: use .to_dense()"
            )));
        }
        let dtype = dtype_from_name(&plain.getattr(intern!(py, "dtype"))?.str()?.to_string())?;
        let strides: Vec<isize> = plain.call_method0(intern!(py, "stride"))?.extract()?;
        let layout = Layout {
            dtype,
            shape: plain.getattr(intern!(py, "shape"))?.extract()?,
            strides: strides.into_iter().map(|stride| stride * dtype.size() as isize).collect(),
            address: owned_address(&plain, plain.call_method0(intern!(py, "data_ptr"))?.extract()?, dtype)?,
        };
        Ok(Input::Object { owner: plain, layout })
    }

    fn of_numpy(array: &Bound<'py, PyAny>) -> PyResult<Input<'py>> {
        let py = array.py();
        if array.hasattr(intern!(py, "mask"))? {
            let advice = "use .filled(value) or .compressed()";
            return Err(PyTypeError::new_err(format!(
                "expected a plain array, found a masked one: {advice}"
            )));
        }
        // The address of a numpy scalar is that of a temporary copy.
        let array = &match array.getattr_opt(intern!(py, "__array__"))? {
            Some(to_array) => to_array.call0()?,
            None => array.clone(),
        };
        let dtype = array.getattr(intern!(py, "dtype"))?;
        let order: String = dtype.getattr(intern!(py, "byteorder"))?.extract()?;
        if order == ">" {
            let native = dtype.call_method1(intern!(py, "newbyteorder"), ("<",))?;
            return Input::of_numpy(&array.call_method1(intern!(py, "astype"), (native,))?);
        }
        let dtype = dtype_from_name(&dtype.getattr(intern!(py, "name"))?.extract::<String>()?)?;
        let interface = array.getattr(intern!(py, "__array_interface__"))?;
        let shape: Vec<usize> = interface.get_item("shape")?.extract()?;
        let strides: Option<Vec<isize>> = interface.get_item("strides")?.extract()?;
        let (address, _read_only): (usize, bool) = interface.get_item("data")?.extract()?;
        let strides = strides.unwrap_or_else(|| ulpscope_tensor::contiguous_strides(&shape, dtype.size()));
        Ok(Input::Object { owner: array.clone(), layout: Layout { dtype, shape, strides, address } })
    }

    /// Runs `with` on the view, without the GIL. Ctrl-C ends it early; a file that shrank in the meantime is an error.
    pub(crate) fn detached<T: Send>(
        &self,
        py: Python<'_>,
        with: impl FnOnce(&View<'_>) -> T + Send,
    ) -> PyResult<T> {
        let part = self.part();
        let view = part.view()?;
        let result = measured(py, view.packed_size(), || with(&view))?;
        part.check()?;
        Ok(result)
    }

    /// Runs `with` on the view.
    pub(crate) fn looked_at<T>(&self, with: impl FnOnce(&View<'_>) -> T) -> PyResult<T> {
        self.part().view().map(|view| with(&view))
    }

    /// The same for the views of two inputs.
    pub(crate) fn detached_pair<T: Send>(
        &self,
        other: &Input<'_>,
        py: Python<'_>,
        with: impl FnOnce(&View<'_>, &View<'_>) -> T + Send,
    ) -> PyResult<T> {
        let parts = (self.part(), other.part());
        let views = (parts.0.view()?, parts.1.view()?);
        let size = views.0.packed_size().saturating_add(views.1.packed_size());
        let result = measured(py, size, || with(&views.0, &views.1))?;
        parts.0.check()?;
        parts.1.check()?;
        Ok(result)
    }

    /// The same for the views of several inputs.
    pub(crate) fn detached_together<T: Send>(
        inputs: &[&Input<'_>],
        py: Python<'_>,
        with: impl FnOnce(&[View<'_>]) -> T + Send,
    ) -> PyResult<T> {
        let parts: Vec<Part<'_>> = inputs.iter().map(|input| input.part()).collect();
        let views = parts.iter().map(Part::view).collect::<PyResult<Vec<_>>>()?;
        let size = views.iter().map(View::packed_size).fold(0, usize::saturating_add);
        let result = measured(py, size, || with(&views))?;
        parts.iter().try_for_each(Part::check)?;
        Ok(result)
    }

    /// The tensor as an owned value, which keeps the object alive instead of copying its elements. It refers to the
    /// whole torch storage, so that shared storages are recognised.
    pub(crate) fn into_tensor(self) -> PyResult<Tensor> {
        let (owner, layout) = match self {
            Input::File(tensor) => return Ok(tensor),
            Input::Object { owner, layout } => (owner, layout),
        };
        let (before, length) = layout.extent()?;
        let own = Region { address: layout.address.wrapping_sub(before), length };
        let region = storage_of(&owner)?.filter(|storage| storage.contains(&own)).unwrap_or(own);
        let origin = layout.address.wrapping_sub(region.address);
        let memory = ObjectMemory { _owner: owner.unbind(), region };
        // Without elements there is no first one.
        let origin = if length == 0 { 0 } else { origin };
        Tensor::strided(layout.dtype, layout.shape, layout.strides, Bytes::foreign(memory), origin)
            .map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// The tensor as an owned value, with no more memory than it spans.
    pub(crate) fn into_lone_tensor(self) -> PyResult<Tensor> {
        let (owner, layout) = match self {
            Input::File(tensor) => return Ok(tensor),
            Input::Object { owner, layout } => (owner, layout),
        };
        let (before, length) = layout.extent()?;
        let region = Region { address: layout.address.wrapping_sub(before), length };
        let memory = ObjectMemory { _owner: owner.unbind(), region };
        Tensor::strided(layout.dtype, layout.shape, layout.strides, Bytes::foreign(memory), before)
            .map_err(|error| PyValueError::new_err(error.to_string()))
    }

    fn part(&self) -> Part<'_> {
        match self {
            Input::Object { layout, .. } => Part::Object(layout),
            Input::File(tensor) => Part::File(tensor),
        }
    }
}

/// An input without its Python object.
enum Part<'a> {
    Object(&'a Layout),
    File(&'a Tensor),
}

impl<'a> Part<'a> {
    fn view(&self) -> PyResult<View<'a>> {
        match self {
            Part::Object(layout) => layout.view(),
            Part::File(tensor) => Ok(tensor.view()),
        }
    }

    /// An error if zeros may have been read, because the mapped file shrank.
    fn check(&self) -> PyResult<()> {
        match self {
            Part::Object(layout) => check_memory(layout.address),
            Part::File(tensor) => tensor.check(),
        }
        .map_err(to_python)
    }
}

/// Runs a pass over this many bytes: here if it is short, else interruptible by Ctrl-C.
fn measured<T: Send>(py: Python<'_>, bytes: usize, pass: impl FnOnce() -> T + Send) -> PyResult<T> {
    if bytes <= LONG_WORK_BYTES {
        return Ok(py.detach(pass));
    }
    interruptible(py, |stop| stoppable(stop, pass))
}

/// Whether a torch tensor can be read in place. Then no torch operation runs on it: a dispatch mode would see the
/// operation, and a function transform would wrap its result.
fn lies_plainly(tensor: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = tensor.py();
    let is = |name| tensor.call_method0(name).and_then(|answer: Bound<'_, PyAny>| answer.is_truthy());
    let Some(device) = tensor.getattr_opt(intern!(py, "device"))? else { return Ok(false) };
    let device: String = device.getattr(intern!(py, "type"))?.extract()?;
    Ok(device == "cpu" && !is(intern!(py, "is_conj"))? && !is(intern!(py, "is_neg"))?)
}

/// A run of bytes in memory.
struct Region {
    address: usize,
    length: usize,
}

impl Region {
    fn contains(&self, other: &Region) -> bool {
        let from_start = other.address.checked_sub(self.address);
        from_start.is_some_and(|start| other.length <= self.length && start <= self.length - other.length)
    }
}

/// The storage of a torch tensor.
fn storage_of(tensor: &Bound<'_, PyAny>) -> PyResult<Option<Region>> {
    let py = tensor.py();
    let Some(storage) = tensor.getattr_opt(intern!(py, "untyped_storage"))? else { return Ok(None) };
    let storage = storage.call0()?;
    Ok(Some(Region {
        address: storage.call_method0(intern!(py, "data_ptr"))?.extract()?,
        length: storage.call_method0(intern!(py, "nbytes"))?.extract()?,
    }))
}

/// Memory of a Python object, which is kept alive.
struct ObjectMemory {
    _owner: Py<PyAny>,
    region: Region,
}

impl AsRef<[u8]> for ObjectMemory {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: see `memory`; the owner is held by this very structure.
        #[expect(unsafe_code)]
        unsafe {
            memory(self.region.address, self.region.length)
        }
    }
}

/// The bytes from `address` on.
///
/// # Safety
/// Address and length must be what an object says of its own memory (by address, shape and strides), and the
/// object must live for as long as the slice is used: it keeps its memory while it lives.
#[expect(unsafe_code)]
unsafe fn memory<'a>(address: usize, length: usize) -> &'a [u8] {
    if length == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(address as *const u8, length) }
}

impl Layout {
    /// How many bytes are before element zero (with negative strides), and how many in total.
    fn extent(&self) -> PyResult<(usize, usize)> {
        if self.shape.contains(&0) {
            return Ok((0, 0));
        }
        if self.address == 0 {
            return Err(PyValueError::new_err(
                "the tensor has a shape but no memory (is it a fake or a wrapper?): give the tensor within it",
            ));
        }
        let overflow =
            || PyValueError::new_err(format!("shape {:?} overflows the address space", self.shape));
        let (mut before, mut after) = (0usize, self.dtype.size());
        for (&dim, &stride) in self.shape.iter().zip(&self.strides) {
            let reach = (dim - 1).checked_mul(stride.unsigned_abs()).ok_or_else(overflow)?;
            let side = if stride < 0 { &mut before } else { &mut after };
            *side = side.checked_add(reach).ok_or_else(overflow)?;
        }
        Ok((before, before.checked_add(after).ok_or_else(overflow)?))
    }

    fn view(&self) -> PyResult<View<'_>> {
        let (before, length) = self.extent()?;
        // SAFETY: the layout is what the object says of itself, and `Input` holds a reference to the object for as
        // long as this borrow of its layout lasts.
        #[expect(unsafe_code)]
        let bytes = unsafe { memory(self.address.wrapping_sub(before), length) };
        View::strided(self.dtype, &self.shape, &self.strides, bytes, before)
            .map_err(|error| PyValueError::new_err(error.to_string()))
    }
}

fn dtype_from_name(name: &str) -> PyResult<DType> {
    name.parse().map_err(|_| PyTypeError::new_err(format!("a tensor of dtype {name} cannot be measured")))
}

/// The exchange table's answer for an object.
struct Exchanged {
    layout: Layout,
    device: dlpack::Device,
    on_cpu: bool,
    /// The table, which knows the current stream, too.
    api: &'static ExchangeApi,
}

impl Exchanged {
    /// The input, if its elements are in ordinary memory.
    fn in_memory<'py>(self, owner: &Bound<'py, PyAny>) -> Option<Input<'py>> {
        // A tensor of implicit zeros has no address, like one without elements.
        let is_there = self.layout.address != 0 || self.layout.shape.contains(&0);
        (self.on_cpu && is_there).then(|| Input::Object { owner: owner.clone(), layout: self.layout })
    }
}

/// A torch tensor in the memory of an NVIDIA GPU.
pub(crate) struct OnGpu {
    pub(crate) tensor: GpuTensor,
    /// The number of the GPU.
    pub(crate) device: i32,
    /// The stream that is current there.
    pub(crate) stream: Stream,
}

/// Where the elements of a torch tensor are, as its exchange table says.
pub(crate) enum TensorPlace<'py> {
    Memory(Input<'py>),
    Gpu(OnGpu),
    /// Another device, or memory that was freed.
    Elsewhere,
}

/// Where the elements of a torch tensor are; `None` if its exchange table does not say.
pub(crate) fn place_of<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<TensorPlace<'py>>> {
    let Some(found) = exchange(object)? else { return Ok(None) };
    if found.on_cpu {
        return Ok(found.in_memory(object).map(TensorPlace::Memory));
    }
    Ok(Some(found.on_gpu(object)?.map_or(TensorPlace::Elsewhere, TensorPlace::Gpu)))
}

/// Where elements are in memory, whatever is pending for their values.
pub(crate) struct Span {
    /// Address of element zero.
    pub(crate) address: usize,
    /// Bytes of an element.
    pub(crate) size: usize,
    pub(crate) shape: Vec<usize>,
    /// In elements.
    pub(crate) strides: Vec<usize>,
}

/// Where the elements of a torch tensor are on their device; `None` if its exchange table does not say, or if it has no
/// memory.
pub(crate) fn span_of(object: &Bound<'_, PyAny>) -> PyResult<Option<Span>> {
    let found = exchange_unasked(object)?.filter(|found| found.layout.address != 0);
    Ok(found.and_then(|Exchanged { layout: Layout { dtype, shape, strides, address }, .. }| {
        let size = dtype.size();
        let in_elements = |&stride: &isize| usize::try_from(stride).ok().map(|stride| stride / size);
        let strides = strides.iter().map(in_elements).collect::<Option<_>>()?;
        Some(Span { address, size, shape, strides })
    }))
}

/// Where a torch tensor on an NVIDIA GPU is, if its exchange table says so.
pub(crate) fn on_gpu(object: &Bound<'_, PyAny>) -> PyResult<Option<OnGpu>> {
    exchange(object)?.map_or(Ok(None), |found| found.on_gpu(object))
}

impl Exchanged {
    fn on_gpu(self, object: &Bound<'_, PyAny>) -> PyResult<Option<OnGpu>> {
        let Exchanged { layout, device, api, .. } = self;
        let is_there = device.kind == dlpack::CUDA && layout.address != 0;
        let Some(ask) = api.current_stream.filter(|_| is_there) else { return Ok(None) };
        let mut stream = std::ptr::null_mut();
        // SAFETY: the table belongs to the type of this very object, the GIL is held, and there is room for a pointer.
        #[expect(unsafe_code)]
        let status = unsafe { ask(device.kind, device.id, &mut stream) };
        if status != 0 {
            drop(PyErr::take(object.py()));
            return Ok(None);
        }
        let Layout { dtype, shape, strides, address } = layout;
        let tensor = GpuTensor { dtype, shape, strides, address: address as u64 };
        Ok(Some(OnGpu { tensor, device: device.id, stream: Stream(stream as usize) }))
    }
}

/// The stream that is current on a GPU for this thread, as the exchange table of a class of tensors says.
pub(crate) fn current_stream(kind: &Bound<'_, PyType>, device: i32) -> PyResult<Option<Stream>> {
    Ok(stream_asker(kind)?.and_then(|ask| ask(device)))
}

/// What answers that, also without the GIL.
pub(crate) fn stream_asker(
    kind: &Bound<'_, PyType>,
) -> PyResult<Option<impl Fn(i32) -> Option<Stream> + Send + Sync + 'static>> {
    let ask = exchange_api(kind)?.and_then(|api| api.current_stream);
    Ok(ask.map(|ask| {
        move |device| {
            let mut stream = std::ptr::null_mut();
            // SAFETY: the table is that of a class of torch, which is never unloaded, and there is room for a pointer.
            // Torch reads a variable of the thread, and fails only for a device that does not exist.
            #[expect(unsafe_code)]
            let status = unsafe { ask(dlpack::CUDA, device, &mut stream) };
            (status == 0).then_some(Stream(stream as usize))
        }
    }))
}

/// Where an object's elements are, by its type's exchange table; `None` if there is no table, or the table refuses this
/// object.
fn exchange(object: &Bound<'_, PyAny>) -> PyResult<Option<Exchanged>> {
    match exchange_unasked(object)? {
        Some(found) if !is_pending(object, found.layout.dtype)? => Ok(Some(found)),
        _ => Ok(None),
    }
}

/// The same without asking whether a conjugation or negation is pending.
fn exchange_unasked(object: &Bound<'_, PyAny>) -> PyResult<Option<Exchanged>> {
    let Some(api) = exchange_api(&object.get_type())? else { return Ok(None) };
    let Some(borrow) = api.borrow_from_object else { return Ok(None) };
    let mut tensor = std::mem::MaybeUninit::<DLTensor>::zeroed();
    // SAFETY: the table belongs to the type of this very object, the GIL is held, and `tensor` has room.
    #[expect(unsafe_code)]
    let status = unsafe { borrow(object.as_ptr().cast(), tensor.as_mut_ptr()) };
    if status != 0 {
        // A sparse layout or a wrapper: the slower path has a better message, if anything is wrong.
        drop(PyErr::take(object.py()));
        return Ok(None);
    }
    // SAFETY: the function reported success, so it has filled the structure; and all-zero was valid before.
    #[expect(unsafe_code)]
    let tensor = unsafe { tensor.assume_init() };
    let rank = usize::try_from(tensor.ndim).unwrap_or(0);
    // SAFETY: shape and strides point to `ndim` numbers that live as long as the object is not changed, and the
    // GIL is held until they are copied. Strides may be null for a packed tensor, and both may be without rank.
    #[expect(unsafe_code)]
    let numbers = |pointer: *const i64| unsafe {
        if rank == 0 || pointer.is_null() { &[][..] } else { std::slice::from_raw_parts(pointer, rank) }
    };
    let dtype = dtype_from_dlpack(tensor.dtype)?;
    let shape: Vec<usize> = numbers(tensor.shape).iter().map(|&dim| dim as usize).collect();
    let strides = if tensor.strides.is_null() {
        ulpscope_tensor::contiguous_strides(&shape, dtype.size())
    } else {
        numbers(tensor.strides).iter().map(|&stride| stride as isize * dtype.size() as isize).collect()
    };
    let address = owned_address(object, tensor.data as usize + tensor.byte_offset as usize, dtype)?;
    Ok(Some(Exchanged {
        layout: Layout { dtype, shape, strides, address },
        device: tensor.device,
        on_cpu: tensor.device.kind == dlpack::CPU,
        api,
    }))
}

/// The address of a tensor's first element, or zero if its storage was freed (`untyped_storage().resize_(0)`, as FSDP
/// does). Torch adds the offset of a view to the address of its storage, even if that is zero.
fn owned_address(object: &Bound<'_, PyAny>, address: usize, dtype: DType) -> PyResult<usize> {
    if address == 0 || address as u64 >= LARGEST_OFFSET {
        return Ok(address);
    }
    let py = object.py();
    let Some(offset) = object.getattr_opt(intern!(py, "storage_offset"))? else { return Ok(address) };
    let offset: usize = offset.call0()?.extract()?;
    Ok(if offset.saturating_mul(dtype.size()) == address { 0 } else { address })
}

/// Whether a conjugation or negation of the elements is pending. Torch applies it on reading, and its exchange table
/// does not report it.
fn is_pending(object: &Bound<'_, PyAny>, dtype: DType) -> PyResult<bool> {
    let py = object.py();
    let is_set = |flag| match ask(object, flag) {
        // Without the method nothing is pending; an error inside the method is no answer.
        Err(error) if error.is_instance_of::<PyAttributeError>(py) => {
            if object.hasattr(flag)? {
                Err(error)
            } else {
                Ok(false)
            }
        }
        answer => answer?.is_truthy(),
    };
    Ok(is_set(intern!(py, "is_neg"))? || dtype.is_complex() && is_set(intern!(py, "is_conj"))?)
}

thread_local! {
    /// The last types and their tables: nearly every call is about a tensor or a parameter.
    static LAST_TYPES: RefCell<Vec<(Py<PyType>, Option<&'static ExchangeApi>)>> = const { RefCell::new(Vec::new()) };
}

/// Types whose tables are remembered.
const MAX_TYPES: usize = 4;

fn exchange_api(kind: &Bound<'_, PyType>) -> PyResult<Option<&'static ExchangeApi>> {
    let known =
        LAST_TYPES.with_borrow(|last| last.iter().find(|(known, _)| known.is(kind)).map(|(_, api)| *api));
    if let Some(api) = known {
        return Ok(api);
    }
    // Nothing is borrowed here: the type may run Python code, which may call us again.
    let capsule = kind.getattr_opt(intern!(kind.py(), "__dlpack_c_exchange_api__"))?;
    let api = capsule.and_then(|capsule| api_from_capsule(&capsule));
    let forgotten = LAST_TYPES.with_borrow_mut(|last| {
        last.push((kind.clone().unbind(), api));
        (last.len() > MAX_TYPES).then(|| last.remove(0))
    });
    drop(forgotten);
    Ok(api)
}

fn api_from_capsule(capsule: &Bound<'_, PyAny>) -> Option<&'static ExchangeApi> {
    let capsule = capsule.cast::<PyCapsule>().ok()?;
    let pointer = capsule.pointer_checked(Some(dlpack::EXCHANGE_CAPSULE)).ok()?;
    // SAFETY: the protocol says that a capsule of this name holds a table that lives as long as the process. Its
    // header comes first in every version, and is looked at before anything else.
    #[expect(unsafe_code)]
    let api: &'static ExchangeApi = unsafe { pointer.cast().as_ref() };
    (api.header.major == dlpack::MAJOR_VERSION).then_some(api)
}

fn dtype_from_dlpack(DataType { code, bits, lanes }: DataType) -> PyResult<DType> {
    DType::from_dlpack(code, bits).filter(|_| lanes == 1).ok_or_else(|| {
        let found = match (code, bits, lanes) {
            (5, 32, 1) => "complex numbers of 32 bits".to_owned(),
            _ => format!("code {code}, {bits} bits, {lanes} lanes"),
        };
        PyTypeError::new_err(format!("a tensor of this dtype cannot be measured: {found}"))
    })
}
