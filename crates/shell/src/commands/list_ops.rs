//! `ls`: the operators of the graphs, by name, type, fusion pass and kernel.

use ulpscope_graph::{Attr, Graph, Op, OpFilter, list};
use ulpscope_report::{heavy_table, panel};

use crate::graphs::graphs_of_runs;
use crate::options::Options;
use crate::python_text::texts;
use crate::reply::Reply;
use crate::session::Session;

/// Operators that a panel shows; more are counted.
const MAX_SHOWN: usize = 2000;

pub(crate) fn run(session: &Session, options: &Options) -> Reply {
    if let Some(word) = options.words.first() {
        return Reply::failed(format!(
            "ls: lists operators, as in: ls -n {word}; the program of that name is: run ls {word}"
        ));
    }
    let text = |option| options.text(option).unwrap_or_default().to_owned();
    let filter = OpFilter { name: text("-n"), op_type: text("-t"), fusion: text("-f"), kernel: text("-k") };
    let mut reply = Reply::default();
    for (id, files) in graphs_of_runs(session, "ls", &mut reply) {
        let graphs: Vec<&Graph> = files.iter().flat_map(|file| &file.graphs).collect();
        if filter == OpFilter::default() {
            count_types(&id, &graphs, &mut reply);
            continue;
        }
        let found: Vec<&Op> = graphs.iter().flat_map(|graph| list(graph, &filter)).collect();
        let lines: Vec<String> = found.iter().take(MAX_SHOWN).map(|op| line(op)).collect();
        if found.len() > MAX_SHOWN {
            reply.warning(format!("{id}: {} operators; the first {MAX_SHOWN} are shown", found.len()));
        }
        reply.block(&panel(Some(&id), &lines));
    }
    reply
}

/// How many operators there are of each type, in the order in which types first occur.
fn count_types(id: &str, graphs: &[&Graph], reply: &mut Reply) {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    let mut places = std::collections::HashMap::new();
    for op in graphs.iter().flat_map(|graph| &graph.ops) {
        let at = *places.entry(op.op_type.as_str()).or_insert_with(|| {
            counts.push((&op.op_type, 0));
            counts.len() - 1
        });
        counts[at].1 += 1;
    }
    let rows: Vec<Vec<String>> =
        counts.into_iter().map(|(name, count)| vec![name.to_owned(), count.to_string()]).collect();
    for line in heavy_table(id, &["OpType", "Count"], &rows) {
        reply.block(&format!("{}\n", line.trim_end()));
    }
}

/// `[Conv2D][TbeConvBiasaddFusionPass] LeNet/conv1/Conv2D`; several passes are a list.
fn line(op: &Op) -> String {
    let passes = match op.attr("pass_name") {
        None => String::new(),
        Some(Attr::List(_)) => texts(&op.pass_names()),
        Some(one) => one.to_string(),
    };
    format!("[{}][{passes}] {}", op.op_type, op.name)
}
