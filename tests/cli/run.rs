//! `ulpscope run` of the plain binary: which Python it becomes, and with which words.
#![cfg(unix)]

use std::os::unix::fs::PermissionsExt;

use crate::workspace::{Ran, Workspace};

/// Runs with a Python that, asked whether it has the package, ends with `has`; else it prints its arguments.
fn run(name: &str, has: u8, args: &[&str]) -> Ran {
    let place = Workspace::new();
    let script = format!("#!/bin/sh\n[ \"$1\" = -c ] && exit {has}\nprintf '[%s]' \"$@\"\nexit 42\n");
    let python = format!("bin/{name}");
    place.put_text(&python, &script);
    std::fs::set_permissions(place.path(&python), PermissionsExt::from_mode(0o755)).unwrap();
    let output = place.command(args).env("PATH", place.path("bin")).output().unwrap();
    Ran {
        code: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

#[test]
fn hands_everything_over_as_typed() {
    let words = ["--step", "0,2-4", "--", "train.py", "--help", "-x", "--threads", "3", "--", "y"];
    let ran = run("python3", 0, &[&["run"], &words[..]].concat());
    assert_eq!(ran.out, format!("[-m][ulpscope][run][{}]", words.join("][")));
    assert_eq!((ran.code, ran.err.as_str()), (42, ""), "the exit code is the script's");
}

#[test]
fn its_help_is_pythons() {
    assert_eq!(run("python3", 0, &["run", "--help"]).out, "[-m][ulpscope][run][--help]");
}

#[test]
fn takes_python_by_its_other_name() {
    assert_eq!(run("python", 0, &["run", "-m", "module"]).out, "[-m][ulpscope][run][-m][module]");
}

#[test]
fn says_what_is_missing() {
    let without_package = run("python3", 1, &["run", "train.py"]);
    assert_eq!((without_package.code, without_package.out.as_str()), (2, ""));
    assert!(
        without_package.err.contains("python3 on the PATH has not: install it"),
        "{}",
        without_package.err
    );

    let without_python = run("perl", 0, &["run", "train.py"]);
    assert_eq!(without_python.code, 2);
    assert!(
        without_python.err.contains("neither python3 nor python is on the PATH"),
        "{}",
        without_python.err
    );
}

#[test]
fn is_listed_in_the_help() {
    let help = Workspace::new().run(&["--help"]).out;
    assert!(help.contains("run      Run a Python script and record"), "{help}");
}
