//! The files of torch_npu.hooks' asynchronous dump: every saved tensor in one folder, with a name that tells its call,
//! shape and memory layout. The tensors are moved there from the folder of the step, not written again.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use ulpscope_formats::json::Json;
use ulpscope_formats::msprobe::{Call, DumpJson, Item, TensorItem};
use ulpscope_formats::names::{CallName, Direction};
use ulpscope_formats::{Error, Fault};

use super::FinishedStep;
use super::steps_in_one_place::StepsInOnePlace;
use super::target::Target;
use crate::writer::DATA_FOLDER;

/// The number of the ordinary memory format of an NPU, which every other device has.
const ND: i128 = 2;

/// A folder for the tensors of all steps, by the numbers of their groups: the inputs of a call are one, and so are its
/// outputs.
#[derive(Debug)]
pub struct TensorFolder(StepsInOnePlace<u64>);

impl TensorFolder {
    pub(super) fn new(target: Target) -> TensorFolder {
        TensorFolder(StepsInOnePlace::new(target))
    }

    /// Moves the tensors of a step. Those that are there since an earlier pause of the step stay.
    pub(super) fn write(&self, step: &FinishedStep<'_>) -> Result<(), Error> {
        step.write_ledger()?;
        let dump = step.dump()?;
        self.0.write(step.folder, |path, start| {
            fs::create_dir_all(path).map_err(|error| Error::whole(error).in_file(path))?;
            let mut moving =
                Moving { from: step.folder.join(DATA_FOLDER), to: path.to_owned(), group: start };
            dump.reading(|| DumpJson::new(&dump)?.try_for_each(|call| moving.call(&call?)))?;
            Ok(moving.group)
        })
    }
}

struct Moving {
    from: PathBuf,
    to: PathBuf,
    /// The number of the next group.
    group: u64,
}

impl Moving {
    fn call(&mut self, call: &Call) -> Result<(), Error> {
        let Some(name) = CallName::from_msprobe(&call.key) else { return Ok(()) };
        // In a backward call the tool calls the gradients of the inputs `input`, and writes them first.
        let groups = match name.direction {
            Direction::Backward => [("input", "output"), ("output", "input")],
            Direction::Forward => [("input", "input_args"), ("output", "output")],
        };
        for (word, section) in groups {
            let mut tensors = Vec::new();
            collect(call.section(section).unwrap_or(&Item::None), &mut tensors);
            if tensors.is_empty() {
                continue;
            }
            for (index, tensor) in tensors.into_iter().enumerate() {
                let stem = format!("{}_{}_{word}{index}", self.group, name.to_unnumbered());
                self.tensor(tensor, &stem)?;
            }
            self.group += 1;
        }
        Ok(())
    }

    /// Moves the file of a tensor. One without a file could not be read, and the ledger says so.
    fn tensor(&self, tensor: &TensorItem, stem: &str) -> Result<(), Error> {
        let Some(file) = tensor.get("data_name").and_then(Json::as_str) else { return Ok(()) };
        if Path::new(file).components().count() != 1 {
            let message = format!("{file:?} is no name of a file");
            return Err(Error::whole(Fault::Unsupported(message)));
        }
        let to = self.to.join(file_name(tensor, stem));
        match fs::rename(self.from.join(file), &to) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && to.exists() => Ok(()),
            moved => moved.map_err(|error| Error::whole(error).in_file(&to)),
        }
    }
}

/// `{stem}_shape[2,1]_stride[1,1]_offset[0]_format[2].npy`
fn file_name(tensor: &TensorItem, stem: &str) -> String {
    let joined = |numbers: Vec<String>| numbers.join(",");
    let shape = joined(tensor.shape().unwrap_or_default().iter().map(u64::to_string).collect());
    let number = |value: &Json| match value {
        Json::Int(number) => Some(*number),
        _ => None,
    };
    let strides = tensor.get("stride").and_then(Json::as_list).unwrap_or_default();
    let strides = joined(strides.iter().filter_map(number).map(|stride| stride.to_string()).collect());
    let offset = tensor.get("offset").and_then(number).unwrap_or_default();
    let format = tensor.get("format").and_then(number).unwrap_or(ND);
    format!("{stem}_shape[{shape}]_stride[{strides}]_offset[{offset}]_format[{format}].npy")
}

/// The tensors of a section, in order.
fn collect<'i>(item: &'i Item, tensors: &mut Vec<&'i TensorItem>) {
    match item {
        Item::Tensor(tensor) => tensors.push(tensor),
        Item::List(items) => items.iter().for_each(|item| collect(item, tensors)),
        Item::Dict(pairs) => pairs.iter().for_each(|(_, item)| collect(item, tensors)),
        Item::None | Item::Scalar { .. } | Item::Other(_) => {}
    }
}
