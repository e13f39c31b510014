//! ACL dump files: a file for each of their tensors, in a layout if the user named one.

use std::io::Write;
use std::path::Path;

use ulpscope_formats::acl::{self, FileName, PartContent};
use ulpscope_formats::file::{self, Format};
use ulpscope_formats::json::{self, Layout};
use ulpscope_formats::{Bytes, Error, Value};

use super::{Convert, Converted};
use crate::source::{Source, label};
use crate::targets::{Destination, Target, make_room};
use crate::walk::Found;

impl Convert {
    /// A tree of dump files gets the names of the older tools; a file that the user named is one file.
    pub(super) fn convert_acl(
        &self,
        found: &Found,
        bytes: &Bytes,
        target: &Target,
        root: Option<&Path>,
    ) -> Result<Converted, Error> {
        let in_file = |error: Error| error.in_file(&found.path);
        let dump = bytes.reading(|| acl::read(bytes)).map_err(in_file)?;
        let is_file_each = matches!(self.format, Format::Npy | Format::Pt);
        if is_file_each && matches!(self.destination, Destination::Folder(_)) {
            let is_op_debug = acl_name(&found.path).is_some_and(|name| name.is_op_debug());
            return Ok(self.write_parts(found, &dump.parts(self.layout, is_op_debug), target, root));
        }
        let (value, unsure) = match self.layout {
            Some(layout) => dump.to_value_in(layout),
            None => (dump.to_value(), Vec::new()),
        };
        let mut converted = self.convert_tensors(found, Source::Tensors(value), target, root)?;
        let note = |(part, why): (String, String)| format!("{}: {why}", label(&found.path, &part));
        converted.notes.extend(unsure.into_iter().map(note));
        Ok(converted)
    }

    fn write_parts(
        &self,
        found: &Found,
        parts: &[acl::FilePart],
        target: &Target,
        root: Option<&Path>,
    ) -> Converted {
        let mut converted = Converted::default();
        if parts.is_empty() {
            converted.nothing = Some("holds no tensors".to_owned());
        }
        for part in parts {
            let extension = match &part.content {
                PartContent::Tensor(_) => self.format.extension(),
                PartContent::Raw(_) => "bin",
                PartContent::Json(_) => "json",
                PartContent::Unread(why) => {
                    converted.errors.push(format!("{}: left out: {why}", label(&found.path, &part.name)));
                    continue;
                }
            };
            let path = target.part(self.format, &part.suffix, extension);
            let written = match &part.content {
                PartContent::Tensor(tensor) => self.write(&path, &Value::Tensor(tensor.clone()), root),
                PartContent::Raw(bytes) => self.write_bytes(&path, root, |out| {
                    bytes.reading(|| out.write_all(bytes).map_err(Error::whole))
                }),
                PartContent::Json(state) => {
                    self.write_bytes(&path, root, |out| json::write(state, Layout::Indented(4), out))
                }
                PartContent::Unread(_) => continue,
            };
            match written {
                Ok(()) => converted.written.push(path),
                Err(error) => converted.errors.push(error.to_string()),
            }
            let note = |why: &String| format!("{}: {why}", label(&found.path, &part.name));
            converted.notes.extend(part.unsure.as_ref().map(note));
        }
        converted
    }

    fn write_bytes(
        &self,
        path: &Path,
        root: Option<&Path>,
        content: impl FnOnce(&mut dyn Write) -> Result<(), Error>,
    ) -> Result<(), Error> {
        make_room(path, root, self.force)?;
        file::write_with(path, content)
    }
}

fn acl_name(path: &Path) -> Option<FileName> {
    FileName::parse(path.file_name()?.to_str()?)
}
