//! Dumps of our own: their ledgers, and the journals of runs that were killed.

use serde_json::json;

use crate::workspace::{Ran, Workspace};

const TENSOR: &str = r#"{"type":"torch.Tensor","dtype":"torch.float32","shape":[2],"Max":NaN,"Min":NaN,"Mean":NaN,"Norm":NaN,"requires_grad":true,"nan":1,"inf":0,"finite_max":2.5,"finite_min":2.5,"is_recompute":true,"source":"parameter:fc.weight"}"#;

/// A tensor without anything special about it.
const PLAIN: &str = r#"{"type":"torch.Tensor","dtype":"torch.float32","shape":[2],"Max":2.0,"Min":1.0,"Mean":1.5,"Norm":2.5,"requires_grad":false}"#;

fn lines(calls: usize) -> String {
    let mut text = String::from(
        "{\"ulpscope\":1,\"task\":\"statistics\",\"level\":\"L1\",\"framework\":\"pytorch\",\"dump_data_dir\":null}\n",
    );
    for call in 0..calls {
        text += &format!(
            "{{\"call\":\"Torch.add.{call}.forward\",\"id\":{call},\"data\":{{\"input_args\":[{PLAIN}],\"input_kwargs\":{{}}}}}}\n\
             {{\"end\":{call},\"data\":{{\"output\":[{PLAIN}]}}}}\n"
        );
    }
    text
}

/// A finished dump of our own.
fn put_dump(place: &Workspace, folder: &str, calls: usize, ledger: &str) {
    place.put_text(
        &format!("{folder}/journal.jsonl"),
        &(lines(calls) + &format!("{{\"ledger\":{ledger}}}\n")),
    );
    ulpscope_dump::journal::finish(&place.path(folder)).unwrap();
}

const LEDGER: &str =
    r#"{"seen":5,"recorded":2,"skipped":{"not selected":3},"failed":{},"notes":[],"ended":null}"#;

