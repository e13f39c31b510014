//! What to do next, as values. Commands and code are the same in every language.

use serde::{Deserialize, Serialize};
use ulpscope_compare::{Precision, Side};

/// One instruction, or one line of code that belongs to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Instruction {
    /// A command or a line of Python, to be copied.
    Run(String),
    /// A line of the program of this side.
    CodeOf(Side, String),
    /// Compare by the native style.
    CompareNatively,
    /// Record the calls between modules.
    RecordBetweenModules,
    /// Measure the rounding noise with a second golden run.
    MeasureNoise,
    /// The same, where healthy runs may differ as much.
    MeasureHealthyRuns,
    /// See which elements differ.
    SeeElements,
    /// Look for what else changes a gradient.
    LookForGradientChanges,
    /// Make a dump readable: what is wrong with it.
    MakeReadable(String),
    /// Capture both sides at the same level.
    CaptureAtOneLevel,
    /// Check the calls without a counterpart.
    CheckUnpaired,
    /// Dump tensors, if the runs still end differently.
    DumpTensorsIfNeeded,
    /// Check a call in both programs.
    CheckCallInBoth,
    /// Record what happens before this step.
    RecordEarlierSteps,
    /// Look at what writes into a parameter or buffer.
    LookAtWriters(String),
    /// Check the checkpoint.
    CheckCheckpoint {
        /// Whether it is a buffer, which the mode of a module changes, too.
        is_buffer: bool,
    },
    /// Find the first checkpoints that differ, and record the steps before them.
    CompareEarlierCheckpoints,
    /// Check how gradients are treated.
    CheckGradientHandling,
    /// Check the batch and the seed.
    CheckBatchAndSeed,
    /// What to look for in the inputs of a call that made NaN or infinite values.
    LookFor(Hazard),
    /// See the inputs of the call.
    SeeInputs,
    /// Compare two calls.
    CompareCalls,
    /// List all calls among which two programs part.
    OpenRegion,
    /// Check a call that only one side makes.
    CheckCallOf(Side),
    /// Compare two lines of code.
    CompareCode,
    /// Look at a line of code.
    LookAtCode(String),
    /// Compare what the two sides recorded.
    CompareRecords,
    /// How a tensor was made.
    MadeAs(String),
    /// Record every operator.
    RecordEveryOperator,
    /// Look for kernels that write without torch.
    LookForKernels,
    /// Look for something that computes in less than the dtype.
    LookForPrecision(Precision),
    /// Where to switch TF32 off, and what to do if it is meant to be on.
    InThatRun,
    /// Dump the tensors of this place alone.
    DumpTensorsHere,
    /// The same in one's own loop.
    OrInYourLoop,
}

/// Where NaN and infinities come from in an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hazard {
    /// The gradient of this operation divides by its argument or result.
    GradientDivides(String),
    /// A logarithm of zero or less.
    Logarithm,
    /// log1p of -1 or less.
    Log1p,
    /// A root of a negative number.
    Root,
    /// rsqrt of zero or less.
    ReciprocalRoot,
    /// A division by zero.
    Division,
    /// An exponential that overflows.
    Exponential {
        /// The operation.
        operation: String,
        /// The argument from which it overflows: dtype and number, where the dtype is known.
        limit: Option<String>,
    },
    /// A power of a negative number or of zero.
    Power,
    /// An argument outside -1 to 1.
    OutsideUnit(String),
    /// A row that is masked completely.
    MaskedRow,
    /// An average over nothing.
    TooFewElements(String),
    /// A variance or norm of zero.
    ZeroVariance {
        /// The largest value of the dtype.
        largest: Option<String>,
    },
    /// A probability of zero.
    ZeroProbability,
    /// Values near the largest of the dtype.
    LargeValues {
        /// The dtype.
        dtype: String,
        /// Its largest value.
        largest: Option<String>,
        /// Whether it is the backward pass.
        in_backward: bool,
    },
}
