//! Converts JSON-lines dumps to `dump.json` and back.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use ulpscope_formats::json::{self, Json};
use ulpscope_formats::msprobe::DumpJson;
use ulpscope_formats::records::{PklStyle, Report, ToMsprobe, msprobe_to_pkl, pkl_to_msprobe};
use ulpscope_formats::{Access, Bytes};

fn golden(name: &str) -> Bytes {
    let folder: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden");
    Bytes::map(&folder.join(name), Access::ReadOnly).unwrap()
}

fn bytes(text: &str) -> Bytes {
    Bytes::from(text.as_bytes().to_vec())
}

fn to_msprobe(pkl: &Bytes) -> (Bytes, Bytes, Report) {
    let (mut dump, mut stack) = (Vec::new(), Vec::new());
    let report = pkl_to_msprobe(pkl, &ToMsprobe::default(), &mut dump, &mut stack).unwrap();
    (dump.into(), stack.into(), report)
}

fn to_pkl(dump: &Bytes, stack: &Bytes, style: PklStyle) -> (String, Report) {
    let mut out = Vec::new();
    let report = msprobe_to_pkl(dump, Some(stack), style, &mut out).unwrap();
    (String::from_utf8(out).unwrap(), report)
}

/// Every call as one line: key, then each section in compact JSON with the statistics only.
fn outline(dump: &Bytes) -> Vec<String> {
    fn brief(value: &Json) -> String {
        let list = |items: &[Json]| items.iter().map(brief).collect::<Vec<_>>().join(" ");
        match value {
            Json::Null => "-".to_owned(),
            Json::List(items) => format!("[{}]", list(items)),
            Json::Object(pairs) if pairs.is_empty() => "{}".to_owned(),
            object => match (object.get("value"), object.get("Max")) {
                (Some(Json::Int(value)), _) => format!("i{value}"),
                (Some(Json::Float(value)), _) => format!("f{value}"),
                (Some(Json::Bool(value)), _) => value.to_string(),
                (_, Some(Json::Float(max))) => max.to_string(),
                (_, Some(Json::Int(max))) => max.to_string(),
                (_, Some(Json::Null)) => "?".to_owned(),
                _ => "…".to_owned(),
            },
        }
    }
    let whole = json::read(dump).unwrap();
    let Some(Json::Object(calls)) = whole.get("data") else { panic!("{whole:?}") };
    calls
        .iter()
        .map(|(key, sections)| {
            let Json::Object(sections) = sections else { panic!("{sections:?}") };
            let parts: Vec<String> =
                sections.iter().map(|(name, item)| format!("{name} {}", brief(item))).collect();
            format!("{key}: {}", parts.join(", "))
        })
        .collect()
}

#[test]
fn ptdbg_to_msprobe() {
    let (dump, _, report) = to_msprobe(&golden("pkl_lines/ptdbg4.pkl"));
    assert_eq!(
        outline(&dump),
        [
            "Functional.conv2d.0.forward: input_args [2.298342704772949 - - [i1 i1] - f0.1], input_kwargs {}, output [NaN]",
            "Tensor.add_.0.forward: input_args [1 true], input_kwargs {}, output [?]",
            "Tensor.__add__.1.forward: input_args [?], input_kwargs {}, output [inf 0.00001]",
            "Tensor.__add__.1.backward: input [1], output [- 1]",
        ]
    );
    assert_eq!((report.calls, report.entries, report.stacks, report.error_count), (4, 13, 4, 0));
    let header: Vec<(String, Json)> = DumpJson::new(&dump).unwrap().before().to_vec();
    let word = |text: &str| Json::Str(text.to_owned());
    assert_eq!(
        header,
        [
            ("task".to_owned(), word("statistics")),
            ("level".to_owned(), word("L1")),
            ("framework".to_owned(), word("pytorch")),
            ("dump_data_dir".to_owned(), Json::Null),
        ]
    );
}

#[test]
fn a_tensor_has_the_fields_of_msprobe() {
    let (dump, _, _) = to_msprobe(&golden("pkl_lines/ptdbg6_md5.pkl"));
    let text = String::from_utf8(dump.to_vec()).unwrap();
    let tensor = "    {\n     \"type\": \"torch.Tensor\",\n     \"dtype\": \"torch.float32\",\n     \"shape\": [\n      3\n     ],\n     \"Max\": 1.0,\n     \"Min\": 0.0,\n     \"Mean\": 0.5,\n     \"Norm\": 1.25,\n     \"md5\": \"7cdf25f4\"\n    }";
    assert!(text.contains(tensor), "{text}");
}

