//! What is concluded of two runs: call by call where calls have partners, and of different programs by what they compute.

use std::cell::OnceCell;

use ulpscope_dump::CallKind;

use super::correspondence::{
    Agreed, Cut, EndApart, EndKind, KeptTensors, Pieces, ProgramPair, Unrelated, cut_pieces, other_origin,
    returns_otherwise,
};
use super::ports::{self, Port, Said};
use super::thresholds::confidence;
use super::thresholds::correspondence::CANCELS;
use super::thresholds::ports::STANDS_OUT;
use crate::native::attribution::blame::Origins;
use crate::native::attribution::conclude::{Concluded, conclude, results};
use crate::native::attribution::conclusion::{Cause, Conclusion, found, is_of_structure};
use crate::native::attribution::conclusion_list::ConclusionList;
use crate::native::attribution::proofs::Proofs;
use crate::native::attribution::routes::Routes;
use crate::native::evidence::call_evidence::{CallEvidence, EntryEvidence, Relation, Source};
use crate::native::evidence::flow::{Calls, Flow};
use crate::native::expectation::expectations::ErrorProfile;
use crate::native::expectation::noise_floor::Noise;
use crate::native::final_results::final_parameters::{FinalParameters, Trained};
use crate::native::final_results::guard::{Guarded, Unexplained, guard};
use crate::verdict::Class;

/// What is known of two runs before anything is concluded.
pub(super) struct Runs<'a> {
    pub(super) units: &'a [CallEvidence],
    pub(super) flow: &'a Flow,
    pub(super) kept: &'a FinalParameters,
    pub(super) noise: &'a Noise,
    pub(super) trained: Option<Trained>,
    pub(super) calls: [&'a Calls<'a>; 2],
    /// Their tensors, as far as they were kept.
    pub(super) kept_tensors: [&'a KeptTensors; 2],
    /// Whether calls of both sides use the results of unpaired calls.
    pub(super) all_joined: bool,
    /// Both sides as programs, once somebody asked for them.
    pub(super) programs: OnceCell<ProgramPair<'a>>,
}

/// What was concluded.
pub(super) struct Judgement {
    pub(super) conclusions: ConclusionList,
    /// Other routes to the same results.
    pub(super) routes: Routes,
    pub(super) origins: Origins,
    /// What the guard found on final results, where no call is to blame.
    pub(super) guarded: Guarded,
    /// The calls among which two programs part.
    pub(super) cut: Option<Cut>,
    /// What agrees at the end of two different programs.
    pub(super) agreed: Option<Agreed>,
    /// Whether final results agree, so that unpaired calls forbid nothing.
    pub(super) is_vouched: bool,
    /// Inputs that are cut differently.
    pub(super) pieces: Option<Pieces>,
    /// That two programs have next to nothing in common, if so.
    pub(super) unrelated: Option<Unrelated>,
    /// A final result of two different programs that differs, where no call is to blame.
    pub(super) end: Option<EndApart>,
}

fn stands_out(cut: &Cut) -> bool {
    cut.growth.is_some_and(|growth| growth > STANDS_OUT.get())
}

