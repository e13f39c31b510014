//! A region in an explanation: where two programs part, and which calls of both lie there.
//!
//! ```text
//! Region (in a finding, or in result.json) ──► RegionStatement: the edges, then the calls of each side in execution order
//! ```
//! `explain` lists the most suspect calls; [`OpenedRegion`], for `explain --region`, all of them with what they return.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use ulpscope_compare::{Divergence, Measure, Region, RegionCall, RegionCalls, RegionResult, Side};

use crate::Compared;
use crate::explanation::Explanation;
use crate::statement::{Heading, Statement};

/// Calls of a side that `explain` lists.
const LISTED: usize = 12;

/// How sure it may be that a difference arises in a region before which statistics alone agree: they do not show every error.
const BY_STATISTICS: f64 = 0.8;

/// Calls before a region that are named; they are the nearest.
const NAMED_BEFORE: usize = 3;

/// One sentence, or one line of a list, about a region.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RegionStatement {
    /// Calls at its begin or end, of the target and of the golden.
    Edge {
        /// Which.
        edge: Edge,
        /// The target's call.
        target: String,
        /// The golden's.
        golden: String,
    },
    /// It begins with the inputs and parameters of the run.
    FromStart,
    /// It may begin earlier: statistics alone agree there.
    MayBeginEarlier,
    /// So many more calls whose results go into it and agree.
    MoreBefore(u64),
    /// The line of code of one side.
    CodeOf {
        /// The side.
        side: Side,
        /// The line.
        code: String,
    },
    /// A call in it.
    Call(ListedCall),
    /// This side has no call in it.
    NoCalls,
    /// Calls that are not listed.
    NotListed {
        /// Those that compute.
        computing: u64,
        /// Those that move elements, or are computed from no parameter.
        others: u64,
    },
    /// What the mark of calls means that do not compute.
    OthersMarked,
    /// How far apart the results at its end are.
    Excess {
        /// The call at its end.
        call: String,
        /// The relative distance.
        #[serde(with = "ulpscope_compare::number")]
        distance: f64,
        /// What accumulated rounding allows.
        #[serde(with = "ulpscope_compare::number")]
        allowed: f64,
    },
    /// How sure it is that the difference arises in it, and that the first call makes it.
    Confidence {
        /// In the region.
        #[serde(with = "ulpscope_compare::number")]
        region: f64,
        /// In its first call; `None` if there is no other.
        first: Option<FirstCall>,
    },
}

/// The first call to look at.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FirstCall {
    /// Its name.
    pub call: String,
    /// How sure it is that it makes the difference.
    #[serde(with = "ulpscope_compare::number")]
    pub confidence: f64,
}

/// An end of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Edge {
    /// What goes into it agrees.
    After,
    /// What comes out of it differs.
    Before,
}

/// A call in a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListedCall {
    /// What it is in the region.
    pub mark: Mark,
    /// Its name.
    pub name: String,
    /// What it returns; empty where that is not listed.
    pub results: Vec<RegionResult>,
    /// Its module, where that is listed.
    pub module: Option<String>,
    /// Its line.
    pub code: Option<String>,
}

/// What a call is in a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mark {
    /// The first to look at.
    First,
    /// It computes.
    Computes,
    /// It moves elements, or is computed from no parameter.
    Other,
}

impl Mark {
    /// Before a name.
    fn sign(self) -> char {
        match self {
            Mark::First => '*',
            Mark::Computes => ' ',
            Mark::Other => '-',
        }
    }

    /// For programs.
    pub fn word(self) -> &'static str {
        match self {
            Mark::First => "first",
            Mark::Computes => "computes",
            Mark::Other => "other",
        }
    }
}

impl ListedCall {
    fn cells(&self) -> [String; 4] {
        let shape = |shape: &Option<Vec<u64>>| shape.as_ref().map(|shape| format!("{shape:?}"));
        let result = |result: &RegionResult| {
            let dtype = result.dtype.strip_prefix("torch.").unwrap_or(&result.dtype);
            [Some(dtype.to_owned()), shape(&result.shape)]
                .into_iter()
                .flatten()
                .collect::<Vec<String>>()
                .join(" ")
        };
        [
            format!("{} {}", self.mark.sign(), self.name),
            self.results.iter().map(result).collect::<Vec<String>>().join(", "),
            self.module.clone().unwrap_or_default(),
            self.code.clone().unwrap_or_default(),
        ]
    }
}

