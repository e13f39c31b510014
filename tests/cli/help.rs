//! What the command says about itself.

use std::io::Read;
use std::process::Stdio;

use ulpscope_formats::Value;

use crate::workspace::{Workspace, floats};

#[test]
fn version_is_the_packages() {
    let ran = Workspace::new().run(&["--version"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, concat!("ulpscope ", env!("CARGO_PKG_VERSION"), "\n")));
}

#[test]
fn help_goes_to_stdout_and_lists_the_exit_codes() {
    for args in [&["--help"][..], &["diff", "--help"]] {
        let ran = Workspace::new().run(args);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""));
        assert!(ran.out.contains("Exit codes:"), "{}", ran.out);
    }
}

#[test]
fn every_subcommand_shows_examples() {
    let commands =
        ["compare", "explain", "stats", "diff", "convert", "merge", "ls", "show", "completions", "man"];
    for command in commands {
        for flag in ["-h", "--help"] {
            let ran = Workspace::new().run(&[command, flag]);
            assert_eq!(ran.code, 0);
            assert!(ran.out.contains(&format!("Examples:\n  ulpscope {command} ")), "{}", ran.out);
        }
    }
}

#[test]
fn shells_and_pagers_learn_every_command_and_option() {
    let place = Workspace::new();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let ran = place.run(&["completions", shell]);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""));
        assert!(["compare", "threads", "explain"].iter().all(|word| ran.out.contains(word)), "{shell}");
    }
    let page = place.run(&["man"]);
    assert_eq!((page.code, page.err.as_str()), (0, ""));
    assert!(page.out.contains(".TH ulpscope 1") && page.out.contains("Exit codes"), "{}", page.out);
    let page = place.run(&["man", "compare"]).out;
    assert!(page.contains(".TH ulpscope-compare 1") && page.contains("\\-\\-threads"), "{page}");
    let refused = place.run(&["man", "frobnicate"]);
    assert_eq!(refused.code, 2);
    assert!(refused.err.contains("frobnicate: no such command; there are run, compare"), "{}", refused.err);
}

#[test]
fn help_explains_every_field() {
    for (command, fields) in
        [("stats", &ulpscope_report::fields::STATS[..]), ("diff", &ulpscope_report::fields::DIFF[..])]
    {
        let help = Workspace::new().run(&[command, "--help"]).out;
        for (name, meaning) in fields {
            assert!(help.contains(&format!("  {name:<16} {meaning}")), "{name} in {help}");
        }
    }
}

#[test]
fn what_cannot_be_understood_is_a_failure() {
    for args in [&[][..], &["frobnicate"], &["diff", "one"], &["diff", "a", "b", "--atol", "-1"]] {
        let ran = Workspace::new().run(args);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{args:?}");
        assert!(!ran.err.is_empty());
    }
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let place = Workspace::new();
    let many: Vec<f32> = (0..300_000).map(|value| value as f32).collect();
    place.put("x.npy", &Value::Tensor(floats(&[300_000], &many)));
    let mut child = place
        .command(&["stats", "x.npy", "--first", "300000"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Reads a little, then hangs up, as `head` does.
    child.stdout.take().unwrap().read_exact(&mut [0; 4]).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}
