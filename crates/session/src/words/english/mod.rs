//! English: plain technical words, the fact first, then the reason.

mod causes;
mod instructions;
mod proofs;
mod regions;

use ulpscope_compare::words::{arguments, fact};
use ulpscope_compare::{Agreement, Class, Part, Side};
use ulpscope_dump::{CallKind, parse_key};
use ulpscope_report::{format_ratio, format_short};

use super::{Label, Parts, SummaryLine, Words, counted, level, percent, shortened};
use crate::statement::{
    Heading, History, Likewise, Measured, Pass, Reached, Reason, Statement, UnpairedCount,
};

/// The language.
pub(super) struct English;

impl Words for English {
    fn heading(&self, heading: Heading) -> &'static str {
        match heading {
            Heading::WhatBroke => "What broke:",
            Heading::Where => "Where:",
            Heading::BetweenInTarget => "Between, in the target (in execution order, * first to look at):",
            Heading::BetweenInGolden => "Between, in the golden (in execution order, * first to look at):",
            Heading::HowLarge => "How large:",
            Heading::Downstream => "Downstream:",
            Heading::Confidence => "Confidence:",
            Heading::OtherDivergences => "Other divergences:",
            Heading::Compared => "Compared:",
            Heading::Tolerance => "Tolerance:",
            Heading::Limitations => "Limitations:",
            Heading::Next => "Next:",
            Heading::Rule => "What this is:",
        }
    }

    fn statement(&self, statement: &Statement) -> String {
        capital(statement, said(statement))
    }

    fn headline(&self, statement: &Statement) -> String {
        match statement {
            Statement::RunsAgree => "The two runs agree.".to_owned(),
            Statement::ForwardPassesAgree => "The two runs agree in the forward pass.".to_owned(),
            statement => self.statement(statement),
        }
    }

    fn verdict(&self, agreement: &Agreement) -> String {
        format!("{}: {agreement}", agreement.answer().shouted())
    }

    fn label(&self, label: Label) -> &'static str {
        match label {
            Label::Verdict => "verdict",
            Label::Rows => "rows",
            Label::Calls => "calls",
            Label::Classes => "classes",
            Label::Time => "time",
            Label::Problems => "problems",
            Label::Part(Parts::Steps) => "step",
            Label::Part(Parts::Ranks) => "rank",
            Label::Part(Parts::StepsAndRanks) => "step and rank",
            Label::Differ => "differ",
            Label::CallsDiffer => "calls differ",
            Label::NoCounterpart => "no counterpart",
            Label::FirstDivergence => "first divergence",
            Label::Call => "call",
            Label::Parts(parts) => many(parts),
            Label::Which => "which",
            Label::OnlyIn => "only in",
            Label::CallOrEntry => "call or entry",
            Label::Reason => "reason",
        }
    }

    fn summary(&self, line: &SummaryLine<'_>) -> String {
        match line {
            SummaryLine::Rows(counts) => format!(
                "{}: {} agree, {} differ, {} to look at, {} not compared",
                counted(counts.rows),
                counted(counts.passed),
                counted(counts.failed),
                counted(counts.warned),
                counted(counts.not_compared)
            ),
            SummaryLine::Calls { paired, by_style, target, golden } => {
                let ways = paired.iter();
                let ways = ways
                    .map(|way| format!("{} {} ({} rows)", counted(way.calls), way.how, counted(way.rows)));
                let ways = ways.collect::<Vec<String>>().join(", ");
                let paired = match (ways.is_empty(), by_style) {
                    (false, _) => format!("paired {ways}"),
                    (true, true) => "paired by the rule of the style".to_owned(),
                    (true, false) => "none paired".to_owned(),
                };
                format!("{paired}; only in target {}, only in golden {}", counted(*target), counted(*golden))
            }
            SummaryLine::Problems(count) => {
                format!(
                    "{} could not be read (see the errors)",
                    number(*count, "file or tensor", "files or tensors")
                )
            }
            SummaryLine::Time { seconds, bytes: 0 } => format!("{seconds:.2} s"),
            SummaryLine::Time { seconds, bytes } => {
                let gigabytes = *bytes as f64 / 1e9;
                let rate = gigabytes / seconds.max(1e-9);
                format!("{seconds:.2} s, {gigabytes:.3} GB of tensors, {rate:.2} GB/s")
            }
            SummaryLine::PartsTitle(parts, more) => {
                title(&format!("{}, worst first", many(*parts)), *more, "")
            }
            SummaryLine::CallsByPartTitle(parts, more) => {
                title(&format!("calls by {}", self.label(Label::Part(*parts))), *more, "")
            }
            SummaryLine::UnpairedTitle(more) => title("no counterpart", *more, " in result.json"),
            SummaryLine::Deviating { shown, more } => {
                let call = |call: &Option<String>| call.clone().unwrap_or_else(|| "none".to_owned());
                let named = shown.iter().map(|one| {
                    format!(
                        "{} (first divergence: {}; of the others: {})",
                        one.label,
                        call(&one.first),
                        call(&one.others)
                    )
                });
                let more = (*more > 0).then(|| format!("and {more} more in result.json"));
                format!("unlike the other ranks: {}", named.chain(more).collect::<Vec<String>>().join(", "))
            }
            SummaryLine::Wrote(file) => format!("wrote {file}"),
        }
    }

    fn class(&self, class: Class) -> &'static str {
        class.words()
    }
}

