//! The events of a document.

use std::borrow::Cow;

use crate::error::shortened;

/// One event of a document.
#[derive(Clone, Debug, PartialEq)]
pub enum Event<'a> {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number without fraction or exponent, up to the range of `i128`; a larger one becomes a float.
    Int(i128),
    /// A number with fraction or exponent, or `NaN`, `Infinity`, `-Infinity`.
    Float(f64),
    /// A string that is a value.
    Str(Cow<'a, str>),
    /// A string that names the value after it.
    Key(Cow<'a, str>),
    /// `[`
    ListStart,
    /// `]`
    ListEnd,
    /// `{`
    ObjectStart,
    /// `}`
    ObjectEnd,
}

impl<'a> Event<'a> {
    /// The event of a number that the reader has checked; nothing for an integer beyond the range of a double.
    pub(super) fn from_number(text: &[u8], integer: bool) -> Option<Event<'a>> {
        // Nearly every integer in a dump is a dimension. Such numbers need no 128-bit arithmetic.
        const SHORT: usize = 18;
        if integer && text.len() <= SHORT {
            let (negative, digits) = match text {
                [b'-', digits @ ..] => (true, digits),
                digits => (false, digits),
            };
            let value = digits.iter().fold(0i64, |value, digit| value * 10 + i64::from(digit - b'0'));
            return Some(Event::Int(if negative { -value } else { value }.into()));
        }
        // The scanner accepted only ASCII, in a form that both parsers accept.
        let text = std::str::from_utf8(text).unwrap_or("NaN");
        if integer && let Ok(number) = text.parse() {
            return Some(Event::Int(number));
        }
        let number: f64 = text.parse().ok()?;
        (number.is_finite() || !integer).then_some(Event::Float(number))
    }

    /// A description for an error.
    pub fn describe(&self) -> String {
        match self {
            Event::Null => "null".to_owned(),
            Event::Bool(flag) => flag.to_string(),
            Event::Int(number) => format!("the integer {number}"),
            Event::Float(number) => format!("the float {}", super::python_float_repr(*number)),
            Event::Str(text) => format!("the string {:?}", shortened(text)),
            Event::Key(text) => format!("the key {:?}", shortened(text)),
            Event::ListStart => "a list".to_owned(),
            Event::ListEnd => "the end of a list".to_owned(),
            Event::ObjectStart => "an object".to_owned(),
            Event::ObjectEnd => "the end of an object".to_owned(),
        }
    }
}
