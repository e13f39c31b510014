//! `ulpscope merge`.

use serde_json::{Value as Json, json};
use ulpscope_formats::Value;

use crate::workspace::{Ran, Workspace, floats};

const NATIVE: &str = "call,entry,verdict,target_name,golden_name,rel_l2";
const MSPROBE: &str = "NPU Name,Bench Name,Cosine,NPU max,Bench max,NPU MD5,Result";

/// A sheet of these rows.
fn put_sheet(place: &Workspace, name: &str, header: &str, rows: &[&str]) {
    place.put_text(
        name,
        &format!("{header}\n{}", rows.iter().map(|row| format!("{row}\n")).collect::<String>()),
    );
}

/// The rows in JSON, each as a list of its values.
fn rows(ran: &Ran) -> Vec<Vec<Json>> {
    let json = ran.json();
    let rows = json["rows"].as_array().unwrap();
    rows.iter().map(|row| row.as_object().unwrap().values().cloned().collect()).collect()
}

/// The names of the columns in JSON.
fn columns(ran: &Ran) -> Vec<String> {
    ran.json()["rows"][0].as_object().unwrap().keys().cloned().collect()
}

#[test]
fn ranks_stand_side_by_side_in_the_order_of_their_numbers() {
    let place = Workspace::new();
    for (rank, value) in [(10, "1.0"), (2, "0.5"), (0, "0.0")] {
        let name = format!("r/compare_result_rank{rank}-rank{rank}_20261115093059.csv");
        put_sheet(&place, &name, NATIVE, &[&format!("add,output.0,close,add.output.0,add.output.0,{value}")]);
    }
    let ran = place.run(&["merge", "r", "--metric", "rel_l2", "-o", "all.csv"]);
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, "wrote all.csv (1 rows)\n", ""));
    assert_eq!(place.text("all.csv"), "name,metric,rank0,rank2,rank10\nadd.output.0,rel_l2,0.0,0.5,1.0\n");
}

