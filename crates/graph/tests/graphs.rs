//! Graphs in every form, and hostile ones.
#![allow(clippy::unwrap_used)]

use std::path::PathBuf;

use ulpscope_formats::protobuf::{put_bytes, put_number, put_text, put_varint};
use ulpscope_graph::{
    Attr, FusionPass, Graph, Op, OpFilter, casts, diff, diff_all, draw, find_ops, info, list, open,
    parse_fusion_results, type_counts,
};

/// A graph in a file of its own.
fn graph(name: &str, text: &str) -> Result<Graph, String> {
    let folder = tempfile::tempdir().unwrap();
    let path: PathBuf = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    let message =
        |error: ulpscope_formats::Error| error.to_string().replace(&path.display().to_string(), "FILE");
    Ok(open(&path).map_err(message)?.remove(0).graphs.remove(0))
}

const TEXT: &str = r#"
name: "" # a comment
graph {
  name: "ge_default" attr { key: "_session_graph_id" value { s: "0_1" } }
  op { name: "x" type: "Data" output_desc { dtype: DT_FLOAT layout: "NHWC" shape { dim: 2 dim: -1 } } }
  op {
    name: "a/conv" type: "Conv2D" input: "x:0", input: "" input: "w:1" input: "clean:-1"
    attr { key: "pass_name" value { list { s: "FusionA" s: "FusionB" val_type: VT_LIST_STRING } } }
    attr { key: "strides" value { list { i: [1, 2] } } }
    attr { key: "alpha" value { f: 1.5 } } attr { key: "flag" value: < b: true > }
    attr { key: "ranges" value { list_list_int { list_list_i { list_i: 1 list_i: 8 } list_list_i { list_i: 3 } } } }
    attr { key: "weights" value { t { desc { dtype: DT_FLOAT } data: "\001\002}" } } }
    attr { key: "a/conv_kernelname" value { s: "te_conv2d" } }
    attr { key: "text" value { s: "\344\275\234 \"q\" \n" "joined" } }
    id: 7 unknown_field: 12 99 { a: 1 }
    input_desc { dtype: DT_FLOAT layout: "NHWC" } output_desc { dtype: DT_FLOAT16 layout: "NC1HWC0" shape { dim: 2 } }
  }
  op { name: "c" type: "Cast" input: "a/conv:0" input_desc { dtype: DT_FLOAT } output_desc { dtype: DT_INT32 } }
}
graph { name: "sub" op { name: "x" type: "Data" } }
"#;

#[test]
fn the_text_form() {
    let graph = graph("ge_proto_00000001_Build.txt", TEXT).unwrap();
    assert_eq!((graph.name.as_str(), graph.session_graph_id.as_deref()), ("ge_default", Some("0_1")));
    let conv = &graph.ops[1];
    assert_eq!(
        (conv.id, conv.pass_names(), conv.kernel_name()),
        (7, vec!["FusionA".to_owned(), "FusionB".to_owned()], Some("te_conv2d".to_owned()))
    );
    let ints = |numbers: &[i64]| Attr::List(numbers.iter().copied().map(Attr::Int).collect());
    assert_eq!(conv.attr("strides"), Some(&ints(&[1, 2])));
    assert_eq!(conv.attr("alpha"), Some(&Attr::Float(1.5)));
    assert_eq!(conv.attr("flag"), Some(&Attr::Bool(true)));
    assert_eq!(conv.attr("ranges"), Some(&Attr::List(vec![ints(&[1, 8]), ints(&[3])])));
    assert_eq!(conv.attr("weights"), Some(&Attr::Skipped("t".to_owned())));
    assert_eq!(conv.attr("text"), Some(&Attr::Text("作 \"q\" \njoined".to_owned())));
    let sources: Vec<(&str, i64)> =
        conv.inputs.iter().map(|edge| (edge.source.as_str(), edge.index)).collect();
    assert_eq!(sources, [("x", 0), ("", 0), ("w", 1), ("clean", -1)]);
    assert_eq!(graph.ops[0].output_descs[0].shape, [2, -1]);
}

