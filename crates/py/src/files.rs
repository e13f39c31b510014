//! Files for Python: their contents as ordinary objects, with tensors as [`FileTensor`]s.

use std::collections::HashMap;
use std::ffi::c_void;
use std::path::PathBuf;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use pyo3::{IntoPyObjectExt, ffi};
use ulpscope_dump::tensor_at;
use ulpscope_dump::writer::{PackSize, TensorFormat};
use ulpscope_formats::file::{self, Format};
use ulpscope_formats::{Access, Bytes, Error, Fault, Tensor, Value};
use ulpscope_tensor::DType;

use crate::dlpack::{CPU, DLTensor, DataType, Device, ManagedTensor, TENSOR_CAPSULE};
use crate::errors::{shown, to_python};
use crate::input::Input;
use crate::interrupt::{LONG_WORK_BYTES, Stop, go_on, interruptible};
use crate::result_bytes::{Reduced, hash, packed, reduce, same};

/// The deepest nesting of containers; tensors are not nested deeper.
pub(crate) const MAX_DEPTH: usize = 100;

/// A tensor of a file, in memory or mapped. Writing to it never changes the file.
#[pyclass(frozen, module = "ulpscope")]
pub(crate) struct FileTensor {
    tensor: Tensor,
}

impl FileTensor {
    pub(crate) fn new(tensor: Tensor) -> FileTensor {
        FileTensor { tensor }
    }

    pub(crate) fn tensor(&self) -> &Tensor {
        &self.tensor
    }

    /// The bytes from the first element to the last; strides in files are never negative.
    fn region(&self) -> Bytes {
        let tensor = &self.tensor;
        if tensor.shape().contains(&0) {
            return tensor.storage().slice(0..0);
        }
        let reach =
            tensor.shape().iter().zip(tensor.strides()).map(|(&dim, &stride)| (dim - 1) * stride as usize);
        let length = reach.sum::<usize>() + tensor.dtype().size();
        tensor.storage().slice(tensor.origin()..tensor.origin() + length)
    }
}

#[pymethods]
impl FileTensor {
    /// Element type, by torch's name.
    #[getter]
    fn dtype(&self) -> &'static str {
        self.tensor.dtype().name()
    }

    /// Dimensions, outermost first.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.tensor.shape())
    }

    /// Strides in elements.
    #[getter]
    fn strides<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let size = self.tensor.dtype().size() as isize;
        PyTuple::new(py, self.tensor.strides().iter().map(|stride| stride / size))
    }

    /// Whether the address of the first element is a multiple of its size, as frameworks expect.
    #[getter]
    fn aligned(&self) -> bool {
        (self.region().as_ptr() as usize).is_multiple_of(self.tensor.dtype().size())
    }

    /// The raw bytes from the first element to the last, for numpy.
    #[getter]
    fn __array_interface__<'py>(slf: &Bound<'py, FileTensor>) -> PyResult<Bound<'py, PyDict>> {
        let region = slf.get().region();
        let interface = PyDict::new(slf.py());
        interface.set_item("version", 3)?;
        interface.set_item("typestr", "|u1")?;
        interface.set_item("shape", (region.len(),))?;
        interface.set_item("data", (region.as_ptr() as usize, !region.is_writable()))?;
        Ok(interface)
    }

    /// DLPack's device: ordinary memory.
    fn __dlpack_device__(&self) -> (i32, i32) {
        (CPU, 0)
    }

    /// The raw bytes from the first element to the last, for any framework.
    #[pyo3(signature = (**_options))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        _options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let region = self.region();
        let bytes = Box::new(ExportedBytes { shape: [region.len() as i64], strides: [1], bytes: region });
        let tensor = DLTensor {
            data: bytes.bytes.as_ptr().cast_mut().cast(),
            device: Device { kind: CPU, id: 0 },
            ndim: 1,
            dtype: DataType { code: 1, bits: 8, lanes: 1 },
            shape: bytes.shape.as_ptr().cast_mut(),
            strides: bytes.strides.as_ptr().cast_mut(),
            byte_offset: 0,
        };
        let context = Box::into_raw(bytes).cast();
        let managed =
            Box::into_raw(Box::new(ManagedTensor { tensor, context, deleter: Some(delete_exported) }));
        // SAFETY: the GIL is held; the capsule owns `managed` until a consumer renames it, and its destructor
        // deletes it only if nobody has. When no capsule comes to be, nobody else knows the pointer.
        #[expect(unsafe_code)]
        unsafe {
            let capsule = ffi::PyCapsule_New(managed.cast(), TENSOR_CAPSULE.as_ptr(), Some(delete_unused));
            if capsule.is_null() {
                delete_exported(managed);
                return Err(PyErr::fetch(py));
            }
            Ok(Bound::from_owned_ptr(py, capsule))
        }
    }

    fn __repr__(&self) -> String {
        format!("FileTensor(dtype={}, shape={:?})", self.tensor.dtype(), self.tensor.shape())
    }
}

