//! What TensorFlow dumped: folders of its debugger, and arrays with its names.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use ulpscope_dump::{Content, Dump, Rank, Select, Task, Tool};
use ulpscope_formats::file::{self, Format};
use ulpscope_formats::{Bytes, Tensor, Value, tensorflow};
use ulpscope_tensor::DType;

const DEVICE: &str = "_tfdbg_device_,job_localhost,replica_0,task_0,device_CPU_0";

fn tensor(value: f32) -> Tensor {
    Tensor::contiguous(DType::F32, vec![1], Bytes::from(value.to_le_bytes().to_vec())).unwrap()
}

/// Writes the event of an output.
fn put(run: &Path, device: &str, file: &str, value: f32) {
    let path = run.join(device).join(file);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut event = Vec::new();
    tensorflow::write_debug_tensor("node", &tensor(value), &mut event).unwrap();
    std::fs::write(path, event).unwrap();
}

fn open(path: &Path) -> Vec<(Option<u64>, Rank)> {
    let dump = Dump::open(path, &Select::default()).unwrap();
    assert_eq!((dump.problems.count(), dump.notes.len()), (0, 0), "{:?} {:?}", dump.problems, dump.notes);
    let ranks =
        dump.steps.iter().flat_map(|step| step.ranks.iter().map(|rank| (step.number, rank.open().unwrap())));
    ranks.collect()
}

/// The names of all entries and their single elements.
fn entries(rank: &Rank) -> Vec<(String, f64)> {
    let mut found = Vec::new();
    for call in 0..rank.calls().len() {
        for entry in rank.entries(call).unwrap() {
            let Content::Tensor(described) = &entry.content else { panic!("{entry:?}") };
            let tensor = rank.tensor(described).unwrap().unwrap();
            found.push((entry.name.clone(), tensor.view().get(0).to_f64()));
        }
    }
    found
}

#[test]
fn a_run_of_the_debugger_is_calls_in_order_of_time() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run_1794722146064463_0");
    put(&run, DEVICE, "a/top_1_DebugIdentity_1794722146000003", 1.0);
    put(&run, DEVICE, "a/top_0_DebugIdentity_1794722146000004", 0.0);
    put(&run, DEVICE, "a/loop_0_DebugIdentity_1794722146000006", 6.0);
    put(&run, DEVICE, "a/loop_0_DebugIdentity_1794722146000005", 5.0);
    put(&run, DEVICE, "_arg_x_0_0_0_DebugIdentity_1794722146000001", 9.0);
    let gpu = DEVICE.replace("CPU", "GPU");
    put(&run, &gpu, "b_0_DebugIdentity_1794722146000002", 2.0);
    std::fs::write(run.join("_tfdbg_feed_keys_info_"), "x").unwrap();
    std::fs::write(run.join(DEVICE).join("_tfdbg_graph_hash123_1794722146000000"), "\0").unwrap();
    let expected = [
        ("x.0.forward.output.0", 9.0),
        ("b.0.forward.output.0", 2.0),
        ("a/top.0.forward.output.0", 0.0),
        ("a/top.0.forward.output.1", 1.0),
        ("a/loop.0.forward.output.0", 5.0),
        ("a/loop.1.forward.output.0", 6.0),
    ];
    let expected: Vec<(String, f64)> = expected.map(|(name, value)| (name.to_owned(), value)).to_vec();
    for path in [folder.path(), &run] {
        let ranks = open(path);
        let [(step, rank)] = &ranks[..] else { panic!("{ranks:?}") };
        assert_eq!((*step, rank.tool, rank.task), (None, Tool::Tensorflow, Task::Tensor));
        assert_eq!(entries(rank), expected);
    }
    let one = open(&run.join(&gpu));
    assert_eq!(entries(&one[0].1), [("b.0.forward.output.0".to_owned(), 2.0)]);
}

#[test]
fn runs_are_steps_by_number_or_in_order() {
    let folder = tempfile::tempdir().unwrap();
    for (name, value) in [("run_1794722146064463_4", 4.0), ("run_1794722146064470_7", 7.0)] {
        put(&folder.path().join(name), DEVICE, "a_0_DebugIdentity_1794722146000001", value);
    }
    let steps = |path: &Path| -> Vec<Option<u64>> { open(path).iter().map(|(step, _)| *step).collect() };
    assert_eq!(steps(folder.path()), [Some(4), Some(7)]);
    // A second session begins to count again.
    put(&folder.path().join("run_1794722146064480_4"), DEVICE, "a_0_DebugIdentity_1794722146000001", 8.0);
    assert_eq!(steps(folder.path()), [Some(0), Some(1), Some(2)]);
}

#[test]
fn arrays_with_names_of_the_debugger() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, value: f32| {
        file::write(&folder.path().join(name), Format::Npy, &Value::Tensor(tensor(value))).unwrap();
    };
    write("a_top.1.1794722157959644.npy", 1.0);
    write("a_top.0.1794722157959645.npy", 0.0);
    write("_arg_x_0_0.0.1794722157959640.npy", 9.0);
    let ranks = open(folder.path());
    let rank = &ranks[0].1;
    assert_eq!(rank.tool, Tool::Tensorflow);
    let expected =
        [("x.0.forward.output.0", 9.0), ("a_top.0.forward.output.0", 0.0), ("a_top.0.forward.output.1", 1.0)];
    assert_eq!(entries(rank), expected.map(|(name, value)| (name.to_owned(), value)));
    let array = rank.entry_file(1, 1).unwrap();
    assert!(array.ends_with("a_top.1.1794722157959644.npy"), "{array:?}");
    // Among other arrays they are files like any other.
    write("weights.npy", 3.0);
    assert_eq!(open(folder.path())[0].1.tool, Tool::Files);
}

#[test]
fn a_file_that_is_no_event_loses_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run_1794722146064463_0");
    put(&run, DEVICE, "a_0_DebugIdentity_1794722146000001", 1.0);
    std::fs::write(run.join(DEVICE).join("b_0_DebugIdentity_1794722146000002"), b"\x0b").unwrap();
    let ranks = open(folder.path());
    let rank = &ranks[0].1;
    let bad = rank.entries(1).unwrap();
    let Content::Tensor(described) = &bad[0].content else { panic!("{bad:?}") };
    let error = rank.tensor(described).unwrap_err().to_string();
    assert!(error.ends_with("byte 0: expected wire type 0, 1, 2 or 5, found 3"), "{error}");
    let good = rank.entries(0).unwrap();
    let Content::Tensor(described) = &good[0].content else { panic!("{good:?}") };
    assert!(rank.tensor(described).unwrap().is_some());
}
