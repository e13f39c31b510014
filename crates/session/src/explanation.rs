//! The explanation of a comparison: what broke, where, how large, what it affects, the confidence, the limitations, and
//! what to do next.
//!
//! ```text
//! Compared ──► the first rank with a divergence ──► sections of statements ──► result.json
//!                                                      └──► Words ──► text, in a language
//! ```
//! Nothing is measured or judged here. The statements are kept with the result, so that they can be read without the
//! dumps, in any language.

use serde::{Deserialize, Serialize};
use ulpscope_compare::{
    Agreement, Answer, Class, Divergence, FinalResult, Part, RankOutcome, RankResult, ShowsIn, Side,
};
use ulpscope_dump::{CallKind, parse_key};
use ulpscope_report::escape;

use crate::instruction::Instruction;
use crate::region::{ListedCall, RegionStatement};
use crate::statement::{Heading, Measured, Pass, Reached, Section, Statement};
use crate::words::Words;
use crate::{
    Compared, StyleName, cause, limitations, next_step, other_divergences, region, tensors, unpaired,
};

/// Headed sections of statements.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Explanation {
    sections: Vec<Section>,
}

/// A section in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SectionText {
    /// What it is about.
    pub heading: Heading,
    /// The heading, with its colon.
    pub title: &'static str,
    /// The statements, and whether each is a command or code.
    pub lines: Vec<(String, bool)>,
}

/// What is said before everything else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Headline {
    /// One sentence.
    pub sentence: String,
    /// The other sentences of its section; of an agreement, also how much was compared.
    pub more: Vec<String>,
}

/// Explains a comparison: its first divergence, or that it has none.
pub fn explain<S>(compared: &Compared<S>) -> Explanation {
    let leading = compared.first_divergence().map(|(rank, _)| rank);
    explain_rank(compared, leading)
}

/// Explains one pair of ranks as part of the whole; without one, the whole comparison.
pub(crate) fn explain_rank<S>(compared: &Compared<S>, rank: Option<&RankResult<S>>) -> Explanation {
    let mut explanation = Explanation::default();
    if compared.request.style != StyleName::Native {
        explanation.of_older_style(compared);
        return explanation;
    }
    let found = rank.and_then(|rank| Some((rank, &rank.result.as_ref().ok()?.0)));
    match found.and_then(|(rank, outcome)| Some((rank, outcome, outcome.first_divergence()?))) {
        Some((rank, outcome, _)) if outcome.only_tensors => explanation.of_tensors(compared, rank, outcome),
        Some((rank, outcome, first)) => explanation.of_divergence(compared, rank, outcome, first),
        None => explanation.of_agreement(compared, rank),
    }
    explanation
}

impl Explanation {
    /// The text: each heading with its statements, every line ended.
    pub fn text(&self, words: &dyn Words) -> String {
        self.lines(words, true).iter().map(|line| format!("{line}\n")).collect()
    }

    /// The lines of the text. `limitations`: whether to include that section.
    pub(crate) fn lines(&self, words: &dyn Words, limitations: bool) -> Vec<String> {
        let mut lines = Vec::new();
        for section in &self.sections {
            if section.heading == Heading::Limitations && !limitations {
                continue;
            }
            let heading = words.heading(section.heading);
            // Names and lines of code come from files: each stays on one line, whatever it contains.
            let calls = section.statements.iter().filter_map(|statement| match statement {
                Statement::Region(RegionStatement::Call(call)) => Some(call),
                _ => None,
            });
            let mut calls = region::lines(&calls.collect::<Vec<&ListedCall>>()).into_iter();
            let said = section.statements.iter().map(|statement| {
                let is_call = matches!(statement, Statement::Region(RegionStatement::Call(_)));
                let call = if is_call { calls.next() } else { None };
                let text = call.unwrap_or_else(|| words.statement(statement));
                let indent = if is_verbatim(statement) { "  " } else { "" };
                format!("{indent}{}", escape::terminal(&text))
            });
            if section.heading == Heading::Confidence {
                // A full-width colon brings its own space.
                let space = if heading.ends_with('：') { "" } else { " " };
                lines.extend(said.map(|text| format!("{heading}{space}{text}")));
            } else {
                lines.push(heading.to_owned());
                lines.extend(said.map(|text| format!("  {text}")));
            }
        }
        lines
    }

