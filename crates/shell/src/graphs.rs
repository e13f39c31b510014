//! The graphs of the runs, read once: a graph of hundreds of megabytes takes seconds.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use ulpscope_graph::{Graph, GraphFile, graph_files, is_built, open};

use crate::folders::DebugRun;
use crate::reply::Reply;

/// Larger graphs are not read for a completion: the user would wait at the keyboard.
const MAX_COMPLETED_BYTES: u64 = 32 << 20;

/// What is the same as long as a file is.
type Stamp = (u64, Option<SystemTime>);

/// Files by path.
type ReadFiles = HashMap<PathBuf, (Stamp, Arc<GraphFile>)>;

/// Graphs that were read. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct GraphStore {
    read: Arc<Mutex<ReadFiles>>,
}

impl GraphStore {
    /// The graph files of a run. What cannot be read is reported.
    pub(crate) fn of_run(&self, run: &DebugRun, reply: &mut Reply) -> Vec<Arc<GraphFile>> {
        let mut found = Vec::new();
        for path in files(run, reply) {
            match self.file(&path) {
                Ok(file) => found.push(file),
                Err(problem) => reply.error(problem),
            }
        }
        found
    }

    /// The file with the graph that a folder of a dump is named after; `NAME` of the graph may be `NAME_0` there.
    pub(crate) fn file_of(&self, run: &DebugRun, folders: &[String]) -> Option<PathBuf> {
        let is_named = |graph: &Graph| {
            let is_it = |folder: &String| *folder == graph.name || *folder == format!("{}_0", graph.name);
            folders.iter().any(is_it)
        };
        let found = self.of_run(run, &mut Reply::default());
        found.iter().find(|file| file.graphs.iter().any(is_named)).map(|file| file.path.clone())
    }

    /// The names of operators that begin with a text, for a completion.
    pub(crate) fn op_names(&self, runs: &[DebugRun], beginning: &str) -> Vec<String> {
        let mut names = Vec::new();
        for path in runs.iter().flat_map(|run| files(run, &mut Reply::default())) {
            let is_small = fs::metadata(&path).is_ok_and(|metadata| metadata.len() <= MAX_COMPLETED_BYTES);
            let is_read = self.read.lock().is_ok_and(|read| read.contains_key(&path));
            if !is_small && !is_read {
                continue;
            }
            let Ok(file) = self.file(&path) else { continue };
            let ops = file.graphs.iter().flat_map(|graph| &graph.ops);
            names.extend(ops.map(|op| op.name.clone()).filter(|name| name.starts_with(beginning)));
        }
        names.sort_unstable();
        names.dedup();
        names
    }

    fn file(&self, path: &Path) -> Result<Arc<GraphFile>, String> {
        let stamp = fs::metadata(path).map(|metadata| (metadata.len(), metadata.modified().ok()));
        let stamp = stamp.map_err(|error| format!("{}: {error}", path.display()))?;
        if let Ok(read) = self.read.lock()
            && let Some((known, file)) = read.get(path)
            && *known == stamp
        {
            return Ok(Arc::clone(file));
        }
        let mut files = open(path).map_err(|error| error.to_string())?;
        let file = Arc::new(files.swap_remove(0));
        if let Ok(mut read) = self.read.lock() {
            read.insert(path.to_owned(), (stamp, Arc::clone(&file)));
        }
        Ok(file)
    }
}

/// The graph files of a run: those of the stage Build, or else the last one.
fn files(run: &DebugRun, reply: &mut Reply) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for place in run.graphs.iter().filter(|place| place.is_dir()) {
        match graph_files(place) {
            Ok(files) => found.extend(files),
            Err(error) => reply.error(error.to_string()),
        }
    }
    if found.iter().any(|file| is_built(file)) {
        found.retain(|file| is_built(file));
    } else if found.len() > 1 {
        // The number in the name counts the stages.
        let last = found.split_off(found.len() - 1);
        let name = last[0].display().to_string();
        reply.warning(format!(
            "{}: {} graphs, none of the stage Build: the last, {name}",
            run.id,
            found.len() + 1
        ));
        found = last;
    }
    found
}

/// The runs that have graphs; an error in the reply if none has.
pub(crate) fn graphs_of_runs(
    session: &crate::session::Session,
    command: &str,
    reply: &mut Reply,
) -> Vec<(String, Vec<Arc<GraphFile>>)> {
    let mut found = Vec::new();
    for run in session.folders.debug_runs() {
        let graphs = session.graphs.of_run(&run, reply);
        if !graphs.is_empty() {
            found.push((run.id, graphs));
        }
    }
    if found.is_empty() {
        let missing = session.folders.missing(crate::folders::DataKind::NpuGraph);
        reply.error(format!("{command}: {missing}"));
    }
    found
}
