//! Builds tensors from a storage, an offset, a size and strides.

use ulpscope_tensor::DType;

use super::objects::Objects;
use super::storage::{Elements, Flip, Storage};
use crate::error::{Error, Fault};
use crate::pickle::{Id, Node};
use crate::tensor::{MAX_RANK, Tensor};
use crate::value::Value;

/// Torch's constructors. They have the dtype and the flags in different positions.
#[derive(Clone, Copy)]
pub(super) enum Rebuild {
    /// `_rebuild_tensor(storage, offset, size, stride)`.
    V1,
    /// `_rebuild_tensor_v2(..., requires_grad, hooks[, metadata])`.
    V2,
    /// `_rebuild_tensor_v3(..., requires_grad, hooks, dtype[, metadata])`.
    V3,
    /// `torch_npu`'s `_rebuild_npu_tensor(..., requires_grad, hooks, format)`.
    Npu,
}

impl Objects<'_> {
    /// The tensor that a call of one of torch's constructors would return.
    pub(super) fn tensor(&mut self, call: Id, args: Id, kind: Rebuild) -> Result<Value, Error> {
        const EXPECTED: &str = "(storage, offset, size, stride, ...)";
        let Some(&[storage, offset, size, stride, ref rest @ ..]) = self.pickle.tuple(args) else {
            return Err(self.pickle.unexpected(args, EXPECTED));
        };
        let Some(storage) = self.storage(storage)? else {
            return Err(self.pickle.unexpected(storage, "a reference to a storage"));
        };
        let (dtype, metadata) = match kind {
            Rebuild::V1 | Rebuild::Npu => (None, None),
            Rebuild::V2 => (None, rest.get(2)),
            Rebuild::V3 => match rest.get(2) {
                Some(&dtype) => (Some(dtype), rest.get(3)),
                None => return Err(self.pickle.unexpected(args, "a dtype as the seventh of the arguments")),
            },
        };
        let dtype = match dtype {
            Some(id) => match self.dtype(id) {
                Some(dtype) => dtype,
                None => return self.unread(format!("a tensor of {}", self.pickle.describe(id))),
            },
            None => match storage.elements() {
                Elements::Typed(dtype) => dtype,
                _ => return self.unread(format!("a tensor over {}.{}", storage.module, storage.class)),
            },
        };
        let flip = self.flip(metadata.copied(), dtype)?;
        let bytes = self.storages.get(&storage, dtype, flip)?;

        let offset = self.numbers(&[offset])?[0];
        let shape = self.dimensions(size)?;
        let strides = self.dimensions(stride)?;
        self.charge(shape.len() + strides.len())?;
        let outside = |what: &str, numbers: &[i128]| {
            let fault = Fault::malformed(format!("{what} within the address space"), format!("{numbers:?}"));
            self.pickle.fault_at(call, fault)
        };
        let scaled = |number: i128| number.checked_mul(dtype.size() as i128);
        let origin = scaled(offset).and_then(|origin| usize::try_from(origin).ok());
        let origin = origin.ok_or_else(|| outside("an offset", &[offset]))?;
        let sizes = shape.iter().map(|&dim| usize::try_from(dim).ok()).collect::<Option<_>>();
        let sizes = sizes.ok_or_else(|| outside("a size", &shape))?;
        let steps =
            strides.iter().map(|&stride| isize::try_from(scaled(stride)?).ok()).collect::<Option<_>>();
        let steps = steps.ok_or_else(|| outside("strides", &strides))?;

        let tensor = Tensor::strided(dtype, sizes, steps, bytes, origin)
            .map_err(|error| self.pickle.fault_at(call, error))?;
        self.carried(call, tensor)
    }

    /// A storage that was saved on its own, as a flat tensor.
    pub(super) fn bare_storage(&mut self, id: Id, storage: &Storage<'_>) -> Result<Value, Error> {
        let dtype = match storage.elements() {
            Elements::Typed(dtype) => dtype,
            Elements::Untyped => DType::U8,
            _ => return self.unread(format!("a storage of class {}.{}", storage.module, storage.class)),
        };
        let bytes = self.storages.get(storage, dtype, Flip::Nothing)?;
        let count = storage.part.map_or(storage.count, |(_, count)| count);
        let shape = vec![usize::try_from(count).unwrap_or(usize::MAX)];
        let tensor =
            Tensor::contiguous(dtype, shape, bytes).map_err(|error| self.pickle.fault_at(id, error))?;
        self.carried(id, tensor)
    }

    /// The storage of a reference node.
    pub(super) fn storage<'p>(&self, id: Id) -> Result<Option<Storage<'p>>, Error>
    where
        Self: 'p,
    {
        match self.pickle.node(id) {
            Node::Persistent(reference) => Storage::parse(self.pickle, *reference),
            _ => Ok(None),
        }
    }

    /// The dtype of a name such as `torch.float32`.
    pub(super) fn dtype(&self, id: Id) -> Option<DType> {
        match self.pickle.global(id) {
            Some(("torch", name)) => {
                name.parse().ok().filter(|dtype: &DType| dtype.name() == name && dtype.is_in_torch())
            }
            _ => None,
        }
    }

    /// A size or strides: a tuple, a list, or a `torch.Size` of integers.
    fn dimensions(&self, id: Id) -> Result<Vec<i128>, Error> {
        let items = match self.pickle.node(id) {
            Node::Tuple(items) | Node::List(items) => items,
            Node::Call(call) if self.pickle.global(call.callable) == Some(("torch", "Size")) => {
                match self.pickle.tuple(call.args) {
                    Some(&[inner]) => match self.pickle.node(inner) {
                        Node::Tuple(items) | Node::List(items) => items,
                        _ => return Err(self.pickle.unexpected(inner, "a tuple of integers")),
                    },
                    _ => return Err(self.pickle.unexpected(call.args, "one tuple of integers")),
                }
            }
            _ => return Err(self.pickle.unexpected(id, "a tuple of integers")),
        };
        if items.len() > MAX_RANK {
            return Err(self.pickle.fault_at(
                id,
                Fault::TooLarge { what: "rank", limit: MAX_RANK as u64, found: items.len() as u64 },
            ));
        }
        self.numbers(items)
    }

    fn numbers(&self, ids: &[Id]) -> Result<Vec<i128>, Error> {
        let number = |&id: &Id| self.pickle.int(id).ok_or_else(|| self.pickle.unexpected(id, "an integer"));
        ids.iter().map(number).collect()
    }

    /// The sign changes in a tensor's metadata.
    fn flip(&self, metadata: Option<Id>, dtype: DType) -> Result<Flip, Error> {
        let Some(metadata) = metadata else { return Ok(Flip::Nothing) };
        let pairs = match self.pickle.node(metadata) {
            Node::Dict(pairs) => pairs,
            Node::None => return Ok(Flip::Nothing),
            _ => return Err(self.pickle.unexpected(metadata, "a dictionary of tensor flags")),
        };
        let is_set = |name: &str| {
            pairs.iter().any(|&(key, value)| {
                self.pickle.text(key) == Some(name) && matches!(self.pickle.node(value), Node::Bool(true))
            })
        };
        // Torch negates no 8-bit float.
        let has_sign = dtype.is_complex() || dtype.is_float() && dtype.size() > 1;
        match (is_set("conj") && dtype.is_complex(), is_set("neg")) {
            (false, false) => Ok(Flip::Nothing),
            (_, true) if !has_sign => {
                Err(self.pickle.unexpected(metadata, format!("no negative bit on a tensor of {dtype}")))
            }
            (true, false) => Ok(Flip::Imaginary),
            (false, true) => Ok(Flip::All),
            (true, true) => Ok(Flip::Real),
        }
    }
}