#[test]
fn the_json_form_has_the_same_content() {
    let json = r#"{"graph": [{"name": "g", "attr": [{"key": "_session_graph_id", "value": {"s": "0_1"}}], "op": [
        {"name": "a/conv", "type": "Conv2D", "id": 7, "input": ["x:0"],
         "attr": [{"key": "strides", "value": {"list": {"i": [1, 2], "val_type": 2}}}, {"key": "alpha", "value": {"f": "1.5"}},
                  {"key": "flag", "value": {"b": true}}],
         "output_desc": [{"dtype": "DT_FLOAT16", "layout": "NC1HWC0", "shape": {"dim": [2, 3]}}]}]}]}"#;
    let graph = graph("ge_proto_00000001_Build.txt.json", json).unwrap();
    let conv = &graph.ops[0];
    assert_eq!(graph.session_graph_id.as_deref(), Some("0_1"));
    assert_eq!(conv.attr("strides"), Some(&Attr::List(vec![Attr::Int(1), Attr::Int(2)])));
    assert_eq!((conv.attr("alpha"), conv.attr("flag")), (Some(&Attr::Float(1.5)), Some(&Attr::Bool(true))));
    assert_eq!((&*conv.output_descs[0].dtype, &conv.output_descs[0].shape[..]), ("DT_FLOAT16", &[2, 3][..]));
}

#[test]
fn the_form_in_terms_of_onnx() {
    let text = r#"graph { name: "g" node { input: "x:0" input: "c:-1" output: "y:0" name: "y" op_type: "ge:Relu"
        attribute { name: "id" i: 4 type: INT } attribute { name: "output_desc_dtype:0" s: "DT_FLOAT" type: STRING }
        attribute { name: "output_desc_shape:0" ints: 2 ints: 3 type: INTS }
        attribute { name: "output_desc_layout:0" s: "ND" type: STRING }
        attribute { name: "pass_name" strings: "P" type: STRINGS } } }"#;
    let graph = graph("ge_onnx_00000001_Build.pbtxt", text).unwrap();
    let op = &graph.ops[0];
    assert_eq!((op.op_type.as_str(), op.id, op.pass_names()), ("Relu", 4, vec!["P".to_owned()]));
    let output = &op.output_descs[0];
    assert_eq!((&*output.dtype, &*output.layout, &output.shape[..]), ("DT_FLOAT", "ND", &[2, 3][..]));
}

#[test]
fn operators_are_found_and_described() {
    let graph = graph("g.txt", TEXT).unwrap();
    let names = |filter: OpFilter| list(&graph, &filter).iter().map(|op| op.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(OpFilter { op_type: "on".into(), ..OpFilter::default() }), ["a/conv"]);
    assert_eq!(
        names(OpFilter { fusion: "nB".into(), ..OpFilter::default() }),
        ["a/conv"],
        "a part is enough"
    );
    assert_eq!(names(OpFilter { kernel: "te_".into(), ..OpFilter::default() }), ["a/conv"]);
    assert_eq!(
        type_counts(&graph).into_iter().collect::<Vec<_>>(),
        [("Cast", 1), ("Conv2D", 1), ("Data", 1)]
    );
    let conv = find_ops(&graph, "a_conv")[0];
    let about = info(&graph, conv);
    assert_eq!(about.control_inputs, ["clean"]);
    assert_eq!(about.inputs.len(), 3, "an optional input without an edge has its place");
    assert_eq!((about.outputs[0].consumers[0].op.as_str(), about.outputs[0].consumers[0].index), ("c", 0));
    let groups = casts(&graph);
    assert_eq!(
        (groups[0].from.as_str(), groups[0].to.as_str(), groups[0].loses),
        ("DT_FLOAT", "DT_INT32", true)
    );
}

