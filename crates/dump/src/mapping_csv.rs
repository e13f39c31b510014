//! `mapping.csv` in a folder of ACL dump files. A name that is too long for a file is replaced by digits, and a line
//! `digits,name` has the original name.

use std::collections::HashMap;
use std::path::Path;

use ulpscope_formats::{Access, Bytes, Error, Fault};

use crate::links;
use crate::problems::Problems;

/// Its name.
pub(crate) const MAPPING_FILE: &str = "mapping.csv";

/// The largest file that is read. A line has about three hundred bytes.
const MAX_BYTES: u64 = 16 << 20;

/// The original names by digits; none if there is no such file.
pub fn read_in(folder: &Path, problems: &mut Problems) -> HashMap<String, String> {
    let path = folder.join(MAPPING_FILE);
    let read = || {
        links::refuse(&path)?;
        let text = Bytes::map(&path, Access::ReadOnly)?;
        if text.len() as u64 > MAX_BYTES {
            let (limit, found) = (MAX_BYTES, text.len() as u64);
            return Err(Error::whole(Fault::TooLarge { what: "the size", limit, found }));
        }
        text.reading(|| Ok(String::from_utf8_lossy(&text).into_owned()))
    };
    match read() {
        Ok(text) => text.lines().filter_map(line).collect(),
        Err(error) => {
            problems.add(&error.in_file(&path));
            HashMap::new()
        }
    }
}

/// Digits and the name of a file, not a path.
fn line(line: &str) -> Option<(String, String)> {
    let (digits, name) = line.trim().split_once(',')?;
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let is_name = !name.is_empty() && !name.contains(['/', '\\']) && name != "." && name != "..";
    (is_number && is_name).then(|| (digits.to_owned(), name.to_owned()))
}
