//! The session: scripts, programs, files of all kinds, and the defects of the older shells that ours must not have.

use std::io::Write;
use std::process::Stdio;

use ulpscope_formats::Value;

use crate::workspace::{Ran, Workspace, floats};

/// Runs lines as a script.
fn script(place: &Workspace, args: &[&str], lines: &str) -> Ran {
    let mut command = place.command(&[&["shell"], args].concat());
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    Ran {
        code: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

fn place() -> Workspace {
    let place = Workspace::new();
    place.put("left.npy", &Value::Tensor(floats(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])));
    place.put("right.npy", &Value::Tensor(floats(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 7.0])));
    place
}

#[test]
fn the_end_of_input_ends_the_session_with_code_0() {
    let place = place();
    let ran = script(&place, &[], "");
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, "", ""));
    // No line break at the end; a difference is no failure of a session.
    let ran = script(&place, &[], "\n  \ncp left.npy right.npy");
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert!(ran.out.contains("AllClose: False"), "{}", ran.out);
    let ran = script(&place, &[], "exit\npt absent.npy\n");
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
}

#[test]
fn a_line_that_fails_gives_code_2_and_the_lines_after_it_are_run() {
    let ran = script(&place(), &[], "pt absent.npy\npt left.npy\n");
    assert_eq!(ran.code, 2);
    assert!(ran.err.starts_with("[ERROR] pt: absent.npy: no such file, here or in "), "{}", ran.err);
    assert!(ran.err.contains("precision_data/dump/cpu"), "{}", ran.err);
    assert!(ran.out.contains("Shape: (2, 3)"), "{}", ran.out);
}

#[test]
fn pt_prints_the_lines_of_the_guide_and_writes_the_text() {
    let place = place();
    let ran = script(&place, &[], "pt -n left.npy\n");
    let expected = "Array: [[1.0 2.0 3.0]\n [4.0 5.0 6.0]]\n=============\nShape: (2, 3)\nDtype: float32\nMax:  6.0\n\
                    Min:  1.0\nMean: 3.5\nPath: left.npy\nTxtFile:left.npy.txt\n";
    assert_eq!((ran.out.as_str(), ran.err.as_str()), (expected, ""));
    assert_eq!(place.text("left.npy.txt"), "1 2 3\n4 5 6\n");
    // A text that is newer than its tensor is left as it is.
    place.put_text("left.npy.txt", "mine");
    assert_eq!(script(&place, &[], "pt left.npy\n").out, expected);
    assert_eq!(place.text("left.npy.txt"), "mine");
}

#[test]
fn cp_counts_by_the_rule_of_the_guide() {
    let place = place();
    let ran = script(&place, &[], "cp -n left.npy right.npy -p 1 -al 0.5 -rl 0\ncp left.npy\ncp a b c\n");
    assert_eq!(ran.code, 2);
    assert!(ran.out.contains("ErrorPer: 0.16666666666666666  (rl= 0.0, al= 0.5)"), "{}", ran.out);
    assert!(
        ran.out.contains("│ 5     │ 6.0  │ 7.0   │ 1.0  │ │ 0     │ 1.0  │ 1.0   │ 0.0  │"),
        "{}",
        ran.out
    );
    assert_eq!(ran.err.matches("compare files should be 2.").count(), 2);
    let ran = script(&place, &[], "cp left.npy right.npy -al 1\n");
    assert!(ran.out.contains("AllClose: True") && ran.out.contains("ErrorPer: 0.0 "), "{}", ran.out);
    assert!(!place.path("left.npy.txt").exists(), "only -s writes text");
    for (option, said) in
        [("-al -1", "argument -al: expected"), ("-p x", "argument -p: expected"), ("-z", "unrecognized")]
    {
        let ran = script(&place, &[], &format!("cp left.npy right.npy {option}\n"));
        assert!(ran.code == 2 && ran.err.contains(said), "{}", ran.err);
    }
}

