//! A workbook's table of contents: which part of the archive contains which sheet.

use std::collections::HashMap;
use std::io::Read;

use super::error::{At, SheetError};
use super::xml::{Metered, Node, attribute, walk};

/// The part with the table of contents.
pub(super) const WORKBOOK: &str = "xl/workbook.xml";

/// The part that resolves its references.
pub(super) const RELATIONS: &str = "xl/_rels/workbook.xml.rels";

/// The references of a workbook to its parts.
#[derive(Default)]
pub(super) struct Relations {
    parts: HashMap<String, String>,
    /// The part with the texts that sheets share, if there is one.
    pub shared_texts: Option<String>,
}

impl Relations {
    pub(super) fn read(at: At<'_>, input: Metered<impl Read>) -> Result<Relations, SheetError> {
        let mut relations = Relations::default();
        walk(at, input, |node| {
            let Node::Start { element, .. } = node else { return Ok(()) };
            if element.local_name().as_ref() != "Relationship" {
                return Ok(());
            }
            let (Some(id), Some(target)) = (attribute(at, element, "Id")?, attribute(at, element, "Target")?)
            else {
                return Err(at.malformed("a relationship with Id and Target", "one without"));
            };
            // A target is the name of a part, relative to the archive's root or to the folder of the workbook.
            let part = target.strip_prefix('/').map_or_else(|| format!("xl/{target}"), str::to_owned);
            if attribute(at, element, "Type")?.is_some_and(|kind| kind.ends_with("/sharedStrings")) {
                relations.shared_texts = Some(part.clone());
            }
            relations.parts.insert(id, part);
            Ok(())
        })?;
        Ok(relations)
    }

    /// Name and part of each sheet, in the workbook's order.
    pub(super) fn sheets(
        &self,
        at: At<'_>,
        input: Metered<impl Read>,
    ) -> Result<Vec<(String, String)>, SheetError> {
        let mut sheets = Vec::new();
        walk(at, input, |node| {
            let Node::Start { element, .. } = node else { return Ok(()) };
            if element.local_name().as_ref() != "sheet" {
                return Ok(());
            }
            let name = attribute(at, element, "name")?.unwrap_or_default();
            let id = attribute(at, element, "r:id")?.unwrap_or_default();
            let part = self.parts.get(&id).cloned();
            let part = part.ok_or_else(|| at.malformed(format!("a part for the sheet {name:?}"), "none"))?;
            sheets.push((name, part));
            Ok(())
        })?;
        if sheets.is_empty() {
            return Err(at.malformed("a sheet", "none"));
        }
        Ok(sheets)
    }
}
