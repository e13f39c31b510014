//! Numbers of steps and ranks: `0,2,4-6`.

/// Numbers in order, each once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NumberRanges(pub Vec<u64>);

/// The largest number of values in a range.
const MAX_NUMBERS: u64 = 1 << 20;

impl std::str::FromStr for NumberRanges {
    type Err = String;

    fn from_str(text: &str) -> Result<NumberRanges, String> {
        let mut numbers = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last): (u64, u64) = match (first.trim().parse(), last.trim().parse()) {
                (Ok(first), Ok(last)) if first <= last && last - first < MAX_NUMBERS => (first, last),
                _ => return Err(format!("expected numbers and ranges such as 0,2,4-6, found {text:?}")),
            };
            numbers.extend(first..=last);
        }
        numbers.sort_unstable();
        numbers.dedup();
        Ok(NumberRanges(numbers))
    }
}
