//! `ulpscope compare`.

use serde_json::{Value as Json, json};
use ulpscope_formats::Value;

use crate::workspace::{Workspace, floats};

/// The name of a call, its argument, its result.
pub type Call<'a> = (&'a str, &'a [f32], &'a [f32]);

pub const ADD: Call = ("Torch.add.0.forward", &[1.0, 2.0], &[2.0, 4.0]);
pub const MUL: Call = ("Torch.mul.0.forward", &[2.0, 4.0], &[4.0, 16.0]);
pub const WRONG_MUL: Call = ("Torch.mul.0.forward", &[2.0, 4.0], &[6.0, 24.0]);

/// A tensor as msprobe describes it; its elements go into a file next to the dump.
fn item(place: &Workspace, folder: &str, name: &str, values: &[f32]) -> Json {
    let file = format!("{name}.npy");
    place.put(&format!("{folder}/dump_tensor_data/{file}"), &Value::Tensor(floats(&[values.len()], values)));
    let norm = values.iter().map(|value| value * value).sum::<f32>().sqrt();
    json!({
        "type": "torch.Tensor", "dtype": "torch.float32", "shape": [values.len()],
        "Max": values.iter().copied().fold(f32::MIN, f32::max),
        "Min": values.iter().copied().fold(f32::MAX, f32::min),
        "Mean": values.iter().sum::<f32>() / values.len() as f32,
        "Norm": norm, "requires_grad": false, "data_name": file,
    })
}

/// A rank of a dump in msprobe's layout.
pub fn put_rank(place: &Workspace, folder: &str, calls: &[Call]) {
    let mut data = json!({});
    for (name, input, output) in calls {
        data[name] = json!({
            "input_args": [item(place, folder, &format!("{name}.input.0"), input)],
            "input_kwargs": {},
            "output": [item(place, folder, &format!("{name}.output.0"), output)],
        });
    }
    let tensors = place.path(folder).join("dump_tensor_data");
    let dump = json!({
        "task": "tensor", "level": "L1", "framework": "pytorch", "dump_data_dir": tensors, "data": data,
    });
    place.put_text(&format!("{folder}/dump.json"), &dump.to_string());
    place.put_text(&format!("{folder}/stack.json"), "{}");
    place.put_text(&format!("{folder}/construct.json"), "{}");
}

/// A target whose multiplication is wrong, and its golden.
pub fn wrong_mul() -> Workspace {
    let place = Workspace::new();
    put_rank(&place, "t", &[ADD, WRONG_MUL]);
    put_rank(&place, "g", &[ADD, MUL]);
    place
}

/// The files in a folder, with the timestamp of a comparison as `T`.
fn written(place: &Workspace, folder: &str) -> Vec<String> {
    let files = place.files();
    let names = files.iter().filter_map(|name| name.strip_prefix(&format!("{folder}/")));
    let stamp = |part: &str| part.len() == 14 && part.bytes().all(|byte| byte.is_ascii_digit());
    names
        .map(|name| {
            let (stem, suffix) = name.rsplit_once('.').unwrap();
            let parts: Vec<&str> = stem.split('_').map(|part| if stamp(part) { "T" } else { part }).collect();
            format!("{}.{suffix}", parts.join("_"))
        })
        .collect()
}

/// The only sheet in a folder: its header and rows. None of the texts in these tests has a comma.
fn sheet(place: &Workspace, folder: &str) -> (Vec<String>, Vec<Vec<String>>) {
    let files = place.files();
    let folder = format!("{folder}/");
    let mut sheets = files.iter().filter(|name| name.starts_with(&folder) && name.ends_with(".csv"));
    let text = place.text(sheets.next().unwrap());
    assert_eq!(sheets.next(), None);
    let mut lines = text.lines().map(|line| line.split(',').map(str::to_owned).collect());
    (lines.next().unwrap(), lines.collect())
}

