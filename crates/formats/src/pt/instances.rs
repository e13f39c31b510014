//! Objects of classes that are not known here: their class by name, what they are made with, and their attributes.
//!
//! Nothing of the class runs. A pickle says in plain data how an object is to be made and filled, so a saved module, a
//! `Namespace` of arguments or an optimizer becomes a dictionary of that, and the tensors in it are read like any others.
//!
//! | key | what it holds |
//! |---|---|
//! | `__class__` | the name of the class |
//! | `__args__` | what the class would be called with, if anything |
//! | `__items__`, `__pairs__` | what would be appended to the object, and set in it by key |
//! | any other | an attribute |
//! | `__state__` | what a `__setstate__` would be given, where that is no dictionary |

use super::objects::Objects;
use crate::error::{Error, Fault};
use crate::pickle::{Call, Id, Node};
use crate::value::Value;

impl Objects<'_> {
    /// The object `id` as a dictionary. Where it is part of itself, that is said in its place.
    pub(super) fn instance(
        &mut self,
        id: Id,
        class: &str,
        args: &[Id],
        filled: &Call,
    ) -> Result<Value, Error> {
        if self.inside.contains(&id) {
            return self.opaque(format!("the object of {class} that this is part of"));
        }
        self.inside.push(id);
        let parts = self.parts(class, args, filled);
        self.inside.pop();
        match parts {
            Ok(parts) => Ok(Value::Dict(parts)),
            // Limits of the whole file.
            Err(error) if matches!(error.fault, Fault::TooLarge { .. } | Fault::OverBudget { .. }) => {
                Err(error)
            }
            Err(error) => self.unread(format!("an object of {class}: {error}")),
        }
    }

    fn parts(&mut self, class: &str, args: &[Id], filled: &Call) -> Result<Vec<(Value, Value)>, Error> {
        self.charge(2)?;
        let mut parts = vec![(key("__class__"), Value::Str(class.to_owned()))];
        if !args.is_empty() {
            parts.push((key("__args__"), Value::Tuple(self.values(args)?)));
        }
        if !filled.items.is_empty() {
            parts.push((key("__items__"), Value::List(self.values(&filled.items)?)));
        }
        if !filled.pairs.is_empty() {
            parts.push((key("__pairs__"), Value::Dict(self.pairs(&filled.pairs)?)));
        }
        if let Some(state) = filled.state {
            self.attributes(state, &mut parts)?;
        }
        Ok(parts)
    }

    fn attributes(&mut self, state: Id, parts: &mut Vec<(Value, Value)>) -> Result<(), Error> {
        let pickle = self.pickle;
        match pickle.node(state) {
            Node::None => {}
            Node::Dict(pairs) => parts.extend(self.pairs(pairs)?),
            // Of a class with slots: the attributes in its dictionary, and those in its slots.
            Node::Tuple(both)
                if both.len() == 2
                    && both.iter().all(|&id| matches!(pickle.node(id), Node::None | Node::Dict(_))) =>
            {
                both.iter().try_for_each(|&half| self.attributes(half, parts))?;
            }
            _ => parts.push((key("__state__"), self.value(state)?)),
        }
        Ok(())
    }
}

fn key(name: &str) -> Value {
    Value::Str(name.to_owned())
}
