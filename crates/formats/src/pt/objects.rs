//! Converts the graph of a pickle to values: computes what the known constructors would return.

use std::collections::HashMap;

use ulpscope_tensor::element_count;

use super::storage::Storages;
use super::tensor::Rebuild;
use crate::budget::{Budget, PER_ALLOCATION};
use crate::error::{Error, Fault, shortened};
use crate::pickle::{Call, Id, Node, Pickle};
use crate::tensor::Tensor;
use crate::value::Value;

/// Deeper nesting than Python's own pickler supports.
const MAX_DEPTH: usize = 256;

/// A pickle may refer to one object many times, but a value is a tree, so shared objects are repeated. A few dozen
/// bytes can double a list sixty times. Therefore the tree may have this many nodes for each byte of the pickle ...
const MAX_NODES_PER_BYTE: usize = 2;

/// ... or this many, if that is more: enough for a small file that shares a lot.
const MIN_NODE_LIMIT: usize = 1 << 16;

/// Text and bytes count as one node for each this many bytes.
const BYTES_PER_NODE: usize = 32;

/// The dotted names of all values may have this many bytes for each byte of the pickle: a long
/// key is part of the name of everything below it ...
const MAX_NAME_BYTES_PER_BYTE: usize = 64;

/// ... or this many, if that is more.
const MIN_NAME_BYTES_LIMIT: usize = 1 << 24;

/// With strides of zero a few bytes represent any number of elements, and a list may contain the same tensor many
/// times. The gradient of a sum is such a tensor, and may legitimately have billions of elements. All tensors of
/// a file together may have this many elements ...
const MIN_ELEMENT_LIMIT: u64 = 1 << 32;

/// ... or this many for each byte of the file, if that is more. Without sharing there is at most one.
const MAX_ELEMENTS_PER_BYTE: u64 = 8;

/// Memory of a tensor beside its value: dtype, shape, strides and reference counts.
const TENSOR_SIZE: usize = 128 + 3 * PER_ALLOCATION;

pub(super) struct Objects<'a> {
    pub(super) pickle: &'a Pickle,
    budget: &'a Budget,
    pub(super) storages: Storages<'a>,
    node_limit: usize,
    nodes: usize,
    element_limit: u64,
    elements: u64,
    depth: usize,
    /// The objects of unknown classes whose attributes are being read.
    pub(super) inside: Vec<Id>,
}

