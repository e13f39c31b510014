//! Where the data of a page comes from: sheets, dumps, chosen steps and ranks; and where the page goes.

use serde_json::{Value as Json, json};

use crate::compare::{ADD, MUL, WRONG_MUL, put_rank, wrong_mul};
use crate::page::{column, document, has_page, parts, reported};
use crate::workspace::Workspace;

#[test]
fn a_result_without_its_dumps_is_still_a_page() {
    if !has_page() {
        return;
    }
    let place = wrong_mul();
    place.run(&["compare", "t", "g", "-o", "out"]);
    std::fs::create_dir(place.path("elsewhere")).unwrap();
    std::fs::rename(place.path("out"), place.path("elsewhere/moved")).unwrap();
    for side in ["t", "g"] {
        std::fs::remove_dir_all(place.path(side)).unwrap();
    }
    let (ran, parts) = reported(&place, &["elsewhere/moved", "--dumps"]);
    assert!(
        ran.err.starts_with("note: No stacks, data flow and values of tensors: the target cannot be read: "),
        "{}",
        ran.err
    );
    let manifest = document(&parts, "manifest");
    assert_eq!((&manifest["counts"]["rows"], &manifest["first"]["call"]), (&json!(4), &json!(1)));
    assert!(manifest["missing_details"].as_str().unwrap().contains("the target cannot be read"));
    assert!(!parts.keys().any(|name| name.starts_with("detail/")));
    assert_eq!(column(&parts["calls/0/detail"]), [0.0, 0.0]);
}

#[test]
fn dumps_that_a_result_names_are_read_on_request_alone() {
    if !has_page() {
        return;
    }
    let place = wrong_mul();
    place.run(&["compare", "t", "g", "-o", "out"]);
    let (ran, parts) = reported(&place, &["out", "--json"]);
    let note = "No stacks, data flow and values of tensors: the dumps that the result names were not read; --dumps reads them.";
    assert_eq!(ran.json(), json!({ "page": "page.html", "notes": [note] }));
    assert_eq!(ran.err, format!("note: {note}\n"));
    assert_eq!(document(&parts, "manifest")["view_command"], "ulpscope view out --dumps");
    assert!(!parts.keys().any(|name| name.starts_with("detail/")));
}

#[test]
fn files_outside_of_a_result_are_not_read() {
    if !has_page() {
        return;
    }
    let place = wrong_mul();
    place.run(&["compare", "t", "g", "-o", "out"]);
    let mut result: Json = serde_json::from_str(&place.text("out/result.json")).unwrap();
    place.put_text("secret.csv", "call,why\nsecret,secret\n");
    for name in ["../secret.csv", "/proc/self/environ", "link.csv"] {
        if name == "link.csv" {
            std::os::unix::fs::symlink("../secret.csv", place.path("out/link.csv")).unwrap();
        }
        result["ranks"][0]["files"] = json!([name]);
        place.put_text("out/result.json", &result.to_string());
        let (ran, parts) = reported(&place, &["out"]);
        let sheet = std::path::Path::new(name).file_name().unwrap().to_str().unwrap();
        let missing = match sheet.ends_with(".csv") {
            true => format!("note: {sheet}, the sheet with all 4 rows, is not beside out/result.json: "),
            false => "note: no sheet with all 4 rows is named in out/result.json: ".to_owned(),
        };
        assert!(ran.err.contains(&missing), "{}", ran.err);
        assert!(ran.err.contains("put the sheet back, or compare again with -o"), "{}", ran.err);
        assert_eq!(column(&parts["calls/0/name"]), ["Torch.mul.0.forward"]);
    }
}

/// Two steps of two ranks; step 1, rank 1 differs.
fn four_ranks() -> Workspace {
    let place = Workspace::new();
    for rank in ["step0/rank0", "step0/rank1", "step1/rank0", "step1/rank1"] {
        put_rank(&place, &format!("g/{rank}"), &[ADD, MUL]);
        let mul = if rank == "step1/rank1" { WRONG_MUL } else { MUL };
        put_rank(&place, &format!("t/{rank}"), &[ADD, mul]);
    }
    place.run(&["compare", "t", "g", "-o", "out"]);
    place
}

