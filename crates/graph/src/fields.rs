//! A file as a sequence of fields, whichever way it is written.

use std::borrow::Cow;

use ulpscope_formats::{Error, Fault};

/// Messages within messages, more than any graph has.
pub(crate) const MAX_DEPTH: usize = 128;

/// Bytes after which memory of the mapped file is returned.
pub(crate) const PORTION: usize = 16 << 20;

/// One step of a file.
#[derive(Debug, PartialEq)]
pub(crate) enum Field<'a> {
    /// The start of a message.
    Start(Cow<'a, str>),
    /// Its end.
    End,
    /// A number, a word or a text.
    Value(Cow<'a, str>, Cow<'a, str>),
}

/// A reader of fields.
pub(crate) trait Fields<'a> {
    /// The next field; none at the end of the file.
    fn next(&mut self) -> Result<Option<Field<'a>>, Error>;

    /// Skips the rest of the message that has begun.
    fn skip(&mut self) -> Result<(), Error> {
        let mut depth = 1;
        while depth > 0 {
            match self.next()? {
                Some(Field::Start(_)) => depth += 1,
                Some(Field::End) => depth -= 1,
                Some(Field::Value(..)) => {}
                None => {
                    return Err(Error::whole(Fault::truncated(
                        "the end of a message",
                        "the end of the file",
                    )));
                }
            }
        }
        Ok(())
    }
}
