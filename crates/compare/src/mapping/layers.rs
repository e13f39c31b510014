//! Layer mapping: renames places in the model inside their layers, layer by layer from the top.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use ulpscope_dump::Error;
use ulpscope_formats::{Fault, Place};

use super::yaml::{self, Node};
use super::{Rule, Uses};
use crate::style::Side;

/// The layer that holds the model.
const TOP: &str = "TopLayer";

/// Its older name.
const OLD_TOP: &str = "Cell";

/// Places in the model, by the class of their layer; by its name if the class is not recorded, as for a list of layers.
#[derive(Clone, Debug)]
pub(crate) struct Layers {
    file: PathBuf,
    rules: Vec<LayerRule>,
    of_layer: HashMap<String, LayerRules>,
}

/// The rules of a layer by their left sides.
#[derive(Clone, Debug, Default)]
struct LayerRules {
    numbers: HashMap<String, usize>,
    /// Parts of the longest left side.
    most_parts: usize,
}

impl LayerRules {
    /// The rule whose left side is the longest prefix of a path, in whole parts.
    fn longest(&self, path: &str) -> Option<usize> {
        let ends = path.match_indices('.').map(|(dot, _)| dot).chain([path.len()]);
        let ends: Vec<usize> = ends.take(self.most_parts).collect();
        ends.into_iter().rev().find_map(|end| self.numbers.get(&path[..end]).copied())
    }
}

/// A rule inside of a layer.
#[derive(Clone, Debug)]
pub(crate) struct LayerRule {
    pub(crate) layer: String,
    pub(crate) rule: Rule,
}

/// A place after mapping.
pub(crate) struct Renamed {
    pub(crate) path: String,
    pub(crate) changed: bool,
}

impl Layers {
    pub(crate) fn read(path: &Path) -> Result<Layers, Error> {
        let mut rules = Vec::new();
        for layer in yaml::read(path)? {
            let name = if layer.key == OLD_TOP { TOP.to_owned() } else { layer.key };
            let items = match layer.node {
                Node::Map(items) => items,
                Node::Text(text) if text.is_empty() => Vec::new(),
                Node::Text(text) => {
                    let fault =
                        Fault::malformed("lines of `name: name` below the layer", format!("{text:?}"));
                    return Err(Error::at(Place::Line(layer.line), fault).in_file(path));
                }
            };
            for item in items {
                let mut rule = item.rule().map_err(|error| error.in_file(path))?;
                // `linear(Linear)`: a class after the name is a comment.
                if let Some((name, _)) = rule.to.split_once('(') {
                    rule.to = name.to_owned();
                }
                rules.push(LayerRule { layer: name.clone(), rule });
            }
        }
        let mut of_layer: HashMap<String, LayerRules> = HashMap::new();
        for (number, LayerRule { layer, rule }) in rules.iter().enumerate() {
            if rule.from.is_empty() {
                continue;
            }
            let layer = of_layer.entry(layer.clone()).or_default();
            layer.most_parts = layer.most_parts.max(rule.from.split('.').count());
            layer.numbers.entry(rule.from.clone()).or_insert(number);
        }
        Ok(Layers { file: path.to_owned(), rules, of_layer })
    }

    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    pub(crate) fn rules(&self) -> &[LayerRule] {
        &self.rules
    }

    /// A place of the target under its name in the golden; the golden's places are unchanged. `classes` gives the class
    /// of each module of the target by its path.
    pub(crate) fn renamed(
        &self,
        side: Side,
        path: &str,
        classes: &HashMap<String, String>,
        uses: &mut Uses,
    ) -> Renamed {
        if side == Side::Golden {
            return Renamed { path: path.to_owned(), changed: false };
        }
        let mut renamed: Vec<&str> = Vec::new();
        let mut changed = false;
        let mut done = 0;
        while done < path.len() {
            let rest = &path[done..];
            let layer = self.of_layer.get(layer_at(path, done, classes));
            let number = layer.and_then(|layer| layer.longest(rest));
            let length = match number {
                Some(number) => {
                    let rule = &self.rules[number].rule;
                    uses.layers[number] = true;
                    changed |= rule.from != rule.to;
                    renamed.push(&rule.to);
                    rule.from.len()
                }
                None => {
                    let part = rest.split('.').next().unwrap_or(rest);
                    renamed.push(part);
                    part.len()
                }
            };
            done += length + 1;
        }
        Renamed { path: renamed.join("."), changed }
    }
}

/// The name of the layer that contains the part of a path from `done` on.
fn layer_at<'a>(path: &'a str, done: usize, classes: &'a HashMap<String, String>) -> &'a str {
    let Some(front) = done.checked_sub(1).and_then(|end| path.get(..end)) else { return TOP };
    match classes.get(front) {
        Some(class) => class,
        None => front.rsplit('.').next().unwrap_or(front),
    }
}
