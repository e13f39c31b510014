//! `ni`: everything about an operator: its description in the graph, its neighbours, and its tensors in the dumps.

mod tensors;

use std::sync::Arc;

use ulpscope_formats::file;
use ulpscope_graph::{Edge, Graph, GraphFile, Op, TensorInfo, draw, info};
use ulpscope_report::panel;

use crate::graphs::graphs_of_runs;
use crate::options::Options;
use crate::python_text::{attribute, list, numbers, texts};
use crate::reply::{Ending, Reply};
use crate::session::Session;

/// Operators that are shown in full.
const MAX_SHOWN: usize = 10;

/// Operators that a panel of names lists.
const MAX_LISTED: usize = 100;

/// Bytes of a part of a file's name.
const NAME_BYTES: usize = 80;

const INPUTS: &str =
    "Input:idx | dtype | format | shape | value_range | shape_range| origin_shape | op_name | peer_idx";

/// An operator, and where it is.
struct Found<'a> {
    id: &'a str,
    file: &'a GraphFile,
    graph: &'a Graph,
    op: &'a Op,
}

pub(crate) fn run(session: &Session, options: &Options) -> Reply {
    let name = options.text("-n").or(options.words.first().map(String::as_str));
    let Some(name) = name.filter(|name| !name.is_empty()) else {
        return Reply::failed("ni: say which operator, as in: ni LeNet/conv1/Conv2D");
    };
    let depth = match options.count("-s", 0) {
        Ok(depth) => depth,
        Err(problem) => return Reply::failed(format!("ni: {problem}")),
    };
    let mut reply = Reply::default();
    let runs = graphs_of_runs(session, "ni", &mut reply);
    let all = candidates(&runs, options.text("-g").unwrap_or_default());
    let mut found: Vec<&Found<'_>> = all.iter().filter(|one| one.op.name == name).collect();
    if found.is_empty() && reply.ending != Ending::Failed {
        found = all.iter().filter(|one| is_like(&one.op.name, name)).collect();
        if found.is_empty() {
            reply.error(format!("ni: no operator has {name} in its name; ls lists operators"));
            return reply;
        }
        reply.line(&format!("[INFO] Can not find Operator named {name}. You may mean the operator bellow."));
        let lines: Vec<String> = found
            .iter()
            .take(MAX_LISTED)
            .map(|one| format!("[{}] {}", one.op.op_type, one.op.name))
            .collect();
        reply.block(&panel(Some("Possible Operators"), &lines));
        if found.len() > MAX_SHOWN {
            reply.warning(format!("{} operators; the first {MAX_SHOWN} are shown in full", found.len()));
        }
    }
    for one in found.into_iter().take(MAX_SHOWN) {
        if session.cancel.is_asked() {
            break;
        }
        let title = format!("({}) {}", one.id, one.graph.name);
        reply.block(&panel(Some(&title), &lines(session, one, options)));
        if depth > 0 {
            save_drawing(session, one, depth, &mut reply);
        }
    }
    reply
}

fn candidates<'a>(runs: &'a [(String, Vec<Arc<GraphFile>>)], graph: &str) -> Vec<Found<'a>> {
    let mut all = Vec::new();
    for (id, files) in runs {
        for file in files {
            for one in file.graphs.iter().filter(|one| one.name.contains(graph)) {
                all.extend(one.ops.iter().map(|op| Found { id, file, graph: one, op }));
            }
        }
    }
    all
}

/// Whether a name contains a text; `_` stands for `/` and `.` as in the names of files.
fn is_like(op: &str, text: &str) -> bool {
    op.contains(text) || op.replace(['/', '.'], "_").contains(text)
}

