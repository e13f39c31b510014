//! `ulpscope graph`: operators, casts and differences of Ascend graphs.

use anyhow::Context;
use serde_json::{Value, json};
use ulpscope_graph::{self as graph, Graph, GraphFile, Op, OpFilter, OpInfo, TensorInfo};

use crate::args::{
    GraphArgs, GraphCastsArgs, GraphCommand, GraphDiffArgs, GraphDrawArgs, GraphInfoArgs, GraphLsArgs,
};
use crate::exit::Exit;
use crate::output::Output;

pub(crate) fn run(args: GraphArgs, output: &mut Output) -> anyhow::Result<Exit> {
    match args.command {
        GraphCommand::Ls(args) => ls(&args, output),
        GraphCommand::Info(args) => info(&args, output),
        GraphCommand::Casts(args) => casts(&args, output),
        GraphCommand::Diff(args) => diff(&args, output),
        GraphCommand::Draw(args) => draw(&args, output),
    }
}

/// Every graph of every file, with the file.
fn all(files: &[GraphFile]) -> impl Iterator<Item = (&GraphFile, &Graph)> {
    files.iter().flat_map(|file| file.graphs.iter().map(move |graph| (file, graph)))
}

fn title(file: &GraphFile, graph: &Graph) -> String {
    format!("{}, {} ({} operators)", file.path.display(), graph.name, graph.ops.len())
}

fn ls(args: &GraphLsArgs, output: &mut Output) -> anyhow::Result<Exit> {
    let filter = OpFilter {
        name: args.name.clone(),
        op_type: args.op_type.clone(),
        fusion: args.fusion.clone(),
        kernel: args.kernel.clone(),
    };
    let is_count = filter == OpFilter::default();
    let files = graph::open(&args.graph)?;
    let mut found = 0;
    let mut documents: Vec<Value> = Vec::new();
    for (file, one) in all(&files) {
        let ops = graph::list(one, &filter);
        found += ops.len();
        if args.json {
            let row = |op: &&Op| json!({ "name": op.name, "type": op.op_type, "passes": op.pass_names() });
            documents.push(json!({
                "file": file.path.display().to_string(),
                "graph": one.name,
                "types": graph::type_counts(one),
                "ops": ops.iter().map(row).collect::<Vec<_>>(),
            }));
            continue;
        }
        output.line(&title(file, one))?;
        if is_count {
            for (op_type, count) in graph::type_counts(one) {
                output.line(&format!("{count:>7}  {op_type}"))?;
            }
            continue;
        }
        for op in ops {
            let passes = op.pass_names().join(", ");
            output.line(&format!("[{}][{passes}] {}", op.op_type, op.name))?;
        }
    }
    if args.json {
        output.json(&json!({ "graphs": documents }))?;
    }
    Ok(if found == 0 { Exit::Differ } else { Exit::Done })
}

fn info(args: &GraphInfoArgs, output: &mut Output) -> anyhow::Result<Exit> {
    let files = graph::open(&args.graph)?;
    let found: Vec<OpInfo> = all(&files)
        .flat_map(|(_, one)| graph::find_ops(one, &args.op).into_iter().map(move |op| graph::info(one, op)))
        .collect();
    if args.json {
        output.json(&json!({ "ops": serde_json::to_value(&found)? }))?;
    } else {
        for one in &found {
            for line in info_lines(one, args.attributes) {
                output.line(&line)?;
            }
        }
        if found.is_empty() {
            output.complain(&format!("note: no operator has {:?} in its name", args.op));
        }
    }
    Ok(if found.is_empty() { Exit::Differ } else { Exit::Done })
}

