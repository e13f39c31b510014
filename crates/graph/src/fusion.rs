//! `fusion_result.json`: which fusion passes of the compiler took effect, and how often.

use std::path::Path;

use serde::Serialize;
use ulpscope_formats::json::{Event, Reader};
use ulpscope_formats::{Access, Budget, Bytes, Error, Fault};

/// The passes of one graph.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FusionResult {
    /// `0_1`, if the file says it.
    pub graph_id: Option<String>,
    /// Passes over the graph, with the number of times each took effect.
    pub graph_fusion: Vec<FusionPass>,
    /// Passes over operators that share a buffer.
    pub ub_fusion: Vec<FusionPass>,
}

/// A pass.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FusionPass {
    /// Its name.
    pub name: String,
    /// How often it took effect.
    pub effect_times: u64,
    /// How often its pattern was found.
    pub match_times: u64,
}

/// Reads a file: an object, a list of objects, or objects that follow each other without separators.
pub fn read_fusion_results(path: &Path) -> Result<Vec<FusionResult>, Error> {
    let bytes = Bytes::map(path, Access::ReadOnly)?;
    bytes.reading(|| parse(&bytes)).map_err(|error| error.in_file(path))
}

/// Reads the bytes of a file.
pub fn parse(file: &[u8]) -> Result<Vec<FusionResult>, Error> {
    let budget = Budget::of_file(file.len());
    let mut results = Vec::new();
    for document in documents(file) {
        let mut walk = Walk { reader: Reader::new(document), path: Vec::new(), budget: &budget };
        walk.results(&mut results)?;
    }
    if results.is_empty() {
        return Err(Error::whole(Fault::malformed("an object with graph_fusion or ub_fusion", "none")));
    }
    Ok(results)
}

/// The objects of a file that are glued together, each on its own; other files as a whole.
fn documents(file: &[u8]) -> Vec<&[u8]> {
    let text = file.trim_ascii();
    if !text.starts_with(b"{") {
        return vec![text];
    }
    let (mut found, mut start, mut depth, mut in_text, mut escaped) = (Vec::new(), 0, 0usize, false, false);
    for (at, byte) in text.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_text => escaped = true,
            b'"' => in_text = !in_text,
            b'{' if !in_text => depth += 1,
            b'}' if !in_text => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    found.push(&text[start..=at]);
                    start = at + 1;
                }
            }
            _ => {}
        }
    }
    if !text[start..].trim_ascii().is_empty() {
        // An error names what is wrong with the rest.
        found.push(&text[start..]);
    }
    found
}

struct Walk<'a> {
    reader: Reader<'a>,
    /// The keys of the open objects.
    path: Vec<String>,
    budget: &'a Budget,
}

impl Walk<'_> {
    fn results(&mut self, results: &mut Vec<FusionResult>) -> Result<(), Error> {
        let mut key = String::new();
        let mut current: Option<FusionResult> = None;
        while let Some(event) = self.reader.event()? {
            match event {
                Event::Key(name) => {
                    self.budget.charge("the passes of a file", 64 + name.len()).map_err(Error::whole)?;
                    key = name.into_owned();
                }
                Event::ObjectStart => {
                    self.path.push(std::mem::take(&mut key));
                    match self.path.len() {
                        1 => current = Some(FusionResult::default()),
                        3 => {
                            let name = self.path[2].clone();
                            let pass = FusionPass { name, ..FusionPass::default() };
                            if let Some(passes) = passes(&mut current, &self.path[1]) {
                                passes.push(pass);
                            }
                        }
                        _ => {}
                    }
                }
                Event::ObjectEnd => {
                    self.path.pop();
                    if self.path.is_empty() {
                        results.extend(current.take());
                    }
                }
                Event::Str(_) | Event::Int(_) => {
                    let text = match event {
                        Event::Str(text) => text.into_owned(),
                        Event::Int(number) => number.to_string(),
                        _ => continue,
                    };
                    self.value(&mut current, &key, text);
                }
                Event::ListStart | Event::ListEnd | Event::Null | Event::Bool(_) | Event::Float(_) => {}
            }
        }
        Ok(())
    }

    fn value(&self, current: &mut Option<FusionResult>, key: &str, text: String) {
        if self.path.len() == 1 && ["graphId", "session_and_graph_id"].contains(&key) {
            if let Some(current) = current {
                current.graph_id = Some(text);
            }
            return;
        }
        let Some(kind) = self.path.get(1).filter(|_| self.path.len() == 3) else { return };
        let pass = passes(current, kind).and_then(|passes| passes.last_mut());
        if let (Some(pass), Ok(times)) = (pass, text.parse()) {
            match key {
                "effect_times" => pass.effect_times = times,
                "match_times" => pass.match_times = times,
                _ => {}
            }
        }
    }
}

fn passes<'a>(current: &'a mut Option<FusionResult>, kind: &str) -> Option<&'a mut Vec<FusionPass>> {
    let current = current.as_mut()?;
    match kind {
        "graph_fusion" => Some(&mut current.graph_fusion),
        "ub_fusion" => Some(&mut current.ub_fusion),
        _ => None,
    }
}
