//! One argument or result as `dump.json` describes it.

use std::borrow::Cow;

use crate::error::{Error, Fault, Place, shortened};
use crate::json::{Json, Writer};

/// An argument, a result, a parameter, or a container of them. Converts from JSON and back without loss.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// `null`: Python's `None`, or an object the tool does not describe.
    None,
    /// A tensor (any class of tensor, numpy arrays among them): an object with `type`, `dtype` and `shape`.
    Tensor(TensorItem),
    /// Exactly `{"type": ..., "value": ...}`: a number, text, slice, size, dtype.
    Scalar {
        /// `int`, `float`, `bool`, `str`, `slice`, `torch.Size`, …
        kind: String,
        /// Its value.
        value: Json,
    },
    /// A list or tuple.
    List(Vec<Item>),
    /// A dictionary, a dataclass, or the empty object of an argument that the tool could not describe.
    Dict(Vec<(String, Item)>),
    /// Anything else, unchanged: process groups, memory formats, bare numbers.
    Other(Json),
}

/// The description of a tensor: the keys of the file in their order, with accessors for the known ones.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TensorItem {
    fields: Vec<(Cow<'static, str>, Json)>,
}

impl Item {
    /// The item that a value of `dump.json` describes.
    pub fn from_json(value: Json) -> Item {
        match value {
            Json::Null => Item::None,
            Json::List(items) => Item::List(items.into_iter().map(Item::from_json).collect()),
            Json::Object(pairs) => Item::from_object(pairs),
            other => Item::Other(other),
        }
    }

    /// Describes an argument that is not a tensor, by the kind of its value.
    pub fn plain(value: Json) -> Item {
        let kind = match &value {
            Json::Null => return Item::None,
            Json::Bool(_) => "bool",
            Json::Int(_) => "int",
            Json::Float(_) => "float",
            Json::Str(_) => "str",
            Json::List(_) | Json::Object(_) => return Item::Other(value),
        };
        Item::Scalar { kind: kind.to_owned(), value }
    }

    fn from_object(pairs: Vec<(String, Json)>) -> Item {
        // If a dictionary of the user has a key `type`, its value is described by an object, a list or null, never
        // by bare text: a `type` of bare text was written by the tool.
        let typed = pairs
            .iter()
            .any(|(key, value)| (key == "type" || key == "class_type") && matches!(value, Json::Str(_)));
        if !typed {
            return Item::Dict(pairs.into_iter().map(|(key, value)| (key, Item::from_json(value))).collect());
        }
        Item::described(pairs.into_iter().map(|(key, value)| (Cow::Owned(key), value)).collect())
    }

    /// The item of an object that the tool wrote, with the keys of the file in their order.
    pub(super) fn described(mut fields: Vec<(Cow<'static, str>, Json)>) -> Item {
        let has = |name: &str| fields.iter().any(|(key, _)| key == name);
        if has("type") && has("dtype") && has("shape") {
            return Item::Tensor(TensorItem { fields });
        }
        if let [(first, Json::Str(kind)), (second, value)] = fields.as_mut_slice()
            && first == "type"
            && second == "value"
        {
            return Item::Scalar { kind: std::mem::take(kind), value: std::mem::replace(value, Json::Null) };
        }
        Item::Other(Json::Object(fields.into_iter().map(|(key, value)| (key.into_owned(), value)).collect()))
    }

    /// Writes the item as it was read.
    pub fn write(&self, out: &mut Writer<'_>) -> Result<(), Error> {
        match self {
            Item::None => out.null(),
            Item::Tensor(tensor) => {
                out.start_object()?;
                for (key, value) in &tensor.fields {
                    out.key(key)?;
                    out.json(value)?;
                }
                out.end()
            }
            Item::Scalar { kind, value } => {
                out.start_object()?;
                out.key("type")?;
                out.text(kind)?;
                out.key("value")?;
                out.json(value)?;
                out.end()
            }
            Item::List(items) => {
                out.start_list()?;
                items.iter().try_for_each(|item| item.write(out))?;
                out.end()
            }
            Item::Dict(pairs) => {
                out.start_object()?;
                for (key, item) in pairs {
                    out.key(key)?;
                    item.write(out)?;
                }
                out.end()
            }
            Item::Other(value) => out.json(value),
        }
    }
}

impl TensorItem {
    /// A description without fields.
    pub fn new() -> TensorItem {
        TensorItem::default()
    }

