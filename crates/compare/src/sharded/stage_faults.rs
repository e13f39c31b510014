//! What goes wrong between the stages of a pipeline, and between the pieces of a batch.

use std::collections::{BTreeMap, HashMap};

use ulpscope_dump::{CallKind, Rank, Role};

use super::decide::FITS;
use super::faults::Found;
use super::members::is_replica;
use super::ranks::Ranks;
use super::shard_fault::ShardFault;
use super::survey::{SurveyedCall, SurveyedEntry};
use crate::finding::FindingKind;

/// How far a factor may be from the number of pieces.
const SAME_FACTOR: f64 = 1e-2;

/// Everything that stands out; nothing, where ranks have all layers and the whole of their batch.
pub(super) fn find(ranks: &Ranks, golden: &Rank, calls: &[SurveyedCall]) -> Vec<Found> {
    if ranks.joined.is_none() {
        return Vec::new();
    }
    let mut found: Vec<Found> = Vec::new();
    found.extend(lost_piece(ranks, calls));
    found.extend(no_gradients(ranks, golden, calls));
    // Gradients of layers that differ differ, too.
    let is_any_wrong = calls.iter().any(|call| !call.faults.is_empty());
    if found.is_empty() && !is_any_wrong {
        found.extend(messages(ranks, golden, calls));
    }
    if found.is_empty() {
        found.extend(undivided(ranks, calls));
    }
    if found.is_empty() && !is_any_wrong {
        found.extend(tied_gradients(ranks, calls));
    }
    found
}

fn certain(call: &SurveyedCall, kind: FindingKind, fault: ShardFault) -> Found {
    Found { call: call.name.clone(), kind, fault, is_certain: true }
}

/// The first input that all pieces together do not make.
fn lost_piece(ranks: &Ranks, calls: &[SurveyedCall]) -> Option<Found> {
    let is_input = |entry: &&SurveyedEntry| !entry.is_output && entry.decision.is_some();
    calls.iter().enumerate().filter(|(_, call)| call.kind == CallKind::Forward).find_map(|(number, call)| {
        call.entries.iter().filter(is_input).find_map(|entry| {
            let whole = entry.unfit.as_ref().filter(|whole| whole.len() == entry.shape.len())?;
            let mut differing = (0..whole.len()).filter(|&dim| whole[dim] != entry.shape[dim]);
            let (dim, None) = (differing.next()?, differing.next()) else { return None };
            let axes = entry.decision.as_ref()?.is_equal.iter().zip(&ranks.grid.sizes);
            let parts: usize = axes.filter(|(is_equal, _)| !**is_equal).map(|(_, size)| size).product();
            let rows = entry.shape[dim] * parts as u64;
            (rows < whole[dim]).then(|| {
                let fault = ShardFault::LostPiece {
                    entry: entry.name.clone(),
                    ranks: ranks.numbers(number),
                    pieces: ranks.pieces() as u64,
                    rows,
                    expected: whole[dim],
                };
                certain(call, FindingKind::OriginDiffers, fault)
            })
        })
    })
}

/// Stages without a backward pass, or without that of a piece.
fn no_gradients(ranks: &Ranks, golden: &Rank, calls: &[SurveyedCall]) -> Vec<Found> {
    let is_backward = |call: &SurveyedCall| call.kind == CallKind::Backward;
    let mut found = Vec::new();
    if !golden.calls().iter().any(|call| call.kind == CallKind::Backward) || !calls.iter().any(is_backward) {
        return found;
    }
    for stage in 0..ranks.stages() {
        let own = || calls.iter().enumerate().filter(|(number, _)| ranks.stage(*number) == stage);
        let last = own().rfind(|(_, call)| call.kind == CallKind::Forward && call.partner.is_some());
        let Some((number, call)) = last else { continue };
        let pieces = ranks.pieces();
        let missing: Vec<u64> = match own().any(|(_, call)| is_backward(call)) {
            false => (0..pieces as u64).collect(),
            true => {
                let lacks = |piece: &usize| {
                    own()
                        .filter(|(_, call)| is_backward(call))
                        .all(|(number, _)| !ranks.has_piece(number, *piece))
                };
                (0..pieces).filter(lacks).map(|piece| piece as u64).collect()
            }
        };
        if !missing.is_empty() {
            let fault = ShardFault::NoGradient {
                stage: stage as u64,
                ranks: ranks.numbers(number),
                entry: format!("{}.output.0", call.name),
                lacking: (missing.len() < pieces).then_some(missing),
            };
            found.push(certain(call, FindingKind::DifferentProgram, fault));
        }
    }
    found
}

