//! Names of backward calls.

/// The name of the backward call of a forward call.
pub fn backward_name(forward: &str) -> Option<String> {
    marked_backward_name(forward, "")
}

/// The same for a pass over the graph of a call that was made some steps ago.
pub fn aged_backward_name(forward: &str, steps: u64) -> Option<String> {
    marked_backward_name(forward, &age_mark(steps))
}

/// How many steps ago a call was made, in the form used in names.
pub(crate) fn age_mark(steps: u64) -> String {
    if steps == 0 { String::new() } else { format!("@-{steps}") }
}

/// The same with a mark after its base, which distinguishes it from others of that name.
pub(crate) fn marked_backward_name(forward: &str, mark: &str) -> Option<String> {
    let (base, number) = forward.rsplit_once(".forward")?;
    // The number of a module call follows its direction, that of an API call precedes it.
    Some(match base.rsplit_once('.').filter(|_| number.is_empty()) {
        Some((base, number)) => [base, mark, ".", number, ".backward"].concat(),
        None => [base, mark, ".backward", number].concat(),
    })
}
