//! A call as it was made: its arguments and results in the containers that they were passed in.
//!
//! [`Entry`](crate::Entry) lists flatten a call, which suits comparing. To make the call again, the containers
//! are needed too: an empty list is an argument, and has no entries.

use ulpscope_formats::msprobe::Item;

use crate::entry::Content;
use crate::journal::encode::Section;

/// An argument or result, or a container of them.
#[derive(Clone, Debug)]
pub enum Argument {
    /// A list or tuple: dumps do not distinguish them.
    List(Vec<Argument>),
    /// A dictionary, or an object by the names of its fields. It is empty for an argument that its tool could not
    /// describe.
    Dict(Vec<(String, Argument)>),
    /// A tensor, a plain value, or nothing.
    Leaf(Content),
}

/// The arguments and results of a call.
#[derive(Clone, Debug, Default)]
pub struct CallArguments {
    /// By position; of a backward call, the gradients of its results.
    pub positional: Vec<Argument>,
    /// By name.
    pub keyword: Vec<(String, Argument)>,
    /// Results; of a backward call, the gradients of its arguments.
    pub results: Vec<Argument>,
    /// Parameters of a module, by name; of its gradients, those.
    pub parameters: Vec<(String, Argument)>,
}

impl CallArguments {
    /// Reads the sections of a call.
    pub(crate) fn of(body: Item) -> CallArguments {
        let mut call = CallArguments::default();
        let Item::Dict(sections) = body else { return call };
        for (name, item) in sections {
            match (Section::of_key(&name), Argument::from(item)) {
                (Some(Section::InputArgs | Section::Input), Argument::List(items)) => call.positional = items,
                (Some(Section::InputKwargs), Argument::Dict(pairs)) => call.keyword = pairs,
                (Some(Section::Output), Argument::List(items)) => call.results = items,
                (Some(Section::Parameters), Argument::Dict(pairs)) => call.parameters = pairs,
                _ => {}
            }
        }
        call
    }

    /// Reads the gradients of a module's parameters: each is a list, by the name of the parameter.
    pub(crate) fn of_gradients(body: Item) -> CallArguments {
        let Item::Dict(parameters) = body else { return CallArguments::default() };
        let parameters = parameters.into_iter().map(|(name, item)| (name, Argument::from(item))).collect();
        CallArguments { parameters, ..CallArguments::default() }
    }
}

impl From<Item> for Argument {
    /// The JSON reader limits the depth.
    fn from(item: Item) -> Argument {
        match item {
            Item::List(items) => Argument::List(items.into_iter().map(Argument::from).collect()),
            Item::Dict(pairs) => {
                Argument::Dict(pairs.into_iter().map(|(name, item)| (name, Argument::from(item))).collect())
            }
            leaf => Argument::Leaf(Content::from(leaf)),
        }
    }
}

#[cfg(test)]
mod tests {
    use ulpscope_formats::json;

    use super::*;

    fn call(text: &str) -> CallArguments {
        CallArguments::of(Item::from_json(json::read(text.as_bytes()).expect("JSON")))
    }

    #[test]
    fn containers_stay_as_they_were() {
        let text = r#"{"input_args":[[],[{"type":"int","value":3}],null,{}],"input_kwargs":{"dim":null},"output":[null]}"#;
        let read = call(text);
        let [
            Argument::List(empty),
            Argument::List(one),
            Argument::Leaf(Content::None),
            Argument::Dict(unknown),
        ] = read.positional.as_slice()
        else {
            panic!("{read:?}")
        };
        assert!(empty.is_empty() && unknown.is_empty());
        assert!(matches!(one.as_slice(), [Argument::Leaf(Content::Scalar { kind, .. })] if kind == "int"));
        assert_eq!(read.keyword[0].0, "dim");
        assert_eq!(read.results.len(), 1);
    }

    #[test]
    fn sections_of_another_form_are_left_out() {
        let read = call(r#"{"input_args":{"a":1},"output":3,"other":[1]}"#);
        assert!(read.positional.is_empty() && read.results.is_empty());
        assert!(call("[1]").positional.is_empty());
    }
}
