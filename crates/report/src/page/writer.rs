//! Writes a page with its parts.

use std::io::{self, Write};

use super::base64;
use super::template::Template;

/// A page that is being written: the first screen, then parts, one by one.
pub struct PageWriter<'a, W> {
    template: Template<'a>,
    out: W,
}

impl<'a, W: Write> PageWriter<'a, W> {
    /// Starts a page. `first_screen` is html, for readers that run no script.
    pub fn start(template: Template<'a>, first_screen: &str, mut out: W) -> io::Result<PageWriter<'a, W>> {
        for text in [template.before, first_screen, template.between] {
            out.write_all(text.as_bytes())?;
        }
        Ok(PageWriter { template, out })
    }

    /// Adds a part, as [`deflate`](super::deflate) made it.
    pub fn part(&mut self, name: &str, part: &[u8]) -> io::Result<()> {
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_/".contains(&byte);
        if !name.bytes().all(is_plain) {
            let message = format!("the name of a part: expected letters, digits, _ and /, found {name:?}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        write!(self.out, "<script type=\"text/plain\" data-part=\"{name}\">")?;
        base64::write(part, &mut self.out)?;
        self.out.write_all(b"</script>\n")
    }

    /// Ends the page, and returns where it was written.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.write_all(self.template.after.as_bytes())?;
        self.out.flush()?;
        Ok(self.out)
    }
}