/// Something in a file that was not read: a tensor of an unknown kind, or an object that is no tensor.
#[pyclass(frozen, module = "ulpscope")]
pub(crate) struct Unread {
    /// Why it was not read.
    #[pyo3(get)]
    reason: String,
}

#[pymethods]
impl Unread {
    fn __repr__(&self) -> String {
        format!("Unread({:?})", self.reason)
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        same(self, other.cast::<Unread>().ok().map(Bound::get))
    }

    fn __hash__(&self) -> u64 {
        hash(self)
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Reduced<'py>> {
        reduce(py, "Unread", self)
    }
}

packed! { Unread { reason } }

/// The data that an exported tensor refers to: at a fixed address, until its deleter runs.
struct ExportedBytes {
    shape: [i64; 1],
    strides: [i64; 1],
    bytes: Bytes,
}

/// # Safety
/// `managed` must come from [`FileTensor::__dlpack__`] and not have been deleted before.
#[expect(unsafe_code)]
unsafe extern "C" fn delete_exported(managed: *mut ManagedTensor) {
    // SAFETY: both were made by `Box::into_raw`, and are taken back once.
    unsafe {
        let managed = Box::from_raw(managed);
        drop(Box::from_raw(managed.context.cast::<ExportedBytes>()));
    }
}

/// # Safety
/// Called by Python on a capsule of ours, with the GIL held.
#[expect(unsafe_code)]
unsafe extern "C" fn delete_unused(capsule: *mut ffi::PyObject) {
    // SAFETY: a consumer renames the capsule when it takes the tensor over, so that a capsule that still has its
    // name still owns it.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, TENSOR_CAPSULE.as_ptr()) == 1 {
            let managed: *mut c_void = ffi::PyCapsule_GetPointer(capsule, TENSOR_CAPSULE.as_ptr());
            delete_exported(managed.cast());
        }
    }
}

/// Reads a file. Its containers and scalars become Python's; its tensors become [`FileTensor`]s, or the results of
/// `convert` for these. Tensors are copied, unless `mmap` requests the mapped file.
#[pyfunction]
#[pyo3(signature = (path, convert = None, *, mmap = false))]
pub(crate) fn read_file(
    py: Python<'_>,
    path: PathBuf,
    convert: Option<&Bound<'_, PyAny>>,
    mmap: bool,
) -> PyResult<Py<PyAny>> {
    let read = |stop: &Stop| {
        // One tensor of a dump is copied, whatever was asked: its file is mapped for reading alone.
        if let Some(tensor) = tensor_at(&path)? {
            let copied = Value::Tensor(tensor).copied(&|| go_on(stop));
            return copied.map_err(|error| error.in_file(&path));
        }
        if mmap {
            // Private pages: writes to a loaded tensor stay in this process.
            return Ok(file::read(&path, Access::CopyOnWrite)?.value);
        }
        let copied = file::read(&path, Access::ReadOnly)?.value.copied(&|| go_on(stop));
        copied.map_err(|error| error.in_file(&path))
    };
    let is_long = path.metadata().is_ok_and(|metadata| metadata.len() > LONG_WORK_BYTES as u64);
    let value = if is_long { interruptible(py, read)? } else { py.detach(|| read(&Stop::default())) };
    to_object(py, &value.map_err(to_python)?, convert)
}

