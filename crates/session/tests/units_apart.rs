//! Ranks whose two sides are on different nodes: the result is that of one machine, and no more is moved than may be.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tempfile::TempDir;
use ulpscope_compare::NoProgress;
use ulpscope_dump::Select;
use ulpscope_report::SheetFormat;
use ulpscope_session::units::{
    self, Dispatcher, DumpNodes, Elsewhere, FileReader, Located, NodeListing, ResultFolders, UnitQueue,
    Worker,
};
use ulpscope_session::{
    FileOutputs, FileSink, Language, MappingFiles, Request, StyleName, Threads, execute, write,
};

const CALLS: usize = 6;
const ELEMENTS: usize = 64;
const TENSOR_BYTES: u64 = 4 * ELEMENTS as u64;

/// A rank of a chain of calls; results from `fault` on are larger, and `damaged` has no file. Tensors are in files of their
/// own, or in one.
fn write_rank(folder: &Path, fault: Option<usize>, packed: bool) {
    let data_folder = folder.join("dump_tensor_data");
    fs::create_dir_all(&data_folder).unwrap();
    let mut data = serde_json::Map::new();
    let mut pack = Vec::new();
    for call in 0..CALLS {
        let name = format!("Functional.relu.{call}.forward");
        let factor = if fault.is_some_and(|at| call >= at) { 1.5f32 } else { 1.0 };
        let values: Vec<f32> =
            (0..ELEMENTS).map(|at| factor * (1.0 + (call * ELEMENTS + at) as f32 / 7.0)).collect();
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let wide = |values: &[f32]| values.iter().map(|&value| f64::from(value)).collect::<Vec<f64>>();
        let wide = wide(&values);
        let mut output = json!({
            "type": "torch.Tensor", "dtype": "torch.float32", "shape": [ELEMENTS], "requires_grad": false,
            "Max": wide[ELEMENTS - 1], "Min": wide[0], "Mean": wide.iter().sum::<f64>() / ELEMENTS as f64,
            "Norm": wide.iter().map(|value| value * value).sum::<f64>().sqrt(),
        });
        if packed {
            output["data_name"] = "tensors-00000.safetensors".into();
            output["data_at"] = json!([pack.len(), bytes.len()]);
            pack.extend(bytes);
        } else {
            let file = format!("{name}.output.0.npy");
            let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({ELEMENTS},), }}");
            let mut npy = b"\x93NUMPY\x01\x00".to_vec();
            npy.extend(118u16.to_le_bytes());
            npy.extend(format!("{header:<117}\n").bytes());
            npy.extend(bytes);
            fs::write(data_folder.join(&file), npy).unwrap();
            output["data_name"] = file.into();
        }
        data.insert(name, json!({"input_args": [], "input_kwargs": {}, "output": [output]}));
    }
    if packed {
        fs::write(data_folder.join("tensors-00000.safetensors"), pack).unwrap();
    }
    let dump = json!({"task": "tensor", "level": "L1", "framework": "pytorch", "data": data});
    fs::write(folder.join("dump.json"), dump.to_string()).unwrap();
    fs::write(folder.join("stack.json"), "{}").unwrap();
    fs::write(folder.join("construct.json"), "{}").unwrap();
}

fn request(folder: &Path, style: StyleName) -> Request {
    Request {
        target: folder.join("target"),
        golden: folder.join("golden"),
        target_data: None,
        golden_data: None,
        style,
        matching: None,
        mapping: MappingFiles::default(),
        stack_column: false,
        noise: None,
        parallel: None,
        select: Select::default(),
        language: Language::English,
    }
}

/// Node a has the target, node b the golden. Units are answered on node a.
#[derive(Default)]
struct OneSideEach {
    failures: Mutex<Vec<String>>,
    /// Bytes of tensors that node b was asked for.
    moved: Mutex<u64>,
    is_b_gone: bool,
}

impl Dispatcher for OneSideEach {
    fn find(&self, path: &Path, _: Option<&[String]>) -> Result<Vec<NodeListing>, String> {
        let has = |node: &str| (node == "a") == path.ends_with("target");
        let listing = |node: &str| NodeListing {
            node: node.to_owned(),
            found: if has(node) { units::find(path) } else { Ok(None) },
        };
        Ok(["a", "b"].map(listing).into())
    }

