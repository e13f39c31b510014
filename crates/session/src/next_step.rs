//! The one thing to do next, with the command or the code for it.
//!
//! Chosen by what is least known: elements where there are only statistics, the floor where it is doubtful, else the
//! place itself.

use std::path::Path;

use ulpscope_compare::{
    Agreement, Divergence, FinalResult, FindingCause, FindingKind, Precision, RankOutcome, RankResult, Side,
};
use ulpscope_dump::{CallKind, parse_key};

use crate::cause::{entry_words, spoken};
use crate::{Compared, non_finite};

/// From this confidence on a finding is taken for true.
pub(super) const SURE: f64 = 0.7;

/// What to do about a divergence.
pub(super) fn next<S>(compared: &Compared<S>, rank: &RankResult<S>, first: &Divergence) -> Vec<String> {
    let files = match &first.exhibit.files {
        [Some(target), Some(golden)] => Some((target.as_path(), golden.as_path())),
        _ => None,
    };
    match first.finding.kind {
        _ if is_changed_between(first) => between(compared, rank, first),
        FindingKind::OriginDiffers if was_trained(rank.step, first) => trained(compared, rank, first),
        FindingKind::OriginDiffers
            if rank.result.as_ref().is_ok_and(|(outcome, _)| is_between_modules(outcome, first))
                && first.finding.cause == FindingCause::Origin =>
        {
            vec![
                "Record the calls between modules, too, on both sides, and compare these dumps:".to_owned(),
                format!(
                    "  ulpscope run --dump-path NEW_DUMP --level mix --task tensor{} -- YOUR_SCRIPT.py",
                    step(rank)
                ),
            ]
        }
        FindingKind::OriginDiffers => origin(first, files),
        FindingKind::NonFiniteBornHere => not_finite(compared, rank, first),
        FindingKind::DifferentProgram => program(compared, rank, first),
        FindingKind::DivergedHere if first.finding.looks_like.is_some() => precision(first),
        FindingKind::DivergedHere | FindingKind::FailedRule => match files {
            None => dump_tensors(rank, first),
            Some(_) if first.finding.confidence < SURE => vec![
                "Measure the floor. Run the golden once more in a way that should not matter (other thread count, \
                 other kernel), and compare with that as the noise:"
                    .to_owned(),
                compare_again(compared, " --noise SECOND_GOLDEN"),
            ],
            Some((target, golden)) => {
                let mut lines = vec![
                    "See which elements are off, and how:".to_owned(),
                    format!("  ulpscope diff {} {}", quoted(target), quoted(golden)),
                ];
                if parse_key(&first.call).2 == CallKind::ParametersGrad {
                    lines.push(
                        "Look for what changes this gradient beside the backward pass: gradients that are not cleared, \
                         hooks, a weight that only one side shares."
                            .to_owned(),
                    );
                }
                lines
            }
        },
    }
}

/// What to do where no call introduced an error.
pub(super) fn when_nothing_broke<S>(compared: &Compared<S>) -> Vec<String> {
    let only_statistics = compared.outcomes().all(|outcome| outcome.bytes == 0);
    let lone = compared.outcomes().find_map(|outcome| outcome.partnerless.first());
    if let Some((_, error)) = compared.errors().next() {
        return vec![format!("Make the dump readable, and compare again: {error}")];
    }
    if let Some([target, golden]) = other_levels(compared) {
        let level = if target == "mix" || golden == "mix" { "mix" } else { target };
        return vec![
            "Capture both sides at the same level, and compare again:".to_owned(),
            format!("  ulpscope run --dump-path NEW_DUMP --level {level} --task tensor -- YOUR_SCRIPT.py"),
        ];
    }
    if let Agreement::FinalResult(result) = &compared.agreement {
        return towards(compared, result);
    }
    if let Some(lone) = lone.filter(|_| !compared.agreement.is_agree()) {
        let dump = match lone.side {
            Side::Target => &compared.request.target,
            Side::Golden => &compared.request.golden,
        };
        return vec![
            "Check whether the calls without a counterpart matter, starting with the first:".to_owned(),
            format!("  ulpscope show {} {}", quoted(dump), quoted(Path::new(&lone.name))),
        ];
    }
    if only_statistics && compared.counts().rows > 0 {
        return vec![
            "If the runs still end in different places, dump the tensors on both sides, and compare again:"
                .to_owned(),
            "  ulpscope run --dump-path NEW_DUMP --level mix --task tensor -- YOUR_SCRIPT.py".to_owned(),
        ];
    }
    Vec::new()
}

