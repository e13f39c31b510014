//! Tensors that no recorded call produced: parameters, buffers, accumulated gradients, inputs.

use ulpscope_compare::{Divergence, RankOutcome};
use ulpscope_dump::parse_key;

use crate::statement::{History, Origin, OriginSource};

/// The kind and name of a tensor's source, as the dump has it.
pub(crate) fn named(first: &Divergence) -> Option<(&str, &str)> {
    match first.shown.source.as_deref()?.split_once(':') {
        Some((kind @ ("parameter" | "buffer" | "gradient"), name)) => Some((kind, name)),
        _ => None,
    }
}

/// The tensor that a divergence shows.
pub(crate) fn of(first: &Divergence) -> Origin {
    let entry = entry_within_call(first);
    let is_argument = entry != first.finding.entry;
    let source = match named(first) {
        Some(("parameter", name)) => OriginSource::Parameter(name.to_owned()),
        Some(("buffer", name)) => OriginSource::Buffer(name.to_owned()),
        Some((_, name)) => OriginSource::Gradient(name.to_owned()),
        None => match argument_name(&first.call, entry) {
            Some(name) => OriginSource::Argument(name.to_owned()),
            None => OriginSource::Input,
        },
    };
    Origin { source, entry: entry.to_owned(), call: is_argument.then(|| first.call.clone()) }
}

/// Why no call is to blame for it.
pub(crate) fn history(step: Option<u64>, outcome: &RankOutcome, first: &Divergence) -> History {
    match named(first) {
        _ if was_trained(step, first) => History::Trained,
        Some(("gradient", _)) => History::Accumulated,
        _ if is_between_modules(outcome, first) => History::BetweenModules,
        _ => History::Unrecorded,
    }
}

/// Whether it is a parameter or a buffer at a later step, which the steps before may have changed.
pub(crate) fn was_trained(step: Option<u64>, first: &Divergence) -> bool {
    step.is_some_and(|step| step > 0) && matches!(named(first), Some(("parameter" | "buffer", _)))
}

/// Whether a module's input may have been computed between modules, where nothing is recorded.
pub(crate) fn is_between_modules(outcome: &RankOutcome, first: &Divergence) -> bool {
    named(first).is_none() && outcome.levels.iter().flatten().any(|level| level == "L0")
}

/// `input.1` for `Functional.linear.0.forward.input.1`; the whole name if the entry belongs to no call.
pub(crate) fn entry_within_call(first: &Divergence) -> &str {
    let entry = &first.finding.entry;
    let own = entry.strip_prefix(first.call.as_str()).and_then(|rest| rest.strip_prefix('.'));
    own.unwrap_or(entry)
}

/// Torch's name of a weight argument, if the dump does not name it.
fn argument_name(call: &str, entry: &str) -> Option<&'static str> {
    let (base, _, _) = parse_key(call);
    let operation = base.rsplit('.').next().unwrap_or(base);
    let names: &[&str] = match operation {
        "linear" | "conv1d" | "conv2d" | "conv3d" | "conv_transpose1d" | "conv_transpose2d"
        | "conv_transpose3d" => &["", "weight", "bias"],
        "embedding" => &["", "weight"],
        "layer_norm" => &["", "", "weight", "bias"],
        "batch_norm" => &["", "running_mean", "running_var", "weight", "bias"],
        _ => &[],
    };
    let position: usize = entry.strip_prefix("input.")?.parse().ok()?;
    names.get(position).copied().filter(|name| !name.is_empty())
}
