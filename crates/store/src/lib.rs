//! Dumps in the buckets of object stores: `s3://bucket/key` and `gs://bucket/key`.
//!
//! ```text
//! path ──► Address (bucket, key) ──► Bucket (its client, by the usual variables) ──► lists, ranges of objects
//! ```
//!
//! Folders are listed, and objects are read by ranges: nothing is downloaded as a whole, and nothing is written. Requests
//! that fail for a moment are made again by the client; what fails for good is an error that names bucket and key, and
//! says what to do. This is the only crate that knows the network; the others see
//! [`Storage`].

mod address;
mod bucket;
mod error;
mod listing;
mod object;
mod runtime;

use std::io;
use std::path::Path;
use std::sync::Arc;

use object_store::ObjectStoreExt;
use ulpscope_formats::storage::{self, About, Item, Kind, Opened, Storage};

use crate::address::{Address, SCHEMES};
use crate::listing::{Listings, about_object};

/// Makes dumps in buckets readable for this process. Connects to nothing.
pub fn register() {
    storage::register(Arc::new(Buckets::default()));
}

/// All buckets.
#[derive(Default)]
struct Buckets {
    listings: Listings,
}

impl Storage for Buckets {
    fn schemes(&self) -> &'static [&'static str] {
        &SCHEMES
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<Item>> {
        let address = Address::of(folder)?;
        self.listings.read(&address)
    }

    fn about(&self, path: &Path) -> io::Result<About> {
        let address = Address::of(path)?;
        if address.key.as_ref().is_empty() {
            return Ok(About { kind: Kind::Folder, size: 0, version: 0 });
        }
        if let Some(known) = self.listings.known(&address) {
            return known.ok_or_else(|| error::nothing_there(&address));
        }
        let bucket = bucket::open(&address)?;
        let key = address.key.clone();
        let found = runtime::run({
            let bucket = Arc::clone(&bucket);
            async move { bucket.head(&key).await }
        })?;
        match found {
            Ok(object) => Ok(about_object(&object)),
            Err(object_store::Error::NotFound { .. }) if listing::is_folder(&address)? => {
                Ok(About { kind: Kind::Folder, size: 0, version: 0 })
            }
            Err(object_store::Error::NotFound { .. }) => Err(error::nothing_there(&address)),
            Err(why) => Err(error::explained(&why, &address)),
        }
    }

    fn open(&self, path: &Path) -> io::Result<Opened> {
        object::open(Address::of(path)?)
    }

    fn forget(&self, path: &Path) {
        self.listings.forget(path);
    }
}
