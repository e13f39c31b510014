//! Journals: the documents made at the end of a step, and reading the journal of a killed run.
#![allow(clippy::unwrap_used, missing_docs)]

mod dumps;

use std::fs;

use dumps::{Scratch, call, calls, described, dump_json, elements, entries, open, places, rank};
use ulpscope_dump::{Ledger, NonFiniteCounts, Rank, Task, journal};
use ulpscope_formats::json::Json;

const HEADER: &str =
    r#"{"ulpscope":1,"task":"tensor","level":"mix","framework":"pytorch","dump_data_dir":null,"later":[1]}"#;

const TENSOR: &str = r#"{"type":"torch.Tensor","dtype":"torch.float32","shape":[2],"Max":NaN,"Min":NaN,"Mean":NaN,"Norm":NaN,"requires_grad":false,"data_name":"x.pt","nan":1,"inf":2,"finite_max":1.5,"finite_min":-3,"is_recompute":true,"source":"parameter:fc.weight"}"#;

/// A step of a model of one layer, with a call that raised.
fn step() -> String {
    let lines = [
        HEADER.to_owned(),
        r#"{"stack":7,"frames":["File a.py, line 3, in main, \n model(x)"]}"#.to_owned(),
        r#"{"call":"Module.fc.Linear.forward.0","id":1,"stack":7,"parent":null,"data":{"input_args":[null]}}"#.to_owned(),
        r#"{"stack":9,"frames":["File b.py, line 1, in forward, \n \u00e9 \"x\"","File a.py, line 3, in main, \n model(x)"]}"#.to_owned(),
        format!(
            r#"{{"call":"Functional.linear.0.forward","id":2,"stack":9,"parent":"Module.fc.Linear.forward.0","data":{{"input_args":[{TENSOR}],"input_kwargs":{{}}}}}}"#
        ),
        r#"{"end":2,"data":{"output":[{"type":"int","value":4}]}}"#.to_owned(),
        r#"{"end":1,"last":true,"data":{"output":[null]}}"#.to_owned(),
        r#"{"call":"Torch.bad.0.forward","id":3,"stack":7,"data":{"input_args":[{"type":"str","value":"}{"}]}}"#.to_owned(),
        r#"{"raised":3}"#.to_owned(),
        r#"{"call":"Functional.linear.0.backward","parent":"Module.fc.Linear.backward.0","data":{"input":[null],"output":[null]}}"#.to_owned(),
        r#"{"call":"Module.fc.Linear.parameters_grad.0","id":4}"#.to_owned(),
        r#"{"more":4,"data":{"weight":[null]}}"#.to_owned(),
        r#"{"more":4,"data":{}}"#.to_owned(),
        r#"{"more":4,"data":{"bias":[null]}}"#.to_owned(),
        r#"{"call":"Tensor.add_.0.forward","id":5,"stack":7,"parent":"optimizer","data":{}}"#.to_owned(),
        r#"{"end":5}"#.to_owned(),
        r#"{"ledger":{"seen":1,"recorded":1}}"#.to_owned(),
        r#"{"ledger":{"seen":9,"recorded":5,"raised":{"Torch.bad: ValueError":1},"skipped":{"not selected":2},"failed":{"Torch.foo.0.forward: ValueError":1},"notes":["a note"],"ended":null}}"#.to_owned(),
    ];
    lines.join("\n") + "\n"
}