#[test]
fn two_graphs_are_compared() {
    let left = graph("l.txt", TEXT).unwrap();
    let right = TEXT
        .replace("DT_FLOAT16 layout: \"NC1HWC0\"", "DT_FLOAT layout: \"NC1HWC0\"")
        .replace("name: \"x\" type", "name: \"z\" type");
    let found = diff(&left, &graph("r.txt", &right).unwrap());
    assert_eq!(found.different[0].differences, ["output 0: dtype DT_FLOAT16 and DT_FLOAT"]);
    assert_eq!((found.only_left, found.only_right), (vec!["x".to_owned()], vec!["z".to_owned()]));
}

#[test]
fn an_image_has_every_neighbour_and_no_markup_of_the_file() {
    let hostile = TEXT.replace("name: \"c\"", "name: \"<script>&\\\"\\033\"");
    let graph = graph("g.txt", &hostile).unwrap();
    let image = draw(&graph, find_ops(&graph, "a/conv")[0], 1);
    assert_eq!(image.matches("<rect").count(), 3);
    assert_eq!(image.matches("<line").count(), 2);
    assert!(image.contains("&lt;script&gt;&amp;&quot;\u{fffd}") && !image.contains("<script"), "{image}");
    assert_eq!(draw(&graph, find_ops(&graph, "a/conv")[0], 0).matches("<rect").count(), 1);
}

#[test]
fn hostile_graphs_are_refused_by_name() {
    let deep = format!("graph {}", "{ a ".repeat(100_000));
    let many = format!("graph {{ {} }}", "op{}".repeat(3_000_000));
    for (name, text, message) in [
        (
            "empty",
            "",
            "FILE: expected a graph with operators, found none: this is no graph of GE or TensorFlow",
        ),
        ("words", "once upon", "FILE: byte 5: expected a colon or a message, found \"upon\""),
        (
            "open message",
            "graph { op {",
            "FILE: byte 12: expected the end of a message, found the end of the file",
        ),
        (
            "open text",
            "graph { name: \"abc",
            "FILE: byte 18: expected the end of a text, found the end of the file",
        ),
        (
            "escape at the end",
            "graph { name: \"abc\\",
            "FILE: byte 20: expected the end of a text, found the end of the file",
        ),
        (
            "closed twice",
            "graph { op { name: \"a\" } } }",
            "FILE: byte 27: expected the name of a field, found \"}\"",
        ),
        ("no value", "graph { name: }", "FILE: byte 14: expected a value, found \"}\""),
        (
            "messages in a list",
            "graph { op: [{",
            "FILE: byte 13: expected plain values in a list, found \"{\"",
        ),
        ("depth", deep.as_str(), "FILE: byte 519: nested deeper than 128 levels"),
    ] {
        assert_eq!(graph("g.txt", text).unwrap_err(), message, "{name}");
    }
    let refused = graph("g.txt", &many).unwrap_err();
    assert!(refused.contains("the operators of a graph need"), "{refused}");
    assert!(graph("g.txt", "{\"graph\": [{\"op\": [").is_err());
    let wide =
        "graph { node { attribute { name: \"output_desc_dtype:99999999999\" s: \"x\" } name: \"n\" } }";
    assert!(graph("g.txt", wide).unwrap().ops[0].output_descs.is_empty());
}

#[test]
fn any_number_of_empty_lists_needs_no_stack() {
    let text = format!("graph {{ op {{ name: \"x\" type: \"Data\" {} }} }}", "a:[] ".repeat(1_000_000));
    let read = std::thread::Builder::new().stack_size(256 << 10).spawn(move || graph("g.txt", &text));
    assert_eq!(read.unwrap().join().unwrap().unwrap().ops[0].name, "x");
}