    /// The same description with one more field at the end.
    pub fn with(mut self, key: &str, value: Json) -> TensorItem {
        self.fields.push((Cow::Owned(key.to_owned()), value));
        self
    }

    /// The same description for elements in a file of their own, or in none: the keys that name a part of a file are
    /// left out.
    pub fn in_own_file(mut self, file: Option<String>) -> TensorItem {
        self.fields.retain(|(key, _)| {
            !matches!(&**key, "data_at" | "data_key" | "data_dtype" | "data_shape")
                && (key != "data_name" || file.is_some())
        });
        for (_, value) in self.fields.iter_mut().filter(|(key, _)| key == "data_name") {
            *value = file.clone().map_or(Json::Null, Json::Str);
        }
        self
    }

    /// Every key and value, in file order.
    pub fn fields(&self) -> &[(Cow<'static, str>, Json)] {
        &self.fields
    }

    /// The same, taken out.
    pub fn into_fields(self) -> Vec<(Cow<'static, str>, Json)> {
        self.fields
    }

    /// The value of a key: the last one if the key occurs twice, as in Python.
    pub fn get(&self, key: &str) -> Option<&Json> {
        self.fields.iter().rev().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// The class: `torch.Tensor`, `torch.distributed.tensor.DTensor`, `numpy.ndarray`, …
    pub fn class(&self) -> Option<&str> {
        self.get("type").and_then(Json::as_str)
    }

    /// The dtype as written, `torch.float32`.
    pub fn dtype(&self) -> Option<&str> {
        self.get("dtype").and_then(Json::as_str)
    }

    /// The dimensions, if they are a list of integers from 0 up.
    pub fn shape(&self) -> Option<Vec<u64>> {
        let dims = self.get("shape")?.as_list()?;
        dims.iter()
            .map(|dim| match dim {
                Json::Int(dim) => u64::try_from(*dim).ok(),
                _ => None,
            })
            .collect()
    }

    /// The largest element: a number, a boolean for booleans, nothing if the tool recorded no statistics.
    pub fn max(&self) -> Option<&Json> {
        self.stat("Max")
    }

    /// The smallest element.
    pub fn min(&self) -> Option<&Json> {
        self.stat("Min")
    }

    /// The mean.
    pub fn mean(&self) -> Option<&Json> {
        self.stat("Mean")
    }

    /// The Euclidean norm.
    pub fn norm(&self) -> Option<&Json> {
        self.stat("Norm")
    }

    /// A statistic by its key; `null` counts as none.
    pub fn stat(&self, key: &str) -> Option<&Json> {
        self.get(key).filter(|value| **value != Json::Null)
    }

    /// Whether the tensor requires a gradient, if recorded.
    pub fn requires_grad(&self) -> Option<bool> {
        match self.get("requires_grad") {
            Some(Json::Bool(flag)) => Some(*flag),
            _ => None,
        }
    }

    /// The digest: a CRC-32 in eight hexadecimal digits, or `0x` and sixteen in xor mode.
    pub fn digest(&self) -> Option<&str> {
        self.get("md5").and_then(Json::as_str)
    }

    /// The name of the tensor's file in the folder of tensor files, checked to be a plain name.
    pub fn data_name(&self) -> Result<Option<&str>, Error> {
        match self.get("data_name") {
            None | Some(Json::Null) => Ok(None),
            Some(Json::Str(name)) => plain_file_name(name).map(Some),
            Some(other) => Err(Error::at(
                Place::Part("data_name".to_owned()),
                Fault::malformed("the name of a file", other.describe()),
            )),
        }
    }
}

/// The same name, if joining it to a folder cannot lead out of that folder on any operating system.
pub fn plain_file_name(name: &str) -> Result<&str, Error> {
    let bytes = name.as_bytes();
    // `C:name` is relative to the current folder of a drive; a colon elsewhere is part of a name.
    let drive = bytes.first().is_some_and(u8::is_ascii_alphabetic) && bytes.get(1) == Some(&b':');
    let escapes = matches!(name, "" | "." | "..") || drive || name.contains(['/', '\\', '\0']);
    if escapes {
        return Err(Error::at(Place::Part("data_name".to_owned()), Fault::EscapesFolder(shortened(name))));
    }
    Ok(name)
}
