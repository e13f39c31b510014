//! The files of ptdbg_ascend 4.0: `dump.pkl` with one line per argument and result, and beside it the folder `dump` with
//! a `.npy` file for each line. Tensors are moved there from the folder of the step, not written again. Only bfloat16,
//! which `.npy` lacks, is written as float32, as the tool does.

use std::fs::{self, DirBuilder};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use ulpscope_formats::json::Json;
use ulpscope_formats::records::{LineData, PklStyle, pkl_lines_with_data};
use ulpscope_formats::{Access, Bytes, Error, Fault, file, npy};
use ulpscope_tensor::{DType, View};

use super::FinishedStep;
use super::target::Target;
use crate::writer::DATA_FOLDER;

/// The script that compares the dump with another: it is written beside dumps of these names, with whether they have
/// stacks.
const COMPARED: [(&str, bool); 4] =
    [("dump", false), ("api_stack_dump", true), ("list_dump", true), ("range_dump", true)];

/// A text file and a folder for each step and rank.
#[derive(Debug)]
pub struct LinesAndArrays {
    target: Target,
    /// The last step: its text file, and the folder of its journal.
    last: Mutex<Option<(PathBuf, PathBuf)>>,
}

impl LinesAndArrays {
    pub(super) fn new(target: Target) -> LinesAndArrays {
        LinesAndArrays { target, last: Mutex::default() }
    }

    /// Makes the files of a step. Those of an earlier step or run in the same place are replaced. An array that cannot
    /// be made is noted in the ledger, and its line stays: the rest of the step is not lost with it.
    pub(super) fn write(&self, step: &FinishedStep<'_>) -> Result<(), Error> {
        let pkl = self.target.path(step.folder);
        let arrays = pkl.with_extension("");
        let this = Some((pkl.clone(), step.folder.to_owned()));
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if *last != this {
            clear(&pkl, &arrays)?;
            *last = this;
        }
        let above = pkl.parent().unwrap_or(Path::new(""));
        make_folder(above)?;
        let (dump, stacks) = (step.dump()?, step.all_stacks()?);
        let place = Place { from: step.folder.join(DATA_FOLDER), to: arrays.clone() };
        let has_arrays = step.documents.outline.header("task").and_then(Json::as_str) == Some("tensor");
        let mut problems = step.problems.clone();
        file::write_with(&pkl, |out| {
            let mut see = |name: &str, data: LineData<'_>| {
                if !has_arrays {
                    return Ok(());
                }
                make_folder(&arrays)?;
                if let Err(error) = place.array(name, data) {
                    problems.note(format!("the array of {name} is missing: {error}"));
                }
                Ok(())
            };
            dump.reading(|| pkl_lines_with_data(&dump, Some(&stacks), PklStyle::Ptdbg4, &mut see, out))
                .map(|_| ())
        })?;
        restrict(&pkl)?;
        step.write_ledger_with(&problems)?;
        match COMPARED.iter().find(|(name, _)| arrays.ends_with(name)) {
            Some((_, has_stacks)) if arrays.is_dir() => write_script(above, &pkl, &arrays, *has_stacks),
            _ => Ok(()),
        }
    }
}

struct Place {
    /// The folder of the saved tensors.
    from: PathBuf,
    to: PathBuf,
}

impl Place {
    /// Makes the array of a line.
    fn array(&self, name: &str, data: LineData<'_>) -> Result<(), Error> {
        if Path::new(name).components().count() != 1 || name.contains('\\') {
            return Err(Error::whole(Fault::Unsupported(format!("{name:?} is no name of a file"))));
        }
        let to = self.to.join(format!("{name}.npy"));
        match data {
            LineData::Number(value) => write_number(&to, value),
            LineData::Tensor(_, file) if Path::new(file).components().count() != 1 => {
                Err(Error::whole(Fault::Unsupported(format!("{file:?} is no name of a file"))))
            }
            LineData::Tensor("torch.bfloat16", file) => self.widened(file, &to),
            LineData::Tensor(_, file) => self.moved(file, &to),
        }
    }

