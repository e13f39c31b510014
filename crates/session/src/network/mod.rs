//! The comparison of a whole network: rows as they are measured go to msaccucmp's sheets, and what they say together is
//! counted.
//!
//! ```text
//! NetworkRequest ──► Network (one for each step and device) ──► rows ──► result_{time}.csv, mapping_{time}.csv
//!                                                                 └────► NetworkOutcome ──► summary, JSON
//! ```

mod outcome;
mod sheets;
mod single_op;
mod summary;

use std::convert::Infallible;
use std::path::PathBuf;
use std::time::Instant;

use serde_json::{Value, json};
use ulpscope_compare::Progress;
use ulpscope_compare::network::{Network, NetworkError, NetworkRequest, NetworkRow, TensorPlace};
use ulpscope_formats::Watch;

pub use outcome::{DivergingOp, NetworkOutcome, UnmatchedTensor};
use sheets::NetworkSheets;
pub use summary::network_summary;

use crate::timestamp;

/// What to write of a network.
#[derive(Clone, Debug, Default)]
pub struct NetworkOutputs {
    /// Where; without a folder nothing is written.
    pub folder: Option<PathBuf>,
    /// Whether rows say if a float16 tensor has reached the end of its range.
    pub has_overflow: bool,
    /// Whether the list of pairs and their files is written too.
    pub has_mapping: bool,
    /// A tensor whose elements are written, and how many of the largest differences.
    pub single_op: Option<(TensorPlace, usize)>,
}

/// The result, except for the rows.
#[derive(Debug)]
pub struct ComparedNetwork {
    /// The request.
    pub request: NetworkRequest,
    /// One for each step and device.
    pub outcomes: Vec<NetworkOutcome>,
    /// The files that were written.
    pub files: Vec<PathBuf>,
    /// What could not be written, and why.
    pub failures: Vec<String>,
    /// How long it took.
    pub seconds: f64,
}

/// Compares a network and writes its files. Fails only if nothing can be compared.
pub fn execute_network(
    request: NetworkRequest,
    outputs: &NetworkOutputs,
    progress: &dyn Progress,
) -> Result<ComparedNetwork, NetworkError> {
    let start = Instant::now();
    let watch = Watch::start();
    let networks = Network::open(&request)?;
    let stamp = timestamp::now(outputs.folder.as_deref());
    let several = networks.len() > 1;
    let mut compared = ComparedNetwork {
        request,
        outcomes: Vec::new(),
        files: Vec::new(),
        failures: Vec::new(),
        seconds: 0.0,
    };
    for network in &networks {
        let folder = outputs.folder.as_ref().map(|folder| match place_name(network) {
            name if several => folder.join(name),
            _ => folder.clone(),
        });
        progress.start(network.units() as u64);
        let mut sheets = NetworkSheets::open(folder.as_deref(), &stamp, network, outputs);
        let mut outcome = NetworkOutcome::of(network);
        let done = |units: usize| (0..units).for_each(|_| progress.advance(0));
        let Ok(()) = network.compare(&done, |row: NetworkRow| {
            sheets.row(&row);
            outcome.take(&row);
            Ok::<(), Infallible>(())
        });
        outcome.finish();
        if let (Some((place, rows)), Some(folder)) = (&outputs.single_op, &folder) {
            let details = network.single_op(place)?;
            single_op::write(&details, place, *rows, folder, &mut compared.files, &mut compared.failures);
        }
        sheets.finish(&mut compared.files, &mut compared.failures);
        compared.outcomes.push(outcome);
    }
    watch.check()?;
    compared.seconds = start.elapsed().as_secs_f64();
    Ok(compared)
}

/// `step0_device0`, for the folder of one of several results.
fn place_name(network: &Network) -> String {
    let step = network.step.map(|step| format!("step{step}"));
    let device = Some(network.device.clone()).filter(|device| !device.is_empty());
    let parts: Vec<String> = step.into_iter().chain(device).collect();
    if parts.is_empty() { "network".to_owned() } else { parts.join("_") }
}

impl ComparedNetwork {
    /// `agree`, `differ` or `inconclusive`, and the exit code that stands for it.
    pub fn answer(&self) -> (&'static str, u8) {
        let sum = |count: fn(&NetworkOutcome) -> u64| self.outcomes.iter().map(count).sum::<u64>();
        let (agree, differ) = (sum(|one| one.agree), sum(|one| one.differ));
        let not_compared = sum(|one| one.not_compared);
        match (agree, differ, not_compared) {
            (_, 1.., _) => ("differ", 1),
            (1.., 0, 0) => ("agree", 0),
            _ => ("inconclusive", 2),
        }
    }

    /// Everything as one JSON object.
    pub fn document(&self) -> Value {
        let path = |path: &PathBuf| path.display().to_string();
        let (agreement, _) = self.answer();
        json!({
            "target": path(&self.request.target),
            "golden": path(&self.request.golden),
            "graph": self.request.graph.as_ref().map(path),
            "agreement": agreement,
            "min_cosine": self.request.min_cosine,
            "networks": self.outcomes.iter().map(NetworkOutcome::document).collect::<Vec<_>>(),
            "files": self.files.iter().map(path).collect::<Vec<_>>(),
            "failures": self.failures,
            "seconds": self.seconds,
        })
    }
}
