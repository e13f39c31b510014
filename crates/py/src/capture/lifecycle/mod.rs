//! From step to step: settings, switching on and off, writing, and what becomes of errors.

pub(super) mod failures;
pub(super) mod settings;
mod steps;
pub(super) mod writing;
