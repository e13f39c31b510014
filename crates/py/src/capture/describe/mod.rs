//! Arguments, results and tensors as `dump.json` describes them.

pub(super) mod items;
pub(super) mod tensors;
