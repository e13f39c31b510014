//! The files of tests/hostile, by name.

use std::collections::BTreeSet;
use std::path::Path;

use ulpscope_formats::Bytes;

/// The hostile files of a format, in the order of `names`. Every file must have a row.
pub fn files<'a>(format: &str, suffix: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<Bytes> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/hostile").join(format);
    let names: Vec<String> = names.into_iter().map(|name| format!("{name}{suffix}")).collect();
    let entries = std::fs::read_dir(&folder).unwrap();
    let found: BTreeSet<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(names.iter().cloned().collect::<BTreeSet<_>>(), found, "every file has its row");
    names.iter().map(|name| std::fs::read(folder.join(name)).unwrap().into()).collect()
}
