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

use ulpscope_compare::{Agreement, Class, ClassCounts, Divergence, FindingKind, RankOutcome, RankResult};
use ulpscope_dump::{CallKind, parse_key};
use ulpscope_report::format_number;

use super::{Compared, StyleName, experiment, rank_label, unseen};

/// Later divergences that are listed.
const SHOWN: usize = 5;

/// Characters of the reason that a later divergence is listed with.
const REASON: usize = 100;

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
            let lines = lines.iter().map(|line| line.replace(char::is_control, " ")).collect();
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
                experiment::compare_again(compared, ""),
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
        self.add("What broke", what(rank.step, first));
        self.add("Where", place(compared, rank, first));
        self.add("How large", size(first));
        self.add("Downstream", downstream(outcome, first));
        self.add("How sure", vec![sureness(first.finding.confidence)]);
        self.add("Later", later(compared, rank, outcome));
        self.add(NOT_SEEN, unseen::lines(compared));
        self.add("Next", experiment::next(compared, rank, first));
    }

    fn of_agreement<S>(&mut self, compared: &Compared<S>, rank: Option<&RankResult<S>>) {
        let classes = match rank.and_then(|rank| rank.result.as_ref().ok()) {
            Some((outcome, _)) => outcome.classes.unwrap_or_default(),
            None => compared.classes().unwrap_or_default(),
        };
        let unseen = unseen::lines(compared);
        let mut lines = Vec::new();
        lines.push(match compared.agreement {
            Agreement::Agree => "Nothing. The two runs agree.".to_owned(),
            _ if compared_calls(&classes) == 0 => {
                "This cannot be said: no call could be compared.".to_owned()
            }
            _ if unseen.is_empty() => "No call was found that introduced an error.".to_owned(),
            _ => "No call was found that introduced an error. But not all could be seen: read on.".to_owned(),
        });
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
        self.add("Next", experiment::when_nothing_broke(compared));
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines(true).iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}

fn compared_calls(classes: &ClassCounts) -> u64 {
    let all: u64 = classes.iter().map(|(_, calls)| calls).sum();
    all - classes.of(Class::NotComparable) - classes.of(Class::DifferentProgram)
}