/// What one stage sends and another does not receive.
fn messages(ranks: &Ranks, golden: &Rank, calls: &[SurveyedCall]) -> Option<Found> {
    let golden_numbers: HashMap<String, u32> =
        (0..golden.calls().len()).map(|call| (golden.name(call), call as u32)).collect();
    let partners: HashMap<u32, usize> =
        calls.iter().enumerate().filter_map(|(number, call)| Some((call.partner?, number))).collect();
    let numbers: HashMap<&str, usize> =
        calls.iter().enumerate().map(|(number, call)| (call.name.as_str(), number)).collect();
    let error = |number: usize, entry: &SurveyedEntry| ranks.error(number, &calls[number], entry, golden);
    // The statistics of some sums are not known.
    let agrees =
        |number: usize, entry: &SurveyedEntry| error(number, entry).is_none_or(|error| error <= FITS);
    let is_known = |number: usize, entry: &SurveyedEntry| error(number, entry).is_some();
    let differs =
        |number: usize, entry: &SurveyedEntry| error(number, entry).is_some_and(|error| error > FITS);
    let outputs =
        |number: usize| calls[number].entries.iter().filter(|entry| entry.is_output && entry.is_paired);
    let backward = |number: usize| {
        let name = calls[number].name.replacen(".forward", ".backward", 1);
        numbers.get(name.as_str()).copied().filter(|&backward| calls[backward].kind == CallKind::Backward)
    };
    // By the call that sends: the calls of later stages that use its result.
    let mut users: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (number, call) in calls.iter().enumerate().filter(|(_, call)| call.kind == CallKind::Forward) {
        for entry in call.entries.iter().filter(|entry| !entry.is_output && entry.is_paired) {
            let source = entry.golden_source.as_deref().unwrap_or_default();
            let sender = source.rsplit_once(".output.").and_then(|(name, _)| golden_numbers.get(name));
            let Some(&sender) = sender.and_then(|sender| partners.get(sender)) else { continue };
            if ranks.stage(sender) >= ranks.stage(number)
                || !(ranks.is_of_piece(sender) && ranks.is_of_piece(number))
            {
                continue;
            }
            users.entry(sender).or_default().push(number);
            if differs(number, entry) && outputs(sender).all(|output| agrees(sender, output)) {
                let fault = ShardFault::Message {
                    stages: [ranks.stage(sender) as u64, ranks.stage(number) as u64],
                    ranks: ranks.numbers(number),
                    entry: entry.name.clone(),
                    is_gradient: false,
                    is_zero: entry.is_zero,
                };
                return Some(certain(call, FindingKind::DivergedHere, fault));
            }
        }
    }
    for (sender, users) in users {
        let Some(received) = backward(sender) else { continue };
        let gradient = calls[received].entries.iter().find(|entry| !entry.is_output && entry.is_paired);
        let Some(gradient) = gradient.filter(|gradient| differs(received, gradient)) else { continue };
        let sent = users.iter().filter_map(|&user| backward(user));
        let are_right = sent.flat_map(|user| outputs(user).map(move |output| (user, output)));
        if are_right.clone().any(|(user, output)| is_known(user, output))
            && are_right.clone().all(|(user, output)| agrees(user, output))
        {
            let user = users[0];
            let fault = ShardFault::Message {
                stages: [ranks.stage(user) as u64, ranks.stage(sender) as u64],
                ranks: ranks.numbers(sender),
                entry: gradient.name.clone(),
                is_gradient: true,
                is_zero: gradient.is_zero,
            };
            return Some(certain(&calls[received], FindingKind::DivergedHere, fault));
        }
    }
    None
}

