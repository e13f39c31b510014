//! `ulpscope convert`.

use ulpscope_formats::Value;

use crate::workspace::{Workspace, dict, floats, ints};

/// Name, dtype, shape and bytes of every tensor, sorted: safetensors has an order of its own.
fn content(value: &Value) -> Vec<(String, String, Vec<usize>, Vec<u8>)> {
    let mut rows: Vec<_> = value
        .tensors()
        .into_iter()
        .map(|(name, tensor)| {
            let bytes = tensor.view().to_packed().into_owned();
            (name, tensor.dtype().to_string(), tensor.shape().to_vec(), bytes)
        })
        .collect();
    rows.sort();
    rows
}

fn model() -> Value {
    let weight = Value::Tensor(floats(&[2, 2], &[1.0, 2.0, 3.0, f32::NAN]));
    dict(&[("input.0", weight), ("output.0", Value::Tensor(ints(&[3], &[1, 2, 3])))])
}

#[test]
fn every_container_into_every_other() {
    let place = Workspace::new();
    place.put("0.pt", &model());
    let extensions = ["pt", "npz", "safetensors", "acl", "pkl"];
    for (step, extension) in extensions.iter().cycle().take(2 * extensions.len()).skip(1).enumerate() {
        let from = place.files().into_iter().find(|name| name.starts_with(&format!("{step}."))).unwrap();
        let to = format!("{}.{extension}", step + 1);
        let ran = place.run(&["convert", &from, "-o", &to]);
        assert_eq!(
            (ran.code, ran.out.as_str(), ran.err.as_str()),
            (0, "converted 1 of 1 files into 1\n", "")
        );
        assert_eq!(content(&place.get(&to)), content(&model()), "{from} to {to}");
    }
}

#[test]
fn one_tensor_into_npy_and_several_into_a_folder() {
    let place = Workspace::new();
    place.put("lone.pt", &Value::Tensor(floats(&[1], &[1.0])));
    place.put(
        "model.pt",
        &dict(&[("a/../b", Value::Tensor(ints(&[1], &[7]))), ("n", Value::Int(3)), ("c", model())]),
    );
    assert_eq!(place.run(&["convert", "lone.pt", "-o", "lone.npy"]).code, 0);
    let ran = place.run(&["convert", "model.pt", "-o", "model.npy"]);
    assert_eq!(
        (ran.code, ran.err.as_str()),
        (0, "note: model.pt: left out 1 value that is not a tensor: n\n")
    );
    assert_eq!(
        place.files(),
        [
            "lone.npy",
            "lone.pt",
            "model.pt",
            "model/a_.._b.npy",
            "model/c.input.0.npy",
            "model/c.output.0.npy"
        ]
    );
    assert_eq!(content(&place.get("model/a_.._b.npy"))[0].3, 7i64.to_le_bytes());
}

#[test]
fn a_tree_keeps_its_shape() {
    let place = Workspace::new();
    let lone = Value::Tensor(floats(&[1], &[1.0]));
    place.put("src/step0/rank0/x.npy", &lone);
    place.put("src/step0/rank0/x.pt", &lone);
    place.put("src/y.safetensors", &model());
    place.put_text("src/Add.add.1.2.1767261601226215", "");
    place.put("src/acl.acl", &model());
    std::fs::rename(place.path("src/acl.acl"), place.path("src/Add.add.1.2.1767261601226215")).unwrap();
    place.put_text("src/readme.md", "words");
    let ran = place.run(&["convert", "src", "-o", "dst", "--to", "npy"]);
    assert_eq!(
        (ran.code, ran.out.as_str(), ran.err.as_str()),
        (0, "converted 4 of 5 files into 6\n", "note: 1 of 5 files are of no known format\n")
    );
    let written: Vec<String> = place.files().into_iter().filter(|name| name.starts_with("dst/")).collect();
    assert_eq!(
        written,
        [
            "dst/Add.add.1.2.1767261601226215.input.0.npy",
            "dst/Add.add.1.2.1767261601226215.output.0.npy",
            "dst/step0/rank0/x.npy",
            "dst/step0/rank0/x.pt.npy",
            "dst/y/input.0.npy",
            "dst/y/output.0.npy",
        ]
    );
}

