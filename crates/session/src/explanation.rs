//! What came of a comparison, in plain words: what broke, where, how large, what it did, how sure, what could not be
//! seen, what to do next.
//!
//! ```text
//! Compared ──► the first rank with a divergence ──► sections ──► text: result.json, advisor.txt, `ulpscope explain`
//!                                                      └──► the terminal, without what could not be seen
//! ```
//! Nothing is measured or judged here. The words are made when comparing and stored, so that whoever gets the result
//! without the dumps can read them.

use std::fmt;

use ulpscope_compare::{
    Agreement, Answer, Class, ClassCounts, Divergence, FinalResult, FindingCause, Part, RankOutcome,
    RankResult,
};
use ulpscope_dump::{CallKind, parse_key};
use ulpscope_report::{escape, format_short};

use crate::cause::capital;
use crate::{Compared, StyleName, cause, limitations, next_step, other_divergences, unpaired};

/// A text of headed sections.
#[derive(Clone, Debug, Default)]
pub struct Explanation {
    sections: Vec<Section>,
}

#[derive(Clone, Debug)]
struct Section {
    heading: &'static str,
    lines: Vec<String>,
}

const NOT_SEEN: &str = "Not seen";

/// Explains a comparison: its first divergence, or that there is none.
pub fn explain<S>(compared: &Compared<S>) -> Explanation {
    let leading = compared.first_divergence().map(|(rank, _)| rank);
    explain_rank(compared, leading)
}

/// Explains one pair of ranks, as part of the whole; all of them where none is given.
pub(crate) fn explain_rank<S>(compared: &Compared<S>, rank: Option<&RankResult<S>>) -> Explanation {
    let mut text = Explanation::default();
    if compared.request.style != StyleName::Native {
        text.of_older_style(compared);
        return text;
    }
    let found = rank.and_then(|rank| Some((rank, &rank.result.as_ref().ok()?.0)));
    match found.and_then(|(rank, outcome)| Some((rank, outcome, outcome.first_divergence()?))) {
        Some((rank, outcome, first)) => text.of_divergence(compared, rank, outcome, first),
        None => text.of_agreement(compared, rank),
    }
    text
}

impl Explanation {
    /// The lines, each heading with what stands under it. Without `unseen`, what could not be seen is left out.
    pub(crate) fn lines(&self, unseen: bool) -> Vec<String> {
        let mut lines = Vec::new();
        for section in self.sections.iter().filter(|section| unseen || section.heading != NOT_SEEN) {
            lines.push(format!("{}:", section.heading));
            lines.extend(section.lines.iter().map(|line| format!("  {line}")));
        }
        lines
    }

    fn add(&mut self, heading: &'static str, lines: Vec<String>) {
        if !lines.is_empty() {
            // Names and lines of code come out of files: one line each, whatever is in them.
            let lines = lines.iter().map(|line| escape::terminal(line).into_owned()).collect();
            self.sections.push(Section { heading, lines });
        }
    }

    fn of_older_style<S>(&mut self, compared: &Compared<S>) {
        let style = compared.request.style;
        let counts = compared.counts();
        let mut lines = vec![format!(
            "This was judged by the rule of {style}: {} of {} rows fail.",
            counts.failed, counts.rows
        )];
        if let Some((_, first)) = compared.first_divergence() {
            lines.push(format!("The first of them is {} (csv line {}).", first.finding.entry, first.line));
        }
        lines.push("That rule looks at each row by itself. It cannot tell where an error began.".to_owned());
        self.add("What this is", lines);
        self.add(
            "Next",
            vec![
                "Compare again by our own rules, which follow an error to the call that made it:".to_owned(),
                next_step::compare_again(compared, ""),
            ],
        );
    }

    fn of_divergence<S>(
        &mut self,
        compared: &Compared<S>,
        rank: &RankResult<S>,
        outcome: &RankOutcome,
        first: &Divergence,
    ) {
        self.add("What broke", cause::sentences(rank.step, outcome, first));
        self.add("Where", place(compared, rank, first));
        self.add("How large", size(first));
        self.add("Downstream", downstream(outcome, first));
        self.add("How sure", vec![sureness(first.finding.confidence)]);
        self.add("Later", other_divergences::lines(compared, rank, outcome));
        self.add(NOT_SEEN, limitations::lines(compared));
        self.add("Next", next_step::next(compared, rank, first));
    }

