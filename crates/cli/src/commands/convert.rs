//! `ulpscope convert`: the same tensors in a different format.

mod acl_files;

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use rayon::prelude::*;
use serde_json::json;
use ulpscope_dump::PackedRank;
use ulpscope_formats::acl::Format as AclFormat;
use ulpscope_formats::file::{self, Format, Holds, Records};
use ulpscope_formats::records::PklStyle;
use ulpscope_formats::{Bytes, Error, Tensor, Value, storage};

use crate::args::{ConvertArgs, FormatName};
use crate::exit::Exit;
use crate::names::PlainNames;
use crate::output::Output;
use crate::progress::Progress;
use crate::records;
use crate::source::{Source, is_foreign, label, open};
use crate::targets::{Destination, Target, make_room};
use crate::walk::{Found, Walk};

/// The request of `convert`.
pub(crate) struct Convert {
    source: PathBuf,
    destination: Destination,
    format: Format,
    /// The layout of the tensors of ACL dump files; as stored if there is none.
    layout: Option<AclFormat>,
    /// The lines of a `.pkl`, if the user chose them.
    pkl_style: Option<PklStyle>,
    force: bool,
    json: bool,
}

/// The outcome of one file.
#[derive(Default)]
struct Converted {
    written: Vec<PathBuf>,
    /// Why there was nothing to write. For a file that the user named, it is an error.
    nothing: Option<String>,
    notes: Vec<String>,
    errors: Vec<String>,
}

impl TryFrom<ConvertArgs> for Convert {
    type Error = anyhow::Error;

