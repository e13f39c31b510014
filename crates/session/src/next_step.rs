//! The next step for the user, with its command or code.
//!
//! It addresses what is least known: elements if there are only statistics, the noise if the finding is doubtful, else
//! the place itself.

use std::path::{Path, PathBuf};

use ulpscope_compare::{
    Agreement, Divergence, EndDifference, FinalResult, FindingCause, FindingKind, Precision, RankOutcome,
    RankResult, Region, ShowsIn, Side,
};
use ulpscope_dump::{CallKind, parse_key};
use ulpscope_formats::storage;

use crate::instruction::Instruction;
use crate::{Compared, Language, MappingFiles, Request, cause, non_finite, origin, region};

/// From this confidence on a finding counts as true.
pub(crate) const SURE: f64 = 0.7;

/// What to do about a divergence.
pub(super) fn next<S>(compared: &Compared<S>, rank: &RankResult<S>, first: &Divergence) -> Vec<Instruction> {
    let files = match &first.shown.files {
        [Some(target), Some(golden)] => Some((target.as_path(), golden.as_path())),
        _ => None,
    };
    let is_between_modules =
        || rank.result.as_ref().is_ok_and(|(outcome, _)| origin::is_between_modules(outcome, first));
    if let Some(region) = region::of(first) {
        return of_region(compared, rank, first, region);
    }
    match first.finding.kind {
        _ if first.finding.cause == FindingCause::Between => between(compared, rank, first),
        FindingKind::OriginDiffers if origin::was_trained(rank.step, first) => trained(compared, rank, first),
        FindingKind::OriginDiffers if first.finding.cause == FindingCause::Origin && is_between_modules() => {
            vec![Instruction::RecordBetweenModules, record("mix", &step(rank))]
        }
        FindingKind::OriginDiffers => check_origin(first, files),
        FindingKind::NonFiniteBornHere => {
            let dtype = first.shown.dtypes[0].as_deref().unwrap_or_default();
            let hazard = non_finite::hazard(&first.call, dtype, first.finding.in_backward);
            vec![
                Instruction::LookFor(hazard),
                Instruction::SeeInputs,
                show(compared, rank, first, Side::Target),
            ]
        }
        FindingKind::DifferentProgram => program(compared, rank, first),
        FindingKind::DivergedHere | FindingKind::FailedRule => match (first.finding.looks_like, files) {
            (Some(precision), _) => look_for_precision(precision),
            (None, None) => dump_tensors(rank, first),
            (None, Some(_)) if first.finding.confidence < SURE => {
                vec![Instruction::MeasureNoise, compare_again(compared, Some(second_golden()))]
            }
            (None, Some((target, golden))) => {
                let mut steps = vec![Instruction::SeeElements, diff(target, golden)];
                if parse_key(&first.call).2 == CallKind::ParametersGrad {
                    steps.push(Instruction::LookForGradientChanges);
                }
                steps
            }
        },
    }
}

/// What to do about tensors that belong to no call.
pub(super) fn of_tensors<S>(
    compared: &Compared<S>,
    outcome: &RankOutcome,
    most: &Divergence,
) -> Vec<Instruction> {
    let (target, golden) = (&compared.request.target, &compared.request.golden);
    let files = match &most.shown.files {
        [Some(target), Some(golden)] => Some([target.as_path(), golden.as_path()]),
        _ => (storage::is_file(target) && storage::is_file(golden))
            .then_some([target.as_path(), golden.as_path()]),
    };
    let mut steps = Vec::new();
    if let Some([target, golden]) = files {
        steps.extend([Instruction::SeeElements, diff(target, golden)]);
    }
    // A saved tensor is part of a recorded run; a checkpoint is what a run left.
    if outcome.levels == [None, None] {
        steps.extend([Instruction::CompareEarlierCheckpoints, record("mix", " --step FIRST-LAST")]);
    }
    steps
}