fn many(parts: Parts) -> &'static str {
    match parts {
        Parts::Steps => "steps",
        Parts::Ranks => "ranks",
        Parts::StepsAndRanks => "steps and ranks",
    }
}

fn title(text: &str, more: usize, place: &str) -> String {
    if more == 0 { text.to_owned() } else { format!("{text} ({} more{place})", counted(more)) }
}

fn number(count: u64, one: &str, many: &str) -> String {
    format!("{} {}", counted(count), if count == 1 { one } else { many })
}

fn calls(count: u64) -> String {
    number(count, "call", "calls")
}

fn said(statement: &Statement) -> String {
    match statement {
        Statement::ForwardPassesAgree => "Nothing in the forward pass: there, the two runs agree.".to_owned(),
        Statement::RunsAgree => "Nothing. The two runs agree.".to_owned(),
        Statement::NoErrorOnThisRank => "No call of this rank introduced an error.".to_owned(),
        Statement::Inconclusive(agreement) => format!("Inconclusive: {agreement}."),
        Statement::MostNotJudged { calls, of } => format!(
            "Most calls ({} of {}) could not be judged: they have no counterpart, or too little was recorded.", counted(*calls), counted(*of)),
        Statement::LargestStep { call, inputs, output } => format!(
            "The largest unexplained step towards it is {call}: its inputs differ by {}, its output by {}.",
            percent(*inputs),
            percent(*output)
        ),
        Statement::TensorsDiffer { most, .. } if most.is_empty() => "The two tensors differ.".to_owned(),
        Statement::TensorsDiffer { differ: 1, of, most, .. } => {
            format!("1 of {} differs: {most}.", number(*of, "tensor", "tensors"))
        }
        Statement::TensorsDiffer { differ, of, most, among: None } => {
            format!("{} of {} tensors differ. {most} differs most.", counted(*differ), counted(*of))
        }
        Statement::TensorsDiffer { differ, of, most, among: Some(among) } => {
            format!("{} of {} tensors differ. Of the first {} of them, {most} differs most.", counted(*differ), counted(*of), counted(*among))
        }
        Statement::Cause(cause) => causes::sentence(cause),
        Statement::ChangedUnrecorded => "Something that was not recorded changed it in between.".to_owned(),
        Statement::GradientLeftOver => {
            "It may be left over from an earlier pass (zero_grad), changed by a hook, or computed by an unrecorded call."
                .to_owned()
        }
        Statement::ResultsDiffer => "The results computed from it differ between the two runs.".to_owned(),
        Statement::LeftDiffering { what } => {
            format!("After this step the {} differs between the two runs.", what.replacen(':', " ", 1))
        }
        Statement::OriginsCounted { parameters, buffers } => {
            let kinds = [(parameters, "parameter", "parameters"), (buffers, "buffer", "buffers")].into_iter();
            let kinds = kinds.filter(|([differ, _], _, _)| *differ > 0);
            let kinds: Vec<String> =
                kinds.map(|([differ, of], one, many)| format!("{} of {}", counted(*differ), number(*of, one, many))).collect();
            let differ = if parameters[0] + buffers[0] == 1 { "differs" } else { "differ" };
            format!("In total, {} {differ}.", kinds.join(" and "))
        }
        Statement::OriginHistory { history, call } => {
            let why = match history {
                History::Trained => "It already differed when this step began: earlier steps changed it.",
                History::Accumulated => {
                    "Backward passes accumulated it, and other code may have changed it since: no single call is to blame."
                }
                History::BetweenModules => {
                    "Level L0 does not record what happens between modules, and something there produced it."
                }
                History::Unrecorded => "No recorded call produced it, so no call is to blame.",
            };
            format!("{why} The first call that shows it is {}.", spoken(call))
        }
        Statement::JustBefore { call, side } => {
            format!("Just before it, only the {} calls {}.", side.word(), spoken(call))
        }
        Statement::Likewise(likewise) => format!("{}.", also(likewise)),
        Statement::LevelsDiffer { target, golden } => format!(
            "The target was captured at level {target}, the golden at level {golden}: most calls of one have no counterpart \
             in the other."
        ),
        Statement::OnlyIn { side, count, operations, has_more } => {
            let shown = operations.iter().map(|(base, count)| match count {
                1 => base.clone(),
                count => format!("{} of {base}", counted(*count)),
            });
            let more = if *has_more { ", …" } else { "" };
            let shown = shown.collect::<Vec<String>>().join(", ");
            format!("Not compared (no counterpart): {} only: {} ({shown}{more}).", side.word(), unpaired(*count))
        }
        Statement::RanksUnpaired(1) => "1 step or rank has no counterpart.".to_owned(),
        Statement::RanksUnpaired(count) => format!("{} steps or ranks have no counterpart.", counted(*count)),

        Statement::Call { name, pass } => {
            let pass = match pass {
                Pass::Forward => "forward pass",
                Pass::Backward => "backward pass",
                Pass::Optimizer => "optimizer step",
            };
            format!("call    {name} ({pass})")
        }
        Statement::Step(step) => format!("step    {step}"),
        Statement::Rank(rank) => format!("rank    {rank}"),
        Statement::GoldenCall(name) => format!("golden  {name}"),
        Statement::Module(module) => format!("module  {module}"),
        Statement::Code(code) => format!("code    {code}"),
        Statement::InnerCode(code) => format!("inner   {code}"),
        Statement::GoldenCode(code) => format!("golden  {code}"),
        Statement::Entry { name, line, sheet } => format!("entry   {name}{}", in_sheet(*line, sheet.as_deref())),

        Statement::Region(said) => regions::sentence(said),

        Statement::Measured(seen) => format!("{}.", fact(seen)),
        Statement::LooksLike(precision) => {
            format!("An error of this size is typical of {}.", precision.words())
        }
        Statement::OriginsTypically { floor } => {
            format!("Parameters and inputs typically differ by {} in these runs.", format_short(*floor))
        }
        Statement::Excess { of, distance, floor } => {
            let beyond = format!("{} × what rounding and the inputs allow", format_ratio(distance / floor));
            let (distance, floor) = (format_short(*distance), format_short(*floor));
            match of {
                Measured::Elements => format!("That is {beyond} ({floor})."),
                Measured::Statistics => {
                    format!("The relative distance is at least {distance}: {beyond} ({floor}).")
                }
                Measured::Gradients => format!(
                    "The gradients after it differ by a relative distance of {distance}: {beyond} ({floor})."
                ),
                Measured::Results => format!(
                    "The results computed from it differ by a relative distance of {distance}: {beyond} ({floor})."
                ),
            }
        }
        Statement::ShowsMost { part, by_statistics, times: most } => {
            let beyond = format!("{} × what rounding and the inputs allow", format_ratio(*most));
            match part {
                Part::Whole => format!("All elements together show it more clearly: {beyond}."),
                Part::WorstElement => format!("Single elements show it more clearly: the worst differs by {beyond}."),
                // Statistics cannot tell a factor from a few elements.
                Part::CommonFactor if *by_statistics => format!("The norm shows it more clearly: it differs by {beyond}."),
                Part::CommonFactor => format!("The overall scale shows it more clearly: it differs by {beyond}."),
            }
        }
        Statement::InputsAgree => "Its inputs show no difference.".to_owned(),
        Statement::InputsDiffer { largest } => {
            format!("Its inputs differ by a relative distance of {} at most.", format_short(*largest))
        }

        Statement::Proof { call, proof } => proofs::sentence(call.as_deref(), proof),
        Statement::NoReplayableCall(count) => {
            format!("Replay refuted {}: no replayable call explains the difference.", number(*count, "finding", "findings"))
        }

        Statement::NotInherited => "No later call inherited the error.".to_owned(),
        Statement::OthersDiffer(1) => {
            "1 other call differs. The dumps do not show whether this error caused it.".to_owned()
        }
        Statement::OthersDiffer(count) => {
            format!("{} other calls differ. The dumps do not show whether this error caused it.", counted(*count))
        }
        Statement::Inherited { calls: count, by_pass } => {
            let inherit = if *count == 1 { "inherits" } else { "inherit" };
            let by_pass =
                by_pass.map(|[forward, backward]| format!(": {} forward, {} backward", counted(forward), counted(backward)));
            format!("{} {inherit} the error{}.", calls(*count), by_pass.unwrap_or_default())
        }
        Statement::Reaches { what, is_this } => {
            let what = match what {
                Reached::Loss(call) => format!("the loss ({call})"),
                Reached::ParameterGradients(count) => {
                    format!("the parameter gradients of {}", number(*count, "module", "modules"))
                }
                Reached::BackwardPass => "the backward pass".to_owned(),
            };
            format!("{} reaches {what}.", if *is_this { "It" } else { "This error or another divergence" })
        }

        Statement::Confidence(confidence) => {
            let words = ["very high", "high", "moderate", "low"][level(*confidence)];
            format!("{words} ({confidence:.2})")
        }

        Statement::OtherDivergence { call, kind, reason, likewise } => {
            let likewise = likewise.as_ref().map(|more| format!(". {}", also(more))).unwrap_or_default();
            format!("{call} ({}): {}{likewise}", kind.words(), brief(reason))
        }
        Statement::OtherTensor { name, reason } => format!("{name}: {}", brief(reason)),
        Statement::MoreDivergences(count) => format!("and {} more in result.json", counted(*count)),
        Statement::OtherRanks { ranks, more, call, kind } => {
            let more = if *more == 0 { String::new() } else { format!(" and {} more", counted(*more)) };
            format!("{}{more}: the first divergence is {call} ({})", ranks.join(", "), kind.words())
        }
        Statement::MoreRanks(count) => format!("and {} more", number(*count, "step or rank", "steps or ranks")),
        Statement::LaterStepsFollow => {
            "Later steps start from weights that the first error may have changed.".to_owned()
        }

        Statement::NotCompared { rank: None, error } => format!("Nothing was compared: {error}"),
        Statement::NotCompared { rank: Some(rank), error } => format!("{rank} was not compared: {error}"),
        Statement::NoElements => {
            "No elements were compared, only statistics or digests: reordered elements, and errors that keep the statistics, \
             do not show."
                .to_owned()
        }
        Statement::Unpaired { results_agree, target, golden, first, side } => {
            let begin = match results_agree {
                true => "No counterpart, but the results computed from it agree",
                false => "Not compared (no counterpart)",
            };
            let sides = [(Side::Target, target), (Side::Golden, golden)].into_iter();
            let sides = sides.filter(|(_, count)| **count != UnpairedCount::default());
            let sides: Vec<String> =
                sides.map(|(side, count)| format!("{} only: {}", side.word(), unpaired(*count))).collect();
            format!("{begin}: {}. The first: {first} ({}).", sides.join("; "), side.word())
        }
        Statement::CallsNotJudged(count) => format!(
            "{} could not be judged: too little was recorded, or the inputs have different shapes.",
            calls(*count)
        ),
        Statement::RowsNotJudged(count) => format!(
            "{} of tensors could not be judged: NaN on both sides, or nothing to compare.",
            number(*count, "row", "rows")
        ),
        Statement::NotRead { count, first } => {
            let first = first.as_ref().map(|first| format!(" The first: {first}")).unwrap_or_default();
            format!("{} could not be read.{first}", number(*count, "file or tensor", "files or tensors"))
        }
        Statement::Note(note) => format!("Note: {note}"),
        Statement::NotedFirst(note) => format!("{note}."),
        Statement::Noted { ranks, has_more, note } => {
            let more = if *has_more { ", …" } else { "" };
            let ranks = if ranks.is_empty() { String::new() } else { format!("{}{more}: ", ranks.join(", ")) };
            format!("Note: {ranks}{note}")
        }
        Statement::MoreNotes(count) => format!("and {} in result.json", number(*count, "more note", "more notes")),

        Statement::ComparedCalls { equal: 0, noise: 0 } => "No call.".to_owned(),
        Statement::ComparedCalls { equal, noise: 0 } => format!("{}, without any difference.", calls(*equal)),
        Statement::ComparedCalls { equal, noise } => {
            let equal_words = match equal {
                0 => String::new(),
                equal => format!("{} without any difference, ", counted(*equal)),
            };
            format!(
                "{}: {equal_words}{} differ by no more than rounding and their inputs allow.",
                calls(equal + noise),
                counted(*noise)
            )
        }
        Statement::ToleranceRule => {
            "The tolerance of a call follows from its dtype, the number of terms it sums, the errors of its inputs, and the \
             errors of other calls of its kind."
                .to_owned()
        }

        Statement::JudgedByRule { style, failed, rows } => {
            format!("This result follows the rule of {style}: {} of {} rows fail.", counted(*failed), counted(*rows))
        }
        Statement::FirstFailing { entry, line, sheet } => {
            format!("The first failing row is {entry}{}.", in_sheet(*line, sheet.as_deref()))
        }
        Statement::RuleJudgesRows => {
            "That rule judges each row on its own. It cannot tell where an error began.".to_owned()
        }
        Statement::Next(step) => instructions::instruction(step),
    }
}