#[test]
fn equal_stacks_are_one_group() {
    let (_, stack, _) = to_msprobe(&golden("pkl_lines/ptdbg4.pkl"));
    assert_eq!(
        String::from_utf8(stack.to_vec()).unwrap(),
        "{\n \"0\": [\n  [\n   \"Functional.conv2d.0.forward\"\n  ],\n  [\n   \"File /case/conv.py, line 10, in conv, \\n return conv(x)\",\n   \"File /case/forward.py, line 11, in forward, \\n return forward(x)\",\n   \"File <frozen runpy>, line 88, in _run_code\"\n  ]\n ],\n \"1\": [\n  [\n   \"Tensor.add_.0.forward\",\n   \"Tensor.__add__.1.forward\",\n   \"Tensor.__add__.1.backward\"\n  ],\n  [\n   \"File /case/step.py, line 10, in step, \\n return step(x)\",\n   \"File <frozen runpy>, line 88, in _run_code\"\n  ]\n ]\n}"
    );
}

#[test]
fn modules_and_names_of_the_users() {
    let (dump, _, report) = to_msprobe(&golden("pkl_lines/ptdbg4_modules.pkl"));
    assert_eq!(
        outline(&dump),
        [
            "Module.Conv2d.forward.0: input_args [2.5], input_kwargs {}, output [2]",
            "my_net.0.forward: input_args [2], input_kwargs {}, output [2]",
            "my_net.1.forward: input_args [3], input_kwargs {}, output [3]",
        ]
    );
    assert_eq!(DumpJson::new(&dump).unwrap().level(), Some("L0"));
    // The tool gave both executions the same name, and recorded a step that dump.json cannot express.
    assert_eq!(report.renumbered, 1);
    assert_eq!(report.dropped.into_iter().collect::<Vec<_>>(), [("dump steps other than 0", 4)]);
    let (dump, _, _) = to_msprobe(&golden("pkl_lines/ptdbg6.pkl"));
    assert_eq!(
        outline(&dump)[0],
        "Module.conv.Conv2d.forward.0: input_args [2.5], input_kwargs {}, output [2]"
    );
}

#[test]
fn hooks_calls_are_numbered_and_their_gradients_swapped() {
    let (dump, _, report) = to_msprobe(&golden("pkl_lines/hooks_sample.pkl"));
    assert_eq!(
        outline(&dump),
        [
            "Functional.linear.0.forward: input_args [2.5 - 10000000000000000], input_kwargs {}, output [1.5]",
            "Tensor.__add__.0.forward: input_args [1.5], input_kwargs {}, output [0.75]",
            "Functional.linear.1.forward: input_args [2.5], input_kwargs {}, output [NaN]",
            "Functional.linear.1.backward: input [1], output [2.5]",
            "Tensor.__add__.0.backward: input [6], output [2 4]",
            "Functional.linear.0.backward: input [8], output [2.5]",
        ]
    );
    assert_eq!(report.dropped.into_iter().collect::<Vec<_>>(), [("values of tensors", 14)]);
    // The same statistics, computed from the recorded values.
    let (full, _, _) = to_msprobe(&golden("pkl_lines/hooks_full.pkl"));
    assert_eq!(outline(&full), outline(&dump));
}

#[test]
fn statistics_of_full_values_are_torchs() {
    let line = |values: &str| format!("[\"0_Torch_a_forward_output\", {values}, \"torch.float32\", [4]]\n");
    let tensor = |values: &str| {
        let (dump, _, _) = to_msprobe(&bytes(&line(values)));
        let whole = json::read(&dump).unwrap();
        let call = whole.get("data").unwrap().get("Torch.a.0.forward").unwrap().clone();
        call.get("output").unwrap().as_list().unwrap()[0].clone()
    };
    let stats = |values: &str| {
        let tensor = tensor(values);
        ["Max", "Min", "Mean", "Norm"].map(|key| tensor.get(key).unwrap().as_f64().unwrap())
    };
    assert_eq!(stats("[1.0, -2.0, 2.0, 4.0]"), [4.0, -2.0, 1.25, 5.0]);
    assert!(stats("[1.0, NaN, 2.0, 4.0]").iter().all(|stat| stat.is_nan()));
    assert_eq!(stats("[1.0, Infinity, 2.0, 4.0]"), [f64::INFINITY, 1.0, f64::INFINITY, f64::INFINITY]);
    assert_eq!(tensor("[1, 2, 3, 9]").get("Max"), Some(&Json::Int(9)));
    assert_eq!(tensor("[1, 2, 3, 9]").get("Mean"), Some(&Json::Null));
}

