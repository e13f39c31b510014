//! Small dumps, written into a scratch folder.
#![allow(dead_code, clippy::unwrap_used, missing_docs)]

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use ulpscope_dump::{Content, Data, Dump, Entry, Error, Rank, Select, TensorEntry};
use ulpscope_formats::file::{self, Format};
use ulpscope_formats::{Tensor, Value};
use ulpscope_tensor::DType;

/// A folder that is deleted with its dump.
pub struct Scratch(TempDir);

impl Scratch {
    pub fn new() -> Scratch {
        Scratch(tempfile::tempdir().unwrap())
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Writes a file and the folders above it.
    pub fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    pub fn folder(&self, name: &str) -> PathBuf {
        let path = self.path().join(name);
        fs::create_dir_all(&path).unwrap();
        path
    }

    /// Writes a tensor of float32, in the format of the name's extension.
    pub fn tensor(&self, name: &str, values: &[f32]) -> PathBuf {
        self.value(name, &Value::Tensor(tensor(values)))
    }

    pub fn value(&self, name: &str, value: &Value) -> PathBuf {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        file::write(&path, Format::of_extension(&path).unwrap(), value).unwrap();
        path
    }

    pub fn open(&self) -> Dump {
        open(self.path()).unwrap()
    }

    /// The only rank of the dump.
    pub fn rank(&self) -> Rank {
        rank(self.path())
    }

    pub fn error(&self) -> String {
        open(self.path()).unwrap_err().to_string()
    }
}

pub fn tensor(values: &[f32]) -> Tensor {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    Tensor::contiguous(DType::F32, vec![values.len()], bytes.into()).unwrap()
}

pub fn open(path: &Path) -> Result<Dump, Error> {
    Dump::open(path, &Select::default())
}

pub fn rank(path: &Path) -> Rank {
    let dump = open(path).unwrap();
    assert_eq!(dump.steps.len(), 1);
    assert_eq!(dump.steps[0].ranks.len(), 1);
    dump.steps[0].ranks[0].open().unwrap()
}

/// The names of all calls, in order.
pub fn calls(rank: &Rank) -> Vec<String> {
    (0..rank.calls().len()).map(|call| rank.name(call)).collect()
}

/// The entries of all calls, in order.
pub fn entries(rank: &Rank) -> Vec<Entry> {
    (0..rank.calls().len()).flat_map(|call| rank.entries(call).unwrap()).collect()
}

/// `name role path` of all entries, in order.
pub fn places(rank: &Rank) -> Vec<String> {
    let shown = |entry: &Entry| format!("{} {} {}", entry.name, entry.role.word(), entry.path);
    entries(rank).iter().map(shown).collect()
}

pub fn described(entry: &Entry) -> &TensorEntry {
    match &entry.content {
        Content::Tensor(tensor) => tensor,
        other => panic!("{other:?} is no tensor"),
    }
}

/// The elements of an entry, which are float32.
pub fn elements(rank: &Rank, entry: &Entry) -> Vec<f32> {
    let tensor = rank.tensor(described(entry)).unwrap().unwrap();
    let (bytes, _) = tensor.storage()[tensor.origin()..].as_chunks::<4>();
    let count = tensor.shape().iter().product();
    bytes.iter().take(count).map(|&bytes| f32::from_le_bytes(bytes)).collect()
}

pub fn is_refused(entry: &Entry) -> bool {
    matches!(described(entry).data, Data::Refused(_))
}

/// A `dump.json` with these calls, each `(key, body)`.
pub fn dump_json(task: &str, calls: &[(&str, &str)]) -> String {
    let calls: Vec<String> = calls.iter().map(|(key, body)| format!("  \"{key}\": {body}")).collect();
    let data = calls.join(",\n");
    format!(
        "{{\n \"task\": \"{task}\",\n \"level\": \"L1\",\n \"framework\": \"pytorch\",\n \
         \"dump_data_dir\": null,\n \"data\": {{\n{data}\n }}\n}}"
    )
}

/// The description of a tensor of two elements, with a file if `file` is not empty.
pub fn item(file: &str) -> String {
    let file = if file.is_empty() { String::new() } else { format!(", \"data_name\": \"{file}\"") };
    format!(
        "{{\"type\": \"torch.Tensor\", \"dtype\": \"torch.float32\", \"shape\": [2], \"Max\": 2.0, \"Min\": 1.0, \
         \"Mean\": 1.5, \"Norm\": 2.236, \"requires_grad\": false{file}}}"
    )
}

/// A call with one argument and one result.
pub fn call(input: &str, output: &str) -> String {
    let (input, output) = (item(input), item(output));
    format!("{{\"input_args\": [{input}], \"input_kwargs\": {{}}, \"output\": [{output}]}}")
}

/// A dump of one call.
pub fn relu() -> String {
    dump_json("statistics", &[("Functional.relu.0.forward", &call("", ""))])
}
