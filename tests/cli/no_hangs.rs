//! Whatever a path leads to, the command ends: pipes and devices are refused, large mapping files take seconds.
#![cfg(unix)]

use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::passed_over::with_digits;
use crate::workspace::Workspace;

/// Enough time for a slow machine. Reading a pipe without a writer would take forever.
const PATIENCE: Duration = Duration::from_secs(60);

/// The exit code and what was said on standard error, of a command that ends in time.
fn ends(place: &Workspace, args: &[&str]) -> (i32, String) {
    let mut child = place
        .command(args)
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(place.path("err")).unwrap())
        .spawn()
        .unwrap();
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return (status.code().unwrap(), place.text("err"));
        }
        if start.elapsed() > PATIENCE {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("{args:?} did not end");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

const ENTRY: &str = r#"{"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2], "Max": 1.0, "Min": 0.0, "Mean": 0.5, "Norm": 1.0, "requires_grad": false}"#;

fn put_dumps(place: &Workspace, calls: usize) {
    let call = |number| {
        format!(
            r#""Module.layers.{number}.Linear.forward.0": {{"input_args": [{ENTRY}], "input_kwargs": {{}}, "output": [{ENTRY}]}}"#
        )
    };
    let calls: Vec<String> = (0..calls).map(call).collect();
    let calls = calls.join(", ");
    for side in ["a", "b"] {
        place.put_text(
            &format!("{side}/dump.json"),
            &format!(r#"{{"task": "statistics", "level": "L0", "framework": "pytorch", "dump_data_dir": null, "data": {{{calls}}}}}"#),
        );
    }
}

#[test]
fn pipes_and_devices_are_refused_wherever_a_file_is_named() {
    let place = Workspace::new();
    put_dumps(&place, 2);
    let made = std::process::Command::new("mkfifo").arg(place.path("pipe")).status().unwrap();
    assert!(made.success());
    for path in ["pipe", "/dev/zero"] {
        let commands: [&[&str]; 12] = [
            &["explain", path],
            &["compare", "a", "b", "--data-mapping", path],
            &["compare", "a", "b", "--cell-mapping", path],
            &["compare", "a", "b", "--layer-mapping", path],
            &["compare", path, "b"],
            &["ls", path],
            &["show", path, "x"],
            &["overflow", path],
            &["stats", path],
            &["diff", path, path],
            &["merge", path],
            &["convert", path, "-o", "x.npy"],
        ];
        for args in commands {
            let (code, err) = ends(&place, args);
            assert_eq!(code, 2, "{args:?}: {err}");
            let refused = err.contains("expected a regular file, found a device or pipe")
                || err.contains("found something that is not a file");
            assert!(refused, "{args:?}: {err}");
        }
    }
}

#[test]
fn pipes_within_a_dump_are_refused() {
    let place = Workspace::new();
    put_dumps(&place, 2);
    for name in ["construct.json", "stack.json", "journal.jsonl", "x.pkl"] {
        assert!(
            std::process::Command::new("mkfifo").arg(place.path("a").join(name)).status().unwrap().success()
        );
    }
    for args in [&["ls", "a"][..], &["compare", "a", "b"], &["stats", "a"]] {
        let (code, err) = ends(&place, args);
        assert_eq!(code, 2, "{args:?}: {err}");
        assert!(err.contains("expected a regular file, found a device or pipe"), "{args:?}: {err}");
    }
}

#[test]
fn a_pipe_in_the_place_of_the_names_of_acl_files_is_refused() {
    let place = with_digits(1.0);
    assert!(
        std::process::Command::new("mkfifo").arg(place.path("t/mapping.csv")).status().unwrap().success()
    );
    let (code, err) = ends(&place, &["compare", "t", "g"]);
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("not read: mapping.csv (1 file)"), "{err}");
}

#[test]
fn a_mapping_file_of_a_hundred_thousand_lines() {
    let place = Workspace::new();
    put_dumps(&place, 500);
    let lines = |line: &dyn Fn(usize) -> String| (0..100_000).map(line).collect::<String>();
    place.put_text(
        "data.yaml",
        &lines(&|line| format!("Functional.x{line}.0.forward: Functional.y{line}.0.forward\n")),
    );
    place
        .put_text("rows.yaml", &lines(&|line| format!("Module.layers.0.Linear.forward.0.input.{line}: y\n")));
    place.put_text("cells.yaml", &lines(&|line| format!("x{line}.Dense: x{line}.Linear\n")));
    place.put_text("layers.yaml", &format!("TopLayer:\n{}", lines(&|line| format!("  x{line}: y{line}\n"))));
    for (option, file) in [
        ("--data-mapping", "data.yaml"),
        ("--data-mapping", "rows.yaml"),
        ("--cell-mapping", "cells.yaml"),
        ("--layer-mapping", "layers.yaml"),
    ] {
        let (code, err) = ends(&place, &["compare", "a", "b", option, file]);
        assert_eq!(code, 0, "{file}: {err}");
        assert!(err.lines().count() < 20, "{file}: {err}");
        assert!(err.contains(" more lines have no effect"), "{file}: {err}");
    }
}
