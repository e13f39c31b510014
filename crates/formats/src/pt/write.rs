//! Writes the archive: chooses which bytes of which storages go into the file.

use std::collections::HashMap;
use std::io::Write;

use ulpscope_tensor::{DType, View, contiguous_strides};

use super::pickler;
use crate::error::{Error, Fault};
use crate::packed::write_packed;
use crate::tensor::Tensor;
use crate::value::Value;
use crate::zip_entries::ArchiveWriter;

/// The folder within the archive. Torch uses the name of the file and accepts any.
const ROOT: &str = "archive";

/// Torch's version of the archive format.
const VERSION: &[u8] = b"3\n";

/// A tensor that spans more than this many times the bytes of its elements is packed instead.
const MAX_SPARSENESS: usize = 2;

/// Writes a value as `torch.save` would, for `torch.load` of torch 2.1 or newer, also with `weights_only=True`.
/// (Torch 2.1 itself has no files of 8-bit floats, and accepts bytes among the values only without that flag.)
///
/// Tensors keep their strides, and tensors that share a storage share one in the file. Only the bytes that
/// tensors span are written. A single tensor scattered over much more than it needs is packed. The same value
/// always gives the same bytes.
pub fn write(value: &Value, out: &mut dyn Write) -> Result<(), Error> {
    if let Some((path, what)) = value.opaque().into_iter().chain(value.unread()).next() {
        return Err(Error::whole(Fault::Unsupported(format!("{what} cannot be written"))).in_part(&path));
    }
    let layout = Layout::of(value)?;
    let pickle = pickler::pickle(value, &layout)?;
    let mut archive = ArchiveWriter::new(out);
    archive.small_entry(&format!("{ROOT}/data.pkl"), &pickle)?;
    archive.small_entry(&format!("{ROOT}/.format_version"), b"1")?;
    archive.small_entry(&format!("{ROOT}/.storage_alignment"), b"64")?;
    archive.small_entry(&format!("{ROOT}/byteorder"), b"little")?;
    for (number, storage) in layout.storages.iter().enumerate() {
        archive.entry(&format!("{ROOT}/data/{number}"), storage.size() as u64, |payload| {
            storage.write(payload).map_err(|error| Error::whole(Fault::from(error)))
        })?;
    }
    archive.small_entry(&format!("{ROOT}/version"), VERSION)?;
    archive.finish()
}

/// The place of every tensor of a value.
pub(super) struct Layout<'a> {
    /// In the order of a walk of the value.
    pub tensors: Vec<Placed>,
    storages: Vec<Content<'a>>,
}

/// One tensor's place, in elements.
pub(super) struct Placed {
    pub dtype: DType,
    pub storage: usize,
    pub storage_elements: usize,
    pub offset: usize,
    pub shape: Vec<usize>,
    pub strides: Vec<usize>,
}

/// The content of one storage.
enum Content<'a> {
    AsItLies(&'a [u8]),
    Packed(View<'a>),
}

/// Tensors that can share a storage in the file: the same memory, the same dtype (torch has one per storage),
/// and offsets that are multiples of the element size.
#[derive(PartialEq, Eq, Hash)]
struct Memory {
    address: usize,
    size: usize,
    dtype: DType,
    phase: usize,
}

/// The bytes that the tensors of one memory span.
struct Span<'a> {
    bytes: &'a [u8],
    start: usize,
    end: usize,
    tensors: usize,
    /// Its number in the file, once a tensor has been placed in it.
    storage: Option<usize>,
}