/// What to do if no call introduced an error.
pub(super) fn when_nothing_broke<S>(compared: &Compared<S>) -> Vec<Instruction> {
    let only_statistics = compared.outcomes().all(|outcome| outcome.bytes == 0);
    let lone = compared.outcomes().find_map(|outcome| outcome.partnerless.first());
    if let Some((_, error)) = compared.errors().next() {
        return vec![Instruction::MakeReadable(error.to_string())];
    }
    if let Some([target, golden]) = other_levels(compared) {
        let level = if target == "mix" || golden == "mix" { "mix" } else { target };
        return vec![Instruction::CaptureAtOneLevel, record(level, "")];
    }
    if let Agreement::FinalResult(result) = &compared.agreement {
        return match result.difference {
            EndDifference::Numbers => towards(compared, result),
            EndDifference::Places | EndDifference::Padding => {
                vec![Instruction::DumpTensorsIfNeeded, record("mix", "")]
            }
            EndDifference::Variable => Vec::new(),
        };
    }
    if let Some(lone) = lone.filter(|_| !compared.agreement.is_agree()) {
        let dump = match lone.side {
            Side::Target => &compared.request.target,
            Side::Golden => &compared.request.golden,
        };
        let command = format!("ulpscope show {} {}", quoted(dump), quoted(Path::new(&lone.name)));
        return vec![Instruction::CheckUnpaired, Instruction::Run(command)];
    }
    if only_statistics && compared.counts().rows > 0 {
        return vec![Instruction::DumpTensorsIfNeeded, record("mix", "")];
    }
    Vec::new()
}

/// What to do if a final result differs and no call explains it.
fn towards<S>(compared: &Compared<S>, result: &FinalResult) -> Vec<Instruction> {
    let mut steps = Vec::new();
    if let Some(step) = &result.step {
        let (target, call) = (quoted(&compared.request.target), quoted(Path::new(&step.call)));
        steps.push(Instruction::CheckCallInBoth);
        steps.push(Instruction::Run(format!("ulpscope show {target} {call}")));
    }
    steps.push(Instruction::MeasureHealthyRuns);
    steps.push(compare_again(compared, Some(second_golden())));
    steps
}

/// A name from a file as a Python string: it may contain anything, and people run what is printed. Python reads the
/// strings of JSON.
fn python_text(name: &str) -> String {
    serde_json::Value::from(name).to_string()
}

/// The levels of the two sides, if they differ.
pub(super) fn other_levels<S>(compared: &Compared<S>) -> Option<[&str; 2]> {
    compared.outcomes().find_map(|outcome| match &outcome.levels {
        [Some(target), Some(golden)] if target != golden => Some([target.as_str(), golden.as_str()]),
        _ => None,
    })
}

/// The command that repeats the comparison in the native style, with all options that change it. A noise run replaces
/// that of the request.
pub(super) fn compare_again<S>(compared: &Compared<S>, noise: Option<&Path>) -> Instruction {
    // Complete, so that an option added to the request is not forgotten here.
    let Request {
        target,
        golden,
        target_data,
        golden_data,
        style: _,
        matching,
        mapping,
        stack_column: _,
        noise: own_noise,
        select,
        parallel,
        language,
    } = &compared.request;
    let MappingFiles { data, cell, layer } = mapping;
    let numbers = |numbers: &[u64]| {
        let numbers: Vec<String> = numbers.iter().map(u64::to_string).collect();
        Some(numbers.join(",")).filter(|numbers| !numbers.is_empty())
    };
    let file = |path: &Option<PathBuf>| path.as_deref().map(quoted);
    let options = [
        ("--target-data", file(target_data)),
        ("--golden-data", file(golden_data)),
        ("--step", numbers(&select.steps)),
        ("--rank", numbers(&select.ranks)),
        ("--match", matching.map(|matching| matching.to_string())),
        ("--data-mapping", file(data)),
        // Without a file, modules are paired by their names.
        ("--cell-mapping", cell.as_ref().map(|cell| file(cell).unwrap_or_default())),
        ("--layer-mapping", file(layer)),
        ("--noise", noise.or(own_noise.as_deref()).map(quoted)),
        ("--parallel", parallel.as_ref().map(ToString::to_string)),
        ("--lang", (*language != Language::default()).then(|| language.to_string())),
    ];
    let mut command = format!("ulpscope compare {} {}", quoted(target), quoted(golden));
    for (flag, value) in options {
        match value.as_deref() {
            None => {}
            Some("") => command += &format!(" {flag}"),
            Some(value) => command += &format!(" {flag} {value}"),
        }
    }
    Instruction::Run(format!("{command} -o RESULT"))
}

