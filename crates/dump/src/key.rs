//! Splits keys of `dump.json` into base, number and kind, and joins them again.
//!
//! The index of a rank stores a key in these three parts, and entries are named after the joined parts. So a key
//! is split only if joining gives exactly the same text: `a.007.debug` is not call 7 of `a`, but something
//! that was saved under that exact name.

use std::fmt::Write;

use ulpscope_formats::names::{CallName, is_module};

use crate::call::{Call, CallKind};

const PARAMETERS_GRAD: &str = "parameters_grad";
const STEP_END: &str = "step_end";
const DEBUG: &str = ".debug";

/// Bytes of the longest word and number after a base.
const LONGEST_END: usize = ".parameters_grad.4294967295".len();

/// Splits a key of `dump.json` into base, number and kind. A key of unknown form is the base of a saved value.
pub fn parse_key(key: &str) -> (&str, Option<u32>, CallKind) {
    let known = call(key).or_else(|| parameters_grad(key)).or_else(|| step_end(key)).or_else(|| saved(key));
    known.unwrap_or((key, None, CallKind::Saved))
}

fn call(key: &str) -> Option<(&str, Option<u32>, CallKind)> {
    let name = CallName::from_msprobe(key)?;
    let (front, last) = key.rsplit_once('.')?;
    let (base, middle) = front.rsplit_once('.')?;
    // The number of a module's call is last, that of any other call before the direction.
    let index = printed(if name.is_module() { last } else { middle })?;
    Some((base, Some(index), name.direction.into()))
}

fn parameters_grad(key: &str) -> Option<(&str, Option<u32>, CallKind)> {
    let (front, last) = key.rsplit_once('.')?;
    if last == PARAMETERS_GRAD {
        return Some((front, None, CallKind::ParametersGrad));
    }
    let (base, word) = front.rsplit_once('.')?;
    let index = printed(last).filter(|_| word == PARAMETERS_GRAD)?;
    Some((base, Some(index), CallKind::ParametersGrad))
}

fn step_end(key: &str) -> Option<(&str, Option<u32>, CallKind)> {
    let (front, last) = key.rsplit_once('.')?;
    let (base, word) = front.rsplit_once('.')?;
    let index = printed(last).filter(|_| word == STEP_END)?;
    Some((base, Some(index), CallKind::StepEnd))
}

fn saved(key: &str) -> Option<(&str, Option<u32>, CallKind)> {
    let (base, number) = key.strip_suffix(DEBUG)?.rsplit_once('.')?;
    Some((base, Some(printed(number)?), CallKind::Saved))
}

/// A number exactly as it would be printed: no sign, no leading zeros, at most 32 bits.
fn printed(text: &str) -> Option<u32> {
    let plain = text == "0" || !text.starts_with(['0', '+']);
    text.parse().ok().filter(|_| plain)
}

/// The key that [`parse_key`] split.
pub(crate) fn key_of(base: &str, call: &Call) -> String {
    let mut key = name_of(base, call);
    if call.kind == CallKind::Saved && call.index.is_some() {
        key.push_str(DEBUG);
    }
    key
}

/// The name of a call: its key, except for the last word of the keys of saved variables.
pub(crate) fn name_of(base: &str, call: &Call) -> String {
    let word = match call.kind {
        CallKind::Forward | CallKind::Backward | CallKind::StepEnd | CallKind::ParametersGrad => {
            Some(call.kind.word())
        }
        CallKind::Saved => None,
    };
    let is_numbered_first = matches!(call.kind, CallKind::Forward | CallKind::Backward) && !is_module(base);
    // Names are made of millions of calls: each in one piece of memory.
    let mut name = String::with_capacity(base.len() + LONGEST_END);
    name.push_str(base);
    let number = |name: &mut String| {
        if let Some(index) = call.index {
            // Writing to memory does not fail.
            let _ = write!(name, ".{index}");
        }
    };
    if is_numbered_first {
        number(&mut name);
    }
    if let Some(word) = word {
        name.push('.');
        name.push_str(word);
    }
    if !is_numbered_first {
        number(&mut name);
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_prints_back() {
        let numbers = ["0", "7", "4294967295", "4294967296", "007", "+5", "-1", "", "x", "٣"];
        let bases = ["Functional.relu", "Module.fc.Linear", "Cell.fc.Dense", "a", "", "."];
        let mut keys: Vec<String> = vec!["forward".into(), "a.forward".into(), ".debug".into(), "..".into()];
        for base in bases {
            keys.push(format!("{base}.parameters_grad"));
            for number in numbers {
                keys.push(format!("{base}.{number}"));
                keys.push(format!("{base}.{number}.debug"));
                keys.push(format!("{base}.parameters_grad.{number}"));
                keys.push(format!("{base}.step_end.{number}"));
                for direction in ["forward", "backward"] {
                    keys.push(format!("{base}.{number}.{direction}"));
                    keys.push(format!("{base}.{direction}.{number}"));
                }
            }
        }
        let mut names = crate::names::Names::default();
        for key in keys {
            let (base, index, kind) = parse_key(&key);
            let call = Call { base: names.id(base), index, kind, place: 0..0 };
            assert_eq!(key_of(base, &call), key);
        }
    }
}
