//! `ulpscope run` of the plain binary: which Python it becomes, and with which words.
#![cfg(unix)]

use std::os::unix::fs::PermissionsExt;

use crate::workspace::{Ran, Workspace};

/// Runs with a Python that, asked whether it has the package, says where it is and ends with `has`; else it prints its
/// arguments after the program.
fn run(name: &str, has: u8, args: &[&str]) -> Ran {
    let place = Workspace::new();
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = -c ] && [ $# = 2 ] && echo /opt/bin/py && exit {has}\nshift 2\nprintf '[%s]' \"$@\"\nexit 42\n"
    );
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
    assert_eq!(ran.out, format!("[run][{}]", words.join("][")));
    let err = "ulpscope: run uses /opt/bin/py\n";
    assert_eq!((ran.code, ran.err.as_str()), (42, err), "the exit code is the script's");
}

#[test]
fn its_help_is_pythons() {
    assert_eq!(run("python3", 0, &["run", "--help"]).out, "[run][--help]");
}

#[test]
fn takes_python_by_its_other_name() {
    assert_eq!(run("python", 0, &["run", "-m", "module"]).out, "[run][-m][module]");
}

#[test]
fn says_what_is_missing() {
    let without_package = run("python3", 1, &["run", "train.py"]);
    assert_eq!((without_package.code, without_package.out.as_str()), (2, ""));
    assert!(
        without_package.err.contains("python3 (/opt/bin/py) on the PATH does not have it: install it"),
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

/// A folder `ulpscope` in the working directory is not taken for the package, neither to find it nor to run it.
#[test]
fn runs_nothing_out_of_the_current_folder() {
    let Ok(python) = std::process::Command::new("python3").args(["-c", "pass"]).status() else { return };
    assert!(python.success());
    let place = Workspace::new();
    place.put_text("here/ulpscope/__init__.py", "print('TAKEN')\n");
    place.put_text("here/ulpscope/__main__.py", "print('TAKEN')\n");
    place.put_text("here/ulpscope/_cli.py", "print('TAKEN')\n");
    let genuine = "import sys\ndef main():\n    print(sys.argv[1:], sys.path[0])\n    return 42\n";
    place.put_text("site/ulpscope/__init__.py", "");
    place.put_text("site/ulpscope/_cli.py", genuine);
    let run = |with_package: bool| {
        let mut command = place.command(&["run", "--step", "0", "--", "train.py"]);
        command.current_dir(place.path("here")).env_remove("PYTHONSAFEPATH").env_remove("PYTHONPATH");
        if with_package {
            command.env("PYTHONPATH", place.path("site"));
        }
        command.output().unwrap()
    };
    let without = run(false);
    assert!(!String::from_utf8_lossy(&without.stdout).contains("TAKEN"), "{without:?}");
    let with = run(true);
    let out = String::from_utf8(with.stdout).unwrap();
    assert_eq!(
        (with.status.code(), out.as_str()),
        (Some(42), "['run', '--step', '0', '--', 'train.py'] /dev/null\n")
    );
    let err = String::from_utf8(with.stderr).unwrap();
    assert!(err.starts_with("ulpscope: run uses /") && err.contains("python"), "{err}");
}

#[test]
fn is_listed_in_the_help() {
    let help = Workspace::new().run(&["--help"]).out;
    let is_listed = |line: &str| {
        line.trim_start()
            .strip_prefix("run ")
            .is_some_and(|rest| rest.contains("Run a Python script and record"))
    };
    assert!(help.lines().any(is_listed), "{help}");
}
