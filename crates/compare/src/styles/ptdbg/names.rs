//! Names as fuzzy matching sees them: without the number of the call.

use std::borrow::Cow;

use super::Release;

/// The name without what lies between the operation and its direction: `Functional_conv2d_input.0` for
/// `Functional_conv2d_0_forward_input.0`. Names without a direction stay as they are.
pub(super) fn matching_name(name: &str, release: Release) -> Cow<'_, str> {
    let separator = match release {
        Release::V4 => '_',
        Release::V6 => '.',
    };
    for direction in ["forward", "backward"] {
        // The tool appends the text up to the next direction word, if there is one.
        let mut parts = name.split(direction);
        if let (Some(before), Some(behind)) = (parts.next(), parts.next()) {
            let operation = before.rsplitn(3, separator).last().unwrap_or(before);
            return Cow::Owned(format!("{direction} {operation} {behind}"));
        }
    }
    Cow::Borrowed(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_the_call_is_dropped() {
        let v4 = |name| matching_name(name, Release::V4);
        assert_eq!(v4("Functional_conv2d_0_forward_input.0"), v4("Functional_conv2d_17_forward_input.0"));
        assert_ne!(v4("Functional_conv2d_0_forward_input.0"), v4("Functional_conv2d_0_backward_input.0"));
        assert_ne!(v4("Functional_conv2d_0_forward_input.0"), v4("Functional_conv2d_0_forward_input.1"));
        assert_ne!(v4("Functional_conv2d_0_forward_input.0"), v4("Functional_conv3d_0_forward_input.0"));
        let v6 = |name| matching_name(name, Release::V6);
        assert_eq!(v6("Functional.conv2d.0.forward.input.0"), v6("Functional.conv2d.3.forward.input.0"));
        assert_ne!(v6("Functional.conv2d.0.forward.input.0"), v6("Functional.conv3d.0.forward.input.0"));
        assert_eq!(v6("something else"), "something else");
    }
}