fn info_lines(op: &OpInfo, attributes: bool) -> Vec<String> {
    let mut lines = vec![
        format!("Op(Type/Name): [{}] {}", op.op_type, op.name),
        format!("ID: {}", op.id),
        format!("KernelName: {}", op.kernel.as_deref().unwrap_or_default()),
        format!("GraphName: {}", op.graph),
        format!("PassName: {}", op.passes.join(", ")),
        format!("OriginalOp: {}", op.original_ops.join(", ")),
    ];
    if attributes {
        lines.extend(op.attributes.iter().map(|(key, value)| format!("  {key}: {value}")));
    }
    let tensor = |(at, tensor): (usize, &TensorInfo)| {
        let sizes: Vec<String> = tensor.shape.iter().map(i64::to_string).collect();
        let origin = tensor.origin_shape.as_ref().map(|shape| format!(" origin {shape}")).unwrap_or_default();
        let mut ends: Vec<String> =
            tensor.source.iter().map(|end| format!("{}:{}", end.op, end.index)).collect();
        ends.extend(tensor.consumers.iter().map(|end| format!("{}:{}", end.op, end.index)));
        let shape = sizes.join(", ");
        format!(" -[{at}][{}][{}][{shape}]{origin} {}", tensor.dtype, tensor.layout, ends.join(", "))
    };
    lines.push("Input:".to_owned());
    lines.extend(op.inputs.iter().enumerate().map(tensor));
    lines.extend(op.control_inputs.iter().map(|source| format!(" -[control] {source}")));
    lines.push("Output:".to_owned());
    lines.extend(op.outputs.iter().enumerate().map(tensor));
    lines
}

fn casts(args: &GraphCastsArgs, output: &mut Output) -> anyhow::Result<Exit> {
    let files = graph::open(&args.graph)?;
    let mut documents: Vec<Value> = Vec::new();
    for (file, one) in all(&files) {
        let groups = graph::casts(one);
        if args.json {
            let casts = serde_json::to_value(&groups)?;
            documents
                .push(json!({ "file": file.path.display().to_string(), "graph": one.name, "casts": casts }));
            continue;
        }
        output.line(&title(file, one))?;
        for group in groups {
            let loses = if group.loses { "  loses precision or range" } else { "" };
            output.line(&format!("[Cast][{} -> {}] {}{loses}", group.from, group.to, group.ops.len()))?;
            for op in &group.ops {
                output.line(&format!("    {op}"))?;
            }
        }
    }
    if args.json {
        output.json(&json!({ "graphs": documents }))?;
    }
    Ok(Exit::Done)
}

fn diff(args: &GraphDiffArgs, output: &mut Output) -> anyhow::Result<Exit> {
    let graphs = |files: Vec<GraphFile>| files.into_iter().flat_map(|file| file.graphs).collect::<Vec<_>>();
    let (left, right) = (graphs(graph::open(&args.left)?), graphs(graph::open(&args.right)?));
    let found = graph::diff_all(&left, &right);
    if args.json {
        output.json(&serde_json::to_value(&found)?)?;
    } else {
        for op in &found.different {
            output.line(&op.op)?;
            for difference in &op.differences {
                output.line(&format!("    {difference}"))?;
            }
        }
        for (side, names) in [("first", &found.only_left), ("second", &found.only_right)] {
            for name in names {
                output.line(&format!("{name} is only in the {side} graph"))?;
            }
        }
        for (side, names) in [("first", &found.only_left_graphs), ("second", &found.only_right_graphs)] {
            for name in names {
                output.line(&format!("graph {name} is only on the {side} side"))?;
            }
        }
        let same = found.compared - found.different.len();
        output.line(&format!("{same} of {} operators of both graphs are the same", found.compared))?;
    }
    Ok(if found.is_same() { Exit::Done } else { Exit::Differ })
}

fn draw(args: &GraphDrawArgs, output: &mut Output) -> anyhow::Result<Exit> {
    let files = graph::open(&args.graph)?;
    let found = all(&files).find_map(|(_, one)| Some((one, *graph::find_ops(one, &args.op).first()?)));
    let Some((one, op)) = found else {
        output.complain(&format!("note: no operator has {:?} in its name", args.op));
        if args.json {
            output.json(&json!({ "op": null, "written": null }))?;
        }
        return Ok(Exit::Differ);
    };
    let image = graph::draw(one, op, args.depth);
    std::fs::write(&args.output, image).with_context(|| format!("{}", args.output.display()))?;
    let written = args.output.display().to_string();
    if args.json {
        output.json(&json!({ "op": op.name, "written": written }))?;
    } else {
        output.line(&format!("{} drawn: {written}", op.name))?;
    }
    Ok(Exit::Done)
}
