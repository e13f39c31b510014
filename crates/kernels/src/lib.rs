//! Measures tensors at memory speed: one file per fused pass over tensors.
//!
//! Floating-point addition is not associative, so the order of every sum is part of its definition here:
//! sixteen lanes, sums in f64, blocks of a fixed number of elements, block results merged in order. No
//! instruction set and no number of threads changes that order, so none of them changes a bit of any result.
//! The crate contains the only SIMD of the project: plain lane loops, compiled once per instruction set and
//! chosen at run time.

mod blocks;
mod compare;
mod decoded;
mod digest;
mod float_env;
mod histogram;
mod lanes;
mod level;
mod range;
mod recorded;
mod replay;
mod short;
mod standards;
mod stats;
mod stop;

pub use blocks::{Reading, Threads};
pub use compare::{
    BadTolerance, Comparison, Distances, ElementDiff, ExponentHistogram, NonFinite, PeerArithmetic,
    PeerErrors, Rest, ShapeMismatch, Tolerance, compare, compare_at, distances, distances_at, errors,
    errors_at, first_failing, kl_divergence, peer_errors, peer_errors_at, rest, worst,
};
pub use digest::{Digest, DigestKind, digest, keyed_hash};
pub use histogram::{ValueHistogram, value_histogram};
pub use level::Level;
pub use range::{Reach, Survival, reach, reach_at, survival};
pub use recorded::{RECORDED, SUMMARIES, SUMMARY_KEYS, Statistic};
pub use replay::{ReplayErrors, ReplayReference, replay_errors};
pub use standards::{StandardErrors, StandardLimits, standard_errors};
pub use stats::{Stats, read_once, stats, stats_at};
pub use stop::stoppable;
