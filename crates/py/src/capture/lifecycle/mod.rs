//! Steps, settings, start and stop, writing, and error handling.

pub(super) mod ending;
pub(super) mod failures;
pub(super) mod settings;
mod steps;
pub(super) mod writing;
