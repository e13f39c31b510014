//! What the runs end in: final results must agree, whatever was said of single calls.

pub(in crate::native) mod final_parameters;
pub(in crate::native) mod guard;
