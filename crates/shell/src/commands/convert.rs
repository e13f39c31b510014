//! `dc`: NPU dump files as npy files.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use ulpscope_formats::acl::{self, DumpTensor};
use ulpscope_formats::file::{self, Format};
use ulpscope_formats::{Access, Bytes, Error, Fault, Tensor, Value};
use ulpscope_report::panel;
use ulpscope_tensor::{DType, Scalar};

use crate::cancel::Cancel;
use crate::folders::{DataKind, file_name, files_below, spelled};
use crate::options::Options;
use crate::reply::Reply;
use crate::session::Session;

/// Where ptdbg_ascend.parse puts npy files.
const PARSE_OUTPUT: &str = "./parse_data/convert_result";

/// The requested layout, and where the files go.
struct Target<'a> {
    folder: PathBuf,
    layout: Option<&'a str>,
}

/// A dump file, and the folder below the target that its tensors go to.
struct Source {
    path: PathBuf,
    below: PathBuf,
}

/// What became of a file.
#[derive(Default)]
struct Written {
    files: Vec<PathBuf>,
    problems: Vec<String>,
    /// Whether it is no dump file.
    is_foreign: bool,
}

pub(crate) fn parse(session: &Session, options: &Options) -> Reply {
    let name = options.text("-n").unwrap_or_default();
    let folder = match output_folder(options.text("-out"), PARSE_OUTPUT.as_ref()) {
        Ok(folder) => folder,
        Err(problem) => return Reply::failed(format!("dc: {problem}")),
    };
    let path = spelled(Path::new(name));
    match sources(&path) {
        Ok(sources) => convert(session, name, &sources, &Target { folder, layout: options.text("-f") }),
        Err(problem) => Reply::failed(format!("dc: {problem}")),
    }
}