/// What to do where a final result differs and no call explains it.
fn towards<S>(compared: &Compared<S>, result: &FinalResult) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(step) = &result.step {
        lines.push(
            "Check this step in both programs: same scale, mask, constants and order of operations?"
                .to_owned(),
        );
        lines.push(format!(
            "  ulpscope show {} {}",
            quoted(&compared.request.target),
            quoted(Path::new(&step.call))
        ));
    }
    lines.push(
        "If healthy runs of these two programs differ as much, measure that with a second golden run (other thread count, \
         other kernel):"
            .to_owned(),
    );
    lines.push(compare_again(compared, " --noise SECOND_GOLDEN"));
    lines
}

/// The levels of the two sides, where they were captured at different ones.
pub(super) fn other_levels<S>(compared: &Compared<S>) -> Option<[&str; 2]> {
    compared.outcomes().find_map(|outcome| match &outcome.levels {
        [Some(target), Some(golden)] if target != golden => Some([target.as_str(), golden.as_str()]),
        _ => None,
    })
}

/// The command that compares the same once more, in our own style.
pub(super) fn compare_again<S>(compared: &Compared<S>, options: &str) -> String {
    let request = &compared.request;
    let chosen = |flag: &str, numbers: &[u64]| {
        let numbers: Vec<String> = numbers.iter().map(u64::to_string).collect();
        if numbers.is_empty() { String::new() } else { format!(" {flag} {}", numbers.join(",")) }
    };
    let select = &request.select;
    let options = format!("{}{}{options}", chosen("--step", &select.steps), chosen("--rank", &select.ranks));
    format!("  ulpscope compare {} {}{options} -o RESULT", quoted(&request.target), quoted(&request.golden))
}

/// Whether a tensor is another than the one its maker gave.
fn is_changed_between(first: &Divergence) -> bool {
    first.finding.cause == FindingCause::Between
}

/// Whether what differs is a parameter or a buffer at a later step, which the steps before may have changed.
pub(super) fn was_trained(step: Option<u64>, first: &Divergence) -> bool {
    step.is_some_and(|step| step > 0) && matches!(origin_kind(first), Some("parameter" | "buffer"))
}

/// What kind of thing differs from the start: `parameter`, `buffer`, `gradient`, `outside`.
pub(super) fn origin_kind(first: &Divergence) -> Option<&str> {
    first.exhibit.source.as_deref().and_then(origin_of).map(|(kind, _)| kind)
}

/// Whether a tensor that a module gets may have been made where nothing is recorded.
pub(super) fn is_between_modules(outcome: &RankOutcome, first: &Divergence) -> bool {
    let is_named = matches!(origin_kind(first), Some("parameter" | "buffer" | "gradient"));
    !is_named && outcome.levels.iter().flatten().any(|level| level == "L0")
}

/// What comes from outside, by its kind and name.
fn origin_of(source: &str) -> Option<(&str, &str)> {
    match source.split_once(':') {
        Some((kind @ ("parameter" | "buffer" | "gradient"), name)) => Some((kind, name)),
        _ if source == "outside" => Some(("outside", "")),
        _ => None,
    }
}

/// What differs from the start, for a sentence.
pub(super) fn origin_words(first: &Divergence) -> String {
    let (entry, call) = (entry_words(first), spoken(&first.call));
    let place = if entry == first.finding.entry { entry.to_owned() } else { format!("{entry} of {call}") };
    match first.exhibit.source.as_deref().and_then(origin_of) {
        Some(("parameter", name)) => format!("the parameter {name} ({place})"),
        Some(("buffer", name)) => format!("the buffer {name} ({place})"),
        Some(("gradient", name)) => format!("the gradient of {name} ({place})"),
        _ => match argument_name(&first.call, entry) {
            Some(name) => format!("the {name} of {call} ({entry})"),
            None if entry == first.finding.entry => place,
            None => format!("what {call} is given as {entry}"),
        },
    }
}