    /// The sections in words. Text from files is escaped, so that each statement stays on one line.
    pub fn sections(&self, words: &dyn Words) -> Vec<SectionText> {
        let section = |section: &Section| SectionText {
            heading: section.heading,
            title: words.heading(section.heading),
            lines: section
                .statements
                .iter()
                .map(|statement| {
                    let text = escape::terminal(&words.statement(statement)).into_owned();
                    (text, is_verbatim(statement))
                })
                .collect(),
        };
        self.sections.iter().map(section).collect()
    }

    /// The sentence that stands for the whole, and what belongs to it.
    pub fn headline(&self, words: &dyn Words) -> Option<Headline> {
        let section = self.sections.first()?;
        let statements = &section.statements;
        let is_cause = |statement: &Statement| !matches!(statement, Statement::MostNotJudged { .. });
        let at = statements.iter().position(is_cause).unwrap_or(0);
        let said = statements.get(at)?;
        let shown = |text: &str| escape::terminal(text).into_owned();
        // The rule of an older tool is explained in a section of its own.
        let is_cause_section = section.heading == Heading::WhatBroke;
        let others = statements.iter().enumerate().filter(|(other, _)| is_cause_section && *other != at);
        let mut more: Vec<String> = others.map(|(_, statement)| shown(&words.statement(statement))).collect();
        // That two runs agree says little without how much of them was compared.
        let compared = self.sections.iter().find(|section| section.heading == Heading::Compared);
        if let Some(compared) = compared {
            let heading = words.heading(Heading::Compared);
            // A full-width colon brings its own space.
            let space = if heading.ends_with('：') { "" } else { " " };
            let lines = compared.statements.iter().map(|statement| shown(&words.statement(statement)));
            more.extend(lines.map(|line| format!("{heading}{space}{line}")));
        }
        Some(Headline { sentence: shown(&words.headline(said)), more })
    }

    fn add(&mut self, heading: Heading, statements: Vec<Statement>) {
        if !statements.is_empty() {
            self.sections.push(Section { heading, statements });
        }
    }

    fn add_next(&mut self, steps: Vec<Instruction>) {
        self.add(Heading::Next, steps.into_iter().map(Statement::Next).collect());
    }

    fn of_older_style<S>(&mut self, compared: &Compared<S>) {
        let counts = compared.counts();
        let style = compared.request.style.to_string();
        let mut said = vec![Statement::JudgedByRule { style, failed: counts.failed, rows: counts.rows }];
        if let Some((rank, first)) = compared.first_divergence() {
            let sheet = sheet(rank);
            said.push(Statement::FirstFailing {
                entry: first.finding.entry.clone(),
                line: first.line,
                sheet,
            });
        }
        said.push(Statement::RuleJudgesRows);
        self.add(Heading::Rule, said);
        self.add_next(vec![Instruction::CompareNatively, next_step::compare_again(compared, None)]);
    }

    pub(crate) fn of_sections(sections: Vec<(Heading, Vec<Statement>)>) -> Explanation {
        let mut explanation = Explanation::default();
        sections.into_iter().for_each(|(heading, statements)| explanation.add(heading, statements));
        explanation
    }