#[test]
fn an_overflow_file_becomes_one_call_with_its_stack() {
    let (dump, stack, report) = to_msprobe(&golden("pkl_lines/hooks_overflow.pkl"));
    assert_eq!(
        outline(&dump),
        ["Functional.relu.0.forward: input_args [inf 9 0.5 true -], input_kwargs {}, output [inf]"]
    );
    assert_eq!(
        String::from_utf8(stack.to_vec()).unwrap(),
        "{\n \"0\": [\n  [\n   \"Functional.relu.0.forward\"\n  ],\n  [\n   \"File /case/net.py, line 12, in forward, \\n return F.relu(x)  # it's\",\n   \"a frame of another form\"\n  ]\n ]\n}"
    );
    assert_eq!((report.calls, report.entries, report.stacks), (1, 6, 1));
}

#[test]
fn ptdbg_to_msprobe_and_back_is_the_same_file() {
    for (name, style) in [
        ("pkl_lines/ptdbg4.pkl", PklStyle::Ptdbg4),
        ("pkl_lines/ptdbg6.pkl", PklStyle::Ptdbg6),
        ("pkl_lines/ptdbg6_md5.pkl", PklStyle::Ptdbg6),
    ] {
        let source = golden(name);
        let (dump, stack, _) = to_msprobe(&source);
        let (back, report) = to_pkl(&dump, &stack, style);
        assert_eq!(back, String::from_utf8(source.to_vec()).unwrap(), "{name}");
        assert!(report.dropped.is_empty(), "{name}: {:?}", report.dropped);
    }
}

#[test]
fn stacks_without_calls_are_converted() {
    let text = "[\"Functional_relu_0_forward_stack_info\", [[\"a.py\", \"1\", \"f\", \"g()\"]]]\n\
                [\"Tensor___add___3_forward_stack_info\", [[\"b.py\", \"2\", \"g\", null]]]\n";
    let (dump, stack, report) = to_msprobe(&bytes(text));
    assert_eq!((report.calls, report.stacks), (0, 2));
    assert_eq!(to_pkl(&dump, &stack, PklStyle::Ptdbg4).0, text);
}

#[test]
fn msprobe_to_ptdbg() {
    let (dump, stack) = (golden("msprobe/stat_mix/dump.json"), golden("msprobe/stat_mix/stack.json"));
    let (text, report) = to_pkl(&dump, &stack, PklStyle::Ptdbg6);
    let data: Vec<&str> = text.lines().filter(|line| !line.contains("stack_info")).collect();
    let line = |start: &str| *data.iter().find(|line| line.starts_with(start)).unwrap();
    assert!(
        line("[\"fc.Linear.0.forward.input.0\"")
            .starts_with("[\"fc.Linear.0.forward.input.0\", 0, [], \"torch.float32\", [2, 4], [2.0, -2.0, ")
    );
    assert_eq!(
        line("[\"Torch.cat.0.forward.input.0.1\""),
        "[\"Torch.cat.0.forward.input.0.1\", 0, [], \"torch.float32\", [1, 3], [Infinity, Infinity, Infinity, Infinity]]"
    );
    // A keyword argument gets the position after the others.
    assert_eq!(
        line("[\"Torch.cat.0.forward.input.1\""),
        "[\"Torch.cat.0.forward.input.1\", 0, [], \"<class 'int'>\", \"[]\", [0, 0, 0, 0]]"
    );
    assert_eq!(
        line("[\"Torch.max.0.forward.output.1\""),
        "[\"Torch.max.0.forward.output.1\", 0, [], \"torch.int64\", [3], [2.0, 0.0, null, \"Nan\"]]"
    );
    assert_eq!(
        line("[\"Torch.isfinite.0.forward.output\""),
        "[\"Torch.isfinite.0.forward.output\", 0, [], \"torch.bool\", [3], [[], [], [], \"Nan\"]]"
    );
    assert_eq!(
        report.dropped.into_iter().collect::<Vec<_>>(),
        [
            ("arguments that are neither tensors nor numbers", 1),
            ("gradients of parameters and saved variables", 1),
            ("parameters of modules", 2),
        ]
    );
    assert_eq!(report.stacks, 19);
    let (text, report) = to_pkl(&dump, &stack, PklStyle::Ptdbg4);
    assert!(
        text.contains(
            "[\"Module_fc.Linear_0_forward_input.0\", 0, [], \"torch.float32\", [2, 4], [2.0, -2.0, "
        )
    );
    assert!(text.contains("[\"Tensor___add___2_backward_input.0\", 0, []"));
    assert_eq!(report.dropped.get("keyword arguments"), Some(&4));
    let (text, report) = to_pkl(&dump, &stack, PklStyle::Hooks);
    assert!(text.starts_with("[\"0_Functional_linear_forward_input.0\", [2.0, -2.0, 2.9802322387695312e-08], \"torch.float32\", [2, 4]]\n"));
    assert_eq!(report.stacks, 0);
}

