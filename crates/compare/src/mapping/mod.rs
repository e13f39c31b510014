//! Mapping files: the user's knowledge about two programs that names do not show.
//!
//! ```text
//! data mapping    row: row          X.0.forward.input.0: Y.0.forward.input.0     calls, and entries of them
//! cell mapping    module: module    fc2.Dense: fc2.Linear                        names of modules
//! layer mapping   layer: {in: in}   ParallelAttention: {qkv_proj: query_key_value}   places in the model
//! ```
//! All three are msprobe's own formats: YAML maps of texts. They rewrite names of the target into names of the golden
//! before pairing. The first lines without effect are named, further ones counted.

mod cells;
mod data;
mod idle_lines;
mod layers;
mod yaml;

use std::path::{Path, PathBuf};

use ulpscope_dump::{Error, Rank};

pub(crate) use cells::Cells;
pub(crate) use data::DataRows;
pub(crate) use layers::Layers;

use idle_lines::IdleLines;
use layers::LayerRule;

/// The content of mapping files; empty by default.
#[derive(Clone, Debug, Default)]
pub struct Mapping {
    pub(crate) data: Option<DataRows>,
    pub(crate) cells: Option<Cells>,
    pub(crate) layers: Option<Layers>,
}

/// One line of a mapping file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) line: u64,
}

impl Mapping {
    /// With a data mapping: names of rows, or of calls.
    pub fn with_data(mut self, path: &Path) -> Result<Mapping, Error> {
        self.data = Some(DataRows::read(path)?);
        Ok(self)
    }

    /// With a cell mapping: names of modules with their classes, or parts of them.
    pub fn with_cells(mut self, path: &Path) -> Result<Mapping, Error> {
        self.cells = Some(Cells::read(path)?);
        Ok(self)
    }

    /// With a layer mapping: names inside of layers.
    pub fn with_layers(mut self, path: &Path) -> Result<Mapping, Error> {
        self.layers = Some(Layers::read(path)?);
        Ok(self)
    }

    /// With pairs of calls, which replace a data mapping.
    pub(crate) fn with_calls(mut self, pairs: Vec<(String, String)>) -> Mapping {
        self.data = Some(DataRows::of_calls(pairs));
        self
    }

    /// Whether modules or layers are renamed.
    pub(crate) fn renames_modules(&self) -> bool {
        self.cells.is_some() || self.layers.is_some()
    }

    /// Rows of the target and the golden that the data mapping pairs.
    pub fn row_names(&self) -> Option<Vec<(String, String)>> {
        Some(self.data.as_ref()?.row_names())
    }

    /// Calls that the data mapping pairs.
    pub(crate) fn call_pairs(
        &self,
        target: &Rank,
        golden: &Rank,
        notes: &mut Vec<String>,
    ) -> Vec<(usize, usize)> {
        self.data.as_ref().map(|data| data.call_pairs(target, golden, notes)).unwrap_or_default()
    }

    /// Whether a data mapping pairs rows.
    pub(crate) fn has_rows(&self) -> bool {
        self.data.is_some()
    }

    /// The golden's row for a row of the target, by the data mapping.
    pub(crate) fn row(&self, target: &str) -> Option<&str> {
        self.data.as_ref()?.row(target)
    }
}

/// Which lines have had an effect.
#[derive(Debug, Default)]
pub(crate) struct Uses {
    cells: Vec<bool>,
    layers: Vec<bool>,
}

impl Uses {
    pub(crate) fn of(mapping: &Mapping) -> Uses {
        let cells = mapping.cells.as_ref().map_or(0, |cells| cells.rules().len());
        let layers = mapping.layers.as_ref().map_or(0, |layers| layers.rules().len());
        Uses { cells: vec![false; cells], layers: vec![false; layers] }
    }

    /// Reports lines that had no effect.
    pub(crate) fn report(&self, mapping: &Mapping, notes: &mut Vec<String>) {
        if let Some(cells) = &mapping.cells {
            let mut idle = IdleLines::of(cells.file(), notes);
            for (rule, _) in cells.rules().iter().zip(&self.cells).filter(|(_, used)| !**used) {
                idle.add(rule.line, || format!("the target has nothing called {:?}", rule.from));
            }
        }
        if let Some(layers) = &mapping.layers {
            let mut idle = IdleLines::of(layers.file(), notes);
            for (LayerRule { layer, rule }, _) in
                layers.rules().iter().zip(&self.layers).filter(|(_, used)| !**used)
            {
                idle.add(rule.line, || {
                    format!("the target has nothing called {:?} inside {layer:?}", rule.from)
                });
            }
        }
    }
}

/// A flat file of rules. Of lines with the same left side the last one counts, as in every YAML reader.
fn flat_rules(path: &Path) -> Result<(PathBuf, Vec<Rule>), Error> {
    let mut rules = Vec::new();
    for item in yaml::read(path)? {
        rules.push(item.rule().map_err(|error| error.in_file(path))?);
    }
    Ok((path.to_owned(), rules))
}