#[test]
fn the_shorter_tensor_continues_with_zeros_and_nan_never_agrees() {
    let place = place();
    place.put("short.npy", &Value::Tensor(floats(&[4], &[1.0, 2.0, 3.0, 4.0])));
    place.put("nan.npy", &Value::Tensor(floats(&[2], &[f32::NAN, 1.0])));
    place.put("one.npy", &Value::Tensor(floats(&[2], &[1.0, 1.0])));
    let ran = script(&place, &[], "cp short.npy left.npy\n");
    assert!(ran.err.contains("the numbers of elements differ: 4 and 6"), "{}", ran.err);
    assert!(ran.out.contains("│ 4     │ 0.0  │ 5.0   │ 5.0  │"), "{}", ran.out);
    assert!(
        ran.out.contains("NumCnt:   6") && ran.out.contains("ErrorPer: 0.3333333333333333"),
        "{}",
        ran.out
    );
    // 30 / (sqrt(30) * sqrt(91)).
    assert!(ran.out.contains("CosSim:   0.57416"), "{}", ran.out);
    let ran = script(&place, &[], "cp nan.npy one.npy\ncp nan.npy nan.npy\n");
    assert!(ran.out.contains("ErrorPer: 0.5 "), "{}", ran.out);
    assert_eq!(ran.out.matches("AllClose: False").count(), 2, "np.allclose is False for NaN");
    assert_eq!(ran.out.matches("CosSim:   nan").count(), 2);
}

#[test]
fn programs_run_only_where_they_are_allowed_and_do_not_read_the_script() {
    let place = place();
    let lines = "run echo one\necho two; cat\nrun ls left.npy\ncp left.npy left.npy\n";
    let ran = script(&place, &[], lines);
    assert_eq!(ran.code, 2);
    assert!(
        ran.err.contains("echo: no such command; scripts run programs only with --allow-commands"),
        "{}",
        ran.err
    );
    assert!(!ran.out.contains("one"));
    let ran = script(&place, &["--allow-commands"], lines);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert!(ran.out.starts_with("one\ntwo\nleft.npy\n"), "{}", ran.out);
    assert!(ran.out.contains("AllClose: True"), "{}", ran.out);
}

#[test]
fn names_in_files_are_text_and_never_a_command_or_an_escape() {
    let place = Workspace::new();
    let name = "a;touch ran;$(touch ran)\u{1b}[2J[red]b.npy";
    place.put(&format!("precision_data/tf/dump/{name}"), &Value::Tensor(floats(&[1], &[1.0])));
    let ran = script(&place, &["--allow-commands"], "pt a\n");
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(!place.path("ran").exists() && !ran.out.contains('\u{1b}'));
    // Brackets are kept: the older tool takes them for markup.
    assert!(ran.out.contains("[red]b.npy"), "{}", ran.out);
}

#[test]
fn both_layouts_of_the_data_folder_are_found() {
    let place = Workspace::new();
    let tensor = Value::Tensor(floats(&[1], &[1.0]));
    for (name, folder) in [
        ("l1.npy", "precision_data/temp/decode/dump_decode/debug_0"),
        ("l2.npy", "precision_data/dump/decode"),
        ("r1.npy", "precision_data/tf/dump"),
        ("r2.npy", "precision_data/dump/cpu"),
        ("r3.npy", "precision/dump/cpu"),
    ] {
        place.put(&format!("{folder}/{name}"), &tensor);
    }
    let ran = script(&place, &[], "cp l1.npy r1.npy\ncp l2.npy r2.npy\ncp l2.npy r3.npy\n");
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    for path in ["precision_data/dump/decode/l2.npy", "precision/dump/cpu/r3.npy"] {
        assert!(ran.out.contains(path), "{}", ran.out);
    }
    let ran = script(&place, &["elsewhere"], "");
    assert!(ran.code == 2 && ran.err.contains("elsewhere: no such folder"), "{}", ran.err);
}

#[test]
fn decoded_names_without_a_number_are_files_like_others() {
    let place = Workspace::new();
    let name = "MatMulV2.LeNet_conv1_Matmul.17.6.16160712863169.output.npy";
    place.put(&format!("precision_data/dump/decode/{name}"), &Value::Tensor(floats(&[2], &[1.0, 2.0])));
    let ran = script(&place, &[], &format!("pt {name}\n"));
    assert!(ran.out.contains(&format!("TxtFile:./precision_data/dump/decode/{name}.txt\n")), "{}", ran.out);
}

#[test]
fn settings_are_data_and_count() {
    let place = place();
    place.put_text(
        "precision_tool/config.py",
        "import os\nos.mkdir('ran')\nDATA_ROOT_DIR = './other'\nLOG_LEVEL = \"ERROR\"\n",
    );
    place.put("other/dump/cpu/t.npy", &Value::Tensor(floats(&[1], &[1.0])));
    let ran = script(&place, &[], "pt t.npy\ncp t.npy left.npy\n");
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "LOG_LEVEL silences the warning about lengths");
    assert!(ran.out.contains("Path: ./other/dump/cpu/t.npy") && !place.path("ran").exists());
}