#[test]
fn hooks_lines_swap_gradients_and_write_those_of_inputs_first() {
    let dump = golden("msprobe/stat_mix/dump.json");
    let mut out = Vec::new();
    msprobe_to_pkl(&dump, None, PklStyle::Hooks, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    let names: Vec<&str> = text
        .lines()
        .filter_map(|line| line.split('"').nth(1))
        .filter(|name| name.contains("gelu_backward"))
        .map(|name| name.split_once('_').unwrap().1)
        .collect();
    assert_eq!(names, ["Functional_gelu_backward_input.0", "Functional_gelu_backward_output.0"]);
    let (back, _, _) = to_msprobe(&bytes(&text));
    let whole = json::read(&dump).unwrap();
    let original = whole.get("data").unwrap().get("Functional.gelu.0.backward").unwrap();
    let again = json::read(&back).unwrap();
    let again = again.get("data").unwrap().get("Functional.gelu.0.backward").unwrap();
    for section in ["input", "output"] {
        let max = |call: &Json| call.get(section).unwrap().as_list().unwrap()[0].get("Max").cloned();
        assert_eq!(max(again), max(original), "{section}");
    }
}

#[test]
fn a_truncated_dump_is_converted_up_to_its_end() {
    let whole = golden("msprobe/stat_mix/dump.json");
    let cut = bytes(std::str::from_utf8(&whole[..8000]).unwrap());
    let mut out = Vec::new();
    let report = msprobe_to_pkl(&cut, None, PklStyle::Ptdbg6, &mut out).unwrap();
    assert_eq!((report.calls, report.error_count), (9, 1));
    assert_eq!(
        report.errors[0].to_string(),
        "Torch.clamp.0.forward, line 434, byte 8000: truncated: expected a key in double quotes, found the end"
    );
}

#[test]
fn data_files_are_referred_to_on_request() {
    let options = ToMsprobe { dump_data_dir: Some("dump".to_owned()) };
    let text = "[\"Torch_a_0_forward_input.0\", 0, [], \"torch.float32\", [2], [1.0, 1.0, 1.0]]\n\
                [\"Torch_a/../b_0_forward_input.0\", 0, [], \"torch.float32\", [2], [1.0, 1.0, 1.0]]\n";
    let (mut dump, mut stack) = (Vec::new(), Vec::new());
    let report = pkl_to_msprobe(&bytes(text), &options, &mut dump, &mut stack).unwrap();
    let dump = Bytes::from(dump);
    let reader = DumpJson::new(&dump).unwrap();
    assert_eq!((reader.task(), reader.dump_data_dir()), (Some("tensor"), Some("dump")));
    assert!(
        String::from_utf8(dump.to_vec())
            .unwrap()
            .contains("\"data_name\": \"Torch_a_0_forward_input.0.npy\"")
    );
    assert_eq!(
        report.errors[0].to_string(),
        "line 2: \"Torch_a/../b_0_forward_input.0.npy\" leads out of its folder; expected a plain relative name"
    );
}

#[test]
fn bad_lines_and_positions_are_reported_and_the_rest_converted() {
    let entry = |name: &str| format!("[\"{name}\", 0, [], \"torch.float32\", [2], [1.0, 1.0, 1.0]]\n");
    let deep = format!("Torch_a_0_forward_input{}", ".0".repeat(401));
    let text = [
        entry("Torch_a_0_forward_input.0"),
        entry("Torch_a_0_forward_input.99999999999"),
        entry("Torch_a_0_forward_output.0.1"),
        entry("Torch_a_0_forward_output.0.1.2"),
        "[1, 2]\n".to_owned(),
        entry("no name of a call"),
        entry(&deep),
        entry("Torch_b_0_forward_output"),
        "[\"torn".to_owned(),
    ]
    .concat();
    let (dump, _, report) = to_msprobe(&bytes(&text));
    let errors: Vec<String> = report.errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        errors,
        [
            "line 2: the position of an argument of 99999999999 exceeds the limit of 65536",
            "line 4: expected an argument to be either a list or a value, found both at [0, 1]",
            "line 5: expected a name that ends in forward or backward, then input, output or stack_info, found \"\"",
            "line 6: expected a name that ends in forward or backward, then input, output or stack_info, found \"no name of a call\"",
            "line 7: nested deeper than 400 levels",
            &format!(
                "line 9, byte {}: truncated: expected the closing quote of a string, found the end",
                text.len()
            ),
        ]
    );
    assert_eq!(report.error_count, 6);
    assert_eq!(
        outline(&dump),
        [
            "Torch.a.0.forward: input_args [1], input_kwargs {}, output [[- 1]]",
            "Torch.b.0.forward: output [1]",
        ]
    );
}

