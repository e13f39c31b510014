//! The parts of a dump file as files of their own, under the names that the older tools give them.

use super::{DumpFile, Format, read_op_debug};
use crate::bytes::Bytes;
use crate::json::Json;
use crate::tensor::Tensor;
use crate::value::Value;

/// One part.
#[derive(Clone, Debug)]
pub struct FilePart {
    /// Its name in the dump: `input.0`, `output.1`, `l1buffer.0`, `space.0`.
    pub name: String,
    /// What follows the name of the dump in that of its file: the name, and the dimensions after a change of layout.
    pub suffix: String,
    /// What it holds.
    pub content: PartContent,
    /// Why the result may not be the expected one, if so.
    pub unsure: Option<String>,
}

/// What a part holds.
#[derive(Clone, Debug)]
pub enum PartContent {
    /// A tensor.
    Tensor(Tensor),
    /// Memory without interpretation.
    Raw(Bytes),
    /// The state of overflow detection.
    Json(Json),
    /// Something that cannot be read, with the reason.
    Unread(String),
}

impl DumpFile {
    /// Every part, tensors in a layout if one is named. Of an op-debug file, the output is its state.
    pub fn parts(&self, layout: Option<Format>, is_op_debug: bool) -> Vec<FilePart> {
        let mut parts = Vec::new();
        for (kind, tensors) in [("input", &self.inputs), ("output", &self.outputs)] {
            for (index, dumped) in tensors.iter().enumerate() {
                let name = format!("{kind}.{index}");
                let (mut suffix, mut unsure) = (name.clone(), None);
                let state =
                    || read_op_debug(&dumped.data).ok().map(|state| PartContent::Json(state.to_json()));
                let content = match (layout, is_op_debug.then(state).flatten()) {
                    (_, Some(state)) => state,
                    (None, None) => read(dumped.tensor()),
                    (Some(layout), None) => {
                        let relaid = dumped.relaid(layout, None);
                        if let Ok(relaid) = &relaid {
                            suffix.push_str(&dimensions(relaid.tensor.shape()));
                            unsure.clone_from(&relaid.unsure);
                        }
                        read(relaid.map(|relaid| relaid.tensor))
                    }
                };
                parts.push(FilePart { name, suffix, content, unsure });
            }
        }
        for (kind, regions) in [("l1buffer", &self.buffers), ("space", &self.spaces)] {
            for (index, region) in regions.iter().enumerate() {
                let name = format!("{kind}.{index}");
                let content = match region.cut_short {
                    Some(cut) => PartContent::Unread(cut.error().to_string()),
                    None => PartContent::Raw(region.data.clone()),
                };
                parts.push(FilePart { suffix: name.clone(), name, content, unsure: None });
            }
        }
        parts
    }

    /// The same as [`DumpFile::to_value`], with the tensors in a layout, and what is unsure about them.
    pub fn to_value_in(&self, layout: Format) -> (Value, Vec<(String, String)>) {
        let mut unsure = Vec::new();
        let Value::Dict(mut pairs) = self.to_value() else { return (Value::None, unsure) };
        for part in self.parts(Some(layout), false) {
            let value = match part.content {
                PartContent::Tensor(tensor) => Value::Tensor(tensor),
                PartContent::Unread(why) => Value::Unread(why),
                PartContent::Raw(_) | PartContent::Json(_) => continue,
            };
            let named = |key: &Value| matches!(key, Value::Str(name) if *name == part.name);
            if let Some((_, place)) = pairs.iter_mut().find(|(key, _)| named(key)) {
                *place = value;
            }
            unsure.extend(part.unsure.map(|why| (part.name, why)));
        }
        (Value::Dict(pairs), unsure)
    }
}

fn read(tensor: Result<Tensor, crate::error::Error>) -> PartContent {
    tensor.map_or_else(|error| PartContent::Unread(error.to_string()), PartContent::Tensor)
}

/// `.2x20x3x4`; a scalar counts as one dimension.
fn dimensions(shape: &[usize]) -> String {
    let sizes: Vec<String> = shape.iter().map(usize::to_string).collect();
    format!(".{}", if sizes.is_empty() { "1".to_owned() } else { sizes.join("x") })
}