fn names(folder: &std::path::Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|item| item.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Everything about a rank, as text.
fn everything(rank: &Rank) -> String {
    let mut text = format!("{:?} {:?} {:?} {}\n", rank.tool, rank.task, rank.level, rank.has_stacks());
    text += &format!("{:?}\n{:?}\n", calls(rank), rank.ledger());
    for call in 0..rank.calls().len() {
        text +=
            &format!("{:?} {:?}\n{:?}\n", rank.stack(call), rank.parent(call), rank.entries(call).unwrap());
    }
    text
}

#[test]
fn the_end_of_a_step_makes_the_documents() {
    let scratch = Scratch::new();
    scratch.file("journal.jsonl", &step());
    journal::finish(scratch.path()).unwrap();
    assert_eq!(names(scratch.path()), ["construct.json", "dump.json", "ledger.json", "stack.json"]);
    let text = |name: &str| fs::read_to_string(scratch.path().join(name)).unwrap();
    assert_eq!(
        text("dump.json"),
        format!(
            r#"{{"task":"tensor","level":"mix","framework":"pytorch","dump_data_dir":null,"data":{{
"Functional.linear.0.forward":{{"input_args":[{TENSOR}],"input_kwargs":{{}},"output":[{{"type":"int","value":4}}]}},
"Module.fc.Linear.forward.0":{{"input_args":[null],"output":[null]}},
"Torch.bad.0.forward":{{"input_args":[{{"type":"str","value":"}}{{"}}]}},
"Functional.linear.0.backward":{{"input":[null],"output":[null]}},
"Module.fc.Linear.parameters_grad.0":{{"weight":[null],"bias":[null]}},
"Tensor.add_.0.forward":{{}}
}}}}
"#
        )
    );
    assert_eq!(
        text("stack.json"),
        r#"{
"0":[["Module.fc.Linear.forward.0","Torch.bad.0.forward","Tensor.add_.0.forward"],["File a.py, line 3, in main, \n model(x)"]],
"1":[["Functional.linear.0.forward"],["File b.py, line 1, in forward, \n \u00e9 \"x\"","File a.py, line 3, in main, \n model(x)"]]
}
"#
    );
    assert_eq!(
        text("construct.json"),
        r#"{
"Functional.linear.0.forward":"Module.fc.Linear.forward.0",
"Module.fc.Linear.forward.0":null,
"Torch.bad.0.forward":null,
"Functional.linear.0.backward":"Module.fc.Linear.backward.0",
"optimizer":null,
"Tensor.add_.0.forward":"optimizer"
}
"#
    );
    assert_eq!(
        scratch.rank().ledger().unwrap(),
        Ledger {
            seen: 9,
            recorded: 5,
            raised: vec![("Torch.bad: ValueError".to_owned(), 1)],
            skipped: vec![("not selected".to_owned(), 2)],
            failed: vec![("Torch.foo.0.forward: ValueError".to_owned(), 1)],
            unread: Vec::new(),
            returned: Vec::new(),
            notes: vec!["a note".to_owned()],
            ended: None,
            limited: false,
        }
    );
}

#[test]
fn a_journal_reads_as_the_dump_it_would_have_become() {
    let scratch = Scratch::new();
    scratch.file("journal.jsonl", &step());
    scratch.tensor("dump_tensor_data/x.pt", &[1.5, -3.0]);
    let killed = scratch.rank();
    assert!(killed.is_journal());
    assert_eq!(killed.problems().listed(), [] as [&str; 0]);
    assert_eq!(killed.task, Task::Tensor);
    assert_eq!(killed.stack(0).unwrap().len(), 2);
    assert_eq!(killed.parent(0).unwrap(), "Module.fc.Linear.forward.0");
    let all = entries(&killed);
    assert_eq!(elements(&killed, &all[0]), [1.5, -3.0]);
    let before = everything(&killed);
    // Reading it leaves no files.
    assert_eq!(names(scratch.path()), ["dump_tensor_data", "journal.jsonl"]);
    assert_eq!(everything(&rank(&scratch.path().join("journal.jsonl"))), before);
    fs::rename(scratch.path().join("journal.jsonl"), scratch.path().join("kept.txt")).unwrap();
    assert_eq!(everything(&rank(&scratch.path().join("kept.txt"))), before);
    fs::rename(scratch.path().join("kept.txt"), scratch.path().join("journal.jsonl")).unwrap();
    journal::finish(scratch.path()).unwrap();
    let finished = scratch.rank();
    assert!(!finished.is_journal());
    assert_eq!(everything(&finished), before);
    // A rank that was opened before still has its documents.
    assert_eq!(everything(&killed), before);
}