impl<'a> Layout<'a> {
    fn of(value: &'a Value) -> Result<Layout<'a>, Error> {
        let tensors = value.tensors();
        let mut spans: HashMap<Memory, Span<'a>> = HashMap::new();
        for (path, tensor) in &tensors {
            if !tensor.dtype().is_in_torch() {
                let reason =
                    format!("torch has no {}; write .npy or .safetensors, or cast it first", tensor.dtype());
                return Err(Error::whole(Fault::Unsupported(reason)).in_part(path));
            }
            if let Some((start, end)) = extent(tensor) {
                let span = spans.entry(memory(tensor)).or_insert(Span {
                    bytes: tensor.storage(),
                    start,
                    end,
                    tensors: 0,
                    storage: None,
                });
                span.start = span.start.min(start);
                span.end = span.end.max(end);
                span.tensors += 1;
            }
        }
        let mut layout = Layout { tensors: Vec::with_capacity(tensors.len()), storages: Vec::new() };
        for (_, tensor) in &tensors {
            let span = extent(tensor).and_then(|_| spans.get_mut(&memory(tensor)));
            match span.filter(|span| !span.is_wasteful_for(tensor)) {
                Some(span) => layout.place(tensor, span),
                None => layout.pack(tensor),
            }
        }
        Ok(layout)
    }

    /// Places a tensor within its span.
    fn place(&mut self, tensor: &Tensor, span: &mut Span<'a>) {
        let size = tensor.dtype().size();
        let storage = *span.storage.get_or_insert_with(|| {
            self.storages.push(Content::AsItLies(&span.bytes[span.start..span.end]));
            self.storages.len() - 1
        });
        self.tensors.push(Placed {
            dtype: tensor.dtype(),
            storage,
            storage_elements: (span.end - span.start) / size,
            offset: (tensor.origin() - span.start) / size,
            shape: tensor.shape().to_vec(),
            // The strides of a tensor with an extent are whole, non-negative numbers of elements.
            strides: tensor.strides().iter().map(|&stride| stride.unsigned_abs() / size).collect(),
        });
    }

    /// Gives a tensor a separate storage, in row-major order.
    fn pack(&mut self, tensor: &'a Tensor) {
        let view = tensor.view();
        self.tensors.push(Placed {
            dtype: tensor.dtype(),
            storage: self.storages.len(),
            storage_elements: view.len(),
            offset: 0,
            shape: tensor.shape().to_vec(),
            strides: contiguous_strides(tensor.shape(), 1)
                .iter()
                .map(|stride| stride.unsigned_abs())
                .collect(),
        });
        self.storages.push(Content::Packed(view));
    }
}

/// The bytes from the first element to the end of the last, for a tensor with strides that torch supports.
fn extent(tensor: &Tensor) -> Option<(usize, usize)> {
    let size = tensor.dtype().size();
    let expressible =
        tensor.strides().iter().all(|&stride| stride >= 0 && stride.unsigned_abs().is_multiple_of(size));
    if !expressible || tensor.shape().contains(&0) {
        return None;
    }
    // All elements of an existing tensor are within its bytes, so nothing here overflows.
    let reach: usize = tensor
        .shape()
        .iter()
        .zip(tensor.strides())
        .map(|(&dim, &stride)| (dim - 1) * stride.unsigned_abs())
        .sum();
    Some((tensor.origin(), tensor.origin() + reach + size))
}

fn memory(tensor: &Tensor) -> Memory {
    let bytes = tensor.storage();
    let phase = tensor.origin() % tensor.dtype().size();
    Memory { address: bytes.as_ptr().addr(), size: bytes.len(), dtype: tensor.dtype(), phase }
}

impl Span<'_> {
    fn is_wasteful_for(&self, tensor: &Tensor) -> bool {
        self.tensors == 1
            && self.end - self.start > tensor.view().packed_size().saturating_mul(MAX_SPARSENESS)
    }
}

impl Content<'_> {
    fn size(&self) -> usize {
        match self {
            Content::AsItLies(bytes) => bytes.len(),
            Content::Packed(view) => view.packed_size(),
        }
    }

    fn write(&self, out: &mut dyn Write) -> std::io::Result<()> {
        match self {
            Content::AsItLies(bytes) => out.write_all(bytes),
            Content::Packed(view) => write_packed(view, out),
        }
    }
}
