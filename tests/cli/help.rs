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
    let commands = [
        "compare",
        "explain",
        "report",
        "view",
        "stats",
        "diff",
        "convert",
        "merge",
        "locate",
        "ls",
        "show",
        "overflow",
        "shell",
        "precision-tool",
        "completions",
        "man",
    ];
    for command in commands {
        for flag in ["-h", "--help"] {
            let ran = Workspace::new().run(&[command, flag]);
            assert_eq!(ran.code, 0);
            assert!(ran.out.contains(&format!("Examples:\n  ulpscope {command} ")), "{}", ran.out);
        }
    }
}

/// The commands that the help lists.
fn commands(place: &Workspace) -> Vec<String> {
    let help = place.run(&["--help"]).out;
    let (_, listed) = help.split_once("Commands:\n").unwrap();
    let (listed, _) = listed.split_once("\n\n").unwrap();
    // A line that continues a description has more spaces.
    let names = listed.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    let names = names.filter(|name| !name.is_empty());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

/// The long options at the beginnings of the lines of a help text.
fn options(help: &str) -> Vec<String> {
    let lines = help.lines().map(str::trim_start).filter(|line| line.starts_with('-'));
    let names = lines.filter_map(|line| line.split([' ', ',']).find(|word| word.starts_with("--")));
    names.map(|name| name.split(['=', '[']).next().unwrap().to_owned()).collect()
}

#[test]
fn shells_and_pagers_learn_every_command_and_option() {
    let place = Workspace::new();
    let commands = commands(&place);
    assert!(commands.iter().any(|command| command == "run") && commands.len() > 10, "{commands:?}");
    let shells = ["bash", "elvish", "fish", "powershell", "zsh"].map(|shell| {
        let ran = place.run(&["completions", shell]);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""));
        (shell, ran.out)
    });
    for command in &commands {
        let page = place.run(&["man", command]);
        assert_eq!((page.code, page.err.as_str()), (0, ""));
        let page = page.out.replace("\\-", "-");
        // Python has the help of `run` and `check`; test_flags.py and test_command.py compare it with the manual page.
        let options = match command.as_str() {
            "run" => vec!["--dump-path".to_owned(), "--no-stacks".to_owned(), "--dry-run".to_owned()],
            "check" => vec!["--white-list".to_owned(), "--jobs".to_owned(), "--no-repro".to_owned()],
            command => options(&place.run(&[command, "--help"]).out),
        };
        assert!(options.len() > 2, "{command}: {options:?}");
        for option in &options {
            assert!(page.contains(&format!("{option}\\fR")), "{option} in {page}");
            for (shell, script) in &shells {
                // fish has `-l name` for `--name`.
                let name = option.trim_start_matches('-');
                let is_there = script.contains(option) || script.contains(&format!("-l {name} "));
                assert!(is_there && script.contains(command.as_str()), "{command} {option}: {shell}");
            }
        }
    }
    let page = place.run(&["man"]);
    assert_eq!((page.code, page.err.as_str()), (0, ""));
    assert!(page.out.contains(".TH ulpscope 1") && page.out.contains("Exit codes"), "{}", page.out);
    let page = place.run(&["man", "compare"]).out;
    assert!(page.contains(".TH ulpscope-compare 1") && page.contains("\\-\\-threads"), "{page}");
    let refused = place.run(&["man", "frobnicate"]);
    assert_eq!(refused.code, 2);
    assert!(
        refused.err.contains("frobnicate: no such command; there are run, check, compare"),
        "{}",
        refused.err
    );
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
