//! `ulpscope convert`: the same tensors in another format.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use rayon::prelude::*;
use ulpscope_formats::file::{self, Format};
use ulpscope_formats::{Bytes, Error, Fault, Tensor, Value, safetensors};

use crate::args::{ConvertArgs, FormatName};
use crate::exit::Exit;
use crate::names::PlainNames;
use crate::output::Output;
use crate::progress::Progress;
use crate::records;
use crate::source::{Source, is_foreign, label, open};
use crate::walk::{Found, Walk};

/// What `convert` has been asked for.
pub(crate) struct Convert {
    source: PathBuf,
    destination: Destination,
    format: Format,
    force: bool,
}

/// Where results go.
enum Destination {
    /// One file becomes one file (or a folder of them).
    File(PathBuf),
    /// A tree becomes a tree below this folder.
    Folder(PathBuf),
}

/// What became of one file.
#[derive(Default)]
struct Converted {
    written: Vec<PathBuf>,
    notes: Vec<String>,
    errors: Vec<String>,
}

impl TryFrom<ConvertArgs> for Convert {
    type Error = anyhow::Error;

    fn try_from(args: ConvertArgs) -> anyhow::Result<Convert> {
        let asked = args.to.map(|name| match name {
            FormatName::Npy => Format::Npy,
            FormatName::Npz => Format::Npz,
            FormatName::Pt => Format::Pt,
            FormatName::Safetensors => Format::Safetensors,
            FormatName::Acl => Format::Acl,
            FormatName::Pkl => Format::PklLines,
            FormatName::Json => Format::Msprobe,
        });
        let destination = if args.src.is_dir() || args.dst.is_dir() {
            Destination::Folder(args.dst)
        } else {
            Destination::File(args.dst)
        };
        let format = match (&destination, asked) {
            (_, Some(format)) => format,
            (Destination::Folder(_), None) => bail!("say which format to write: --to npy, for example"),
            (Destination::File(path), None) => Format::of_extension(path).with_context(|| {
                format!("{}: the extension names no format; give one, or use --to", path.display())
            })?,
        };
        Ok(Convert { source: args.src, destination, format, force: args.force })
    }
}

impl Convert {
    pub(crate) fn run(self, output: &mut Output) -> anyhow::Result<Exit> {
        let root = match &self.destination {
            Destination::Folder(folder) => {
                fs::create_dir_all(folder).with_context(|| format!("{}", folder.display()))?;
                Some(fs::canonicalize(folder).with_context(|| format!("{}", folder.display()))?)
            }
            Destination::File(_) => None,
        };
        let walk = Walk::of(std::slice::from_ref(&self.source), root.as_deref());
        let targets = self.targets(&walk);
        let progress = Progress::of_steps("converting", walk.files.len());
        let results: Vec<Result<Converted, Error>> = walk
            .files
            .par_iter()
            .zip(&targets)
            .map(|(found, target)| {
                let result = self.convert(found, target, root.as_deref());
                progress.step();
                result
            })
            .collect();
        drop(progress);

        let mut notes = walk.notes();
        let mut errors = walk.errors();
        let (mut converted, mut written, mut foreign) = (0, 0, 0);
        for (found, result) in walk.files.iter().zip(results) {
            match result {
                Ok(mut one) => {
                    converted += usize::from(!one.written.is_empty());
                    written += one.written.len();
                    notes.append(&mut one.notes);
                    errors.append(&mut one.errors);
                }
                Err(error) if !found.named && is_foreign(&error) => foreign += 1,
                Err(error) => errors.push(error.to_string()),
            }
        }
        if foreign > 0 {
            notes.push(format!("{foreign} of {} files are of no known format", walk.files.len()));
        }
        output.line(&format!("converted {converted} of {} files into {written}", walk.files.len(),))?;
        output.notes_and_errors(&notes, &errors);
        Ok(if errors.is_empty() { Exit::Done } else { Exit::Failed })
    }

    /// The path of each result, decided before anything is written, so that it depends on nothing but the names.
    fn targets(&self, walk: &Walk) -> Vec<PathBuf> {
        let folder = match &self.destination {
            Destination::File(path) => return vec![path.clone(); walk.files.len()],
            Destination::Folder(folder) => folder,
        };
        let extension = self.format.extension();
        let mut used: HashSet<PathBuf> = walk
            .files
            .iter()
            .flat_map(|found| found.relative.ancestors().skip(1))
            .map(Path::to_owned)
            .collect();
        let target = |found: &Found| {
            let short = match Format::of_extension(&found.relative) {
                Some(_) => found.relative.with_extension(extension),
                None => with_suffix(&found.relative, extension),
            };
            if used.insert(short.clone()) {
                return folder.join(short);
            }
            // `x.pt` and `x.npz` lie side by side, or `x` is a folder: the old extension stays.
            let long = with_suffix(&found.relative, extension);
            used.insert(long.clone());
            folder.join(long)
        };
        walk.files.iter().map(target).collect()
    }

