//! `.pkl` files of ptdbg_ascend and torch_npu.hooks.
#![allow(clippy::unwrap_used, missing_docs)]

mod dumps;

use std::path::Path;

use dumps::{Scratch, calls, described, elements, entries, open, places, rank};
use ulpscope_dump::{CallKind, Content, Data, Role, Task, Tool};
use ulpscope_formats::json::Json;

fn ptdbg(name: &str) -> String {
    format!("[\"{name}\", 0, [], \"torch.float32\", [2], [2.0, 1.0, 1.5]]\n")
}

fn hooks(name: &str) -> String {
    format!("[\"{name}\", [1.0, 2.0], \"torch.float32\", [2]]\n")
}

#[test]
fn underscores_and_dots_name_the_same_calls() {
    let scratch = Scratch::new();
    let names = ["conv2d_0_forward_input.0", "conv2d_0_forward_output", "conv2d_0_backward_input.0"];
    let old: String = names.iter().map(|name| ptdbg(&format!("Functional_{name}"))).collect();
    let new: String = ["conv2d.0.forward.input.0", "conv2d.0.forward.output", "conv2d.0.backward.input.0"]
        .iter()
        .map(|name| ptdbg(&format!("Functional.{name}")))
        .collect();
    let old = rank(&scratch.file("old.pkl", &old));
    let new = rank(&scratch.file("new.pkl", &new));
    assert_eq!((old.tool, new.tool), (Tool::Ptdbg4, Tool::Ptdbg6));
    assert_eq!(calls(&old), ["Functional.conv2d.0.forward", "Functional.conv2d.0.backward"]);
    assert_eq!(calls(&old), calls(&new));
    let roles = |rank| entries(rank).into_iter().map(|entry| (entry.role, entry.path)).collect::<Vec<_>>();
    let expected = [(Role::Input, "0"), (Role::Output, "0"), (Role::Input, "0")];
    assert_eq!(roles(&old), expected.map(|(role, path)| (role, path.to_owned())));
    assert_eq!(roles(&old), roles(&new));
    assert_eq!(entries(&old)[1].name, "Functional_conv2d_0_forward_output");
}

#[test]
fn every_data_line_is_an_entry_in_the_order_of_the_file() {
    let scratch = Scratch::new();
    // Two threads, a module that runs twice under one name, a name of unknown form.
    let names = [
        "Tensor_mul_0_forward_input.0",
        "Tensor_add_0_forward_input.0",
        "Tensor_mul_0_forward_output",
        "MyConv_0_forward_input.0",
        "MyConv_0_forward_output",
        "MyConv_0_forward_input.0",
        "strange",
        "MyConv_0_forward_output",
    ];
    let lines: String = names.iter().map(|name| ptdbg(name)).collect();
    let rank = rank(&scratch.file("dump.pkl", &lines));
    assert!(rank.problems().is_empty());
    let read: Vec<String> = entries(&rank).into_iter().map(|entry| entry.name).collect();
    assert_eq!(read, names);
    assert_eq!(
        calls(&rank),
        [
            "Tensor.mul.0.forward",
            "Tensor.add.0.forward",
            "Tensor.mul.0.forward",
            "MyConv.0.forward",
            "MyConv.0.forward",
            "strange",
            "MyConv.0.forward",
        ]
    );
    assert_eq!(rank.calls()[5].kind, CallKind::Saved);
}

#[test]
fn torch_npu_hooks_has_no_numbers_and_swaps_its_gradients() {
    let scratch = Scratch::new();
    let names = [
        "0_Torch_relu_forward_input.0",
        "1_Torch_relu_forward_output",
        "2_Torch_relu_forward_input.0",
        "3_Torch_relu_forward_output",
        "4_Torch_relu_backward_input.0",
        "5_Torch_relu_backward_output.0",
        "6_Torch_relu_backward_input.0",
    ];
    let lines: String = names.iter().map(|name| hooks(name)).collect();
    let rank = rank(&scratch.file("full.pkl", &lines));
    assert_eq!((rank.tool, rank.task), (Tool::Hooks, Task::Tensor));
    assert_eq!(
        calls(&rank),
        ["Torch.relu.0.forward", "Torch.relu.1.forward", "Torch.relu.1.backward", "Torch.relu.0.backward"]
    );
    assert_eq!(
        places(&rank)[4..],
        [
            "4_Torch_relu_backward_input.0 output 0",
            "5_Torch_relu_backward_output.0 input 0",
            "6_Torch_relu_backward_input.0 output 0"
        ]
    );
    assert_eq!(elements(&rank, &entries(&rank)[0]), [1.0, 2.0]);
}

#[test]
fn a_sample_is_kept_whole() {
    let scratch = Scratch::new();
    let line = "[\"0_Torch_relu_forward_input.0\", [1.0, -2.5, 7.0, -9.0, 0.5], \"torch.bfloat16\", [2]]\n";
    let rank = rank(&scratch.file("sample.pkl", line));
    assert_eq!((rank.tool, rank.task), (Tool::Hooks, Task::Statistics));
    let entry = &entries(&rank)[0];
    let tensor = described(entry);
    assert!(matches!(&tensor.data, Data::Sample(values) if *values == [1.0, -2.5, 7.0, -9.0, 0.5]));
    assert_eq!(tensor.stats, [Json::Float(7.0), Json::Float(-9.0), Json::Float(0.5), Json::Null]);
    assert!(rank.tensor(tensor).unwrap().is_none());
}

