//! Makes the documents of a dump from a journal: compact, one call per line, text copied unchanged.

use std::io::Write;

use ulpscope_formats::json::{self, Json, Layout};
use ulpscope_formats::{Bytes, Error};

use super::encode::STACK_FORM;
use super::encode::rooms::{has_room, without_room};
use super::outline::{Call, NONE, Outline};
use crate::call::CallKind;
use crate::problems::Problems;

/// The keys before the calls, as in msprobe.
const TOP_KEYS: [&str; 4] = ["task", "level", "framework", "dump_data_dir"];

/// Parents that are not calls: they have their own entries in construct.json.
const PLACES: [&[u8]; 2] = [b"\"optimizer\"", b"\"clip_grad\""];

/// Maximum number of unreadable lines that get a note each: a ledger is read by people.
const MAX_NOTES: usize = 20;

/// Bytes copied before their memory is returned to the system.
const RELEASE_BYTES: usize = 64 << 20;

/// A journal and its outline.
pub(super) struct Documents<'a> {
    pub(super) journal: &'a Bytes,
    pub(super) outline: &'a Outline,
}

impl Documents<'_> {
    /// `dump.json` or `debug.json`. A dump of structure contains no calls: the other two files name them.
    pub(super) fn dump(&self, out: &mut dyn Write) -> Result<(), Error> {
        let write = |out: &mut dyn Write, text: &[u8]| out.write_all(text).map_err(Error::whole);
        let outline = self.outline;
        write(out, b"{")?;
        for key in TOP_KEYS {
            write(out, format!("\"{key}\":").as_bytes())?;
            json::write(outline.header(key).unwrap_or(&Json::Null), Layout::OneLine, out)?;
            write(out, b",")?;
        }
        write(out, b"\"data\":{")?;
        let is_structure = outline.header("task").and_then(Json::as_str) == Some("structure");
        let mut before: &[u8] = b"\n";
        let mut copied = 0;
        for call in outline.in_order().filter(|_| !is_structure).map(|call| &outline.calls[call]) {
            write(out, before)?;
            before = b",\n";
            write(out, call.name.of(self.journal))?;
            write(out, b":")?;
            copied += self.body(call, out)?;
            if copied >= RELEASE_BYTES {
                self.journal.release(0..self.journal.len());
                copied = 0;
            }
        }
        write(out, b"\n}}\n")
    }

    /// Writes the sections of a call as one object. Returns the number of bytes copied.
    fn body(&self, call: &Call, out: &mut dyn Write) -> Result<usize, Error> {
        let mut parts = self.outline.parts_of(call).map(|part| part.of(self.journal)).peekable();
        let Some(first) = parts.next() else {
            out.write_all(b"{}").map_err(Error::whole)?;
            return Ok(0);
        };
        if parts.peek().is_none() {
            write_text(first, out)?;
            return Ok(first.len());
        }
        let mut copied = 0;
        let mut before: &[u8] = b"{";
        // The text between the braces of each.
        let insides = std::iter::once(first).chain(parts).map(|part| part[1..part.len() - 1].trim_ascii());
        for inside in insides.filter(|inside| !inside.is_empty()) {
            out.write_all(before).map_err(Error::whole)?;
            write_text(inside, out)?;
            before = b",";
            copied += inside.len();
        }
        out.write_all(if copied == 0 { b"{}" } else { b"}" }).map_err(Error::whole)?;
        Ok(copied)
    }

    /// `stack.json`: forward calls only, in the form that the header asks for.
    pub(super) fn stacks(&self, out: &mut dyn Write) -> Result<(), Error> {
        let outline = self.outline;
        let has_stack = |&call: &usize| {
            let call = &outline.calls[call];
            call.stack != NONE && !matches!(call.kind, CallKind::Backward | CallKind::ParametersGrad)
        };
        let mut calls: Vec<u32> = outline.in_order().filter(has_stack).map(|call| call as u32).collect();
        let (key, by_name) = STACK_FORM;
        if outline.header(key).and_then(Json::as_str) == Some(by_name) {
            return self.stacks_by_name(&calls, out);
        }
        let stack_of = |call: u32| outline.calls[call as usize].stack;
        // Stable: the calls of a stack stay in order.
        calls.sort_by_key(|&call| stack_of(call));
        let mut write = |text: &[u8]| out.write_all(text).map_err(Error::whole);
        write(b"{")?;
        for (number, group) in calls.chunk_by(|&one, &next| stack_of(one) == stack_of(next)).enumerate() {
            let comma = if number == 0 { "" } else { "," };
            write(format!("{comma}\n\"{number}\":[[").as_bytes())?;
            for (position, &call) in group.iter().enumerate() {
                write(if position == 0 { b"" } else { b"," })?;
                write(outline.calls[call as usize].name.of(self.journal))?;
            }
            write(b"],")?;
            write(outline.stacks[stack_of(group[0]) as usize].of(self.journal))?;
            write(b"]")?;
        }
        write(b"\n}\n")
    }

    /// The stacks of all calls by name, those of backward calls included.
    pub(super) fn all_stacks(&self, out: &mut dyn Write) -> Result<(), Error> {
        let has_stack = |&call: &usize| self.outline.calls[call].stack != NONE;
        let calls: Vec<u32> = self.outline.in_order().filter(has_stack).map(|call| call as u32).collect();
        self.stacks_by_name(&calls, out)
    }

    /// The stack of each call by its name.
    fn stacks_by_name(&self, calls: &[u32], out: &mut dyn Write) -> Result<(), Error> {
        let mut write = |text: &[u8]| out.write_all(text).map_err(Error::whole);
        write(b"{")?;
        for (number, &call) in calls.iter().enumerate() {
            let call = &self.outline.calls[call as usize];
            write(if number == 0 { b"\n" } else { b",\n" })?;
            write(call.name.of(self.journal))?;
            write(b":")?;
            write(self.outline.stacks[call.stack as usize].of(self.journal))?;
        }
        write(b"\n}\n")
    }

    /// `construct.json`: at levels with modules, the module in which each call was made.
    pub(super) fn parents(&self, out: &mut dyn Write) -> Result<(), Error> {
        let outline = self.outline;
        let level = outline.header("level").and_then(Json::as_str).unwrap_or_default();
        let mut write = |text: &[u8]| out.write_all(text).map_err(Error::whole);
        let mut before: &[u8] = b"\n";
        let mut told = [false; PLACES.len()];
        write(b"{")?;
        for call in outline.in_order().map(|call| &outline.calls[call]) {
            let in_order = matches!(call.kind, CallKind::Forward | CallKind::Backward);
            let wanted = match level {
                "L1" | "L2" => false,
                "L0" | "mix" => in_order || call.parent().is_some(),
                _ => call.parent().is_some(),
            };
            if !wanted {
                continue;
            }
            let parent = call.parent().map_or(b"null".as_slice(), |parent| parent.of(self.journal));
            if let Some(place) = PLACES.iter().position(|place| *place == parent)
                && !std::mem::replace(&mut told[place], true)
            {
                for text in [before, parent, b":null"] {
                    write(text)?;
                }
                before = b",\n";
            }
            for text in [before, call.name.of(self.journal), b":", parent] {
                write(text)?;
            }
            before = b",\n";
        }
        write(b"\n}\n")
    }

    /// The ledger, with a note on each line of the journal that could not be read.
    pub(super) fn ledger(&self, problems: &Problems) -> Result<Option<Json>, Error> {
        let Some(span) = self.outline.ledger else { return Ok(None) };
        let mut ledger = json::read(span.of(self.journal))?;
        if problems.is_empty() {
            return Ok(Some(ledger));
        }
        if let Json::Object(fields) = &mut ledger {
            let mut lines: Vec<String> = problems.listed().iter().take(MAX_NOTES).cloned().collect();
            let more = problems.count() - lines.len() as u64;
            if more > 0 {
                lines.push(format!("{more} more lines of the journal could not be read"));
            }
            let lines = lines.into_iter().map(Json::Str);
            match fields.iter_mut().rev().find(|(key, _)| key == "notes") {
                Some((_, Json::List(notes))) => notes.extend(lines),
                Some((_, other)) => *other = Json::List(lines.collect()),
                None => fields.push(("notes".to_owned(), Json::List(lines.collect()))),
            }
        }
        Ok(Some(ledger))
    }
}

/// Copies text, without the room that numbers from a device did not need.
fn write_text(text: &[u8], out: &mut dyn Write) -> Result<(), Error> {
    if !has_room(text) {
        return out.write_all(text).map_err(Error::whole);
    }
    without_room(text).try_for_each(|piece| out.write_all(piece)).map_err(Error::whole)
}