#[test]
fn positions_cannot_fill_memory() {
    // Each line needs a list of 65536: a call may have a million, whatever the file requests.
    let text: String = (0..100)
        .map(|i| {
            format!(
                "[\"Torch_a_0_forward_input.{i}.65535\", 0, [], \"torch.float32\", [2], [1.0, 1.0, 1.0]]\n"
            )
        })
        .collect();
    let (_, _, report) = to_msprobe(&bytes(&text));
    assert_eq!(report.error_count, 85);
    let message = report.errors[0].to_string();
    assert!(message.starts_with("line 16: the number of arguments of one call of "), "{message}");
    assert!(message.ends_with("exceeds the limit of 1048576"), "{message}");
}

#[test]
fn other_files_are_refused() {
    let refused = |text: &str| {
        pkl_to_msprobe(&bytes(text), &ToMsprobe::default(), &mut Vec::new(), &mut Vec::new())
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        refused("\u{80}\u{2}]q"),
        "expected a JSON-lines dump of torch_npu.hooks or ptdbg_ascend, found no line of a known form among the first"
    );
    let report = msprobe_to_pkl(&bytes("{}"), None, PklStyle::Ptdbg4, &mut Vec::new()).unwrap_err();
    assert_eq!(report.to_string(), "line 1, byte 2: expected a key \"data\", found the end of the object");
}

#[test]
fn names_of_calls() {
    for (key, expected) in [
        ("Functional.conv2d.0.forward", Some("Functional.conv2d.0.forward")),
        ("Tensor.__add__.12.backward", Some("Tensor.__add__.12.backward")),
        ("Module.blocks.0.fc.Linear.forward.3", Some("blocks.0.fc.Linear.3.forward")),
        ("MyConv.0.forward", Some("MyConv.0.forward")),
        ("Module.fc.Linear.parameters_grad.0", None),
        ("saved.0.debug", None),
        ("Torch.a.x.forward", None),
        ("Torch.a.-1.forward", None),
        ("Torch.a.99999999999.forward", None),
        ("forward", None),
    ] {
        let text = format!(r#"{{"data": {{"{key}": {{"input_args": [{{"type": "int", "value": 3}}]}}}}}}"#);
        let (lines, report) = to_pkl(&bytes(&text), &bytes("{}"), PklStyle::Ptdbg6);
        match expected {
            Some(name) => assert!(lines.starts_with(&format!("[\"{name}.input.0\", ")), "{key}: {lines}"),
            None => assert_eq!((lines.as_str(), report.dropped.len()), ("", 1), "{key}"),
        }
    }
}
