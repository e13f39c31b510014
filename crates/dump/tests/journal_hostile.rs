//! Hostile journals: each line that cannot be read is named, and the others are read.
#![allow(clippy::unwrap_used, missing_docs)]

mod dumps;

use std::fs::{self, File};

use dumps::{Scratch, calls};
use ulpscope_dump::journal;

const HEADER: &str = "{\"ulpscope\":1,\"task\":\"statistics\",\"level\":\"mix\"}\n";

/// Puts calls around a line. Returns the problem of the line, and checks that nothing else is lost.
fn problem(line: &str) -> String {
    let scratch = Scratch::new();
    let text = format!(
        "{HEADER}{{\"call\":\"Torch.a.0.forward\",\"id\":3,\"data\":{{}}}}\n{line}\n{{\"end\":3,\"data\":{{\"output\":[null]}}}}\n\
         {{\"call\":\"Torch.b.0.forward\"}}\n{{\"ledger\":{{\"seen\":2,\"recorded\":2}}}}\n"
    );
    scratch.file("journal.jsonl", &text);
    let rank = scratch.rank();
    let names = calls(&rank);
    assert!(names.starts_with(&["Torch.a.0.forward".to_owned()]), "{names:?}");
    assert!(names.ends_with(&["Torch.b.0.forward".to_owned()]), "{names:?}");
    assert_eq!(rank.entries(0).unwrap().len(), 1);
    let listed = rank.problems().listed().join("; ");
    journal::finish(scratch.path()).unwrap();
    let finished = scratch.rank();
    assert_eq!(calls(&finished), names);
    assert!(finished.problems().is_empty());
    let noted = finished.ledger().unwrap().notes.join("; ");
    assert_eq!(noted, listed);
    listed.split_once("journal.jsonl: ").map_or(listed.clone(), |(_, told)| told.to_owned())
}

#[test]
fn each_bad_line_is_named() {
    for (line, told) in [
        ("garbage", "line 3, byte 95: expected a value, found 'g'"),
        ("[1]", "line 3, byte 96: expected an object, found a list"),
        ("{}", "expected a key that names the kind of the line, found the end of an object"),
        ("{\"what\":1}", "expected a line that begins with \"stack\", \"call\""),
        ("{\"ulpscope\":1}", "found the key \"ulpscope\""),
        ("{\"call\":\"x\",\"data\":{\"a\":}}", "expected a value, found '}'"),
        ("{\"call\":\"x\",\"data\":{}} {}", "expected nothing after the value"),
        ("{\"call\":5}", "expected the name of a call, found the integer 5"),
        (
            "{\"call\":\"Torch.a.0.forward\"}",
            "line 3: expected a name that is new, found Torch.a.0.forward again",
        ),
        ("{\"call\":\"x\",\"id\":3}", "line 3: expected an id above 3, found 3"),
        ("{\"call\":\"x\",\"id\":-1}", "expected an integer from 0 up, found the integer -1"),
        (
            "{\"call\":\"x\",\"id\":99999999999999999999999}",
            "expected an integer from 0 up, found the integer 99999",
        ),
        (
            "{\"call\":\"x\",\"id\":4,\"data\":[]}",
            "line 3: expected an object of sections, found another value",
        ),
        ("{\"call\":\"x\",\"parent\":{}}", "expected the name of a call, or null, found an object"),
        ("{\"call\":\"\u{fffd}\\q\"}", "expected one of"),
        ("{\"more\":8,\"data\":{}}", "line 3: expected the id of a call that is running, found 8"),
        ("{\"more\":3,\"data\":7}", "line 3: expected an object of sections, found another value"),
        ("{\"end\":\"3\"}", "expected an integer from 0 up, found the string"),
        ("{\"raised\":null}", "expected an integer from 0 up, found null"),
        ("{\"ledger\":7}", "line 3: expected an object, found another value"),
        ("{\"stack\":1}", "expected \"frames\", found a stack without them"),
        ("{\"stack\":1,\"frames\":[5]}", "expected a line of text, found the integer 5"),
        ("{\"stack\":1,\"frames\":\"f\"}", "expected a list of stack lines, found the string"),
        ("{\"call\":\"x\0y\"}", "expected control characters escaped in a string, found byte 0x00"),
    ] {
        let found = problem(line);
        assert!(found.contains(told), "{line}: {found}");
    }
    // Lines without a detectable fault.
    for line in
        ["", "  \r", "{\"call\":\"x\",\"data\":7}", "{\"call\":\"x\",\"new\":{\"k\":[1]},\"stack\":null}"]
    {
        assert_eq!(problem(line), "");
    }
}