#[test]
fn a_folder_gives_what_runs() {
    let folder = tempfile::tempdir().unwrap();
    let put = |name: &str| std::fs::write(folder.path().join(name), TEXT).unwrap();
    put("ge_proto_00000179_PreRunAfterBuild.txt");
    assert_eq!(open(folder.path()).unwrap().len(), 1, "any stage, if it is the only one");
    put("ge_proto_00000180_Other.txt");
    let refused = open(folder.path()).unwrap_err().to_string();
    assert!(refused.contains("none of them of the stage Build"), "{refused}");
    put("ge_proto_00000042_Build.txt");
    put("ge_proto_00000042_Build.txt.json");
    put("ge_onnx_00000042_Build.pbtxt");
    let opened = open(folder.path()).unwrap();
    assert_eq!(opened.len(), 1);
    assert!(opened[0].path.ends_with("ge_proto_00000042_Build.txt"));
    std::fs::write(folder.path().join("model.meta"), meta()).unwrap();
    assert_eq!(open(folder.path()).unwrap(), opened, "a graph of TensorFlow beside them does not run here");
    let empty = tempfile::tempdir().unwrap();
    assert!(open(empty.path()).unwrap_err().to_string().contains("DUMP_GE_GRAPH=2"));
}

/// A `.meta` file: a placeholder, an operator with attributes of every kind, and a function.
fn meta() -> Vec<u8> {
    let message = |fields: &[(u64, &[u8])]| {
        let mut out = Vec::new();
        fields.iter().for_each(|(number, bytes)| put_bytes(&mut out, *number, bytes));
        out
    };
    let number = |field: u64, value: u64| {
        let mut out = Vec::new();
        put_number(&mut out, field, value);
        out
    };
    let shape = |dims: &[u64]| {
        let mut out = Vec::new();
        dims.iter().for_each(|&dim| put_bytes(&mut out, 2, &number(1, dim)));
        out
    };
    let attr = |key: &str, value: &[u8]| message(&[(1, key.as_bytes()), (2, value)]);
    let shapes = message(&[(1, &message(&[(7, &shape(&[2, (-1i64) as u64]))]))]);
    let mut packed = Vec::new();
    [1, 2, 2, 1].iter().for_each(|&stride| put_varint(&mut packed, stride));
    let strides = message(&[(1, &message(&[(3, &packed)]))]);
    let mut alpha = vec![4 << 3 | 5];
    alpha.extend_from_slice(&0.5f32.to_le_bytes());
    let x = message(&[
        (1, b"x"),
        (2, b"Placeholder"),
        (5, &attr("dtype", &number(6, 1))),
        (5, &attr("shape", &message(&[(7, &shape(&[2, 3]))]))),
    ]);
    let conv = message(&[
        (1, b"a/conv"),
        (2, b"Conv2D"),
        (3, b"^x"),
        (3, b"x"),
        (3, b"w:1"),
        (5, &attr("T", &number(6, 19))),
        (5, &attr("_output_shapes", &shapes)),
        (5, &attr("strides", &strides)),
        (5, &attr("alpha", &alpha)),
        (5, &attr("use_cudnn", &number(5, 1))),
        (5, &attr("data_format", &message(&[(2, b"NHWC")]))),
        (5, &attr("value", &message(&[(8, &message(&[(2, &shape(&[4]))]))]))),
    ]);
    let function =
        message(&[(1, &message(&[(1, b"f")])), (3, &message(&[(1, b"y"), (2, b"Add"), (3, b"c:sum:0")]))]);
    let graph = message(&[(1, &x), (1, &conv), (2, &message(&[(1, &function)]))]);
    let mut meta = Vec::new();
    put_text(&mut meta, 1, "\u{1}");
    put_bytes(&mut meta, 2, &graph);
    meta
}