    fn of_divergence<S>(
        &mut self,
        compared: &Compared<S>,
        rank: &RankResult<S>,
        outcome: &RankOutcome,
        first: &Divergence,
    ) {
        let mut broke = limitations::first_statements(compared, most_not_judged(compared));
        broke.extend(cause::statements(rank.step, outcome, first));
        self.add(Heading::WhatBroke, broke);
        let region = region::of(first);
        self.add(Heading::Where, place(compared, rank, first));
        for (heading, calls) in region.map(region::calls).into_iter().flatten() {
            self.add(heading, calls);
        }
        let proof = first.finding.proof.clone().map(|proof| Statement::Proof { call: None, proof });
        let size = match region {
            Some(region) => region::size(region, first.finding.measure).into_iter().collect(),
            None => size(first),
        };
        self.add(Heading::HowLarge, size.into_iter().chain(proof).collect());
        self.add(Heading::Downstream, downstream(outcome, first));
        let confidence = match region {
            Some(region) => region::confidence(region, first),
            None => Statement::Confidence(first.finding.confidence),
        };
        self.add(Heading::Confidence, vec![confidence]);
        let mut others = other_divergences::statements(compared, rank, outcome);
        others.extend(other_divergences::refuted(outcome));
        self.add(Heading::OtherDivergences, others);
        self.add(Heading::Limitations, limitations::statements(compared, false));
        self.add_next(next_step::next(compared, rank, first));
    }

    fn of_tensors<S>(&mut self, compared: &Compared<S>, rank: &RankResult<S>, outcome: &RankOutcome) {
        let by_size = tensors::by_size(outcome);
        let Some(most) = by_size.first() else { return };
        self.add(Heading::WhatBroke, vec![tensors::differ(outcome, most)]);
        self.add(Heading::Where, place_of_entry(compared, rank, most));
        self.add(Heading::HowLarge, tensors::size(most));
        self.add(Heading::Confidence, vec![Statement::Confidence(most.finding.confidence)]);
        let mut others = tensors::others(outcome, &by_size);
        others.extend(other_divergences::other_ranks(compared, rank));
        self.add(Heading::OtherDivergences, others);
        self.add(Heading::Limitations, limitations::statements(compared, false));
        self.add_next(next_step::of_tensors(compared, outcome, most));
    }

    fn of_agreement<S>(&mut self, compared: &Compared<S>, rank: Option<&RankResult<S>>) {
        let classes = match rank.and_then(|rank| rank.result.as_ref().ok()) {
            Some((outcome, _)) => outcome.classes.unwrap_or_default(),
            None => compared.classes().unwrap_or_default(),
        };
        let is_forward_only = matches!(compared.agreement, Agreement::Agrees { forward_only: Some(_), .. });
        let mut said = vec![match compared.agreement.answer() {
            Answer::Agree if is_forward_only => Statement::ForwardPassesAgree,
            Answer::Agree => Statement::RunsAgree,
            Answer::Differ => Statement::NoErrorOnThisRank,
            Answer::Inconclusive => Statement::Inconclusive(compared.agreement.clone()),
        }];
        if let Agreement::FinalResult(FinalResult { step: Some(step), .. }) = &compared.agreement {
            let call = step.call.clone();
            said.push(Statement::LargestStep { call, inputs: step.inputs, output: step.error });
            said.extend(step.module.iter().cloned().map(Statement::Module));
            said.extend(step.code.iter().cloned().map(Statement::Code));
            said.extend(step.inner_code.iter().cloned().map(Statement::InnerCode));
        }
        let refuted = compared.outcomes().map(|outcome| outcome.refuted.len() as u64).sum();
        if refuted > 0 && compared.agreement.answer() == Answer::Inconclusive {
            said.push(Statement::NoReplayableCall(refuted));
        }
        let has_reservations = compared.agreement.exit_code() == 1;
        if has_reservations {
            said.extend(reservations(compared));
        }
        match compared.agreement.answer() {
            Answer::Agree if !is_forward_only => limitations::add_to_agreement(compared, &mut said),
            Answer::Agree | Answer::Differ | Answer::Inconclusive => {
                let first = limitations::first_statements(compared, most_not_judged(compared));
                said.splice(0..0, first);
            }
        }
        self.add(Heading::WhatBroke, said);
        let refuted = compared.outcomes().flat_map(other_divergences::refuted);
        self.add(Heading::OtherDivergences, refuted.collect());
        let (equal, noise) = (classes.of(Class::Equal), classes.of(Class::Noise));
        self.add(Heading::Compared, vec![Statement::ComparedCalls { equal, noise }]);
        if noise > 0 {
            self.add(Heading::Tolerance, vec![Statement::ToleranceRule]);
        }
        self.add(Heading::Limitations, limitations::statements(compared, has_reservations));
        self.add_next(next_step::when_nothing_broke(compared));
    }
}

