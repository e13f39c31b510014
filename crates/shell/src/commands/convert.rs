//! `dc`: NPU dump files as npy files.

use std::collections::HashMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use ulpscope_dump::Problems;
use ulpscope_formats::acl::{self, FilePart, PartContent, flat_op_name};
use ulpscope_formats::file::{self, Format};
use ulpscope_formats::json::{self, Layout};
use ulpscope_formats::{Error, Tensor, Value};
use ulpscope_report::panel;
use ulpscope_tensor::{DType, Scalar};

use crate::cancel::Cancel;
use crate::folders::{DataKind, file_name, spelled};
use crate::npu_files::{NpuFile, npu_files};
use crate::options::Options;
use crate::reply::Reply;
use crate::session::Session;

/// Where ptdbg_ascend.parse puts npy files.
const PARSE_OUTPUT: &str = "./parse_data/convert_result";

/// The requested layout, and where the files go.
struct Target {
    folder: PathBuf,
    layout: Option<acl::Format>,
}

/// A dump file, and the folder below the target that its tensors go to.
struct Source {
    file: NpuFile,
    below: PathBuf,
}

/// The files of a name, and what could not be read on the way to them.
struct Sources {
    files: Vec<Source>,
    problems: Problems,
}

/// What became of a file.
#[derive(Default)]
struct Written {
    files: Vec<PathBuf>,
    problems: Vec<String>,
    /// What is unsure about the result.
    notes: Vec<String>,
    /// Whether it is no dump file.
    is_foreign: bool,
}

pub(crate) fn parse(session: &Session, options: &Options) -> Reply {
    let name = options.text("-n").unwrap_or_default();
    let target = || output_folder(options.text("-out"), PARSE_OUTPUT.as_ref());
    convert_found(session, name, options, &target, &|_| sources(&spelled(Path::new(name))))
}

pub(crate) fn precision_tool(session: &Session, options: &Options) -> Reply {
    let name = options.text("-n").or(options.words.first().map(String::as_str));
    let Some(name) = name else { return Reply::failed("dc: say which dump file, folder or operator") };
    let target = || output_folder(options.text("-o"), &session.folders.converted());
    convert_found(session, name, options, &target, &|session| {
        let path = spelled(Path::new(name));
        if path.exists() { sources(&path) } else { in_dump(session, name) }
    })
}

/// Finds the files of a name and converts them. Nothing is made before the name and the layout are known.
fn convert_found(
    session: &Session,
    name: &str,
    options: &Options,
    folder: &dyn Fn() -> Result<PathBuf, String>,
    find: &dyn Fn(&Session) -> Result<Sources, String>,
) -> Reply {
    let found = || -> Result<_, String> {
        let layout = options.text("-f").map(layout).transpose()?;
        let sources = find(session)?;
        Ok((sources, Target { folder: folder()?, layout }))
    };
    match found() {
        Ok((sources, target)) => {
            let mut reply = convert(session, name, &sources.files, &target);
            // Files without their mapping keep their numbers as names: they are converted, and the problem is reported.
            sources.problems.listed().iter().for_each(|problem| reply.error(format!("dc: {problem}")));
            reply
        }
        Err(problem) => Reply::failed(format!("dc: {problem}")),
    }
}

fn layout(name: &str) -> Result<acl::Format, String> {
    acl::Format::from_name(name)
        .ok_or_else(|| format!("argument -f: expected a layout, as NCHW, NHWC or ND, found {name:?}"))
}

/// The folder that the user named, which has to exist; or the default one, which is made.
pub(crate) fn output_folder(named: Option<&str>, default: &Path) -> Result<PathBuf, String> {
    if let Some(named) = named {
        let folder = PathBuf::from(named);
        return if folder.is_dir() { Ok(folder) } else { Err(format!("The path {named} does not exist.")) };
    }
    let folder = spelled(default);
    fs::create_dir_all(&folder)
        .map_err(|error| format!("cannot make the folder {}: {error}", folder.display()))?;
    Ok(folder)
}

