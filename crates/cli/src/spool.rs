//! Text to be written later: in memory while it is short, then in an unnamed file.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, Write};

use ulpscope_formats::file::nameless;

/// Bytes kept in memory.
const IN_MEMORY: usize = 1 << 20;

/// Text to be written later.
#[derive(Default)]
pub(crate) struct Spool {
    waiting: String,
    file: Option<File>,
}

impl Spool {
    /// Adds text at the end.
    pub(crate) fn push(&mut self, text: &str) -> io::Result<()> {
        self.waiting.push_str(text);
        if self.waiting.len() >= IN_MEMORY {
            let file = match &mut self.file {
                Some(file) => file,
                None => self.file.insert(nameless(&std::env::temp_dir())?),
            };
            file.write_all(self.waiting.as_bytes())?;
            self.waiting.clear();
        }
        Ok(())
    }

    /// Passes on everything, piece by piece.
    pub(crate) fn drain(self, mut to: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        if let Some(mut file) = self.file {
            file.rewind()?;
            let mut reader = BufReader::new(file);
            let mut piece = vec![0; 1 << 16];
            loop {
                match reader.read(&mut piece)? {
                    0 => break,
                    count => to(&piece[..count])?,
                }
            }
        }
        to(self.waiting.as_bytes())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn text_comes_out_as_it_went_in() {
        for count in [0, 3, 100_000] {
            let mut spool = Spool::default();
            let mut expected = String::new();
            for number in 0..count {
                let text = format!("record {number} of many;");
                spool.push(&text).unwrap();
                expected.push_str(&text);
            }
            assert_eq!(spool.file.is_some(), expected.len() > IN_MEMORY);
            let mut found = Vec::new();
            spool.drain(|piece| found.write_all(piece)).unwrap();
            assert_eq!(String::from_utf8(found).unwrap(), expected);
        }
    }
}
