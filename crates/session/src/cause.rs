//! What broke, as one would tell a colleague: the cause first, without numbers of how large it is.

use ulpscope_compare::{Divergence, FindingCause, LoneCall, OriginCounts, RankOutcome, Share, Side};
use ulpscope_dump::{CallKind, parse_key};

use crate::{next_step, other_divergences};

/// What happened, in a few sentences.
pub(super) fn sentences(step: Option<u64>, outcome: &RankOutcome, first: &Divergence) -> Vec<String> {
    let mut lines = vec![begun(&sentence(first))];
    let mut is_counted = false;
    match &first.finding.cause {
        FindingCause::Between => {
            lines.push("Something that was not recorded changed it in between.".to_owned());
        }
        FindingCause::Sum => {
            lines.push(
                "It was left over from before (zero_grad), changed by a hook, or made by what was not recorded."
                    .to_owned(),
            );
        }
        FindingCause::Lone(_) => {
            lines.push("What is computed from it is not the same in the two runs.".to_owned());
        }
        FindingCause::Left(_, name) => {
            lines.push(format!("What this step leaves in the {name} is not the same in the two runs."));
        }
        FindingCause::Origin => {
            let shown = format!("{} is the first that shows it.", begun(&spoken(&first.call)));
            let counted = outcome.origins.as_ref().and_then(|counts| counted(counts, first));
            is_counted = counted.is_some();
            lines.extend(counted);
            let whence = match next_step::origin_kind(first) {
                _ if next_step::was_trained(step, first) => {
                    "It was so when this step began: the steps before changed it."
                }
                Some("gradient") => {
                    "It is what backward passes added up, and what was done to it since: no single call is to blame."
                }
                _ if next_step::is_between_modules(outcome, first) => {
                    "At level L0 what happens between modules is not recorded: something there made it."
                }
                _ => "No recorded call made it, so no call is to blame.",
            };
            lines.push(format!("{whence} {shown}"));
        }
        _ => {}
    }
    if let Some(LoneCall { name, side }) =
        first.lone_before.as_ref().filter(|before| !is_instead(first, before))
    {
        lines.push(format!("Just before it, {} is in the {} only.", spoken(name), side.word()));
    }
    if !is_counted {
        lines.extend(other_divergences::likewise(outcome, first));
    }
    lines
}

/// The cause.
fn sentence(first: &Divergence) -> String {
    let (call, finding) = (spoken(&first.call), &first.finding);
    match &finding.cause {
        FindingCause::Sum => {
            format!("{} is not the same in the two runs, and no recorded call explains it.", gradient(first))
        }
        FindingCause::ArgumentsInBackward(arguments) => {
            format!("{call} is called with {arguments}, which shows in its gradients alone.")
        }
        FindingCause::Cut(side) => cut(&call, first, *side),
        FindingCause::Made => format!("{call} gives another result, though what it is given agrees."),
        FindingCause::Arguments(arguments) => format!("{call} is called with {arguments}."),
        FindingCause::Draw => {
            format!("the random numbers that {call} draws are not the same in the two runs.")
        }
        FindingCause::Origin => {
            format!("{} is not the same in the two runs.", next_step::origin_words(first))
        }
        FindingCause::Between => format!(
            "{call} gets another tensor in the target than in the golden ({}), though the call that made it agrees.",
            entry_words(first)
        ),
        FindingCause::Wiring => wiring(&call, first),
        FindingCause::Lone(side) => {
            match first.lone_before.as_ref().filter(|before| is_instead(first, before)) {
                Some(LoneCall { name, side: other }) => format!(
                    "only the {} calls {call}; the {} calls {} at this place.",
                    side.word(),
                    other.word(),
                    spoken(name)
                ),
                None => format!("only the {} calls {call}.", side.word()),
            }
        }
        FindingCause::Left(side, _) => format!("only the {} calls {call}.", side.word()),
        FindingCause::Cast => cast(&call, first),
        FindingCause::Shape => {
            format!("{call} gives a result of another shape, though what it is given has the same.")
        }
        FindingCause::GivenShape => format!("{call} works on another shape than in the golden."),
        FindingCause::NonFinite | FindingCause::BothNonFinite => {
            let dtype =
                first.exhibit.dtypes[0].as_deref().map(|dtype| format!(" ({dtype})")).unwrap_or_default();
            let runs = if finding.cause == FindingCause::BothNonFinite { ", in both runs" } else { "" };
            format!("{call} makes NaN or infinite values{dtype} out of finite ones{runs}.")
        }
        FindingCause::Rule => format!("{call} has the first failing row."),
    }
}

fn cut(call: &str, first: &Divergence, side: Side) -> String {
    let side = side.word();
    match &first.exhibit.source {
        Some(source) if source.starts_with("parameter") => {
            format!(
                "{} requires no gradient in the {side}: it is not trained there.",
                next_step::origin_words(first)
            )
        }
        _ => format!(
            "no gradient passes {call} in the {side}: it detaches, runs under no_grad, or asks for none."
        ),
    }
}

