//! The headings.

use crate::styles::msprobe::mode::Mode;

const NAMES: [&str; 6] =
    ["NPU Name", "Bench Name", "NPU Dtype", "Bench Dtype", "NPU Tensor Shape", "Bench Tensor Shape"];
const REAL: [&str; 5] =
    ["Cosine", "MaxAbsErr", "MaxRelativeErr", "One Thousandth Err Ratio", "Five Thousandths Err Ratio"];
const DIFFERENCES: [&str; 8] = [
    "Max diff",
    "Min diff",
    "Mean diff",
    "L2norm diff",
    "MaxRelativeErr",
    "MinRelativeErr",
    "MeanRelativeErr",
    "NormRelativeErr",
];
const STATISTICS: [&str; 8] =
    ["NPU max", "NPU min", "NPU mean", "NPU l2norm", "Bench max", "Bench min", "Bench mean", "Bench l2norm"];

/// The headings of a mode.
pub(crate) fn headings(mode: Mode, stack: bool) -> Vec<String> {
    let parts: &[&[&str]] = match mode {
        Mode::Real => &[&NAMES, &REAL, &STATISTICS, &["Accuracy Reached or Not", "Err_message"]],
        Mode::Statistics => &[&NAMES, &DIFFERENCES, &STATISTICS, &["Result", "Err_message"]],
        Mode::Digests => &[&NAMES, &["NPU MD5", "BENCH MD5", "Result"]],
    };
    let stack = stack.then_some("NPU_Stack_Info");
    let data = (mode == Mode::Real).then_some("Data_name");
    parts.iter().copied().flatten().copied().chain(stack).chain(data).map(str::to_owned).collect()
}
