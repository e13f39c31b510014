//! The files of an NPU dump by the operator they are of.

use std::collections::HashMap;
use std::path::PathBuf;

use ulpscope_dump::{OperatorFile, Rank};

use super::below;

/// The dump of one device and step.
pub(super) struct NpuDump {
    rank: Rank,
    /// In order of time. Those that cannot be read are among them: a missing file has a different reason.
    files: Vec<OperatorFile>,
    /// Numbers of files by operator, in order of time.
    by_name: HashMap<String, Vec<usize>>,
    /// The operators in order of their first execution.
    order: Vec<String>,
}

impl NpuDump {
    pub(super) fn of(rank: Rank) -> NpuDump {
        let mut by_name: HashMap<String, Vec<usize>> = HashMap::new();
        let mut order = Vec::new();
        let mut files = [rank.operator_files(), rank.unread_operator_files()].concat();
        // Stable: files without a time stay as they are.
        files.sort_by_key(|file| {
            file.name.as_ref().map_or((u64::MAX, 0), |name| (name.timestamp, name.task_id))
        });
        for (at, file) in files.iter().enumerate().filter(|(_, file)| !file.is_statistics) {
            let name = flat_name(file);
            let files = by_name.entry(name.to_owned()).or_insert_with(|| {
                order.push(name.to_owned());
                Vec::new()
            });
            files.push(at);
        }
        NpuDump { rank, files, by_name, order }
    }

    /// The operators, as file names have them.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.order.iter().map(String::as_str)
    }

    /// Whether an operator of the graph has a file.
    pub(super) fn has(&self, op_name: &str) -> bool {
        self.by_name.contains_key(&ulpscope_formats::acl::flat_op_name(op_name))
    }

    /// The files of an operator, by its name in file names, in order of time.
    pub(super) fn files(&self, flat: &str) -> Vec<PathBuf> {
        let numbers = self.by_name.get(flat).map_or(&[][..], Vec::as_slice);
        numbers.iter().map(|&at| below(&self.rank, &self.files[at].path)).collect()
    }

    /// The type of an operator, as its file name has it.
    pub(super) fn op_type(&self, flat: &str) -> Option<&str> {
        let &at = self.by_name.get(flat)?.first()?;
        self.files[at].name.as_ref().map(|name| name.op_type.as_str())
    }

    /// When an operator ran first.
    pub(super) fn time(&self, flat: &str) -> Option<u64> {
        let &at = self.by_name.get(flat)?.first()?;
        self.files[at].name.as_ref().map(|name| name.timestamp)
    }
}

fn flat_name(file: &OperatorFile) -> &str {
    file.name.as_ref().map_or(&file.operator, |name| &name.op_name)
}
