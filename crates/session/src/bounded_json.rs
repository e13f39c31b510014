//! Reads a JSON document as a tree, with memory limited in proportion to its size.

use std::cell::Cell;
use std::fmt;

use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use ulpscope_formats::{Budget, Error, Fault};

/// The purpose of the memory, for messages.
const TREE: &str = "values of a JSON document";

/// Size of an object's pair in its list, with its hash.
const PAIR_SIZE: usize = size_of::<(u64, String, Value)>();

/// Size per pair in the table of an object, and of the allocation of its key.
const KEY_SIZE: usize = 20 + 16;

/// Reads a document; the error says what was expected, what is wrong and where.
pub fn read(bytes: &[u8], expected: &str) -> Result<Value, Error> {
    let budget = Budget::of_file(bytes.len());
    let refused = Cell::new(None);
    let tree = Tree { budget: &budget, refused: &refused };
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let read = tree.deserialize(&mut json).and_then(|value| json.end().map(|()| value));
    read.map_err(|error| {
        Error::whole(match refused.take() {
            Some(fault) => fault,
            None => Fault::malformed(expected, error.to_string()),
        })
    })
}

#[derive(Clone, Copy)]
struct Tree<'a> {
    budget: &'a Budget,
    /// Why the parser was stopped: the parser's own errors are only text.
    refused: &'a Cell<Option<Fault>>,
}

impl Tree<'_> {
    fn charged<E: de::Error>(self, charged: Result<(), Fault>) -> Result<(), E> {
        charged.map_err(|fault| {
            let error = E::custom(&fault);
            self.refused.set(Some(fault));
            error
        })
    }
}

impl<'de> DeserializeSeed<'de> for Tree<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Tree<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: de::Error>(self, flag: bool) -> Result<Value, E> {
        Ok(Value::Bool(flag))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Value, E> {
        Ok(Number::from_f64(number).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Value, E> {
        self.charged(self.budget.charge_text(TREE, text))?;
        Ok(Value::String(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element_seed(self)? {
            self.charged(self.budget.charge_push(TREE, items.len(), size_of::<Value>()))?;
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut pairs: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = pairs.next_key::<String>()? {
            self.charged(self.budget.charge_push(TREE, object.len(), PAIR_SIZE))?;
            self.charged(self.budget.charge(TREE, KEY_SIZE + key.len()))?;
            object.insert(key, pairs.next_value_seed(self)?);
        }
        Ok(Value::Object(object))
    }
}
