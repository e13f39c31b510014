//! Values in the lines of a journal: JSON as Python's `json` writes it, without spaces.

use ulpscope_formats::json::push_text;
use ulpscope_tensor::push_python_float;

/// A part of the record of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// Arguments of a forward call by position.
    InputArgs,
    /// Arguments of a forward call by name.
    InputKwargs,
    /// The inputs of a backward call.
    Input,
    /// The outputs of a call.
    Output,
    /// The parameters of a module.
    Parameters,
}

impl Section {
    /// All sections.
    pub const ALL: [Section; 5] =
        [Section::InputArgs, Section::InputKwargs, Section::Input, Section::Output, Section::Parameters];

    /// Its key among the sections of a call.
    pub const fn key(self) -> &'static str {
        match self {
            Section::InputArgs => "input_args",
            Section::InputKwargs => "input_kwargs",
            Section::Input => "input",
            Section::Output => "output",
            Section::Parameters => "parameters",
        }
    }

    /// The section with this key.
    pub fn of_key(key: &str) -> Option<Section> {
        Section::ALL.into_iter().find(|section| section.key() == key)
    }
}

/// A key with the comma before it and the colon after it, so that it is written with one copy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Key(pub(super) &'static str);

/// The [`Key`] of a name that needs no escapes.
macro_rules! key {
    ($name:literal) => {
        $crate::journal::encode::values::Key(concat!(",\"", $name, "\":"))
    };
}
pub(super) use key;

/// An object that is being written. Its values are appended to the same buffer, each after its key.
#[derive(Debug)]
#[must_use = "an object that is not closed is no value"]
pub struct ObjectText {
    is_empty: bool,
}

impl ObjectText {
    /// Starts an object.
    #[inline]
    pub fn open(out: &mut Vec<u8>) -> ObjectText {
        out.push(b'{');
        ObjectText { is_empty: true }
    }

    /// Continues an object that already has keys.
    pub(super) fn reopened() -> ObjectText {
        ObjectText { is_empty: false }
    }

    /// Appends a key of any text; its value comes next.
    pub fn key(&mut self, key: &str, out: &mut Vec<u8>) {
        self.comma(out);
        push_text(key, out);
        out.push(b':');
    }

    /// Appends the key of a section; its value comes next.
    #[inline]
    pub fn section(&mut self, section: Section, out: &mut Vec<u8>) {
        self.plain_key(section.key(), out);
    }

    /// Appends a key that needs no escapes, without checking it.
    #[inline]
    pub(super) fn plain_key(&mut self, key: &'static str, out: &mut Vec<u8>) {
        out.extend_from_slice(if std::mem::replace(&mut self.is_empty, false) { b"\"" } else { b",\"" });
        out.extend_from_slice(key.as_bytes());
        out.extend_from_slice(b"\":");
    }

    /// Appends a constant key; its value comes next.
    #[inline]
    pub(super) fn known_key(&mut self, key: Key, out: &mut Vec<u8>) {
        let text = key.0.as_bytes();
        out.extend_from_slice(if std::mem::replace(&mut self.is_empty, false) { &text[1..] } else { text });
    }

    /// Ends the object.
    #[inline]
    pub fn close(self, out: &mut Vec<u8>) {
        out.push(b'}');
    }

    fn comma(&mut self, out: &mut Vec<u8>) {
        if !std::mem::replace(&mut self.is_empty, false) {
            out.push(b',');
        }
    }
}

/// A list that is being written. Each element is appended to the same buffer after [`ListText::element`].
#[derive(Debug)]
#[must_use = "a list that is not closed is no value"]
pub struct ListText {
    is_empty: bool,
}

impl ListText {
    /// Starts a list.
    #[inline]
    pub fn open(out: &mut Vec<u8>) -> ListText {
        out.push(b'[');
        ListText { is_empty: true }
    }

    /// Must be called before each element.
    #[inline]
    pub fn element(&mut self, out: &mut Vec<u8>) {
        if !std::mem::replace(&mut self.is_empty, false) {
            out.push(b',');
        }
    }

    /// Ends the list.
    #[inline]
    pub fn close(self, out: &mut Vec<u8>) {
        out.push(b']');
    }
}

/// A scalar among arguments and results, written with its type.
#[derive(Clone, Copy, Debug)]
pub enum Plain<'a> {
    /// A boolean.
    Bool(bool),
    /// An integer.
    Int(i128),
    /// The digits of an integer that is too large for any reader.
    LongInt(&'a str),
    /// A float.
    Float(f64),
    /// A text.
    Str(&'a str),
    /// The size of a tensor.
    Size(&'a [i128]),
}

impl Plain<'_> {
    /// Appends the value with its type.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let kind = match self {
            Plain::Bool(_) => "bool",
            Plain::Int(_) | Plain::LongInt(_) => "int",
            Plain::Float(_) => "float",
            Plain::Str(_) => "str",
            Plain::Size(_) => "torch.Size",
        };
        out.extend_from_slice(b"{\"type\":\"");
        out.extend_from_slice(kind.as_bytes());
        out.extend_from_slice(b"\",\"value\":");
        match *self {
            Plain::Bool(flag) => push_flag(flag, out),
            Plain::Int(number) => push_int(number, out),
            Plain::LongInt(text) | Plain::Str(text) => push_text(text, out),
            Plain::Float(number) => push_float(number, out),
            Plain::Size(sizes) => push_ints(sizes.iter().copied(), out),
        }
        out.push(b'}');
    }
}

/// Appends `null`.
#[inline]
pub fn push_null(out: &mut Vec<u8>) {
    out.extend_from_slice(b"null");
}

/// Appends a text, or `null`.
pub(super) fn push_text_or_null(text: Option<&str>, out: &mut Vec<u8>) {
    match text {
        Some(text) => push_text(text, out),
        None => push_null(out),
    }
}

/// Appends a float; non-finite values as in Python's `json`.
pub fn push_float(value: f64, out: &mut Vec<u8>) {
    if value.is_nan() {
        out.extend_from_slice(b"NaN");
    } else if value.is_infinite() {
        out.extend_from_slice(if value > 0.0 { b"Infinity" } else { b"-Infinity" });
    } else {
        push_python_float(value, out);
    }
}

/// Appends a text with its quotes. Nearly all names need no escapes, which a few instructions for many bytes tell.
#[inline]
pub(super) fn push_name(name: &str, out: &mut Vec<u8>) {
    let needs_escape = |byte: u8| !(b' '..=b'~').contains(&byte) || byte == b'"' || byte == b'\\';
    if name.bytes().fold(false, |needs, byte| needs | needs_escape(byte)) {
        return push_text(name, out);
    }
    out.reserve(name.len() + 2);
    out.push(b'"');
    out.extend_from_slice(name.as_bytes());
    out.push(b'"');
}

/// Appends an integer.
#[inline]
pub fn push_int(value: i128, out: &mut Vec<u8>) {
    // Nearly all of them fit.
    match i64::try_from(value) {
        Ok(value) => out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes()),
        Err(_) => out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes()),
    }
}

#[inline]
pub(super) fn push_flag(flag: bool, out: &mut Vec<u8>) {
    out.extend_from_slice(if flag { b"true" } else { b"false" });
}

pub(super) fn push_ints(numbers: impl Iterator<Item = i128>, out: &mut Vec<u8>) {
    let mut list = ListText::open(out);
    for number in numbers {
        list.element(out);
        push_int(number, out);
    }
    list.close(out);
}