#[test]
fn graphs_of_tensorflow() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.meta");
    std::fs::write(&path, meta()).unwrap();
    let opened = open(folder.path()).unwrap();
    assert_eq!((opened.len(), opened[0].path.as_path()), (1, path.as_path()));
    let [graph, function] = &opened[0].graphs[..] else { panic!("{opened:?}") };
    let [x, conv] = &graph.ops[..] else { panic!("{graph:?}") };
    assert_eq!((x.op_type.as_str(), x.id), ("Placeholder", 0));
    assert_eq!((&*x.output_descs[0].dtype, &x.output_descs[0].shape[..]), ("float32", &[2, 3][..]));
    let sources =
        |op: &Op| op.inputs.iter().map(|edge| (edge.source.clone(), edge.index)).collect::<Vec<_>>();
    assert_eq!(sources(conv), [("x".to_owned(), 0), ("w".to_owned(), 1), ("x".to_owned(), -1)]);
    let output = &conv.output_descs[0];
    assert_eq!((&*output.dtype, &output.shape[..], &*output.layout), ("float16", &[2, -1][..], "NHWC"));
    assert_eq!(conv.attr("strides"), Some(&Attr::List([1, 2, 2, 1].map(Attr::Int).to_vec())));
    assert_eq!(conv.attr("alpha"), Some(&Attr::Float(0.5)));
    assert_eq!(conv.attr("use_cudnn"), Some(&Attr::Bool(true)));
    assert_eq!(conv.attr("value"), Some(&Attr::Skipped("tensor invalid [4]".to_owned())));
    assert_eq!((function.name.as_str(), sources(&function.ops[0])), ("f", vec![("c".to_owned(), 0)]));
    // No part of the file is a graph that it is not, and none ends the program.
    let whole = meta();
    for length in 0..whole.len() {
        std::fs::write(&path, &whole[..length]).unwrap();
        assert!(open(&path).is_err(), "{length}");
    }
}

#[test]
fn graphs_are_paired_by_session_and_number() {
    let text = |id: &str, name: &str, dtype: &str| {
        format!(
            "graph {{ name: \"{name}\" attr {{ key: \"_session_graph_id\" value {{ s: \"{id}\" }} }} \
             op {{ name: \"a\" type: \"Add\" output_desc {{ dtype: {dtype} }} }} }}\n"
        )
    };
    let read = |text: &str| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ge_proto_1_Build.txt");
        std::fs::write(&path, text).unwrap();
        open(&path).unwrap().remove(0).graphs
    };
    let left =
        read(&(text("0_1", "ge_20260101_1", "DT_FLOAT") + &text("0_2", "ge_20260101_2", "DT_FLOAT16")));
    let right =
        read(&(text("0_2", "ge_20260202_1", "DT_FLOAT16") + &text("0_1", "ge_20260202_2", "DT_FLOAT")));
    let found = diff_all(&left, &right);
    assert!(found.is_same(), "{found:?}");
    assert_eq!((found.graphs, found.compared), (2, 2));
    let lone = diff_all(&left, &right[..1]);
    assert_eq!((lone.graphs, lone.only_left_graphs.as_slice()), (1, &["ge_20260101_1".to_owned()][..]));
    assert!(!lone.is_same());
}

#[test]
fn results_of_fusion_passes() {
    let one = r#"{"graph_fusion": {"A": {"effect_times": "2", "match_times": "3"}}, "session_and_graph_id": "0_1",
                  "ub_fusion": {"B": {"effect_times": 1, "extra": {"effect_times": 9}}}}"#;
    let pass = |name: &str, effect_times, match_times| FusionPass {
        name: name.to_owned(),
        effect_times,
        match_times,
    };
    for (text, count) in
        [(one.to_owned(), 1), (format!("[{one}, {one}]"), 2), (format!("{one}{one}\n{one}"), 3)]
    {
        let results = parse_fusion_results(text.as_bytes()).unwrap();
        assert_eq!(results.len(), count, "{text}");
        for result in results {
            assert_eq!(result.graph_id.as_deref(), Some("0_1"));
            assert_eq!(
                (result.graph_fusion, result.ub_fusion),
                (vec![pass("A", 2, 3)], vec![pass("B", 1, 0)])
            );
        }
    }
    for bad in ["", "[]", "3", "{\"a\": ", "{}}", "{\"a\": [}"] {
        assert!(parse_fusion_results(bad.as_bytes()).is_err(), "{bad}");
    }
}