#[test]
fn scalar_arguments_and_digests_are_kept_as_written() {
    let scratch = Scratch::new();
    let lines = "\
[\"Tensor.add.0.forward.input.0\", 0, \"1a2b3c4d\", \"torch.int64\", [2], [2, 1, 1.5, \"Nan\"]]\n\
[\"Tensor.add.0.forward.input.1\", 0, [], \"<class 'int'>\", \"[]\", [3, 3, 3, \"Nan\"]]\n\
[\"Tensor.add.0.forward.input.2\", 0, [], \"torch.bool\", [0], [[], [], []]]\n";
    let rank = rank(&scratch.file("dump.pkl", lines));
    assert_eq!(rank.task, Task::Statistics);
    let entries = entries(&rank);
    assert_eq!(described(&entries[0]).digest.as_deref(), Some("1a2b3c4d"));
    assert_eq!(described(&entries[0]).stats[3], Json::Str("Nan".to_owned()));
    let Content::Scalar { kind, value } = &entries[1].content else { panic!("{:?}", entries[1]) };
    assert_eq!((kind.as_str(), value), ("int", &Json::Int(3)));
    assert_eq!(described(&entries[2]).stats[0], Json::List(Vec::new()));
}

#[test]
fn arrays_are_in_the_folder_of_the_same_name() {
    let scratch = Scratch::new();
    let lines = ptdbg("Tensor_add_0_forward_input.0") + &ptdbg("Tensor_add_0_forward_output");
    let path = scratch.file("rank0/dump.pkl", &lines);
    assert!(matches!(described(&entries(&rank(&path))[0]).data, Data::None));
    scratch.tensor("rank0/dump/Tensor_add_0_forward_input.0.npy", &[3.0, 4.0]);
    let rank = rank(&path);
    assert_eq!(rank.task, Task::Tensor);
    let entries = entries(&rank);
    assert_eq!(elements(&rank, &entries[0]), [3.0, 4.0]);
    let missing = rank.tensor(described(&entries[1])).unwrap_err().to_string();
    assert!(missing.contains("Tensor_add_0_forward_output.npy: No such file"), "{missing}");
}

#[test]
fn arrays_may_be_in_a_folder_that_the_user_names() {
    let scratch = Scratch::new();
    let path = scratch.file("pkl/dump.pkl", &ptdbg("Tensor_add_0_forward_input.0"));
    scratch.tensor("pkl/dump/Tensor_add_0_forward_input.0.npy", &[1.0, 2.0]);
    scratch.tensor("elsewhere/Tensor_add_0_forward_input.0.npy", &[3.0, 4.0]);
    let elsewhere = scratch.path().join("elsewhere");
    let read = |folder: &Path| {
        let dump = open(&path).unwrap().with_data(folder).unwrap();
        let rank = dump.steps[0].ranks[0].open().unwrap();
        assert_eq!(rank.task, Task::Tensor);
        elements(&rank, &entries(&rank)[0])
    };
    assert_eq!(read(&elsewhere), [3.0, 4.0]);
    let link = scratch.path().join("link");
    std::os::unix::fs::symlink(&elsewhere, &link).unwrap();
    assert_eq!(read(&link), [3.0, 4.0]);

    let refused = |dump: &Path, folder: &Path| open(dump).unwrap().with_data(folder).unwrap_err().to_string();
    assert!(refused(&path, &path).ends_with("expected a folder of tensors, found a file"));
    assert!(refused(&path, &scratch.path().join("none")).contains("No such file"));
    let message = refused(&elsewhere, &elsewhere);
    assert!(message.contains("expected a dump.json or a .pkl of ptdbg_ascend"), "{message}");
    for number in 0..2 {
        let lines = ptdbg("Tensor_add_0_forward_input.0");
        scratch.file(&format!("ranks/rank{number}/dump.pkl"), &lines);
    }
    let message = refused(&scratch.path().join("ranks"), &elsewhere);
    assert!(message.contains("expected one rank") && message.ends_with("found 2 ranks"), "{message}");

    let whole = scratch.file("full.pkl", &hooks("0_Tensor_add_forward_input.0"));
    let dump = open(&whole).unwrap().with_data(&elsewhere).unwrap();
    let message = dump.steps[0].ranks[0].open().unwrap_err().to_string();
    assert!(message.contains("has the elements in its own lines"), "{message}");
}

