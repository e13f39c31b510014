//! What to do next, in English.

use ulpscope_compare::Precision;

use crate::instruction::{Hazard, Instruction};

/// A step, or a line of code that belongs to it.
pub(super) fn instruction(step: &Instruction) -> String {
    const IF_MEANT: &str = "If this precision is intended, compare with a golden that uses it, too.";
    match step {
        Instruction::Run(command) => command.clone(),
        Instruction::CodeOf(side, code) => format!("{}  {code}", side.word()),
        Instruction::CompareNatively => {
            "Compare again in the native style, which follows an error to the call that introduced it:".to_owned()
        }
        Instruction::RecordBetweenModules => {
            "Record the calls between modules on both sides, then compare the new dumps:".to_owned()
        }
        Instruction::MeasureNoise => {
            "Measure the rounding noise. Run the golden again with a change that should not matter (thread count, kernel), \
             and pass that run as the noise:"
                .to_owned()
        }
        Instruction::MeasureHealthyRuns => {
            "If healthy runs of these programs differ as much, measure it with a second golden run (different thread count \
             or kernel):"
                .to_owned()
        }
        Instruction::SeeElements => "See which elements differ, and by how much:".to_owned(),
        Instruction::LookForGradientChanges => {
            "Look for code that changes this gradient outside the backward pass: gradients that are not cleared, hooks, a \
             weight that only one side shares."
                .to_owned()
        }
        Instruction::MakeReadable(error) => format!("Make the dump readable, then compare again: {error}"),
        Instruction::CaptureAtOneLevel => "Capture both sides at the same level, then compare again:".to_owned(),
        Instruction::CheckUnpaired => {
            "Check whether the calls without a counterpart matter, starting with the first:".to_owned()
        }
        Instruction::DumpTensorsIfNeeded => {
            "If the runs still end with different results, dump the tensors on both sides, then compare again:".to_owned()
        }
        Instruction::CheckCallInBoth => {
            "Check this call in both programs: same scale, mask, constants and order of operations?".to_owned()
        }
        Instruction::RecordEarlierSteps => {
            "Record the steps before this one on both sides, then compare the new dumps:".to_owned()
        }
        Instruction::LookAtWriters(name) => {
            format!("If they agree, check what writes to {name}: the optimizer, a schedule, a loaded checkpoint.")
        }
        Instruction::CheckCheckpoint { is_buffer } => {
            let (what, also) = match is_buffer {
                true => ("buffer", " and are in the same mode, train or eval"),
                false => ("parameter", ""),
            };
            format!(
                "Check that both runs load the same checkpoint{also}. Print this {what} in both, before the first step:"
            )
        }
        Instruction::CompareEarlierCheckpoints => {
            "If these are checkpoints of two training runs, compare earlier ones, back to the last two that agree. Then \
             record the steps after those on both sides, and compare the dumps:"
                .to_owned()
        }
        Instruction::CheckGradientHandling => {
            "Check that both runs clear, accumulate, scale and clip gradients in the same way. Print this gradient in both, \
             before the optimizer step:"
                .to_owned()
        }
        Instruction::CheckBatchAndSeed => {
            "Check that both runs get the same batch and the same random numbers. Put this first in both:".to_owned()
        }
        Instruction::LookFor(hazard) => look_for(hazard),
        Instruction::SeeInputs => "See its inputs:".to_owned(),
        Instruction::CompareCalls => {
            "The two programs make different calls here. Check that they compute the same, starting with these two:".to_owned()
        }
        Instruction::OpenRegion => {
            "List every call between, with its module, dtypes, shapes and line (RESULT: the folder of compare -o):".to_owned()
        }
        Instruction::CheckCallOf(side) => {
            format!("Check what this call does in the {}, and whether it should be there:", side.word())
        }
        Instruction::CompareCode => "Compare these two lines of code:".to_owned(),
        Instruction::LookAtCode(code) => format!("Check why the two runs behave differently at this line: {code}"),
        Instruction::CompareRecords => "Compare what the two sides recorded:".to_owned(),
        Instruction::MadeAs(source) => format!("The tensor was produced as {source}."),
        Instruction::RecordEveryOperator => {
            "Record every operator of that step on both sides, then compare the new dumps:".to_owned()
        }
        Instruction::LookForKernels => {
            "This does not show kernels that write to a tensor without torch. Look for them at".to_owned()
        }
        Instruction::LookForPrecision(Precision::Seven) => format!(
            "Look for code that computes this in bfloat16: an autocast region, a cast, a kernel that accumulates in it. \
             {IF_MEANT}"
        ),
        Instruction::LookForPrecision(Precision::Ten) => {
            "Look for code that computes this with less precision than its dtype: an autocast region, a cast, or TF32. To \
             switch TF32 off, set"
                .to_owned()
        }
        Instruction::InThatRun => format!("in the run that uses it. {IF_MEANT}"),
        Instruction::DumpTensorsHere => {
            "Dump the tensors of this place only, on both sides, then compare the two new dumps:".to_owned()
        }
        Instruction::OrInYourLoop => "or in your own loop:".to_owned(),
    }
}