/// Whether a statement is a command or code, which is indented further.
fn is_verbatim(statement: &Statement) -> bool {
    matches!(
        statement,
        Statement::Next(Instruction::Run(_) | Instruction::CodeOf(..))
            | Statement::Region(RegionStatement::CodeOf { .. })
    )
}

/// So many calls or less are a change of one program, and are named one by one.
const FEW: u64 = 8;

/// That most calls could not be judged, if so: what is said after it rests on the others.
fn most_not_judged<S>(compared: &Compared<S>) -> Option<Statement> {
    let unpaired = [Side::Target, Side::Golden].map(|side| unpaired::count(compared, side).calls);
    let unpaired: u64 = unpaired.iter().sum();
    let paired: u64 = compared.paired().iter().map(|way| way.calls).sum();
    let calls = unpaired + compared.classes()?.of(Class::NotComparable);
    let of = unpaired + paired;
    (calls > FEW && 2 * calls > of && next_step::other_levels(compared).is_none())
        .then_some(Statement::MostNotJudged { calls, of })
}

/// Why two runs differ although no call introduced an error.
fn reservations<S>(compared: &Compared<S>) -> Vec<Statement> {
    let mut said = Vec::new();
    if let Some([target, golden]) = next_step::other_levels(compared) {
        said.push(Statement::LevelsDiffer { target: target.to_owned(), golden: golden.to_owned() });
    }
    said.extend(unpaired::by_operation(compared));
    if !compared.lone_ranks.is_empty() {
        said.push(Statement::RanksUnpaired(compared.lone_ranks.len() as u64));
    }
    said
}

fn place<S>(compared: &Compared<S>, rank: &RankResult<S>, first: &Divergence) -> Vec<Statement> {
    let pass = match first.module.as_deref() {
        _ if first.finding.in_backward => Pass::Backward,
        Some("optimizer") => Pass::Optimizer,
        _ => Pass::Forward,
    };
    if let Some(region) = region::of(first) {
        let mut said = region::edges(region);
        said.extend(step_and_rank(compared, rank));
        said.push(entry(rank, first));
        return said;
    }
    // A single tensor file has one tensor and no call.
    let has_call = !first.call.is_empty();
    let mut said = Vec::from_iter(has_call.then(|| Statement::Call { name: first.call.clone(), pass }));
    said.extend(step_and_rank(compared, rank));
    let golden = first.golden_call.clone().filter(|golden| *golden != first.call);
    said.extend(golden.map(Statement::GoldenCall));
    said.extend(first.module.clone().map(Statement::Module));
    said.extend(first.code.clone().map(Statement::Code));
    said.extend(first.inner_code.clone().map(Statement::InnerCode));
    let known = [&first.code, &first.inner_code];
    let golden =
        [&first.golden_code, &first.golden_inner_code].into_iter().filter(|code| !known.contains(code));
    said.extend(golden.flatten().cloned().map(Statement::GoldenCode));
    said.push(entry(rank, first));
    said
}

/// The place of a tensor that belongs to no call.
fn place_of_entry<S>(compared: &Compared<S>, rank: &RankResult<S>, first: &Divergence) -> Vec<Statement> {
    let mut said = step_and_rank(compared, rank);
    said.push(entry(rank, first));
    said
}

/// The step and the rank, where there are several.
fn step_and_rank<S>(compared: &Compared<S>, rank: &RankResult<S>) -> Vec<Statement> {
    let mut said = Vec::new();
    if compared.ranks.len() > 1 {
        said.extend(rank.step.map(Statement::Step));
    }
    if compared.ranks.iter().any(|other| other.target != rank.target) {
        said.push(Statement::Rank(rank.target.clone()));
    }
    said
}

fn entry<S>(rank: &RankResult<S>, first: &Divergence) -> Statement {
    Statement::Entry { name: first.finding.entry.clone(), line: first.line, sheet: sheet(rank) }
}