#[test]
fn rows_without_a_name_in_the_target_have_one_of_their_own() {
    let place = Workspace::new();
    put_sheet(
        &place,
        "rank0.csv",
        NATIVE,
        &[
            "add,output.0,close,add.output.0,golden.output.0,0.5",
            "add,output.1,only in golden,,golden.output.1,",
            "mul,,only in golden,,,",
            "div,,only in target,,,",
            "sub,input.0,not compared,,,",
        ],
    );
    let ran = place.run(&["merge", "rank0.csv", "--metric", "verdict", "--json"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    let expected = [
        ("add.output.0", "close"),
        ("golden.output.1", "only in golden"),
        ("mul", "only in golden"),
        ("div", "only in target"),
        ("sub input.0", "not compared"),
    ];
    let expected = expected.map(|(name, verdict)| vec![json!(name), json!("verdict"), json!(verdict)]);
    assert_eq!(rows(&ran), expected);
}

#[test]
fn all_unpaired_calls_of_a_comparison_are_there() {
    let place = Workspace::new();
    let call = |name: &str| format!(r#""{name}": {{"output": [{{"type": "int", "value": 1}}]}}"#);
    let dump = |calls: &[&str]| {
        let calls: Vec<String> = calls.iter().map(|name| call(name)).collect();
        format!(r#"{{"task": "statistics", "dump_data_dir": null, "data": {{{}}}}}"#, calls.join(", "))
    };
    place.put_text("t/dump.json", &dump(&["Torch.add.0.forward"]));
    place.put_text(
        "g/dump.json",
        &dump(&["Torch.add.0.forward", "Torch.mul.0.forward", "Torch.div.0.forward"]),
    );
    assert_eq!(place.run(&["compare", "t", "g", "-o", "out", "--format", "csv"]).code, 1);
    let ran = place.run(&["merge", "out", "--metric", "verdict", "--json"]);
    let names: Vec<Json> = rows(&ran).into_iter().map(|row| row[0].clone()).collect();
    assert_eq!(names, ["Torch.add.0.forward.output.0", "Torch.mul.0.forward", "Torch.div.0.forward"]);
}

#[test]
fn rows_of_one_name_are_paired_in_order() {
    let place = Workspace::new();
    put_sheet(&place, "rank0.csv", MSPROBE, &["a,a,1.0,,,,", "b,b,2.0,,,,", "a,a,3.0,,,,", "N/A,x,4.0,,,,"]);
    put_sheet(&place, "rank1.csv", MSPROBE, &["a,a,5.0,,,,", "a,a,6.0,,,,", "a,a,7.0,,,,", "N/A,y,8.0,,,,"]);
    let ran = place.run(&["merge", "rank0.csv", "rank1.csv", "--metric", "Cosine", "-o", "all.csv"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let expected = [
        "name,metric,rank0,rank1",
        "a,Cosine,1.0,5.0",
        "b,Cosine,2.0,",
        "a,Cosine,3.0,6.0",
        "x,Cosine,4.0,",
        "a,Cosine,,7.0",
        "y,Cosine,,8.0",
    ];
    assert_eq!(place.text("all.csv").lines().collect::<Vec<_>>(), expected);
}

#[test]
fn a_digest_is_text_and_a_number_is_a_number() {
    let place = Workspace::new();
    let texts = [
        ("00000012", json!("00000012")),
        ("12e45678", json!("12e45678")),
        ("1e5", json!("1e5")),
        ("+1", json!("+1")),
        ("-0", json!("-0")),
        ("0.50", json!("0.50")),
        ("infinity", json!("infinity")),
        ("170141183460469231731687303715884105728", json!("170141183460469231731687303715884105728")),
        ("12345678", json!(12345678)),
        ("-3", json!(-3)),
        ("0.5", json!(0.5)),
        ("1e-07", json!(1e-7)),
        ("nan", json!("NaN")),
        ("-inf", json!("-Infinity")),
        ("Different", json!("Different")),
        ("", json!(null)),
    ];
    let lines: Vec<String> = texts.iter().map(|(text, _)| format!("a,a,,,,{text},")).collect();
    put_sheet(&place, "rank0.csv", MSPROBE, &lines.iter().map(String::as_str).collect::<Vec<_>>());
    let ran = place.run(&["merge", "rank0.csv", "--metric", "NPU MD5", "--json"]);
    let values: Vec<Json> = rows(&ran).into_iter().map(|row| row[2].clone()).collect();
    assert_eq!(values, texts.iter().map(|(_, value)| value.clone()).collect::<Vec<_>>());
    place.run(&["merge", "rank0.csv", "--metric", "NPU MD5", "-o", "all.csv"]);
    let written = place.text("all.csv");
    let written: Vec<&str> = written.lines().skip(1).map(|line| line.rsplit(',').next().unwrap()).collect();
    // `+1` alone is a number to a spreadsheet, so it needs no mark.
    assert_eq!(written, texts.map(|(text, _)| text));
}

#[test]
fn where_there_is_no_metric_the_maxima_are_shown() {
    let place = Workspace::new();
    put_sheet(&place, "rank0.csv", MSPROBE, &["a,a,N/A,1.5,2.5,,"]);
    let ran = place.run(&["merge", "rank0.csv", "--metric", "Cosine", "--json"]);
    assert_eq!(rows(&ran), [[json!("a"), json!("Cosine"), json!("NPU:1.5  Bench:2.5")]]);
}

#[test]
fn both_formats_of_one_comparison_are_one_column() {
    let place = Workspace::new();
    place.put("one.npy", &Value::Tensor(floats(&[2], &[1.0, 2.0])));
    assert_eq!(place.run(&["compare", "one.npy", "one.npy", "-o", "out", "--format", "csv,xlsx"]).code, 0);
    let merge = ["merge", "out", "--metric", "verdict", "-o", "all.csv"];
    let ran = place.run(&merge);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    let csv =
        place.files().into_iter().find(|name| name.starts_with("out/") && name.ends_with(".csv")).unwrap();
    let stem = csv.strip_prefix("out/").unwrap().strip_suffix(".csv").unwrap();
    let merged = place.text("all.csv");
    assert_eq!(merged, format!("name,metric,{stem}\none,verdict,equal\n"));
    // A workbook alone is as good.
    std::fs::remove_file(place.path(&csv)).unwrap();
    assert_eq!(place.run(&merge).code, 0);
    assert_eq!(place.text("all.csv"), merged);
}

#[test]
fn no_column_is_lost_when_two_results_are_of_one_rank() {
    let place = Workspace::new();
    let put = |name: &str, value: u32| {
        put_sheet(&place, name, MSPROBE, &[&format!("a,a,{value},,,,")]);
    };
    put("r/compare_result_rank0_20261115093059.csv", 1);
    put("r/compare_result_rank0_20261115093100.csv", 2);
    put("r/compare_result_rank1_20261115093059.csv", 3);
    let ran = place.run(&["merge", "r", "--all", "--metric", "Cosine", "-o", "all.csv"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(
        place.text("all.csv"),
        "name,metric,compare_result_rank0_20261115093059,compare_result_rank0_20261115093100,rank1\n\
         a,Cosine,1,2,3\n"
    );
    // The same name in two folders; a file named twice; files with the names of our own columns.
    put("s/compare_result_rank0_20261115093059.csv", 4);
    put("name.csv", 5);
    put("metric", 6);
    let mut args = vec!["merge", "--all", "--metric", "Cosine", "--json", "r", "s", "name.csv", "metric"];
    args.push("r/compare_result_rank1_20261115093059.csv");
    let ran = place.run(&args);
    let expected = [
        "name",
        "metric",
        "\"metric\"",
        "name.csv",
        "r/compare_result_rank0_20261115093059.csv",
        "compare_result_rank0_20261115093100",
        "s/compare_result_rank0_20261115093059.csv",
        "rank1",
    ];
    assert_eq!(columns(&ran), expected);
    assert_eq!(ran.json()["rows"][0]["s/compare_result_rank0_20261115093059.csv"], json!(4));
}

#[test]
fn of_several_comparisons_the_newest_is_taken() {
    let place = Workspace::new();
    let put = |name: &str, value: u32| {
        put_sheet(&place, name, MSPROBE, &[&format!("a,a,{value},,,,")]);
    };
    // Ours: one moment for all ranks. The second comparison was of fewer.
    put("ours/compare_result_rank0-rank0_20261115093059.csv", 1);
    put("ours/compare_result_rank1-rank1_20261115093059.csv", 2);
    put("ours/compare_result_rank0-rank0_20261115093100.csv", 3);
    let ran = place.run(&["merge", "ours", "--metric", "Cosine", "--json"]);
    assert_eq!(ran.code, 0);
    assert_eq!(columns(&ran), ["name", "metric", "rank0"]);
    assert_eq!(ran.json()["rows"][0]["rank0"], json!(3));
    assert_eq!(
        ran.err,
        "note: ours: holds more than one comparison; the newest is taken, 1 of 3 files; --all takes all of them\n"
    );
    assert_eq!(columns(&place.run(&["merge", "ours", "--all", "--metric", "Cosine", "--json"])).len(), 5);
    // An older tool's: a moment for each rank.
    put("older/compare_result_rank0_20261115093059.csv", 1);
    put("older/compare_result_rank1_20261115093101.csv", 2);
    let ran = place.run(&["merge", "older", "--metric", "Cosine", "--json"]);
    assert_eq!((columns(&ran).len(), ran.err.as_str()), (4, ""));
    put("older/compare_result_rank0_20261115093200.csv", 3);
    let ran = place.run(&["merge", "older", "--metric", "Cosine", "--json"]);
    assert_eq!(ran.json()["rows"][0], json!({ "name": "a", "metric": "Cosine", "rank0": 3, "rank1": 2 }));
    // What is named itself is taken, and one rank twice is two comparisons.
    put("single/compare_result_20261115093059.csv", 1);
    put("single/compare_result_20261115093100.csv", 2);
    assert_eq!(columns(&place.run(&["merge", "single", "--metric", "Cosine", "--json"])).len(), 3);
    let both = ["single/compare_result_20261115093059.csv", "single/compare_result_20261115093100.csv"];
    assert_eq!(columns(&place.run(&["merge", both[0], both[1], "--metric", "Cosine", "--json"])).len(), 4);
}

#[test]
fn statistics_have_no_metrics_of_elements() {
    let place = Workspace::new();
    let dump = |norm: f64| {
        format!(
            r#"{{"task": "statistics", "dump_data_dir": null, "data": {{"Torch.add.0.forward": {{"output": [
            {{"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2], "Max": 1.0, "Min": 0.0, "Mean": 0.5,
              "Norm": {norm}}}]}}}}}}"#
        )
    };
    place.put_text("t/dump.json", &dump(1.0));
    place.put_text("g/dump.json", &dump(2.0));
    place.run(&["compare", "t", "g", "-o", "out"]);
    let ran = place.run(&["merge", "out", "--metric", "max_abs"]);
    assert_eq!((ran.code, ran.out.as_str()), (2, ""));
    let expected = "error: no row has a value of \"max_abs\": the dumps were compared by their statistics, which have no \
                    such metric; columns that have values: call, ";
    assert!(ran.err.starts_with(expected) && ran.err.contains("norm_diff"), "{}", ran.err);
    let ran = place.run(&["merge", "out", "--metric", "max_abs", "--metric", "norm_diff", "--json"]);
    assert_eq!((ran.code, rows(&ran).len()), (0, 2));
    assert!(ran.err.starts_with("note: no row has a value of \"max_abs\": the dumps were"), "{}", ran.err);
    // Nobody asked for it: it is not shown.
    let usual = rows(&place.run(&["merge", "out", "--json"]));
    assert!(usual.iter().all(|row| row[1] != json!("max_abs")), "{usual:?}");
}

#[cfg(unix)]
#[test]
fn links_out_of_the_folder_are_not_followed() {
    let place = Workspace::new();
    let name = "compare_result_rank0_20261115093059.csv";
    put_sheet(&place, &format!("elsewhere/{name}"), MSPROBE, &["a,a,1,,,,"]);
    put_sheet(&place, "r/compare_result_rank1_20261115093059.csv", MSPROBE, &["a,a,2,,,,"]);
    std::os::unix::fs::symlink(place.path("elsewhere").join(name), place.path("r").join(name)).unwrap();
    let ran = place.run(&["merge", "r", "--metric", "Cosine", "--json"]);
    assert_eq!(columns(&ran), ["name", "metric", "rank1"]);
    assert_eq!(
        ran.err,
        format!("note: r/{name}: not followed: a link that leads out of the folder, or to a folder\n")
    );
}

#[test]
fn a_filter_that_matches_nothing_is_no_failure() {
    let place = Workspace::new();
    put_sheet(&place, "rank0.csv", MSPROBE, &["add,add,1.0,,,,"]);
    let filters = ["--filter", "mul", "--filter", "all_\"reduce"];
    let ran = place.run(&[&["merge", "rank0.csv", "--json"][..], &filters].concat());
    assert_eq!(
        (ran.code, ran.err.as_str()),
        (1, "note: no row's name contains \"mul\" or \"all_\\\"reduce\"\n")
    );
    assert_eq!(ran.json()["rows"], json!([]));
    assert_eq!(ran.json()["notes"].as_array().unwrap().len(), 1);
    let ran = place.run(&[&["merge", "rank0.csv", "-o", "all.csv"][..], &filters].concat());
    assert_eq!((ran.code, ran.out.as_str()), (1, ""));
    assert!(ran.err.ends_with("; all.csv is not written\n"), "{}", ran.err);
    assert_eq!(place.files(), ["rank0.csv"]);
    assert_eq!(place.run(&["merge", "rank0.csv", "--filter", "mul", "--filter", "dd"]).code, 0);
}

#[test]
fn sheets_without_rows_are_said_to_be_empty() {
    let place = Workspace::new();
    put_sheet(&place, "rank0.csv", MSPROBE, &[]);
    for args in [&["merge", "rank0.csv"][..], &["merge", "rank0.csv", "--filter", "add"]] {
        let ran = place.run(args);
        assert_eq!((ran.code, ran.err.as_str()), (1, "note: the results have no rows, only headings\n"));
    }
}

#[test]
fn what_cannot_be_merged_is_a_failure() {
    let place = Workspace::new();
    put_sheet(&place, "rank0.csv", "NPU Name,other", &["add,1"]);
    put_sheet(&place, "foreign.csv", "x,y", &["1,2"]);
    place.put_text("empty/notes.txt", "");
    for (args, expected) in [
        (&["merge", "rank0.csv"][..], "choose with --metric from: NPU Name, other\n"),
        (
            &["merge", "rank0.csv", "--metric", "Cosine"],
            "no result has a column \"Cosine\"; there are: NPU Name, other\n",
        ),
        (
            &["merge", "rank0.csv", "--metric", "other", "-o", "all.txt"],
            "expected a name that ends in .csv or .xlsx\n",
        ),
        (&["merge", "empty"], "empty: expected compare_result*.csv or .xlsx in the folder, found none\n"),
    ] {
        let ran = place.run(args);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{args:?}");
        assert!(ran.err.ends_with(expected), "{args:?}: {}", ran.err);
    }
    // Each file that is not there is reported once.
    for args in [&["merge", "absent.csv"][..], &["merge", "nosuch", "absent.csv"]] {
        let ran = place.run(args);
        assert_eq!((ran.code, ran.err.lines().count()), (2, args.len() - 1), "{}", ran.err);
        let once = |line: &str| line.starts_with("error: ") && line.matches("No such file").count() == 1;
        assert!(ran.err.lines().all(once), "{}", ran.err);
    }
    // Why a column is not there may be that its sheet is not.
    let ran = place.run(&["merge", "absent.csv", "rank0.csv", "--metric", "Cosine"]);
    let lines: Vec<&str> = ran.err.lines().collect();
    assert!(lines.len() == 2 && lines[0].starts_with("error: absent.csv: "), "{}", ran.err);
    // One bad sheet does not lose the others.
    let ran = place.run(&["merge", "foreign.csv", "rank0.csv", "--metric", "other", "--json"]);
    assert_eq!((ran.code, rows(&ran)), (2, vec![vec![json!("add"), json!("other"), json!(1)]]));
    assert_eq!(
        ran.err,
        "error: foreign.csv: expected a column named one of target_name, golden_name, NPU Name, Bench Name, call, \
         found none\n"
    );
}
