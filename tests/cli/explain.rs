//! `ulpscope explain`.

use std::time::{Duration, SystemTime};

use serde_json::{Value as Json, json};

use crate::compare::{ADD, Call, MUL, WRONG_MUL, put_rank, wrong_mul};
use crate::workspace::Workspace;

/// Compares `t` with `g`, and explains the result.
fn explained(place: &Workspace) -> String {
    place.run(&["compare", "t", "g", "-o", "out"]);
    let ran = place.run(&["explain", "out"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    ran.out
}

fn assert_tells(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "expected {part:?} in {text}");
    }
}

/// The command that is to be run next.
fn next_command(text: &str) -> Vec<&str> {
    let (_, next) = text.split_once("\nNext:\n").unwrap();
    let command = next.lines().find_map(|line| line.strip_prefix("    ulpscope ")).unwrap();
    command.split(' ').collect()
}

/// Changes the dump of a side.
fn change(place: &Workspace, side: &str, change: impl FnOnce(&mut Json)) {
    let file = format!("{side}/dump.json");
    let mut dump: Json = serde_json::from_str(&place.text(&file)).unwrap();
    change(&mut dump);
    place.put_text(&file, &dump.to_string());
}

/// Leaves a side with statistics alone.
fn drop_tensors(place: &Workspace, side: &str) {
    change(place, side, |dump| {
        dump["task"] = json!("statistics");
        for call in dump["data"].as_object_mut().unwrap().values_mut() {
            for part in ["input_args", "output"] {
                call[part][0].as_object_mut().unwrap().remove("data_name");
            }
        }
    });
    std::fs::remove_dir_all(place.path(&format!("{side}/dump_tensor_data"))).unwrap();
}

#[test]
fn a_fault_is_explained_with_the_command_to_look_at_it() {
    let place = wrong_mul();
    let text = explained(&place);
    assert_tells(
        &text,
        &[
            "What broke:\n  Torch.mul.0 returns a different result from matching inputs.\n",
            "Where:\n  call    Torch.mul.0.forward (forward pass)\n",
            "  entry   Torch.mul.0.forward.output.0 (line 5 of compare_result_",
            "as if multiplied by 1.5.\n",
            "  Its inputs show no difference.\n",
            "Downstream:\n  No later call inherited the error.\n",
            "Confidence: very high (",
            "Next:\n  See which elements differ, and by how much:\n",
        ],
    );
    assert!(!text.contains("Limitations"), "{text}");
    let command = next_command(&text);
    assert_eq!(command[0], "diff");
    let ran = place.run(&command);
    assert_eq!((ran.code, ran.err.as_str()), (1, ""), "{}", ran.out);
    assert!(ran.out.contains("[1]        24      16    8  0.5\n"), "{}", ran.out);
}

#[test]
fn the_words_are_those_of_the_other_files() {
    let place = wrong_mul();
    let text = explained(&place);
    let result: Json = serde_json::from_str(&place.text("out/result.json")).unwrap();
    assert_eq!(result["explanation"], json!(text));
    let files = place.files();
    let advisor = files.iter().find(|name| name.starts_with("out/advisor_")).unwrap();
    assert_eq!(
        place.text(advisor),
        format!(
            "{text}\nLine: 5\nSuspect Nodes: Torch.mul.0.forward.output.0\n\
             Expert Advice: This is a forward API computation error. Check the computation implementation.\n"
        )
    );
    for named in ["out", "out/result.json"] {
        assert_eq!(place.run(&["explain", named]).out, text);
    }
}

#[test]
fn what_inherited_the_error_is_counted() {
    const LOSS: Call = ("Functional.mse_loss.0.forward", &[4.0, 16.0], &[4.0, 16.0]);
    const WRONG_LOSS: Call = ("Functional.mse_loss.0.forward", &[6.0, 24.0], &[6.0, 24.0]);
    let place = Workspace::new();
    put_rank(&place, "t", &[ADD, WRONG_MUL, WRONG_LOSS]);
    put_rank(&place, "g", &[ADD, MUL, LOSS]);
    for side in ["t", "g"] {
        change(&place, side, |dump| {
            dump["data"]["Functional.mse_loss.0.forward"]["input_args"][0]["source"] =
                json!("Torch.mul.0.forward.output.0");
        });
    }
    assert_tells(
        &explained(&place),
        &[
            "Downstream:\n  1 call inherits the error: 1 forward, 0 backward.\n",
            "  It reaches the loss (Functional.mse_loss.0.forward).\n",
        ],
    );
}