#[test]
fn nothing_is_replaced_unless_asked() {
    let place = Workspace::new();
    place.put("x.pt", &Value::Tensor(floats(&[1], &[1.0])));
    place.put_text("x.npy", "precious");
    let ran = place.run(&["convert", "x.pt", "-o", "x.npy"]);
    assert_eq!(
        (ran.code, ran.err.as_str()),
        (2, "error: x.npy: exists already; use --force to replace it\n")
    );
    assert_eq!(place.text("x.npy"), "precious");
    assert_eq!(place.run(&["convert", "x.pt", "-o", "x.npy", "--force"]).code, 0);
    assert_eq!(content(&place.get("x.npy")).len(), 1);
}

#[cfg(unix)]
#[test]
fn nothing_is_written_outside_the_destination() {
    let place = Workspace::new();
    place.put("src/sub/x.pt", &Value::Tensor(floats(&[1], &[1.0])));
    std::fs::create_dir_all(place.path("outside")).unwrap();
    std::fs::create_dir_all(place.path("dst")).unwrap();
    std::os::unix::fs::symlink("../outside", place.path("dst/sub")).unwrap();
    let ran = place.run(&["convert", "src", "-o", "dst", "--to", "npy", "--force"]);
    assert_eq!(
        (ran.code, ran.err.as_str()),
        (2, "error: dst/sub/x.npy: \"dst/sub\" leads out of its folder; expected a plain relative name\n")
    );
    assert_eq!(place.files(), ["dst/sub", "src/sub/x.pt"]);
}

#[cfg(unix)]
#[test]
fn no_folder_is_made_outside_the_destination() {
    let place = Workspace::new();
    place.put("src/link/sub/x.pt", &Value::Tensor(floats(&[1], &[1.0])));
    std::fs::create_dir_all(place.path("elsewhere")).unwrap();
    std::fs::create_dir_all(place.path("dst")).unwrap();
    std::os::unix::fs::symlink("../elsewhere", place.path("dst/link")).unwrap();
    let ran = place.run(&["convert", "src", "-o", "dst", "--to", "npy"]);
    assert_eq!(
        (ran.code, ran.err.as_str()),
        (
            2,
            "error: dst/link/sub/x.npy: \"dst/link/sub\" leads out of its folder; expected a plain relative name\n"
        )
    );
    assert_eq!(std::fs::read_dir(place.path("elsewhere")).unwrap().count(), 0);
}

