//! `ac`: everything that can be said without a question: operators of the last comparison that differ, fusion passes,
//! overflows, casts that lose fractions, and differences between the graphs of two runs.

use ulpscope_graph::{GraphFile, casts, diff};

use super::{fusion, overflow_panels, result_summary, vector_compare};
use crate::folders::DataKind;
use crate::graphs::graphs_of_runs;
use crate::options::Options;
use crate::python_text::texts;
use crate::reply::{Ending, Reply};
use crate::session::Session;

/// Operators of each kind that are shown.
const SHOWN: usize = 3;

/// Differences between two graphs that are listed.
const MAX_LISTED: usize = 50;

pub(crate) fn run(session: &Session, options: &Options) -> Reply {
    let limit = match options.count("-l", SHOWN) {
        Ok(limit) => limit,
        Err(problem) => return Reply::failed(format!("ac: {problem}")),
    };
    let mut reply = Reply::default();
    let is_compared = options.has("-c");
    if is_compared {
        reply.add(vector_compare::precision_tool(session, &Options::default()));
    }
    let results = result_summary::newest_results(session);
    if results.is_empty() && !is_compared {
        reply.warning(format!("{}; ac -c makes one", session.folders.missing(DataKind::Results)));
    }
    for file in &results {
        reply.add(result_summary::of_file(file, result_summary::COSINE, limit));
    }
    reply.add(fusion::panels(session));
    reply.add(overflow_panels::panels(session, limit, None));
    reply.add(graphs(session));
    // What is missing is named above. Nothing at all is a mistake of the folder.
    if reply.text.is_empty() && reply.ending == Ending::Done {
        reply.error(format!("ac: {}: no data to check", session.folders.root().display()));
    }
    reply
}

fn graphs(session: &Session) -> Reply {
    let mut reply = Reply::default();
    let runs = graphs_of_runs(session, "ac", &mut reply);
    if runs.is_empty() {
        // Every kind of data is optional here.
        let mut missing = Reply::default();
        missing.warning(session.folders.missing(DataKind::NpuGraph));
        return missing;
    }
    for (_, files) in &runs {
        for group in files.iter().flat_map(|file| &file.graphs).flat_map(casts) {
            // A float in fewer bits is what mixed precision is; a fraction that is cut off is not.
            let is_float = |dtype: &str| ["FLOAT", "DOUBLE", "BF16"].iter().any(|name| dtype.contains(name));
            if group.loses && !(is_float(&group.from) && is_float(&group.to)) {
                reply.line(&format!("[Cast][{} -> {}] {}", group.from, group.to, texts(&group.ops)));
            }
        }
    }
    if let [(first, ours), (second, theirs), ..] = runs.as_slice() {
        reply.line(&format!("Graphs of {first} and {second}:"));
        similarity(ours, theirs, &mut reply);
    }
    reply
}

/// Compares the graphs of two runs that have the same session and number, or else the same name or place.
fn similarity(ours: &[std::sync::Arc<GraphFile>], theirs: &[std::sync::Arc<GraphFile>], reply: &mut Reply) {
    let others: Vec<_> = theirs.iter().flat_map(|file| &file.graphs).collect();
    for (at, graph) in ours.iter().flat_map(|file| &file.graphs).enumerate() {
        let by_id = others.iter().find(|other| {
            graph.session_graph_id.is_some() && other.session_graph_id == graph.session_graph_id
        });
        let other =
            by_id.or_else(|| others.iter().find(|other| other.name == graph.name)).or_else(|| others.get(at));
        let Some(other) = other else {
            reply.line(&format!("{}: only the first run has it", graph.name));
            continue;
        };
        let found = diff(graph, other);
        for one in found.different.iter().take(MAX_LISTED) {
            reply.line(&format!("[{}] {}", one.op, one.differences.join("; ")));
        }
        let only = [("first", &found.only_left), ("second", &found.only_right)];
        for (which, ops) in only.into_iter().filter(|(_, ops)| !ops.is_empty()) {
            let listed = &ops[..ops.len().min(MAX_LISTED)];
            reply.line(&format!("{} operators only in the {which}: {}", ops.len(), texts(listed)));
        }
        let all = found.compared + found.only_left.len() + found.only_right.len();
        let alike = found.compared - found.different.len();
        reply.line(&format!("{}: similarity is [{alike} / {all}]", graph.name));
    }
}
