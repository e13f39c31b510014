//! How large an error may be: rounding, what arguments bring along, and what is usual in this run.
//!
//! ```text
//! rounding ─────────┐
//! error_inputs ─────┼──► expectations: the error that each result should have
//! sensitivity ──────┘         └──► calibration: how many times as large errors of this run are; noise_floor: of a second run
//! ```

pub(in crate::native) mod calibration;
pub(crate) mod dtype_tolerance;
pub(in crate::native) mod error_inputs;
pub(in crate::native) mod expectations;
pub(in crate::native) mod noise_floor;
pub(crate) mod rounding;
pub(in crate::native) mod sensitivity;
