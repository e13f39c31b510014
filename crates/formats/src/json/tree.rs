//! A value as a tree, for parts of a document small enough to hold.

use super::Event;

/// A JSON value. Objects keep the order of their keys, and every duplicate.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number without fraction or exponent.
    Int(i128),
    /// A number with one, or `NaN`, `Infinity`, `-Infinity`.
    Float(f64),
    /// A string.
    Str(String),
    /// A list.
    List(Vec<Json>),
    /// Keys and values in file order.
    Object(Vec<(String, Json)>),
}

impl Json {
    /// The value of a key of an object: of the last one when it occurs twice, as in Python.
    pub fn get(&self, key: &str) -> Option<&Json> {
        match self {
            Json::Object(pairs) => pairs.iter().rev().find(|(name, _)| name == key).map(|(_, value)| value),
            _ => None,
        }
    }

    /// The text of a string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Json::Str(text) => Some(text),
            _ => None,
        }
    }

    /// A number as a double, integers rounded; truth values are not numbers.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Json::Int(number) => Some(*number as f64),
            Json::Float(number) => Some(*number),
            _ => None,
        }
    }

    /// The items of a list.
    pub fn as_list(&self) -> Option<&[Json]> {
        match self {
            Json::List(items) => Some(items),
            _ => None,
        }
    }

    /// What this is, in words for an error.
    pub fn describe(&self) -> String {
        match self {
            Json::Null => Event::Null.describe(),
            Json::Bool(flag) => Event::Bool(*flag).describe(),
            Json::Int(number) => Event::Int(*number).describe(),
            Json::Float(number) => Event::Float(*number).describe(),
            Json::Str(text) => Event::Str(text.as_str().into()).describe(),
            Json::List(items) => format!("a list of {}", items.len()),
            Json::Object(pairs) => format!("an object of {} keys", pairs.len()),
        }
    }
}

/// Makes a tree out of events, with a stack of its own instead of recursion.
#[derive(Default)]
pub(super) struct Builder {
    open: Vec<Partial>,
}

enum Partial {
    List(Vec<Json>),
    Object { pairs: Vec<(String, Json)>, key: String },
}

impl Builder {
    /// Takes the next event; gives the value once it is complete.
    pub(super) fn push(&mut self, event: Event<'_>) -> Option<Json> {
        let value = match event {
            Event::Null => Json::Null,
            Event::Bool(flag) => Json::Bool(flag),
            Event::Int(number) => Json::Int(number),
            Event::Float(number) => Json::Float(number),
            Event::Str(text) => Json::Str(text.into_owned()),
            Event::Key(text) => {
                if let Some(Partial::Object { key, .. }) = self.open.last_mut() {
                    *key = text.into_owned();
                }
                return None;
            }
            Event::ListStart => {
                self.open.push(Partial::List(Vec::new()));
                return None;
            }
            Event::ObjectStart => {
                self.open.push(Partial::Object { pairs: Vec::new(), key: String::new() });
                return None;
            }
            Event::ListEnd | Event::ObjectEnd => match self.open.pop()? {
                Partial::List(items) => Json::List(items),
                Partial::Object { pairs, .. } => Json::Object(pairs),
            },
        };
        match self.open.last_mut() {
            None => return Some(value),
            Some(Partial::List(items)) => items.push(value),
            Some(Partial::Object { pairs, key }) => pairs.push((std::mem::take(key), value)),
        }
        None
    }
}
