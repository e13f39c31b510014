//! The fusion passes that took effect: `fusion_result.json`.

use ulpscope_graph::{FusionPass, FusionResult, read_fusion_results};
use ulpscope_report::{heavy_table, panel, side_by_side};

use crate::folders::DataKind;
use crate::reply::Reply;
use crate::session::Session;

/// A panel for each graph.
pub(super) fn panels(session: &Session) -> Reply {
    let mut reply = Reply::default();
    let files = session.folders.files(DataKind::Fusion);
    // The same file may lie beside the data and in it.
    let Some(path) = files.first() else {
        reply.warning(session.folders.missing(DataKind::Fusion));
        return reply;
    };
    match read_fusion_results(path) {
        Ok(graphs) => graphs.iter().for_each(|graph| show(graph, &mut reply)),
        Err(error) => reply.error(format!("ac: {error}")),
    }
    reply
}

fn show(graph: &FusionResult, reply: &mut Reply) {
    let id = graph.graph_id.as_deref().unwrap_or_default();
    let table = |title: &str, passes: &[FusionPass]| {
        let used = passes.iter().filter(|pass| pass.effect_times > 0);
        let rows: Vec<Vec<String>> =
            used.map(|pass| vec![pass.name.clone(), pass.effect_times.to_string()]).collect();
        heavy_table(&format!("{title} [GraphID: {id}]"), &["Fusion Name", "Effect times"], &rows)
    };
    let left = table("Graph Fusion", &graph.graph_fusion);
    let right = table("UB Fusion", &graph.ub_fusion);
    let lines: Vec<String> = side_by_side(&left, &right).lines().map(str::to_owned).collect();
    reply.block(&panel(Some(&format!("GraphID:{id}")), &lines));
}
