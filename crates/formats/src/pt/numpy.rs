//! Numpy arrays and scalars beside the tensors of a file.

use ulpscope_tensor::{DType, Scalar, contiguous_strides};

use super::objects::Objects;
use crate::byte_order::{number_size, swapped};
use crate::bytes::Bytes;
use crate::error::{Error, Fault};
use crate::pickle::{Call, Id, Node};
use crate::tensor::{MAX_RANK, Tensor, column_major_strides};
use crate::value::Value;

/// The part of a numpy dtype that is read.
#[derive(Clone, Copy)]
struct ArrayType {
    dtype: DType,
    big_endian: bool,
}

impl ArrayType {
    /// The elements, little-endian.
    fn in_order(self, bytes: Bytes) -> Bytes {
        if self.big_endian { swapped(&bytes, number_size(self.dtype)).into() } else { bytes }
    }
}

impl Objects<'_> {
    /// `_reconstruct(ndarray, ...)`, with the array in its state: `(version, shape, dtype, is Fortran, data)`.
    pub(super) fn array(&mut self, id: Id, filled: &Call) -> Result<Value, Error> {
        const EXPECTED: &str = "a numpy array's (version, shape, dtype, is Fortran, data)";
        let Some(state) = filled.state else {
            return Err(self.pickle.unexpected(id, EXPECTED));
        };
        let Some(&[_version, shape, dtype, fortran, data]) = self.pickle.tuple(state) else {
            return Err(self.pickle.unexpected(state, EXPECTED));
        };
        let fortran = match self.pickle.node(fortran) {
            Node::Bool(flag) => *flag,
            Node::Int(number) => *number != 0,
            _ => return Err(self.pickle.unexpected(fortran, "True or False")),
        };
        self.array_of(id, dtype, shape, fortran, data)
    }

    /// `_frombuffer(data, dtype, shape, order)`, the form of protocol 5.
    pub(super) fn array_from_buffer(&mut self, id: Id, args: Id) -> Result<Value, Error> {
        let Some(&[data, dtype, shape, order, ..]) = self.pickle.tuple(args) else {
            return Err(self.pickle.unexpected(args, "(data, dtype, shape, order)"));
        };
        let fortran = self.pickle.text(order) == Some("F");
        self.array_of(id, dtype, shape, fortran, data)
    }

    /// `scalar(dtype, data)`: a plain number.
    pub(super) fn array_scalar(&mut self, args: Id) -> Result<Value, Error> {
        let Some(&[dtype, data, ..]) = self.pickle.tuple(args) else {
            return Err(self.pickle.unexpected(args, "(dtype, data)"));
        };
        let Some(kind) = self.array_type(dtype) else {
            return self.unread("a numpy scalar that is not a number".to_owned());
        };
        let Some(bytes) = self.raw(data)? else {
            return Err(self.pickle.unexpected(data, "the bytes of a numpy scalar"));
        };
        let bytes = kind.in_order(bytes);
        if bytes.len() != kind.dtype.size() {
            return Err(self.pickle.unexpected(data, format!("{} bytes", kind.dtype.size())));
        }
        Ok(match Scalar::read(kind.dtype, &bytes) {
            Scalar::Float(number) => Value::Float(number),
            Scalar::Int(number) => Value::Int(number),
            Scalar::Bool(flag) => Value::Bool(flag),
            Scalar::Complex(re, im) => Value::Opaque(format!("complex({re}, {im})")),
        })
    }

    fn array_of(&mut self, id: Id, dtype: Id, shape: Id, fortran: bool, data: Id) -> Result<Value, Error> {
        let Some(kind) = self.array_type(dtype) else {
            return self.unread("a numpy array whose elements are not plain numbers".to_owned());
        };
        let Some(dims) = self.pickle.tuple(shape) else {
            return Err(self.pickle.unexpected(shape, "a tuple of dimensions"));
        };
        if dims.len() > MAX_RANK {
            return Err(self.pickle.fault_at(
                shape,
                Fault::TooLarge { what: "rank", limit: MAX_RANK as u64, found: dims.len() as u64 },
            ));
        }
        let mut sizes = Vec::with_capacity(dims.len());
        for &dim in dims {
            let size = self.pickle.int(dim).and_then(|size| usize::try_from(size).ok());
            sizes.push(size.ok_or_else(|| self.pickle.unexpected(dim, "a dimension"))?);
        }
        self.charge(sizes.len())?;
        let Some(bytes) = self.raw(data)? else {
            return Err(self.pickle.unexpected(data, "the bytes of a numpy array"));
        };
        if kind.big_endian {
            self.charge_bytes(bytes.len())?;
        }
        let bytes = kind.in_order(bytes);
        let strides = if fortran { column_major_strides } else { contiguous_strides };
        let strides = strides(&sizes, kind.dtype.size());
        let tensor = Tensor::strided(kind.dtype, sizes, strides, bytes, 0)
            .map_err(|error| self.pickle.fault_at(id, error))?;
        self.carried(id, tensor)
    }

    /// The element type of `dtype('f4', False, True)` and its state, if it is a plain number type.
    fn array_type(&self, id: Id) -> Option<ArrayType> {
        let Node::Call(call) = self.pickle.node(id) else { return None };
        if self.pickle.global(call.callable) != Some(("numpy", "dtype")) {
            return None;
        }
        let &[name, ..] = self.pickle.tuple(call.args)? else { return None };
        let big_endian = match call.state {
            Some(state) => match self.pickle.tuple(state)? {
                &[_version, order, ..] => match self.pickle.text(order)? {
                    "<" | "|" | "=" => false,
                    ">" => true,
                    _ => return None,
                },
                _ => return None,
            },
            None => false,
        };
        let dtype = match self.pickle.node(name) {
            Node::Text(name) => DType::from_numpy(name)?,
            Node::Global(global) if &*global.module == "ml_dtypes" => global.name.parse().ok()?,
            _ => return None,
        };
        Some(ArrayType { dtype, big_endian: big_endian && dtype.size() > 1 })
    }

    /// Bytes, in the encoding of any protocol.
    fn raw(&mut self, id: Id) -> Result<Option<Bytes>, Error> {
        match self.pickle.node(id) {
            Node::Bytes(bytes) => Ok(Some(bytes.clone())),
            Node::Text(text) => {
                // A string of Python 2 that was also valid text.
                self.charge_bytes(text.len())?;
                Ok(Some(text.as_bytes().to_vec().into()))
            }
            Node::Call(call) => match self.pickle.global(call.callable) {
                Some(("_codecs", "encode") | ("builtins", "bytes" | "bytearray")) => self.bytes(call.args),
                _ => Ok(None),
            },
            _ => Ok(None),
        }
    }

    /// The bytes that `encode(text, "latin1")`, `bytes(...)` and `bytearray(...)` would return: how protocol 2
    /// encodes bytes.
    pub(super) fn bytes(&mut self, args: Id) -> Result<Option<Bytes>, Error> {
        let pickle = self.pickle;
        let Some(args) = pickle.tuple(args) else { return Ok(None) };
        match *args {
            [] => Ok(Some(Bytes::from(Vec::new()))),
            [inner] => match pickle.node(inner) {
                Node::Bytes(bytes) => {
                    self.charge_bytes(bytes.len())?;
                    Ok(Some(bytes.clone()))
                }
                Node::Call(call) if pickle.global(call.callable) == Some(("_codecs", "encode")) => {
                    match pickle.tuple(call.args) {
                        Some(&[text, encoding, ..]) => self.latin1(text, encoding),
                        _ => Ok(None),
                    }
                }
                _ => Ok(None),
            },
            [text, encoding, ..] => self.latin1(text, encoding),
        }
    }

    fn latin1(&mut self, text: Id, encoding: Id) -> Result<Option<Bytes>, Error> {
        let pickle = self.pickle;
        match (pickle.text(text), pickle.text(encoding)) {
            (Some(content), Some("latin1" | "latin-1")) => {
                self.charge_bytes(content.len())?;
                let bytes: Option<Vec<u8>> = content.chars().map(|char| u8::try_from(char).ok()).collect();
                match bytes {
                    Some(bytes) => Ok(Some(bytes.into())),
                    None => Err(pickle.unexpected(text, "text in Latin-1")),
                }
            }
            _ => Ok(None),
        }
    }
}