#[test]
fn agreement_comes_with_what_was_compared() {
    let place = Workspace::new();
    put_rank(&place, "t", &[ADD, MUL]);
    put_rank(&place, "g", &[ADD, MUL]);
    assert_eq!(
        explained(&place),
        "What broke:\n  Nothing. The two runs agree.\nCompared:\n  2 calls, without any difference.\n"
    );
}

#[test]
fn statistics_alone_are_said_to_be_so() {
    let place = wrong_mul();
    drop_tensors(&place, "t");
    drop_tensors(&place, "g");
    let text = explained(&place);
    assert_tells(&text, &["Limitations:\n  No elements were compared, only statistics or digests"]);
    let command = next_command(&text).join(" ");
    assert_eq!(
        command,
        "run --dump-path NEW_DUMP --level mix --task tensor --list Torch.mul.0. -- YOUR_SCRIPT.py"
    );
    assert_tells(&text, &["level=\"mix\", task=\"tensor\", list=[\"Torch.mul.0.\"])"]);
}

#[test]
fn a_different_weight_is_named() {
    let place = wrong_mul();
    put_rank(&place, "t", &[ADD, ("Torch.mul.0.forward", &[2.0, 5.0], &[4.0, 25.0])]);
    for side in ["t", "g"] {
        change(&place, side, |dump| {
            dump["data"]["Torch.mul.0.forward"]["input_args"][0]["source"] = json!("parameter:fc.weight");
        });
    }
    assert_tells(
        &explained(&place),
        &[
            "The parameter fc.weight (input.0 of Torch.mul.0) differs between the two runs.\n",
            "In total, 1 of 1 parameter differs.\n",
            "Check that both runs load the same checkpoint.",
            "    print(model.get_parameter(\"fc.weight\").double().norm())\n",
        ],
    );
}

#[test]
fn values_that_are_not_finite_are_named_with_their_dtype() {
    let place = wrong_mul();
    put_rank(&place, "t", &[ADD, ("Torch.mul.0.forward", &[2.0, 4.0], &[4.0, f32::NAN])]);
    let text = explained(&place);
    assert_tells(
        &text,
        &["Torch.mul.0 returns NaN or infinite values (float32) that its inputs do not have.\n"],
    );
    let command = next_command(&text);
    assert_eq!(command, ["show", "t", "Torch.mul.0.forward"]);
    assert_eq!(place.run(&command).code, 0);
}

#[test]
fn what_has_no_counterpart_is_a_limitation() {
    let place = Workspace::new();
    put_rank(&place, "t", &[ADD]);
    put_rank(&place, "g", &[ADD, MUL]);
    let text = explained(&place);
    assert_tells(
        &text,
        &[
            "Inconclusive: what was compared agrees, but some calls or tensors have no counterpart (golden only: 1).\n",
            "Not compared (no counterpart): golden only: 1 call (Torch.mul).\n",
            "Not compared (no counterpart): golden only: 1 call. The first: Torch.mul.0.forward (golden).\n",
        ],
    );
    let command = next_command(&text);
    assert_eq!(command, ["show", "g", "Torch.mul.0.forward"]);
    assert_eq!(place.run(&command).code, 0);
}

#[test]
fn the_first_rank_that_differs_is_explained() {
    let place = Workspace::new();
    for (rank, calls) in [("rank0", [ADD, MUL]), ("rank1", [ADD, WRONG_MUL]), ("rank2", [ADD, WRONG_MUL])] {
        put_rank(&place, &format!("t/step0/{rank}"), &calls);
        put_rank(&place, &format!("g/step0/{rank}"), &[ADD, MUL]);
    }
    assert_tells(
        &explained(&place),
        &[
            "  step    0\n  rank    rank1\n",
            "Other divergences:\n  step0 rank2: the first divergence is Torch.mul.0.forward (diverged here)\n",
        ],
    );
}

