//! The index of a journal: offsets of its parts, some ninety bytes per call.

use std::path::Path;

use ulpscope_formats::json::Json;

use super::line::Span;
use crate::call::CallKind;
use crate::problems::Problems;
use crate::writer::DATA_FOLDER;

/// No stack, or no further part.
pub(super) const NONE: u32 = u32::MAX;

/// Maximum number of calls: a place is the number of a call and one bit.
pub(super) const MAX_CALLS: usize = (1 << 31) - 1;

/// A journal as offsets.
#[derive(Debug, Default)]
pub(super) struct Outline {
    /// The header; nothing if it never reached the disk.
    pub(super) header: Option<Json>,
    pub(super) calls: Vec<Call>,
    pub(super) parts: Vec<Part>,
    /// The places of calls, in order. A call that moved to its end has two, and only the second counts.
    pub(super) places: Vec<Place>,
    /// The frames of each stack.
    pub(super) stacks: Vec<Span>,
    pub(super) ledger: Option<Span>,
    /// Whether the step has ended: the run had recorded all of it and was about to make the dump.
    pub(super) is_over: bool,
    /// Lines that could not be read.
    pub(super) problems: Problems,
    /// What the end of the file shows about the end of the run.
    pub(super) torn: Option<String>,
    /// Calls that neither ended nor raised, in order.
    pub(super) running: Vec<u32>,
}

/// A call.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) name: Span,
    /// Empty if there is none.
    pub(super) parent: Span,
    /// The number of its stack in [`Outline::stacks`].
    pub(super) stack: u32,
    /// The numbers of its first and last part.
    pub(super) parts: (u32, u32),
    pub(super) kind: CallKind,
    pub(super) moved: bool,
}

/// Sections of a call.
#[derive(Debug)]
pub(super) struct Part {
    start: u64,
    length: u32,
    /// The number of the next part of the same call.
    next: u32,
}

impl Call {
    /// The module in which it was made, if known.
    pub(super) fn parent(&self) -> Option<Span> {
        (self.parent.length > 0).then_some(self.parent)
    }
}

/// The number of a call, and whether it moved here.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place(u32);

impl Place {
    pub(super) fn first(call: usize) -> Place {
        Place((call as u32) << 1)
    }

    pub(super) fn moved(call: usize) -> Place {
        Place((call as u32) << 1 | 1)
    }
}

impl Outline {
    /// The numbers of the calls, in the order of a dump.json.
    pub(super) fn in_order(&self) -> impl Iterator<Item = usize> {
        let call = |place: &Place| (place.0 >> 1) as usize;
        self.places.iter().filter(move |place| self.calls[call(place)].moved == (place.0 & 1 == 1)).map(call)
    }

    /// The sections of a call.
    pub(super) fn parts_of(&self, call: &Call) -> impl Iterator<Item = Span> {
        let part = |number: u32| self.parts.get(number as usize);
        std::iter::successors(part(call.parts.0), move |known| part(known.next))
            .map(|part| Span { start: part.start, length: part.length })
    }

    /// Adds sections to a call.
    pub(super) fn add_part(&mut self, call: usize, span: Span) {
        let number = self.parts.len() as u32;
        self.parts.push(Part { start: span.start, length: span.length, next: NONE });
        let parts = &mut self.calls[call].parts;
        match self.parts.get_mut(parts.1 as usize) {
            Some(last) => last.next = number,
            None => parts.0 = number,
        }
        parts.1 = number;
    }

    /// Notes that the journal is in a different folder than when it was started.
    pub(super) fn lies_in(&mut self, folder: &Path) {
        if let Some(Json::Object(pairs)) = &mut self.header {
            for (_, value) in
                pairs.iter_mut().filter(|(key, value)| key == "dump_data_dir" && *value != Json::Null)
            {
                *value = Json::Str(folder.join(DATA_FOLDER).to_string_lossy().into_owned());
            }
        }
    }

    /// A value of the header.
    pub(super) fn header(&self, key: &str) -> Option<&Json> {
        self.header.as_ref().and_then(|header| header.get(key))
    }

    /// Whether variables were saved and no calls captured.
    pub(super) fn is_debug(&self) -> bool {
        self.header("level").and_then(Json::as_str) == Some("debug")
    }
}