#[test]
fn equal_dumps_agree() {
    let place = Workspace::new();
    put_rank(&place, "t", &[ADD, MUL]);
    put_rank(&place, "g", &[ADD, MUL]);
    let ran = place.run(&["compare", "t", "g"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    let lines: Vec<&str> = ran.out.lines().collect();
    assert!(lines[0].ends_with("AGREE: everything was compared, nothing differs"), "{}", ran.out);
    assert!(lines[1].ends_with("4: 4 agree, 0 differ, 0 to look at, 0 not compared"), "{}", ran.out);
    assert!(lines[2].ends_with("paired 2 exact (4 rows); only in target 0, only in golden 0"), "{}", ran.out);
    assert!(lines[3].ends_with("2 equal"), "{}", ran.out);
    assert!(!ran.out.contains("What broke"), "{}", ran.out);
}

#[test]
fn a_difference_is_reported_with_its_place() {
    let ran = wrong_mul().run(&["compare", "t", "g"]);
    assert_eq!((ran.code, ran.err.as_str()), (1, ""));
    for expected in [
        "DIFFER: Torch.mul.0.forward introduced an error",
        "4: 3 agree, 1 differ, 0 to look at, 0 not compared",
        "1 equal, 1 diverged here",
        "What broke:\n  Torch.mul.0 returns a different result from matching inputs.\n",
        "Torch.mul.0.forward.output.0",
        "largest error 8",
    ] {
        assert!(ran.out.contains(expected), "{expected} in {}", ran.out);
    }
}

#[test]
fn a_call_of_one_side_only_is_inconclusive() {
    let place = Workspace::new();
    put_rank(&place, "t", &[ADD]);
    put_rank(&place, "g", &[ADD, MUL]);
    let ran = place.run(&["compare", "t", "g", "--json"]);
    let json = ran.json();
    assert_eq!((ran.code, &json["agreement"], &json["ok"]), (1, &json!("inconclusive"), &json!(false)));
    assert_eq!(
        (&json["summary"]["only_in_target"], &json["summary"]["only_in_golden"]),
        (&json!(0), &json!(1))
    );
    let lone = &json["ranks"][0]["partnerless"][0];
    assert_eq!((&lone["side"], &lone["name"]), (&json!("golden"), &json!("Torch.mul.0.forward")));
}

#[test]
fn json_is_the_result_document() {
    let place = wrong_mul();
    let ran = place.run(&["compare", "t", "g", "--json", "-o", "out"]);
    let json = ran.json();
    assert_eq!(ran.code, 1);
    assert_eq!(serde_json::from_str::<Json>(&place.text("out/result.json")).unwrap(), json);
    assert_eq!(
        (&json["schema"], &json["style"], &json["target"], &json["golden"]),
        (&json!("ulpscope.compare/1"), &json!("native"), &json!("t"), &json!("g"))
    );
    let counts = ["rows", "passed", "warned", "failed", "not_compared", "failing_calls", "problems", "ranks"];
    assert_eq!(counts.map(|count| json["summary"][count].as_u64().unwrap()), [4, 3, 0, 1, 0, 1, 0, 1]);
    let first = &json["first_divergence"];
    assert_eq!(
        (&first["call"], &first["kind"], &first["entry"]),
        (&json!("Torch.mul.0.forward"), &json!("diverged here"), &json!("Torch.mul.0.forward.output.0"))
    );
    let rows = json["ranks"][0]["rows_to_look_at"].as_array().unwrap();
    assert_eq!(
        (rows.len(), &rows[0]["verdict"], &rows[0]["max_abs"]),
        (1, &json!("diverged here"), &json!(8.0))
    );
}

#[test]
fn result_files_are_those_asked_for() {
    let place = wrong_mul();
    let sheets = ["compare_result_T.csv", "compare_result_T.xlsx"];
    for (formats, expected) in [
        (&[][..], &["advisor_T.txt", sheets[0], "result.json"][..]),
        (&["--format", "xlsx"], &["advisor_T.txt", sheets[1], "result.json"]),
        (&["--format", "csv,xlsx"], &["advisor_T.txt", sheets[0], sheets[1], "result.json"]),
        (&["--format", "json"], &["advisor_T.txt", "result.json"]),
        (&["--xlsx", "--diff-analyze"], &["advisor_T.txt", sheets[1], "diff_analyze_T.json", "result.json"]),
    ] {
        let ran = place.run(&[&["compare", "t", "g", "-o", "out/new"][..], formats].concat());
        assert_eq!(
            (ran.code, written(&place, "out/new")),
            (1, expected.iter().map(|&name| name.to_owned()).collect())
        );
        let told = ran.out.lines().filter(|line| line.starts_with("wrote out/new/")).count();
        assert_eq!(told, expected.len(), "{}", ran.out);
        std::fs::remove_dir_all(place.path("out")).unwrap();
    }
}

#[test]
fn the_sheet_has_a_row_for_each_entry() {
    let place = wrong_mul();
    place.run(&["compare", "t", "g", "-o", "out", "--format", "csv"]);
    let (header, rows) = sheet(&place, "out");
    let column = |name: &str| header.iter().position(|column| column == name).unwrap();
    let told = |row: &[String]| {
        ["call", "entry", "verdict", "basis", "max_abs"].map(|name| row[column(name)].clone()).join(" ")
    };
    // The reason of a verdict has commas in it, and only the last row has one.
    assert_eq!(
        rows[..3].iter().map(|row| told(row)).collect::<Vec<_>>(),
        [
            "Torch.add.0.forward input.0 equal elements 0.0",
            "Torch.add.0.forward output.0 equal elements 0.0",
            "Torch.mul.0.forward input.0 equal elements 0.0",
        ]
    );
    assert_eq!(rows[3][..3], ["Torch.mul.0.forward", "output.0", "diverged here"]);
}

#[test]
fn msprobes_flags_give_msprobes_rows_in_its_folder() {
    let place = wrong_mul();
    let ran = place.run(&["compare", "-tp", "t/dump.json", "-gp", "g/dump.json"]);
    assert_eq!(
        (ran.code, ran.err.as_str()),
        (1, "note: -tp and -gp ask for msprobe's rows; add --style native for our verdicts\n")
    );
    let (header, rows) = sheet(&place, "output");
    assert_eq!(header[..2], ["NPU Name", "Bench Name"]);
    assert_eq!(rows.len(), 4);
    let ran = place.run(&["compare", "-tp", "t", "-gp", "g", "--style", "native", "-o", "out"]);
    assert_eq!((ran.code, ran.err.as_str()), (1, ""));
    assert_eq!(sheet(&place, "out").0[..2], ["call", "entry"]);
    for args in [
        &["compare", "-tp", "t"][..],
        &["compare", "-gp", "g"],
        &["compare", "t", "g", "-tp", "t", "-gp", "g"],
    ] {
        let ran = place.run(args);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{args:?}");
    }
}

#[test]
fn msprobes_style_has_msprobes_columns() {
    let place = wrong_mul();
    let ran = place.run(&["compare", "t", "g", "--style", "msprobe", "-o", "out", "--format", "csv"]);
    assert_eq!((ran.code, ran.err.as_str()), (1, ""));
    let (header, rows) = sheet(&place, "out");
    let expected = "NPU Name,Bench Name,NPU Dtype,Bench Dtype,NPU Tensor Shape,Bench Tensor Shape,NPU Requires_grad,\
                    Bench Requires_grad,Cosine,EucDist,MaxAbsErr,MaxRelativeErr,One Thousandth Err Ratio,\
                    Five Thousandths Err Ratio,NPU max,NPU min,NPU mean,NPU l2norm,Bench max,Bench min,Bench mean,\
                    Bench l2norm,Requires_grad Consistent,Result,Err_message,NPU_Stack_Info,Data_name";
    assert_eq!(header.join(","), expected);
    let column = |name: &str| header.iter().position(|column| column == name).unwrap();
    let told = ["NPU Name", "MaxAbsErr", "One Thousandth Err Ratio", "Result"]
        .map(|name| rows[3][column(name)].as_str());
    assert_eq!(told, ["Torch.mul.0.forward.output.0", "8.0", "0.0", "error"]);
}

#[test]
fn ranks_are_compared_one_by_one() {
    let place = Workspace::new();
    for (rank, calls) in [("rank0", [ADD, MUL]), ("rank1", [ADD, WRONG_MUL])] {
        put_rank(&place, &format!("t/step0/{rank}"), &calls);
        put_rank(&place, &format!("g/step0/{rank}"), &[ADD, MUL]);
    }
    let ran = place.run(&["compare", "t", "g", "-o", "out", "--json"]);
    let json = ran.json();
    assert_eq!(
        (ran.code, &json["summary"]["ranks"], &json["first_divergence"]["rank"]),
        (1, &json!(2), &json!("rank1"))
    );
    let failed: Vec<&Json> = json["ranks"].as_array().unwrap().iter().map(|rank| &rank["failed"]).collect();
    assert_eq!(failed, [&json!(0), &json!(1)]);
    let sheets: Vec<String> =
        written(&place, "out").into_iter().filter(|name| name.ends_with(".csv")).collect();
    assert_eq!(sheets, ["compare_result_rank0-rank0_T.csv", "compare_result_rank1-rank1_T.csv"]);
    assert_eq!(place.run(&["compare", "t", "g", "--rank", "0"]).code, 0);
    std::fs::remove_dir_all(place.path("g/step0/rank1")).unwrap();
    let ran = place.run(&["compare", "t", "g"]);
    assert_eq!(ran.code, 1);
    assert!(ran.err.starts_with("note: ") && ran.err.contains("rank1"), "{}", ran.err);
}

#[test]
fn a_missing_tensor_file_is_named_and_the_rest_compared() {
    let place = Workspace::new();
    put_rank(&place, "t", &[ADD, MUL]);
    put_rank(&place, "g", &[ADD, MUL]);
    std::fs::remove_file(place.path("t/dump_tensor_data/Torch.add.0.forward.output.0.npy")).unwrap();
    let ran = place.run(&["compare", "t", "g", "--json"]);
    assert_eq!((ran.code, ran.err.lines().count()), (2, 1), "{}", ran.err);
    assert!(ran.err.contains("Torch.add.0.forward.output.0.npy"), "{}", ran.err);
    let json = ran.json();
    assert_eq!((&json["agreement"], &json["summary"]["passed"]), (&json!("inconclusive"), &json!(4)));
    // Other differences are still reported.
    put_rank(&place, "g", &[ADD, WRONG_MUL]);
    let ran = place.run(&["compare", "t", "g", "--json"]);
    assert_eq!((ran.code, &ran.json()["agreement"]), (1, &json!("differ")));
}

#[test]
fn an_output_that_is_a_file_is_refused_before_anything_is_read() {
    let place = wrong_mul();
    place.put_text("out", "mine");
    let ran = place.run(&["compare", "t", "g", "-o", "out"]);
    assert_eq!((ran.code, ran.out.as_str()), (2, ""));
    assert!(ran.err.starts_with("error: cannot make the folder out: "), "{}", ran.err);
    assert_eq!(place.text("out"), "mine");
}

#[test]
fn unknown_words_are_answered_with_the_known_ones() {
    let place = wrong_mul();
    for (flag, known) in [
        ("--style", &["native", "torch_npu", "ptdbg", "ptdbg-6", "msprobe-1", "msprobe"][..]),
        ("--match", &["auto", "exact", "shape", "fuzzy", "align"]),
        ("--format", &["csv", "xlsx", "json"]),
    ] {
        let ran = place.run(&["compare", "t", "g", flag, "nonsense"]);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""));
        let said = known.iter().chain(&["nonsense"]).all(|word| ran.err.contains(word));
        assert!(said, "{flag}: {}", ran.err);
    }
    let ran = place.run(&["compare", "t", "g", "--style", "msprobe", "--match", "align"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("expected --match exact or fuzzy or none"), "{}", ran.err);
}

#[test]
fn a_name_that_is_a_formula_is_text_in_the_sheet() {
    let place = Workspace::new();
    let call: Call = ("=1+cmd().0.forward", &[1.0], &[2.0]);
    put_rank(&place, "t", &[call]);
    put_rank(&place, "g", &[call]);
    assert_eq!(place.run(&["compare", "t", "g", "-o", "out", "--format", "csv"]).code, 0);
    let (_, rows) = sheet(&place, "out");
    assert!(!rows.iter().flatten().any(|cell| cell.starts_with('=')), "{rows:?}");
    assert_eq!(rows[0][0], "'=1+cmd().0.forward");
    // The mark is gone again where the sheet is read.
    let ran = place.run(&["merge", "out", "--metric", "verdict", "--json"]);
    assert_eq!(ran.json()["rows"][0]["name"], json!("=1+cmd().0.forward.input.0"));
}

#[test]
fn a_second_golden_run_distinguishes_noise_from_a_fault() {
    let place = wrong_mul();
    put_rank(&place, "noise", &[ADD, ("Torch.mul.0.forward", &[2.0, 4.0], &[3.0, 12.0])]);
    let without = place.run(&["compare", "t", "g", "--json"]);
    assert_eq!(without.code, 1, "{}", without.err);
    assert_eq!(without.json()["noise"], Json::Null);

    let with = place.run(&["compare", "t", "g", "--noise", "noise", "--json"]);
    assert_eq!(with.code, 0, "{}", with.err);
    let result = with.json();
    assert_eq!(result["noise"], "noise");
    assert_eq!(result["first_divergence"], Json::Null);
    let notes = result["ranks"][0]["notes"].as_array().unwrap();
    let floor = notes.iter().filter_map(Json::as_str).find(|note| note.contains("noise floor measured"));
    assert!(floor.unwrap().contains("at 2 of 2 calls"), "{notes:?}");
}

#[test]
fn a_noise_dump_that_does_not_fit_is_reported() {
    let place = wrong_mul();
    let style = place.run(&["compare", "t", "g", "--noise", "g", "--style", "msprobe"]);
    assert_eq!(style.code, 2);
    assert!(style.err.contains("--noise is for the native style"), "{}", style.err);

    let absent = place.run(&["compare", "t", "g", "--noise", "nowhere"]);
    assert_eq!(absent.code, 2);
    assert!(absent.err.contains("nowhere"), "{}", absent.err);

    for (folder, side) in [("t", "two/target"), ("g", "two/golden")] {
        for step in 0..2 {
            std::fs::create_dir_all(place.path(&format!("{side}/step{step}"))).unwrap();
            let calls: &[Call] = if folder == "t" { &[ADD, WRONG_MUL] } else { &[ADD, MUL] };
            put_rank(&place, &format!("{side}/step{step}/rank0"), calls);
        }
    }
    for step in [1, 7] {
        put_rank(&place, &format!("two/noise/step{step}/rank0"), &[ADD, WRONG_MUL]);
    }
    for step in [8, 9] {
        put_rank(&place, &format!("two/other/step{step}/rank0"), &[ADD, MUL]);
    }
    let partly = place.run(&["compare", "two/target", "two/golden", "--noise", "two/noise"]);
    assert_eq!(partly.code, 1);
    assert!(partly.err.contains("has nothing for step0/rank0"), "{}", partly.err);
    assert!(!partly.err.contains("nothing for step1/rank0"), "{}", partly.err);
    let other = place.run(&["compare", "two/golden", "two/golden", "--noise", "two/other"]);
    assert_eq!(other.code, 2, "{}", other.err);
    assert!(other.err.contains("two/other: none of its steps and ranks"), "{}", other.err);
}