/// A second golden run, which the user has to make.
fn second_golden() -> &'static Path {
    Path::new("SECOND_GOLDEN")
}

fn trained<S>(compared: &Compared<S>, rank: &RankResult<S>, first: &Divergence) -> Vec<Instruction> {
    let this = rank.step.unwrap_or_default();
    let before = compared.ranks.iter().filter(|other| other.target == rank.target);
    // Earlier compared steps agree, or are listed.
    let begin = before.filter_map(|other| other.step).filter(|&step| step < this).max().unwrap_or_default();
    let last = this.saturating_sub(1);
    let steps = if begin >= last { last.to_string() } else { format!("{begin}-{last}") };
    let mut told = vec![Instruction::RecordEarlierSteps, record("mix", &format!(" --step {steps}"))];
    told.extend(origin::named(first).map(|(_, name)| Instruction::LookAtWriters(name.to_owned())));
    told
}

fn check_origin(first: &Divergence, files: Option<(&Path, &Path)>) -> Vec<Instruction> {
    let mut steps = Vec::new();
    let traits = first.finding.cause.traits();
    if let Some((target, golden)) = files.filter(|_| traits.shows_in != ShowsIn::RandomNumbers) {
        steps.extend([Instruction::SeeElements, diff(target, golden)]);
    }
    let python = |line: String| Instruction::Run(line);
    steps.extend(match origin::named(first) {
        Some(("parameter", name)) => [
            Instruction::CheckCheckpoint { is_buffer: false },
            python(format!("print(model.get_parameter({}).double().norm())", python_text(name))),
        ],
        Some(("buffer", name)) => [
            Instruction::CheckCheckpoint { is_buffer: true },
            python(format!("print(model.get_buffer({}).double().norm())", python_text(name))),
        ],
        Some((_, name)) => [
            Instruction::CheckGradientHandling,
            python(format!("print(model.get_parameter({}).grad)", python_text(name))),
        ],
        None => [Instruction::CheckBatchAndSeed, python("ulpscope.seed_all(seed=1234)".to_owned())],
    });
    steps
}

fn program<S>(compared: &Compared<S>, rank: &RankResult<S>, first: &Divergence) -> Vec<Instruction> {
    if let (FindingCause::Lone(side), Some(before), Some(_)) =
        (&first.finding.cause, &first.lone_before, cause::instead(first))
    {
        return vec![
            Instruction::CompareCalls,
            show(compared, rank, first, *side),
            show_call(compared, rank, &before.name, before.side),
        ];
    }
    let is_cut_alone = matches!(first.finding.cause, FindingCause::Cut(_)) && first.golden_call.is_none();
    let lone = first.finding.cause.traits().only_side.or(is_cut_alone.then_some(Side::Target));
    if let Some(side) = lone {
        return vec![Instruction::CheckCallOf(side), show(compared, rank, first, side)];
    }
    let mut steps = Vec::new();
    // All calls of a library's model have the same line of the user.
    let lines = [(&first.inner_code, &first.code), (&first.golden_inner_code, &first.golden_code)];
    match lines.map(|(inner, own)| inner.as_ref().or(own.as_ref())).into() {
        (Some(code), Some(golden)) if code != golden => {
            return vec![
                Instruction::CompareCode,
                Instruction::CodeOf(Side::Target, code.clone()),
                Instruction::CodeOf(Side::Golden, golden.clone()),
            ];
        }
        (Some(code), _) => steps.push(Instruction::LookAtCode(code.clone())),
        _ => {}
    }
    steps.push(Instruction::CompareRecords);
    steps.push(show(compared, rank, first, Side::Target));
    steps.push(show(compared, rank, first, Side::Golden));
    steps
}