    fn of_agreement<S>(&mut self, compared: &Compared<S>, rank: Option<&RankResult<S>>) {
        let classes = match rank.and_then(|rank| rank.result.as_ref().ok()) {
            Some((outcome, _)) => outcome.classes.unwrap_or_default(),
            None => compared.classes().unwrap_or_default(),
        };
        let unseen = limitations::lines(compared);
        let mut lines = Vec::new();
        lines.push(match compared.agreement.answer() {
            Answer::Agree => "Nothing. The two runs agree.".to_owned(),
            // Another rank has a divergence.
            Answer::Differ => "No call of this rank was found that introduced an error.".to_owned(),
            Answer::Inconclusive => format!("Inconclusive: {}.", compared.agreement),
        });
        if let Agreement::FinalResult(FinalResult { step: Some(step), .. }) = &compared.agreement {
            lines.push(format!("The largest unexplained step towards it is {}.", step.words()));
            lines.extend(step.module.iter().map(|module| format!("module  {module}")));
            lines.extend(step.code.iter().map(|code| format!("code    {code}")));
        }
        if compared.agreement.exit_code() == 1 {
            lines.extend(reservations(compared));
        }
        self.add("What broke", lines);
        self.add("Compared", vec![compared_words(&classes)]);
        if classes.of(Class::Noise) > 0 {
            self.add("Floor", vec![
                "How far apart two right results may be follows from the dtype, from how many terms a call sums up, \
                 from the errors of what it works on, and from how far apart other calls of its kind are."
                    .to_owned(),
            ]);
        }
        self.add(NOT_SEEN, unseen);
        self.add("Next", next_step::when_nothing_broke(compared));
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines(true).iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}

/// Why two runs differ in which no call introduced an error.
fn reservations<S>(compared: &Compared<S>) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some([target, golden]) = next_step::other_levels(compared) {
        lines.push(format!(
            "The target was captured at level {target}, the golden at level {golden}: most calls of one have no counterpart in \
             the other."
        ));
    }
    lines.extend(unpaired::by_operation(compared));
    match compared.lone_ranks.len() {
        0 => {}
        1 => lines.push("1 step or rank has no counterpart.".to_owned()),
        count => lines.push(format!("{count} steps or ranks have no counterpart.")),
    }
    lines
}

fn compared_words(classes: &ClassCounts) -> String {
    let (equal, noise) = (classes.of(Class::Equal), classes.of(Class::Noise));
    match (equal, noise) {
        (0, 0) => "No call.".to_owned(),
        (equal, 0) => format!("{}; no difference was seen in them.", calls(equal)),
        (0, noise) => {
            format!("{}, no further apart than rounding and their arguments explain.", calls(noise))
        }
        (equal, noise) => format!(
            "{}: no difference was seen in {equal}; {noise} no further apart than rounding and their arguments explain.",
            calls(equal + noise)
        ),
    }
}

pub(super) fn calls(count: u64) -> String {
    if count == 1 { "1 call".to_owned() } else { format!("{count} calls") }
}

fn place<S>(compared: &Compared<S>, rank: &RankResult<S>, first: &Divergence) -> Vec<String> {
    let pass = match first.module.as_deref() {
        _ if first.finding.in_backward => "backward pass",
        Some("optimizer") => "optimizer's step",
        _ => "forward pass",
    };
    let mut lines = vec![format!("call    {} ({pass})", first.call)];
    if compared.ranks.len() > 1 {
        lines.extend(rank.step.map(|step| format!("step    {step}")));
    }
    if compared.ranks.iter().any(|other| other.target != rank.target) {
        lines.push(format!("rank    {}", rank.target));
    }
    if let Some(golden) = first.golden_call.as_ref().filter(|golden| **golden != first.call) {
        lines.push(format!("golden  {golden}"));
    }
    lines.extend(first.module.iter().map(|module| format!("module  {module}")));
    lines.extend(first.code.iter().map(|code| format!("code    {code}")));
    let other = first.golden_code.as_ref().filter(|code| first.code.as_ref() != Some(code));
    lines.extend(other.map(|code| format!("golden  {code}")));
    lines.push(format!("entry   {} (csv line {})", first.finding.entry, first.line));
    lines
}

/// Errors up to here leave most of a tensor as it was.
const FEW_PERCENT: f64 = 0.05;