#[test]
fn a_rank_that_received_an_error_is_explained_after_the_rank_that_introduced_it() {
    const SUM: Call = ("Distributed.all_reduce.0.forward", &[4.0, 16.0], &[8.0, 32.0]);
    const WRONG_SUM: Call = ("Distributed.all_reduce.0.forward", &[4.0, 16.0], &[10.0, 40.0]);
    let place = Workspace::new();
    for (rank, calls) in [("rank0", [MUL, WRONG_SUM]), ("rank1", [WRONG_MUL, SUM])] {
        put_rank(&place, &format!("t/step0/{rank}"), &calls);
        put_rank(&place, &format!("g/step0/{rank}"), &[MUL, SUM]);
    }
    assert_tells(
        &explained(&place),
        &[
            "call    Torch.mul.0.forward (forward pass)\n  step    0\n  rank    rank1\n",
            "step0 rank0: the first divergence is Distributed.all_reduce.0.forward (diverged here)\n",
        ],
    );
    let result: Json = serde_json::from_str(&place.text("out/result.json")).unwrap();
    assert_eq!(result["first_divergence"]["rank"], "rank1");
    assert!(
        result["reason"].as_str().unwrap().contains("the first is Torch.mul.0.forward"),
        "{}",
        result["reason"]
    );
    // Where every rank may have received it, the first of them counts.
    put_rank(&place, "t/step0/rank1", &[MUL, WRONG_SUM]);
    assert_tells(
        &explained(&place),
        &["call    Distributed.all_reduce.0.forward (forward pass)\n  step    0\n  rank    rank0\n"],
    );
}

#[test]
fn a_note_on_one_step_names_it() {
    let place = Workspace::new();
    for (step, target) in [("step0", MUL), ("step1", WRONG_MUL)] {
        put_rank(&place, &format!("t/{step}/rank"), &[ADD, target]);
        put_rank(&place, &format!("g/{step}/rank"), &[ADD, MUL]);
    }
    let give_argument = |folder: &str, value: u64| {
        change(&place, folder, |dump| {
            let arguments = dump["data"]["Torch.add.0.forward"]["input_args"].as_array_mut().unwrap();
            arguments.push(json!({ "type": "int", "value": value }));
        });
    };
    give_argument("t/step0/rank", 1);
    give_argument("g/step0/rank", 2);
    let text = explained(&place);
    assert_tells(&text, &["  Note: step0: 1 call gets different scalar arguments, but "]);
    // A note on every step needs no name.
    give_argument("t/step1/rank", 1);
    give_argument("g/step1/rank", 2);
    assert_tells(&explained(&place), &["  Note: 1 call gets different scalar arguments, but "]);
}

#[test]
fn the_command_that_compares_again_has_every_option_of_the_comparison() {
    let place = wrong_mul();
    place.put_text("map one.yaml", "{}");
    for (options, again) in [
        (&["--style", "msprobe", "--match", "fuzzy"][..], " --match fuzzy"),
        (&["--style", "msprobe", "--data-mapping", "map one.yaml"], " --data-mapping 'map one.yaml'"),
        (&["--style", "msprobe", "--cell-mapping"], " --cell-mapping"),
        (
            &["--style", "msprobe", "--cell-mapping", "map one.yaml", "--layer-mapping", "map one.yaml"],
            " --cell-mapping 'map one.yaml' --layer-mapping 'map one.yaml'",
        ),
        (&["--style", "msprobe", "--lang", "zh"], " --lang zh"),
    ] {
        let mut words = vec!["compare", "t", "g", "-o", "out"];
        words.extend(options);
        assert_eq!(place.run(&words).code, 1, "{options:?}");
        let text = place.run(&["explain", "out"]).out;
        let expected = format!("    ulpscope compare t g{again} -o RESULT\n");
        assert!(text.contains(&expected), "expected {expected:?} in {text}");
    }
}