#[test]
fn the_journal_of_an_ended_step_is_a_whole_dump() {
    // Another thread was in a call when the step ended.
    let running = r#"{"call":"Torch.slow.0.forward","id":999,"data":{}}"#;
    let ledger = r#"{"ledger":{"seen":9,"recorded":5}"#;
    for (over, is_cut) in [("", true), (",\"over\":false", true), (",\"over\":true", false)] {
        let scratch = Scratch::new();
        scratch.file("journal.jsonl", &format!("{}{running}\n{ledger}{over}}}\n", step()));
        let rank = scratch.rank();
        assert_eq!(rank.is_journal(), is_cut, "{over}");
        assert_eq!(rank.ledger().unwrap().seen, 9);
        assert_eq!(rank.notes().len(), usize::from(is_cut), "{over}");
    }
}

#[test]
fn entries_have_the_fields_that_only_ulpscope_records() {
    let scratch = Scratch::new();
    scratch.file("journal.jsonl", &step());
    let all = entries(&scratch.rank());
    let tensor = described(&all[0]);
    assert_eq!(tensor.source.as_deref(), Some("parameter:fc.weight"));
    assert!(tensor.recompute);
    assert_eq!(tensor.non_finite(), Some(NonFiniteCounts { nan: 1, inf: 2 }));
    let further: Vec<_> = tensor.further.iter().map(|(statistic, value)| (statistic.key, value)).collect();
    let expected = [
        ("nan", &Json::Int(1)),
        ("inf", &Json::Int(2)),
        ("finite_max", &Json::Float(1.5)),
        ("finite_min", &Json::Int(-3)),
    ];
    assert_eq!(further, expected);
    // A dump of a different tool does not have it.
    let other = Scratch::new();
    other.file("dump.json", &dump_json("statistics", &[("Functional.relu.0.forward", &call("", ""))]));
    let all = entries(&other.rank());
    let tensor = described(&all[0]);
    assert_eq!((&tensor.source, tensor.recompute), (&None, false));
    assert!(tensor.further.is_empty());
    assert_eq!((other.rank().ledger(), other.rank().is_journal()), (None, false));
}

#[test]
fn a_journal_beside_a_dump_is_newer() {
    let scratch = Scratch::new();
    scratch.file("step0/rank0/dump.json", &dumps::relu());
    scratch.file("step0/rank0/journal.jsonl", &step());
    let dump = scratch.open();
    assert_eq!((dump.steps[0].number, dump.steps[0].ranks[0].number), (Some(0), Some(0)));
    assert_eq!(dump.steps[0].ranks[0].open().unwrap().calls().len(), 6);
    journal::finish(&scratch.path().join("step0/rank0")).unwrap();
    assert_eq!(scratch.rank().calls().len(), 6);
    // A file of that name with different content is ignored.
    scratch.file("step0/rank0/journal.jsonl", "{\"event\": 1}\n");
    assert_eq!(scratch.rank().calls().len(), 6);
}

#[test]
fn calls_that_were_running_keep_their_inputs() {
    let scratch = Scratch::new();
    let whole = step();
    let end = whole.find("{\"end\":2").unwrap();
    let path = scratch.file("journal.jsonl", &whole[..end]);
    let killed = scratch.rank();
    assert_eq!(calls(&killed), ["Module.fc.Linear.forward.0", "Functional.linear.0.forward"]);
    assert_eq!((killed.problems().count(), killed.running()), (0, [0, 1].as_slice()));
    assert_eq!(
        killed.notes(),
        [format!(
            "{}: the run ended inside Functional.linear.0.forward, and Module.fc.Linear.forward.0",
            path.display()
        )]
    );
    assert_eq!(places(&killed)[1..], ["x input 0"], "named by its file, with no output");
    // A run that ended between two calls.
    let end = whole.find("{\"call\":\"Torch.bad").unwrap();
    fs::write(&path, &whole[..end]).unwrap();
    assert_eq!(
        scratch.rank().notes(),
        [format!("{}: the run ended before the step was over", path.display())]
    );
    // The end of a step still writes such a call.
    journal::finish(scratch.path()).unwrap();
    assert_eq!(scratch.rank().calls().len(), 2);
}