#[test]
fn steps_and_ranks_of_a_result_can_be_chosen() {
    if !has_page() {
        return;
    }
    let place = four_ranks();
    let (ran, parts) = reported(&place, &["out", "--dumps", "--step", "1", "--rank", "1"]);
    assert_eq!(
        ran.err,
        "note: This page shows 1 of 4 pairs of ranks. The verdict and its explanation are those of the whole comparison.\n"
    );
    let manifest = document(&parts, "manifest");
    assert_eq!(manifest["ranks"].as_array().unwrap().len(), 1);
    assert_eq!((&manifest["ranks"][0]["step"], &manifest["ranks"][0]["rank"]), (&json!(1), &json!("rank1")));
    assert_eq!(
        manifest["counts"],
        json!({ "rows": 4, "passed": 3, "warned": 0, "failed": 1, "not_compared": 0 })
    );
    assert_eq!((&manifest["first"]["rank"], &manifest["first"]["call"]), (&json!(0), &json!(1)));
    assert_eq!(column(&parts["calls/0/class"]), ["equal", "diverged here"]);
    assert!(parts.contains_key("detail/0/1"));

    let (ran, parts) = reported(&place, &["out", "--step", "0"]);
    assert!(
        ran.err
            .contains("Its first divergence, Torch.mul.0.forward, is in step 1, rank1, which is not shown."),
        "{}",
        ran.err
    );
    let manifest = document(&parts, "manifest");
    assert_eq!((manifest["ranks"].as_array().unwrap().len(), &manifest["first"]), (2, &Json::Null));

    for (args, expected) in [
        (["--step", "7"], "expected step 7, found steps 0, 1; leave out --step and --rank to show all of it"),
        (["--rank", "2"], "expected rank 2, found ranks 0, 1; leave out --step and --rank to show all of it"),
    ] {
        for command in ["report", "view"] {
            let ran = place.run(&[&[command, "out"], &args[..]].concat());
            assert_eq!(ran.code, 2);
            assert!(ran.err.contains(expected), "{}", ran.err);
        }
    }
}