#[test]
fn json_has_classes_and_divergences() {
    let place = wrong_mul();
    place.run(&["compare", "t", "g", "-o", "out"]);
    let ran = place.run(&["explain", "out", "--json"]);
    let json = ran.json();
    assert_eq!((ran.code, &json["agreement"]), (0, &json!("differ")));
    assert_eq!((&json["classes"]["equal"], &json["classes"]["diverged here"]), (&json!(1), &json!(1)));
    let first = &json["ranks"][0]["divergences"][0];
    assert_eq!((&first["call"], &first["kind"]), (&json!("Torch.mul.0.forward"), &json!("diverged here")));
    assert_eq!(json["ranks"][0]["classes"], json["classes"]);
}

#[test]
fn of_several_results_the_newest_is_taken() {
    let place = wrong_mul();
    place.run(&["compare", "t", "t", "-o", "results/second"]);
    place.run(&["compare", "t", "g", "-o", "results/first"]);
    let file = std::fs::File::options().write(true).open(place.path("results/second/result.json")).unwrap();
    file.set_modified(SystemTime::now() + Duration::from_secs(60)).unwrap();
    let ran = place.run(&["explain", "results"]);
    assert_eq!(ran.code, 0);
    assert_tells(&ran.out, &["Nothing. The two runs agree."]);
}