#[test]
fn ls_shows_what_the_run_recorded_about_itself() {
    let place = Workspace::new();
    put_dump(&place, "d/step0/rank0", 2, LEDGER);
    let failed = r#"{"seen":6,"recorded":1,"raised":{"Torch.mm: RuntimeError":2},"skipped":{"not selected":1,"metadata":1},"failed":{"Torch.x.0.forward: E":1},"notes":["n"],"ended":"cannot write: disk \u001b[31mfull"}"#;
    put_dump(&place, "d/step0/rank1", 1, failed);
    let ran = place.run(&["ls", "d"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    let lines: Vec<&str> = ran.out.lines().collect();
    assert_eq!(lines[0], "step 0, rank0, d/step0/rank0/dump.json (Ulpscope, statistics, level L1, 2 calls)");
    assert_eq!(lines[1], "       5 calls seen: 2 recorded, 3 skipped (3 not selected)");
    assert_eq!(
        lines[5],
        "       6 calls seen: 1 recorded, 2 raised, 2 skipped (1 not selected, 1 metadata), 1 failed; \
         ended early: cannot write: disk \\u{1b}[31mfull"
    );
    let json = place.run(&["ls", "d", "--json"]).json();
    assert_eq!(json["ranks"][0]["journal"], json!(false));
    assert_eq!(
        json["ranks"][0]["ledger"],
        json!({"seen": 5, "recorded": 2, "raised": {}, "skipped": {"not selected": 3}, "failed": {}, "unread": {}, "notes": [], "ended": null})
    );
}

#[test]
fn ls_and_show_read_what_a_killed_run_left() {
    let place = Workspace::new();
    let running = format!(
        "{{\"call\":\"Functional.linear.0.forward\",\"id\":9,\"data\":{{\"input_args\":[{TENSOR}],\"input_kwargs\":{{}}}}}}\n{{\"en"
    );
    place.put_text("d/rank/journal.jsonl", &(lines(1) + &running));
    let ran = place.run(&["ls", "d"]);
    assert_eq!(
        ran.out,
        "\
rank, d/rank/journal.jsonl (Ulpscope, statistics, level L1, 2 calls)
       a journal: the run was killed before the step was over, or is still going
    2  Torch.add.0.forward  (float32[2]) -> float32[2]
    1  Functional.linear.0.forward  (float32[2])
"
    );
    assert_eq!(
        ran.err,
        "note: d/rank/journal.jsonl: the run ended while it wrote line 5, which ends after 4 bytes: it is left out\n\
         note: d/rank/journal.jsonl: the run ended inside Functional.linear.0.forward\n"
    );
    // What was recorded before is as true as ever.
    assert_eq!(ran.code, 0);
    assert_eq!(place.files(), ["d/rank/journal.jsonl"]);
    let rank = &place.run(&["ls", "d", "--json"]).json()["ranks"][0];
    assert_eq!((&rank["journal"], &rank["ledger"]), (&json!(true), &json!(null)));
    assert_eq!(rank["calls"][1]["entries"][0]["source"], json!("parameter:fc.weight"));
    assert_eq!(rank["calls"][0]["entries"][0].get("source"), None);

    let ran = place.run(&["show", "d/rank/journal.jsonl", "Functional.linear.0"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(
        ran.out,
        "\
Functional.linear.0.forward
entry                                type     shape  max  min  mean  norm  nan  inf  finite_max  finite_min  from    source
─────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────
Functional.linear.0.forward.input.0  float32  [2]    nan  nan   nan   nan    1    0         2.5         2.5  record  parameter:fc.weight
"
    );
    let json = place.run(&["show", "d", "Functional.linear.0", "--json"]).json();
    let entry = &json["calls"][0]["entries"][0];
    assert_eq!((&entry["source"], &entry["recompute"]), (&json!("parameter:fc.weight"), &json!(true)));
    assert_eq!(
        (&entry["recorded"]["nan"], &entry["recorded"]["inf"], &entry["recorded"]["finite_max"]),
        (&json!(1), &json!(0), &json!(2.5))
    );
}

/// What a comparison of `t` and `g` notes about the ledgers.
fn noted(ran: &Ran) -> Vec<String> {
    let notes = ran.err.lines().filter_map(|line| line.strip_prefix("note: "));
    notes.filter(|note| note.contains(".json")).map(str::to_owned).collect()
}

#[test]
fn compare_warns_when_the_ledgers_disagree() {
    // Calls that are counted otherwise are a warning; a capture that was cut is not all there is.
    for (style, ended, code) in [
        ("native", "null", 0),
        ("native", "\"out of space\"", 2),
        ("msprobe", "null", 0),
        ("msprobe", "\"out of space\"", 2),
        ("msprobe-1", "null", 0),
        ("msprobe-1", "\"out of space\"", 2),
    ] {
        let other = format!(
            r#"{{"seen":6,"recorded":2,"skipped":{{"metadata":1,"not selected":3}},"notes":["2 compiled regions"],"ended":{ended},"failed":{{"Torch.x.0.forward: ValueError: no":2}}}}"#
        );
        let place = Workspace::new();
        put_dump(&place, "t", 2, LEDGER);
        put_dump(&place, "g", 2, LEDGER);
        let ran = place.run(&["compare", "t", "g", "--style", style]);
        assert_eq!((ran.code, noted(&ran)), (0, vec![]), "{style}: {}", ran.err);

        put_dump(&place, "g", 2, &other);
        let ran = place.run(&["compare", "t", "g", "--style", style, "-o", "out"]);
        let mut expected = vec![
            "g/dump.json: 2 calls could not be recorded: Torch.x.0.forward: ValueError: no",
            "t/dump.json and g/dump.json: the two runs did not make the same calls: calls seen 5 against 6; skipped \
             (metadata) 0 against 1. See what has no counterpart, or whether both sides were captured with the same selection",
            "g/dump.json: only this side's capture reports: 2 compiled regions",
        ];
        if code == 2 {
            expected.insert(0, "g/dump.json: capture ended early, so later calls are missing: out of space");
        }
        assert_eq!(noted(&ran), expected, "{style}");
        assert_eq!(ran.code, code, "{style}: {}", ran.err);
        let json: serde_json::Value = serde_json::from_str(&place.text("out/result.json")).unwrap();
        let notes = json["ranks"][0]["notes"].as_array().unwrap();
        assert!(expected.iter().all(|note| notes.contains(&json!(note))), "{notes:?}");

        // A dump of another tool has no ledger.
        std::fs::remove_file(place.path("g/ledger.json")).unwrap();
        let ran = place.run(&["compare", "t", "g", "--style", style]);
        assert_eq!(noted(&ran), [] as [&str; 0]);
    }
}

#[test]
fn a_capture_that_was_cut_is_not_all_there_is() {
    let ended = |limited: &str| {
        format!(r#"{{"seen":5,"recorded":2,"skipped":{{"metadata":0}},"ended":"out of space"{limited}}}"#)
    };
    for style in ["native", "msprobe", "msprobe-1"] {
        let place = Workspace::new();
        for (target, golden, code) in [
            (ended(""), LEDGER.to_owned(), 2),
            (ended(""), ended(""), 2),
            // By a setting: two such may be the same part of their runs.
            (ended(",\"limited\":true"), LEDGER.to_owned(), 2),
            (ended(",\"limited\":true"), ended(",\"limited\":true"), 0),
        ] {
            put_dump(&place, "t", 2, &target);
            put_dump(&place, "g", 2, &golden);
            let ran = place.run(&["compare", "t", "g", "--style", style]);
            assert_eq!(ran.code, code, "{style}: {target} {golden} {}", ran.err);
            let early = "t/dump.json: capture ended early, so later calls are missing: out of space";
            assert!(noted(&ran).iter().any(|note| note == early), "{style}: {}", ran.err);
        }
    }
}

#[test]
fn compare_reads_what_a_killed_run_left() {
    for style in ["native", "msprobe"] {
        let place = Workspace::new();
        put_dump(&place, "g", 2, LEDGER);
        place.put_text("t/journal.jsonl", &(lines(2) + "{\"call\":\"Torch.add.2.for"));
        let ran = place.run(&["compare", "t", "g", "--style", style]);
        assert_eq!(
            noted(&ran),
            [
                "t/journal.jsonl: the run was killed before the step was over, or is still going: this is what it had recorded",
                "t/journal.jsonl: the run ended while it wrote line 6, which ends after 24 bytes: it is left out"
            ]
        );
        assert!(ran.out.contains("4: 4 agree, 0 differ"), "{style}: {}", ran.out);
        // Nothing differs, but not everything is there.
        assert_eq!(ran.code, 2);
        // What differs was seen.
        place.put_text("t/journal.jsonl", &lines(2).replacen("\"Max\":2.0", "\"Max\":7.0", 2));
        let ran = place.run(&["compare", "t", "g"]);
        assert_eq!(ran.code, 1, "{}", ran.out);
    }
}

#[test]
fn a_step_that_was_only_begun_is_noted() {
    let place = Workspace::new();
    for side in ["t", "g"] {
        put_dump(&place, &format!("{side}/step0/rank"), 2, LEDGER);
    }
    std::fs::create_dir_all(place.path("t/step1/rank")).unwrap();
    let told = "note: t/step1/rank: an empty folder: the run ended before it recorded anything here\n";
    let ran = place.run(&["ls", "t"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, told));
    let ran = place.run(&["show", "t", "Torch.add.0"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, told));
    let ran = place.run(&["compare", "t", "g"]);
    assert_eq!(ran.code, 0, "{}", ran.out);
    assert!(ran.err.contains(told), "{}", ran.err);
    assert!(place.run(&["ls", "t", "--json"]).json()["notes"][0].as_str().unwrap().contains("t/step1/rank"));
}
