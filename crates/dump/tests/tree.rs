//! What is found in a folder.
#![allow(clippy::unwrap_used, missing_docs)]

mod dumps;

use dumps::{Scratch, calls, open, rank, relu};
use ulpscope_dump::{Dump, Select, Tool};

const LINE: &str =
    "[\"Functional_relu_0_forward_input.0\", 0, [], \"torch.float32\", [2], [2.0, 1.0, 1.5]]\n";

/// Steps and ranks as `step/rank` texts.
fn layout(dump: &Dump) -> Vec<String> {
    let number = |number: Option<u64>| number.map_or("-".to_owned(), |number| number.to_string());
    let steps = dump.steps.iter();
    steps
        .flat_map(|step| {
            let ranks = step.ranks.iter();
            ranks.map(|rank| format!("{}/{}/{}", number(step.number), number(rank.number), rank.name))
        })
        .collect()
}

#[test]
fn steps_and_ranks_are_in_the_order_of_their_numbers() {
    let scratch = Scratch::new();
    for place in ["step10/rank0", "step2/rank10", "step2/rank2", "step2/proc7"] {
        scratch.file(&format!("{place}/dump.json"), &relu());
    }
    let dump = scratch.open();
    assert_eq!(layout(&dump), ["2/2/rank2", "2/10/rank10", "2/-/proc7", "10/0/rank0"]);
    assert_eq!(dump.steps[0].ranks[0].path(), scratch.path().join("step2/rank2/dump.json"));
}

#[test]
fn a_part_of_a_dump_can_be_named() {
    let scratch = Scratch::new();
    scratch.file("step3/rank1/dump.json", &relu());
    for (part, expected) in [
        ("", "3/1/rank1"),
        ("step3", "3/1/rank1"),
        ("step3/rank1", "3/1/rank1"),
        ("step3/rank1/dump.json", "3/1/rank1"),
    ] {
        let dump = open(&scratch.path().join(part)).unwrap();
        assert_eq!(layout(&dump), [expected], "{part}");
    }
}

#[test]
fn the_oldest_releases_have_a_rank_without_a_number() {
    let scratch = Scratch::new();
    scratch.file("step0/rank/dump.json", &relu());
    assert_eq!(layout(&scratch.open()), ["0/-/rank"]);
}

#[test]
fn ptdbg_folders_are_searched() {
    for place in ["ptdbg_dump_v4.0.T2/rank5", "ptdbg_dump_v6.0/step0/rank5", "step0/ptdbg_dump_v4.0/rank5"] {
        let scratch = Scratch::new();
        scratch.file(&format!("{place}/api_stack_dump.pkl"), LINE);
        scratch.file("notes.txt", "");
        let dump = scratch.open();
        let step = if place.contains("step") { "0" } else { "-" };
        assert_eq!(layout(&dump), [format!("{step}/5/rank5")]);
        assert_eq!(dump.steps[0].ranks[0].open().unwrap().tool, Tool::Ptdbg4);
    }
}

#[test]
fn a_selection_is_honoured() {
    let scratch = Scratch::new();
    for place in ["step0/rank0", "step0/rank1", "step1/rank0", "step1/rank1"] {
        scratch.file(&format!("{place}/dump.json"), &relu());
    }
    let select = Select { steps: vec![1], ranks: vec![0] };
    assert_eq!(layout(&Dump::open(scratch.path(), &select).unwrap()), ["1/0/rank0"]);
    let select = Select { steps: vec![1, 7], ranks: vec![] };
    let error = Dump::open(scratch.path(), &select).unwrap_err().to_string();
    assert!(error.ends_with("expected step 7, found steps 0, 1"), "{error}");
    let select = Select { steps: vec![], ranks: vec![4] };
    let error = Dump::open(scratch.path(), &select).unwrap_err().to_string();
    assert!(error.ends_with("expected rank 4, found ranks 0, 1"), "{error}");
}

#[test]
fn a_process_has_no_rank_number_to_select() {
    let scratch = Scratch::new();
    scratch.file("step0/proc1000/dump.json", &relu());
    let select = Select { steps: vec![], ranks: vec![1000] };
    let error = Dump::open(scratch.path(), &select).unwrap_err().to_string();
    assert!(error.ends_with("expected rank 1000, found no rank with a number"), "{error}");
}

#[test]
fn two_dumps_are_not_mixed() {
    let scratch = Scratch::new();
    scratch.file("before/step0/rank0/dump.json", &relu());
    scratch.file("after/step0/rank0/dump.json", &relu());
    let error = scratch.error();
    assert!(error.ends_with("expected one dump, found 2 dumps: after, before; name one of them"), "{error}");
    let scratch = Scratch::new();
    scratch.file("rank0/dump.pkl", LINE);
    scratch.file("rank0/api_stack_dump.pkl", LINE);
    let error = scratch.error();
    assert!(error.contains("2 dumps: rank0/api_stack_dump.pkl, rank0/dump.pkl"), "{error}");
}

#[test]
fn the_error_without_a_dump_lists_what_was_expected_and_found() {
    let scratch = Scratch::new();
    let error = scratch.error();
    assert!(error.contains("expected a dump (dump.json, debug.json or journal.jsonl"), "{error}");
    assert!(error.ends_with("found an empty folder"), "{error}");
    scratch.file("notes.txt", "");
    scratch.folder("logs");
    assert!(scratch.error().ends_with("found logs/, notes.txt"));
    let error = open(&scratch.path().join("nowhere")).unwrap_err().to_string();
    assert!(error.contains("No such file"), "{error}");
}