#[test]
fn stacks_are_lines_and_frames() {
    let scratch = Scratch::new();
    let stack = "[\"Tensor_add_0_forward_stack_info\", [[\"net.py\", \"7\", \"f\", \"x + 1\"], [\"a.py\", \"1\", \"g\", null]]]\n";
    let only = rank(&scratch.file("stack_dump.pkl", stack));
    assert_eq!(only.task, Task::Structure);
    assert_eq!(calls(&only), ["Tensor.add.0.forward"]);
    assert!(entries(&only).is_empty());
    assert_eq!(only.stack(0).unwrap(), ["File net.py, line 7, in f, \n x + 1", "File a.py, line 1, in g"]);
    let lines = ptdbg("Tensor_add_0_forward_input.0") + stack + &ptdbg("Tensor_add_1_forward_input.0");
    let both = rank(&scratch.file("api_stack_dump.pkl", &lines));
    assert_eq!(calls(&both), ["Tensor.add.0.forward", "Tensor.add.1.forward"]);
    let frames = both.frames(0).unwrap();
    assert_eq!((frames[0].line.as_str(), frames[1].code.as_deref()), ("7", None));
    assert!(both.frames(1).is_none());
    assert!(only.has_stacks() && both.has_stacks());
    assert!(!rank(&scratch.file("dump.pkl", &ptdbg("Tensor_add_0_forward_input.0"))).has_stacks());
}

#[test]
fn damaged_lines_are_listed_once_and_the_others_read() {
    let scratch = Scratch::new();
    let good = ptdbg("Tensor_add_0_forward_input.0");
    let lines = [
        good.as_str(),
        "[\"Tensor_add_0_forward_input.1\", 0, [], \"torch.float32\", [-2], [2.0, 1.0, 1.5]]\n",
        "{\"no\": \"list\"}\n",
        "\n",
        "[1, 2, 3]\n",
        &ptdbg("Tensor_add_0_forward_output"),
        "[\"Tensor_mul_0_forward_input.0\", 0, [], \"torch.fl",
    ];
    let path = scratch.file("dump.pkl", &lines.concat());
    let rank = rank(&path);
    assert_eq!(calls(&rank), ["Tensor.add.0.forward"]);
    for _ in 0..2 {
        let read: Vec<String> = entries(&rank).into_iter().map(|entry| entry.name).collect();
        assert_eq!(read, ["Tensor_add_0_forward_input.0", "Tensor_add_0_forward_output"]);
    }
    let problems = rank.problems();
    assert_eq!(problems.count(), 4, "{problems:?}");
    for (problem, expected) in problems.listed().iter().zip(["line 3", "line 5", "line 7", "line 2"]) {
        assert!(problem.starts_with(&format!("{}: {expected}", path.display())), "{problem}");
    }
}

#[test]
fn the_first_damaged_lines_are_listed_in_file_order() {
    const CALLS: usize = 3000;
    const LISTED: usize = 1000;
    let scratch = Scratch::new();
    let call = |number: usize| {
        let front = format!("Tensor_add_{number}_forward");
        let damaged = format!("[\"{front}_input.1\", 0, [], \"torch.float32\", [-2], [2.0, 1.0, 1.5]]\n");
        let damaged_stack = format!("[\"{front}_stack_info\", [7]]\n");
        ptdbg(&format!("{front}_input.0")) + &damaged + &damaged_stack
    };
    let path = scratch.file("dump.pkl", &(0..CALLS).map(call).collect::<String>());
    let rank = rank(&path);
    assert_eq!(rank.calls().len(), CALLS);
    for _ in 0..2 {
        for call in (0..CALLS).rev() {
            assert_eq!(rank.entries(call).unwrap().len(), 1);
            assert!(rank.stack(call).is_none() && rank.frames(call).is_none());
        }
    }
    let problems = rank.problems();
    assert_eq!((problems.listed().len(), problems.count()), (LISTED, 2 * CALLS as u64));
    for (position, problem) in problems.listed().iter().enumerate() {
        let line = position / 2 * 3 + 2 + position % 2;
        assert!(problem.starts_with(&format!("{}: line {line}", path.display())), "{problem}");
    }
}

#[test]
fn overflow_dumps_of_one_rank_are_read_together() {
    let scratch = Scratch::new();
    let stack = "[\"Tensor_add_1_forward_stack_info\", []]\n";
    let tenth = ptdbg("Tensor_mul_0_forward_input.0");
    scratch.file("rank0/Tensor_mul_0_forward_10.pkl", &tenth);
    let second = format!("{stack}{}", ptdbg("Tensor_add_1_forward_input.0"));
    scratch.file("rank0/Tensor_add_1_forward_2.pkl", &second);
    scratch.tensor("rank0/Tensor_add_1_forward_2/Tensor_add_1_forward_input.0.npy", &[5.0, 6.0]);
    let rank = scratch.rank();
    assert_eq!(calls(&rank), ["Tensor.add.1.forward", "Tensor.mul.0.forward"]);
    assert_eq!(elements(&rank, &rank.entries(0).unwrap()[0]), [5.0, 6.0]);
    assert!(rank.tensor(described(&rank.entries(1).unwrap()[0])).unwrap().is_none());
}

#[test]
fn a_file_of_other_text_is_refused() {
    let scratch = Scratch::new();
    let path = scratch.file("dump.pkl", "");
    let dump = open(&path).unwrap();
    let error = dump.steps[0].ranks[0].open().unwrap_err().to_string();
    assert!(error.contains("found an empty file"), "{error}");
}
