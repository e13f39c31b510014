//! `ulpscope report`, `ulpscope view` and `ulpscope compare --format html`.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};
use ulpscope_report::page::{NoPage, Template, inflate};

use crate::compare::{ADD, Call, MUL, WRONG_MUL, put_rank, wrong_mul};
use crate::workspace::{Ran, Workspace};

/// Whether this build has a page. Where nothing may be skipped, it must.
pub fn has_page() -> bool {
    let built = Template::built();
    assert!(
        built.is_ok() || std::env::var_os("ULPSCOPE_TEST_ALL").is_none(),
        "the page is not built: install Node.js and run `make web`"
    );
    assert!(!matches!(built, Err(NoPage::NoPlace(_))), "{built:?}");
    built.is_ok()
}

fn from_base64(text: &str) -> Vec<u8> {
    let value = |letter: u8| match letter {
        b'A'..=b'Z' => letter - b'A',
        b'a'..=b'z' => letter - b'a' + 26,
        b'0'..=b'9' => letter - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let letters: Vec<u8> = text.bytes().filter(|letter| *letter != b'=').collect();
    let mut bytes = Vec::new();
    for four in letters.chunks(4) {
        let bits = four.iter().fold(0u32, |bits, letter| bits << 6 | u32::from(value(*letter)));
        let bits = bits << (6 * (4 - four.len()));
        bytes.extend(&bits.to_be_bytes()[1..four.len()]);
    }
    bytes
}

/// The parts of a page, opened, and the html around them.
pub fn parts(html: &str) -> (BTreeMap<String, Vec<u8>>, String) {
    let mut parts = BTreeMap::new();
    let mut around = String::new();
    let mut rest = html;
    while let Some((before, after)) = rest.split_once("<script type=\"text/plain\" data-part=\"") {
        around.push_str(before);
        let (name, after) = after.split_once("\">").unwrap();
        let (part, after) = after.split_once("</script>").unwrap();
        parts.insert(name.to_owned(), inflate(&from_base64(part)).unwrap());
        rest = after;
    }
    (parts, around + rest)
}

pub fn document(parts: &BTreeMap<String, Vec<u8>>, name: &str) -> Json {
    serde_json::from_slice(&parts[name]).unwrap()
}

/// The values of a column, as JSON; numbers of either size.
pub fn column(bytes: &[u8]) -> Vec<Json> {
    let count = u32::from_le_bytes(bytes[4..8].try_into().unwrap()) as usize;
    let mut rest = &bytes[8..];
    if bytes[0] == 0 {
        let dictionary: Json = serde_json::from_slice(rest).unwrap();
        let codes = dictionary["codes"].as_array().unwrap();
        return codes
            .iter()
            .map(|code| dictionary["values"][code.as_u64().unwrap() as usize].clone())
            .collect();
    }
    let mut is_there = vec![true; count];
    if bytes[1] == 1 {
        is_there = (0..count).map(|at| rest[at / 8] >> (at % 8) & 1 == 1).collect();
        rest = &rest[count.div_ceil(8)..];
    }
    let size = if bytes[0] == 1 { 8 } else { 4 };
    let number = |at: usize| {
        let one: Vec<u8> = (0..size).map(|byte| rest[byte * count + at]).collect();
        match size {
            8 => f64::from_le_bytes(one.try_into().unwrap()),
            _ => f32::from_le_bytes(one.try_into().unwrap()).into(),
        }
    };
    (0..count).map(|at| if is_there[at] { json!(number(at)) } else { Json::Null }).collect()
}

fn column_number(manifest: &Json, name: &str) -> usize {
    manifest["columns"].as_array().unwrap().iter().position(|column| column["name"] == name).unwrap()
}

/// Writes a page of a result and reads its parts.
pub fn reported(place: &Workspace, args: &[&str]) -> (Ran, BTreeMap<String, Vec<u8>>) {
    let ran = place.run(&[&["report"], args, &["-o", "page.html"]].concat());
    assert_eq!(ran.code, 0, "{}", ran.err);
    let (parts, _) = parts(&place.text("page.html"));
    (ran, parts)
}

#[test]
fn a_page_shows_the_whole_result() {
    if !has_page() {
        return;
    }
    let place = wrong_mul();
    place.run(&["compare", "t", "g", "-o", "out"]);
    let (ran, parts) = reported(&place, &["out", "--dumps"]);
    assert_eq!((ran.out.as_str(), ran.err.as_str()), ("wrote page.html\n", ""));
    let manifest = document(&parts, "manifest");
    assert_eq!(manifest["kind"], "comparison");
    assert_eq!(
        manifest["headline"],
        json!({
            "answer": "differ",
            "sentence": "Torch.mul.0 returns a different result from matching inputs.",
            "more": [],
        })
    );
    assert_eq!(
        manifest["counts"],
        json!({ "rows": 4, "passed": 3, "warned": 0, "failed": 1, "not_compared": 0 })
    );
    let first = &manifest["first"];
    assert_eq!(
        (&first["name"], &first["call"], &first["row"], &first["kind"]),
        (&json!("Torch.mul.0.forward"), &json!(1), &json!(3), &json!("diverged here"))
    );
    assert_eq!(column(&parts["calls/0/name"]), ["Torch.add.0.forward", "Torch.mul.0.forward"]);
    assert_eq!(column(&parts["calls/0/class"]), ["equal", "diverged here"]);
    assert_eq!(column(&parts["calls/0/verdict"]), ["pass", "fail"]);
    assert_eq!(column(&parts["calls/0/error"]), [0.0, 0.5]);
    let rel_l2 = column_number(&manifest, "rel_l2");
    assert_eq!(column(&parts[&format!("rows/0/{rel_l2}/0")]), [0.0, 0.0, 0.0, 0.5]);
    assert_eq!(document(&parts, "divergences").as_array().unwrap().len(), 1);
    let entries = &document(&parts, "detail/0/1")["entries"];
    assert_eq!((&entries[1]["entry"], &entries[1]["row"]), (&json!("output.0"), &json!(3)));
    assert_eq!(
        entries[1]["worst"][0],
        json!({ "index": [1], "target": 24.0, "golden": 16.0, "abs": 8.0, "rel": 0.5 })
    );
    assert_eq!(entries[1]["errors"], json!({ "from": 1, "counts": [1, 0, 1], "zero": 0, "not_finite": 0 }));
    let counted = |side: &str| -> u64 {
        entries[1]["histogram"][side].as_array().unwrap().iter().map(|count| count.as_u64().unwrap()).sum()
    };
    assert_eq!((counted("target"), counted("golden")), (2, 2));
}

#[test]
fn a_rank_that_could_not_be_compared_is_named() {
    if !has_page() {
        return;
    }
    let place = Workspace::new();
    for side in ["t", "g"] {
        put_rank(&place, &format!("{side}/step0/rank0"), &[ADD]);
        put_rank(&place, &format!("{side}/step0/rank1"), &[ADD]);
    }
    place.put_text("t/step0/rank1/dump.json", "{");
    place.run(&["compare", "t", "g", "-o", "out"]);
    let (_, parts) = reported(&place, &["out", "--dumps"]);
    let ranks = &document(&parts, "manifest")["ranks"];
    assert_eq!((&ranks[0]["label"], &ranks[0]["calls"]), (&json!("step0 rank0"), &json!(1)));
    let text = document(&parts, "manifest").to_string();
    assert!(text.contains("t/step0/rank1/dump.json"), "{text}");
}

#[test]
fn compare_writes_a_page_and_the_sheet_it_is_made_from() {
    if !has_page() {
        return;
    }
    let place = wrong_mul();
    let ran = place.run(&["compare", "t", "g", "--format", "html", "-o", "out"]);
    assert_eq!((ran.code, ran.err.as_str()), (1, ""));
    assert!(ran.out.ends_with("wrote out/report.html\n"), "{}", ran.out);
    assert!(
        place.files().iter().any(|name| name.starts_with("out/compare_result_") && name.ends_with(".csv"))
    );
    let (parts, _) = parts(&place.text("out/report.html"));
    assert_eq!(document(&parts, "manifest")["ranks"][0]["rows"], 4);
}

#[test]
fn an_agreement_says_how_much_was_compared() {
    if !has_page() {
        return;
    }
    let place = wrong_mul();
    place.run(&["compare", "g", "g", "-o", "out"]);
    let (_, parts) = reported(&place, &["out"]);
    assert_eq!(
        document(&parts, "manifest")["headline"],
        json!({
            "answer": "agree",
            "sentence": "The two runs agree.",
            "more": ["Compared: 2 calls, without any difference."],
        })
    );
    let html = place.text("page.html");
    assert!(html.contains("The two runs agree.</p>") && html.contains("Compared: 2 calls"), "{html}");
    let (_, parts) = reported(&place, &["out", "--lang", "zh"]);
    let headline = &document(&parts, "manifest")["headline"];
    assert_eq!(headline["sentence"], "两次运行一致。");
    assert!(headline["more"][0].as_str().unwrap().starts_with("比较范围：2"), "{headline}");
}

#[test]
fn a_result_whose_statements_are_of_another_version_has_its_sentence() {
    if !has_page() {
        return;
    }
    let place = wrong_mul();
    place.run(&["compare", "t", "g", "-o", "out"]);
    let mut result: Json = serde_json::from_str(&place.text("out/result.json")).unwrap();
    result["statements"] = json!({ "of": "a later version" });
    place.put_text("out/result.json", &result.to_string());
    let (_, parts) = reported(&place, &["out"]);
    assert_eq!(
        document(&parts, "manifest")["headline"]["sentence"],
        "Torch.mul.0 returns a different result from matching inputs."
    );
}

#[test]
fn names_cannot_leave_their_parts() {
    if !has_page() {
        return;
    }
    let place = Workspace::new();
    let name = "Torch.</script><script>alert(1)</script><!--\u{202e}.0.forward";
    let call: Call = (name, &[1.0, 2.0], &[2.0, 4.0]);
    let wrong: Call = (name, &[1.0, 2.0], &[3.0, 9.0]);
    // Files cannot have such names.
    for (side, call) in [("t", wrong), ("g", call)] {
        put_rank(&place, side, &[("Torch.x.0.forward", call.1, call.2)]);
        let dump = place.text(&format!("{side}/dump.json"));
        let mut dump: Json = serde_json::from_str(&dump).unwrap();
        dump["data"] = json!({ name: dump["data"]["Torch.x.0.forward"] });
        place.put_text(&format!("{side}/dump.json"), &dump.to_string());
    }
    place.run(&["compare", "t", "g", "--format", "html", "-o", "out"]);
    let html = place.text("out/report.html");
    let (parts, around) = parts(&html);
    let built = Template::built().unwrap().served("", "");
    let scripts = |html: &str| html.matches("<script").count();
    assert_eq!(scripts(&around), scripts(&built), "a name made a script");
    assert!(!around.contains("alert(1)</script>") && !around.contains('\u{202e}'));
    assert!(around.contains("&lt;/script&gt;&lt;script&gt;alert(1)"), "the first screen shows the name");
    let shown = name.replace('\u{202e}', "\\u{202e}");
    assert_eq!(column(&parts["calls/0/name"]), [json!(shown)]);
}

#[test]
fn the_page_of_a_run_shows_what_is_conspicuous() {
    if !has_page() {
        return;
    }
    let place = Workspace::new();
    let nan: Call = ("Torch.log.0.forward", &[1.0, 2.0], &[f32::NAN, 1.0]);
    let dead: Call = ("Functional.relu.0.forward", &[-1.0; 16], &[0.0; 16]);
    put_rank(&place, "run/step0/rank0", &[ADD, nan, dead]);
    put_rank(&place, "run/step1/rank0", &[ADD]);
    let file = "run/step0/rank0/dump.json";
    let mut dump: Json = serde_json::from_str(&place.text(file)).unwrap();
    for statistic in ["Max", "Min", "Mean", "Norm"] {
        dump["data"]["Torch.log.0.forward"]["output"][0][statistic] = json!("nan");
    }
    place.put_text(file, &dump.to_string());
    let (ran, parts) = reported(&place, &["run"]);
    assert_eq!(ran.err, "");
    let manifest = document(&parts, "manifest");
    assert_eq!((&manifest["kind"], &manifest["golden"]), (&json!("run"), &Json::Null));
    let labels: Vec<&Json> =
        manifest["ranks"].as_array().unwrap().iter().map(|rank| &rank["label"]).collect();
    assert_eq!(labels, ["step0 rank0", "step1 rank0"]);
    let kinds: Vec<(&Json, &Json)> =
        manifest["findings"].as_array().unwrap().iter().map(|one| (&one["kind"], &one["call"])).collect();
    assert_eq!(kinds, [(&json!("not finite"), &json!(1)), (&json!("dead"), &json!(2))]);
    assert_eq!(column(&parts["calls/0/finding"]), [Json::Null, json!("not finite"), json!("dead")]);
    assert_eq!(column(&parts["calls/0/nan"]), [0.0, 1.0, 0.0]);
    assert_eq!(document(&parts, "heat")["worst"][0], json!([-1, 0, 2]));
}

#[test]
fn what_cannot_be_shown_or_written_is_an_error() {
    let place = wrong_mul();
    place.run(&["compare", "t", "g", "-o", "out"]);
    place.put_text("other/result.json", "{\"schema\": \"x\"}");
    for args in
        [&["report", "absent"][..], &["report", "other"], &["view", "absent"], &["report", "out/result.txt"]]
    {
        let ran = place.run(args);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{args:?}: {}", ran.err);
        assert!(ran.err.starts_with("error: "), "{}", ran.err);
    }
    let ran = place.run(&["report", "other", "--json"]);
    assert!(
        !has_page()
            || ran.json()["error"]["message"].as_str().unwrap().contains("expected a document of the schema")
    );
    if has_page() {
        let ran = place.run(&["report", "out", "-o", "absent/page.html"]);
        assert_eq!(ran.code, 2);
        assert!(ran.err.contains("absent/page.html"), "{}", ran.err);
    }
    // A page takes the place of pages alone.
    for path in ["out/result.json", "/dev/null"] {
        let ran = place.run(&["report", "out", "-o", path]);
        assert_eq!(ran.code, 2, "{path}");
        assert!(ran.err.contains("exists and is no page"), "{}", ran.err);
    }
    assert_eq!(place.run(&["explain", "out"]).code, 0, "the result is as it was");
}

#[cfg(target_os = "linux")]
#[test]
fn the_memory_of_a_page_does_not_grow_with_the_rows() {
    if !has_page() {
        return;
    }
    let place = wrong_mul();
    place.run(&["compare", "t", "g", "-o", "out"]);
    let sheet = place.files().into_iter().find(|name| name.ends_with(".csv")).unwrap();
    let text = place.text(&sheet);
    let (header, rows) = text.split_once('\n').unwrap();
    let peak = |copies: usize| {
        // One call of many rows: memory for calls is not what is measured.
        let row = rows.lines().last().unwrap();
        let many: String = (0..copies)
            .map(|copy| format!("{}\n", row.replace("output.0", &format!("output.{copy}"))))
            .collect();
        place.put_text(&sheet, &format!("{header}\n{many}"));
        let ran = crate::peak::run(place.command(&["report", "out", "-o", "page.html"]));
        assert_eq!(ran.code, 0, "{}", ran.err);
        ran.memory
    };
    let (few, many) = (peak(70_000), peak(280_000));
    assert!(many < few + (64 << 20), "{few} bytes for 70,000 rows, {many} for 280,000");
}

#[test]
fn pages_of_older_styles_have_their_columns() {
    if !has_page() {
        return;
    }
    let place = Workspace::new();
    put_rank(&place, "t", &[ADD, WRONG_MUL]);
    put_rank(&place, "g", &[ADD, MUL]);
    place.run(&["compare", "t", "g", "--style", "msprobe", "--format", "xlsx", "-o", "out"]);
    let (_, parts) = reported(&place, &["out"]);
    let manifest = document(&parts, "manifest");
    assert_eq!((&manifest["style"], &manifest["error_label"]), (&json!("msprobe"), &json!("1 - cosine")));
    assert_eq!(column(&parts["calls/0/name"]), ["Torch.add.0.forward", "Torch.mul.0.forward"]);
    let cosine = column_number(&manifest, "Cosine");
    assert_eq!(column(&parts[&format!("rows/0/{cosine}/0")]).len(), 4);
    assert_eq!(column(&parts["calls/0/path"]), ["", ""]);
    // Their sheets do not say in which modules calls were made: the dumps do.
    let parents = r#"{"Torch.mul.0.forward": "Module.net.fc.Linear.forward.0"}"#;
    place.put_text("g/construct.json", parents);
    let (_, parts) = reported(&place, &["out", "--dumps"]);
    assert_eq!(column(&parts["calls/0/path"]), ["", "net.fc"]);
}

#[test]
fn sheets_with_underscores_are_about_calls() {
    if !has_page() {
        return;
    }
    let place = Workspace::new();
    put_rank(&place, "t", &[ADD, WRONG_MUL]);
    put_rank(&place, "g", &[ADD, MUL]);
    place.run(&["compare", "t", "g", "--style", "msprobe", "-o", "out"]);
    let sheet = place.files().into_iter().find(|name| name.ends_with(".csv")).unwrap();
    // As ptdbg_ascend names what msprobe names with dots.
    let rows = place.text(&sheet);
    let rows = ["add", "mul"].iter().fold(rows, |rows, op| {
        rows.replace(&format!("Torch.{op}.0.forward."), &format!("Torch_{op}_0_forward_"))
    });
    assert!(rows.contains("Torch_mul_0_forward_output.0"), "{rows}");
    place.put_text(&sheet, &rows);
    let (_, parts) = reported(&place, &["out", "--dumps"]);
    let manifest = document(&parts, "manifest");
    assert_eq!((&manifest["kind"], &manifest["noun"]), (&json!("comparison"), &json!("call")));
    assert_eq!(column(&parts["calls/0/name"]), ["Torch.add.0.forward", "Torch.mul.0.forward"]);
    assert_eq!(column(&parts["calls/0/pass"]), ["forward", "forward"]);
    assert_eq!(column(&parts["calls/0/detail"]), [1.0, 1.0], "the calls are found in the dumps");
}

#[test]
fn the_first_failing_row_of_a_sheet_without_numbers_of_calls_is_found() {
    if !has_page() {
        return;
    }
    let place = Workspace::new();
    put_rank(&place, "t", &[ADD, WRONG_MUL]);
    put_rank(&place, "g", &[ADD, MUL]);
    place.run(&["compare", "t", "g", "--style", "msprobe", "-o", "out"]);
    let mut result: Json = serde_json::from_str(&place.text("out/result.json")).unwrap();
    let failed =
        json!({ "call": "Torch.mul.7.backward", "kind": "failed", "line": 5, "direction": "forward" });
    result["first_divergence"] = failed.clone();
    result["ranks"][0]["first_divergence"] = failed;
    place.put_text("out/result.json", &result.to_string());
    let (_, parts) = reported(&place, &["out"]);
    let manifest = document(&parts, "manifest");
    let first = &manifest["first"];
    assert_eq!((&first["call"], &manifest["ranks"][0]["first_call"]), (&json!(1), &json!(1)));
    assert_eq!(first["direction"], "backward", "as its name says: rules know of no direction");
}
