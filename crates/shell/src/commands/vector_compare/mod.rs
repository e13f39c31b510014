//! `vc`: the operators of an NPU dump against those of a second NPU dump, or against the tensors of TensorFlow.
//!
//! ```text
//! vc -lt NPU -rt NPU                   operators paired by type and name
//! vc -lt NPU -rt TF -g GRAPH           tensors paired by the graph (network)
//! vc                                   debug_0 against the TF dump, then against debug_1, each in every folder of a dump
//! ```

mod network;
mod npu_dumps;

use std::cell::OnceCell;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Instant;

use ulpscope_dump::Problems;

use super::convert::output_folder;
use super::result_summary;
use crate::folders::{DataKind, spelled};
use crate::npu_files::{Leaf, NpuFile, newest_leaves, npu_files};
use crate::options::Options;
use crate::reply::Reply;
use crate::session::Session;

/// Where ptdbg_ascend.parse puts results.
const OUTPUT: &str = "./parse_data/compare_result";

/// Operators of a result that are shown at once; `vcs` shows more.
const SHOWN: usize = 1;

/// Where a result goes: asked for once there is something to compare.
type Folder<'a> = &'a dyn Fn() -> Result<PathBuf, String>;

/// ptdbg_ascend.parse: `-g` is the ground truth.
pub(crate) fn parse(session: &Session, options: &Options) -> Reply {
    let sides = ["-m", "-g"].map(|option| spelled(Path::new(options.text(option).unwrap_or_default())));
    let folder = || output_folder(options.text("-out"), OUTPUT.as_ref());
    let started = Instant::now();
    match npu_dumps::compare(session, [&sides[0], &sides[1]], &folder) {
        Ok((path, mut reply)) => {
            closing_lines(&mut reply, &path, started);
            reply.line("[INFO] Compare finished!!");
            reply
        }
        Err(problem) => Reply::failed(format!("vc: {problem}")),
    }
}

/// precision_tool: `-g` is a graph, which two NPU dumps do not need.
pub(crate) fn precision_tool(session: &Session, options: &Options) -> Reply {
    let made = OnceCell::new();
    let folder = || made.get_or_init(|| new_folder(&session.folders.results())).clone();
    let graph = options.text("-g").map(Path::new);
    match ["-lt", "-rt"].map(|option| options.text(option).map(|side| spelled(Path::new(side)))) {
        [Some(mine), Some(golden)] => compare_sides(session, [&mine, &golden], graph, &folder),
        [None, None] => compare_all(session, graph, &folder),
        _ => Reply::failed("vc: -lt and -rt go together: vc -lt NPU_DUMP -rt NPU_DUMP|TF_DUMP"),
    }
}

/// Compares two folders: the right one decides how. Its worst operators follow.
fn compare_sides(session: &Session, sides: [&Path; 2], graph: Option<&Path>, folder: Folder<'_>) -> Reply {
    if let Some(side) = sides.iter().find(|side| !side.exists()) {
        return Reply::failed(format!("vc: {}: no such folder", side.display()));
    }
    let started = Instant::now();
    let is_npu = npu_files(sides[1], &mut Problems::default()).iter().any(NpuFile::is_of_operator);
    let compared = if is_npu {
        npu_dumps::compare(session, sides, folder)
    } else {
        network::compare(session, sides, graph, folder)
    };
    match compared {
        Ok((path, mut reply)) => {
            closing_lines(&mut reply, &path, started);
            reply.add(result_summary::of_file(&path, result_summary::COSINE, SHOWN));
            reply
        }
        Err(problem) => Reply::failed(format!("vc: {problem}")),
    }
}

/// Every folder of the newest dump of debug_0 against the TF dump, and against the same folder of debug_1.
fn compare_all(session: &Session, graph: Option<&Path>, folder: Folder<'_>) -> Reply {
    let mut problems = Problems::default();
    let runs = session.folders.debug_runs();
    let mut dumps = runs.iter().map(|run| {
        let leaves: Vec<Leaf> =
            run.dumps.iter().flat_map(|place| newest_leaves(place, &mut problems)).collect();
        (run, leaves)
    });
    let Some((first, mine)) = dumps.next().filter(|(_, leaves)| !leaves.is_empty()) else {
        return Reply::failed(format!("vc: {}", session.folders.missing(DataKind::NpuDump)));
    };
    let second = dumps.next().map(|(_, leaves)| leaves).unwrap_or_default();
    drop(dumps);
    let mut reply = Reply::default();
    problems.listed().iter().for_each(|problem| reply.error(format!("vc: {problem}")));
    let tensors = session.folders.places(DataKind::TfDump).into_iter().find(|place| place.is_dir());
    if tensors.is_none() && second.is_empty() {
        reply.error(format!("vc: {}, and no second NPU dump", session.folders.missing(DataKind::TfDump)));
        return reply;
    }
    for leaf in &mine {
        if session.cancel.is_asked() {
            break;
        }
        if let Some(tensors) = &tensors {
            // The graph of this model, if its folder names it; otherwise all of the run.
            let own = session.graphs.file_of(first, &leaf.below_run);
            let place = first.graphs.iter().find(|place| place.is_dir()).cloned();
            let graph = graph.map(Path::to_owned).or(own).or(place);
            reply.add(compare_sides(session, [&leaf.folder, tensors], graph.as_deref(), folder));
        }
        let position = |one: &&Leaf| one.position() == leaf.position();
        let number = mine.iter().filter(position).position(|one| one.folder == leaf.folder).unwrap_or(0);
        match second.iter().filter(position).nth(number) {
            Some(other) => {
                reply.add(compare_sides(session, [&leaf.folder, &other.folder], None, folder));
            }
            None if !second.is_empty() => {
                let folder = leaf.folder.display();
                reply.warning(format!("{folder}: debug_1 has no dump of the same device and step"));
            }
            None => {}
        }
    }
    reply
}

fn closing_lines(reply: &mut Reply, path: &Path, started: Instant) {
    let seconds = started.elapsed().as_secs();
    reply.line(&format!("[INFO] The comparison result have been written to \"{}\".", path.display()));
    reply.line(&format!("[INFO] The command was completed and took {seconds} seconds."));
}

/// Makes the folder of a run below that of all results, named after the first second that no other run has taken.
fn new_folder(results: &Path) -> Result<PathBuf, String> {
    let results = output_folder(None, results)?;
    let mut moment = jiff::Zoned::now();
    loop {
        let folder = results.join(moment.strftime("%Y%m%d%H%M%S").to_string());
        let next = moment.checked_add(jiff::ToSpan::second(1));
        match (fs::create_dir(&folder), next) {
            (Ok(()), _) => return Ok(folder),
            (Err(error), Ok(next)) if error.kind() == ErrorKind::AlreadyExists => moment = next,
            (Err(error), _) => return Err(format!("cannot make the folder {}: {error}", folder.display())),
        }
    }
}

/// The first name `result_{14 digits}.csv` that is not taken.
fn result_path(folder: &Path) -> PathBuf {
    let mut moment = jiff::Zoned::now();
    loop {
        let path = folder.join(format!("result_{}.csv", moment.strftime("%Y%m%d%H%M%S")));
        match moment.checked_add(jiff::ToSpan::second(1)) {
            Ok(next) if path.exists() => moment = next,
            _ => return path,
        }
    }
}