fn compared_words(classes: &ClassCounts) -> String {
    let (equal, noise) = (classes.of(Class::Equal), classes.of(Class::Noise));
    match (equal, noise) {
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

/// What happened, in a sentence or two.
fn what(step: Option<u64>, first: &Divergence) -> Vec<String> {
    let (call, finding, exhibit) = (&first.call, &first.finding, &first.exhibit);
    match finding.kind {
        FindingKind::DivergedHere | FindingKind::OriginDiffers if experiment::is_changed_between(first) => {
            vec![
            format!("{call} gets another tensor in the target than in the golden: {}.", finding.entry),
            "The call that made the tensor agrees. Something that was not recorded changed it in between."
                .to_owned(),
        ]
        }
        FindingKind::DivergedHere => vec![format!(
            "{call} gives another result in the target than in the golden, though what it works on agrees."
        )],
        FindingKind::OriginDiffers if finding.is_drawn => {
            vec![format!("The random numbers that {call} draws are not the same in the two runs.")]
        }
        FindingKind::OriginDiffers => {
            let differs = format!("{} is not the same in the two runs.", experiment::origin_words(first));
            let shown = format!("{call} is the first that shows it.");
            vec![
                differs,
                match experiment::was_trained(step, first) {
                    true => format!("It was so when this step began: the steps before made it. {shown}"),
                    false => format!("No recorded call made it, so no call is to blame. {shown}"),
                },
            ]
        }
        FindingKind::NonFiniteBornHere => {
            let dtype = exhibit.dtypes[0].as_deref().map(|dtype| format!(" ({dtype})")).unwrap_or_default();
            vec![format!("{call} makes NaN or infinite values{dtype} out of finite ones.")]
        }
        FindingKind::DifferentProgram => vec![format!("The two runs do not do the same at {call}.")],
        FindingKind::FailedRule => vec![format!("{call} has the first failing row.")],
    }
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

fn size(first: &Divergence) -> Vec<String> {
    let mut lines = vec![format!("{}.", first.finding.why)];
    if let Some(measure) = first.finding.measure {
        let (error, floor) = (short(measure.error), short(measure.floor));
        if first.finding.is_drawn {
            return lines;
        }
        if first.finding.kind == FindingKind::OriginDiffers {
            lines.push(format!(
                "Its relative distance is {error}; ordinary among what comes from outside is {floor}."
            ));
            return lines;
        }
        // The evidence has the error of elements, over the golden's norm; that of statistics it has not.
        let found =
            if first.finding.why.contains("distance") { String::new() } else { format!("; it is {error}") };
        lines.push(format!("Rounding and its arguments explain a relative distance of {floor}{found}."));
        lines.push(if measure.arguments == 0.0 {
            "No difference was seen in what it works on.".to_owned()
        } else {
            format!("What it works on is off by {} at most.", short(measure.arguments))
        });
    }
    lines
}

/// Three digits say how large an error is.
fn short(number: f64) -> String {
    format_number(format!("{number:.2e}").parse().unwrap_or(number))
}

/// What inherited the error. The result counts this call's heirs; which they are it tells of all divergences together.
fn downstream(outcome: &RankOutcome, first: &Divergence) -> Vec<String> {
    let own = |name: &str| outcome.divergences.iter().any(|one| one.call == name);
    let heirs: Vec<&str> =
        outcome.failing.iter().map(|call| call.name.as_str()).filter(|name| !own(name)).collect();
    if first.finding.downstream == 0 {
        return vec![match heirs.len() {
            0 => "No later call was seen to inherit it.".to_owned(),
            count => format!(
                "{} differ, too; the dumps do not tell whether they got it from here.",
                calls(count as u64)
            ),
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
        sure if sure >= experiment::SURE => "Fairly sure",
        sure if sure >= 0.5 => "More likely than not",
        _ => "A guess",
    };
    format!("{words} ({confidence:.2} of 1).")
}

/// The other divergences, shortly: those of the same rank, then the first of each other one.
fn later<S>(compared: &Compared<S>, rank: &RankResult<S>, outcome: &RankOutcome) -> Vec<String> {
    let brief = |one: &Divergence| format!("{} ({})", one.call, one.finding.kind.words());
    let own = outcome.divergences.iter().skip(1).map(|one| format!("{}: {}", brief(one), reason(one)));
    let mut lines: Vec<String> = own.take(SHOWN).collect();
    let more = outcome.divergence_count.saturating_sub(1 + lines.len() as u64);
    if more > 0 {
        lines.push(format!("and {more} more in result.json"));
    }
    let others = compared.ranks.iter().filter(|other| !std::ptr::eq(*other, rank)).filter_map(|other| {
        let (outcome, _) = other.result.as_ref().ok()?;
        let first = outcome.first_divergence()?;
        Some(format!("{} begins with {}", rank_label(other, true).trim(), brief(first)))
    });
    let others: Vec<String> = others.collect();
    lines.extend(others.iter().take(SHOWN).cloned());
    if others.len() > SHOWN {
        lines.push(format!("and {} more steps or ranks", others.len() - SHOWN));
    }
    let steps_follow = compared.ranks.iter().any(|other| other.step > rank.step);
    if !others.is_empty() && steps_follow {
        lines.push("Later steps start from weights that the first error may have changed.".to_owned());
    }
    lines
}

/// Why, as much of it as fits into a list.
fn reason(one: &Divergence) -> String {
    let why = &one.finding.why;
    match why.char_indices().nth(REASON) {
        Some((end, _)) => format!("{}…", &why[..end]),
        None => why.clone(),
    }
}