fn look_for(hazard: &Hazard) -> String {
    match hazard {
        Hazard::GradientDivides(operation) => format!(
            "The gradient of {operation} divides by its argument or by its result: look for zeros and for values near zero \
             there. An infinite gradient becomes NaN where it is multiplied by 0."
        ),
        Hazard::Logarithm => "A logarithm is NaN below 0 and minus infinity at 0: look for an argument of 0 or less. To avoid \
                              it, clamp the argument or add a small number."
            .to_owned(),
        Hazard::Log1p => "log1p is NaN below -1 and minus infinity at -1: look for such an argument.".to_owned(),
        Hazard::Root => "A square root is NaN below 0: look for a negative argument, such as a variance that rounding made \
                         negative."
            .to_owned(),
        Hazard::ReciprocalRoot => {
            "rsqrt is infinite at 0 and NaN below 0: look for an argument of 0 or less, and for a missing eps.".to_owned()
        }
        Hazard::Division => "Look for a divisor that is 0: 0 / 0 is NaN, anything else / 0 is infinite. To avoid it, add a \
                             small number to the divisor, or use a mask."
            .to_owned(),
        Hazard::Exponential { operation, limit } => {
            let limit = limit.as_ref().map(|limit| format!(" ({limit})")).unwrap_or_default();
            format!(
                "{operation} overflows for large arguments{limit}: look for a larger one. To avoid it, subtract the largest \
                 argument first, as softmax does."
            )
        }
        Hazard::Power => "A negative number to a fractional power is NaN, and 0 to a negative power is infinite: look for an \
                          argument of 0 or less, or for one whose power overflows."
            .to_owned(),
        Hazard::OutsideUnit(operation) => {
            format!("{operation} is NaN outside -1 to 1: look for an argument that rounding moved out of that range.")
        }
        Hazard::MaskedRow => {
            "Look for a row that is masked completely: if all its values are -inf, its softmax is NaN.".to_owned()
        }
        Hazard::TooFewElements(operation) => {
            format!("Check whether {operation} is computed over no element, or over only one.")
        }
        Hazard::ZeroVariance { largest } => {
            let largest = largest.as_ref().map(|largest| format!(" (largest value: {largest})"));
            format!(
                "Look for a variance or norm of 0 with an eps of 0 or too small for the dtype, and for inputs whose square \
                 overflows{}.",
                largest.unwrap_or_default()
            )
        }
        Hazard::ZeroProbability => "Look for a probability of 0 under the logarithm, and for a batch whose labels are all \
                                    ignored: its mean is 0 / 0."
            .to_owned(),
        Hazard::LargeValues { dtype, largest, in_backward } => {
            let largest = match largest {
                Some(largest) => format!("the largest value of {dtype} ({largest})"),
                None => "the largest value of the dtype".to_owned(),
            };
            let remedy = match (dtype.as_str(), in_backward) {
                ("float16", true) => "If they are close, use a smaller loss scale, or run this call in float32.",
                ("float16", false) => "If they are close, run this call in float32 or bfloat16, or scale its input down.",
                _ => {
                    "If neither, look inside the call for a division by zero, or for a root or logarithm of a number that \
                     is not positive."
                }
            };
            format!(
                "Check whether its inputs have infinite values (0 × infinity and infinity - infinity are NaN), or are close to \
                 {largest}. {remedy}"
            )
        }
    }
}