#[test]
fn a_rank_without_a_dump_is_a_problem_unless_its_folder_is_empty() {
    let scratch = Scratch::new();
    scratch.file("step0/rank0/dump.json", &relu());
    let empty = scratch.folder("step0/rank1");
    let dump = scratch.open();
    assert_eq!((layout(&dump), dump.problems.count()), (vec!["0/0/rank0".to_owned()], 0));
    let told =
        format!("{}: an empty folder: the run ended before it recorded anything here", empty.display());
    assert_eq!(dump.notes, [told]);
    scratch.file("step0/rank1/notes.txt", "");
    let dump = scratch.open();
    assert_eq!((layout(&dump), dump.notes.len()), (vec!["0/0/rank0".to_owned()], 0));
    assert_eq!(dump.problems.count(), 1);
    assert!(dump.problems.listed()[0].contains("rank1: expected a dump"));
}

#[test]
fn tensor_files_of_ranks_are_kept_apart() {
    let scratch = Scratch::new();
    for rank in ["rank0", "rank1"] {
        scratch.tensor(&format!("step0/{rank}/out.npy"), &[1.0]);
    }
    let dump = scratch.open();
    assert_eq!(layout(&dump), ["0/0/rank0", "0/1/rank1"]);
    assert!(dump.problems.is_empty());
    assert_eq!(calls(&dump.steps[0].ranks[1].open().unwrap()), ["out"]);
}

#[test]
fn files_beside_a_folder_that_looks_like_a_rank_are_not_lost() {
    let scratch = Scratch::new();
    scratch.tensor("a.npy", &[1.0]);
    scratch.tensor("old/rank0/b.npy", &[1.0]);
    scratch.folder("old/rank1");
    let dump = scratch.open();
    assert_eq!(calls(&dump.steps[0].ranks[0].open().unwrap()), ["a", "old/rank0/b"]);
    assert!(dump.problems.is_empty());
}

#[test]
fn empty_ranks_of_an_empty_step_are_listed_once() {
    let scratch = Scratch::new();
    scratch.file("step0/rank0/dump.json", &relu());
    scratch.folder("step1/rank0");
    scratch.folder("step1/rank1");
    let dump = scratch.open();
    assert_eq!(layout(&dump), ["0/0/rank0"]);
    assert_eq!((dump.notes.len(), dump.problems.count()), (2, 0), "{:?}", dump.notes);
}

#[cfg(unix)]
#[test]
fn a_folder_without_permission_is_a_problem() {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    let scratch = Scratch::new();
    scratch.file("step0/rank0/dump.json", &relu());
    let closed = scratch.folder("step0/rank1");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
    let is_open_anyway = fs::read_dir(&closed).is_ok();
    let dump = scratch.open();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(layout(&dump), ["0/0/rank0"]);
    // The superuser may read every folder, and then finds nothing.
    let (told, expected) = match is_open_anyway {
        true => (&dump.notes[0], "an empty folder"),
        false => (&dump.problems.listed()[0], "Permission denied"),
    };
    assert!(told.contains(expected), "{told}");
}

#[cfg(unix)]
#[test]
fn links_are_not_followed() {
    use std::os::unix::fs::symlink;

    let elsewhere = Scratch::new();
    elsewhere.file("rank1/dump.json", &relu());
    let scratch = Scratch::new();
    scratch.file("step0/rank0/dump.json", &relu());
    symlink(elsewhere.path().join("rank1"), scratch.path().join("step0/rank1")).unwrap();
    assert_eq!(layout(&scratch.open()), ["0/0/rank0"]);
    let only_links = Scratch::new();
    symlink(elsewhere.path().join("rank1/dump.json"), only_links.path().join("dump.json")).unwrap();
    let error = only_links.error();
    assert!(error.ends_with("found dump.json (a link, not followed)"), "{error}");
    // A link that the user names is followed.
    let named = only_links.path().join("whole");
    symlink(elsewhere.path(), &named).unwrap();
    assert_eq!(layout(&open(&named).unwrap()), ["-/1/rank1"]);
}

#[test]
fn saved_variables_come_after_the_calls_of_their_rank() {
    let scratch = Scratch::new();
    scratch.file("dump.json", &relu());
    let debug = dumps::dump_json("tensor", &[("loss.0.debug", &dumps::item("loss.0.debug.pt"))]);
    scratch.file("debug.json", &debug);
    scratch.tensor("dump_tensor_data/loss.0.debug.pt", &[1.0, 2.0]);
    let rank = scratch.rank();
    assert_eq!(calls(&rank), ["Functional.relu.0.forward", "loss.0"]);
    let entry = &rank.entries(1).unwrap()[0];
    assert_eq!(dumps::elements(&rank, entry), [1.0, 2.0]);
    assert_eq!(rank.describe(), "msprobe, statistics, level L1, 2 calls");
}

#[test]
fn a_companion_file_without_its_dump_is_refused() {
    let scratch = Scratch::new();
    let stack = scratch.file("stack.json", "{}");
    let error = open(&stack).unwrap_err().to_string();
    assert!(error.contains("name the dump.json beside it"), "{error}");
    assert_eq!(rank(&scratch.file("other.json", &relu())).calls().len(), 1);
}