fn cast(call: &str, first: &Divergence) -> String {
    let [target, golden] =
        first.exhibit.dtypes.each_ref().map(|dtype| dtype.as_deref().unwrap_or("another dtype"));
    format!(
        "{call} computes in {target} in the target and in {golden} in the golden; most of the two runs is float32 or finer."
    )
}

fn wiring(call: &str, first: &Divergence) -> String {
    let entry = entry_words(first);
    let [target, golden] = [0, 1].map(|side| first.exhibit.sources[side].as_deref().map(made_by));
    match (target, golden) {
        (Some((one, result)), Some((other, other_result))) if one == other && result != other_result => {
            format!("{call} takes {entry} from {result} of {one}; in the golden, from {other_result}.")
        }
        (Some((target, _)), Some((golden, _))) if target != golden => {
            format!("{call} takes {entry} from {target}; in the golden, from {golden}.")
        }
        _ => format!("{call} takes {entry} from another call than in the golden."),
    }
}

/// The call that a source names, and which of its entries; what no call made, as it is.
fn made_by(source: &str) -> (String, &str) {
    match [".output.", ".input."].iter().filter_map(|word| source.rfind(word)).max() {
        Some(end) => (spoken(&source[..end]), &source[end + 1..]),
        None => match source.split_once(':') {
            Some((kind, name)) => (format!("the {kind} {name}"), ""),
            None => ("outside".to_owned(), ""),
        },
    }
}

/// Whether the call just before stands on the other side in the place of the first.
fn is_instead(first: &Divergence, before: &LoneCall) -> bool {
    matches!(first.finding.cause, FindingCause::Lone(side) if side != before.side)
}

/// How many others of the kind differ.
fn counted(counts: &OriginCounts, first: &Divergence) -> Option<String> {
    let source = first.exhibit.source.as_deref()?;
    if !source.starts_with("parameter") && !source.starts_with("buffer") {
        return None;
    }
    let words = |share: Share, kind: &str| {
        let s = if share.of == 1 { "" } else { "s" };
        (share.differ > 0).then(|| format!("{} of {} {kind}{s}", share.differ, share.of))
    };
    let told: Vec<String> = [words(counts.parameters, "parameter"), words(counts.buffers, "buffer")]
        .into_iter()
        .flatten()
        .collect();
    let is_one = counts.parameters.differ + counts.buffers.differ == 1;
    (!told.is_empty())
        .then(|| format!("In all, {} {}.", told.join(" and "), if is_one { "differs" } else { "differ" }))
}

/// `input.1` for `Functional.linear.0.forward.input.1`.
pub(super) fn entry_words(first: &Divergence) -> &str {
    let entry = &first.finding.entry;
    let own = entry.strip_prefix(first.call.as_str()).and_then(|rest| rest.strip_prefix('.'));
    own.unwrap_or(entry)
}

/// The gradient of a parameter, or of those of a module.
fn gradient(first: &Divergence) -> String {
    let (module, _, _) = parse_key(&first.call);
    match entry_words(first) {
        entry if entry == first.finding.entry => {
            format!("the gradient of the parameters of {module}, summed over its uses,")
        }
        parameter => format!("the gradient of the parameter {parameter} of {module}, summed over its uses,"),
    }
}

/// A call for a sentence: `Functional.linear.9`, `the backward pass of Functional.linear.9`.
pub(super) fn spoken(call: &str) -> String {
    let (base, number, kind) = parse_key(call);
    // A module's first use is the module.
    let is_module = base.starts_with("Module.") || base.starts_with("Cell.");
    let named = match number {
        Some(number) if !is_module || number > 0 => format!("{base}.{number}"),
        _ => base.to_owned(),
    };
    match kind {
        CallKind::Forward => named,
        CallKind::Backward => format!("the backward pass of {named}"),
        CallKind::ParametersGrad => format!("the gradient of the parameters of {base}"),
        _ => call.to_owned(),
    }
}

/// What calls of a kind have in common, for counting: `calls of Tensor.addcmul_`.
pub(super) fn kind_words(call: &str, count: u64) -> String {
    let (base, _, kind) = parse_key(call);
    match kind {
        CallKind::ParametersGrad if count == 1 => "gradient of a module's parameters".to_owned(),
        CallKind::ParametersGrad => "gradients of modules' parameters".to_owned(),
        CallKind::Backward if count == 1 => format!("backward pass of {base}"),
        CallKind::Backward => format!("backward passes of {base}"),
        CallKind::Saved if count == 1 => "saved tensor".to_owned(),
        CallKind::Saved => "saved tensors".to_owned(),
        _ if count == 1 => format!("call of {base}"),
        _ => format!("calls of {base}"),
    }
}

/// With a capital letter where it begins with a word of ours, and not with a name.
fn begun(sentence: &str) -> String {
    let is_ours = ["the ", "only ", "what ", "no "].iter().any(|word| sentence.starts_with(word));
    if is_ours { capital(sentence) } else { sentence.to_owned() }
}

/// With a capital letter.
pub(super) fn capital(sentence: &str) -> String {
    let mut letters = sentence.chars();
    match letters.next() {
        Some(first) => first.to_uppercase().chain(letters).collect(),
        None => String::new(),
    }
}