/// The file name of the sheet of a rank.
fn sheet<S>(rank: &RankResult<S>) -> Option<String> {
    rank.result.as_ref().ok().and_then(|(outcome, _)| outcome.sheet.clone())
}

/// Errors up to this size leave most of a tensor unchanged.
const FEW_PERCENT: f64 = 0.05;

/// How large it is: one number for the error, and its ratio to the expected error.
fn size(first: &Divergence) -> Vec<Statement> {
    let finding = &first.finding;
    let mut said: Vec<Statement> = finding.seen.clone().map(Statement::Measured).into_iter().collect();
    said.extend(finding.looks_like.map(Statement::LooksLike));
    let shows_in = finding.cause.traits().shows_in;
    let Some(measure) = finding.measure.filter(|_| shows_in != ShowsIn::RandomNumbers) else { return said };
    let floor = measure.floor;
    if shows_in == ShowsIn::Origin {
        if floor > 0.0 {
            said.push(Statement::OriginsTypically { floor });
        }
        return said;
    }
    let distance = measure.distance.unwrap_or(measure.error);
    if floor > 0.0 {
        let of = if measure.distance.is_some() {
            Measured::Elements
        } else if shows_in == ShowsIn::Gradients {
            Measured::Gradients
        } else if measure.is_behind {
            Measured::Results
        } else {
            Measured::Statistics
        };
        said.push(Statement::Excess { of, distance, floor });
    }
    let (part, times) = measure.part;
    // A factor says nothing about tensors with little in common, or if the fact was already stated.
    let is_told = finding.seen.as_ref().is_some_and(|seen| seen.explains_itself())
        || part == Part::CommonFactor && distance > FEW_PERCENT;
    if times.is_finite() && times > distance / floor && !is_told && !measure.is_behind {
        said.push(Statement::ShowsMost { part, by_statistics: measure.distance.is_none(), times });
    }
    // The inputs of a call that one side lacks have no counterpart either.
    let has_counterpart = finding.cause.traits().only_side.is_none();
    if !first.shown.is_taken && has_counterpart {
        said.push(match measure.arguments {
            0.0 => Statement::InputsAgree,
            largest => Statement::InputsDiffer { largest },
        });
    }
    said
}

/// Calls that inherited the error. The result counts them per divergence, but lists them for all divergences together.
fn downstream(outcome: &RankOutcome, first: &Divergence) -> Vec<Statement> {
    let own = |name: &str| outcome.divergences.iter().any(|one| one.call == name);
    let heirs: Vec<&str> =
        outcome.failing.iter().map(|call| call.name.as_str()).filter(|name| !own(name)).collect();
    let calls = first.finding.downstream;
    if calls == 0 {
        return vec![match heirs.len() as u64 {
            0 => Statement::NotInherited,
            count => Statement::OthersDiffer(count),
        }];
    }
    let kind = |name: &str| parse_key(name).2;
    let is_backward = |name: &&&str| matches!(kind(name), CallKind::Backward | CallKind::ParametersGrad);
    let backward = heirs.iter().filter(is_backward).count() as u64;
    // With several divergences it is unknown which error arrived.
    let is_this = heirs.len() as u64 == calls;
    let by_pass = is_this.then(|| [heirs.len() as u64 - backward, backward]);
    let mut said = vec![Statement::Inherited { calls, by_pass }];
    let mut reach = |what: Reached| said.push(Statement::Reaches { what, is_this });
    let is_loss = |name: &&&str| {
        let is_forward = kind(name) == CallKind::Forward;
        let name = name.to_lowercase();
        is_forward && (name.contains("loss") || name.contains("cross_entropy"))
    };
    if let Some(loss) = heirs.iter().find(is_loss) {
        reach(Reached::Loss((*loss).to_owned()));
    }
    let gradients = heirs.iter().filter(|name| kind(name) == CallKind::ParametersGrad).count() as u64;
    if gradients > 0 {
        reach(Reached::ParameterGradients(gradients));
    } else if backward > 0 && !first.finding.in_backward {
        reach(Reached::BackwardPass);
    }
    said
}
