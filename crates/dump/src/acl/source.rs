//! The entries of an execution: read from its file on request.

use std::path::{Path, PathBuf};

use ulpscope_formats::acl::{self, DumpFile, DumpTensor, FileName, TensorStatistics};
use ulpscope_formats::json::Json;
use ulpscope_formats::{Access, Bytes, Error, Tensor};
use ulpscope_kernels::{RECORDED, SUMMARIES};
use ulpscope_tensor::DType;

use super::overflow::DeviceOverflow;
use crate::entry::{Content, Data, Entry, Role, TensorEntry};
use crate::key::name_of;
use crate::links;
use crate::problems::Problems;
use crate::rank::{Index, Source};

/// The file of one execution.
#[derive(Clone, Debug)]
pub struct OperatorFile {
    /// Its path below the folder.
    pub path: PathBuf,
    /// The parts of its name; none if its name is digits.
    pub name: Option<FileName>,
    /// Type and name of the operator.
    pub operator: String,
    /// Whether it has statistics instead of elements.
    pub is_statistics: bool,
}

pub(super) struct AclSource {
    pub(super) folder: PathBuf,
    /// In order of time.
    pub(super) files: Vec<OperatorFile>,
    /// Those that cannot be read: no calls, but their operators ran.
    pub(super) unread: Vec<OperatorFile>,
    pub(super) overflows: Vec<DeviceOverflow>,
}

impl Source for AclSource {
    fn entries(&self, index: &Index, call: usize) -> Result<Vec<Entry>, Error> {
        let call = &index.calls[call];
        let file = &self.files[call.place.start as usize];
        let name = name_of(index.names.text(call.base), call);
        let path = self.folder.join(&file.path);
        links::refuse_below(&self.folder, &file.path)?;
        if file.is_statistics {
            let bytes = Bytes::map(&path, Access::ReadOnly)?;
            let rows =
                bytes.reading(|| acl::read_statistics(&bytes)).map_err(|error| error.in_file(&path))?;
            return Ok(rows.iter().map(|row| statistics_entry(&name, row)).collect());
        }
        Ok(entries(&name, &super::read_operator_file(&path)?))
    }

    fn stack(&self, _index: &Index, _call: usize) -> Option<Vec<String>> {
        None
    }

    fn has_stacks(&self, _index: &Index) -> bool {
        false
    }

    fn parent(&self, _index: &Index, _call: usize) -> Option<String> {
        None
    }

    fn data_folder(&self) -> Option<&Path> {
        None
    }

    fn late_problems(&self) -> Problems {
        Problems::default()
    }

    fn operator_files(&self) -> &[OperatorFile] {
        &self.files
    }

    fn unread_operator_files(&self) -> &[OperatorFile] {
        &self.unread
    }

    fn device_overflows(&self) -> &[DeviceOverflow] {
        &self.overflows
    }
}

/// Inputs, then outputs. Buffers and workspaces are no results: what they hold depends on what ran before.
fn entries(call: &str, dump: &DumpFile) -> Vec<Entry> {
    let mut entries = Vec::new();
    for (role, tensors) in [(Role::Input, &dump.inputs), (Role::Output, &dump.outputs)] {
        for (index, tensor) in tensors.iter().enumerate() {
            entries.push(Entry {
                name: format!("{call}.{}.{index}", role.word()),
                role,
                path: index.to_string(),
                content: Content::Tensor(Box::new(described(tensor))),
            });
        }
    }
    entries
}

fn described(dumped: &DumpTensor) -> TensorEntry {
    match dumped.tensor() {
        Ok(tensor) => with_elements(tensor),
        Err(error) => {
            let entry = TensorEntry::bare(String::new(), Some(dumped.shape.clone()));
            TensorEntry { data: Data::Refused(error.to_string()), ..entry }
        }
    }
}

fn with_elements(tensor: Tensor) -> TensorEntry {
    let shape = tensor.shape().iter().map(|&dim| dim as u64).collect();
    let entry = TensorEntry::bare(torch_name(tensor.dtype()), Some(shape));
    TensorEntry { data: Data::Tensor(tensor), ..entry }
}

fn torch_name(dtype: DType) -> String {
    format!("torch.{dtype}")
}

fn statistics_entry(call: &str, row: &TensorStatistics) -> Entry {
    let role = if row.is_input { Role::Input } else { Role::Output };
    let dtype = row.data_type.and_then(|data_type| data_type.elements().ok()).map(torch_name);
    let mut entry = TensorEntry::bare(dtype.unwrap_or_default(), row.shape.clone());
    let number = |value: Option<f64>| value.map_or(Json::Null, Json::Float);
    let count = |value: Option<u64>| value.map_or(Json::Null, |count| Json::Int(count.into()));
    for statistic in &RECORDED {
        let value = match statistic.key {
            "Max" => number(row.max),
            "Min" => number(row.min),
            "Mean" => number(row.mean),
            "nan" => count(row.nan),
            "inf" => count(row.inf),
            _ => Json::Null,
        };
        let at = RECORDED.iter().position(|one| std::ptr::eq(one, statistic)).unwrap_or(SUMMARIES);
        match (entry.stats.get_mut(at), &value) {
            (Some(place), _) => *place = value,
            // Like those that Ulpscope records: only tensors that are not finite have them.
            (None, Json::Int(count)) if *count > 0 => entry.further.push((statistic, value)),
            (None, _) => {}
        }
    }
    Entry {
        name: format!("{call}.{}.{}", role.word(), row.index),
        role,
        path: row.index.to_string(),
        content: Content::Tensor(Box::new(entry)),
    }
}
