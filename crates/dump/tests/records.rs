//! Ranks of msprobe, whole and damaged.
#![allow(clippy::unwrap_used, missing_docs)]

mod dumps;

use dumps::{Scratch, call, calls, described, dump_json, elements, entries, is_refused, relu};
use ulpscope_dump::{CallKind, Task};

#[test]
fn tensors_are_in_the_folder_beside() {
    let scratch = Scratch::new();
    let body = call("Functional.relu.0.forward.input.0.pt", "Functional.relu.0.forward.output.0.pt");
    scratch.file("step0/rank0/dump.json", &dump_json("tensor", &[("Functional.relu.0.forward", &body)]));
    scratch.tensor("step0/rank0/dump_tensor_data/Functional.relu.0.forward.input.0.pt", &[-1.0, 2.0]);
    let rank = scratch.rank();
    assert_eq!(rank.task, Task::Tensor);
    let entries = entries(&rank);
    assert_eq!(elements(&rank, &entries[0]), [-1.0, 2.0]);
    let missing = rank.tensor(described(&entries[1])).unwrap_err().to_string();
    assert!(missing.contains("Functional.relu.0.forward.output.0.pt: No such file"), "{missing}");
}

#[test]
fn names_that_lead_out_of_the_folder_are_refused() {
    let scratch = Scratch::new();
    scratch.tensor("secret.pt", &[1.0, 2.0]);
    for name in ["../secret.pt", "/etc/passwd", "..", "C:secret.pt", "a\\\\..\\\\b.pt"] {
        let body = call(name, "");
        scratch.file("rank0/dump.json", &dump_json("tensor", &[("Functional.relu.0.forward", &body)]));
        let rank = scratch.rank();
        let entries = entries(&rank);
        assert!(is_refused(&entries[0]), "{name}");
        let error = rank.tensor(described(&entries[0])).unwrap_err().to_string();
        assert!(error.contains("leads out of its folder"), "{error}");
        assert!(rank.tensor(described(&entries[1])).unwrap().is_none());
    }
}

#[cfg(unix)]
#[test]
fn a_tensor_file_that_is_a_link_is_refused() {
    use std::os::unix::fs::symlink;

    let elsewhere = Scratch::new();
    let target = elsewhere.tensor("secret.pt", &[1.0, 2.0]);
    let scratch = Scratch::new();
    scratch.file("dump.json", &dump_json("tensor", &[("Functional.relu.0.forward", &call("x.pt", ""))]));
    symlink(&target, scratch.folder("dump_tensor_data").join("x.pt")).unwrap();
    let rank = scratch.rank();
    let error = rank.tensor(described(&entries(&rank)[0])).unwrap_err().to_string();
    assert!(error.contains("x.pt: a link, which is not followed"), "{error}");
}

#[cfg(unix)]
#[test]
fn a_folder_of_tensors_that_is_a_link_is_refused() {
    use std::os::unix::fs::symlink;

    let elsewhere = Scratch::new();
    elsewhere.tensor("x.pt", &[1.0, 2.0]);
    let scratch = Scratch::new();
    scratch.file("dump.json", &dump_json("tensor", &[("Functional.relu.0.forward", &call("x.pt", ""))]));
    symlink(elsewhere.path(), scratch.path().join("dump_tensor_data")).unwrap();
    let rank = scratch.rank();
    let error = rank.tensor(described(&entries(&rank)[0])).unwrap_err().to_string();
    assert!(error.contains("dump_tensor_data: a link, which is not followed"), "{error}");
}

#[test]
fn a_truncated_file_gives_its_whole_calls_and_one_problem() {
    let scratch = Scratch::new();
    let keys = ["Functional.relu.0.forward", "Functional.relu.1.forward", "Functional.relu.2.forward"];
    let body = call("", "");
    let whole = dump_json("statistics", &keys.map(|key| (key, body.as_str())));
    let cut = whole.find("Functional.relu.2").unwrap() + 100;
    let path = scratch.file("dump.json", &whole[..cut]);
    let rank = scratch.rank();
    assert_eq!(calls(&rank), keys[..2]);
    assert_eq!(entries(&rank).len(), 4);
    let problems = rank.problems();
    assert_eq!(problems.count(), 1);
    assert!(problems.listed()[0].starts_with(&format!("{}: line 9, byte", path.display())), "{problems:?}");
    assert!(problems.listed()[0].contains("truncated"), "{problems:?}");
}

#[test]
fn an_empty_file_and_a_dump_without_calls() {
    let scratch = Scratch::new();
    let path = scratch.file("rank0/dump.json", "");
    let dump = scratch.open();
    let error = dump.steps[0].ranks[0].open().unwrap_err().to_string();
    assert!(error.starts_with(&format!("{}: ", path.display())) && error.contains("truncated"), "{error}");
    scratch.file("rank0/dump.json", &dump_json("statistics", &[]));
    let rank = scratch.rank();
    assert!(rank.calls().is_empty() && rank.problems().is_empty());
}

