//! What is concluded of two runs: call by call where calls have partners, and of different programs by what they compute.

use super::blame::Origins;
use super::conclude::{Concluded, conclude};
use super::conclusion::Conclusion;
use super::correspondence::{Agreed, Cut};
use super::final_results::{Guarded, guard};
use super::flow::{Calls, Flow};
use super::kept::{Kept, Trained};
use super::noise::Noise;
use super::observed::Observed;
use super::ports::{self, Port};
use super::proofs::Proofs;
use super::routes::Routes;

/// What is known of two runs before anything is concluded.
pub(super) struct Runs<'a> {
    pub(super) units: &'a [Observed],
    pub(super) flow: &'a Flow,
    pub(super) kept: &'a Kept,
    pub(super) noise: &'a Noise,
    pub(super) trained: Option<Trained>,
    pub(super) calls: [&'a Calls<'a>; 2],
    /// Whether what calls without partner gave went into calls that both sides have.
    pub(super) all_joined: bool,
}

/// What was concluded.
pub(super) struct Judgement {
    pub(super) conclusions: Vec<Conclusion>,
    /// Other routes to the same results.
    pub(super) routes: Routes,
    pub(super) origins: Origins,
    /// What the guard found on final results, where no call is to blame.
    pub(super) guarded: Guarded,
    /// The calls among which two programs part.
    pub(super) cut: Option<Cut>,
    /// What agrees at the end of two different programs.
    pub(super) agreed: Option<Agreed>,
    /// Whether final results agree, and speak for calls without partner.
    pub(super) is_vouched: bool,
}

/// How much further apart the results of a call must be than its inputs, to be named where gradients alone are known to
/// differ.
const STANDS_OUT: f64 = 16.0;

fn stands_out(cut: &Cut) -> bool {
    cut.growth.is_some_and(|growth| growth > STANDS_OUT)
}

impl Runs<'_> {
    pub(super) fn judge(&self, proofs: &mut Proofs<'_>) -> Judgement {
        if ports::is_port(self.units, self.flow, self.kept)
            && let Some(port) = ports::judge(self)
        {
            return self.of_port(port);
        }
        let (Concluded { conclusions, routes, origins, is_guess }, guarded) = self.by_partners(proofs);
        let is_blamed = conclusions.iter().any(|conclusion| conclusion.cause.is_some());
        let is_open = guarded.unexplained.is_some() || !self.all_joined;
        // Where no call stands out, values tell. Replay has looked for itself.
        let port = match (is_guess || !is_blamed && is_open) && !proofs.is_asked() {
            true => ports::judge(self),
            false => None,
        };
        let is_apart = is_guess || guarded.unexplained.is_some();
        match port {
            // Errors that grow from call to call have no one call to name.
            Some(port) if is_apart && port.cut.as_ref().is_some_and(|cut| !is_guess || stands_out(cut)) => {
                self.of_port(port)
            }
            port => {
                let agreed = port.and_then(|port| port.agreed).filter(|_| !is_apart);
                let is_vouched = agreed.is_some();
                Judgement { conclusions, routes, origins, guarded, cut: None, agreed, is_vouched }
            }
        }
    }

    /// Concludes call by call. What replay refutes is concluded anew; each round decides a call that was not decided
    /// before.
    fn by_partners(&self, proofs: &mut Proofs<'_>) -> (Concluded, Guarded) {
        loop {
            let concluded =
                conclude(self.units, (self.flow, self.kept), self.noise, self.trained, &proofs.decided);
            let is_blamed = concluded.conclusions.iter().any(|conclusion| conclusion.cause.is_some());
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
            guarded: Guarded { is_complete: port.cut.is_none(), ..Guarded::default() },
            is_vouched: port.cut.is_none(),
            cut: port.cut,
            agreed: port.agreed,
        }
    }
}