/// How large it is: one number for the error, and how many times what was expected that is.
fn size(first: &Divergence) -> Vec<String> {
    let finding = &first.finding;
    let mut lines = Vec::new();
    if !finding.seen.is_empty() {
        lines.push(format!("{}.", capital(&finding.seen)));
    }
    if let Some(precision) = finding.looks_like {
        lines.push(format!("It is as much as if it were computed in {}.", precision.words()));
    }
    let Some(measure) = finding.measure.filter(|_| finding.cause != FindingCause::Draw) else { return lines };
    let floor = format_short(measure.floor);
    if finding.cause == FindingCause::Origin {
        if measure.floor > 0.0 {
            lines.push(format!("Other things that come from outside are off by {floor}, as a rule."));
        }
        return lines;
    }
    let distance = measure.distance.unwrap_or(measure.error);
    let times = format_short(distance / measure.floor);
    match (measure.distance, measure.floor > 0.0) {
        (Some(_), true) => {
            lines.push(format!("That is {times} × what rounding and its arguments explain ({floor})."));
        }
        (None, true) => {
            let whose = match finding.cause {
                FindingCause::Cut(_) | FindingCause::ArgumentsInBackward(_) => {
                    "The gradients behind it are off by a relative distance of"
                }
                _ if measure.is_behind => "What is computed from it is off by a relative distance of",
                _ => "The relative distance is at least",
            };
            lines.push(format!(
                "{whose} {}: {times} × what rounding and its arguments explain ({floor}).",
                format_short(distance)
            ));
        }
        (_, false) => {}
    }
    let (part, most) = measure.part;
    // Of what has little in common, a factor says nothing; and what it looks like was said.
    let is_told = finding.seen.contains("as if") || part == Part::CommonFactor && distance > FEW_PERCENT;
    if most.is_finite() && most > distance / measure.floor && !is_told && !measure.is_behind {
        let part = match part {
            Part::Whole => "the whole",
            Part::WorstElement => "its worst element",
            // Statistics cannot tell a factor from a few elements.
            Part::CommonFactor if measure.distance.is_none() => "its norm",
            Part::CommonFactor => "a common factor (all its elements are scaled alike)",
        };
        lines.push(format!("It shows most in {part}: {} × what they explain.", format_short(most)));
    }
    if !first.exhibit.is_taken {
        lines.push(if measure.arguments == 0.0 {
            "No difference was seen in what it works on.".to_owned()
        } else {
            format!("What it works on is off by {} at most.", format_short(measure.arguments))
        });
    }
    lines
}

/// What inherited the error. The result counts this call's heirs; which they are it tells of all divergences together.
fn downstream(outcome: &RankOutcome, first: &Divergence) -> Vec<String> {
    let own = |name: &str| outcome.divergences.iter().any(|one| one.call == name);
    let heirs: Vec<&str> =
        outcome.failing.iter().map(|call| call.name.as_str()).filter(|name| !own(name)).collect();
    if first.finding.downstream == 0 {
        return vec![match heirs.len() {
            0 => "No later call was seen to inherit it.".to_owned(),
            1 => "1 call differs, too; the dumps do not tell whether it got that from here.".to_owned(),
            count => {
                format!("{count} calls differ, too; the dumps do not tell whether they got that from here.")
            }
        }];
    }
    let kind = |name: &str| parse_key(name).2;
    let is_backward = |name: &&&str| matches!(kind(name), CallKind::Backward | CallKind::ParametersGrad);
    let backward = heirs.iter().filter(is_backward).count();
    let inherit = if first.finding.downstream == 1 { "inherits" } else { "inherit" };
    let mut line = format!("{} {inherit} the error", calls(first.finding.downstream));
    let is_all = heirs.len() as u64 == first.finding.downstream;
    if is_all {
        line += &format!(": {} forward, {backward} backward", heirs.len() - backward);
    }
    let mut lines = vec![line + "."];
    // With several divergences it is not told whose error arrived.
    let it = if is_all { "It" } else { "An error" };
    let is_loss = |name: &&&str| {
        let is_forward = kind(name) == CallKind::Forward;
        let name = name.to_lowercase();
        is_forward && (name.contains("loss") || name.contains("cross_entropy"))
    };
    if let Some(loss) = heirs.iter().find(is_loss) {
        lines.push(format!("{it} reaches the loss ({loss})."));
    }
    let gradients = heirs.iter().filter(|name| kind(name) == CallKind::ParametersGrad).count();
    if gradients > 0 {
        let modules = if gradients == 1 { "1 module".to_owned() } else { format!("{gradients} modules") };
        lines.push(format!("{it} reaches the parameter gradients of {modules}."));
    } else if backward > 0 && !first.finding.in_backward {
        lines.push(format!("{it} reaches the backward pass."));
    }
    lines
}

fn sureness(confidence: f64) -> String {
    let words = match confidence {
        sure if sure >= 0.9 => "Very sure",
        sure if sure >= next_step::SURE => "Fairly sure",
        sure if sure >= 0.5 => "More likely than not",
        _ => "A guess",
    };
    format!("{words} ({confidence:.2} of 1).")
}