impl<'a> Objects<'a> {
    /// For the pickle and the storages of a file of `file_size` bytes. Values are charged to its `budget`.
    pub fn new(
        pickle: &'a Pickle,
        storages: Storages<'a>,
        file_size: usize,
        budget: &'a Budget,
    ) -> Objects<'a> {
        let node_limit = pickle.range().len().saturating_mul(MAX_NODES_PER_BYTE).max(MIN_NODE_LIMIT);
        let element_limit = (file_size as u64).saturating_mul(MAX_ELEMENTS_PER_BYTE).max(MIN_ELEMENT_LIMIT);
        Objects {
            pickle,
            budget,
            storages,
            node_limit,
            nodes: 0,
            element_limit,
            elements: 0,
            depth: 0,
            inside: Vec::new(),
        }
    }

    /// The value of the whole pickle.
    pub fn root(mut self) -> Result<Value, Error> {
        let value = self.value(self.pickle.root())?;
        self.check_names(&value)?;
        Ok(value)
    }

    /// Refuses a value whose tensor names would exceed the limit.
    fn check_names(&self, value: &Value) -> Result<(), Error> {
        let mut found = 0u64;
        value.visit(&mut |path, value| match value {
            Value::None | Value::Bool(_) | Value::Int(_) | Value::Float(_) => {}
            Value::Str(_) | Value::Bytes(_) => {}
            Value::List(_) | Value::Tuple(_) | Value::Dict(_) => {}
            _ => found = found.saturating_add(path.len() as u64),
        });
        let limit = self.pickle.range().len().saturating_mul(MAX_NAME_BYTES_PER_BYTE);
        let limit = limit.max(MIN_NAME_BYTES_LIMIT) as u64;
        if found > limit {
            return Err(Error::whole(Fault::TooLarge { what: "length of all dotted names", limit, found }));
        }
        Ok(())
    }

    /// A tensor as a value. Its elements are charged.
    pub(super) fn carried(&mut self, id: Id, tensor: Tensor) -> Result<Value, Error> {
        // An existing tensor has a valid element count.
        let count = element_count(tensor.shape()).map_or(u64::MAX, |count| count as u64);
        self.elements = self.elements.saturating_add(count);
        if self.elements > self.element_limit {
            return Err(self.pickle.fault_at(
                id,
                Fault::TooLarge {
                    what: "number of elements of all tensors",
                    limit: self.element_limit,
                    found: self.elements,
                },
            ));
        }
        self.pay("tensors", TENSOR_SIZE)?;
        Ok(Value::Tensor(tensor))
    }

    /// Charges `nodes` more nodes of the tree.
    pub(super) fn charge(&mut self, nodes: usize) -> Result<(), Error> {
        self.nodes = self.nodes.saturating_add(nodes);
        if self.nodes > self.node_limit {
            return Err(Error::whole(Fault::TooLarge {
                what: "number of values a pickle unfolds into",
                limit: self.node_limit as u64,
                found: self.nodes as u64,
            }));
        }
        self.pay("values of a pickle", nodes.saturating_mul(size_of::<Value>()))
    }

    fn pay(&self, what: &'static str, bytes: usize) -> Result<(), Error> {
        self.budget.charge(what, bytes).map_err(Error::whole)
    }

    /// Charges a copy of this many bytes.
    pub(super) fn charge_bytes(&mut self, bytes: usize) -> Result<(), Error> {
        self.charge(bytes / BYTES_PER_NODE)
    }

    /// A value that is not converted, with the reason.
    pub(super) fn opaque(&mut self, what: String) -> Result<Value, Error> {
        let what = shortened(&what);
        self.charge_bytes(what.len())?;
        Ok(Value::Opaque(what))
    }

    /// A tensor that is not read, with the reason.
    pub(super) fn unread(&mut self, what: String) -> Result<Value, Error> {
        let what = shortened(&what);
        self.charge_bytes(what.len())?;
        Ok(Value::Unread(what))
    }

    pub(super) fn value(&mut self, id: Id) -> Result<Value, Error> {
        if self.depth == MAX_DEPTH {
            return Err(self.pickle.fault_at(id, Fault::TooDeep { limit: MAX_DEPTH }));
        }
        self.depth += 1;
        let value = self.charge(1).and_then(|()| self.value_within(id));
        self.depth -= 1;
        value
    }

    fn value_within(&mut self, id: Id) -> Result<Value, Error> {
        let pickle = self.pickle;
        Ok(match pickle.node(id) {
            Node::None => Value::None,
            Node::Bool(flag) => Value::Bool(*flag),
            Node::Int(number) => Value::Int(*number),
            Node::HugeInt(bytes) => {
                self.unread(format!("an integer of {bytes} bytes; at most 16 are read"))?
            }
            Node::Float(number) => Value::Float(*number),
            Node::Text(text) => {
                self.charge_bytes(text.len())?;
                Value::Str(text.to_string())
            }
            Node::Bytes(bytes) => {
                self.charge_bytes(bytes.len())?;
                Value::Bytes(bytes.to_vec())
            }
            Node::List(items) => Value::List(self.values(items)?),
            Node::Tuple(items) => Value::Tuple(self.values(items)?),
            Node::Set(items) => Value::List(in_order(self.values(items)?)),
            Node::FrozenSet(items) => Value::Tuple(in_order(self.values(items)?)),
            Node::Dict(pairs) => Value::Dict(self.pairs(pairs)?),
            Node::Global(global) => match self.dtype(id) {
                Some(dtype) => Value::Str(format!("torch.{dtype}")),
                None => self.opaque(format!(
                    "the class or function {}.{}, by name only",
                    global.module, global.name
                ))?,
            },
            Node::Call(call) => self.call(id, call.callable, call.args, call)?,
            Node::Persistent(reference) => match self.storage(id)? {
                Some(storage) => self.bare_storage(id, &storage)?,
                // ("module", class, source file, source): a class, with its source text for comparison.
                None => match pickle.tuple(*reference).and_then(|parts| parts.get(1)) {
                    Some(&class) => self.value(class)?,
                    None => return Err(pickle.unexpected(*reference, "(\"module\", class, ...)")),
                },
            },
        })
    }

    pub(super) fn values(&mut self, ids: &[Id]) -> Result<Vec<Value>, Error> {
        ids.iter().map(|&id| self.value(id)).collect()
    }

    /// The pairs of a dictionary. As in Python, a repeated key replaces the earlier value.
    pub(super) fn pairs(&mut self, ids: &[(Id, Id)]) -> Result<Vec<(Value, Value)>, Error> {
        let mut pairs: Vec<(Value, Value)> = Vec::new();
        let mut places: HashMap<&str, usize> = HashMap::new();
        let pickle = self.pickle;
        for &(key_id, value) in ids {
            let key = self.value(key_id)?;
            let value = self.value(value)?;
            let place = match pickle.node(key_id) {
                Node::Text(text) => *places.entry(text).or_insert(pairs.len()),
                _ => pairs.len(),
            };
            match pairs.get_mut(place) {
                Some(pair) => pair.1 = value,
                None => pairs.push((key, value)),
            }
        }
        Ok(pairs)
    }

    /// The result of a call. `filled` is what the pickle then puts into the result.
    fn call(&mut self, id: Id, callable: Id, args: Id, filled: &Call) -> Result<Value, Error> {
        let pickle = self.pickle;
        // In the older format a class may have its source text.
        let callable = match pickle.node(callable) {
            Node::Persistent(reference) => match pickle.tuple(*reference) {
                Some(&[_, class, ..]) => class,
                _ => callable,
            },
            _ => callable,
        };
        let Some((module, name)) = pickle.global(callable) else {
            return self.unread("the result of a call of something that is not a name".to_owned());
        };
        let arg = |index: usize| pickle.tuple(args).and_then(|args| args.get(index)).copied();
        match (module, name) {
            ("torch._utils", "_rebuild_tensor") => self.tensor(id, args, Rebuild::V1),
            ("torch._utils", "_rebuild_tensor_v2") => self.tensor(id, args, Rebuild::V2),
            ("torch._utils", "_rebuild_tensor_v3") => self.tensor(id, args, Rebuild::V3),
            (module, "_rebuild_npu_tensor") if module.starts_with("torch_npu.") => {
                self.tensor(id, args, Rebuild::Npu)
            }
            (
                "torch._utils",
                "_rebuild_parameter"
                | "_rebuild_parameter_with_state"
                | "_rebuild_device_tensor_from_cpu_tensor",
            ) => match arg(0) {
                Some(tensor) => {
                    let tensor = self.value(tensor)?;
                    let state = arg(3).filter(|_| name == "_rebuild_parameter_with_state");
                    self.with_attributes(id, tensor, state)
                }
                None => Err(pickle.unexpected(args, "the tensor of a parameter")),
            },
            ("torch._tensor", "_rebuild_from_type_v2" | "_rebuild_from_type") => match (arg(0), arg(2)) {
                // The inner constructor may be this one again: count it as nesting.
                (Some(function), Some(args)) => {
                    let tensor = self.nested_call(id, function, args, filled)?;
                    self.with_attributes(id, tensor, arg(3))
                }
                _ => Err(pickle.unexpected(args, "(function, type, arguments, state)")),
            },
            ("torch._utils", "_rebuild_sparse_tensor") => {
                self.unread("a sparse tensor; only dense ones are read".to_owned())
            }
            ("torch._utils", "_rebuild_qtensor") => {
                self.unread("a quantized tensor; only plain ones are read".to_owned())
            }
            ("torch._utils", "_rebuild_nested_tensor") => {
                self.unread("a nested tensor; only plain ones are read".to_owned())
            }
            ("torch._utils", "_rebuild_meta_tensor_no_storage") => {
                self.unread("a tensor of the meta device, which has no data".to_owned())
            }
            ("torch", "Size") => match arg(0) {
                Some(size) => Ok(match self.value(size)? {
                    Value::List(items) | Value::Tuple(items) => Value::Tuple(items),
                    other => other,
                }),
                None => Ok(Value::Tuple(Vec::new())),
            },
            ("torch", "device") => self.device(args),
            ("torch.serialization", "_get_layout") => self.first(args),
            ("torch.return_types", _) => self.first(args),

            ("collections", "OrderedDict" | "defaultdict" | "Counter") => self.dictionary(name, args, filled),
            ("collections", "deque") => {
                let mut items = match arg(0).map(|id| pickle.node(id)) {
                    Some(Node::List(items) | Node::Tuple(items)) => self.values(items)?,
                    _ => Vec::new(),
                };
                items.extend(self.values(&filled.items)?);
                Ok(Value::List(items))
            }
            ("_codecs", "encode") | ("builtins", "bytes" | "bytearray") => match self.bytes(args)? {
                Some(bytes) => Ok(Value::Bytes(bytes.to_vec())),
                None => self.unread(format!("bytes made by {module}.{name}")),
            },
            ("builtins", "set" | "frozenset") => {
                let items = match arg(0).map(|id| pickle.node(id)) {
                    Some(Node::List(items) | Node::Tuple(items) | Node::Set(items)) => self.values(items)?,
                    _ => Vec::new(),
                };
                let items = in_order(items);
                Ok(if name == "set" { Value::List(items) } else { Value::Tuple(items) })
            }
            ("builtins", "complex" | "slice" | "range" | "xrange") => {
                let parts = pickle.tuple(args).unwrap_or_default();
                let shown: Vec<_> = parts.iter().take(3).map(|&part| self.plain(part)).collect();
                self.opaque(format!("{}({})", name.trim_start_matches('x'), shown.join(", ")))
            }
            ("numpy.core.multiarray" | "numpy._core.multiarray", "_reconstruct") => self.array(id, filled),
            ("numpy.core.multiarray" | "numpy._core.multiarray", "scalar") => self.array_scalar(args),
            ("numpy.core.numeric" | "numpy._core.numeric", "_frombuffer") => self.array_from_buffer(id, args),
            ("numpy", "dtype") => {
                self.opaque(format!("the numpy dtype {}", arg(0).map_or(String::new(), |id| self.plain(id))))
            }

            ("copyreg", "_reconstructor" | "__newobj__" | "__newobj_ex__") => {
                let Some((&class, rest)) = pickle.tuple(args).and_then(<[Id]>::split_first) else {
                    return Err(pickle.unexpected(args, "a class"));
                };
                // An object without other base classes is created by `_reconstructor(class, object, None)`.
                let is_plain = name == "_reconstructor"
                    && rest.first().is_some_and(|&base| pickle.global(base) == Some(("builtins", "object")));
                let rest = if is_plain { &[] } else { rest };
                self.instance(id, &pickle.describe(class), rest, filled)
            }
            _ => {
                let args = pickle.tuple(args).unwrap_or_default();
                let is_bare = args.is_empty() && filled.state.is_none();
                match (filled.pairs.is_empty(), filled.items.is_empty()) {
                    (false, true) if is_bare => Ok(Value::Dict(self.pairs(&filled.pairs)?)),
                    (true, false) if is_bare => Ok(Value::List(self.values(&filled.items)?)),
                    _ => self.instance(id, &shortened(&format!("{module}.{name}")), args, filled),
                }
            }
        }
    }

    fn nested_call(&mut self, id: Id, function: Id, args: Id, filled: &Call) -> Result<Value, Error> {
        if self.depth == MAX_DEPTH {
            return Err(self.pickle.fault_at(id, Fault::TooDeep { limit: MAX_DEPTH }));
        }
        self.depth += 1;
        let value = self.charge(1).and_then(|()| self.call(id, function, args, filled));
        self.depth -= 1;
        value
    }

    /// The first argument, for constructors that only wrap it.
    fn first(&mut self, args: Id) -> Result<Value, Error> {
        match self.pickle.tuple(args).and_then(|args| args.first()) {
            Some(&first) => self.value(first),
            None => Err(self.pickle.unexpected(args, "an argument")),
        }
    }

    fn dictionary(&mut self, name: &str, args: Id, filled: &Call) -> Result<Value, Error> {
        let pickle = self.pickle;
        let mut ids = Vec::new();
        // The first argument of a defaultdict is its factory.
        if name != "defaultdict"
            && let Some(&first) = pickle.tuple(args).and_then(|args| args.first())
        {
            match pickle.node(first) {
                Node::Dict(pairs) => ids.extend_from_slice(pairs),
                Node::List(items) | Node::Tuple(items) => {
                    for &item in items {
                        match pickle.node(item) {
                            Node::List(pair) | Node::Tuple(pair) if pair.len() == 2 => {
                                ids.push((pair[0], pair[1]));
                            }
                            _ => return Err(pickle.unexpected(item, "a key and its value")),
                        }
                    }
                }
                _ => return Err(pickle.unexpected(first, "the items of a dictionary")),
            }
        }
        ids.extend_from_slice(&filled.pairs);
        self.charge(ids.len())?;
        Ok(Value::Dict(self.pairs(&ids)?))
    }

    fn device(&mut self, args: Id) -> Result<Value, Error> {
        let pickle = self.pickle;
        let args = pickle.tuple(args).unwrap_or_default();
        let kind = args.first().and_then(|&kind| pickle.text(kind)).unwrap_or("?");
        let text = match args.get(1).and_then(|&index| pickle.int(index)) {
            Some(index) => format!("{kind}:{index}"),
            None => kind.to_owned(),
        };
        Ok(Value::Str(shortened(&text)))
    }

    /// A scalar argument as Python would print it.
    fn plain(&self, id: Id) -> String {
        match self.pickle.node(id) {
            Node::Int(number) => number.to_string(),
            Node::Float(number) => number.to_string(),
            Node::Text(text) => shortened(text),
            Node::None => "None".to_owned(),
            _ => self.pickle.describe(id),
        }
    }
}

/// The items of a set in an order that does not depend on the process that wrote them: Python orders texts by a hash
/// that is random for each process.
fn in_order(mut items: Vec<Value>) -> Vec<Value> {
    let is_plain = |item: &Value| {
        matches!(item, Value::None | Value::Bool(_) | Value::Int(_) | Value::Float(_) | Value::Str(_))
    };
    if items.iter().all(is_plain) {
        items.sort_by_cached_key(|item| format!("{item:?}"));
    }
    items
}
