//! Layouts: the files that are made of a journal.
#![allow(clippy::unwrap_used, missing_docs)]

mod dumps;

use std::fs;
use std::path::{Path, PathBuf};

use dumps::Scratch;
use ulpscope_dump::journal::{self, Layout};

const HEADER: &str =
    r#"{"ulpscope":1,"task":"statistics","level":"L1","framework":"pytorch","dump_data_dir":null}"#;

/// A tensor of two floats.
fn tensor(max: &str) -> String {
    format!(
        r#"{{"type":"torch.Tensor","dtype":"torch.float32","shape":[2],"Max":{max},"Min":0.0,"Mean":0.5,"Norm":1.0,"requires_grad":false}}"#
    )
}

/// The journal of a step with one call, in a folder of the scratch folder.
fn step(scratch: &Scratch, name: &str, max: &str) -> PathBuf {
    let tensor = tensor(max);
    let lines = [
        HEADER.to_owned(),
        format!(
            r#"{{"call":"Torch.relu.0.forward","id":1,"data":{{"input_args":[{tensor}],"input_kwargs":{{}}}}}}"#
        ),
        format!(r#"{{"end":1,"data":{{"output":[{tensor}]}}}}"#),
        r#"{"ledger":{"seen":1,"recorded":1},"over":true}"#.to_owned(),
    ];
    scratch.file(&format!("{name}/journal.jsonl"), &(lines.join("\n") + "\n"));
    scratch.path().join(name)
}

fn hooks(path: &Path) -> Layout {
    Layout::new("torch_npu_hooks", path.to_str()).unwrap()
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

#[test]
fn all_steps_of_torch_npu_hooks_are_in_one_file_with_running_numbers() {
    let scratch = Scratch::new();
    let file = scratch.path().join("cpu_module_op.pkl");
    fs::write(&file, "of an earlier run").unwrap();
    let layout = hooks(&file);
    let first = step(&scratch, "step0/rank", "1.0");
    journal::make_dump(&first, &layout).unwrap();
    journal::remove(&first).unwrap();
    journal::make_dump(&step(&scratch, "step1/rank", "2.0"), &layout).unwrap();
    assert_eq!(
        text(&file),
        r#"["0_Torch_relu_forward_input.0", [1.0, 0.0, 0.5], "torch.float32", [2]]
["1_Torch_relu_forward_output", [1.0, 0.0, 0.5], "torch.float32", [2]]
["2_Torch_relu_forward_input.0", [2.0, 0.0, 0.5], "torch.float32", [2]]
["3_Torch_relu_forward_output", [2.0, 0.0, 0.5], "torch.float32", [2]]
"#
    );
    assert!(first.join("ledger.json").exists() && !first.join("dump.json").exists());
}

#[test]
fn a_step_that_pauses_is_written_again_and_not_twice() {
    let scratch = Scratch::new();
    let file = scratch.path().join("x.pkl");
    let layout = hooks(&file);
    journal::make_dump(&step(&scratch, "step0/rank", "1.0"), &layout).unwrap();
    for max in ["2.0", "3.0"] {
        journal::make_dump(&step(&scratch, "step1/rank", max), &layout).unwrap();
    }
    let whole = text(&file);
    assert_eq!(whole.lines().count(), 4);
    assert!(whole.contains(r#"["2_Torch_relu_forward_input.0", [3.0, "#) && !whole.contains("[2.0, "));
}

#[test]
fn a_step_that_cannot_be_written_leaves_whole_steps_and_its_journal() {
    let scratch = Scratch::new();
    let file = scratch.path().join("x.pkl");
    let layout = hooks(&file);
    journal::make_dump(&step(&scratch, "step0/rank", "1.0"), &layout).unwrap();
    let before = text(&file);
    let second = step(&scratch, "step1/rank", "2.0");
    fs::write(second.join("journal.jsonl"), "{\"ulpscope\":1}\nnot a line\n").unwrap();
    journal::make_dump(&second, &layout).unwrap_err();
    assert_eq!(text(&file), before);
    assert!(second.join("journal.jsonl").exists());
    let lost = hooks(&scratch.path().join("missing/x.pkl"));
    let error = journal::make_dump(&step(&scratch, "step2/rank", "1.0"), &lost).unwrap_err();
    assert!(error.to_string().contains("missing/x.pkl"), "{error}");
}

#[test]
fn layouts_say_what_is_wrong_with_their_names_and_paths() {
    let error = |name: &str, path: Option<&str>| Layout::new(name, path).unwrap_err().to_string();
    assert_eq!(
        error("ptdbg", Some("x")),
        "layout: expected msprobe, torch_npu_hooks, torch_npu_hooks_async, ptdbg_ascend, found ptdbg"
    );
    assert_eq!(
        error("torch_npu_hooks", None),
        "layout_path: layout torch_npu_hooks needs the path of its file"
    );
    assert_eq!(
        error("torch_npu_hooks", Some("{epoch}.pkl")),
        "layout_path: {epoch} is no placeholder; expected {step} or {rank}"
    );
}

/// A step with a saved tensor, a number and stacks.
fn saved_step(scratch: &Scratch, name: &str, array: &[u8]) -> PathBuf {
    let tensor = tensor("1.0").replace("\"requires_grad\"", "\"data_name\":\"x.npy\",\"requires_grad\"");
    let lines = [
        HEADER.replace("statistics", "tensor"),
        r#"{"stack":7,"frames":["File a.py, line 3, in f, \n y = relu(x)"]}"#.to_owned(),
        format!(
            r#"{{"call":"Torch.relu.0.forward","id":1,"stack":7,"data":{{"input_args":[{tensor},{{"type":"int","value":3}}],"input_kwargs":{{}}}}}}"#
        ),
        r#"{"end":1,"data":{"output":[null]}}"#.to_owned(),
        r#"{"ledger":{"seen":1,"recorded":1},"over":true}"#.to_owned(),
    ];
    scratch.file(&format!("{name}/journal.jsonl"), &(lines.join("\n") + "\n"));
    let folder = scratch.path().join(name);
    fs::create_dir_all(folder.join("dump_tensor_data")).unwrap();
    fs::write(folder.join("dump_tensor_data/x.npy"), array).unwrap();
    folder
}

#[test]
fn ptdbg_ascend_has_lines_and_arrays_per_rank_and_replaces_older_ones() {
    let scratch = Scratch::new();
    let place = scratch.path().join("ptdbg_dump_v4.0.T2/rank{rank}/dump.pkl");
    let rank = scratch.path().join("ptdbg_dump_v4.0.T2/rank3");
    fs::create_dir_all(rank.join("dump")).unwrap();
    fs::write(rank.join("dump/of_an_earlier_run.npy"), "").unwrap();
    let layout = Layout::new("ptdbg_ascend", place.to_str()).unwrap();
    let folder = saved_step(&scratch, "step0/rank3", b"an array");
    // Written again after a pause: the tensor was moved by then.
    for _ in 0..2 {
        journal::make_dump(&folder, &layout).unwrap();
        let expected = r#"["Torch_relu_0_forward_input.0", 0, [], "torch.float32", [2], [1.0, 0.0, 0.5]]
["Torch_relu_0_forward_input.1", 0, [], "<class 'int'>", "[]", [3, 3, 3]]
["Torch_relu_0_forward_stack_info", [["a.py", "3", "f", "y = relu(x)"]]]
"#;
        assert_eq!(text(&rank.join("dump.pkl")), expected);
    }
    let mut names: Vec<_> =
        fs::read_dir(rank.join("dump")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["Torch_relu_0_forward_input.0.npy", "Torch_relu_0_forward_input.1.npy"]);
    assert_eq!(fs::read(rank.join("dump/Torch_relu_0_forward_input.0.npy")).unwrap(), b"an array");
    let script = text(&rank.join("compare_data.py"));
    assert!(script.contains("rank3/dump.pkl\"\ndump_data_dir = ") && script.contains("stack_mode=False"));
}

#[test]
fn an_array_of_ptdbg_ascend_that_cannot_be_read_is_noted_and_the_rest_is_written() {
    let scratch = Scratch::new();
    let place = scratch.path().join("d/rank{rank}/dump.pkl");
    let layout = Layout::new("ptdbg_ascend", place.to_str()).unwrap();
    let folder = saved_step(&scratch, "step0/rank", b"no array at all");
    let lines = text(&folder.join("journal.jsonl")).replace("torch.float32", "torch.bfloat16");
    fs::write(folder.join("journal.jsonl"), lines).unwrap();
    journal::make_dump(&folder, &layout).unwrap();
    let rank = scratch.path().join("d/rank0");
    let lines = text(&rank.join("dump.pkl"));
    assert_eq!(lines.lines().count(), 3, "{lines}");
    assert!(
        lines.starts_with(r#"["Torch_relu_0_forward_input.0", 0, [], "torch.bfloat16", [2], "#),
        "{lines}"
    );
    assert!(!rank.join("dump/Torch_relu_0_forward_input.0.npy").exists());
    assert!(rank.join("dump/Torch_relu_0_forward_input.1.npy").exists());
    let ledger = text(&folder.join("ledger.json"));
    assert!(ledger.contains("the array of Torch_relu_0_forward_input.0 is missing: "), "{ledger}");
    fs::remove_file(folder.join("dump_tensor_data/x.npy")).unwrap();
    journal::make_dump(&folder, &layout).unwrap();
    assert_eq!(text(&rank.join("dump.pkl")).lines().count(), 3);
}

#[cfg(unix)]
#[test]
fn ptdbg_ascend_does_not_follow_a_link_in_place_of_its_folder() {
    let scratch = Scratch::new();
    let elsewhere = scratch.path().join("elsewhere");
    let rank = scratch.path().join("d/rank0");
    fs::create_dir_all(&elsewhere).unwrap();
    fs::create_dir_all(&rank).unwrap();
    fs::write(elsewhere.join("kept"), "").unwrap();
    std::os::unix::fs::symlink(&elsewhere, rank.join("dump")).unwrap();
    let place = scratch.path().join("d/rank0/dump.pkl");
    let layout = Layout::new("ptdbg_ascend", place.to_str()).unwrap();
    let error = journal::make_dump(&saved_step(&scratch, "step0/rank", b"x"), &layout).unwrap_err();
    assert!(error.to_string().contains("is a symbolic link"), "{error}");
    assert!(elsewhere.join("kept").exists());
}