#[test]
fn two_sources_never_share_a_target() {
    let place = Workspace::new();
    let lone = Value::Tensor(floats(&[1], &[1.0]));
    place.put("src/x.pt", &dict(&[("a", lone.clone()), ("b", lone.clone())]));
    place.put("src/x/a.npy", &lone);
    place.put("src/y.pt", &lone);
    place.put("src/y/a.npy", &lone);
    let ran = place.run(&["convert", "src", "-o", "dst", "--to", "npy"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    let written: Vec<String> = place.files().into_iter().filter(|name| name.starts_with("dst/")).collect();
    assert_eq!(written, ["dst/x.pt/a.npy", "dst/x.pt/b.npy", "dst/x/a.npy", "dst/y.npy", "dst/y/a.npy"]);
}

#[test]
fn who_can_keep_a_name_does_and_stacks_have_theirs() {
    let place = Workspace::new();
    let line = "[\"Tensor.add.0.forward.output\", 0, [], \"torch.float32\", [2], [2.0, 1.5, 1.75, 2.25]]\n";
    place.put_text("src/dump.pkl", line);
    place.put_text("src/stack.json", "{}");
    let ran = place.run(&["convert", "src", "-o", "dst", "--to", "json"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    let written: Vec<String> = place.files().into_iter().filter(|name| name.starts_with("dst/")).collect();
    assert_eq!(written, ["dst/dump.pkl.json", "dst/stack.json", "dst/stack.pkl.json"]);
    assert_eq!(place.text("dst/stack.json"), "{}");
}

#[test]
fn one_tensor_that_cannot_be_written_does_not_lose_the_others() {
    let place = Workspace::new();
    let lone = Value::Tensor(floats(&[1], &[1.0]));
    place.put("x.pt", &dict(&[("a", lone.clone()), ("b", lone.clone()), ("../c", lone)]));
    place.put_text("x/a.npy", "precious");
    let ran = place.run(&["convert", "x.pt", "-o", "x.npy"]);
    assert_eq!(
        (ran.code, ran.out.as_str(), ran.err.as_str()),
        (2, "converted 1 of 1 files into 2\n", "error: x/a.npy: exists already; use --force to replace it\n")
    );
    assert_eq!(place.files(), ["x.pt", "x/.._c.npy", "x/a.npy", "x/b.npy"]);

    let ran = place.run(&["convert", "x.pt", "-o", "x.npz"]);
    assert_eq!(
        (ran.code, ran.out.as_str(), ran.err.as_str()),
        (
            2,
            "converted 1 of 1 files into 1\n",
            "error: x.pt: \"../c.npy\" leads out of its folder; expected a plain relative name\n"
        )
    );
    let names: Vec<String> = content(&place.get("x.npz")).into_iter().map(|row| row.0).collect();
    assert_eq!(names, ["a", "b"]);
}

#[test]
fn a_named_file_that_gives_nothing_is_an_error() {
    let place = Workspace::new();
    place.put("plain.pt", &dict(&[("n", Value::Int(3))]));
    place.put("x.npy", &Value::Tensor(floats(&[1], &[1.0])));
    place.put_text("stack.json", "{}");
    for (source, target, message) in [
        ("plain.pt", "y.npz", "error: plain.pt: holds no tensors\n"),
        ("x.npy", "y.json", "error: x.npy: holds tensors, not records\n"),
        ("stack.json", "y.npy", "error: stack.json: holds records, not tensors\n"),
        ("stack.json", "y.pkl", "error: stack.json: goes with its dump, and not alone\n"),
    ] {
        let ran = place.run(&["convert", source, "-o", target]);
        assert_eq!(
            (ran.code, ran.out.as_str(), ran.err.as_str()),
            (2, "converted 0 of 1 files into 0\n", message)
        );
    }
}

#[test]
fn metadata_without_a_place_is_named() {
    let place = Workspace::new();
    let lone = Value::Tensor(floats(&[1], &[1.0]));
    let metadata = dict(&[("format", Value::Str("pt".to_owned())), ("by", Value::Str("me".to_owned()))]);
    place.put("x.safetensors", &dict(&[("__metadata__", metadata), ("a", lone)]));
    for (target, note) in [
        ("y.safetensors", ""),
        ("y.pt", ""),
        (
            "y.npz",
            "note: x.safetensors: left out 2 values that are not tensors: \
             __metadata__.format, __metadata__.by\n",
        ),
    ] {
        let ran = place.run(&["convert", "x.safetensors", "-o", target]);
        assert_eq!((ran.code, ran.err.as_str()), (0, note), "{target}");
    }
}

#[test]
fn a_tensor_that_cannot_be_read_is_an_error_and_the_others_go_on() {
    let place = Workspace::new();
    place.put_unread("x.safetensors", "b", &[("a", 1.0)]);
    let ran = place.run(&["convert", "x.safetensors", "-o", "x.npz"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.starts_with("error: x.safetensors:b: left out: 4-bit floats"), "{}", ran.err);
    assert_eq!(content(&place.get("x.npz")).len(), 1);
}

#[test]
fn a_destination_inside_the_source_is_not_its_own_source() {
    let place = Workspace::new();
    place.put("src/x.pt", &Value::Tensor(floats(&[1], &[1.0])));
    for _ in 0..2 {
        assert_eq!(place.run(&["convert", "src", "-o", "src/out", "--to", "npy", "--force"]).code, 0);
    }
    assert_eq!(place.files(), ["src/out/x.npy", "src/x.pt"]);
}

#[test]
fn records_become_records() {
    let place = Workspace::new();
    place.put_text(
        "a/dump.pkl",
        "[\"Tensor.add.0.forward.input.0\", 0, [], \"torch.float32\", [2], [1.0, 0.5, 0.75, 1.25]]\n\
         [\"Tensor.add.0.forward.output\", 0, [], \"torch.float32\", [2], [2.0, 1.5, 1.75, 2.25]]\n",
    );
    let ran = place.run(&["convert", "a/dump.pkl", "-o", "b/dump.json"]);
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, "converted 1 of 1 files into 2\n", ""));
    assert_eq!(place.files(), ["a/dump.pkl", "b/dump.json", "b/stack.json"]);
    let ran = place.run(&["convert", "b", "-o", "c", "--to", "pkl"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, "note: b/stack.json: goes with its dump, and not alone\n"));
    assert_eq!(place.text("c/dump.pkl"), place.text("a/dump.pkl"));

    let ran = place.run(&["convert", "a", "-o", "d", "--to", "npy"]);
    let said =
        "note: a/dump.pkl: holds records, not tensors\nerror: a: holds nothing that can be converted\n";
    assert_eq!((ran.code, ran.err.as_str()), (2, said));
}

#[test]
fn the_lines_of_a_pkl_are_those_of_the_tool_that_is_named() {
    let place = Workspace::new();
    let stats = r#""Max": 2.0, "Min": 1.0, "Mean": 1.5, "Norm": 2.25"#;
    let tensor = format!(r#"{{"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2], {stats}}}"#);
    place.put_text(
        "dump.json",
        &format!(
            r#"{{"task": "statistics", "level": "L1", "data": {{"Torch.add.0.forward": {{"input_args": [{tensor}],
            "input_kwargs": {{"alpha": {{"type": "int", "value": 2}}}}, "output": [{tensor}]}}}}}}"#
        ),
    );
    let convert = |style: &[&str]| {
        let ran = place.run(&[&["convert", "dump.json", "-o", "x.pkl", "--force"], style].concat());
        assert_eq!(ran.code, 0, "{}", ran.err);
        (place.text("x.pkl"), ran.err)
    };
    let six = "[\"Torch.add.0.forward.input.0\", 0, [], \"torch.float32\", [2], [2.0, 1.0, 1.5, 2.25]]\n\
               [\"Torch.add.0.forward.input.1\", 0, [], \"<class 'int'>\", \"[]\", [2, 2, 2, 2]]\n\
               [\"Torch.add.0.forward.output\", 0, [], \"torch.float32\", [2], [2.0, 1.0, 1.5, 2.25]]\n";
    assert_eq!(convert(&[]), (six.to_owned(), String::new()));
    assert_eq!(convert(&["--pkl-style", "ptdbg-6"]).0, six);
    let (four, said) = convert(&["--pkl-style", "ptdbg"]);
    assert_eq!(
        four,
        "[\"Torch_add_0_forward_input.0\", 0, [], \"torch.float32\", [2], [2.0, 1.0, 1.5]]\n\
         [\"Torch_add_0_forward_output\", 0, [], \"torch.float32\", [2], [2.0, 1.0, 1.5]]\n"
    );
    assert_eq!(said, "note: dump.json: left out 1 keyword arguments\n");
    let (hooks, _) = convert(&["--pkl-style", "torch_npu"]);
    assert_eq!(
        hooks,
        "[\"0_Torch_add_forward_input.0\", [2.0, 1.0, 1.5], \"torch.float32\", [2]]\n\
         [\"1_Torch_add_forward_output\", [2.0, 1.0, 1.5], \"torch.float32\", [2]]\n"
    );

    let refused = |args: &[&str]| {
        let ran = place.run(&[&["convert"], args].concat());
        assert_eq!(ran.code, 2, "{}", ran.out);
        ran.err
    };
    let said = refused(&["dump.json", "-o", "y.json", "--pkl-style", "ptdbg"]);
    assert!(said.contains("--pkl-style is for a .pkl"), "{said}");
    let said = refused(&["x.pkl", "-o", "y.pkl", "--pkl-style", "ptdbg"]);
    assert_eq!(said, "error: x.pkl: --pkl-style converts a dump.json, and this is none\n");
    assert_eq!(place.files(), ["dump.json", "x.pkl"]);
}

