//! Every constant that a verdict depends on, by pass.
//!
//! Each has its derivation, or the word "chosen" and what it was chosen on. `make thresholds` shows what half and twice of
//! each does to the suites (docs/evaluation.md).
//!
//! Not here: facts of number formats and of mathematics (roundoffs, slopes, quantiles), which are beside their formulas, and
//! bounds on time, memory and length of lists, which are in the files that they bound.

/// A number that verdicts depend on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Threshold {
    /// `pass.NAME`.
    #[cfg(feature = "scaled-thresholds")]
    name: &'static str,
    value: f64,
}

impl Threshold {
    const fn new(name: &'static str, value: f64) -> Threshold {
        #[cfg(not(feature = "scaled-thresholds"))]
        let _ = name;
        Threshold {
            #[cfg(feature = "scaled-thresholds")]
            name,
            value,
        }
    }

    /// The number.
    #[cfg(not(feature = "scaled-thresholds"))]
    pub(crate) const fn get(self) -> f64 {
        self.value
    }

    /// The number, times the factor that the environment has for it.
    #[cfg(feature = "scaled-thresholds")]
    pub(crate) fn get(self) -> f64 {
        self.value * scaled::factor(self.name)
    }
}

macro_rules! thresholds {
    ($($(#[$about:meta])* $pass:ident { $($(#[$doc:meta])* $name:ident = $value:expr;)+ })+) => {
        $(
            $(#[$about])*
            pub(crate) mod $pass {
                use super::Threshold;
                $(
                    $(#[$doc])*
                    pub(crate) const $name: Threshold =
                        Threshold::new(concat!(stringify!($pass), ".", stringify!($name)), $value);
                )+
            }
        )+

        #[cfg(feature = "scaled-thresholds")]
        const ALL: &[Threshold] = &[$($($pass::$name,)+)+];
    };
}

thresholds! {
    /// What rounding explains (`rounding.rs`).
    rounding {
        /// Roundings of a result: one on either side, and as many of an intermediate result inside a kernel.
        ROUNDINGS = 4.0;
        /// Rounding to a precision is recognised within this factor of what it does to evenly spread numbers. Chosen on
        /// products of rounded factors (the tests of `rounding.rs`).
        LIKE_PRECISION = 1.25;
        /// An error looks like rounding if all elements share less than this part of it. Chosen on the faults of precision in
        /// the fault suite.
        LIKE_PRECISION_SHARED = 0.25;
        /// Likewise if its worst element stands out no more than this, beside what was expected. Chosen on the same.
        LIKE_PRECISION_PEAK = 2.0;
    }

    /// What two tensors may be apart if nothing but their dtype is known (`dtype_tolerance.rs`).
    limit {
        /// The share of the digits that is kept: some two hundred roundings in float32, a handful in bfloat16. Chosen.
        DIGITS = 2.0 / 3.0;
    }

    /// Values that are so large that nothing beside them counts (`sentinels.rs`, `correspondence/likeness.rs`).
    sentinels {
        /// No smaller value hides an element: half of 1e4, the smallest fill value in use, to which scores are added.
        LEAST = 5e3;
        /// How many times as large as everything else they are. Chosen: scores before a softmax are below 64, and 64 times
        /// that is below the least.
        GAP = 64.0;
        /// The norm of two equal elements of size 1 is `√2`, except for rounding.
        SEVERAL = 1.4;
    }

    /// What was measured on a pair (`measure.rs`, `tensor_error.rs`, `call_evidence.rs`).
    evidence {
        /// How far sums of the same numbers are apart that were added in different orders, as a GPU and a host do: 16 units in
        /// the last place. Each adds hundreds of numbers in a row, and then the results in pairs; errors of either sign
        /// cancel. Seen between an H200 and a CPU: 2.
        OF_ORDER = 16.0 * f64::EPSILON;
        /// Relative distance above which elements of permuted shapes have nothing to do with each other in memory order: one
        /// side is transposed. Unrelated values of one size are `√2` apart; chosen well below.
        UNRELATED = 0.5;
        /// All zeros on one side were there on the other if these are so many times the smallest number of the dtype: four
        /// digits above it, rounding no longer makes zeros. Chosen.
        GONE = 16.0;
        /// Statistics of fewer elements are like too many others. Chosen: as many elements as statistics.
        TELLING = 4.0;
    }

    /// The error that a result is expected to have (`expectations.rs`, `sensitivity.rs`).
    expect {
        /// Elements of a random error lie within so many standard deviations: one in a thousand million does not.
        ELEMENT_SPREAD = 6.0;
        /// How many times the rounding of one operation a recurrent network has: a step has some 16 roundings in a row, gates
        /// and their functions, and remembers some four steps before. `√(16 · 4)`.
        LOOP = 8.0;
        /// Among fewer elements a random error may be much like a factor: `1 / √64` of it is shared by chance.
        FEW_ELEMENTS = 64.0;
        /// Statistics show some part of an error, of the arguments as of the result; how large a part is chance. Chosen: the
        /// prior spread of siblings.
        UNSEEN = 2.0;
        /// Of an argument that is off by a share, so many times that share of the gates may open or close. Chosen: one for
        /// either side of the threshold.
        GATES = 2.0;
        /// The largest power in models is a cube, in approximations of GELU.
        POWER = 3.0;
        /// The steepest of the mild functions is GELU, with a slope of 1.13.
        SLOPE = 1.13;
    }

    /// What is ordinary among calls of a kind (`calibration.rs`).
    siblings {
        /// The chance of one false alarm among all calls of a healthy rank and step. Chosen.
        ALARM = 0.01;
        /// Before anything is known, two calls in three are within a factor of 2 of what is expected. A logarithm, as the next
        /// ones. Chosen on healthy runs of the fault suite.
        PRIOR_SPREAD = std::f64::consts::LN_2;
        /// How many calls the prior counts as, and then the run. Chosen.
        PRIOR_CALLS = 4.0;
        /// However alike the others are: no two computations are alike to better than a factor of 1.6. In healthy runs
        /// (bfloat16 against float32, split sums), nine kinds of calls in ten have less, and half of them a third of it: of few
        /// calls a smaller spread is not believed, as it may be chance, and there are many kinds for that to happen in.
        LEAST_SPREAD = 0.47;
        /// However far off or scattered the others are: neither their middle nor their spread counts as more than a factor of
        /// 4, two prior spreads.
        MOST_SPREAD = 2.0 * std::f64::consts::LN_2;
        /// However near the others are to nothing: an expected error is itself known to no better than a factor of 3. Chosen.
        LEAST_ALLOWED = 3.0;
        /// Among so many a single call does not count, and need not be left out: it moves their median by one rank.
        MANY_CALLS = 64.0;
    }

    /// What a second golden run says (`noise_floor.rs`).
    noise {
        /// One run shows one value out of all that noise may take; another healthy run is within this factor of it: the
        /// prior spread of siblings.
        MARGIN = 2.0;
        /// Runs that are this far apart compute something else: no fault smaller than that can be seen above their noise.
        DROWNED = 0.5;
    }

    /// Parameters, buffers and inputs (`blame.rs`), and what steps leave in parameters (`final_parameters.rs`).
    origins {
        /// Results of earlier steps in a coarse dtype that differ by more are other origins. Chosen.
        OTHER = 1e-2;
        /// Likewise in float32 or finer: a step changes weights by some hundredth at most, and rounding changes such a step by
        /// less than a tenth, even where an optimizer divides by next to nothing.
        OTHER_FINE = 1e-3;
        /// Origins of a first step that all differ by more than one rounding to bfloat16 are other origins, not the same out
        /// of a checkpoint of coarser dtype.
        STORED = 1.0 / 256.0;
        /// Results of earlier steps that are further apart than so many times what nine in ten are stand out: where errors of
        /// parameters scatter by a factor of 4, which is what those of calls do twice over, three such factors.
        TRAINED_APART = 64.0;
        /// A dtype that differs rounds every element once on either side.
        ROUNDINGS = 2.0;
        /// An origin may be so many times as far apart as an ordinary one: three prior spreads of siblings.
        ORDINARY = 8.0;
        /// Likewise its worst element: eight times that, as an even error has elements of up to `ELEMENT_SPREAD` times its
        /// size and origins have rows of their own. Chosen.
        ORDINARY_PEAK = 64.0;
        /// One in so many parameters, at most, has a gradient that is zero except for rounding: a layer has one bias of keys,
        /// among a dozen. Chosen: an optimizer that does something else does so with more than half of them.
        ZERO_GRADIENTS = 2.0;
        /// Likewise of those that are apart by a small part of a step alone: a layer of twelve parameters has one such bias.
        /// Chosen below that.
        RARE = 8.0;
        /// Two steps whose directions are opposite in a part of the elements are apart by such a part of their length at least: one
        /// sign in 256. The bias of keys has one in three of those of all projections. Chosen.
        OPEN_SIGNS = 8.0;
        /// The share of a difference of steps that different lengths of the two may explain: rounding changes directions, and
        /// a wrong rate the length. Chosen.
        LENGTHENED = 0.5;
        /// How far apart two steps of one length lead, in terms of it, if their directions are opposite.
        OPPOSITE_STEPS = 2.0;
    }

    /// Which origins' rounding a function makes much larger (`amplified.rs`).
    amplified {
        /// How many times as large a relative error has to become. Chosen: functions without a known condition are believed
        /// to keep errors within a factor of 3, and their siblings scatter by another 2.
        GROWTH = 8.0;
    }

    /// A class for each call (`conclude.rs`).
    conclude {
        /// From this relative error on nothing is linear any more, and a call may do anything with it. Chosen.
        BEYOND_LINEAR = 0.05;
        /// How many decisions an error turns, in terms of its relative size: values that are compared lie some sixteenth of
        /// their size apart, as the largest of some thousand do.
        NEAR_A_TIE = 16.0;
        /// Standard deviations of a count of such decisions that are no finding. Chosen: one in ten thousand.
        TURNED_SPREAD = 4.0;
        /// Decisions that are no finding where nearly none is expected: with chance 1/20 there are as many as three.
        TURNED_FEW = 3.0;
        /// Behind an error that is known, another has to be so many times what may come of that: what is handed on is known
        /// within a factor of 2 for each of the three ways it is measured, and a quarter more.
        BESIDE_KNOWN = 10.0;
    }

    /// Other ways to the same results (`routes.rs`).
    routes {
        /// An error that is less than this share of what its arguments explain was undone. Those of healthy calls scatter
        /// about what is expected by a factor of 2 (siblings); this is four such factors below.
        UNDONE = 1.0 / 16.0;
    }

    /// The guard on final results (`guard.rs`).
    final_results {
        /// How many times the accumulated rounding a result of the forward pass may be off. Chosen: in the healthy comparisons
        /// of the fault suite none has more than 0.8 times.
        ALLOWED = 3.0;
        /// Likewise a gradient of a parameter: normalisations make differences of large numbers of it. Chosen: none has more
        /// than 10.6 times.
        ALLOWED_IN_GRADIENTS = 32.0;
        /// A result with so many times fewer elements than an argument is a reduction, such as a loss: its error is that of
        /// what it is reduced from, however small the sum. Chosen.
        REDUCTION = 8.0;
        /// Other tools sum in float32: a mean or norm of 4,096 elements added one after another is off by 64 roundings of
        /// `2^-24`.
        RECORDED = 64.0 / 16_777_216.0;
    }

    /// Two different programs (`ports.rs`, `judgement.rs`).
    ports {
        /// More than one in so many calls of the forward pass is made by one side only: a different program. With fewer,
        /// partners tell more. Chosen on the development half of the ports.
        CALLS_PER_LONE = 20.0;
        /// So many calls of one side are a change of one program, whatever their share. Chosen on the same.
        FEW_LONE = 8.0;
        /// Optimizer steps of which more than one in so many calls has no partner are made in different ways. With fewer,
        /// partners tell more: a step that leaves out one call in ten is a change of one program. Chosen.
        UPDATES_PER_LONE = 4.0;
        /// How much further apart the results of a call must be than its inputs, to be named where gradients alone are known
        /// to differ: four times a factor of 2.
        STANDS_OUT = 16.0;
    }

    /// What corresponds in two programs (`correspondence/`).
    correspondence {
        /// A value that is apart by less than such a part of the final results is none that leads there: four times a
        /// factor of 2.
        ON_THE_WAY = 16.0;
        /// How far apart the statistics of one parameter may be that both programs store in float32 or finer: sums of a
        /// million elements in another order. Chosen.
        SAME_WEIGHT = 1e-5;
        /// Likewise where one of them alone stores it in a coarser dtype: five roundings to bfloat16. Chosen.
        STORED_COARSELY = 2e-2;
        /// Likewise after training, where sizes and the order of uses say that they are the same: the bias of keys goes where
        /// rounding takes it. Chosen: half of the size.
        MOVED = 0.5;
        /// Two programs have next to nothing in common if less than one in so many parameters and results have a
        /// counterpart. Chosen.
        IN_COMMON = 10.0;
        /// In a coarse dtype, final results are believed if they use up less than such a part of what rounding accumulates to,
        /// whatever lies between. Chosen on the healthy ports in low precision: all but one use up less.
        DOUBTED = 8.0;
        /// A gradient so many times smaller than the largest may be zero except for rounding, such as that of a bias of keys.
        /// Chosen on the development half of the ports.
        CANCELS = 30.0;
        /// How many roundings apart groups of gradients may be of which one side has no gradient of a part, as it does where
        /// that is zero. Chosen.
        WITHOUT_A_PART = 16.0;
        /// Of so many parameters before a call that cuts gradients off, one may get the same gradient all the same: it may be zero.
        /// Chosen.
        UNCHANGED_BEFORE_CUT = 8.0;
        /// Norms may have been rounded when they were recorded. Chosen: more than bfloat16 does.
        ROUNDED_NORM = 1.01;
        /// No two values with counterparts have norms further apart: more than any limit allows. Chosen.
        WIDEST = 0.25;
    }

    /// Replay (`proofs.rs`, and `proof.rs` above).
    proofs {
        /// How near to being blamed a call must be to be replayed all the same. Chosen.
        LEAST_DOUBT = 0.5;
        /// An own error explains a difference that is at most so many times as large. Chosen.
        EXPLAINS = 10.0;
    }

    /// What kind of mistake an error looks like, in words (`verdict.rs`). Nothing is decided by these.
    likeness {
        /// Noise looks like nothing. Chosen: between roundings to float16 and to bfloat16.
        NOISE = 1e-3;
        /// Single elements: at most one in so many. Chosen.
        FEW = 100.0;
        /// Among fewer there are no few. Chosen.
        LEAST_ELEMENTS = 16.0;
        /// A factor: how far the cosine is from 1. Chosen: an error of a thousandth that all elements do not share.
        FACTOR = 1e-6;
        /// A sign: how far the factor is from -1. Chosen.
        SIGN = 1e-3;
    }
}

/// How sure a finding is whose kind of evidence has no calibrated tail; of those that have one, `calibration.rs` tells. These
/// decide nothing, so they are not scaled. Chosen, in this order.
pub(crate) mod confidence {
    /// The entry itself shows it: another parameter, NaN made of finite inputs.
    pub(crate) const SHOWN: f64 = 0.95;
    /// Exact values or shapes differ that were made from equal ones.
    pub(crate) const EXACT: f64 = 0.9;
    /// The programs differ there, and results behind it do.
    pub(crate) const STRUCTURE: f64 = 0.8;
    /// It happened between two recorded calls.
    pub(crate) const BETWEEN: f64 = 0.6;
    /// Nobody stands out.
    pub(crate) const GUESS: f64 = 0.3;
    /// Times this, where statistics alone were compared.
    pub(crate) const BY_STATISTICS: f64 = 0.8;
    /// Times this, where an argument could not be compared.
    pub(crate) const UNKNOWN_ARGUMENT: f64 = 0.5;
}

/// Thresholds that are not what they are: for the command that shows what they do. The environment variable
/// `ULPSCOPE_THRESHOLD_SCALE=routes.UNDONE=0.5,…` is read once.
#[cfg(feature = "scaled-thresholds")]
mod scaled {
    use std::collections::HashMap;
    use std::sync::LazyLock;

    use super::ALL;

    const VARIABLE: &str = "ULPSCOPE_THRESHOLD_SCALE";

    static FACTORS: LazyLock<HashMap<String, f64>> =
        LazyLock::new(|| read(&std::env::var(VARIABLE).unwrap_or_default()));

    pub(super) fn factor(name: &str) -> f64 {
        if FACTORS.is_empty() { 1.0 } else { FACTORS.get(name).copied().unwrap_or(1.0) }
    }

    /// A name that is none would show that a threshold does nothing, so it ends the process.
    pub(super) fn read(given: &str) -> HashMap<String, f64> {
        let pairs = given.split(',').filter(|pair| !pair.is_empty()).map(|pair| {
            let (name, factor) = pair.split_once('=').unwrap_or((pair, ""));
            let is_known = ALL.iter().any(|threshold| threshold.name == name);
            match factor.parse::<f64>() {
                Ok(factor) if is_known && factor > 0.0 => (name.to_owned(), factor),
                _ => panic!("{VARIABLE}: expected NAME=FACTOR with the name of a threshold, found {pair}"),
            }
        });
        pairs.collect()
    }
}

#[cfg(all(test, feature = "scaled-thresholds"))]
mod tests {
    use super::*;

    #[test]
    fn factors_are_read_by_name() {
        let read = scaled::read("routes.UNDONE=0.5,siblings.ALARM=2");
        assert_eq!((read["routes.UNDONE"], read["siblings.ALARM"]), (0.5, 2.0));
        for wrong in ["routes.UNDNE=0.5", "routes.UNDONE", "routes.UNDONE=-1"] {
            assert!(std::panic::catch_unwind(|| scaled::read(wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn no_two_thresholds_share_a_name() {
        let mut names: Vec<&str> = ALL.iter().map(|threshold| threshold.name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
