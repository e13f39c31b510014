//! What a call does with memory, by its name.

use ulpscope_dump::CallKind;
use ulpscope_dump::operators::{ApiName, Trait};

/// What a call does with the memory of its arguments and results. Looked up once for a call, and needed for each tensor.
#[derive(Clone, Copy)]
pub(in crate::capture) struct CallMemory {
    /// It computes nothing but shows the elements of its first argument in a different arrangement.
    pub(in crate::capture) rearranges: bool,
    /// Its results are uninitialised.
    pub(in crate::capture) is_blank: bool,
    /// It writes to its first argument without reading it.
    pub(in crate::capture) overwrites_first: bool,
    /// It writes to its first argument.
    pub(in crate::capture) is_in_place: bool,
}

impl CallMemory {
    pub(in crate::capture) fn of(call: &str) -> CallMemory {
        let (name, kind) = ApiName::of_call(call);
        let is_forward = kind == CallKind::Forward;
        CallMemory {
            rearranges: is_forward && name.has(Trait::Rearranges),
            is_blank: is_forward && name.returns_blank(),
            overwrites_first: name.overwrites_first(),
            is_in_place: name.is_in_place(),
        }
    }
}
