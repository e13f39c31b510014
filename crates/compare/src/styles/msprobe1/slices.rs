//! Which rows are coloured together.
//!
//! The tool intends to look at the arguments and results of one call at a time. It counts rows, and counts one too many
//! for a call with rows of only one kind; from there on it looks at rows of neighbouring calls together. The colours of
//! its tables depend on that.

/// Rows looked at together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Slice {
    /// The first.
    pub(crate) start: usize,
    /// One past the last.
    pub(crate) end: usize,
    /// How many at the start count as arguments.
    pub(crate) inputs: usize,
    /// Whether the tool looks at them at all.
    pub(crate) seen: bool,
}

/// Rows per unit where nothing is coloured.
const PLAIN: usize = 256;

/// The slices that all rows fall into, given of each row the call as the tool sees it and whether it is an argument.
pub(crate) fn slices(rows: impl Iterator<Item = (u64, bool)>) -> Vec<Slice> {
    let mut found = Vec::new();
    let (mut start, mut inputs, mut count, mut total) = (0, 0, 0, 0);
    let mut last = None;
    let mut cut = |start: &mut usize, inputs: usize, outputs: usize| {
        let end = *start + inputs + outputs;
        found.push(Slice { start: *start, end, inputs, seen: true });
        *start = end;
    };
    for (group, is_input) in rows {
        total += 1;
        match last {
            Some((group_before, state)) if group_before == group => {
                if state == is_input {
                    count += 1;
                } else {
                    (inputs, count) = (count, 1);
                }
            }
            Some(_) => {
                cut(&mut start, inputs, count);
                (inputs, count) = (1, 1);
            }
            None => count = 1,
        }
        last = Some((group, is_input));
    }
    match last {
        Some((_, true)) => cut(&mut start, count, 0),
        Some((_, false)) => cut(&mut start, inputs, count),
        None => {}
    }
    for slice in &mut found {
        slice.start = slice.start.min(total);
        slice.end = slice.end.min(total);
    }
    found.retain(|slice| slice.start < slice.end);
    // Rows that the counting did not reach have no colour.
    let mut rest = found.last().map_or(0, |slice| slice.end);
    while rest < total {
        let end = total.min(rest + PLAIN);
        found.push(Slice { start: rest, end, inputs: 0, seen: false });
        rest = end;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(rows: &[(u64, bool)]) -> Vec<(usize, usize, usize)> {
        slices(rows.iter().copied()).iter().map(|slice| (slice.start, slice.end, slice.inputs)).collect()
    }

    #[test]
    fn a_call_of_both_kinds_is_one_slice() {
        let rows = [(1, true), (1, true), (1, false), (2, true), (2, false)];
        assert_eq!(of(&rows), [(0, 3, 2), (3, 5, 1)]);
    }

    #[test]
    fn a_call_of_one_kind_shifts_the_rest() {
        let rows = [(1, true), (1, false), (2, false), (3, true), (3, false)];
        assert_eq!(of(&rows), [(0, 2, 1), (2, 4, 1), (4, 5, 1)]);
    }
}