    fn dispatch(&self, queue: &Arc<UnitQueue>) -> Result<(), String> {
        for (number, unit) in queue.units().iter().enumerate().filter(|(_, unit)| unit.is_open()) {
            assert_eq!(unit.nodes, Some(Ok(vec!["a".to_owned()])));
            let worker = Worker { node: Some("a"), reader: Some(self) };
            match units::answer(&queue.job(number)?, None, worker) {
                Ok(answered) => drop(queue.deliver(number, answered.answer.as_bytes(), &answered.rows)?),
                Err(why) => {
                    self.failures.lock().unwrap().push(why.clone());
                    queue.fail(number, why);
                }
            }
        }
        Ok(())
    }
}

impl FileReader for OneSideEach {
    fn ask(&self, nodes: &[String], question: &str) -> Result<Vec<u8>, String> {
        assert_eq!(nodes, ["b"]);
        if self.is_b_gone {
            return Err("node b is gone".to_owned());
        }
        let asked: Value = serde_json::from_str(question).unwrap();
        let ranges = asked["asked"]["Bytes"].as_array().cloned().unwrap_or_default();
        let of_tensors = ranges.iter().filter(|one| one["file"]["path"].as_str().unwrap().contains("tensor"));
        *self.moved.lock().unwrap() += of_tensors.map(|one| one["length"].as_u64().unwrap()).sum::<u64>();
        units::answer_about_files(question)
    }
}

/// Everything that was written, without the time.
fn written(
    engine: Option<(&OneSideEach, u64)>,
    request: &Request,
    out: &Path,
) -> (BTreeMap<String, String>, u8) {
    fs::create_dir_all(out).unwrap();
    let formats = vec![SheetFormat::Csv];
    let (mut compared, outputs) = match engine {
        None => {
            let outputs = FileOutputs::new(Some(out.to_owned()), request.style, formats);
            let engine = Threads { outputs: &outputs, progress: &NoProgress, prover: None };
            (execute(request.clone(), &engine).unwrap(), outputs)
        }
        Some((nodes, move_limit)) => {
            let folders = ResultFolders { results: Some(out), formats: &formats };
            let located = DumpNodes { located: Located::Ask, move_limit };
            let engine: Elsewhere<'_, FileSink> =
                Elsewhere::new(nodes, request, located, folders, false).unwrap();
            let outputs =
                FileOutputs::named(Some(out.to_owned()), request.style, formats.clone(), engine.timestamp());
            (execute(request.clone(), &engine).unwrap(), outputs)
        }
    };
    compared.seconds = 0.0;
    let files = write(&mut compared, &outputs, false).files;
    let is_stamp = |part: &&str| part.len() == 14 && part.bytes().all(|byte| byte.is_ascii_digit());
    let stamp = files.iter().find_map(|path| path.file_stem()?.to_str()?.split('_').find(is_stamp));
    // Without a sheet, nothing is named after the time.
    let plain =
        |text: &str| text.replace(stamp.unwrap_or("no time"), "TIME").replace(out.to_str().unwrap(), "DIR");
    let texts = files.iter().map(|path| {
        (plain(path.file_name().unwrap().to_str().unwrap()), plain(&fs::read_to_string(path).unwrap()))
    });
    (texts.collect(), compared.agreement.exit_code())
}

fn dumps(packed: [bool; 2]) -> TempDir {
    let folder = TempDir::new().unwrap();
    write_rank(&folder.path().join("target/step0/rank0"), Some(4), packed[0]);
    write_rank(&folder.path().join("golden/step0/rank0"), None, packed[1]);
    folder
}

const NO_LIMIT: u64 = u64::MAX;

#[test]
fn the_result_is_that_of_one_machine_and_equal_tensors_are_not_moved() {
    for (packed, size) in [([true; 2], TENSOR_BYTES), ([false; 2], TENSOR_BYTES + 128)] {
        let folder = dumps(packed);
        for style in [StyleName::Native, StyleName::Msprobe] {
            let request = request(folder.path(), style);
            let here = written(None, &request, &folder.path().join(format!("here-{style}")));
            let nodes = OneSideEach::default();
            let there =
                written(Some((&nodes, NO_LIMIT)), &request, &folder.path().join(format!("there-{style}")));
            assert_eq!(there, here, "{style}");
            // Of six tensors, the last two differ.
            assert_eq!(*nodes.moved.lock().unwrap(), 2 * size, "{style}");
        }
    }
}

#[test]
fn files_of_other_formats_are_moved_if_their_bytes_differ() {
    let folder = dumps([true, false]);
    let request = request(folder.path(), StyleName::Native);
    let here = written(None, &request, &folder.path().join("here"));
    let nodes = OneSideEach::default();
    assert_eq!(written(Some((&nodes, NO_LIMIT)), &request, &folder.path().join("there")), here);
    assert_eq!(*nodes.moved.lock().unwrap(), CALLS as u64 * (TENSOR_BYTES + 128));
}

