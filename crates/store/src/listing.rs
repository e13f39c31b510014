//! What is in the folders of buckets.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use object_store::ObjectMeta;
use object_store::list::{PaginatedListOptions, PaginatedListResult};
use ulpscope_formats::storage::{About, Item, Kind};

use crate::address::Address;
use crate::{bucket, error, runtime};

/// Names in one folder. A server that goes on for ever does not fill the memory.
const MAX_NAMES: usize = 10_000_000;

/// Names that are remembered; then all are forgotten.
const MAX_KNOWN: usize = 1_000_000;

/// A folder: what its names are.
type Folder = Arc<HashMap<String, About>>;

/// The folders that were listed since the last search of a dump. Its readers ask for the files beside a document, and most
/// of them do not exist.
#[derive(Default)]
pub(crate) struct Listings(Mutex<HashMap<PathBuf, Folder>>);

impl Listings {
    /// Lists a folder.
    pub(crate) fn read(&self, address: &Address) -> io::Result<Vec<Item>> {
        let mut items = Vec::new();
        let mut known = HashMap::new();
        let prefix = address.prefix();
        let mut page_token = None;
        loop {
            let page = page(address, &prefix, None, page_token)?;
            for folder in page.result.common_prefixes {
                let about = About { kind: Kind::Folder, size: 0, version: 0 };
                add(folder.as_ref(), &prefix, about, &mut items, &mut known);
            }
            for object in page.result.objects {
                add(object.location.as_ref(), &prefix, about_object(&object), &mut items, &mut known);
            }
            if items.len() > MAX_NAMES {
                let message = format!("has more than {MAX_NAMES} names: name a folder below it");
                return Err(io::Error::new(io::ErrorKind::InvalidData, message));
            }
            match page.page_token {
                Some(next) => page_token = Some(next),
                None => break,
            }
        }
        if items.is_empty() && !prefix.is_empty() && !is_folder(address)? {
            return Err(error::nothing_there(address));
        }
        let mut folders = self.folders();
        if folders.values().map(|folder| folder.len()).sum::<usize>() + known.len() > MAX_KNOWN {
            folders.clear();
        }
        folders.insert(address.path(), Arc::new(known));
        Ok(items)
    }

    /// What a path is, if its folder was listed; nothing inside if it has no such name.
    pub(crate) fn known(&self, address: &Address) -> Option<Option<About>> {
        let path = address.path();
        let folder = self.folders().get(path.parent()?).map(Arc::clone)?;
        Some(folder.get(path.file_name()?.to_str()?).copied())
    }

    /// Forgets what is in a folder, in those around it and below it.
    pub(crate) fn forget(&self, path: &Path) {
        self.folders().retain(|known, _| !path.starts_with(known) && !known.starts_with(path));
    }

    fn folders(&self) -> MutexGuard<'_, HashMap<PathBuf, Folder>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Adds what is directly in a folder. The mark that some programs leave for the folder itself is left out.
fn add(key: &str, prefix: &str, about: About, items: &mut Vec<Item>, known: &mut HashMap<String, About>) {
    let Some(name) = key.strip_prefix(prefix).filter(|name| !name.is_empty() && !name.contains('/')) else {
        return;
    };
    // No program of ours or of others names a file so: it is listed, and not read.
    let is_strange = name.chars().any(|letter| letter.is_control() || letter == '\\');
    let about = if is_strange { About { kind: Kind::Other, ..about } } else { about };
    // A key may be that of an object and the beginning of others: the object is found first by its path.
    if known.get(name).is_none_or(|known| known.kind == Kind::Folder) {
        known.insert(name.to_owned(), about);
    }
    items.push(Item { name: name.into(), kind: about.kind });
}

/// Whether any key is below this one.
pub(crate) fn is_folder(address: &Address) -> io::Result<bool> {
    let PaginatedListResult { result, .. } = page(address, &address.prefix(), Some(1), None)?;
    Ok(!result.objects.is_empty() || !result.common_prefixes.is_empty())
}

/// One answer to a request for a list.
fn page(
    address: &Address,
    prefix: &str,
    max_keys: Option<usize>,
    page_token: Option<String>,
) -> io::Result<PaginatedListResult> {
    let bucket = bucket::open(address)?;
    let options = PaginatedListOptions {
        delimiter: Some(Cow::Borrowed("/")),
        max_keys,
        page_token,
        ..PaginatedListOptions::default()
    };
    let prefix = (!prefix.is_empty()).then(|| prefix.to_owned());
    let listed = runtime::run(async move { bucket.list_paginated(prefix.as_deref(), options).await })?;
    listed.map_err(|why| error::explained(&why, address))
}

/// What an object is.
pub(crate) fn about_object(object: &ObjectMeta) -> About {
    let changed = u128::try_from(object.last_modified.timestamp_millis()).unwrap_or_default();
    let tag = object.e_tag.as_deref().unwrap_or_default();
    // FNV-1a of 64 bits: the same on every machine and in every release.
    let hash = tag.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    About { kind: Kind::File, size: object.size, version: changed << 64 | u128::from(hash) }
}
