//! Of several equally long alignments, the one whose calls are most similar.
//!
//! With four equal calls against three, any of the four may be the extra one. Tokens cannot decide that, recorded
//! values and numbers can: the extra run is moved along equal tokens to where most of these agree.

/// Moves runs that only one side has. `likeness` measures the similarity of two calls beyond their tokens. Of equally
/// good places, `early` uses the first: the end of a killed run does not match the end of the other.
pub(super) fn to_most_alike(
    pairs: &mut [(u32, u32)],
    a: &[u64],
    b: &[u64],
    early: bool,
    likeness: impl Fn(u32, u32) -> i64,
) {
    for behind in 1..pairs.len() {
        let ((x, y), (next_x, next_y)) = (pairs[behind - 1], pairs[behind]);
        let (extra_x, extra_y) = (next_x - x - 1, next_y - y - 1);
        if extra_x > 0 && extra_y == 0 {
            slide(
                pairs,
                behind,
                |(x, y)| (x + extra_x, y),
                |(x, y)| (x - extra_x, y),
                (a, b),
                early,
                &likeness,
            );
        } else if extra_y > 0 && extra_x == 0 {
            slide(
                pairs,
                behind,
                |(x, y)| (x, y + extra_y),
                |(x, y)| (x, y - extra_y),
                (a, b),
                early,
                &likeness,
            );
        }
    }
}

/// Moves pairs before a gap to its other end (`up`), or those after it back (`down`), as many as gain most.
fn slide(
    pairs: &mut [(u32, u32)],
    behind: usize,
    up: impl Fn((u32, u32)) -> (u32, u32),
    down: impl Fn((u32, u32)) -> (u32, u32),
    (a, b): (&[u64], &[u64]),
    early: bool,
    likeness: &impl Fn(u32, u32) -> i64,
) {
    let equal = |(x, y): (u32, u32)| a[x as usize] == b[y as usize];
    let gain = |from: (u32, u32), to: (u32, u32)| likeness(to.0, to.1) - likeness(from.0, from.1);
    let adjacent = |first: (u32, u32), second: (u32, u32)| second == (first.0 + 1, first.1 + 1);
    let mut best = (0, 0i64);
    let mut total = 0;
    for count in 1..=behind {
        let at = behind - count;
        if count > 1 && !adjacent(pairs[at], pairs[at + 1]) || !equal(up(pairs[at])) {
            break;
        }
        total += gain(pairs[at], up(pairs[at]));
        if total > best.1 {
            best = (-(count as i64), total);
        }
    }
    total = 0;
    for at in behind..pairs.len() {
        if at > behind && !adjacent(pairs[at - 1], pairs[at]) || !equal(down(pairs[at])) {
            break;
        }
        total += gain(pairs[at], down(pairs[at]));
        if total > best.1 || early && total == best.1 && best.0 >= 0 {
            best = ((at + 1 - behind) as i64, total);
        }
    }
    if best.0 < 0 {
        let first = behind - best.0.unsigned_abs() as usize;
        pairs[first..behind].iter_mut().for_each(|pair| *pair = up(*pair));
    } else {
        let end = behind + best.0 as usize;
        pairs[behind..end].iter_mut().for_each(|pair| *pair = down(*pair));
    }
}
