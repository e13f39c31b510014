//! The pairs found so far, during pairing.

use super::How;

const NONE: u32 = u32::MAX;

/// Counterparts on both sides, and why they are paired.
#[derive(Debug)]
pub(super) struct Links {
    of_target: Vec<u32>,
    of_golden: Vec<u32>,
    how: Vec<How>,
}

impl Links {
    pub(super) fn new(target: usize, golden: usize) -> Links {
        Links { of_target: vec![NONE; target], of_golden: vec![NONE; golden], how: vec![How::Exact; target] }
    }

    /// Pairs two calls, unless one of them is paired already.
    pub(super) fn join(&mut self, target: usize, golden: usize, how: How) -> bool {
        let free = self.of_target[target] == NONE && self.of_golden[golden] == NONE;
        if free {
            self.of_target[target] = golden as u32;
            self.of_golden[golden] = target as u32;
            self.how[target] = how;
        }
        free
    }

    /// Pairs the calls that a mapping file names.
    pub(super) fn force(&mut self, pairs: &[(usize, usize)]) {
        for &(target, golden) in pairs {
            self.join(target, golden, How::Mapped);
        }
    }

    /// The counterpart of a call of the target, and why.
    pub(super) fn golden(&self, target: usize) -> Option<(usize, How)> {
        let golden = self.of_target[target];
        (golden != NONE).then(|| (golden as usize, self.how[target]))
    }

    /// The counterpart of a call of the golden.
    pub(super) fn target(&self, golden: usize) -> Option<usize> {
        let target = self.of_golden[golden];
        (target != NONE).then_some(target as usize)
    }
}
