//! Natural order of names: `rank2` before `rank10`.

use std::cmp::Ordering;

/// Compares two names; runs of digits count as numbers. Names that differ only in leading zeros are in byte order,
/// so that the order is total.
pub fn compare(left: &[u8], right: &[u8]) -> Ordering {
    let (mut a, mut b) = (left, right);
    loop {
        match (a.first(), b.first()) {
            (None, None) => return left.cmp(right),
            (None, Some(_)) => return Ordering::Less,
            (Some(_), None) => return Ordering::Greater,
            (Some(x), Some(y)) if x.is_ascii_digit() && y.is_ascii_digit() => {
                let (first, rest_a) = number(a);
                let (second, rest_b) = number(b);
                // Without leading zeros, the longer run of digits is the greater number.
                match first.len().cmp(&second.len()).then_with(|| first.cmp(second)) {
                    Ordering::Equal => (a, b) = (rest_a, rest_b),
                    unequal => return unequal,
                }
            }
            (Some(x), Some(y)) if x == y => (a, b) = (&a[1..], &b[1..]),
            (Some(x), Some(y)) => return x.cmp(y),
        }
    }
}

/// The leading run of digits without its leading zeros, and what follows it.
fn number(text: &[u8]) -> (&[u8], &[u8]) {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (run, rest) = text.split_at(digits);
    let zeros = run.iter().take_while(|&&byte| byte == b'0').count();
    (&run[zeros..], rest)
}

#[cfg(test)]
mod tests {
    use super::compare;

    #[test]
    fn numbers_count_as_numbers() {
        let mut names = vec!["b", "rank10", "rank2", "rank", "rank02", "a10b2", "a10b10", "a9", "7", "007"];
        names.sort_by(|a, b| compare(a.as_bytes(), b.as_bytes()));
        assert_eq!(names, ["007", "7", "a9", "a10b2", "a10b10", "b", "rank", "rank02", "rank2", "rank10"]);
    }
}