#[test]
fn what_exceeds_the_limit_is_compared_by_statistics_and_counted() {
    let folder = dumps([true; 2]);
    let request = request(folder.path(), StyleName::Native);
    let basis = |result: &BTreeMap<String, String>| {
        let sheet = result.iter().find(|(name, _)| name.ends_with(".csv")).unwrap().1;
        ["elements", "statistics"].map(|basis| sheet.matches(&format!(",{basis},")).count())
    };
    for (limit, expected, left) in [(0, [4, 2], 2), (TENSOR_BYTES, [5, 1], 1), (2 * TENSOR_BYTES, [6, 0], 0)]
    {
        let nodes = OneSideEach::default();
        let (result, exit_code) =
            written(Some((&nodes, limit)), &request, &folder.path().join(format!("limit-{limit}")));
        assert_eq!(exit_code, 1);
        assert_eq!(basis(&result), expected, "{limit}");
        assert_eq!(*nodes.moved.lock().unwrap(), limit);
        let note =
            format!("{left} tensor{} ({} bytes)", if left == 1 { "" } else { "s" }, left * TENSOR_BYTES);
        assert_eq!(result["result.json"].contains(&note), left > 0, "{limit}: {}", result["result.json"]);
    }
}

#[test]
fn damage_is_reported_as_on_one_machine() {
    let folder = dumps([false; 2]);
    let data = folder.path().join("golden/step0/rank0/dump_tensor_data");
    let file = |call: usize| data.join(format!("Functional.relu.{call}.forward.output.0.npy"));
    fs::remove_file(file(0)).unwrap();
    fs::write(file(1), "no tensor").unwrap();
    fs::write(folder.path().join("secret"), "secret").unwrap();
    fs::remove_file(file(2)).unwrap();
    std::os::unix::fs::symlink(folder.path().join("secret"), file(2)).unwrap();
    fs::write(folder.path().join("golden/step0/rank0/stack.json"), "[").unwrap();
    let request = request(folder.path(), StyleName::Native);
    let here = written(None, &request, &folder.path().join("here"));
    let nodes = OneSideEach::default();
    let there = written(Some((&nodes, NO_LIMIT)), &request, &folder.path().join("there"));
    assert!(here.0["result.json"].contains("a link, which is not followed"), "{}", here.0["result.json"]);
    assert_eq!(there, here);
}

#[test]
fn a_node_that_cannot_be_asked_loses_the_unit() {
    let folder = dumps([true; 2]);
    let request = request(folder.path(), StyleName::Native);
    let nodes = OneSideEach { is_b_gone: true, ..OneSideEach::default() };
    let (result, exit_code) = written(Some((&nodes, NO_LIMIT)), &request, &folder.path().join("gone"));
    assert_eq!(exit_code, 2);
    assert_eq!(*nodes.failures.lock().unwrap(), ["node b is gone"]);
    assert!(result["result.json"].contains("node b is gone"));
}

#[test]
fn nothing_outside_the_rank_is_read_for_another_node() {
    let folder = dumps([true; 2]);
    fs::write(folder.path().join("golden/secret"), "secret").unwrap();
    let inside = folder.path().join("golden/step0/rank0");
    std::os::unix::fs::symlink(folder.path().join("golden"), inside.join("out")).unwrap();
    let listing: Value =
        serde_json::from_str(&units::find(&folder.path().join("golden")).unwrap().unwrap()).unwrap();
    let place = listing["dump"]["steps"][0]["ranks"][0].clone();
    let names: [PathBuf; 3] =
        ["../../secret".into(), folder.path().join("golden/secret"), "out/secret".into()];
    for name in names {
        let file = json!({"in_data": false, "path": name});
        let bytes = json!([{"file": file, "offset": 0, "length": 6}]);
        for asked in [json!({"Bytes": bytes}), json!({"Digests": [bytes, 1]})] {
            let question = json!({"place": place, "asked": asked}).to_string();
            let why = units::answer_about_files(&question).unwrap_err();
            assert!(why.contains("leads out of its folder") || why.contains("a link"), "{why}");
        }
        let states = json!({"place": place, "asked": {"States": [file]}}).to_string();
        let state = String::from_utf8(units::answer_about_files(&states).unwrap()).unwrap();
        assert!(state == "[\"Link\"]" || state == "[\"Missing\"]", "{state}");
    }
}