#[test]
fn zeros_after_the_last_line_are_ignored() {
    let scratch = Scratch::new();
    fs::write(scratch.path().join("journal.jsonl"), step() + "\0\0\0\0\0\0\0\0\0\0\0").unwrap();
    let killed = scratch.rank();
    assert_eq!(killed.calls().len(), 6);
    assert!(killed.notes().is_empty(), "{:?}", killed.notes());
}

#[test]
fn a_truncated_line_is_left_out_and_named() {
    let scratch = Scratch::new();
    let path = scratch.path().join("journal.jsonl");
    for (torn, told) in [
        ("{\"call\":\"Torch.x.0.forward\",\"data\":{\"in", "line 19, which ends after 39 bytes"),
        ("{\"call\":\"T\0\0\0\0\0\0\0\0\0\0\0", "line 19, which ends after 10 bytes"),
    ] {
        fs::write(&path, step() + torn).unwrap();
        let killed = scratch.rank();
        assert_eq!(killed.calls().len(), 6);
        assert_eq!(
            killed.notes(),
            [format!("{}: the run ended while it wrote {told}: it is left out", path.display())]
        );
    }
    // Finishing reports it in the ledger.
    journal::finish(scratch.path()).unwrap();
    let notes = scratch.rank().ledger().unwrap().notes;
    assert_eq!(notes[0], "a note");
    assert!(
        notes[1].ends_with("journal.jsonl: line 19, which ends after 10 bytes, is left out"),
        "{notes:?}"
    );
    // Without a ledger the journal stays, because nothing else would report it.
    let whole = step();
    fs::write(&path, &whole[..whole.find("{\"ledger\"").unwrap() + 5]).unwrap();
    let error = journal::finish(scratch.path()).unwrap_err().to_string();
    assert!(error.contains("line 17, which ends after 5 bytes"), "{error}");
    assert!(path.exists());
}

#[test]
fn saved_variables_go_into_debug_json() {
    let scratch = Scratch::new();
    let text = format!(
        "{}\n{{\"call\":\"x.0.debug\",\"data\":[{TENSOR},{{\"a\":null}}]}}\n{{\"call\":\"y.0.debug\",\"data\":{TENSOR}}}\n\
         {{\"ledger\":{{\"seen\":2,\"recorded\":2}}}}\n",
        HEADER.replace("mix", "debug")
    );
    scratch.file("journal.jsonl", &text);
    let before = everything(&scratch.rank());
    journal::finish(scratch.path()).unwrap();
    assert_eq!(names(scratch.path()), ["debug.json", "ledger.json"]);
    assert_eq!(everything(&scratch.rank()), before);
    assert_eq!(entries(&scratch.rank()).len(), 3);
}

#[test]
fn a_structure_dump_reads_its_calls_from_the_other_files() {
    for (level, expected) in [("mix", 5), ("L1", 4)] {
        let scratch = Scratch::new();
        let text = step().replace("\"task\":\"tensor\"", "\"task\":\"structure\"").replace("mix", level);
        scratch.file("journal.jsonl", &text);
        let killed = scratch.rank();
        assert_eq!((killed.task, killed.calls().len()), (Task::Structure, expected));
        let before = everything(&killed);
        journal::finish(scratch.path()).unwrap();
        assert_eq!(everything(&scratch.rank()), before);
        assert!(fs::read_to_string(scratch.path().join("dump.json")).unwrap().ends_with("\"data\":{\n}}\n"));
        let construct = fs::read_to_string(scratch.path().join("construct.json")).unwrap();
        assert_eq!(construct == "{\n}\n", level == "L1");
    }
}

#[cfg(unix)]
#[test]
fn a_folder_that_cannot_be_written_is_read() {
    use std::os::unix::fs::PermissionsExt;

    let scratch = Scratch::new();
    scratch.file("journal.jsonl", &step());
    let mode = |mode| fs::set_permissions(scratch.path(), fs::Permissions::from_mode(mode)).unwrap();
    mode(0o555);
    let calls = open(scratch.path()).unwrap().steps[0].ranks[0].open().map(|rank| rank.calls().len());
    mode(0o755);
    assert_eq!(calls.unwrap(), 6);
}