#[test]
fn the_format_must_be_known() {
    let place = Workspace::new();
    place.put("src/x.pt", &Value::Tensor(floats(&[1], &[1.0])));
    for (args, message) in [
        (
            ["convert", "src/x.pt", "-o", "x.bin"],
            "error: x.bin: the extension names no format; give one, or use --to\n",
        ),
        (["convert", "src", "-o", "dst"], "error: say which format to write: --to npy, for example\n"),
    ] {
        let ran = place.run(&args);
        assert_eq!((ran.code, ran.err.as_str()), (2, message));
    }
}

#[test]
fn a_tree_is_not_converted_onto_itself() {
    let place = Workspace::new();
    place.put("src/x.pt", &Value::Tensor(floats(&[1], &[1.0])));
    let ran = place.run(&["convert", "src", "-o", "src/.", "--to", "npy"]);
    let expected = "error: src: source and destination are the same folder; expected another one\n";
    assert_eq!((ran.code, ran.err.as_str()), (2, expected));
    assert_eq!(place.files(), ["src/x.pt"]);
}

#[cfg(target_os = "linux")]
#[test]
fn a_killed_conversion_leaves_nothing() {
    let place = Workspace::new();
    let count = 4_000_000;
    place.put("src/x.npy", &Value::Tensor(floats(&[count], &vec![0.1; count])));
    // As text this takes long enough to be met in the middle.
    let mut child = place.command(&["convert", "src/x.npy", "-o", "dst.pkl"]).spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(80));
    child.kill().unwrap();
    child.wait().unwrap();
    let left = place.files();
    assert!(left == ["src/x.npy"] || left == ["dst.pkl", "src/x.npy"], "{left:?}");
}
