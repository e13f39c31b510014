//! The headings.

use crate::styles::msprobe::columns::{DATA, DIFFERENCES, DIGESTS, NAMES, REAL, STACK, STATISTICS};
use crate::styles::msprobe::mode::Mode;

/// The headings of a mode: those of 26.x without gradients and Euclidean distance, with different last columns.
pub(crate) fn headings(mode: Mode, stack: bool) -> Vec<String> {
    let names = &NAMES[..6];
    let parts: &[&[&str]] = match mode {
        Mode::Real => {
            &[names, &REAL[..1], &REAL[2..], &STATISTICS, &["Accuracy Reached or Not", "Err_message"]]
        }
        Mode::Statistics => &[names, &DIFFERENCES, &STATISTICS, &["Result", "Err_message"]],
        Mode::Digests => &[names, &DIGESTS, &["Result"]],
    };
    let stack = stack.then_some(STACK);
    let data = (mode == Mode::Real).then_some(DATA);
    parts.iter().copied().flatten().copied().chain(stack).chain(data).map(str::to_owned).collect()
}