#[test]
fn the_calls_of_a_structure_are_in_the_files_beside() {
    let scratch = Scratch::new();
    scratch.file("dump.json", &dump_json("structure", &[]));
    let stack = "{\"0\": [[\"Functional.relu.0.forward\"], [\"File a.py, line 1, in f, \\n x\"]]}";
    scratch.file("stack.json", stack);
    scratch.file("construct.json", "{}");
    let rank = scratch.rank();
    assert_eq!((rank.task, calls(&rank)), (Task::Structure, vec!["Functional.relu.0.forward".to_owned()]));
    assert!(entries(&rank).is_empty());
    assert_eq!(rank.stack(0).unwrap().len(), 1);
    scratch.file(
        "construct.json",
        "{\"Functional.relu.0.forward\": \"Module.act.ReLU.forward.0\", \"Module.act.ReLU.forward.0\": null, \
          \"optimizer\": null}",
    );
    let rank = scratch.rank();
    assert_eq!(calls(&rank), ["Functional.relu.0.forward", "Module.act.ReLU.forward.0"]);
    assert_eq!(rank.parent(0).as_deref(), Some("Module.act.ReLU.forward.0"));
}

#[test]
fn a_damaged_stack_file_is_one_problem_however_often_it_is_read() {
    let scratch = Scratch::new();
    scratch.file("dump.json", &relu());
    scratch.file("stack.json", "{\"0\": [[\"Functional.relu.0.forw");
    let rank = scratch.rank();
    assert!(rank.problems().is_empty());
    for _ in 0..2 {
        assert!(rank.stack(0).is_none() && rank.frames(0).is_none());
    }
    assert_eq!(rank.problems().count(), 1);
}

#[cfg(unix)]
#[test]
fn a_stack_file_that_is_a_link_is_a_problem() {
    use std::os::unix::fs::symlink;

    let elsewhere = Scratch::new();
    let stack = elsewhere.file("stack.json", "{\"0\": [[\"Functional.relu.0.forward\"], [\"x\"]]}");
    let scratch = Scratch::new();
    scratch.file("dump.json", &relu());
    symlink(&stack, scratch.path().join("stack.json")).unwrap();
    let rank = scratch.rank();
    assert!(rank.stack(0).is_none());
    assert_eq!(rank.problems().count(), 1);
}

#[test]
fn gradients_of_parameters_and_saved_variables_are_separate_calls() {
    let scratch = Scratch::new();
    let item = dumps::item("");
    let grads = format!("{{\"weight\": [{item}], \"bias\": [null]}}");
    let keys = [("Module.fc.Linear.parameters_grad.0", grads.as_str()), ("loss.0.debug", item.as_str())];
    scratch.file("dump.json", &dump_json("statistics", &keys));
    let rank = scratch.rank();
    assert_eq!(calls(&rank), ["Module.fc.Linear.parameters_grad.0", "loss.0"]);
    assert_eq!([0, 1].map(|call| rank.calls()[call].kind), [CallKind::ParametersGrad, CallKind::Saved]);
    let paths: Vec<String> = entries(&rank).into_iter().map(|entry| entry.path).collect();
    assert_eq!(paths, ["weight", "bias", ""]);
}

#[test]
fn keys_that_would_print_differently_are_kept_verbatim() {
    let scratch = Scratch::new();
    let body = call("", "");
    let saved = dumps::item("");
    let keys = [
        ("Functional.relu.0.forward", body.as_str()),
        ("Functional.relu.4294967296.forward", &body),
        ("Functional.relu.007.forward", &body),
        ("Functional.relu.forward.0", &body),
        ("Cell.fc.Dense.forward.0", &body),
        ("x.7.debug", &saved),
        ("x.007.debug", &saved),
        ("x.+5.debug", &saved),
        ("Module.fc.Linear.parameters_grad.007", &saved),
    ];
    scratch.file("dump.json", &dump_json("statistics", &keys));
    let rank = scratch.rank();
    let names = calls(&rank);
    for (number, (key, _)) in keys.iter().enumerate() {
        assert_eq!(
            names[number],
            key.strip_suffix(".7.debug").map_or((*key).to_owned(), |base| base.to_owned() + ".7")
        );
        for entry in rank.entries(number).unwrap() {
            assert!(entry.name.starts_with(key), "{} is an entry of {key}", entry.name);
        }
    }
    let kinds: Vec<CallKind> = rank.calls().iter().map(|call| call.kind).collect();
    let mut expected = [CallKind::Saved; 9];
    (expected[0], expected[4]) = (CallKind::Forward, CallKind::Forward);
    assert_eq!(kinds, expected);
}

#[test]
fn a_stack_file_counts_even_if_empty_and_beside_two_records() {
    let scratch = Scratch::new();
    scratch.file("dump.json", &relu());
    assert!(!scratch.rank().has_stacks());
    scratch.file("stack.json", "{}");
    assert!(scratch.rank().has_stacks());
    scratch.file("debug.json", &dump_json("statistics", &[("x.0.debug", &dumps::item(""))]));
    let rank = scratch.rank();
    assert_eq!(calls(&rank), ["Functional.relu.0.forward", "x.0"]);
    assert!(rank.has_stacks());
}

#[cfg(unix)]
#[test]
fn a_stack_file_that_is_a_link_gives_no_stacks_and_a_problem() {
    let (scratch, elsewhere) = (Scratch::new(), Scratch::new());
    scratch.file("dump.json", &relu());
    let target = elsewhere.file("stack.json", "{}");
    std::os::unix::fs::symlink(&target, scratch.path().join("stack.json")).unwrap();
    let rank = scratch.rank();
    assert!(!rank.has_stacks());
    assert_eq!(rank.problems().count(), 1, "{:?}", rank.problems());
    assert!(
        rank.problems().listed()[0].contains("stack.json: a link, which is not followed"),
        "{:?}",
        rank.problems()
    );
}

#[test]
fn a_call_takes_as_many_bytes_as_the_documents_say() {
    assert_eq!(size_of::<ulpscope_dump::Call>(), 32);
}