/// The first calls to look at in both programs, and the others.
fn of_region<S>(
    compared: &Compared<S>,
    rank: &RankResult<S>,
    first: &Divergence,
    region: &Region,
) -> Vec<Instruction> {
    let mut steps = vec![Instruction::CompareCalls, show(compared, rank, first, Side::Target)];
    let golden = region.partner.as_deref().unwrap_or(&region.before[1].name);
    steps.push(show_call(compared, rank, golden, Side::Golden));
    let command = format!("ulpscope explain RESULT --region {}", region::number(compared, first));
    steps.extend([Instruction::OpenRegion, Instruction::Run(command)]);
    steps
}

fn between<S>(compared: &Compared<S>, rank: &RankResult<S>, first: &Divergence) -> Vec<Instruction> {
    let mut steps: Vec<Instruction> = first.shown.source.iter().cloned().map(Instruction::MadeAs).collect();
    steps.extend([Instruction::RecordEveryOperator, record("L2", &step(rank)), Instruction::LookForKernels]);
    steps.push(match &first.code {
        Some(code) => Instruction::Run(code.clone()),
        None => show(compared, rank, first, Side::Target),
    });
    steps
}

/// How to make a computation in lower precision use the precision of its dtype.
fn look_for_precision(precision: Precision) -> Vec<Instruction> {
    let mut steps = vec![Instruction::LookForPrecision(precision)];
    if precision == Precision::Ten {
        let switches = "torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False";
        steps.extend([Instruction::Run(switches.to_owned()), Instruction::InThatRun]);
    }
    steps
}

/// Records the tensors of the faulty module, or of the call if its module is unknown.
fn dump_tensors<S>(rank: &RankResult<S>, first: &Divergence) -> Vec<Instruction> {
    let part = scope_of(first.module.as_deref().unwrap_or(&first.call));
    let step_setting = rank.step.map(|step| format!(", step={step}")).unwrap_or_default();
    let listed = format!("{} --list {}", step(rank), quoted(Path::new(&part)));
    let python = format!(
        "ulpscope.capture(\"NEW_DUMP\", model=model, level=\"mix\", task=\"tensor\"{step_setting}, list=[{}])",
        python_text(&part)
    );
    vec![
        Instruction::DumpTensorsHere,
        record("mix", &listed),
        Instruction::OrInYourLoop,
        Instruction::Run(python),
    ]
}

/// The part of a name that is common to all passes of a call or module, and unique to it: `Functional.linear.3.`.
fn scope_of(call: &str) -> String {
    let end = [".forward", ".backward", ".parameters_grad"].iter().filter_map(|word| call.rfind(word)).min();
    format!("{}.", &call[..end.unwrap_or(call.len())])
}

fn record(level: &str, options: &str) -> Instruction {
    Instruction::Run(format!(
        "ulpscope run --dump-path NEW_DUMP --level {level} --task tensor{options} -- YOUR_SCRIPT.py"
    ))
}

fn diff(target: &Path, golden: &Path) -> Instruction {
    Instruction::Run(format!("ulpscope diff {} {}", quoted(target), quoted(golden)))
}

fn step<S>(rank: &RankResult<S>) -> String {
    rank.step.map(|step| format!(" --step {step}")).unwrap_or_default()
}

fn show<S>(compared: &Compared<S>, rank: &RankResult<S>, first: &Divergence, side: Side) -> Instruction {
    let call = match side {
        Side::Target => &first.call,
        Side::Golden => first.golden_call.as_ref().unwrap_or(&first.call),
    };
    show_call(compared, rank, call, side)
}

fn show_call<S>(compared: &Compared<S>, rank: &RankResult<S>, call: &str, side: Side) -> Instruction {
    let (dump, name) = match side {
        Side::Target => (&compared.request.target, &rank.target),
        Side::Golden => (&compared.request.golden, &rank.golden),
    };
    let number = name.strip_prefix("rank").filter(|digits| digits.parse::<u64>().is_ok());
    let number = number.filter(|_| compared.ranks.len() > 1);
    let number = number.map(|number| format!(" --rank {number}")).unwrap_or_default();
    let at = if compared.ranks.len() > 1 { step(rank) } else { String::new() };
    Instruction::Run(format!("ulpscope show {} {}{at}{number}", quoted(dump), quoted(Path::new(call))))
}

/// Quoted for a shell, if needed.
pub fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:,@=".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        text
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}
