//! `ulpscope compare --graph`: compares a whole network of an Ascend device.

use anyhow::Context;
use ulpscope_compare::network::{MIN_COSINE, NetworkRequest, TensorPlace};
use ulpscope_dump::Select;
use ulpscope_session::{ComparedNetwork, NetworkOutputs, NumberRanges, execute_network, network_summary};

use crate::args::CompareArgs;
use crate::commands::compare::CallProgress;
use crate::exit::Exit;
use crate::output::{Output, unless_broken_pipe};

/// Elements listed of a tensor.
const TOP: usize = 20;

/// The request.
pub(crate) struct CompareNetwork {
    request: NetworkRequest,
    outputs: NetworkOutputs,
    json: bool,
}

impl CompareNetwork {
    /// The request, if a graph was named.
    pub(crate) fn asked_for(args: &CompareArgs) -> anyhow::Result<Option<CompareNetwork>> {
        let options = &args.network;
        let Some(graph) = options.graph.clone() else { return Ok(None) };
        let min_cosine = options.min_cosine.unwrap_or(MIN_COSINE);
        anyhow::ensure!((-1.0..=1.0).contains(&min_cosine), "--min-cosine must be between -1 and 1");
        anyhow::ensure!(
            args.output.is_some() || options.op.is_none() && !options.mapping,
            "--op and --map write files: add -o DIR"
        );
        let chosen = |numbers: &Option<NumberRanges>| {
            numbers.clone().map(|NumberRanges(numbers)| numbers).unwrap_or_default()
        };
        let place = options.op.clone().map(|op| TensorPlace {
            op,
            is_input: options.op_input.is_some(),
            number: options.op_input.or(options.op_output).unwrap_or(0),
        });
        Ok(Some(CompareNetwork {
            request: NetworkRequest {
                target: args.target.clone().unwrap_or_default(),
                golden: args.golden.clone().unwrap_or_default(),
                graph: Some(graph),
                golden_graph: options.golden_graph.clone(),
                select: Select { steps: chosen(&args.step), ranks: chosen(&args.rank) },
                min_cosine,
            },
            outputs: NetworkOutputs {
                folder: args.output.clone(),
                has_overflow: options.overflow_detection,
                has_mapping: options.mapping,
                single_op: place.map(|place| (place, options.top.unwrap_or(TOP))),
            },
            json: args.json,
        }))
    }

    pub(crate) fn run(self, output: &mut Output) -> anyhow::Result<Exit> {
        if let Some(folder) = &self.outputs.folder {
            std::fs::create_dir_all(folder)
                .with_context(|| format!("cannot make the folder {}", folder.display()))?;
        }
        let progress = CallProgress::new();
        let compared = execute_network(self.request, &self.outputs, &progress)?;
        drop(progress);
        let shown = if self.json {
            output.json(&compared.document())
        } else {
            network_summary(&compared).iter().try_for_each(|block| output.block(block))
        };
        unless_broken_pipe(shown)?;
        let notes: Vec<String> = compared.outcomes.iter().flat_map(|outcome| outcome.notes.clone()).collect();
        output.notes_and_errors(&notes, &compared.failures);
        Ok(exit_of(&compared))
    }
}

fn exit_of(compared: &ComparedNetwork) -> Exit {
    let answer = match compared.answer() {
        (_, 0) => Exit::Done,
        (_, 1) => Exit::Differ,
        _ => Exit::NotRead,
    };
    let written = if compared.failures.is_empty() { Exit::Done } else { Exit::Failed };
    written.max(answer)
}