/// What torch calls an argument that is a weight, where the dump does not name it.
fn argument_name(call: &str, entry: &str) -> Option<&'static str> {
    let (base, _, _) = parse_key(call);
    let operation = base.rsplit('.').next().unwrap_or(base);
    let names: &[&str] = match operation {
        "linear" | "conv1d" | "conv2d" | "conv3d" | "conv_transpose1d" | "conv_transpose2d"
        | "conv_transpose3d" => &["", "weight", "bias"],
        "embedding" => &["", "weight"],
        "layer_norm" => &["", "", "weight", "bias"],
        "batch_norm" => &["", "running mean", "running variance", "weight", "bias"],
        _ => &[],
    };
    let position: usize = entry.strip_prefix("input.")?.parse().ok()?;
    names.get(position).copied().filter(|name| !name.is_empty())
}

fn trained<S>(compared: &Compared<S>, rank: &RankResult<S>, first: &Divergence) -> Vec<String> {
    let this = rank.step.unwrap_or_default();
    let before = compared.ranks.iter().filter(|other| other.target == rank.target);
    // What was compared before agrees, or is listed.
    let begin = before.filter_map(|other| other.step).filter(|&step| step < this).max().unwrap_or_default();
    let last = this.saturating_sub(1);
    let steps = if begin >= last { last.to_string() } else { format!("{begin}-{last}") };
    let mut lines =
        vec!["Record what happens before this step on both sides, and compare these dumps:".to_owned()];
    lines.push(format!(
        "  ulpscope run --dump-path NEW_DUMP --level mix --task tensor --step {steps} -- YOUR_SCRIPT.py"
    ));
    if let Some((_, name)) = first.exhibit.source.as_deref().and_then(origin_of) {
        lines.push(format!(
            "If they agree, look at what writes into {name}: the optimizer, a schedule, a checkpoint that is loaded."
        ));
    }
    lines
}

fn origin(first: &Divergence, files: Option<(&Path, &Path)>) -> Vec<String> {
    let mut lines = match first.exhibit.source.as_deref().and_then(origin_of) {
        Some((kind @ ("parameter" | "buffer"), name)) => {
            let getter = if kind == "parameter" { "get_parameter" } else { "get_buffer" };
            let also = if kind == "buffer" { ", and from the same mode, train or eval" } else { "" };
            vec![
                format!(
                    "Check that both runs start from the same checkpoint{also}. Print this {kind} in both, before the first step:"
                ),
                format!("  print(model.{getter}(\"{name}\").double().norm())"),
            ]
        }
        Some(("gradient", name)) => vec![
            "Check that both runs clear, accumulate, scale and clip gradients alike. Print in both, before the optimizer's step:"
                .to_owned(),
            format!("  print(model.get_parameter(\"{name}\").grad)"),
        ],
        _ => vec![
            "Check that both runs get the same batch and the same random numbers. Put this first in both:"
                .to_owned(),
            "  ulpscope.seed_all(seed=1234)".to_owned(),
        ],
    };
    if let Some((target, golden)) = files.filter(|_| first.finding.cause != FindingCause::Draw) {
        lines.insert(0, format!("  ulpscope diff {} {}", quoted(target), quoted(golden)));
        lines.insert(0, "See which elements are other ones:".to_owned());
    }
    lines
}

fn not_finite<S>(compared: &Compared<S>, rank: &RankResult<S>, first: &Divergence) -> Vec<String> {
    let dtype = first.exhibit.dtypes[0].as_deref().unwrap_or("");
    vec![
        non_finite::advice(&first.call, dtype, first.finding.in_backward),
        "See its arguments:".to_owned(),
        show(compared, rank, first, Side::Target),
    ]
}

fn program<S>(compared: &Compared<S>, rank: &RankResult<S>, first: &Divergence) -> Vec<String> {
    let mut lines = Vec::new();
    if let (FindingCause::Lone(side), Some(before)) = (&first.finding.cause, &first.lone_before)
        && *side != before.side
    {
        lines.push("Compare the two calls:".to_owned());
        lines.push(show(compared, rank, first, *side));
        lines.push(show_call(compared, rank, &before.name, before.side));
        return lines;
    }
    let lone = match first.finding.cause {
        FindingCause::Lone(side) | FindingCause::Left(side, _) => Some(side),
        FindingCause::Cut(_) if first.golden_call.is_none() => Some(Side::Target),
        _ => None,
    };
    if let Some(side) = lone {
        let side_word = side.word();
        lines.push(format!(
            "Only the {side_word} makes this call. See what it does there, and whether it should:"
        ));
        lines.push(show(compared, rank, first, side));
        return lines;
    }
    match (&first.code, &first.golden_code) {
        (Some(code), Some(golden)) if code != golden => {
            lines.push("Compare these two lines of code:".to_owned());
            lines.push(format!("  target  {code}"));
            lines.push(format!("  golden  {golden}"));
            return lines;
        }
        (Some(code), _) => {
            lines
                .push(format!("Look at what leads the two runs to do different things at this line: {code}"));
        }
        _ => {}
    }
    lines.push("Compare what the two sides recorded:".to_owned());
    lines.push(show(compared, rank, first, Side::Target));
    lines.push(show(compared, rank, first, Side::Golden));
    lines
}

