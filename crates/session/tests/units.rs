//! The same comparison in this process and as units that are answered elsewhere: the result is the same bytes.

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
    self, Dispatcher, Elsewhere, Located, LocatedMap, NodeListing, ResultFolders, UnitQueue,
};
use ulpscope_session::{
    FileOutputs, FileSink, Language, MappingFiles, Request, StyleName, Threads, execute, summary, write,
};

const CALLS: usize = 6;

/// A call whose inputs come from the call before; statistics with digits that JSON must return exactly.
fn tensor(mean: f64, source: Option<String>) -> Value {
    json!({
        "type": "torch.Tensor", "dtype": "torch.float32", "shape": [4, 32], "requires_grad": false,
        "Max": mean + 0.1, "Min": mean - 0.1, "Mean": mean, "Norm": mean * 11.313_708_498_984_761,
        "source": source,
    })
}

fn write_rank(folder: &Path, seed: usize, fault: Option<(usize, f64)>) {
    fs::create_dir_all(folder).unwrap();
    let name = |call: usize| format!("Functional.linear.{call}.forward");
    let mut data = serde_json::Map::new();
    let mut factor = 1.0;
    for call in 0..CALLS {
        let mean = |at: usize| 0.1 + 0.3 * (seed + at) as f64 / 7.0;
        let input =
            tensor(mean(call) * factor, call.checked_sub(1).map(|call| format!("{}.output.0", name(call))));
        if fault.is_some_and(|(at, _)| at == call) {
            factor = fault.unwrap().1;
        }
        let output = tensor(mean(call + 1) * factor, None);
        data.insert(name(call), json!({"input_args": [input], "input_kwargs": {}, "output": [output]}));
    }
    let dump = json!({"task": "statistics", "level": "L1", "framework": "pytorch", "data": data});
    fs::write(folder.join("dump.json"), dump.to_string()).unwrap();
    fs::write(folder.join("stack.json"), "{}").unwrap();
    fs::write(folder.join("construct.json"), "{}").unwrap();
}

/// Two steps of three ranks. Rank 1 has a fault in both steps, rank 2 is NaN in the second; rank 2 of the golden's step 0 is
/// damaged, and the golden has a rank more.
fn dumps(folder: &Path) -> (PathBuf, PathBuf) {
    let (target, golden) = (folder.join("target"), folder.join("golden"));
    for step in 0..2 {
        for rank in 0..3 {
            let place = format!("step{step}/rank{rank}");
            let fault = match (step, rank) {
                (_, 1) => Some((2, 1.5)),
                (1, 2) => Some((3, 1e300)),
                _ => None,
            };
            write_rank(&target.join(&place), 10 * step + rank, fault);
            write_rank(&golden.join(&place), 10 * step + rank, None);
        }
    }
    fs::write(golden.join("step0/rank2/dump.json"), "[]").unwrap();
    write_rank(&golden.join("step1/rank3"), 3, None);
    (target, golden)
}

fn request(target: &Path, golden: &Path) -> Request {
    Request {
        target: target.to_owned(),
        golden: golden.to_owned(),
        target_data: None,
        golden_data: None,
        style: StyleName::Native,
        matching: None,
        mapping: MappingFiles::default(),
        stack_column: false,
        noise: None,
        parallel: None,
        select: Select::default(),
        language: Language::English,
    }
}

/// Answers units on threads, the last first; some of them are lost.
#[derive(Default)]
struct InOtherOrder {
    answered: Mutex<Vec<String>>,
    lost: Vec<&'static str>,
    /// Node and the folder below the dump that it has.
    nodes: Vec<(&'static str, &'static str)>,
    asked: Mutex<Vec<String>>,
}

impl Dispatcher for InOtherOrder {
    fn find(&self, path: &Path, nodes: Option<&[String]>) -> Result<Vec<NodeListing>, String> {
        let is_asked = |node: &str| nodes.is_none_or(|nodes| nodes.iter().any(|name| name == node));
        let of_node = |(node, part): &(&str, &str)| {
            self.asked.lock().unwrap().push((*node).to_owned());
            // The same listing as on a machine that has these folders only.
            let whole = units::find(path)?;
            let listing: Value = serde_json::from_str(&whole.unwrap()).unwrap();
            Ok(Some(only(listing, part).to_string()))
        };
        let asked = self.nodes.iter().filter(|(node, _)| is_asked(node));
        Ok(asked.map(|one| NodeListing { node: one.0.to_owned(), found: of_node(one) }).collect())
    }