#[test]
fn one_dialect_never_takes_the_options_of_the_other() {
    let place = place();
    let ran = script(
        &place,
        &["--parse"],
        "pt left.npy\ncn -m left.npy -g right.npy -p 10 -s -al 0.002 -rl 0.005\n",
    );
    assert_eq!(ran.code, 2);
    assert!(
        ran.err.contains("usage: pt -n FILE\n[ERROR] pt: the following arguments are required: -n/--name")
    );
    assert!(ran.out.contains("ErrorPer: 0.16666666666666666  (rl= 0.005, al= 0.002)"), "{}", ran.out);
    assert!(place.path("left.npy.txt").exists() && place.path("right.npy.txt").exists());
    assert!(script(&place, &[], "cn -m left.npy -g right.npy\n").err.contains("cn: no such command"));
}

#[test]
fn an_output_folder_has_to_exist_and_the_default_one_is_made() {
    let place = place();
    let ran = script(&place, &["--parse"], "dc -n left.npy -out absent\nvc -m . -g . -out absent\n");
    assert_eq!(ran.err.matches("The path absent does not exist.").count(), 1, "{}", ran.err);
    assert!(ran.code == 2 && !place.path("absent").exists() && !place.path("parse_data").exists());
    let ran = script(&place, &["--parse"], "dc -n left.npy\n");
    assert!(ran.err.contains("dc: left.npy: not an ACL dump file"), "{}", ran.err);
}

#[test]
fn files_of_one_name_in_two_folders_do_not_replace_each_other() {
    let place = place();
    let name = "Relu.x.1.2.1767261601039759";
    for (folder, from) in [("steps/0", "left.npy"), ("steps/1", "right.npy")] {
        std::fs::create_dir_all(place.path(folder)).unwrap();
        let ran = place.run(&["convert", from, "-o", &format!("{folder}/{name}"), "--to", "acl"]);
        assert_eq!(ran.code, 0, "{}", ran.err);
    }
    let ran = script(&place, &["--parse"], "dc -n steps\n");
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    for step in ["0", "1"] {
        assert!(place.path(&format!("parse_data/convert_result/{step}/{name}.output.0.npy")).exists());
    }
    // The guide's other spelling of the folder.
    let path = format!("./parse_data/dump_convert/0/{name}.output.0.npy");
    assert!(script(&place, &["--parse"], &format!("pt -n {path}\n")).out.contains("[Shape: (2, 3)]"));
}

#[test]
fn patterns_pair_files_by_what_the_star_stands_for() {
    let place = place();
    for (name, value) in
        [("my_a.npy", 1.0), ("my_b.npy", 2.0), ("gold_b.npy", 2.0), ("gold_a.npy", 1.0), ("my_c.npy", 3.0)]
    {
        place.put(name, &Value::Tensor(floats(&[1], &[value])));
    }
    let ran = script(&place, &["--parse"], "cn -m my_*.npy -g gold_*.npy\ncn -m none*.npy -g gold_*.npy\n");
    assert_eq!(ran.code, 2);
    assert_eq!(ran.out.matches("AllClose: True").count(), 2, "{}", ran.out);
    assert!(ran.err.contains("my_c.npy: nothing of gold_*.npy has the same text for *"), "{}", ran.err);
    assert!(ran.err.contains("none*.npy: no file matches"), "{}", ran.err);
}

#[test]
fn an_object_array_is_refused_and_nothing_of_it_runs() {
    let place = place();
    let header = "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }";
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(b"cos\nsystem\n(S'touch ran'\ntR.");
    place.put_bytes("object.npy", &bytes);
    let ran = script(&place, &[], "pt object.npy\ncp object.npy left.npy\nhelp\n");
    assert_eq!((ran.code, ran.err.lines().count()), (2, 2), "{}", ran.err);
    assert!(!place.path("ran").exists() && ran.out.contains("list the commands"));
}

#[test]
fn a_million_elements_are_compared_at_once() {
    let place = Workspace::new();
    let values: Vec<f32> = (0..1_000_000).map(|at| at as f32).collect();
    place.put("a.npy", &Value::Tensor(floats(&[1000, 1000], &values)));
    place.put("b.npy", &Value::Tensor(floats(&[1_000_000], &values)));
    let started = std::time::Instant::now();
    let ran = script(&place, &[], "cp a.npy b.npy\n");
    assert!(ran.out.contains("NumCnt:   1000000") && ran.out.contains("AllClose: True"), "{}", ran.out);
    // The older shell needs 2.2 s for its loop alone; a busy machine may take a while to start a process.
    assert!(started.elapsed().as_secs_f64() < 2.0, "{:?}", started.elapsed());
}