/// The files below a path. A name that occurs in several folders keeps its folder, so that no file replaces another.
fn sources(path: &Path) -> Result<Sources, String> {
    if !path.exists() {
        return Err(format!("{}: no such file or folder", path.display()));
    }
    let mut problems = Problems::default();
    let files = npu_files(path, &mut problems);
    if files.is_empty() {
        let problem = problems.listed().first().cloned();
        return Err(problem.unwrap_or_else(|| format!("{}: the folder holds no files", path.display())));
    }
    let mut counts = HashMap::new();
    for file in &files {
        *counts.entry(file_name(&file.path)).or_insert(0) += 1;
    }
    let below = |file: &Path| match counts.get(&file_name(file)) {
        Some(2..) => file.parent().and_then(|parent| parent.strip_prefix(path).ok()).map(Path::to_owned),
        _ => None,
    };
    let placed = |file: NpuFile| Source { below: below(&file.path).unwrap_or_default(), file };
    Ok(Sources { files: files.into_iter().map(placed).collect(), problems })
}

/// The dump files of an operator, or the one of a file name.
fn in_dump(session: &Session, name: &str) -> Result<Sources, String> {
    let operator = flat_op_name(name);
    let is_meant = |file: &NpuFile| {
        file.named == name
            || file_name(&file.path) == name
            || file.name.as_ref().is_some_and(|parts| parts.op_name == operator)
    };
    let mut problems = Problems::default();
    let (files, others): (Vec<NpuFile>, Vec<NpuFile>) =
        dumped(session, &mut problems).into_iter().partition(is_meant);
    if files.is_empty() {
        let searched = match others.len() {
            0 => session.folders.missing(DataKind::NpuDump),
            count => {
                let root = session.folders.root().display();
                format!("{count} files of the dumps below {root} were searched")
            }
        };
        let unread: String = problems.listed().iter().map(|problem| format!("; {problem}")).collect();
        return Err(format!(
            "{name}: no such file, and no dump file or operator of that name ({searched}){unread}"
        ));
    }
    let files = files.into_iter().map(|file| Source { file, below: PathBuf::new() }).collect();
    Ok(Sources { files, problems })
}

/// Every file of the NPU dumps and of overflow detection.
fn dumped(session: &Session, problems: &mut Problems) -> Vec<NpuFile> {
    let kinds = [DataKind::NpuDump, DataKind::Overflow].into_iter();
    let places = kinds.flat_map(|kind| session.folders.places(kind));
    places.flat_map(|place| npu_files(&place, problems)).collect()
}

/// The npy file of a name such as `Relu.x.25.5.1767261601039759.output.0.npy`, decoded first if need be. Without a number
/// it is the first output.
pub(crate) fn decode_named(session: &Session, name: &str) -> Result<Option<PathBuf>, String> {
    let Some(stem) = name.strip_suffix(".npy") else { return Ok(None) };
    let (stem, number) = match stem.rsplit_once('.') {
        Some((stem, number)) if number.parse::<u32>().is_ok() => (stem, number),
        _ => (stem, "0"),
    };
    let Some((dump, io @ ("input" | "output"))) = stem.rsplit_once('.') else { return Ok(None) };
    let mut problems = Problems::default();
    let mut files = dumped(session, &mut problems).into_iter();
    let found = files.rfind(|file| file_name(&file.path) == dump || file.named == dump);
    let Some(file) = found else {
        // A mapping that cannot be read may be the one that has the name.
        return problems.listed().first().map_or(Ok(None), |problem| Err(problem.clone()));
    };
    let target = Target { folder: session.folders.decoded(), layout: None };
    fs::create_dir_all(&target.folder).map_err(|error| format!("{}: {error}", target.folder.display()))?;
    let decoded = target.folder.join(format!("{}.{io}.{number}.npy", file_name(&file.path)));
    let written = convert_one(&Source { file, below: PathBuf::new() }, &target, &session.cancel);
    if written.files.contains(&decoded) {
        return Ok(Some(decoded));
    }
    match written.problems.first() {
        Some(problem) => Err(problem.clone()),
        None => Err(format!("{name}: the dump file has no {io} {number}")),
    }
}

