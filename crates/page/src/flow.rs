//! Who feeds whom: the sources that a dump records, as edges between calls of the page.

use std::collections::{HashMap, HashSet};

use serde_json::{Value as Json, json};
use ulpscope_dump::{CallKind, Content, Entry, Role, parse_key};
use ulpscope_report::escape;

use crate::dumps::NamedRank;

/// Edges of one side.
#[derive(Debug, Default)]
pub(crate) struct FlowSide {
    pub(crate) edges: Vec<Edge>,
    /// What no recorded call produced: the call that gets it, its entry, and what it is.
    origins: Vec<(u32, u32, u32)>,
    names: Names,
}

/// From an entry of a call to an entry of a different one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Edge {
    pub(crate) from: u32,
    pub(crate) to: u32,
    out: u32,
    into: u32,
}

#[derive(Debug, Default)]
struct Names {
    all: Vec<String>,
    known: HashMap<String, u32>,
}

impl Names {
    fn id(&mut self, name: &str) -> u32 {
        if let Some(&id) = self.known.get(name) {
            return id;
        }
        let id = self.all.len() as u32;
        self.all.push(escape::terminal(name).into_owned());
        self.known.insert(name.to_owned(), id);
        id
    }
}

/// Role and position of an entry: `input.0`.
pub(crate) fn position(entry: &Entry) -> String {
    let role = entry.role.word();
    if entry.path.is_empty() { role.to_owned() } else { format!("{role}.{}", entry.path) }
}

impl FlowSide {
    /// The edges of a side. `of_page` gives the number of a dump's call on the page.
    pub(crate) fn of(rank: &NamedRank, of_page: &[Option<u32>]) -> FlowSide {
        let mut side = FlowSide::default();
        let mut known = HashSet::new();
        for (call, to) in of_page.iter().enumerate() {
            let Some(to) = *to else { continue };
            let Ok(entries) = rank.rank.entries(call) else { continue };
            for entry in entries.iter().filter(|entry| matches!(entry.role, Role::Input | Role::Parameter)) {
                let Content::Tensor(tensor) = &entry.content else { continue };
                let Some(source) = tensor.source.as_deref() else { continue };
                let into = side.names.id(&position(entry));
                match producer(rank, source) {
                    Some((from, out)) => {
                        let Some(from) = of_page[from] else { continue };
                        let edge = Edge { from, to, out: side.names.id(&out), into };
                        if from != to && known.insert(edge) {
                            side.edges.push(edge);
                        }
                    }
                    None => {
                        let name = side.names.id(source);
                        side.origins.push((to, into, name));
                    }
                }
            }
        }
        side.add_backward(rank, of_page);
        side
    }

    /// Gradients flow against the edges of the forward pass. Dumps record no sources of them.
    fn add_backward(&mut self, rank: &NamedRank, of_page: &[Option<u32>]) {
        let mut backward: HashMap<u32, u32> = HashMap::new();
        for (call, number) in of_page.iter().enumerate() {
            let Some(number) = *number else { continue };
            if rank.rank.calls()[call].kind != CallKind::Forward {
                continue;
            }
            let name = rank.rank.name(call).replace(".forward", ".backward");
            let partner = rank.call(&name).and_then(|call| of_page[call]);
            if let Some(partner) = partner.filter(|_| parse_key(&name).2 == CallKind::Backward) {
                backward.insert(number, partner);
            }
        }
        let fed: HashSet<u32> = self.edges.iter().map(|edge| edge.to).collect();
        let against: Vec<Edge> = self
            .edges
            .iter()
            .filter_map(|edge| {
                let (from, to) = (*backward.get(&edge.to)?, *backward.get(&edge.from)?);
                (from != to && !fed.contains(&to)).then_some(Edge {
                    from,
                    to,
                    out: edge.into,
                    into: edge.out,
                })
            })
            .collect();
        // A gradient leaves a backward call as an output, and enters as an input.
        for edge in against {
            let out = self.names.all[edge.out as usize].replacen("input", "output", 1);
            let into = self.names.all[edge.into as usize].replacen("output", "input", 1);
            let (out, into) = (self.names.id(&out), self.names.id(&into));
            self.edges.push(Edge { out, into, ..edge });
        }
    }

    pub(crate) fn to_json(&self) -> Json {
        let column = |of: fn(&Edge) -> u32| self.edges.iter().map(of).collect::<Vec<u32>>();
        let origin = |of: fn(&(u32, u32, u32)) -> u32| self.origins.iter().map(of).collect::<Vec<u32>>();
        json!({
            "from": column(|edge| edge.from),
            "to": column(|edge| edge.to),
            "out": column(|edge| edge.out),
            "into": column(|edge| edge.into),
            "names": self.names.all,
            "origins": {
                "to": origin(|origin| origin.0),
                "into": origin(|origin| origin.1),
                "name": origin(|origin| origin.2),
            },
        })
    }
}

/// The call that a source names, and its entry.
fn producer(rank: &NamedRank, source: &str) -> Option<(usize, String)> {
    for role in [".output.", ".input."] {
        if let Some(at) = source.rfind(role)
            && let Some(call) = rank.call(&source[..at])
        {
            return Some((call, source[at + 1..].to_owned()));
        }
    }
    None
}