    fn try_from(args: ConvertArgs) -> anyhow::Result<Convert> {
        let asked = args.to.map(|FormatName(format)| format);
        let destination = if storage::is_folder(&args.src) || args.dst.is_dir() {
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
        let pkl_style = args.pkl_style.map(PklStyle::from);
        if pkl_style.is_some() && format != Format::PklLines {
            bail!("--pkl-style is for a .pkl; leave it out, or use --to pkl");
        }
        Ok(Convert {
            source: args.src,
            destination,
            format,
            layout: args.layout,
            pkl_style,
            force: args.force,
            json: args.json,
        })
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
        // The walk skips the destination, so that its files are not converted again. Here that would skip everything.
        if root.is_some() && fs::canonicalize(&self.source).ok() == root {
            bail!(
                "{}: source and destination are the same folder; expected another one",
                self.source.display()
            );
        }
        let mut walk = Walk::of(std::slice::from_ref(&self.source), root.as_deref());
        let packed = self.packed_ranks(&walk);
        walk.files.retain(|found| !packed.iter().any(|rank| rank.has(&found.path)));
        let targets = self.destination.targets(&walk.files, self.format);
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
        let unpacked = self.unpack(&packed, root.as_deref(), &mut errors);
        if packed.is_empty() {
            errors.extend(walk.empty_folders(std::slice::from_ref(&self.source)));
        }
        let found = walk.files.len() + packed.len();
        let (mut converted, mut written, mut foreign) = (0, 0, 0);
        let mut files = Vec::new();
        for (rank, paths) in packed.iter().zip(&unpacked) {
            converted += usize::from(!paths.is_empty());
            written += paths.len();
            files.push(json!({
                "source": rank.folder.display().to_string(),
                "written": paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>(),
            }));
        }
        for (found, result) in walk.files.iter().zip(results) {
            match result {
                Ok(mut one) => {
                    converted += usize::from(!one.written.is_empty());
                    written += one.written.len();
                    files.push(json!({
                        "source": found.path.display().to_string(),
                        "written": one.written.iter().map(|path| path.display().to_string()).collect::<Vec<_>>(),
                    }));
                    notes.append(&mut one.notes);
                    errors.append(&mut one.errors);
                    if let Some(reason) = one.nothing {
                        let said = if found.named { &mut errors } else { &mut notes };
                        said.push(format!("{}: {reason}", found.path.display()));
                    }
                }
                Err(error) if !found.named && is_foreign(&error) => foreign += 1,
                Err(error) => errors.push(error.to_string()),
            }
        }
        if foreign > 0 && !packed.is_empty() {
            notes.push(format!("{foreign} of {found} files are of no known format"));
        } else if foreign > 0 {
            walk.report_foreign(foreign, &mut notes, &mut errors);
        }
        if converted == 0 && errors.is_empty() {
            errors.push(format!("{}: holds nothing that can be converted", self.source.display()));
        }
        if self.json {
            output.json(&json!({
                "found": found,
                "converted": converted,
                "written": written,
                "files": files,
                "notes": notes,
                "errors": errors,
            }))?;
        } else {
            output.line(&format!("converted {converted} of {found} files into {written}"))?;
        }
        output.notes_and_errors(&notes, &errors);
        Ok(if errors.is_empty() { Exit::Done } else { Exit::Failed })
    }

    /// The ranks of a tree that get a file for each tensor: those with several in a file, if the format is one that
    /// dumps have.
    fn packed_ranks(&self, walk: &Walk) -> Vec<PackedRank> {
        if !matches!(self.destination, Destination::Folder(_))
            || !Format::recorded().any(|one| one == self.format)
        {
            return Vec::new();
        }
        let mut known = HashSet::new();
        let folders = walk.files.iter().filter_map(|found| found.path.parent());
        folders.filter(|folder| known.insert(*folder)).filter_map(PackedRank::in_folder).collect()
    }

    /// Writes each of these ranks below the destination. Returns the files of each.
    fn unpack(
        &self,
        ranks: &[PackedRank],
        root: Option<&Path>,
        errors: &mut Vec<String>,
    ) -> Vec<Vec<PathBuf>> {
        let Destination::Folder(folder) = &self.destination else { return Vec::new() };
        let progress = Progress::of_steps("converting", ranks.len());
        let mut written = Vec::new();
        for rank in ranks {
            let below = rank.folder.strip_prefix(&self.source).unwrap_or(Path::new(""));
            let make_room = |path: &Path| make_room(path, root, self.force);
            match rank.unpack(&folder.join(below), self.format, &make_room) {
                Ok(unpacked) => {
                    errors.extend_from_slice(unpacked.problems.listed());
                    written.push(unpacked.written);
                }
                Err(error) => {
                    errors.push(error.to_string());
                    written.push(Vec::new());
                }
            }
            progress.step();
        }
        written
    }

    fn convert(&self, found: &Found, target: &Target, root: Option<&Path>) -> Result<Converted, Error> {
        if let Some(source) = Source::entry(&found.path)? {
            return self.convert_tensors(found, source, target, root);
        }
        let (format, bytes) = open(&found.path)?;
        if self.pkl_style.is_some() && format.records() != Some(Records::Msprobe) {
            return Ok(Converted::nothing("--pkl-style converts a dump.json, and this is none"));
        }
        if format == Format::Acl {
            return self.convert_acl(found, &bytes, target, root);
        }
        if self.layout.is_some() {
            return Ok(Converted::nothing("--layout converts ACL dump files, and this is none"));
        }
        match (format.records(), self.format.records()) {
            (Some(from), Some(to)) if from == to => {
                make_room(&target.file, root, self.force)?;
                records::copy(&bytes, &target.file)?;
                Ok(Converted { written: vec![target.file.clone()], ..Converted::default() })
            }
            (Some(_), Some(to)) => self.convert_records(found, &bytes, to, &target.file, root),
            (None, _) | (_, None) => {
                let source = bytes
                    .reading(|| Source::decode(&found.path, format, &bytes))
                    .map_err(|error| error.in_file(&found.path))?;
                self.convert_tensors(found, source, target, root)
            }
        }
    }

    fn convert_records(
        &self,
        found: &Found,
        bytes: &Bytes,
        to: Records,
        target: &Path,
        root: Option<&Path>,
    ) -> Result<Converted, Error> {
        if records::goes_with_a_dump(&found.path) {
            return Ok(Converted::nothing("goes with its dump, and not alone"));
        }
        let written = records::outputs(to, target);
        for path in &written {
            make_room(path, root, self.force)?;
        }
        let (notes, errors) =
            records::convert(&found.path, bytes, to, self.pkl_style.unwrap_or(PklStyle::Ptdbg6), target)?;
        Ok(Converted { written, notes, errors, nothing: None })
    }

    fn convert_tensors(
        &self,
        found: &Found,
        source: Source,
        target: &Target,
        root: Option<&Path>,
    ) -> Result<Converted, Error> {
        let value = match source {
            Source::Tensors(value) => value,
            Source::Records(_) => return Ok(Converted::nothing("holds records, not tensors")),
        };
        let mut converted = Converted::default();
        let left_out =
            |(part, reason): (String, &str)| format!("{}: left out: {reason}", label(&found.path, &part));
        converted.notes.extend(value.opaque().into_iter().map(left_out));
        converted.errors.extend(value.unread().into_iter().map(left_out));
        let value = carried(value).unwrap_or(Value::None);
        if value.tensors().is_empty() {
            converted.nothing = Some("holds no tensors".to_owned());
            return Ok(converted);
        }
        if self.format.holds() == Holds::NoTensors {
            converted.nothing = Some("holds tensors, not records".to_owned());
            return Ok(converted);
        }
        let value = self.fitting(value, found, &mut converted.notes);
        let tensors = value.tensors();
        if self.format.holds() == Holds::OneTensor && tensors.len() > 1 {
            // One file cannot hold them: use a folder.
            let mut names = PlainNames::default();
            for (name, tensor) in tensors {
                let mut file = names.give(&name);
                file.push(".");
                file.push(self.format.extension());
                let path = target.folder.join(file);
                match self.write(&path, &Value::Tensor(tensor.clone()), root) {
                    Ok(()) => converted.written.push(path),
                    Err(error) => converted.errors.push(error.to_string()),
                }
            }
        } else {
            if let Err(error) = self.write(&target.file, &value, root) {
                value.reading(|| Ok(()))?;
                let (fitting, refused) = self.without_refused(value, found);
                if refused.is_empty() || fitting.tensors().is_empty() {
                    return Err(error);
                }
                converted.errors.extend(refused);
                self.write(&target.file, &fitting, root)?;
            }
            converted.written.push(target.file.clone());
        }
        Ok(converted)
    }

    /// The value without the entries that the format refuses, and the reason for each.
    fn without_refused(&self, value: Value, found: &Found) -> (Value, Vec<String>) {
        let Value::Dict(pairs) = value else { return (value, Vec::new()) };
        let (mut fitting, mut refused) = (Vec::new(), Vec::new());
        for pair in pairs {
            let alone = Value::Dict(vec![pair.clone()]);
            match file::encode(self.format, &alone, "", &mut std::io::sink()) {
                Ok(()) => fitting.push(pair),
                Err(error) => refused.push(error.in_file(&found.path).to_string()),
            }
        }
        (Value::Dict(fitting), refused)
    }

    fn write(&self, path: &Path, value: &Value, root: Option<&Path>) -> Result<(), Error> {
        make_room(path, root, self.force)?;
        file::write(path, self.format, value)
    }

    /// The value as the format can hold it: most formats hold only named tensors.
    fn fitting(&self, value: Value, found: &Found, notes: &mut Vec<String>) -> Value {
        let left_out = file::left_out(self.format, &value);
        if !left_out.is_empty() {
            let what = match left_out.len() {
                1 => "1 value that is not a tensor".to_owned(),
                count => format!("{count} values that are not tensors"),
            };
            notes.push(format!("{}: left out {what}: {}", found.path.display(), left_out.join(", ")));
        }
        if self.format.holds() == Holds::Values || matches!(value, Value::Tensor(_)) {
            return value;
        }
        let named = |(name, tensor): (String, &Tensor)| (Value::Str(name), Value::Tensor(tensor.clone()));
        Value::Dict(value.tensors().into_iter().map(named).collect())
    }
}

impl Converted {
    fn nothing(reason: &str) -> Converted {
        Converted { nothing: Some(reason.to_owned()), ..Converted::default() }
    }
}

/// Everything in a value that can be converted; `None` if nothing can.
fn carried(value: Value) -> Option<Value> {
    let all = |items: Vec<Value>| items.into_iter().filter_map(carried).collect();
    Some(match value {
        Value::Opaque(_) | Value::Unread(_) => return None,
        Value::List(items) => Value::List(all(items)),
        Value::Tuple(items) => Value::Tuple(all(items)),
        Value::Dict(pairs) => {
            Value::Dict(pairs.into_iter().filter_map(|(key, value)| Some((key, carried(value)?))).collect())
        }
        plain => plain,
    })
}
