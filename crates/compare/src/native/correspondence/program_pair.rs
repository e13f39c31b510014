//! Both sides as programs, and which of their parameters are the same: read once, for every question about them.

use std::collections::{BTreeMap, HashMap};

use super::call_tensors::KeptTensors;
use super::program::{Program, Weight};
use super::weights::same_weights;
use crate::native::evidence::flow::Calls;
use crate::native::expectation::dtype_tolerance::limit_of_unit;

/// The programs of target and golden.
pub(in crate::native) struct ProgramPair<'a> {
    pub(super) calls: [&'a Calls<'a>; 2],
    pub(super) programs: [Program; 2],
    /// Their parameters, by name.
    pub(super) parameters: [BTreeMap<String, Weight>; 2],
    /// Names of parameters of both sides that are the same.
    same: Vec<(String, String)>,
    /// How far apart two runs of one program are.
    pub(super) noise: f64,
    /// How far earlier steps may have taken parameters apart.
    pub(super) trained: f64,
}

impl<'a> ProgramPair<'a> {
    /// Reads the calls of both sides that were not `kept`. `noise`: how far apart two runs of one program are; `trained`: how far earlier steps may have
    /// taken parameters apart.
    pub(in crate::native) fn of(
        calls: [&'a Calls<'a>; 2],
        kept: [&KeptTensors; 2],
        noise: f64,
        trained: f64,
    ) -> ProgramPair<'a> {
        let program = |side: usize| Program::of(calls[side], kept[side]);
        let (target, golden) = rayon::join(|| program(0), || program(1));
        let mut programs = [target, golden];
        let parameters = programs.each_ref().map(|program| program.weights.clone());
        let same = same_weights(&parameters[0], &parameters[1], trained);
        number_stages(&mut programs, &same);
        let same = same.into_iter().map(|(one, other)| (one.to_owned(), other.to_owned())).collect();
        ProgramPair { calls, programs, parameters, same, noise, trained }
    }

    /// Names of parameters of both sides that are the same.
    pub(super) fn same(&self) -> Vec<(&str, &str)> {
        self.same.iter().map(|(one, other)| (one.as_str(), other.as_str())).collect()
    }

    /// How far apart two values may be before accumulated rounding is considered.
    pub(super) fn limit(&self) -> f64 {
        let [target, golden] = &self.programs;
        limit_of_unit(target.unit.max(golden.unit)).max(self.noise)
    }
}

/// Numbers the stages of both programs by the parameters that are the same.
fn number_stages(programs: &mut [Program; 2], weights: &[(&str, &str)]) {
    let numbered = || weights.iter().zip(0..);
    let labels: [HashMap<&str, u32>; 2] = [
        numbered().map(|(&(name, _), number)| (name, number)).collect(),
        numbered().map(|(&(_, name), number)| (name, number)).collect(),
    ];
    for (program, labels) in programs.iter_mut().zip(&labels) {
        program.number_stages(labels);
    }
}