    fn dispatch(&self, queue: &Arc<UnitQueue>) -> Result<(), String> {
        for (number, unit) in queue.units().iter().enumerate().rev().filter(|(_, unit)| unit.is_open()) {
            if self.lost.contains(&unit.label.as_str()) {
                queue.fail(number, "its node was lost".to_owned());
                continue;
            }
            let job = queue.job(number)?;
            let answered = std::thread::spawn(move || units::answer(&job, None, units::Worker::default()))
                .join()
                .unwrap()?;
            queue.deliver(number, answered.answer.as_bytes(), &answered.rows)?;
            self.answered.lock().unwrap().push(unit.label.clone());
        }
        Ok(())
    }
}

/// The ranks of a listing whose names end in a digit of `part`.
fn only(mut listing: Value, part: &str) -> Value {
    let mut inputs = listing["inputs"].as_array().unwrap().clone().into_iter();
    let mut kept = Vec::new();
    for step in listing["dump"]["steps"].as_array_mut().unwrap() {
        step["ranks"].as_array_mut().unwrap().retain(|rank| {
            let of_rank = inputs.next().unwrap();
            let name = rank["name"].as_str().unwrap();
            let is_kept = part.contains(&name["rank".len()..]);
            if is_kept {
                kept.push(of_rank);
            }
            is_kept
        });
    }
    listing["inputs"] = kept.into();
    listing
}

/// What a comparison wrote and says, without seconds and the time in names.
#[derive(Debug, PartialEq)]
struct Outcome {
    files: BTreeMap<String, String>,
    summary: String,
    exit_code: u8,
}

fn here(request: &Request, folder: &Path) -> Outcome {
    fs::create_dir_all(folder).unwrap();
    let outputs = FileOutputs::new(Some(folder.to_owned()), request.style, vec![SheetFormat::Csv]);
    let engine = Threads { outputs: &outputs, progress: &NoProgress, prover: None };
    let compared = execute(request.clone(), &engine).unwrap();
    collect(compared, &outputs, folder)
}

fn elsewhere(
    request: &Request,
    folder: &Path,
    dispatcher: &dyn Dispatcher,
    located: Located,
    resume: bool,
) -> Outcome {
    fs::create_dir_all(folder).unwrap();
    let folders = ResultFolders { results: Some(folder), formats: &[SheetFormat::Csv] };
    let engine: Elsewhere<'_, FileSink> =
        Elsewhere::new(dispatcher, request, located.into(), folders, resume).unwrap();
    let outputs = FileOutputs::named(
        Some(folder.to_owned()),
        request.style,
        vec![SheetFormat::Csv],
        engine.timestamp(),
    );
    let compared = execute(request.clone(), &engine).unwrap();
    collect(compared, &outputs, folder)
}

fn collect(
    mut compared: ulpscope_session::Compared<FileSink>,
    outputs: &FileOutputs,
    folder: &Path,
) -> Outcome {
    compared.seconds = 0.0;
    let written = write(&mut compared, outputs, true);
    assert_eq!(written.failures, Vec::<String>::new());
    let exit_code = compared.agreement.exit_code();
    let stamp = written
        .files
        .iter()
        .filter_map(|path| path.file_stem()?.to_str()?.rsplit('_').next())
        .find(|part| part.len() == 14)
        .unwrap()
        .to_owned();
    let plain = |text: &str| text.replace(&stamp, "TIME").replace(folder.to_str().unwrap(), "DIR");
    let files = fs::read_dir(folder).unwrap().map(|item| item.unwrap().path()).filter(|path| path.is_file());
    let files = files.map(|path| {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        (plain(&name), plain(&fs::read_to_string(&path).unwrap()))
    });
    let summary = plain(&format!("{:?}", summary(&compared, &written.files)));
    Outcome { files: files.collect(), summary, exit_code }
}