#[test]
fn relative_dumps_are_found_from_any_folder() {
    if !has_page() {
        return;
    }
    let place = wrong_mul();
    place.run(&["compare", "t", "g", "-o", "out"]);
    std::fs::create_dir(place.path("elsewhere")).unwrap();
    let report = |args: &[&str]| {
        let mut command = place.command(&[&["report", "../out", "-o", "../page.html"], args].concat());
        let ran = command.current_dir(place.path("elsewhere")).output().unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        let (parts, _) = parts(&place.text("page.html"));
        (String::from_utf8(ran.stderr).unwrap(), parts.contains_key("detail/0/1"))
    };
    assert_eq!(report(&["--dumps"]), (String::new(), true));
    // Dumps that were moved are named.
    std::fs::rename(place.path("t"), place.path("elsewhere/moved")).unwrap();
    let (notes, has_details) = report(&["--dumps"]);
    assert!(notes.contains("if it was moved, say where it is with --target") && !has_details, "{notes}");
    assert_eq!(report(&["--target", "moved"]), (String::new(), true));
    let ran = place.run(&["report", "g", "--target", "t"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("--target and --golden are for a result"), "{}", ran.err);
}

#[test]
fn a_result_has_its_own_sheets_among_those_of_others() {
    if !has_page() {
        return;
    }
    let place = wrong_mul();
    place.run(&["compare", "t", "g", "-o", "out"]);
    place.run(&["compare", "g", "g", "-o", "out"]);
    let sheets = || place.files().into_iter().filter(|name| name.ends_with(".csv")).collect::<Vec<String>>();
    assert_eq!(sheets().len(), 2);
    let (_, parts) = reported(&place, &["out"]);
    assert_eq!(column(&parts["calls/0/class"]), ["equal", "equal"]);
    // Without its own, it takes none of the others.
    let result: Json = serde_json::from_str(&place.text("out/result.json")).unwrap();
    let own = result["ranks"][0]["files"][0].as_str().unwrap().to_owned();
    std::fs::remove_file(place.path(&own)).unwrap();
    let (ran, parts) = reported(&place, &["out"]);
    let name = own.strip_prefix("out/").unwrap();
    assert!(
        ran.err.contains(&format!("note: {name}, the sheet with all 4 rows, is not beside")),
        "{}",
        ran.err
    );
    assert!(!parts.contains_key("calls/0/name"));
}

#[test]
fn a_result_that_is_cut_off_is_refused() {
    if !has_page() {
        return;
    }
    let place = wrong_mul();
    place.run(&["compare", "t", "g", "-o", "out"]);
    let whole = place.text("out/result.json");
    let mut without_ranks: Json = serde_json::from_str(&whole).unwrap();
    without_ranks.as_object_mut().unwrap().remove("ranks");
    let mut other_verdict: Json = serde_json::from_str(&whole).unwrap();
    other_verdict["agreement"] = json!("maybe");
    for (text, found) in [
        (&whole[..whole.len() / 2], "expected the JSON document that ulpscope compare writes"),
        ("{\"schema\": \"ulpscope.compare/1\"}", "found no list of ranks"),
        (&without_ranks.to_string(), "found no list of ranks"),
        (&other_verdict.to_string(), "found no verdict"),
    ] {
        place.put_text("out/result.json", text);
        for command in ["report", "view"] {
            let ran = place.run(&[command, "out"]);
            assert_eq!((ran.code, ran.out.as_str()), (2, ""));
            assert!(ran.err.contains(found), "{}", ran.err);
        }
    }
    place.put_text("out/result.json", &whole);
    let sheet = place.files().into_iter().find(|name| name.ends_with(".csv")).unwrap();
    let rows = place.text(&sheet);
    for length in [0, rows.len() - 20] {
        place.put_text(&sheet, &rows[..length]);
        let ran = place.run(&["report", "out", "-o", "page.html"]);
        assert_eq!(ran.code, 2);
        assert!(ran.err.contains("put the sheet back as it was written, or compare again"), "{}", ran.err);
        assert_eq!(ran.err.matches(".csv").count(), 1, "the cause is said once: {}", ran.err);
        assert!(!place.path("page.html").exists());
    }
}

#[test]
fn values_of_other_kinds_in_a_result_do_no_harm() {
    if !has_page() {
        return;
    }
    let place = wrong_mul();
    place.run(&["compare", "t", "g", "-o", "out"]);
    let mut result: Json = serde_json::from_str(&place.text("out/result.json")).unwrap();
    result["target"] = json!(12);
    result["language"] = json!("xx");
    result["statements"] = json!([{ "heading": 7 }]);
    result["summary"] = json!("none");
    let rank = &mut result["ranks"][0];
    rank["rows"] = json!(1e300);
    rank["step"] = json!("first");
    rank["divergence_count"] = json!(-1);
    rank["divergences"] = json!([{ "region": { "target": 3, "before": [] } }, 5, null]);
    rank["first_divergence"] = json!([1, 2]);
    place.put_text("out/result.json", &result.to_string());
    let (_, parts) = reported(&place, &["out", "--dumps"]);
    let manifest = document(&parts, "manifest");
    assert_eq!(
        (&manifest["headline"]["answer"], &manifest["ranks"][0]["rows"]),
        (&json!("differ"), &json!(4))
    );
    assert_eq!(column(&parts["calls/0/class"]), ["equal", "diverged here"]);
}

#[test]
fn a_page_can_be_written_to_the_standard_output() {
    if !has_page() {
        return;
    }
    let place = wrong_mul();
    place.run(&["compare", "t", "g", "-o", "out"]);
    let (_, file) = reported(&place, &["out", "--dumps"]);
    let ran = place.run(&["report", "out", "--dumps", "-o", "-"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert_eq!(parts(&ran.out).0, file);
    assert!(!place.path("-").exists());
    let ran = place.run(&["report", "out", "-o", "-", "--json"]);
    assert_eq!(ran.code, 2);
    assert!(
        ran.json()["error"]["message"].as_str().unwrap().contains("write the page to a file with -o FILE")
    );
}

#[test]
fn the_first_screen_is_in_the_language_of_the_result() {
    if !has_page() {
        return;
    }
    let place = wrong_mul();
    place.run(&["compare", "t", "g", "-o", "out", "--lang", "zh"]);
    let (_, chinese) = reported(&place, &["out"]);
    let manifest = document(&chinese, "manifest");
    assert_eq!((&manifest["language"], &manifest["words"]["noun"]), (&json!("zh"), &json!("调用")));
    assert_eq!(manifest["words"]["classes"]["diverged here"]["name"], "在此分歧");
    let html = place.text("page.html");
    for word in ["DIFFER（不同）", "第一个分歧", "在此分歧", "置信度: 很高", "下一步", "按执行顺序"]
    {
        assert!(html.contains(word), "{word}");
    }
    let (_, english) = reported(&place, &["out", "--lang", "en"]);
    assert_eq!(document(&english, "manifest")["words"]["first_divergence"], "First divergence");
}