impl<'a> Runs<'a> {
    /// Both sides as programs of values.
    pub(super) fn programs(&self) -> &ProgramPair<'a> {
        let trained = self.trained.map_or(0.0, |trained| trained.apart);
        self.programs
            .get_or_init(|| ProgramPair::of(self.calls, self.kept_tensors, ports::noise_of(self), trained))
    }

    /// Concludes. Where inputs are cut differently, no call is blamed for what follows from that.
    pub(super) fn judge(&self, proofs: &mut Proofs<'_>) -> Judgement {
        let judged = self.judge_calls(proofs);
        if !self.may_be_cut() {
            return judged;
        }
        let Some(pieces) = cut_pieces(self.programs()) else { return judged };
        let is_apart = !pieces.differing.is_empty() || pieces.end.is_some();
        let follows = |(at, one): &(usize, &Conclusion)| {
            one.cause.is_none_or(is_of_structure) || self.is_made_to_size(*at)
        };
        let is_of_structure = judged.conclusions.blamed().iter().all(follows);
        let is_blamed = judged.conclusions.is_any_blamed();
        // Sums over all pieces differ for another reason than the cut.
        let has_sums = self.units.iter().any(|unit| unit.kind == CallKind::ParametersGrad);
        let sums_differ = || has_sums && !self.gradients_agree();
        let is_blamed_for_sums = is_blamed && !is_apart && sums_differ();
        if is_blamed && !is_of_structure || is_blamed_for_sums || judged.is_vouched && !is_apart {
            return Judgement { pieces: Some(pieces), ..judged };
        }
        let is_gradient = |end: &EndApart| matches!(end.what, EndKind::Gradient { .. });
        let is_told = judged.guarded.is_complete || judged.end.as_ref().is_some_and(is_gradient);
        if !is_blamed && !is_apart && is_told {
            return Judgement { pieces: Some(pieces), ..judged };
        }
        // Of statistics alone, no part can be compared, but what the programs end in can be.
        if !is_blamed
            && !is_apart
            && !pieces.is_complete
            && let Said::Port(port) = ports::judge(self)
            && port.is_vouched
        {
            return Judgement { pieces: Some(pieces), ..self.of_port(*port) };
        }
        self.of_pieces(pieces)
    }

    /// Whether a call makes a tensor of a size, such as a mask, and the two sides ask for different ones.
    fn is_made_to_size(&self, at: usize) -> bool {
        let tensors = || self.units[at].entries.iter().filter(|entry| entry.is_tensor);
        !tensors().any(EntryEvidence::is_taken)
            && tensors().any(|entry| matches!(entry.state, Relation::Unlike))
    }

    /// Whether inputs may be cut differently: otherwise nothing is read for it.
    fn may_be_cut(&self) -> bool {
        self.flow.is_guessed == [false; 2] && self.units.iter().any(is_given_unlike)
    }

    fn of_pieces(&self, pieces: Pieces) -> Judgement {
        let conclusions = ports::without_blame(self.units);
        let is_vouched = pieces.differing.is_empty()
            && pieces.end.is_none()
            && pieces.is_complete
            && self.gradients_agree();
        let unit = |call: usize| self.flow.unit_of[0].of(call);
        // The last is nearest to what the run ends in.
        let unexplained = pieces.differing.last().and_then(|last| {
            let at = unit(last.call)?;
            let entry = self.units[at].entries.iter().position(|entry| !entry.is_taken())?;
            Some(Unexplained { unit: at, entry, error: last.error, allowed: last.allowed, step: None })
        });
        let is_open = unexplained.is_none() && !is_vouched;
        let agreed = is_vouched.then(|| Agreed {
            ends: pieces.agreeing.last().copied().into_iter().collect(),
            other_weights: Default::default(),
            differ_in_padding: false,
            hidden: None,
        });
        let end = pieces.end.clone().filter(|_| unexplained.is_none());
        Judgement {
            conclusions,
            routes: Routes::default(),
            origins: Origins::of(self.units, self.trained),
            guarded: Guarded { unexplained, is_complete: is_vouched, is_open, ..Guarded::default() },
            cut: None,
            agreed,
            is_vouched,
            pieces: Some(pieces),
            unrelated: None,
            end,
        }
    }

    /// Whether gradients of parameters, which are sums over all pieces, agree, where there is a backward pass. One that is next
    /// to nothing beside the largest may be zero except for rounding, such as that of a bias of keys.
    fn gradients_agree(&self) -> bool {
        let of_kind = |kind: CallKind| self.units.iter().filter(move |unit| unit.kind == kind);
        let sums = || of_kind(CallKind::ParametersGrad);
        let all = || sums().flat_map(results).filter(|(_, entry)| entry.is_tensor);
        let sizes = all().filter_map(|(_, entry)| Some(entry.numbers.as_ref()?.rms()));
        let largest = sizes.filter(|size| size.is_finite()).fold(0.0, f64::max);
        let agrees = |entry: &EntryEvidence| match (entry.state, &entry.numbers) {
            (Relation::Apart, Some(extent)) => {
                let size = extent.norm.max(largest * extent.count.sqrt() / CANCELS.get());
                extent.mismatched == 0 && extent.error <= extent.limit() * size
            }
            (state, _) => state.is_settled(),
        };
        let is_whole = sums().all(|unit| !unit.is_lone());
        let has_sums = sums().next().is_some();
        is_whole
            && all().all(|(_, entry)| agrees(entry))
            && (has_sums || of_kind(CallKind::Backward).next().is_none())
    }

    fn judge_calls(&self, proofs: &mut Proofs<'_>) -> Judgement {
        let mut said = None;
        let is_port = ports::is_port(self.units, self.flow, self.kept);
        if is_port {
            said = match ports::judge(self) {
                Said::Port(port) => return self.of_port(*port),
                open => Some(open),
            };
        }
        let (Concluded { mut conclusions, routes, origins, is_guess }, mut guarded) =
            self.by_partners(proofs);
        if let Some(Said::Open(Some(end))) = &said
            && (!self.may_have_made(&conclusions, end) || self.is_behind_cut_off(&conclusions, end))
        {
            conclusions = ports::without_blame(self.units);
            self.blame_cut_off(&mut conclusions, end);
        } else if matches!(&said, Some(Said::Unseen | Said::UnlessBlamed(_)))
            && !self.is_blamed_beyond_structure(&conclusions)
        {
            // Where too little is known of two programs, or all final results agree, that they make different calls is no cause.
            conclusions = ports::without_blame(self.units);
        }
        let is_blamed = conclusions.is_any_blamed();
        // Calls that all agree say nothing of which results a model returns.
        let returns_otherwise = !is_blamed && self.returns_otherwise();
        let is_open = guarded.unexplained.is_some() || !self.all_joined || returns_otherwise;
        // Where no call stands out, values tell. Replay has looked for itself, but not at what models return.
        let is_asked = proofs.is_asked();
        if said.is_none() && (!is_asked && (is_guess || !is_blamed && is_open) || returns_otherwise) {
            said = Some(ports::judge(self));
        }
        let (port, end) = match said {
            Some(Said::Port(port)) => (Some(*port), None),
            Some(Said::Open(end)) => (None, end.filter(|_| !is_blamed && guarded.unexplained.is_none())),
            Some(Said::UnlessBlamed(port)) if !is_blamed && guarded.unexplained.is_none() => {
                return self.of_port(*port);
            }
            Some(Said::UnlessBlamed(_) | Said::Unseen) | None => (None, None),
        };
        // What one side alone writes into its results at last has no partner that differs.
        let is_lone_write = |&call: &usize| {
            self.flow.unit_of[0].of(call).is_some_and(|at| {
                let operation = &self.flow.operations[at];
                self.units[at].is_lone() && (operation.is_in_place || operation.assigns)
            })
        };
        let is_written = |cut: &Cut| !is_blamed && cut.target.iter().take(cut.named).any(is_lone_write);
        let cut = port.as_ref().and_then(|port| port.cut.as_ref());
        let is_apart =
            is_guess || guarded.unexplained.is_some() || returns_otherwise || cut.is_some_and(is_written);
        if !is_asked && let Some(port) = self.of_other_weights(&conclusions) {
            return self.of_port(port);
        }
        match port {
            // Errors that grow from call to call have no one call to name.
            Some(port) if is_apart && port.cut.as_ref().is_some_and(|cut| !is_guess || stands_out(cut)) => {
                self.of_port(port)
            }
            port => {
                // Of two different programs, names do not tell which parameters are the same.
                let is_asked_for = !is_blamed && !is_port && guarded.unexplained.is_none();
                let end = end.or_else(|| other_origin(self.calls).filter(|_| is_asked_for));
                let agreed = port.and_then(|port| port.agreed).filter(|_| !is_apart || returns_otherwise);
                let agreed = agreed.filter(|_| end.is_none());
                let is_vouched = agreed.is_some();
                guarded.is_open |= returns_otherwise && !is_vouched && end.is_none();
                Judgement {
                    conclusions,
                    routes,
                    origins,
                    guarded,
                    cut: None,
                    agreed,
                    is_vouched,
                    pieces: None,
                    unrelated: None,
                    end,
                }
            }
        }
    }

    /// Whether the models of the two runs return results of calls that do not belong together.
    fn returns_otherwise(&self) -> bool {
        returns_otherwise(self.calls, |[target, golden]| {
            let [one, other] = [self.flow.unit_of[0].of(target.0), self.flow.unit_of[1].of(golden.0)];
            let Some(at) = one.filter(|_| one == other) else { return false };
            let made = self.flow.entry_at(self.units, at, target.1);
            // Where a limit of bytes left out the results of both, the place is what is known.
            made.map_or(target.1 == golden.1, |made| made.golden_place() == golden.1)
        })
    }

    /// Whether calls that are blamed may have made a final result differ. Where the forward passes of two programs agree, that
    /// one of them makes a call and the other does not is not why a gradient differs.
    fn may_have_made(&self, conclusions: &ConclusionList, end: &EndApart) -> bool {
        // What differs at padding says nothing of the calls that made it.
        if matches!(end.what, EndKind::AtPadding(_)) {
            return false;
        }
        let is_buffer = matches!(end.what, EndKind::Buffer(_) | EndKind::Parameter(_));
        conclusions.blamed().iter().any(|(at, one)| {
            !one.cause.is_some_and(is_of_structure) || is_buffer && self.flow.operations[*at].is_in_place
        })
    }

    fn is_blamed_beyond_structure(&self, conclusions: &ConclusionList) -> bool {
        conclusions.blamed().iter().any(|(_, one)| !one.cause.is_some_and(is_of_structure))
    }

    /// Whether a call was found at which gradients end, and whatever else is blamed belongs to the backward pass or only one side
    /// makes it.
    fn is_behind_cut_off(&self, conclusions: &ConclusionList, end: &EndApart) -> bool {
        let is_behind = |(at, one): &(usize, &Conclusion)| {
            self.units[*at].kind != CallKind::Forward || one.cause.is_some_and(is_of_structure)
        };
        matches!(end.what, EndKind::Gradient { cut_off: Some(_), .. })
            && conclusions.blamed().iter().all(is_behind)
    }

    /// Blames the call of the target that passes no gradient back, where that explains which gradients differ.
    fn blame_cut_off(&self, conclusions: &mut ConclusionList, end: &EndApart) {
        let EndKind::Gradient { cut_off: Some(cut), .. } = &end.what else { return };
        let Some(at) = self.flow.unit_of[0].of(cut.call).filter(|&at| self.units[at].is_lone()) else {
            return;
        };
        let relative = |whole: f64| ErrorProfile { whole, ..ErrorProfile::default() };
        let sure = confidence::STRUCTURE / (cut.among as f64).sqrt();
        conclusions.set(
            at,
            Conclusion {
                entry: results(&self.units[at]).next().map(|(number, _)| number),
                error: relative(end.error),
                expected: relative(end.allowed),
                is_of_taker: true,
                ..found(Class::DifferentProgram, Cause::Cut, 0, sure)
            },
        );
    }

    /// Where only parameters are to blame, and one side makes calls that the other does not: weights may be kept differently, as
    /// where a batch norm is folded into a convolution. What both compute tells.
    fn of_other_weights(&self, conclusions: &ConclusionList) -> Option<Port> {
        let blamed = conclusions.blamed();
        let is_parameter = |at: usize, conclusion: &Conclusion| {
            let sources = conclusion.entry.map(|entry| self.units[at].entries[entry].sources());
            sources == Some([Source::Origin; 2])
        };
        let is_of_parameters =
            blamed.iter().all(|(at, one)| one.cause == Some(Cause::Origin) && is_parameter(*at, one));
        let is_lone =
            |unit: &CallEvidence| unit.is_lone() && !unit.adds_nothing && unit.kind == CallKind::Forward;
        let first = blamed.first()?.0;
        if !is_of_parameters || !self.units.iter().any(is_lone) {
            return None;
        }
        let Said::Port(port) = ports::judge(self) else { return None };
        let port = *port;
        match (&port.agreed, &port.cut) {
            (Some(_), _) => Some(port),
            // The call that is blamed computes the same with its other weights.
            (None, Some(cut)) => {
                let blamed = self.units[first].target()?;
                (!cut.target.contains(&blamed)).then_some(port)
            }
            (None, None) => None,
        }
    }

    /// Concludes call by call. What replay refutes is concluded anew; each round decides a call that was not decided
    /// before.
    fn by_partners(&self, proofs: &mut Proofs<'_>) -> (Concluded, Guarded) {
        loop {
            let concluded =
                conclude(self.units, (self.flow, self.kept), self.noise, self.trained, &proofs.decided);
            let is_blamed = concluded.conclusions.is_any_blamed();
            let guarded = match is_blamed {
                true => Guarded::default(),
                false => guard(self.units, self.flow, self.noise, proofs.is_any_refuted()),
            };
            let step = guarded.unexplained.as_ref().and_then(|found| Some(found.step?.unit));
            if !proofs.examine(self.units, self.flow, &concluded.conclusions, step) {
                return (concluded, guarded);
            }
        }
    }

    fn of_port(&self, port: Port) -> Judgement {
        Judgement {
            conclusions: port.conclusions,
            routes: Routes::default(),
            origins: Origins::of(self.units, self.trained),
            guarded: Guarded { is_complete: port.is_vouched, ..Guarded::default() },
            is_vouched: port.is_vouched,
            cut: port.cut,
            agreed: port.agreed,
            pieces: None,
            unrelated: port.unrelated,
            end: None,
        }
    }
}

/// Whether a call is given a tensor of another size, or the calls of one side get other inputs.
fn is_given_unlike(unit: &CallEvidence) -> bool {
    unit.kind == CallKind::Forward
        && unit.entries.iter().any(|entry| {
            entry.is_tensor && entry.is_taken() && matches!(entry.state, Relation::Unlike | Relation::Lone(_))
        })
}