/// The lines of calls, their columns aligned. They have no words of a language.
pub(crate) fn lines(calls: &[&ListedCall]) -> Vec<String> {
    let rows: Vec<[String; 4]> = calls.iter().map(|call| call.cells()).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; 4] = std::array::from_fn(width);
    let line = |row: &[String; 4]| {
        let used = row.iter().zip(widths).filter(|(_, width)| *width > 0);
        let padded = used.map(|(cell, width)| format!("{cell:width$}"));
        padded.collect::<Vec<String>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

/// The region of a finding, if its cause is one.
pub(crate) fn of(first: &Divergence) -> Option<&Region> {
    first.finding.cause.region()
}

/// Its number among those of the comparison, from 1.
pub(crate) fn number<S>(compared: &Compared<S>, first: &Divergence) -> usize {
    let all = compared.outcomes().flat_map(|outcome| &outcome.divergences).filter(|one| of(one).is_some());
    1 + all.take_while(|one| !std::ptr::eq(*one, first)).count()
}

/// Where it begins and ends, with the lines of both programs.
pub(crate) fn edges(region: &Region) -> Vec<Statement> {
    let mut said = Vec::new();
    let mut say = |edge: Edge, [target, golden]: &[RegionCall; 2]| {
        said.push(RegionStatement::Edge { edge, target: target.name.clone(), golden: golden.name.clone() });
        for (side, call) in [(Side::Target, target), (Side::Golden, golden)] {
            said.extend(call.code.clone().map(|code| RegionStatement::CodeOf { side, code }));
        }
    };
    region.after.iter().take(NAMED_BEFORE).for_each(|calls| say(Edge::After, calls));
    say(Edge::Before, &region.before);
    let more = region.after.len().saturating_sub(NAMED_BEFORE) as u64;
    if region.after.is_empty() {
        said.insert(0, RegionStatement::FromStart);
    } else if more > 0 {
        said.push(RegionStatement::MoreBefore(more));
    }
    if region.may_begin_earlier {
        said.push(RegionStatement::MayBeginEarlier);
    }
    said.into_iter().map(Statement::Region).collect()
}

/// The most suspect calls of each side, in execution order.
pub(crate) fn calls(region: &Region) -> [(Heading, Vec<Statement>); 2] {
    sides(region).map(|(heading, side, first)| {
        let listed = side.computing.iter().take(LISTED).map(|call| (mark(call, first), call));
        let listed: Vec<ListedCall> = in_order(listed)
            .into_iter()
            .map(|(mark, call)| ListedCall { results: Vec::new(), module: None, ..listed_call(mark, call) })
            .collect();
        let computing = side.computing.len().saturating_sub(LISTED) as u64;
        let others = side.others.len() as u64;
        let mut said: Vec<RegionStatement> = listed.into_iter().map(RegionStatement::Call).collect();
        if said.is_empty() && others == 0 {
            said.push(RegionStatement::NoCalls);
        } else if computing + others > 0 {
            said.push(RegionStatement::NotListed { computing, others });
        }
        (heading, said.into_iter().map(Statement::Region).collect())
    })
}

/// How far apart its results are.
pub(crate) fn size(region: &Region, measure: Option<Measure>) -> Option<Statement> {
    let Measure { error: distance, floor: allowed, .. } = measure.filter(|measure| measure.floor > 0.0)?;
    let call = region.before[0].name.clone();
    Some(Statement::Region(RegionStatement::Excess { call, distance, allowed }))
}

/// How sure it is: that results at its end differ is measured, which call made it is not.
pub(crate) fn confidence(region: &Region, first: &Divergence) -> Statement {
    let finding = &first.finding;
    let measured = finding.measure.map(|measure| 1.0 - measure.floor / measure.error);
    let sure = measured.filter(|sure| sure.is_finite()).unwrap_or(finding.confidence);
    let most = if region.is_by_statistics { BY_STATISTICS } else { 1.0 };
    let sure = if region.may_begin_earlier { 0.0 } else { sure.min(most) };
    let sure = sure.max(finding.confidence);
    let is_only = region.target.computing.len() + region.golden.computing.len() <= 2;
    let first = (!is_only).then(|| FirstCall { call: first.call.clone(), confidence: finding.confidence });
    Statement::Region(RegionStatement::Confidence { region: sure, first })
}

/// The name of the most suspect call.
fn first(calls: &RegionCalls) -> Option<&str> {
    calls.computing.first().map(|call| call.name.as_str())
}

/// The two sides, each with the name of its first call to look at.
fn sides(region: &Region) -> [(Heading, &RegionCalls, Option<&str>); 2] {
    let [target, golden] = [&region.target, &region.golden];
    [
        (Heading::BetweenInTarget, target, first(target)),
        (Heading::BetweenInGolden, golden, region.partner.as_deref().or(first(golden))),
    ]
}

fn mark(call: &RegionCall, first: Option<&str>) -> Mark {
    if first == Some(&call.name) { Mark::First } else { Mark::Computes }
}

/// The calls of the target and of the golden, each in execution order.
pub fn listed(region: &Region) -> [Vec<(Mark, &RegionCall)>; 2] {
    sides(region).map(|(_, side, first)| all_calls(side, first))
}

/// Every call of a side, in execution order.
fn all_calls<'a>(side: &'a RegionCalls, first: Option<&str>) -> Vec<(Mark, &'a RegionCall)> {
    let computing = side.computing.iter().map(|call| (mark(call, first), call));
    in_order(computing.chain(side.others.iter().map(|call| (Mark::Other, call))))
}

