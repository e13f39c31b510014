//! The content of a file: tensors, and the plain values and containers around them.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;

use crate::bytes::Bytes;
use crate::error::Error;
use crate::tensor::Tensor;

/// A tree of plain values with tensors at its leaves, in file order.
#[derive(Clone, Debug)]
pub enum Value {
    /// Python's `None`, JSON's `null`.
    None,
    /// A boolean.
    Bool(bool),
    /// An integer.
    Int(i128),
    /// A float.
    Float(f64),
    /// Text.
    Str(String),
    /// Raw bytes.
    Bytes(Vec<u8>),
    /// A list.
    List(Vec<Value>),
    /// A tuple.
    Tuple(Vec<Value>),
    /// A mapping, in file order. Keys are mostly text, but a pickle may use any plain value.
    Dict(Vec<(Value, Value)>),
    /// A tensor.
    Tensor(Tensor),
    /// Something that is neither plain nor a tensor, fully described by this text: a class by name, `complex(1, 2)`.
    Opaque(String),
    /// Something that could not be read, with the reason: a tensor, or an object that may contain tensors. It takes
    /// no part in a comparison or conversion.
    Unread(String),
}

impl Value {
    /// Whether it consists of empty containers only. The readers limit the depth.
    pub fn is_empty(&self) -> bool {
        match self {
            Value::List(items) | Value::Tuple(items) => items.iter().all(Value::is_empty),
            Value::Dict(pairs) => pairs.iter().all(|(_, value)| value.is_empty()),
            _ => false,
        }
    }

    /// Whether it is a container, or a value that is neither a tensor nor unread.
    pub(crate) fn is_plain(&self) -> bool {
        !matches!(self, Value::Tensor(_) | Value::Unread(_))
    }

    /// Whether it, or anything in it, passes a test. Depth is limited by the readers.
    pub(crate) fn holds(&self, test: &dyn Fn(&Value) -> bool) -> bool {
        test(self)
            || match self {
                Value::List(items) | Value::Tuple(items) => items.iter().any(|item| item.holds(test)),
                Value::Dict(pairs) => pairs.iter().any(|(_, value)| value.holds(test)),
                _ => false,
            }
    }

    /// Every tensor in the tree with its dotted path (`model.layers.0.weight`), in file order. The path of a bare
    /// tensor is empty.
    pub fn tensors(&self) -> Vec<(String, &Tensor)> {
        let mut found = Vec::new();
        self.visit(&mut |path, value| {
            if let Value::Tensor(tensor) = value {
                found.push((path.to_owned(), tensor));
            }
        });
        found
    }

    /// Runs `read` on these tensors; an error if one of their files has shrunk. See [`Bytes::reading`].
    pub fn reading<T>(&self, read: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
        let result = read();
        self.tensors().iter().try_for_each(|(_, tensor)| tensor.check())?;
        result
    }

    /// The same value with all its tensors copied to allocated memory. Tensors that share storage still share it.
    /// Calls `go_on` from time to time.
    pub fn copied(&self, go_on: &dyn Fn() -> io::Result<()>) -> Result<Value, Error> {
        self.copied_once(&mut HashMap::new(), go_on)
    }

    /// The readers limit the depth.
    fn copied_once(
        &self,
        copies: &mut HashMap<(usize, usize), Bytes>,
        go_on: &dyn Fn() -> io::Result<()>,
    ) -> Result<Value, Error> {
        let mut all = |items: &[Value]| {
            items.iter().map(|item| item.copied_once(copies, go_on)).collect::<Result<Vec<_>, _>>()
        };
        Ok(match self {
            Value::List(items) => Value::List(all(items)?),
            Value::Tuple(items) => Value::Tuple(all(items)?),
            Value::Dict(pairs) => {
                let copy =
                    |(key, value): &(Value, Value)| Ok((key.clone(), value.copied_once(copies, go_on)?));
                Value::Dict(pairs.iter().map(copy).collect::<Result<_, Error>>()?)
            }
            Value::Tensor(tensor) => {
                let storage = tensor.storage();
                let key = (storage.as_ptr() as usize, storage.len());
                let copy = match copies.entry(key) {
                    Entry::Occupied(known) => known.get().clone(),
                    Entry::Vacant(place) => place.insert(storage.copied(go_on)?).clone(),
                };
                Value::Tensor(tensor.moved_to(copy))
            }
            plain => plain.clone(),
        })
    }

    /// Everything that is neither plain nor a tensor, with its dotted path and what it is.
    pub fn opaque(&self) -> Vec<(String, &str)> {
        let mut found = Vec::new();
        self.visit(&mut |path, value| {
            if let Value::Opaque(reason) = value {
                found.push((path.to_owned(), reason.as_str()));
            }
        });
        found
    }

    /// Everything that could not be read, with its dotted path and the reason.
    pub fn unread(&self) -> Vec<(String, &str)> {
        let mut found = Vec::new();
        self.visit(&mut |path, value| {
            if let Value::Unread(reason) = value {
                found.push((path.to_owned(), reason.as_str()));
            }
        });
        found
    }

    /// Every leaf of the tree with its dotted path, in file order.
    pub fn leaves(&self) -> Vec<(String, &Value)> {
        let mut found = Vec::new();
        self.visit(&mut |path, value| {
            if !matches!(value, Value::List(_) | Value::Tuple(_) | Value::Dict(_)) {
                found.push((path.to_owned(), value));
            }
        });
        found
    }

    /// Calls `see` for every leaf and every container, parents first.
    pub(crate) fn visit<'a>(&'a self, see: &mut impl FnMut(&str, &'a Value)) {
        self.visit_below(&mut String::new(), see);
    }

    /// One path buffer serves the whole walk: a key costs its length once, not once for everything below it.
    fn visit_below<'a>(&'a self, path: &mut String, see: &mut impl FnMut(&str, &'a Value)) {
        see(path, self);
        let mut child = |key: &str, value: &'a Value| {
            let length = path.len();
            if length > 0 {
                path.push('.');
            }
            path.push_str(key);
            value.visit_below(path, see);
            path.truncate(length);
        };
        match self {
            Value::List(items) | Value::Tuple(items) => {
                for (index, item) in items.iter().enumerate() {
                    child(&index.to_string(), item);
                }
            }
            Value::Dict(pairs) => {
                for (key, value) in pairs {
                    child(&key.as_key(), value);
                }
            }
            _ => {}
        }
    }

    /// A dictionary key as text.
    fn as_key(&self) -> String {
        match self {
            Value::Str(text) => text.clone(),
            Value::Int(number) => number.to_string(),
            Value::Float(number) => number.to_string(),
            Value::Bool(flag) => flag.to_string(),
            Value::None => "None".to_owned(),
            Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Value::Tuple(items) => items.iter().map(Value::as_key).collect::<Vec<_>>().join(","),
            other => format!("{other:?}"),
        }
    }
}
