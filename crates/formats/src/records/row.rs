//! One argument or result, independent of the tool.

use crate::error::Error;
use crate::json::Json;
use crate::msprobe::{Call, Item, TensorItem};
use crate::names::CallName;

/// One argument or result of one call.
#[derive(Clone, Debug)]
pub(super) struct Row {
    /// Its role in the call.
    pub part: Part,
    /// Its path in that part: position or name, outermost first.
    pub path: Vec<Step>,
    /// What was recorded.
    pub content: Content,
}

/// The role of an entry in its call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Part {
    /// A positional argument; in a backward call, the gradient of a result.
    Input,
    /// An argument given by name.
    Kwarg,
    /// A result; in a backward call, the gradient of an argument.
    Output,
    /// A parameter of a module.
    Parameter,
    /// A section with a different name: the gradient of a parameter, a saved variable.
    Named,
}

/// One step into a container.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Step {
    /// Position in a list.
    Index(usize),
    /// Key of a dictionary.
    Key(String),
}

/// What was recorded.
#[derive(Clone, Debug)]
pub(super) enum Content {
    /// A tensor. Statistics that were not recorded are `null`.
    Tensor {
        /// `torch.float32`.
        dtype: String,
        /// Dimensions, if they are a list of integers.
        shape: Option<Vec<u64>>,
        /// Max, min, mean, norm.
        stats: [Json; 4],
        /// The digest of its bytes.
        digest: Option<String>,
        /// Its data file, as recorded and unchecked.
        data_name: Option<String>,
        /// Elements that were recorded with it.
        elements: Option<Elements>,
    },
    /// A number, text, slice, size.
    Scalar {
        /// `int`, `float`, `bool`, `str`, …
        kind: String,
        /// Its value.
        value: Json,
    },
}

/// Elements that were recorded with a tensor.
#[derive(Clone, Debug)]
pub(super) enum Elements {
    /// The first ones.
    Sample(Vec<f64>),
    /// All of them.
    All(Vec<f64>),
}

/// Visits every row of the wanted parts of a call of `dump.json`, in file order. `null` and objects without a
/// description have none. Only one row is in memory: in a deeply nested call the paths of all rows could fill it.
pub(super) fn visit_parts(
    call: &Call,
    wanted: &dyn Fn(Part) -> bool,
    see: &mut dyn FnMut(Row) -> Result<(), Error>,
) -> Result<(), Error> {
    let name = CallName::from_msprobe(&call.key);
    let mut show =
        |part: Part, path: &[Step], content: Content| see(Row { part, path: path.to_vec(), content });
    let sections = call.sections();
    if sections.is_empty() && wanted(Part::Named) {
        walk(&call.body, &mut Vec::new(), &mut |path, content| show(Part::Named, path, content))?;
    }
    for (section, item) in sections {
        let part = match section.as_str() {
            "input_args" | "input" if name.is_some() => Part::Input,
            "input_kwargs" if name.is_some() => Part::Kwarg,
            "output" if name.is_some() => Part::Output,
            "parameters" if name.is_some() => Part::Parameter,
            _ => Part::Named,
        };
        if !wanted(part) {
            continue;
        }
        let mut path = Vec::new();
        if part == Part::Named {
            path.push(Step::Key(section.clone()));
        }
        walk(item, &mut path, &mut |path, content| show(part, path, content))?;
    }
    Ok(())
}

/// Takes a leaf and its path.
type SeeLeaf<'s> = dyn FnMut(&[Step], Content) -> Result<(), Error> + 's;

/// Visits the leaves of an item. The reader limits the depth.
fn walk(item: &Item, path: &mut Vec<Step>, see: &mut SeeLeaf<'_>) -> Result<(), Error> {
    match item {
        Item::None | Item::Other(_) => Ok(()),
        Item::Tensor(tensor) => see(path, tensor_content(tensor)),
        Item::Scalar { kind, value } => {
            see(path, Content::Scalar { kind: kind.clone(), value: value.clone() })
        }
        Item::List(items) => items.iter().enumerate().try_for_each(|(index, item)| {
            path.push(Step::Index(index));
            walk(item, path, see)?;
            path.pop();
            Ok(())
        }),
        Item::Dict(pairs) => pairs.iter().try_for_each(|(key, item)| {
            path.push(Step::Key(key.clone()));
            walk(item, path, see)?;
            path.pop();
            Ok(())
        }),
    }
}

fn tensor_content(tensor: &TensorItem) -> Content {
    Content::Tensor {
        dtype: tensor.dtype().unwrap_or_default().to_owned(),
        shape: tensor.shape(),
        stats: ["Max", "Min", "Mean", "Norm"].map(|key| tensor.get(key).cloned().unwrap_or(Json::Null)),
        digest: tensor.digest().map(str::to_owned),
        // A file with several tensors is not the file of this one.
        data_name: tensor
            .get("data_name")
            .filter(|_| tensor.get("data_at").is_none())
            .and_then(Json::as_str)
            .map(str::to_owned),
        elements: floats(tensor, "values")
            .map(Elements::All)
            .or_else(|| floats(tensor, "sample").map(Elements::Sample)),
    }
}

/// A list of numbers; nothing if it has anything else.
fn floats(tensor: &TensorItem, key: &str) -> Option<Vec<f64>> {
    tensor.get(key)?.as_list()?.iter().map(Json::as_f64).collect()
}

impl Content {
    /// The same content as an item of `dump.json`, in msprobe's order of keys.
    pub(super) fn into_item(self) -> Item {
        let (dtype, shape, stats, digest, data_name) = match self {
            Content::Scalar { kind, value } => return Item::Scalar { kind, value },
            Content::Tensor { dtype, shape, stats, digest, data_name, .. } => {
                (dtype, shape, stats, digest, data_name)
            }
        };
        let dims = shape.unwrap_or_default().into_iter().map(|dim| Json::Int(dim.into())).collect();
        let [max, min, mean, norm] = stats;
        let mut tensor = TensorItem::new()
            .with("type", Json::Str("torch.Tensor".to_owned()))
            .with("dtype", Json::Str(dtype))
            .with("shape", Json::List(dims))
            .with("Max", max)
            .with("Min", min)
            .with("Mean", mean)
            .with("Norm", norm);
        if let Some(digest) = digest {
            tensor = tensor.with("md5", Json::Str(digest));
        }
        if let Some(name) = data_name {
            tensor = tensor.with("data_name", Json::Str(name));
        }
        Item::Tensor(tensor)
    }
}