/// The readers limit the depth.
fn to_object(py: Python<'_>, value: &Value, convert: Option<&Bound<'_, PyAny>>) -> PyResult<Py<PyAny>> {
    let items =
        |items: &[Value]| items.iter().map(|item| to_object(py, item, convert)).collect::<PyResult<Vec<_>>>();
    match value {
        Value::None => Ok(py.None()),
        Value::Bool(value) => value.into_py_any(py),
        Value::Int(value) => match i64::try_from(*value) {
            Ok(value) => value.into_py_any(py),
            // As text: the stable ABI has no 128-bit integers.
            Err(_) => py.get_type::<PyInt>().call1((value.to_string(),))?.into_py_any(py),
        },
        Value::Float(value) => value.into_py_any(py),
        Value::Str(value) => value.into_py_any(py),
        Value::Bytes(value) => PyBytes::new(py, value).into_py_any(py),
        Value::List(values) => PyList::new(py, items(values)?)?.into_py_any(py),
        Value::Tuple(values) => PyTuple::new(py, items(values)?)?.into_py_any(py),
        Value::Dict(pairs) => {
            let dict = PyDict::new(py);
            for (key, value) in pairs {
                dict.set_item(to_object(py, key, convert)?, to_object(py, value, convert)?)?;
            }
            dict.into_py_any(py)
        }
        Value::Tensor(tensor) => {
            let tensor = FileTensor { tensor: tensor.clone() }.into_py_any(py)?;
            convert.map_or(Ok(tensor.clone_ref(py)), |convert| convert.call1((tensor,)).map(Bound::unbind))
        }
        Value::Opaque(reason) | Value::Unread(reason) => Unread { reason: reason.clone() }.into_py_any(py),
    }
}

/// Writes tensors, and the containers and scalars around them, in the format of the path's suffix.
#[pyfunction]
pub(crate) fn write_file(py: Python<'_>, path: PathBuf, x: &Bound<'_, PyAny>) -> PyResult<()> {
    let Some(format) = Format::of_extension(&path) else {
        let found = path.display();
        let expected = Format::general_extensions(" or ");
        let message = format!("{found}: the suffix names no format; expected {expected}");
        return Err(PyValueError::new_err(shown(message)));
    };
    let value = to_value(x, "", &mut HashMap::new(), MAX_DEPTH)?;
    let left_out = file::left_out(format, &value);
    if !left_out.is_empty() {
        let what = left_out.iter().map(|path| at(path)).collect::<Vec<_>>().join(", ");
        let fault = Fault::Unsupported(format!("{format} has no place for what is no tensor: {what}"));
        return Err(to_python(Error::whole(fault).in_file(&path)));
    }
    let size: usize = value
        .tensors()
        .iter()
        .fold(0, |size: usize, (_, tensor)| size.saturating_add(tensor.view().packed_size()));
    let write = |stop: &Stop| file::write_while(&path, format, &value, &|| go_on(stop));
    let written = if size > LONG_WORK_BYTES {
        interruptible(py, write)?
    } else {
        py.detach(|| write(&Stop::default()))
    };
    written.map_err(to_python)
}

/// The number of files, and their bytes, that capture writes for tensors with these names, dtypes and shapes.
#[pyfunction]
pub(crate) fn pack_size(tensors: Vec<(String, String, Vec<usize>)>) -> (u64, u64) {
    let mut size = PackSize::default();
    for (name, dtype, shape) in &tensors {
        // The values of a dtype that no file has are saved as others; a byte is the least.
        let dtype = dtype.strip_prefix("torch.").and_then(|name| name.parse().ok()).unwrap_or(DType::U8);
        size.add(name, dtype, shape);
    }
    size.total()
}