fn lines(session: &Session, found: &Found<'_>, options: &Options) -> Vec<String> {
    let op = found.op;
    let about = info(found.graph, op);
    let mut lines = vec![
        format!("Op(Type/Name): [{}] {}", op.op_type, op.name),
        format!("ID:    {}", op.id),
        format!("KernelName:    {}", about.kernel.unwrap_or_default()),
        format!(
            "KernelLibName: {}",
            op.attr("_ge_attr_op_kernel_lib_name").map(ToString::to_string).unwrap_or_default()
        ),
        format!("GraphName:     {}", found.graph.name),
    ];
    lines.extend((!about.passes.is_empty()).then(|| format!("PassName: {}", about.passes.join(", "))));
    lines.extend(
        (about.original_ops.len() > 1 || about.original_ops.first().is_some_and(|one| *one != op.name))
            .then(|| format!("OriginalOp: {}", texts(&about.original_ops))),
    );
    if options.has("-a") {
        lines.extend(op.attrs.iter().map(|(key, value)| format!(" {}", attribute(key, value))));
    }
    lines.push(INPUTS.to_owned());
    lines.extend(about.inputs.iter().enumerate().map(|(at, tensor)| input_line(at, tensor)));
    let mut after = about.inputs.len();
    if let Some(edge) = input_of_subgraph(found) {
        lines.push(format!(" -[{after}][][[]][] [] [] [] {}:{}", edge.source, edge.index));
        after += 1;
    }
    let control = about.control_inputs.iter().enumerate();
    lines.extend(control.map(|(at, source)| format!(" -[{}][][[]][] [] [] [] {source}:-1", after + at)));
    lines.push("Output:".to_owned());
    for (at, tensor) in about.outputs.iter().enumerate() {
        let consumers: Vec<&str> = tensor.consumers.iter().map(|consumer| consumer.op.as_str()).collect();
        lines.push(format!("{} {}", described(at, tensor), texts(&consumers)));
    }
    if about.outputs.is_empty() {
        lines.extend(outputs_of_subgraphs(found));
    }
    lines.extend(tensors::lines(session, found.id, &found.graph.name, op, options.has("-c")));
    lines
}

fn input_line(at: usize, tensor: &TensorInfo) -> String {
    let source =
        tensor.source.as_ref().map_or_else(String::new, |edge| format!("{}:{}", edge.op, edge.index));
    format!("{} {source}", described(at, tensor))
}

/// ` -[0][DT_FLOAT16][NC1HWC0][2, 1, 12, 12, 16] [] [] [2, 12, 12, 1]`.
fn described(at: usize, tensor: &TensorInfo) -> String {
    format!(
        " -[{at}][{}][{}]{} {} {} {}",
        tensor.dtype,
        tensor.layout,
        numbers(&tensor.shape),
        list(tensor.value_range.as_ref()),
        list(tensor.shape_range.as_ref()),
        list(tensor.origin_shape.as_ref())
    )
}

/// Where the input of a `Data` operator of a sub graph comes from: an input of the operator that calls the graph.
fn input_of_subgraph<'a>(found: &'a Found<'_>) -> Option<&'a Edge> {
    if found.op.op_type != "Data" || !found.op.inputs.is_empty() {
        return None;
    }
    let callers = found.file.graphs.iter().flat_map(|graph| &graph.ops);
    let caller = callers.into_iter().find(|op| op.subgraphs.contains(&found.graph.name))?;
    let number: usize = found.op.attr("_parent_node_index")?.to_string().parse().ok()?;
    caller.data_inputs().nth(number)
}

/// The outputs of an operator that calls graphs and describes none itself: the inputs of their last operator.
fn outputs_of_subgraphs(found: &Found<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    for name in &found.op.subgraphs {
        let Some(graph) = found.file.graphs.iter().find(|graph| graph.name == *name) else { continue };
        let Some(last) = graph.ops.iter().find(|op| op.op_type == "NetOutput") else { continue };
        let inputs = info(graph, last).inputs;
        lines.extend(inputs.iter().enumerate().map(|(at, tensor)| input_line(at, tensor)));
    }
    lines
}

/// Draws the neighbourhood; a folder that cannot be written to costs the drawing alone.
fn save_drawing(session: &Session, found: &Found<'_>, depth: usize, reply: &mut Reply) {
    let safe = |text: &str| -> String {
        let letters =
            text.chars().map(|c| if c.is_ascii_alphanumeric() || "_-".contains(c) { c } else { '_' });
        letters.take(NAME_BYTES).collect()
    };
    let parts = [found.id, &found.graph.name, &found.op.op_type, &found.op.name].map(safe);
    let folder = session.folders.drawings();
    let path = folder.join(format!("{}.{depth}.svg", parts.join(".")));
    let drawing = draw(found.graph, found.op, depth);
    let written = std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()));
    let written = written.and_then(|()| {
        let write = |out: &mut dyn std::io::Write| {
            out.write_all(drawing.as_bytes()).map_err(ulpscope_formats::Error::whole)
        };
        file::write_with(&path, write).map_err(|error| error.to_string())
    });
    match written {
        Ok(()) => reply.line(&format!("Drawing: {}", path.display())),
        Err(problem) => reply.error(format!("ni: {problem}")),
    }
}