pub(crate) fn precision_tool(session: &Session, options: &Options) -> Reply {
    let name = options.text("-n").or(options.words.first().map(String::as_str));
    let Some(name) = name else { return Reply::failed("dc: say which dump file, folder or operator") };
    let folder = match output_folder(options.text("-o"), &session.folders.converted()) {
        Ok(folder) => folder,
        Err(problem) => return Reply::failed(format!("dc: {problem}")),
    };
    let path = spelled(Path::new(name));
    let found = if path.exists() { sources(&path) } else { in_dump(session, name) };
    match found {
        Ok(sources) => convert(session, name, &sources, &Target { folder, layout: options.text("-f") }),
        Err(problem) => Reply::failed(format!("dc: {problem}")),
    }
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
fn sources(path: &Path) -> Result<Vec<Source>, String> {
    if !path.is_dir() {
        return Ok(vec![Source { path: path.to_owned(), below: PathBuf::new() }]);
    }
    let files = files_below(path);
    if files.is_empty() {
        return Err(format!("{}: the folder holds no files", path.display()));
    }
    let mut counts = HashMap::new();
    for file in &files {
        *counts.entry(file_name(file)).or_insert(0) += 1;
    }
    let below = |file: &Path| match counts.get(&file_name(file)) {
        Some(2..) => file.parent().and_then(|parent| parent.strip_prefix(path).ok()).map(Path::to_owned),
        _ => None,
    };
    Ok(files.into_iter().map(|path| Source { below: below(&path).unwrap_or_default(), path }).collect())
}

/// The dump files of an operator, or the one of a file name.
fn in_dump(session: &Session, name: &str) -> Result<Vec<Source>, String> {
    let operator = name.replace(['/', '.'], "_");
    let is_meant = |path: &PathBuf| {
        let file = file_name(path);
        file == name || file.split('.').nth(1).is_some_and(|found| found == operator)
    };
    let files: Vec<PathBuf> = [DataKind::NpuDump, DataKind::Overflow]
        .into_iter()
        .flat_map(|kind| session.folders.files(kind))
        .filter(is_meant)
        .collect();
    if files.is_empty() {
        let missing = session.folders.missing(DataKind::NpuDump);
        return Err(format!("{name}: no such file, and no dump file or operator of that name ({missing})"));
    }
    Ok(files.into_iter().map(|path| Source { path, below: PathBuf::new() }).collect())
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
    let mut files =
        [DataKind::NpuDump, DataKind::Overflow].into_iter().flat_map(|kind| session.folders.files(kind));
    let Some(path) = files.rfind(|path| file_name(path) == dump) else { return Ok(None) };
    let target = Target { folder: session.folders.decoded(), layout: None };
    fs::create_dir_all(&target.folder).map_err(|error| format!("{}: {error}", target.folder.display()))?;
    let written = convert_one(&Source { path, below: PathBuf::new() }, &target, &session.cancel);
    let decoded = target.folder.join(format!("{dump}.{io}.{number}.npy"));
    if written.files.contains(&decoded) {
        return Ok(Some(decoded));
    }
    match written.problems.first() {
        Some(problem) => Err(problem.clone()),
        None => Err(format!("{name}: the dump file has no {io} {number}")),
    }
}

fn convert(session: &Session, name: &str, sources: &[Source], target: &Target<'_>) -> Reply {
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
            reply.error(format!("dc: {}: not an ACL dump file", source.path.display()));
        }
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

fn convert_one(source: &Source, target: &Target<'_>, cancel: &Cancel) -> Written {
    let mut written = Written::default();
    if cancel.is_asked() {
        return written;
    }
    let dump = (|| {
        let bytes = Bytes::map(&source.path, Access::ReadOnly)?;
        match bytes.reading(|| Format::detect(&source.path, &bytes)) {
            Ok(Format::Acl) => bytes.reading(|| acl::read(&bytes)).map(Some),
            Err(error) if !matches!(error.fault, Fault::UnknownFormat { .. }) => Err(error),
            _ => Ok(None),
        }
    })();
    let dump = match dump {
        Ok(Some(dump)) => dump,
        Ok(None) => {
            written.is_foreign = true;
            return written;
        }
        Err(error) => {
            written.problems.push(Error::to_string(&error.in_file(&source.path)));
            return written;
        }
    };
    let name = file_name(&source.path);
    let folder = target.folder.join(&source.below);
    if let Err(error) = fs::create_dir_all(&folder) {
        written.problems.push(format!("{}: {error}", folder.display()));
        return written;
    }
    for (io, tensors) in [("input", &dump.inputs), ("output", &dump.outputs)] {
        for (index, tensor) in tensors.iter().enumerate() {
            let part = format!("{io}.{index}");
            let result = laid_out(tensor, target.layout).and_then(|tensor| {
                let dims = match target.layout {
                    Some(_) => format!(".{}", joined(tensor.shape())),
                    None => String::new(),
                };
                let path = folder.join(format!("{name}.{part}{dims}.npy"));
                let value = Value::Tensor(numpy_tensor(&tensor));
                file::write_while(&path, Format::Npy, &value, &|| cancel.go_on()).map(|()| path)
            });
            match result {
                Ok(path) => written.files.push(path),
                Err(error) => written.problems.push(error.in_part(&part).in_file(&source.path).to_string()),
            }
        }
    }
    for (kind, regions) in [("l1buffer", &dump.buffers), ("space", &dump.spaces)] {
        for (index, region) in regions.iter().enumerate() {
            let path = folder.join(format!("{name}.{kind}.{index}.bin"));
            let write = |out: &mut dyn std::io::Write| out.write_all(&region.data).map_err(Error::whole);
            match file::write_with(&path, |out| region.data.reading(|| write(out))) {
                Ok(()) => written.files.push(path),
                Err(error) => written.problems.push(error.to_string()),
            }
        }
    }
    written
}

/// The tensor in the requested layout.
fn laid_out(tensor: &DumpTensor, layout: Option<&str>) -> Result<Tensor, Error> {
    match layout {
        Some(wanted) if tensor.format.name() != Some(wanted) => {
            Err(Error::whole(Fault::Unsupported(format!(
                "the layout {} is not converted to {wanted}; leave -f out to get the elements as they are stored",
                tensor.format
            ))))
        }
        _ => tensor.tensor(),
    }
}

/// `2x6x6x20`, as the older tool puts it into names.
fn joined(shape: &[usize]) -> String {
    shape.iter().map(usize::to_string).collect::<Vec<_>>().join("x")
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