#[test]
fn the_result_does_not_depend_on_the_engine() {
    let folder = TempDir::new().unwrap();
    let (target, golden) = dumps(folder.path());
    for style in StyleName::ALL {
        let request = Request { style, ..request(&target, &golden) };
        let name = style.to_string();
        let here = here(&request, &folder.path().join(&name));
        let dispatcher = InOtherOrder::default();
        let there =
            elsewhere(&request, &folder.path().join(name + "-units"), &dispatcher, Located::Shared, false);
        assert_eq!(dispatcher.answered.lock().unwrap().len(), 6);
        let sheets = here.files.keys().filter(|name| name.ends_with(".csv")).count();
        // ptdbg_ascend has other records, and refuses these.
        let is_refused = matches!(style, StyleName::Ptdbg | StyleName::Ptdbg6);
        assert!(sheets == 5 || is_refused && sheets == 0, "{style}: {:?}", here.files.keys());
        for (name, content) in &here.files {
            assert_eq!(there.files.get(name), Some(content), "{style}: {name}");
        }
        assert_eq!(here, there, "{style}");
    }
}

#[test]
fn what_was_compared_is_not_compared_again() {
    let folder = TempDir::new().unwrap();
    let (target, golden) = dumps(folder.path());
    let request = request(&target, &golden);
    let whole = here(&request, &folder.path().join("here"));
    let results = folder.path().join("units");

    let first = InOtherOrder { lost: vec!["step1_rank0", "step1_rank1"], ..InOtherOrder::default() };
    let partial = elsewhere(&request, &results, &first, Located::Shared, false);
    assert!(partial.files["result.json"].contains("its node was lost"));

    // A rank that could not be read is tried again; the others are not.
    let second = InOtherOrder::default();
    let resumed = elsewhere(&request, &results, &second, Located::Shared, true);
    assert_eq!(*second.answered.lock().unwrap(), ["step1_rank1", "step1_rank0", "step0_rank2"]);
    assert_eq!(resumed, whole);

    // A file that changed is compared again.
    write_rank(&target.join("step0/rank0"), 0, Some((4, 2.0)));
    let third = InOtherOrder::default();
    elsewhere(&request, &results, &third, Located::Shared, true);
    assert_eq!(*third.answered.lock().unwrap(), ["step0_rank2", "step0_rank0"]);

    // So is one whose answer was damaged, or whose sheet was moved away.
    fs::write(results.join("units/step1_rank2.json"), "{").unwrap();
    let sheet = fs::read_dir(&results).unwrap().map(|item| item.unwrap().path());
    let sheet =
        sheet.into_iter().find(|path| path.to_str().unwrap().contains("compare_result_step1_rank1")).unwrap();
    fs::remove_file(sheet).unwrap();
    let fourth = InOtherOrder::default();
    elsewhere(&request, &results, &fourth, Located::Shared, true);
    assert_eq!(*fourth.answered.lock().unwrap(), ["step1_rank2", "step1_rank1", "step0_rank2"]);

    // Without resume, everything is.
    let fifth = InOtherOrder::default();
    elsewhere(&request, &results, &fifth, Located::Shared, false);
    assert_eq!(fifth.answered.lock().unwrap().len(), 6);
}

#[test]
fn other_settings_are_not_resumed() {
    let folder = TempDir::new().unwrap();
    let (target, golden) = dumps(folder.path());
    let results = folder.path().join("units");
    let dispatcher = InOtherOrder::default();
    elsewhere(&request(&target, &golden), &results, &dispatcher, Located::Shared, false);
    let other = Request { style: StyleName::Msprobe, ..request(&target, &golden) };
    let folders = ResultFolders { results: Some(&results), formats: &[SheetFormat::Csv] };
    let refused = Elsewhere::<FileSink>::new(&dispatcher, &other, Located::Shared.into(), folders, true);
    let why = refused.err().unwrap().to_string();
    assert!(why.contains("other settings") && why.contains("without --resume"), "{why}");
}