fn in_order<'a>(calls: impl Iterator<Item = (Mark, &'a RegionCall)>) -> Vec<(Mark, &'a RegionCall)> {
    let mut known = HashSet::new();
    let mut calls: Vec<(Mark, &RegionCall)> = calls.filter(|(_, call)| known.insert(call.at)).collect();
    calls.sort_by_key(|(_, call)| call.at);
    calls
}

fn listed_call(mark: Mark, call: &RegionCall) -> ListedCall {
    ListedCall {
        mark,
        name: call.name.clone(),
        results: call.results.clone(),
        module: call.module.clone(),
        code: call.code.clone(),
    }
}

/// A region of a `result.json`, with everything in it.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenedRegion {
    /// The finding, as the file has it.
    finding: Value,
    step: Value,
    rank: Value,
    region: Region,
}

impl OpenedRegion {
    /// The regions of a result, in its order.
    pub fn all(document: &Value) -> Vec<OpenedRegion> {
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let of_rank = |rank: Value| {
            let opened = list(&rank["divergences"]).into_iter().filter_map(|finding| {
                let region = Region::deserialize(&finding["region"]).ok()?;
                Some(OpenedRegion {
                    finding,
                    region,
                    step: rank["step"].clone(),
                    rank: rank["target"].clone(),
                })
            });
            opened.collect::<Vec<OpenedRegion>>()
        };
        list(&document["ranks"]).into_iter().flat_map(of_rank).collect()
    }

    /// Where it lies, and all calls of both sides in it.
    pub fn explanation(&self) -> Explanation {
        let mut place = edges(&self.region);
        let rank = self.rank.as_str().filter(|rank| !rank.is_empty());
        place.extend(self.step.as_u64().map(Statement::Step));
        place.extend(rank.map(|rank| Statement::Rank(rank.to_owned())));
        let mut sections = vec![(Heading::Where, place)];
        for (heading, side, first) in sides(&self.region) {
            let calls = all_calls(side, first);
            let has_others = calls.iter().any(|(mark, _)| *mark == Mark::Other);
            let mut said: Vec<RegionStatement> = calls
                .into_iter()
                .map(|(mark, call)| RegionStatement::Call(listed_call(mark, call)))
                .collect();
            if said.is_empty() {
                said.push(RegionStatement::NoCalls);
            } else if has_others {
                said.push(RegionStatement::OthersMarked);
            }
            sections.push((heading, said.into_iter().map(Statement::Region).collect()));
        }
        Explanation::of_sections(sections)
    }

    /// The same for programs.
    pub fn document(&self) -> Value {
        let calls = |side: &RegionCalls, first: Option<&str>| {
            let calls = all_calls(side, first).into_iter().map(|(mark, call)| {
                let mut value = json!(call);
                value["role"] = json!(mark.word());
                value
            });
            calls.collect::<Vec<Value>>()
        };
        let [target, golden] = sides(&self.region).map(|(_, side, first)| calls(side, first));
        json!({
            "step": self.step,
            "rank": self.rank,
            "call": self.finding["call"],
            "golden_call": self.finding["golden_call"],
            "confidence": self.finding["confidence"],
            "error": self.finding["error"],
            "floor": self.finding["floor"],
            "after": self.region.after,
            "before": self.region.before,
            "target": target,
            "golden": golden,
        })
    }
}