    /// Moves the file of a tensor. One that is there since an earlier pause of the step stays.
    fn moved(&self, file: &str, to: &Path) -> Result<(), Error> {
        match fs::rename(self.from.join(file), to) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && to.exists() => Ok(()),
            Err(error) => Err(Error::whole(error).in_file(to)),
            Ok(()) => restrict(to),
        }
    }

    fn widened(&self, file: &str, to: &Path) -> Result<(), Error> {
        let from = self.from.join(file);
        if !from.exists() && to.exists() {
            return Ok(());
        }
        let bytes = Bytes::map(&from, Access::ReadOnly)?;
        let tensor = npy::read(&bytes).map_err(|error| error.in_file(&from))?;
        let view = tensor.view();
        // A bfloat16 is the upper half of a float32.
        let wide: Vec<u8> =
            view.to_packed().chunks_exact(2).flat_map(|half| [0, 0, half[0], half[1]]).collect();
        write_array(to, DType::F32, view.shape().to_vec(), wide)?;
        fs::remove_file(&from).map_err(|error| Error::whole(error).in_file(&from))
    }
}

/// Writes a number as an array without dimensions. One that no array has stays a line.
fn write_number(to: &Path, value: &Json) -> Result<(), Error> {
    let (dtype, bytes) = match value {
        Json::Bool(flag) => (DType::Bool, vec![u8::from(*flag)]),
        Json::Float(number) => (DType::F64, number.to_le_bytes().to_vec()),
        Json::Int(number) => match i64::try_from(*number) {
            Ok(number) => (DType::I64, number.to_le_bytes().to_vec()),
            Err(_) => return Ok(()),
        },
        _ => return Ok(()),
    };
    write_array(to, dtype, Vec::new(), bytes)
}

fn write_array(to: &Path, dtype: DType, shape: Vec<usize>, bytes: Vec<u8>) -> Result<(), Error> {
    let view = View::contiguous(dtype, shape, &bytes)
        .map_err(|error| Error::whole(Fault::Unsupported(error.to_string())).in_file(to))?;
    file::write_with(to, |out| npy::write(&view, out))?;
    restrict(to)
}

/// Removes the files of an earlier step or run.
fn clear(pkl: &Path, arrays: &Path) -> Result<(), Error> {
    let gone = |result: io::Result<()>, path: &Path| match result {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::whole(error).in_file(path)),
        _ => Ok(()),
    };
    gone(fs::remove_file(pkl), pkl)?;
    if arrays.is_symlink() {
        let message = "is a symbolic link, which may lead out of the dump: remove it".to_owned();
        return Err(Error::whole(Fault::Unsupported(message)).in_file(arrays));
    }
    gone(fs::remove_dir_all(arrays), arrays)
}

/// Makes a folder and those above it, with the access that the tool gives.
fn make_folder(path: &Path) -> Result<(), Error> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o750);
    builder.create(path).map_err(|error| Error::whole(error).in_file(path))
}

/// Gives a file the access that the tool gives.
fn restrict(path: &Path) -> Result<(), Error> {
    #[cfg(unix)]
    fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o640))
        .map_err(|error| Error::whole(error).in_file(path))?;
    Ok(())
}

/// Writes `compare_data.py`, to which the user adds the other dump.
fn write_script(folder: &Path, pkl: &Path, arrays: &Path, has_stacks: bool) -> Result<(), Error> {
    let (pkl, arrays) = (literal(pkl), literal(arrays));
    let stack_mode = if has_stacks { "True" } else { "False" };
    let text = format!(
        "from ulpscope.compat.ptdbg_ascend import compare\n\n\
         pkl_path = {pkl}\n\
         dump_data_dir = {arrays}\n\n\
         # Enter pkl_path and dump_data_dir on the side of this dump, and the paths of the other dump.\n\
         dump_path_param = {{\n    \
             \"npu_pkl_path\": \"\",\n    \
             \"bench_pkl_path\": \"\",\n    \
             \"npu_dump_data_dir\": \"\",\n    \
             \"bench_dump_data_dir\": \"\",\n    \
             \"is_print_compare_log\": True,\n\
         }}\n\n\
         compare(dump_path_param, output_path=\"./\", stack_mode={stack_mode})\n"
    );
    let path = folder.join("compare_data.py");
    file::write_with(&path, |out| out.write_all(text.as_bytes()).map_err(Error::whole))?;
    restrict(&path)
}

/// A path as a Python literal.
fn literal(path: &Path) -> String {
    let mut text = String::from('"');
    for character in path.to_string_lossy().chars() {
        match character {
            '"' | '\\' => text.extend(['\\', character]),
            control if control.is_control() => text.push_str(&format!("\\u{:04x}", control as u32)),
            other => text.push(other),
        }
    }
    text.push('"');
    text
}
