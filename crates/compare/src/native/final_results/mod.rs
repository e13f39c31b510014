//! Whether the runs end in the same: results of models, losses and gradients (`guard`), and parameters after the step
//! (`final_parameters`).

pub(in crate::native) mod final_parameters;
pub(in crate::native) mod guard;