#[test]
fn nodes_with_ranks_of_their_own_make_one_dump() {
    let folder = TempDir::new().unwrap();
    let (target, golden) = dumps(folder.path());
    let request = request(&target, &golden);
    let whole = here(&request, &folder.path().join("here"));
    let nodes = vec![("a", "0 2"), ("b", "13")];
    let dispatcher = InOtherOrder { nodes: nodes.clone(), ..InOtherOrder::default() };
    let there = elsewhere(&request, &folder.path().join("located"), &dispatcher, Located::Ask, false);
    assert_eq!(there, whole);

    // A map restricts which nodes are asked; what the others have is missing.
    let (map, problems) = units::locate(&dispatcher, &target).unwrap();
    assert!(problems.is_empty());
    let found: Vec<(Option<u64>, String, Vec<String>)> =
        map.ranks.iter().map(|one| (one.step, one.rank.clone(), one.nodes.clone())).collect();
    assert_eq!(found[1], (Some(0), "rank1".to_owned(), vec!["b".to_owned()]));
    assert_eq!(found.len(), 6);
    let path = folder.path().join("map.json");
    let ranks = map.ranks.into_iter().filter(|one| one.nodes == ["a"]).collect();
    let map = LocatedMap::new(&target, ranks);
    fs::write(&path, serde_json::to_string(&map).unwrap()).unwrap();
    let asked = InOtherOrder { nodes, ..InOtherOrder::default() };
    let located = Located::parse(&path).unwrap();
    elsewhere(&request, &folder.path().join("mapped"), &asked, located, false);
    assert!(asked.asked.lock().unwrap().iter().all(|node| node == "a"));
    assert_eq!(asked.answered.lock().unwrap().len(), 4);
}

#[test]
fn ranks_that_are_merged_are_one_unit() {
    let folder = TempDir::new().unwrap();
    let (target, golden) = (folder.path().join("target"), folder.path().join("golden"));
    for step in 0..2 {
        write_rank(&golden.join(format!("step{step}/rank0")), step, None);
        for rank in 0..2 {
            let fault = (step == 1 && rank == 1).then_some((2, 1.5));
            write_rank(&target.join(format!("step{step}/rank{rank}")), step, fault);
        }
    }
    let request = Request { parallel: Some("dp=2".parse().unwrap()), ..request(&target, &golden) };
    let here = here(&request, &folder.path().join("here"));
    assert!(here.summary.contains("should be the same on all ranks"), "{}", here.summary);
    let dispatcher = InOtherOrder::default();
    let there = elsewhere(&request, &folder.path().join("there"), &dispatcher, Located::Shared, false);
    assert_eq!(*dispatcher.answered.lock().unwrap(), ["step1_2_ranks", "step0_2_ranks"]);
    assert_eq!(there, here);

    // A node that has all of them answers; without one, that is said.
    let together = InOtherOrder { nodes: vec![("a", "01"), ("b", "1")], ..InOtherOrder::default() };
    assert_eq!(elsewhere(&request, &folder.path().join("a"), &together, Located::Ask, false), here);
    let apart = InOtherOrder { nodes: vec![("a", "0"), ("b", "1")], ..InOtherOrder::default() };
    let lost = elsewhere(&request, &folder.path().join("apart"), &apart, Located::Ask, false);
    assert_eq!(lost.exit_code, 2);
    assert!(lost.files["result.json"].contains("ranks that are merged must be on one node"));
    assert!(apart.answered.lock().unwrap().is_empty());
}

#[test]
fn several_ranks_and_one_need_to_know_how_work_is_shared() {
    let folder = TempDir::new().unwrap();
    let (target, golden) = (folder.path().join("target"), folder.path().join("golden"));
    write_rank(&golden.join("step0/rank"), 0, None);
    (0..2).for_each(|rank| write_rank(&target.join(format!("step0/rank{rank}")), 0, None));
    let outputs = FileOutputs::new(None, StyleName::Native, Vec::new());
    let engine = Threads { outputs: &outputs, progress: &NoProgress, prover: None };
    let compared = execute(request(&target, &golden), &engine).unwrap();
    assert_eq!(compared.agreement.exit_code(), 2);
    let notes = compared.notes.join("\n");
    assert!(notes.contains("say how, as in --parallel dp=2 or --parallel tp=2"), "{notes}");
}
