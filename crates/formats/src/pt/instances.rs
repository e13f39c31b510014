//! Objects of unknown classes: the name of the class, the constructor arguments, and the attributes.
//!
//! No code of the class runs. A pickle says in plain data how to create and fill an object. A saved module, a
//! `Namespace` of arguments or an optimizer becomes a dictionary of that data, and the tensors in it are read like
//! any others.
//!
//! | key | content |
//! |---|---|
//! | `__class__` | the name of the class |
//! | `__args__` | the arguments of the constructor, if any |
//! | `__items__`, `__pairs__` | items to append to the object, and to set in it by key |
//! | `__tensor__` | the tensor itself, of a tensor with tensors among its attributes |
//! | any other | an attribute |
//! | `__state__` | the argument of `__setstate__`, if it is not a dictionary |

use super::objects::Objects;
use crate::error::{Error, Fault};
use crate::pickle::{Call, Id, Node};
use crate::value::Value;

impl Objects<'_> {
    /// The object `id` as a dictionary. If it contains itself, a text in that place says so.
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

    /// A tensor with its attributes, as a dictionary with the tensor under `__tensor__`; the tensor alone if no attribute
    /// contains a tensor.
    pub(super) fn with_attributes(
        &mut self,
        id: Id,
        tensor: Value,
        state: Option<Id>,
    ) -> Result<Value, Error> {
        let Some(state) = state.filter(|_| !self.inside.contains(&id)) else { return Ok(tensor) };
        self.inside.push(id);
        let mut parts = vec![(key("__tensor__"), tensor)];
        let read = self.attributes(state, &mut parts);
        self.inside.pop();
        read?;
        let has_tensors = parts[1..].iter().any(|(_, value)| value.holds(&|part| !part.is_plain()));
        Ok(if has_tensors { Value::Dict(parts) } else { parts.swap_remove(0).1 })
    }

    fn attributes(&mut self, state: Id, parts: &mut Vec<(Value, Value)>) -> Result<(), Error> {
        let pickle = self.pickle;
        match pickle.node(state) {
            Node::None => {}
            Node::Dict(pairs) => parts.extend(self.pairs(pairs)?),
            // The state of a class with slots: the attributes in its dictionary, and those in its slots.
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