/// The place of a row, if there is a sheet that has it.
fn in_sheet(line: u64, sheet: Option<&str>) -> String {
    sheet.map(|sheet| format!(" (line {line} of {sheet})")).unwrap_or_default()
}

fn also(likewise: &Likewise) -> String {
    match likewise {
        Likewise::Origins(1) => "1 more call gets differing parameters or inputs".to_owned(),
        Likewise::Origins(count) => {
            format!("{} more calls get differing parameters or inputs", counted(*count))
        }
        Likewise::Calls { call, count } => {
            let (base, _, kind) = parse_key(call);
            let what = match kind {
                CallKind::ParametersGrad if *count == 1 => "gradient of a module's parameters".to_owned(),
                CallKind::ParametersGrad => "gradients of modules' parameters".to_owned(),
                CallKind::Backward if *count == 1 => format!("backward pass of {base}"),
                CallKind::Backward => format!("backward passes of {base}"),
                CallKind::Saved if *count == 1 => "saved tensor".to_owned(),
                CallKind::Saved => "saved tensors".to_owned(),
                _ if *count == 1 => format!("call of {base}"),
                _ => format!("calls of {base}"),
            };
            format!("The same applies to {} more {what}", counted(*count))
        }
    }
}

fn brief(reason: &Reason) -> String {
    match reason {
        Reason::CalledWith(differences) => shortened(format!("called with {}", arguments(differences))),
        Reason::OnlyIn { side, instead: Some(other) } => {
            let other_side = other_side(*side).word();
            format!("only in the {}; the {other_side} calls {}", side.word(), spoken(other))
        }
        Reason::OnlyIn { side, instead: None } => format!("only in the {}", side.word()),
        Reason::Seen(seen) => shortened(fact(seen)),
        Reason::Said(statement) => shortened(said(statement).trim_end_matches('.').to_owned()),
    }
}

fn unpaired(count: UnpairedCount) -> String {
    let words = [(count.calls, "call", "calls"), (count.entries, "entry", "entries")].into_iter();
    let words = words.filter(|(count, _, _)| *count > 0);
    let words: Vec<String> = words.map(|(count, one, many)| number(count, one, many)).collect();
    words.join(" and ")
}

/// A call in a sentence: `Functional.linear.9`, `the backward pass of Functional.linear.9`.
fn spoken(call: &str) -> String {
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

fn other_side(side: Side) -> Side {
    match side {
        Side::Target => Side::Golden,
        Side::Golden => Side::Target,
    }
}

/// With a capital letter where a sentence begins with a word, and not with a name, a label or a continued line.
fn capital(statement: &Statement, text: String) -> String {
    let begins_with_word = match statement {
        Statement::Measured(_) => true,
        _ => ["the ", "only ", "no "].iter().any(|word| text.starts_with(word)),
    };
    let mut letters = text.chars();
    match letters.next() {
        Some(first) if begins_with_word => first.to_uppercase().chain(letters).collect(),
        _ => text,
    }
}
