//! The line of a ledger: what was recorded so far.

use ulpscope_formats::json::push_text;

use super::values::{ListText, ObjectText, key, push_flag, push_int, push_text_or_null};
use crate::ledger::Ledger;

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
}