#[test]
fn an_unknown_stack_loses_only_the_stack() {
    let told = problem("{\"call\":\"Torch.x.0.forward\",\"stack\":77,\"data\":{\"output\":[null]}}");
    assert_eq!(told, "line 3: expected a stack that is known, found 77");
}

#[test]
fn depth_and_length_have_limits() {
    let nested =
        |depth: usize| format!("{{\"call\":\"x\",\"data\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
    // The deepest that a dump.json can contain.
    assert_eq!(problem(&nested(1022)), "");
    assert!(problem(&nested(1023)).contains("nested deeper than 1023 levels"));
    assert!(problem(&nested(200_000)).contains("nested deeper than 1023 levels"));
    let long = "x".repeat(100_000);
    let told = problem(&format!("{{\"call\":\"{long}\"}}"));
    assert!(told.contains("the name of a call of 100002 exceeds the limit of 65536"), "{told}");
    assert_eq!(problem(&format!("{{\"call\":\"x\",\"data\":{{\"input_args\":[\"{long}\"]}}}}")), "");
    let huge = "x".repeat(5 << 20);
    let told = problem(&format!("{{\"ledger\":{{\"notes\":[\"{huge}\"]}}}}"));
    assert!(told.contains("a ledger of 5242894 exceeds the limit of 4194304"), "{told}");
}

#[test]
fn many_bad_lines_are_counted() {
    let scratch = Scratch::new();
    let again = format!("{{\"call\":\"{}\"}}\n", "n".repeat(60_000));
    let text = format!("{HEADER}{}{{\"ledger\":{{\"seen\":1,\"recorded\":1}}}}\n", again.repeat(101));
    scratch.file("journal.jsonl", &text);
    assert_eq!(scratch.rank().problems().count(), 100);
    journal::finish(scratch.path()).unwrap();
    let notes = scratch.rank().ledger().unwrap().notes;
    assert_eq!((notes.len(), notes[20].as_str()), (21, "80 more lines of the journal could not be read"));
    assert!(notes[0].len() < 1000, "{}", notes[0]);
}

#[test]
fn damage_in_a_text_is_found_when_it_is_read() {
    let scratch = Scratch::new();
    let text = format!(
        "{HEADER}{{\"call\":\"Torch.a.0.forward\",\"data\":{{\"output\":[\"\\q\"]}}}}\n{{\"ledger\":{{}}}}\n"
    );
    scratch.file("journal.jsonl", &text);
    let rank = scratch.rank();
    let error = rank.entries(0).unwrap_err().to_string();
    assert!(error.contains("journal.jsonl: Torch.a.0.forward: expected one of"), "{error}");
    assert_eq!(rank.ledger(), None);
    let told = rank.problems().listed().join("; ");
    assert!(told.ends_with("the ledger, seen: expected an integer from 0 up, found null"), "{told}");
}

#[test]
fn other_files_are_refused() {
    let scratch = Scratch::new();
    let path = scratch.path().join("journal.jsonl");
    for (text, told) in [
        ("hello\n", "expected a journal, which begins with {\\\"ulpscope\\\":, found \"hello\""),
        ("{\"call\":\"x\"}\n", "expected a journal, which begins with"),
        (
            "{\"ulpscope\":2}\n",
            "line 1: expected a journal of version 1 (a newer Ulpscope may be able to read it), found the integer 2",
        ),
        ("{\"ulpscope\":1,]\n", "expected a key in double quotes"),
        ("hello", "expected a journal"),
    ] {
        fs::write(&path, text).unwrap();
        let dump = dumps::open(&path).unwrap();
        let error = dump.steps[0].ranks[0].open().unwrap_err().to_string();
        assert!(error.contains(told), "{text}: {error}");
        assert!(journal::finish(scratch.path()).is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }
    let long = format!("{{\"ulpscope\":1,\"task\":\"{}\"}}\n", "x".repeat(2 << 20));
    fs::write(&path, long).unwrap();
    let error = dumps::open(&path).unwrap().steps[0].ranks[0].open().unwrap_err().to_string();
    assert!(error.contains("the first line of 2097176 exceeds the limit of 1048576"), "{error}");
}

#[test]
fn a_missing_header_is_an_empty_dump() {
    let scratch = Scratch::new();
    for text in ["", "{", "{\"ulpscope\":1,\"ta", "\0\0\0\0"] {
        let path = scratch.file("journal.jsonl", text);
        let rank = scratch.rank();
        assert_eq!((rank.calls().len(), rank.problems().count()), (0, 0), "{text:?}");
        assert!(rank.notes()[0].contains("while it wrote line 1"), "{:?}", rank.notes());
        assert!(journal::finish(scratch.path()).is_err());
        assert!(path.exists());
    }
}

#[test]
fn ledgers_are_checked() {
    let scratch = Scratch::new();
    scratch.file("dump.json", &dumps::relu());
    for (text, told) in [
        ("{\"seen\":1,\"recorded\":-1}", "recorded: expected an integer from 0 up, found the integer -1"),
        (
            "{\"seen\":1,\"recorded\":1,\"skipped\":[1]}",
            "skipped: expected an object of counts, found a list of 1",
        ),
        ("{\"seen\":1,\"recorded\":1,\"notes\":[1]}", "notes: expected text, found the integer 1"),
        ("{\"seen\":1,\"recorded\":1,\"ended\":1}", "ended: expected text, found the integer 1"),
        (
            "{\"seen\":1,\"recorded\":1,\"returned\":7}",
            "returned: expected a list of objects, found the integer 7",
        ),
        (
            "{\"seen\":1,\"recorded\":1,\"returned\":[{\"calls\":1}]}",
            "returned: expected an object of results, found null",
        ),
        (
            "{\"seen\":1,\"recorded\":1,\"returned\":[7]}",
            "returned: expected an integer from 0 up, found null",
        ),
        (
            "{\"seen\":1,\"recorded\":1,\"returned\":[{\"calls\":-1,\"results\":{}}]}",
            "returned: expected an integer from 0 up, found the integer -1",
        ),
        (
            "{\"seen\":1,\"recorded\":1,\"returned\":[{\"calls\":1,\"results\":{\"0\":7}}]}",
            "returned: expected the name of a result, or null, found the integer 7",
        ),
        ("{\"seen\":1", "truncated"),
        ("[]", "expected a ledger, an object, found a list of 0"),
    ] {
        scratch.file("ledger.json", text);
        let rank = scratch.rank();
        assert!(rank.problems().is_empty());
        assert_eq!(rank.ledger(), None);
        let found = rank.problems().listed().join("; ");
        assert!(found.contains("ledger.json: ") && found.contains(told), "{text}: {found}");
    }
    // Calls that the dump does not have are for those to judge who look for them.
    let unknown = "{\"calls\":90000,\"results\":{\"0\":\"Torch.none.0.forward.output.0\"}}";
    scratch.file("ledger.json", &format!("{{\"seen\":1,\"recorded\":1,\"returned\":[{unknown}]}}"));
    assert_eq!(scratch.rank().ledger().map(|ledger| ledger.returned[0].calls), Some(90_000));
    let path = scratch.path().join("ledger.json");
    File::create(&path).unwrap().set_len(1 << 40).unwrap();
    let rank = scratch.rank();
    assert_eq!((rank.ledger(), rank.problems().count()), (None, 1));
    assert!(
        dumps::open(&path)
            .unwrap_err()
            .to_string()
            .contains("belongs to a dump but is not a dump on its own")
    );
}