/// Gradients that are larger or smaller than the golden's by the number of pieces.
fn undivided(ranks: &Ranks, calls: &[SurveyedCall]) -> Option<Found> {
    let pieces = ranks.pieces() as f64;
    if pieces == 1.0 {
        return None;
    }
    let mut wrong: BTreeMap<usize, (usize, &SurveyedEntry, f64)> = BTreeMap::new();
    let mut right = vec![0usize; ranks.stages()];
    let mut alike = vec![0usize; ranks.stages()];
    for (number, call) in calls.iter().enumerate() {
        for entry in &call.entries {
            let Some(ratio) = entry.ratio else { continue };
            let stage = ranks.stage(number);
            let is = |factor: f64| (ratio / factor - 1.0).abs() <= SAME_FACTOR;
            match [pieces, 1.0 / pieces].into_iter().find(|&factor| is(factor)) {
                Some(factor) => {
                    alike[stage] += 1;
                    wrong.entry(stage).or_insert((number, entry, factor));
                }
                None => right[stage] += 1,
            }
        }
    }
    // Gradients that are zero except for rounding have any ratio.
    wrong.retain(|&stage, _| alike[stage] > right[stage]);
    let (&first, &(number, entry, factor)) = wrong.first_key_value()?;
    let of_all = wrong.values().filter(|(_, _, other)| *other == factor);
    let mut numbers: Vec<u64> = of_all.flat_map(|(number, ..)| ranks.numbers(*number)).collect();
    numbers.sort_unstable();
    let fault = ShardFault::Undivided {
        stage: (wrong.len() < ranks.stages()).then_some(first as u64),
        ranks: numbers,
        entry: entry.name.clone(),
        pieces: ranks.pieces() as u64,
        is_larger: factor > 1.0,
    };
    Some(certain(&calls[number], FindingKind::DivergedHere, fault))
}

/// Parameters of several stages that are one of the golden, and whose gradients are not.
fn tied_gradients(ranks: &Ranks, calls: &[SurveyedCall]) -> Vec<Found> {
    // By parameter and stage: the last call that shows its gradient, and its entry there.
    let mut last: BTreeMap<String, BTreeMap<usize, (usize, &SurveyedEntry)>> = BTreeMap::new();
    let gradients = calls.iter().enumerate().filter(|(_, call)| call.kind == CallKind::ParametersGrad);
    for (number, call) in gradients {
        let base = call.name.split(".parameters_grad").next().unwrap_or_default();
        let path = base.rsplit_once('.').map_or("", |(path, _)| path);
        for entry in call.entries.iter().filter(|entry| entry.decision.is_some()) {
            let name = entry.name.strip_prefix(&call.name).unwrap_or_default();
            last.entry(format!("{path}{name}")).or_default().insert(ranks.stage(number), (number, entry));
        }
    }
    let mut found = Vec::new();
    for (parameter, stages) in last.into_iter().filter(|(_, stages)| stages.len() > 1) {
        let entries: Option<Vec<_>> = stages.values().map(|(number, _)| ranks.entries(*number)).collect();
        let Some(entries) = entries else { continue };
        let members = stages.values().zip(&entries).map(|((_, surveyed), entries)| {
            let of = entries[0]
                .iter()
                .find(|entry| entry.name == surveyed.name && entry.role == Role::ParameterGrad)?;
            ranks.members(entries, of)?.first().copied()
        });
        let Some(members) = members.collect::<Option<Vec<_>>>() else { continue };
        if members.windows(2).all(|pair| is_replica(pair[0], pair[1])) {
            continue;
        }
        let Some((number, entry)) = stages.values().rfind(|(number, _)| calls[*number].partner.is_some())
        else {
            continue;
        };
        let fault = ShardFault::TiedGradients {
            parameter: parameter
                .split_once('.')
                .map_or(parameter.as_str(), |(_, path)| path)
                .trim_end_matches(".0")
                .to_owned(),
            stages: stages.keys().map(|&stage| stage as u64).collect(),
            ranks: stages.values().flat_map(|(number, _)| ranks.numbers(*number)).collect(),
            entry: entry.name.clone(),
        };
        found.push(certain(&calls[*number], FindingKind::DivergedHere, fault));
    }
    found
}
