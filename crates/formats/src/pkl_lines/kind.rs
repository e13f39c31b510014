//! Detects which tool wrote a file.

use std::cmp::Ordering;

use ulpscope_tensor::element_count;

use super::line::{Line, Values};
use super::lines::Lines;
use crate::bytes::Bytes;

/// Maximum number of lines that are examined.
const LOOKED_AT: usize = 64;

/// No further line is examined once this much has been read: a single line may contain a whole tensor.
const LOOKED_AT_BYTES: usize = 16 << 20;

/// How many elements of a tensor, and how many statistics after them, a sampled line contains.
const SAMPLED: usize = 10;
const SAMPLED_STATS: usize = 3;

/// A variant of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// torch_npu.hooks, `sample=True`: up to ten elements, then max, min, mean.
    HooksSample,
    /// torch_npu.hooks, `sample=False`: every element.
    HooksFull,
    /// torch_npu.hooks, one overflowed call: frames, arguments, results, every element.
    HooksOverflow,
    /// ptdbg_ascend before 6.0: names joined by underscores.
    Ptdbg4,
    /// ptdbg_ascend 6.0: names joined by dots, a fourth statistic.
    Ptdbg6,
}

/// The variant, judged by the first lines; nothing if none of them has a known form. A pickle never begins
/// with `[`, so the first byte distinguishes it.
pub fn kind(bytes: &Bytes) -> Option<Kind> {
    if bytes.trim_ascii_start().first() != Some(&b'[') {
        return None;
    }
    let (mut whole, mut sampled, mut ambiguous) = (0, 0, None);
    let mut lines = Lines::new(bytes);
    for _ in 0..LOOKED_AT {
        if lines.position() > LOOKED_AT_BYTES {
            break;
        }
        let Some(line) = lines.next() else { break };
        let Ok((_, line)) = line else { continue };
        match &line {
            Line::Stack { name, .. } | Line::PtdbgEntry { name, .. } => {
                return Some(if is_dotted(name) { Kind::Ptdbg6 } else { Kind::Ptdbg4 });
            }
            Line::HooksFrame { .. } | Line::HooksValue { .. } => return Some(Kind::HooksOverflow),
            Line::HooksTensor { name, .. } if !name.starts_with(|first: char| first.is_ascii_digit()) => {
                return Some(Kind::HooksOverflow);
            }
            Line::HooksTensor { values, shape, .. } => match is_whole(values, shape) {
                Some(true) => whole += 1,
                Some(false) => sampled += 1,
                None => {
                    let guess = if ends_in_stats(values) { Kind::HooksSample } else { Kind::HooksFull };
                    ambiguous = ambiguous.or(Some(guess));
                }
            },
            Line::Other(_) => {}
        }
    }
    match whole.cmp(&sampled) {
        Ordering::Greater => Some(Kind::HooksFull),
        Ordering::Less => Some(Kind::HooksSample),
        Ordering::Equal if whole > 0 => Some(Kind::HooksSample),
        Ordering::Equal => ambiguous,
    }
}

fn is_dotted(name: &str) -> bool {
    name.contains(".forward.") || name.contains(".backward.")
}

/// Whether a line of torch_npu.hooks contains every element; nothing if that is undecided. A tensor of thirteen
/// elements is undecided: ten samples and three statistics are as many. So is a line that fits neither.
fn is_whole(values: &Values, shape: &[u64]) -> Option<bool> {
    let dims: Option<Vec<usize>> = shape.iter().map(|&dim| usize::try_from(dim).ok()).collect();
    let count = dims.and_then(|dims| element_count(&dims))?;
    let most = SAMPLED_STATS + SAMPLED.min(count);
    match values.len() {
        length if length == count => (length != most).then_some(true),
        length => (SAMPLED_STATS..=most).contains(&length).then_some(false),
    }
}

/// Whether numbers can be ten samples, their max, their min and a mean.
fn ends_in_stats(values: &Values) -> bool {
    if values.len() != SAMPLED + SAMPLED_STATS {
        return false;
    }
    let number = |index| values.number(index).unwrap_or(f64::NAN);
    let (max, min, mean) = (number(SAMPLED), number(SAMPLED + 1), number(SAMPLED + 2));
    (0..SAMPLED).all(|index| (min..=max).contains(&number(index))) && (min..=max).contains(&mean)
}