fn convert(session: &Session, name: &str, sources: &[Source], target: &Target) -> Reply {
    let results: Vec<Written> =
        sources.par_iter().map(|source| convert_one(source, target, &session.cancel)).collect();
    let mut reply = Reply::default();
    let mut lines = vec![format!("SrcFile: {name}")];
    let mut foreign = 0;
    for (source, written) in sources.iter().zip(results) {
        if written.is_foreign && sources.len() > 1 {
            foreign += 1;
            continue;
        }
        let shown = |file: &PathBuf| file.strip_prefix(&target.folder).unwrap_or(file).display().to_string();
        lines.extend(written.files.iter().map(|file| format!(" - {}", shown(file))));
        if written.is_foreign {
            reply.error(format!("dc: {}: not an ACL dump file", source.file.path.display()));
        }
        written.notes.into_iter().for_each(|note| reply.warning(note));
        written.problems.into_iter().for_each(|problem| reply.error(format!("dc: {problem}")));
    }
    if foreign > 0 {
        reply.warning(format!("{foreign} files are no ACL dump files, and were left out"));
    }
    if lines.len() == 1 {
        if reply.complaints.iter().all(|line| !line.starts_with("[ERROR]")) {
            reply.error(format!("dc: {name}: no ACL dump files"));
        }
        return reply;
    }
    reply.line(&format!("The files are in {}", target.folder.display()));
    reply.block(&panel(None, &lines));
    reply
}

fn convert_one(source: &Source, target: &Target, cancel: &Cancel) -> Written {
    let mut written = Written::default();
    if cancel.is_asked() {
        return written;
    }
    let dump = match source.file.read() {
        Ok(Some(dump)) => dump,
        Ok(None) => {
            written.is_foreign = true;
            return written;
        }
        Err(error) => {
            written.problems.push(Error::to_string(&error));
            return written;
        }
    };
    let folder = target.folder.join(&source.below);
    if let Err(error) = fs::create_dir_all(&folder) {
        written.problems.push(format!("{}: {error}", folder.display()));
        return written;
    }
    let name = file_name(&source.file.path);
    for part in dump.parts(target.layout, source.file.is_op_debug()) {
        let labelled = |why: &str| format!("{}:{}: {why}", source.file.path.display(), part.name);
        match write_part(&folder, &name, &part, cancel) {
            Ok(path) => written.files.push(path),
            Err(why) => written.problems.push(labelled(&why)),
        }
        written.notes.extend(part.unsure.as_deref().map(labelled));
    }
    written
}

/// Writes a part beside the others of its file, under the name that msaccucmp gives it.
fn write_part(folder: &Path, name: &str, part: &FilePart, cancel: &Cancel) -> Result<PathBuf, String> {
    let extension = match &part.content {
        PartContent::Tensor(_) => "npy",
        PartContent::Raw(_) => "bin",
        PartContent::Json(_) => "json",
        PartContent::Unread(why) => return Err(why.clone()),
    };
    let path = folder.join(format!("{name}.{}.{extension}", part.suffix));
    let written = match &part.content {
        PartContent::Tensor(tensor) => {
            let value = Value::Tensor(numpy_tensor(tensor));
            file::write_while(&path, Format::Npy, &value, &|| cancel.go_on())
        }
        PartContent::Raw(bytes) => {
            let write = |out: &mut dyn Write| out.write_all(bytes).map_err(Error::whole);
            file::write_with(&path, |out| bytes.reading(|| write(out)))
        }
        PartContent::Json(state) => {
            file::write_with(&path, |out| json::write(state, Layout::Indented(4), out))
        }
        PartContent::Unread(_) => Ok(()),
    };
    written.map(|()| path).map_err(|error| error.to_string())
}

/// The tensor with elements that NumPy has a type for: narrow floats without one become float32, which holds each of
/// their values.
fn numpy_tensor(tensor: &Tensor) -> Tensor {
    let dtype = tensor.dtype();
    if dtype.numpy_code().is_some() || !dtype.is_float() {
        return tensor.clone();
    }
    let packed = tensor.view().to_packed().into_owned();
    let wide: Vec<u8> = packed
        .chunks_exact(dtype.size())
        .flat_map(|element| (Scalar::read(dtype, element).to_f64() as f32).to_le_bytes())
        .collect();
    Tensor::contiguous(DType::F32, tensor.shape().to_vec(), wide.into()).unwrap_or_else(|_| tensor.clone())
}
