//! The whole network: an NPU dump against the tensors of TensorFlow, paired by the graph.

use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use ulpscope_compare::network::{MIN_COSINE, Network, NetworkRequest, NetworkRow, RowState};
use ulpscope_dump::Select;
use ulpscope_formats::file::Unfinished;
use ulpscope_report::csv::CsvWriter;
use ulpscope_report::{Cell, Emphasis, Row};

use super::result_path;
use crate::reply::Reply;
use crate::session::Session;

/// Compares an NPU dump with a TF dump, and writes a result into a folder: one for each device and step. Returns the last
/// of them; the reply names the others.
pub(super) fn compare(
    session: &Session,
    [npu, tensors]: [&Path; 2],
    graph: Option<&Path>,
    folder: &dyn Fn() -> Result<PathBuf, String>,
) -> Result<(PathBuf, Reply), String> {
    let Some(graph) = graph else {
        let tensors = tensors.display();
        return Err(format!("{tensors}: operators of TensorFlow are found through the graph: add -g GRAPH"));
    };
    let request = NetworkRequest {
        target: npu.to_owned(),
        golden: tensors.to_owned(),
        graph: Some(graph.to_owned()),
        golden_graph: None,
        select: Select::default(),
        min_cosine: MIN_COSINE,
    };
    let networks = Network::open(&request).map_err(|error| error.to_string())?;
    let folder = folder()?;
    let mut reply = Reply::default();
    let mut last: Option<PathBuf> = None;
    for network in &networks {
        network.problems.iter().for_each(|problem| reply.error(format!("vc: {problem}")));
        network.notes.iter().for_each(|note| reply.warning(note.clone()));
        let path = result_path(&folder);
        let not_compared =
            write(session, network, &path).map_err(|error| format!("{}: {error}", path.display()))?;
        if not_compared > 0 {
            let npu = npu.display();
            reply
                .warning(format!("{not_compared} tensors of {npu} were not compared: see CompareFailReason"));
        }
        if let Some(former) = last.replace(path) {
            reply.line(&format!(
                "[INFO] The comparison result have been written to \"{}\".",
                former.display()
            ));
        }
    }
    last.map(|path| (path, reply)).ok_or_else(|| format!("{}: nothing to compare", npu.display()))
}

/// Writes the rows of a network; returns how many were not compared.
fn write(session: &Session, network: &Network, path: &Path) -> io::Result<u64> {
    let unfinished = Unfinished::create(path)?;
    let columns = network.columns(false);
    let mut sheet = CsvWriter::new(BufWriter::new(unfinished.file()), &columns.names())?;
    let mut not_compared = 0;
    network.compare(&|_| (), |row: NetworkRow| {
        session.cancel.go_on()?;
        not_compared += u64::from(matches!(row.state, RowState::NotCompared | RowState::Unmatched));
        let cells = row.cells(columns).into_iter().map(Cell::Text).collect();
        sheet.row(&Row { cells, emphasis: Emphasis::Plain })
    })?;
    sheet.finish()?.into_inner().map_err(io::IntoInnerError::into_error)?;
    unfinished.finish()?;
    Ok(not_compared)
}
