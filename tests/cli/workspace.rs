//! A folder of its own for each test, files to put into it, and the command to run in it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value as Json;
use ulpscope_formats::file::{self, Format};
use ulpscope_formats::{Access, Tensor, Value};
use ulpscope_tensor::DType;

pub struct Workspace {
    folder: tempfile::TempDir,
}

/// What a run of the command left.
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Workspace {
    pub fn new() -> Workspace {
        Workspace { folder: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a value under a name whose extension says the format.
    pub fn put(&self, name: &str, value: &Value) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        file::write(&path, Format::of_extension(&path).unwrap(), value).unwrap();
    }

    pub fn put_text(&self, name: &str, text: &str) {
        self.put_bytes(name, text.as_bytes());
    }

    pub fn put_bytes(&self, name: &str, bytes: &[u8]) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }

    /// A file of float32 scalars, and one more tensor of an unknown type.
    pub fn put_unread(&self, name: &str, unread: &str, tensors: &[(&str, f32)]) {
        let mut header = format!("{{\"{unread}\":{{\"dtype\":\"F4\",\"shape\":[2],\"data_offsets\":[0,1]}}");
        let mut elements = vec![0];
        for (name, value) in tensors {
            let at = elements.len();
            elements.extend(value.to_le_bytes());
            header += &format!(
                ",\"{name}\":{{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[{at},{}]}}",
                elements.len()
            );
        }
        header += "}";
        let bytes = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &elements].concat();
        std::fs::write(self.path(name), bytes).unwrap();
    }

    pub fn get(&self, name: &str) -> Value {
        file::read(&self.path(name), Access::ReadOnly).unwrap().value
    }

    pub fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    /// Every file below, sorted, by relative path.
    pub fn files(&self) -> Vec<String> {
        fn below(folder: &Path, root: &Path, found: &mut Vec<String>) {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() && !path.is_symlink() {
                    below(&path, root, found);
                } else {
                    found.push(path.strip_prefix(root).unwrap().display().to_string());
                }
            }
        }
        let mut found = Vec::new();
        below(self.folder.path(), self.folder.path(), &mut found);
        found.sort();
        found
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ulpscope"));
        command.args(args).current_dir(self.folder.path()).stdin(Stdio::null()).env_remove("ULPSCOPE_LANG");
        command
    }

    pub fn run(&self, args: &[&str]) -> Ran {
        self.run_with(args, &[])
    }

    /// Runs the command with variables of the environment.
    pub fn run_with(&self, args: &[&str], variables: &[(&str, &str)]) -> Ran {
        let output = self.command(args).envs(variables.iter().copied()).output().unwrap();
        Ran {
            code: output.status.code().unwrap(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Ran {
    pub fn json(&self) -> Json {
        serde_json::from_str(&self.out).unwrap()
    }
}

pub fn floats(shape: &[usize], values: &[f32]) -> Tensor {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    Tensor::contiguous(DType::F32, shape.to_vec(), bytes.into()).unwrap()
}

pub fn ints(shape: &[usize], values: &[i64]) -> Tensor {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    Tensor::contiguous(DType::I64, shape.to_vec(), bytes.into()).unwrap()
}

pub fn dict(pairs: &[(&str, Value)]) -> Value {
    Value::Dict(pairs.iter().map(|(name, value)| (Value::Str((*name).to_owned()), value.clone())).collect())
}
