//! Finds calls by their names, of which nothing but the numbers of the calls is kept.

use crate::call::{Call, CallKind};
use crate::key::parse_key;
use crate::names::NameId;
use crate::rank::Index;

/// The parts of a name.
type Key<'a> = (&'a str, Option<u32>, CallKind);

/// The numbers of calls, by base and kind, in the order of their numbers in names.
#[derive(Debug)]
pub(crate) struct CallTable {
    /// Where the calls of each base and kind begin, and where the last end.
    starts: Vec<u32>,
    calls: Vec<u32>,
}

impl CallTable {
    pub(crate) fn of(calls: &[Call]) -> CallTable {
        let groups = calls.iter().map(|call| group(call.base, call.kind) + 1).max().unwrap_or(0);
        let mut starts = vec![0; groups + 1];
        calls.iter().for_each(|call| starts[group(call.base, call.kind) + 1] += 1);
        (0..groups).for_each(|group| starts[group + 1] += starts[group]);
        // Each group is filled from its start on, so that this is where the next begins once all are.
        let mut numbers = vec![0; calls.len()];
        for (number, call) in calls.iter().enumerate() {
            let next = &mut starts[group(call.base, call.kind)];
            numbers[*next as usize] = number as u32;
            *next += 1;
        }
        starts.copy_within(..groups, 1);
        starts[0] = 0;
        for group in starts.windows(2) {
            // Calls of the same name stay in order.
            numbers[group[0] as usize..group[1] as usize].sort_by_key(|&call| calls[call as usize].index);
        }
        CallTable { starts, calls: numbers }
    }

    /// The last call with these parts.
    fn last(&self, calls: &[Call], base: NameId, index: Option<u32>, kind: CallKind) -> Option<usize> {
        let group = group(base, kind);
        let (start, end) = (*self.starts.get(group)?, *self.starts.get(group + 1)?);
        let numbers = &self.calls[start as usize..end as usize];
        let index_at = |at: usize| numbers.get(at).map(|&call| calls[call as usize].index);
        // Calls are typically numbered without gaps.
        let guess = index.map_or(0, |index| index as usize);
        let is_last = index_at(guess) == Some(index) && index_at(guess + 1) != Some(index);
        let at = match is_last {
            true => guess,
            false => numbers.partition_point(|&call| calls[call as usize].index <= index).checked_sub(1)?,
        };
        (index_at(at) == Some(index)).then(|| numbers[at] as usize)
    }
}

fn group(base: NameId, kind: CallKind) -> usize {
    const KINDS: usize = CallKind::Saved as usize + 1;
    base.number() as usize * KINDS + kind as usize
}

impl Index {
    /// The last call with these parts of its key.
    pub(crate) fn find_key(&self, (base, index, kind): Key<'_>) -> Option<usize> {
        self.find_parts(self.names.find(base)?, index, kind)
    }

    /// The same, by the number of the base.
    pub(crate) fn find_parts(&self, base: NameId, index: Option<u32>, kind: CallKind) -> Option<usize> {
        let table = self.table.get_or_init(|| CallTable::of(&self.calls));
        table.last(&self.calls, base, index, kind)
    }

    /// The last call of this name.
    pub(crate) fn find_name(&self, name: &str) -> Option<usize> {
        self.find_key(parse_key(name)).or_else(|| self.find_key((name, None, CallKind::Saved))).or_else(
            || {
                let (base, last) = name.rsplit_once('.')?;
                let kinds =
                    [CallKind::Forward, CallKind::Backward, CallKind::ParametersGrad, CallKind::StepEnd];
                match kinds.into_iter().find(|kind| kind.word() == last) {
                    Some(kind) => self.find_key((base, None, kind)),
                    // The names of saved values lack the last word of their keys.
                    None => self.find_key(parse_key(&format!("{name}.debug"))),
                }
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_is_found_by_its_name() {
        let kinds = [
            CallKind::Forward,
            CallKind::Backward,
            CallKind::ParametersGrad,
            CallKind::StepEnd,
            CallKind::Saved,
        ];
        let mut index = Index::default();
        for base in
            ["Functional.relu", "Module.fc.Linear", "saved", "a.forward", "Functional.relu.0.forward.x"]
        {
            let base = index.names.id(base);
            for kind in kinds {
                // Backwards, with a gap, and without a number.
                for number in [Some(7), Some(1), None, Some(0)] {
                    index.calls.push(Call { base, index: number, kind, place: 0..0 });
                }
            }
        }
        for call in 0..index.calls.len() {
            let name = index.name(call);
            assert_eq!(index.find_name(&name), Some(call), "{name}");
        }
        for name in ["", ".", "Functional.relu.2.forward", "Functional.gelu.0.forward", "saved.8", "saved.07"]
        {
            assert_eq!(index.find_name(name), None, "{name}");
        }
    }

    #[test]
    fn of_calls_with_one_name_the_last_is_found() {
        let mut index = Index::default();
        let base = index.names.id("Functional.relu");
        for number in [0, 1, 1, 0, 2] {
            index.calls.push(Call { base, index: Some(number), kind: CallKind::Forward, place: 0..0 });
        }
        let found =
            ["0", "1", "2", "3"].map(|number| index.find_name(&format!("Functional.relu.{number}.forward")));
        assert_eq!(found, [Some(3), Some(2), Some(4), None]);
        assert_eq!(Index::default().find_name("a"), None);
    }
}
