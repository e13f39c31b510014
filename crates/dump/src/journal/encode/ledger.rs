//! The line of a ledger: what was recorded so far.

use ulpscope_formats::json::push_text;

use super::values::{ListText, ObjectText, key, push_flag, push_int, push_text_or_null};
use crate::ledger::{Ledger, ModelResults};

impl Ledger {
    /// Appends a line with the ledger; `is_over` says that the step has ended.
    pub fn encode(&self, is_over: bool, out: &mut Vec<u8>) {
        let mut line = ObjectText::open(out);
        line.known_key(key!("ledger"), out);
        let mut ledger = ObjectText::open(out);
        for (key, count) in [(key!("seen"), self.seen), (key!("recorded"), self.recorded)] {
            ledger.known_key(key, out);
            push_int(count.into(), out);
        }
        let reasons = [
            (key!("raised"), &self.raised),
            (key!("skipped"), &self.skipped),
            (key!("failed"), &self.failed),
            (key!("unread"), &self.unread),
        ];
        for (key, counts) in reasons {
            ledger.known_key(key, out);
            let mut object = ObjectText::open(out);
            for (reason, count) in counts {
                object.key(reason, out);
                push_int((*count).into(), out);
            }
            object.close(out);
        }
        if !self.returned.is_empty() {
            self.encode_returned(&mut ledger, out);
        }
        ledger.known_key(key!("notes"), out);
        let mut notes = ListText::open(out);
        for note in &self.notes {
            notes.element(out);
            push_text(note, out);
        }
        notes.close(out);
        ledger.known_key(key!("ended"), out);
        push_text_or_null(self.ended.as_deref(), out);
        if self.limited {
            ledger.known_key(key!("limited"), out);
            push_flag(true, out);
        }
        ledger.close(out);
        if is_over {
            line.known_key(key!("over"), out);
            push_flag(true, out);
        }
        line.close_line(out);
    }

    fn encode_returned(&self, ledger: &mut ObjectText, out: &mut Vec<u8>) {
        ledger.known_key(key!("returned"), out);
        let mut calls = ListText::open(out);
        for ModelResults { calls: begun, results } in &self.returned {
            calls.element(out);
            let mut call = ObjectText::open(out);
            call.known_key(key!("calls"), out);
            push_int((*begun).into(), out);
            call.known_key(key!("results"), out);
            let mut sources = ObjectText::open(out);
            for (path, source) in results {
                sources.key(path, out);
                push_text_or_null(source.as_deref(), out);
            }
            sources.close(out);
            call.close(out);
        }
        calls.close(out);
    }
}
