//! `data.pkl`: a value as a pickle of protocol 2, limited to what torch's restricted loader accepts.

use std::collections::HashMap;

use super::write::{Layout, Placed};
use crate::error::{Error, Fault};
use crate::pickle::opcode;
use crate::value::Value;

/// The pickle of a value whose tensors are placed by `layout`.
pub(super) fn pickle(value: &Value, layout: &Layout<'_>) -> Result<Vec<u8>, Error> {
    let mut pickler =
        Pickler { out: vec![opcode::PROTO, 2], memo: HashMap::new(), tensors: layout.tensors.iter() };
    pickler.value(value)?;
    pickler.out.push(opcode::STOP);
    Ok(pickler.out)
}

struct Pickler<'a> {
    out: Vec<u8>,
    /// Names and words that every tensor needs, written once.
    memo: HashMap<String, u8>,
    /// The tensors, in the order of the walk.
    tensors: std::slice::Iter<'a, Placed>,
}

impl Pickler<'_> {
    fn value(&mut self, value: &Value) -> Result<(), Error> {
        match value {
            Value::None => self.out.push(opcode::NONE),
            Value::Bool(flag) => self.bool(*flag),
            Value::Int(number) => self.int(*number),
            Value::Float(number) => {
                self.out.push(opcode::BINFLOAT);
                self.out.extend(number.to_be_bytes());
            }
            Value::Str(text) => self.text(text)?,
            Value::Bytes(bytes) => {
                // Protocol 2 has no bytes: they are written as text to be encoded.
                let text: String = bytes.iter().copied().map(char::from).collect();
                self.global("_codecs", "encode");
                self.text(&text)?;
                self.word("latin1")?;
                self.out.extend([opcode::TUPLE2, opcode::REDUCE]);
            }
            Value::List(items) => {
                self.out.extend([opcode::EMPTY_LIST, opcode::MARK]);
                items.iter().try_for_each(|item| self.value(item))?;
                self.out.push(opcode::APPENDS);
            }
            Value::Tuple(items) => {
                self.out.push(opcode::MARK);
                items.iter().try_for_each(|item| self.value(item))?;
                self.out.push(opcode::TUPLE);
            }
            Value::Dict(pairs) => {
                self.out.extend([opcode::EMPTY_DICT, opcode::MARK]);
                for (key, value) in pairs {
                    self.key(key)?;
                    self.value(value)?;
                }
                self.out.push(opcode::SETITEMS);
            }
            Value::Tensor(_) => match self.tensors.next() {
                Some(tensor) => self.tensor(tensor)?,
                None => unreachable!("the layout was made from the same value"),
            },
            Value::Opaque(what) | Value::Unread(what) => {
                return Err(Error::whole(Fault::Unsupported(format!("{what} cannot be written"))));
            }
        }
        Ok(())
    }

    /// A dictionary key. It contains no tensors, because the layout does not cover them there, and no mutable values.
    fn key(&mut self, key: &Value) -> Result<(), Error> {
        match key {
            Value::Tensor(_) | Value::List(_) | Value::Dict(_) => Err(Error::whole(Fault::Unsupported(
                "a dictionary key must be a plain value to be written".to_owned(),
            ))),
            Value::Tuple(items) => {
                self.out.push(opcode::MARK);
                items.iter().try_for_each(|item| self.key(item))?;
                self.out.push(opcode::TUPLE);
                Ok(())
            }
            plain => self.value(plain),
        }
    }

    fn bool(&mut self, flag: bool) {
        self.out.push(if flag { opcode::NEWTRUE } else { opcode::NEWFALSE });
    }

    fn int(&mut self, number: i128) {
        if let Ok(number) = u8::try_from(number) {
            self.out.extend([opcode::BININT1, number]);
        } else if let Ok(number) = i32::try_from(number) {
            self.out.push(opcode::BININT);
            self.out.extend(number.to_le_bytes());
        } else {
            let bytes = number.to_le_bytes();
            // The shortest two's complement that keeps the sign.
            let redundant = |length: usize| {
                let sign = if bytes[length - 1] & 0x80 != 0 { 0xff } else { 0 };
                bytes[length..].iter().all(|&byte| byte == sign)
            };
            let length = (1..16).find(|&length| redundant(length)).unwrap_or(16);
            self.out.extend([opcode::LONG1, length as u8]);
            self.out.extend(&bytes[..length]);
        }
    }

    fn text(&mut self, text: &str) -> Result<(), Error> {
        let length = u32::try_from(text.len()).map_err(|_| {
            Error::whole(Fault::TooLarge {
                what: "length of text to pickle",
                limit: u32::MAX.into(),
                found: text.len() as u64,
            })
        })?;
        self.out.push(opcode::BINUNICODE);
        self.out.extend(length.to_le_bytes());
        self.out.extend(text.as_bytes());
        Ok(())
    }

    /// Text that occurs often.
    fn word(&mut self, text: &'static str) -> Result<(), Error> {
        if !self.recalled(text) {
            self.text(text)?;
            self.memoize(text);
        }
        Ok(())
    }

    fn global(&mut self, module: &str, name: &str) {
        let line = format!("{module}\n{name}\n");
        if !self.recalled(&line) {
            self.out.push(opcode::GLOBAL);
            self.out.extend(line.as_bytes());
            self.memoize(&line);
        }
    }

    fn recalled(&mut self, what: &str) -> bool {
        match self.memo.get(what) {
            Some(&number) => {
                self.out.extend([opcode::BINGET, number]);
                true
            }
            None => false,
        }
    }

    /// Only the names and words of this module are memoized, a few dozen.
    fn memoize(&mut self, what: &str) {
        let number = self.memo.len() as u8;
        self.memo.insert(what.to_owned(), number);
        self.out.extend([opcode::BINPUT, number]);
    }

    fn tensor(&mut self, tensor: &Placed) -> Result<(), Error> {
        let class = tensor.dtype.storage_class();
        self.global(
            "torch._utils",
            if class.is_some() { "_rebuild_tensor_v2" } else { "_rebuild_tensor_v3" },
        );
        self.out.extend([opcode::MARK, opcode::MARK]);
        self.word("storage")?;
        match class {
            Some(class) => self.global("torch", class),
            None => self.global("torch.storage", "UntypedStorage"),
        }
        self.text(&tensor.storage.to_string())?;
        self.word("cpu")?;
        // An untyped storage counts bytes.
        let unit = if class.is_some() { 1 } else { tensor.dtype.size() };
        self.int((tensor.storage_elements * unit) as i128);
        self.out.extend([opcode::TUPLE, opcode::BINPERSID]);
        self.int(tensor.offset as i128);
        for numbers in [&tensor.shape, &tensor.strides] {
            self.out.push(opcode::MARK);
            numbers.iter().for_each(|&number| self.int(number as i128));
            self.out.push(opcode::TUPLE);
        }
        // Neither a gradient nor hooks.
        self.bool(false);
        self.global("collections", "OrderedDict");
        self.out.extend([opcode::EMPTY_TUPLE, opcode::REDUCE]);
        if class.is_none() {
            self.global("torch", tensor.dtype.name());
        }
        self.out.extend([opcode::TUPLE, opcode::REDUCE]);
        Ok(())
    }
}
