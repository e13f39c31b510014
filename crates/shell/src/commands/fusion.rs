//! The fusion passes that took effect: `fusion_result.json`.

use std::fs;
use std::path::Path;

use ulpscope_formats::json::{self, Json};
use ulpscope_report::{heavy_table, panel, side_by_side};

use crate::folders::DataKind;
use crate::reply::Reply;
use crate::session::Session;

/// Larger than any such file.
const MAX_BYTES: u64 = 64 << 20;

const TABLES: [(&str, &str); 2] = [("graph_fusion", "Graph Fusion"), ("ub_fusion", "UB Fusion")];

/// A panel for each graph.
pub(super) fn panels(session: &Session) -> Reply {
    let mut reply = Reply::default();
    let files = session.folders.files(DataKind::Fusion);
    // The same file may lie beside the data and in it.
    let Some(path) = files.first() else {
        reply.warning(session.folders.missing(DataKind::Fusion));
        return reply;
    };
    match read(path) {
        Ok(graphs) => graphs.iter().for_each(|graph| show(graph, &mut reply)),
        Err(problem) => reply.error(format!("ac: {}: {problem}", path.display())),
    }
    reply
}

fn show(graph: &Json, reply: &mut Reply) {
    let text = |value: &Json| match value {
        Json::Str(text) => text.clone(),
        Json::Int(number) => number.to_string(),
        _ => String::new(),
    };
    let id = ["graphId", "session_and_graph_id"].into_iter().find_map(|key| graph.get(key));
    let id = id.map(text).unwrap_or_default();
    let mut tables = TABLES.map(|(key, title)| {
        let passes = match graph.get(key) {
            Some(Json::Object(passes)) => passes.as_slice(),
            _ => &[],
        };
        let times = |pass: &Json| pass.get("effect_times").map(text).unwrap_or_default();
        let is_used = |times: &String| times.parse::<u64>().is_ok_and(|times| times > 0);
        let rows: Vec<Vec<String>> = passes
            .iter()
            .map(|(name, pass)| (name.clone(), times(pass)))
            .filter(|(_, times)| is_used(times))
            .map(|(name, times)| vec![name, times])
            .collect();
        heavy_table(&format!("{title} [GraphID: {id}]"), &["Fusion Name", "Effect times"], &rows)
    });
    let [left, right] = &mut tables;
    let lines: Vec<String> = side_by_side(left, right).lines().map(str::to_owned).collect();
    reply.block(&panel(Some(&format!("GraphID:{id}")), &lines));
}

/// The graphs of a file: an object, a list of objects, or objects one after the other without anything between them.
fn read(path: &Path) -> Result<Vec<Json>, String> {
    let size = fs::metadata(path).map_err(|error| error.to_string())?.len();
    if size > MAX_BYTES {
        return Err(format!("{size} bytes, and the limit is {MAX_BYTES}"));
    }
    let bytes = fs::read(path).map_err(|error| error.to_string())?;
    let mut graphs = Vec::new();
    let mut at = 0;
    while let Some(skipped) = bytes[at..].iter().position(|byte| !byte.is_ascii_whitespace() && *byte != b',')
    {
        let start = at + skipped;
        let end =
            json::end_of_value(&bytes, start).ok_or_else(|| format!("byte {start}: expected an object"))?;
        match json::read(&bytes[start..end]).map_err(|error| error.to_string())? {
            Json::List(items) => graphs.extend(items),
            one => graphs.push(one),
        }
        at = end;
    }
    match graphs.iter().find(|graph| !matches!(graph, Json::Object(_))) {
        Some(other) => Err(format!("expected objects, found {}", other.describe())),
        None => Ok(graphs),
    }
}