#[test]
fn an_older_rule_is_said_to_explain_nothing() {
    let place = wrong_mul();
    place.run(&["compare", "t", "g", "--style", "msprobe", "-o", "out"]);
    let ran = place.run(&["explain", "out"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert_tells(&ran.out, &["the rule of msprobe", "    ulpscope compare t g -o RESULT\n"]);
}

#[test]
fn unreadable_files_are_reported_with_what_to_do() {
    let place = Workspace::new();
    place.put_text("empty/note.txt", "");
    place.put_text("torn.json", "{\"schema\": ");
    place.put_text("other.json", "{\"data\": {}}");
    place.put_text("list.json", "[1]");
    let old = json!({ "schema": "ulpscope.compare/1", "ulpscope": "0.0.9", "target": "my a", "golden": "b" });
    place.put_text("old.json", &old.to_string());
    for (named, told) in [
        ("nowhere", "error: cannot read nowhere: "),
        ("empty", "empty: expected a result.json in it or in a folder of it, found none"),
        ("torn.json", "torn.json: expected the JSON document that ulpscope compare writes"),
        ("other.json", "found no schema"),
        ("list.json", "found no schema"),
        (
            "old.json",
            "written by ulpscope 0.0.9, which wrote no explanation; compare again: ulpscope compare 'my a' b -o DIR",
        ),
    ] {
        let ran = place.run(&["explain", named]);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{named}");
        assert!(ran.err.contains(told), "{told:?} in {}", ran.err);
    }
}

#[cfg(unix)]
#[test]
fn links_out_of_a_folder_are_not_followed() {
    let place = wrong_mul();
    place.run(&["compare", "t", "g", "-o", "elsewhere"]);
    std::fs::create_dir_all(place.path("linked/sub")).unwrap();
    for (target, link) in
        [("../elsewhere/result.json", "linked/result.json"), ("../../elsewhere", "linked/sub/x")]
    {
        std::os::unix::fs::symlink(target, place.path(link)).unwrap();
    }
    std::os::unix::fs::symlink("../elsewhere", place.path("linked/folder")).unwrap();
    let ran = place.run(&["explain", "linked"]);
    assert_eq!((ran.code, ran.out.as_str()), (2, ""));
    assert_eq!(
        ran.err,
        "error: linked/result.json: not followed: a link that leads out of the folder, or to a folder; name the file itself to read it\n"
    );
    // What the user names is what the user means.
    assert_eq!(place.run(&["explain", "linked/result.json"]).code, 0);
    // Within the folder a link is as good as a file.
    std::fs::create_dir_all(place.path("own/kept")).unwrap();
    std::fs::copy(place.path("elsewhere/result.json"), place.path("own/kept/first.json")).unwrap();
    std::os::unix::fs::symlink("kept/first.json", place.path("own/result.json")).unwrap();
    assert_eq!(place.run(&["explain", "own"]).code, 0);
}

#[test]
fn words_out_of_a_file_cannot_move_the_cursor() {
    let place = Workspace::new();
    let hostile = json!({ "schema": "ulpscope.compare/1", "explanation": "What broke:\n  \u{1b}[2Jnothing" });
    place.put_text("result.json", &hostile.to_string());
    let ran = place.run(&["explain", "result.json"]);
    assert_eq!(ran.code, 0);
    assert!(!ran.out.contains('\u{1b}') && ran.out.contains("nothing"), "{}", ran.out);
}

/// The text without the time in the names of sheets.
fn without_time(text: &str) -> String {
    let is_time = |word: &str| word.len() == 14 && word.bytes().all(|byte| byte.is_ascii_digit());
    text.split_inclusive(['_', '.'])
        .map(|word| if is_time(&word[..word.len() - 1]) { "" } else { word })
        .collect()
}

#[test]
fn a_result_is_explained_in_any_language() {
    let place = wrong_mul();
    let english = explained(&place);
    let chinese = place.run(&["explain", "out", "--lang", "zh"]);
    assert_eq!((chinese.code, chinese.err.as_str()), (0, ""));
    assert_tells(
        &chinese.out,
        &["问题：\n  Torch.mul.0 的输入一致，但返回了不同的结果。\n", "如同乘以 1.5。\n", "置信度：很高（"],
    );
    // Commands are the same in every language.
    let commands = |text: &str| -> Vec<String> {
        text.lines().filter(|line| line.starts_with("    ulpscope")).map(str::to_owned).collect()
    };
    assert_eq!(commands(&chinese.out), commands(&english));
    assert_eq!(place.run_with(&["explain", "out"], &[("ULPSCOPE_LANG", "zh")]).out, chinese.out);
    assert_eq!(place.run_with(&["explain", "out", "--lang", "en"], &[("ULPSCOPE_LANG", "zh")]).out, english);
    // A result that was made in one language is explained in any other.
    let summary = place.run(&["compare", "t", "g", "-o", "zh", "--lang", "zh"]);
    assert_tells(&summary.out, &["DIFFER（不同）：Torch.mul.0.forward 引入了误差", "已写入 "]);
    assert_eq!(without_time(&place.run(&["explain", "zh"]).out), without_time(&english));
    let result: Json = serde_json::from_str(&place.text("zh/result.json")).unwrap();
    let explanation = result["explanation"].as_str().unwrap();
    assert_eq!((without_time(explanation), &result["language"]), (without_time(&chinese.out), &json!("zh")));
    assert_eq!(result["reason"], json!("Torch.mul.0.forward introduced an error"));
    let first = &result["statements"][0];
    assert_eq!(first["heading"], json!("what_broke"));
    let cause = &first["statements"][0]["cause"];
    assert_eq!((&cause["call"], &cause["cause"]), (&json!("Torch.mul.0.forward"), &json!("made")));
}

#[test]
fn an_unknown_language_is_refused() {
    let place = wrong_mul();
    explained(&place);
    let told = "expected one of en, zh, found \"fr\"";
    let by_flag = place.run(&["explain", "out", "--lang", "fr"]);
    let by_variable = place.run_with(&["explain", "out"], &[("ULPSCOPE_LANG", "fr")]);
    for ran in [by_flag, by_variable] {
        assert_eq!((ran.code, ran.out.as_str()), (2, ""));
        assert!(ran.err.contains(told), "{}", ran.err);
    }
}

#[test]
fn statements_of_an_unknown_kind_leave_the_text_that_was_written() {
    let place = wrong_mul();
    let text = explained(&place);
    let mut result: Json = serde_json::from_str(&place.text("out/result.json")).unwrap();
    result["statements"][0]["statements"][0] = json!({ "of_a_later_version": {} });
    place.put_text("out/result.json", &result.to_string());
    assert_eq!(place.run(&["explain", "out"]).out, text);
    let ran = place.run(&["explain", "out", "--lang", "zh"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, text.as_str()));
    assert_tells(&ran.err, &["note: shown in en: "]);
}
