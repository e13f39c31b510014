//! Finds the result sheets of comparisons, and reads their names.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use ulpscope_formats::natural;
use ulpscope_report::SheetFormat;

use crate::walk::{leads_out, stays_within};

/// The prefix of result names.
const RESULT: &str = "compare_result";

/// Digits of a timestamp: year, month, day, hour, minute, second.
const MOMENT_DIGITS: usize = 14;

/// The named files, and the results in the named folders: of each the newest comparison, or all.
pub(crate) fn named(results: &[PathBuf], all: bool, notes: &mut Vec<String>) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for result in results {
        if result.is_dir() {
            files.extend(files_in(result, all, notes)?);
        } else {
            files.push(result.clone());
        }
    }
    files.sort_by(|one, other| {
        natural::compare(rank_of(one).as_bytes(), rank_of(other).as_bytes()).then_with(|| {
            natural::compare(one.as_os_str().as_encoded_bytes(), other.as_os_str().as_encoded_bytes())
        })
    });
    files.dedup();
    // A comparison writes the same rows in every format; the first one is read.
    let sheets: HashSet<PathBuf> = files.iter().cloned().collect();
    files.retain(|file| {
        let found = SheetFormat::of_extension(file);
        let mut preferred = SheetFormat::ALL.into_iter().take_while(|format| Some(*format) != found);
        found.is_none() || !preferred.any(|format| sheets.contains(&file.with_extension(format.name())))
    });
    Ok(files)
}

fn files_in(folder: &Path, all: bool, notes: &mut Vec<String>) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry.with_context(|| folder.display().to_string())?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if !name.starts_with(RESULT) || SheetFormat::of_extension(&path).is_none() {
            continue;
        }
        if stays_within(folder, &path).with_context(|| path.display().to_string())? {
            files.push(path);
        } else {
            notes.push(leads_out(&path));
        }
    }
    if files.is_empty() {
        let extensions = SheetFormat::extensions();
        bail!("{}: expected {RESULT}*{extensions} in the folder, found none", folder.display());
    }
    let found = files.len();
    if !all {
        keep_newest(&mut files);
    }
    if files.len() < found {
        notes.push(format!(
                "{}: holds more than one comparison; the newest is taken, {} of {found} files; --all takes all of them",
                folder.display(),
                files.len()
            ));
    }
    Ok(files)
}

/// The column names for these files: the rank; if two are the same, the file's name, then its path, then its path with
/// every byte escaped. None equals a name in `taken`.
pub(crate) fn labels(files: &[PathBuf], taken: &[&str]) -> Vec<String> {
    let longer: [fn(&Path) -> String; 3] =
        [stem_of, |file| file.display().to_string(), |file| format!("{file:?}")];
    let mut labels: Vec<String> = files.iter().map(|file| rank_of(file)).collect();
    for longer in longer {
        let mut uses: HashMap<String, u32> = taken.iter().map(|name| ((*name).to_owned(), 1)).collect();
        for label in &labels {
            *uses.entry(label.clone()).or_insert(0) += 1;
        }
        for (label, file) in labels.iter_mut().zip(files) {
            if uses[label.as_str()] > 1 {
                *label = longer(file);
            }
        }
    }
    labels
}

fn stem_of(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// Keeps the files of the newest comparison. All files of one of ours have the same timestamp. Tools that compare rank
/// by rank have one for each, and of those the newest of each rank is kept.
fn keep_newest(files: &mut Vec<PathBuf>) {
    let mut ranks_at: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut newest_of: HashMap<String, String> = HashMap::new();
    for (rank, moment) in files.iter().filter_map(|file| rank_and_moment(file)) {
        ranks_at.entry(moment.clone()).or_default().insert(rank.clone());
        let newest = newest_of.entry(rank).or_default();
        *newest = moment.max(std::mem::take(newest));
    }
    let Some((newest, _)) = ranks_at.last_key_value() else { return };
    let one_moment = newest_of.len() == 1 || ranks_at.values().any(|ranks| ranks.len() > 1);
    files.retain(|file| match rank_and_moment(file) {
        Some((_, moment)) if one_moment => moment == *newest,
        Some((rank, moment)) => newest_of[&rank] == moment,
        None => true,
    });
}

/// The parts of a result's name: `compare_result_rank0_20261115093059.csv` → `_rank0`, `20261115093059`.
fn rank_and_moment(path: &Path) -> Option<(String, String)> {
    let stem = stem_of(path);
    let (rank, moment) = stem.strip_prefix(RESULT)?.rsplit_once('_')?;
    let is_moment = moment.len() == MOMENT_DIGITS && moment.bytes().all(|byte| byte.is_ascii_digit());
    is_moment.then(|| (rank.to_owned(), moment.to_owned()))
}

/// The rank in a file's name: `compare_result_step0_rank1-rank1_20261115093059.csv` → `step0_rank1-rank1`, and `rank1`
/// without a step. Any other name is the label itself.
fn rank_of(path: &Path) -> String {
    let stem = stem_of(path);
    let middle = stem.strip_prefix(RESULT).and_then(|rest| rest.trim_start_matches('_').rsplit_once('_'));
    match middle.map(|(middle, _)| middle) {
        None | Some("") => stem,
        Some(middle) => match middle.split_once('-') {
            Some((one, other)) if one == other => one.to_owned(),
            _ => middle.to_owned(),
        },
    }
}