    fn convert(&self, found: &Found, target: &Path, root: Option<&Path>) -> Result<Converted, Error> {
        let (format, bytes) = open(&found.path)?;
        match (format, self.format) {
            (Format::PklLines, Format::Msprobe) | (Format::Msprobe, Format::PklLines) => {
                self.convert_records(found, format, &bytes, target, root)
            }
            (Format::PklLines, Format::PklLines) | (Format::Msprobe, Format::Msprobe) => {
                self.make_room(target, root)?;
                records::copy(&bytes, target)?;
                Ok(Converted { written: vec![target.to_owned()], ..Converted::default() })
            }
            _ => {
                let source = Source::decode(&found.path, format, &bytes)
                    .map_err(|error| error.in_file(&found.path))?;
                self.convert_tensors(found, source, target, root)
            }
        }
    }

    fn convert_records(
        &self,
        found: &Found,
        format: Format,
        bytes: &Bytes,
        target: &Path,
        root: Option<&Path>,
    ) -> Result<Converted, Error> {
        if records::goes_with_a_dump(&found.path) {
            let note = format!("{}: goes with its dump, and not alone", found.path.display());
            return Ok(Converted { notes: vec![note], ..Converted::default() });
        }
        let written = records::outputs(format, self.format, target);
        for path in &written {
            self.make_room(path, root)?;
        }
        let (notes, errors) = records::convert(&found.path, bytes, self.format, target)?;
        Ok(Converted { written, notes, errors })
    }

    fn convert_tensors(
        &self,
        found: &Found,
        source: Source,
        target: &Path,
        root: Option<&Path>,
    ) -> Result<Converted, Error> {
        let mut converted = Converted::default();
        let path = found.path.display();
        let value = match source {
            Source::Tensors(value) => value,
            Source::Records(_) => {
                converted.notes.push(format!("{path}: holds records, not tensors"));
                return Ok(converted);
            }
        };
        for (part, reason) in value.opaque() {
            converted.notes.push(format!("{}: left out: {reason}", label(&found.path, &part)));
        }
        let Some(value) = without_opaque(value) else { return Ok(converted) };
        let value = self.fitting(value, found, &mut converted.notes);
        let tensors = value.tensors();
        if tensors.is_empty() {
            converted.notes.push(format!("{path}: holds no tensors"));
        } else if self.format == Format::Msprobe {
            converted.notes.push(format!("{path}: holds tensors, not records"));
        } else if self.format == Format::Npy && tensors.len() > 1 {
            // One file cannot hold them: a folder of the same name, without the extension, does.
            let is_npy = target.extension().is_some_and(|extension| extension == "npy");
            let folder = if is_npy { target.with_extension("") } else { target.to_owned() };
            let mut names = PlainNames::default();
            for (name, tensor) in tensors {
                let path = folder.join(format!("{}.npy", names.give(&name)));
                self.make_room(&path, root)?;
                file::write(&path, self.format, &Value::Tensor(tensor.clone()))?;
                converted.written.push(path);
            }
        } else {
            self.make_room(target, root)?;
            file::write(target, self.format, &value)?;
            converted.written.push(target.to_owned());
        }
        Ok(converted)
    }

    /// The value as the format can hold it: most hold tensors with names and nothing else.
    fn fitting(&self, value: Value, found: &Found, notes: &mut Vec<String>) -> Value {
        if self.format == Format::Pt {
            return value;
        }
        let left_out = safetensors::left_out(&value);
        if !left_out.is_empty() {
            let path = found.path.display();
            let names = left_out.join(", ");
            notes.push(format!("{path}: left out {} values that are not tensors: {names}", left_out.len()));
        }
        // Safetensors has a place for the texts that came from one.
        if self.format == Format::Safetensors || matches!(value, Value::Tensor(_)) {
            return value;
        }
        let named = |(name, tensor): (String, &Tensor)| (Value::Str(name), Value::Tensor(tensor.clone()));
        Value::Dict(value.tensors().into_iter().map(named).collect())
    }

    /// Makes sure that a file may be written: its folder exists and is where it should be, and nothing is
    /// replaced that was not meant to be.
    fn make_room(&self, path: &Path, root: Option<&Path>) -> Result<(), Error> {
        let check = || {
            if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
                fs::create_dir_all(parent)?;
                // A link that was already there may lead anywhere.
                let lands = fs::canonicalize(parent)?;
                if root.is_some_and(|root| !lands.starts_with(root)) {
                    return Err(Fault::EscapesFolder(parent.display().to_string()));
                }
            }
            if !self.force && fs::symlink_metadata(path).is_ok() {
                return Err(Fault::Unsupported("exists already; use --force to replace it".to_owned()));
            }
            Ok(())
        };
        check().map_err(|fault| Error::whole(fault).in_file(path))
    }
}

fn with_suffix(path: &Path, extension: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(extension);
    name.into()
}

/// Everything of a value that can be carried; nothing when it is wholly opaque.
fn without_opaque(value: Value) -> Option<Value> {
    let all = |items: Vec<Value>| items.into_iter().filter_map(without_opaque).collect();
    Some(match value {
        Value::Opaque(_) => return None,
        Value::List(items) => Value::List(all(items)),
        Value::Tuple(items) => Value::Tuple(all(items)),
        Value::Dict(pairs) => Value::Dict(
            pairs.into_iter().filter_map(|(key, value)| Some((key, without_opaque(value)?))).collect(),
        ),
        plain => plain,
    })
}
