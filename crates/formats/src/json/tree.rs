//! A value as a tree, for parts of a document that fit into memory.

use super::Event;
use crate::budget::Budget;
use crate::error::Fault;

/// A JSON value. Objects keep the order of their keys and every duplicate.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number without fraction or exponent.
    Int(i128),
    /// A number with fraction or exponent, or `NaN`, `Infinity`, `-Infinity`.
    Float(f64),
    /// A string.
    Str(String),
    /// A list.
    List(Vec<Json>),
    /// Keys and values in file order.
    Object(Vec<(String, Json)>),
}

impl Json {
    /// The value of a key of an object: the last one if the key occurs twice, as in Python.
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

    /// A number as a double, integers rounded; booleans are not numbers.
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

    /// A description for an error.
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

/// The purpose of the memory, for an error of the budget.
pub(crate) const TREE: &str = "values of a JSON document";

/// An item of a list, plus twice its size for what is built from it after the tree is read.
pub(crate) const ITEM_SIZE: usize = 3 * size_of::<Json>();

/// Builds a tree from events within a budget, with its own stack instead of recursion.
pub(super) struct Builder<'a> {
    open: Vec<Partial>,
    budget: &'a Budget,
}

enum Partial {
    List(Vec<Json>),
    Object { pairs: Vec<(String, Json)>, key: String },
}

impl<'a> Builder<'a> {
    pub(super) fn within(budget: &'a Budget) -> Builder<'a> {
        Builder { open: Vec::new(), budget }
    }

    /// Takes the next event. Returns the value once it is complete.
    pub(super) fn push(&mut self, event: Event<'_>) -> Result<Option<Json>, Fault> {
        if let Event::Str(text) | Event::Key(text) = &event {
            self.budget.charge_text(TREE, text)?;
        }
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
                return Ok(None);
            }
            Event::ListStart => {
                self.open.push(Partial::List(Vec::new()));
                return Ok(None);
            }
            Event::ObjectStart => {
                self.open.push(Partial::Object { pairs: Vec::new(), key: String::new() });
                return Ok(None);
            }
            Event::ListEnd | Event::ObjectEnd => match self.open.pop() {
                Some(Partial::List(items)) => Json::List(items),
                Some(Partial::Object { pairs, .. }) => Json::Object(pairs),
                None => return Ok(None),
            },
        };
        match self.open.last_mut() {
            None => return Ok(Some(value)),
            Some(Partial::List(items)) => {
                self.budget.charge_push(TREE, items.len(), ITEM_SIZE)?;
                items.push(value);
            }
            Some(Partial::Object { pairs, key }) => {
                self.budget.charge_push(TREE, pairs.len(), size_of::<(String, Json)>())?;
                pairs.push((std::mem::take(key), value));
            }
        }
        Ok(None)
    }
}