/// The formats in which capture saves tensors, the default first.
#[pyfunction]
pub(crate) fn recorded_formats() -> Vec<&'static str> {
    TensorFormat::all().map(TensorFormat::name).collect()
}

/// The position in the saved value, for messages.
fn at(path: &str) -> &str {
    if path.is_empty() { "the value itself" } else { path }
}

/// An error about an object that cannot be saved: its position, and that no path is expected there.
fn unwritable(object: &Bound<'_, PyAny>, path: &str, error: PyErr) -> PyErr {
    let py = object.py();
    let is_tensor =
        ["__array_interface__", "data_ptr"].iter().any(|&name| object.hasattr(name).unwrap_or(false));
    let said = if is_tensor {
        error.value(py).to_string()
    } else {
        let kind =
            object.get_type().fully_qualified_name().map_or_else(|_| "?".to_owned(), |name| name.to_string());
        format!("expected a tensor, a plain value or a container of them, found {kind}")
    };
    PyErr::from_type(error.get_type(py), shown(format!("{}: {said}", at(path))))
}

/// Storages so far, so that tensors which share one in memory share one in the file.
type Storages = HashMap<(usize, usize), Bytes>;

/// `path` is the dotted path of the object, for messages.
fn to_value(object: &Bound<'_, PyAny>, path: &str, storages: &mut Storages, depth: usize) -> PyResult<Value> {
    let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    let Some(depth) = depth.checked_sub(1) else {
        return Err(PyValueError::new_err(format!("containers are nested deeper than {MAX_DEPTH} levels")));
    };
    if object.is_none() {
        return Ok(Value::None);
    }
    if let Ok(flag) = object.cast::<PyBool>() {
        return Ok(Value::Bool(flag.is_true()));
    }
    if object.is_instance_of::<PyInt>() {
        let text = object.str()?.to_string();
        return text
            .parse()
            .map(Value::Int)
            .map_err(|_| PyValueError::new_err(format!("{text} has over 128 bits")));
    }
    if object.is_instance_of::<PyFloat>() {
        return object.extract().map(Value::Float);
    }
    if let Ok(text) = object.cast::<PyString>() {
        return Ok(Value::Str(text.to_string()));
    }
    if let Ok(bytes) = object.cast::<PyBytes>() {
        return Ok(Value::Bytes(bytes.as_bytes().to_vec()));
    }
    if let Ok(dict) = object.cast::<PyDict>() {
        let mut pairs = Vec::with_capacity(dict.len());
        for (key, value) in dict.iter() {
            let path = below(&key.str()?.to_string_lossy());
            pairs.push((to_value(&key, &path, storages, depth)?, to_value(&value, &path, storages, depth)?));
        }
        return Ok(Value::Dict(pairs));
    }
    if object.is_instance_of::<PyList>() || object.is_instance_of::<PyTuple>() {
        let items = object.try_iter()?.enumerate();
        let items = items.map(|(index, item)| to_value(&item?, &below(&index.to_string()), storages, depth));
        let items = items.collect::<PyResult<Vec<_>>>()?;
        return Ok(if object.is_instance_of::<PyList>() { Value::List(items) } else { Value::Tuple(items) });
    }
    if let Ok(unread) = object.cast::<Unread>() {
        let reason = &unread.get().reason;
        let message = format!("{}: was not read, and is not written: {reason}", at(path));
        return Err(PyValueError::new_err(shown(message)));
    }
    let tensor =
        Input::of(object).and_then(Input::into_tensor).map_err(|error| unwritable(object, path, error))?;
    let key = (tensor.storage().as_ptr() as usize, tensor.storage().len());
    let storage = storages.entry(key).or_insert_with(|| tensor.storage().clone()).clone();
    let (shape, strides) = (tensor.shape().to_vec(), tensor.strides().to_vec());
    Tensor::strided(tensor.dtype(), shape, strides, storage, tensor.origin())
        .map(Value::Tensor)
        .map_err(|error| PyTypeError::new_err(error.to_string()))
}