fn between<S>(compared: &Compared<S>, rank: &RankResult<S>, first: &Divergence) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(source) = &first.exhibit.source {
        lines.push(format!("The tensor was made as {source}."));
    }
    lines.push("Record every operator of that step on both sides, and compare these dumps:".to_owned());
    lines.push(format!(
        "  ulpscope run --dump-path NEW_DUMP --level L2 --task tensor{} -- YOUR_SCRIPT.py",
        step(rank)
    ));
    lines.push(
        "Kernels that write into a tensor without torch are not seen there either: look for them at"
            .to_owned(),
    );
    match &first.code {
        Some(code) => lines.push(format!("  {code}")),
        None => lines.push(show(compared, rank, first, Side::Target)),
    }
    lines
}

/// Has what was computed in a coarser precision computed in that of its dtype.
fn precision(first: &Divergence) -> Vec<String> {
    let end = "If it is meant to be so, compare with a golden that does the same.";
    if first.finding.looks_like == Some(Precision::Seven) {
        return vec![format!(
            "Look whether something computes this in bfloat16: an autocast region, a cast, a kernel that sums up in it. {end}"
        )];
    }
    vec![
        "Look whether something computes this in less than its dtype: an autocast region, a cast, or TF32, which is turned off by"
            .to_owned(),
        "  torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False".to_owned(),
        format!("in the run that has it. {end}"),
    ]
}

/// Records the tensors of the module at fault, or of the call where its module is not known.
fn dump_tensors<S>(rank: &RankResult<S>, first: &Divergence) -> Vec<String> {
    let part = scope_of(first.module.as_deref().unwrap_or(&first.call));
    let step_setting = rank.step.map(|step| format!(", step={step}")).unwrap_or_default();
    vec![
        "Dump the tensors of this place alone, once on each side, and compare the two new dumps:".to_owned(),
        format!(
            "  ulpscope run --dump-path NEW_DUMP --level mix --task tensor{} --list {} -- YOUR_SCRIPT.py",
            step(rank),
            quoted(Path::new(&part))
        ),
        "or in your own loop:".to_owned(),
        format!(
            "  ulpscope.capture(\"NEW_DUMP\", model=model, level=\"mix\", task=\"tensor\"{step_setting}, list=[\"{part}\"])"
        ),
    ]
}

/// The part of a name that all passes of a call or module have, and no other: `Functional.linear.3.`.
fn scope_of(call: &str) -> String {
    let end = [".forward", ".backward", ".parameters_grad"].iter().filter_map(|word| call.rfind(word)).min();
    format!("{}.", &call[..end.unwrap_or(call.len())])
}

fn step<S>(rank: &RankResult<S>) -> String {
    rank.step.map(|step| format!(" --step {step}")).unwrap_or_default()
}

fn show<S>(compared: &Compared<S>, rank: &RankResult<S>, first: &Divergence, side: Side) -> String {
    let call = match side {
        Side::Target => &first.call,
        Side::Golden => first.golden_call.as_ref().unwrap_or(&first.call),
    };
    show_call(compared, rank, call, side)
}

fn show_call<S>(compared: &Compared<S>, rank: &RankResult<S>, call: &str, side: Side) -> String {
    let (dump, name) = match side {
        Side::Target => (&compared.request.target, &rank.target),
        Side::Golden => (&compared.request.golden, &rank.golden),
    };
    let number = name.strip_prefix("rank").filter(|digits| digits.parse::<u64>().is_ok());
    let number = number.filter(|_| compared.ranks.len() > 1);
    let number = number.map(|number| format!(" --rank {number}")).unwrap_or_default();
    let at = if compared.ranks.len() > 1 { step(rank) } else { String::new() };
    format!("  ulpscope show {} {}{at}{number}", quoted(dump), quoted(Path::new(call)))
}

/// For a shell: as it is where nothing in it means anything there.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:,@=".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        text
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}
