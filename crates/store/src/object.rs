//! Objects, read by ranges.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use futures_util::future::try_join_all;
use futures_util::stream::StreamExt;
use object_store::{GetOptions, GetRange, ObjectMeta, ObjectStoreExt};
use ulpscope_formats::storage::{Object, Opened};

use crate::address::Address;
use crate::bucket::{self, Bucket};
use crate::{error, runtime};

/// What is read of an object when it is opened: most small files whole, and the beginning of others.
const BEGINNING: u64 = 256 << 10;

/// An object as it was when it was opened.
struct BucketObject {
    address: Address,
    bucket: Arc<dyn Bucket>,
    seen: Arc<ObjectMeta>,
}

/// Why a range was not read.
enum Unread {
    Store(object_store::Error),
    Changed,
    /// The answer has a different number of bytes.
    Length(usize),
}

/// Opens an object with one request, which also reads its beginning.
pub(crate) fn open(address: Address) -> io::Result<Opened> {
    let bucket = bucket::open(&address)?;
    let (client, key) = (Arc::clone(&bucket), address.key.clone());
    let first = runtime::run(async move {
        let range = Some(GetRange::Bounded(0..BEGINNING));
        let answer = client.get_opts(&key, GetOptions { range, ..GetOptions::default() }).await;
        match answer {
            Ok(answer) => {
                let (seen, length) = (answer.meta.clone(), answer.range.end - answer.range.start);
                Ok((seen, bytes(answer, length as usize).await?))
            }
            // An empty object has no range; servers say so in different ways.
            Err(why) => match client.head(&key).await {
                Ok(seen) if seen.size == 0 => Ok((seen, Vec::new())),
                _ => Err(Unread::Store(why)),
            },
        }
    })?;
    let (seen, beginning) = first.map_err(|why| explained(why, &address))?;
    Ok(Opened { object: Arc::new(BucketObject { address, bucket, seen: Arc::new(seen) }), beginning })
}

impl Object for BucketObject {
    fn size(&self) -> u64 {
        self.seen.size
    }

    fn read(&self, ranges: &[Range<u64>]) -> io::Result<Vec<Vec<u8>>> {
        let parts: Vec<_> = ranges
            .iter()
            .map(|range| part(Arc::clone(&self.bucket), Arc::clone(&self.seen), range.clone()))
            .collect();
        runtime::run(try_join_all(parts))?.map_err(|why| explained(why, &self.address))
    }
}

/// Reads a range, if the object is still the same.
async fn part(bucket: Arc<dyn Bucket>, seen: Arc<ObjectMeta>, range: Range<u64>) -> Result<Vec<u8>, Unread> {
    let length = (range.end - range.start) as usize;
    let options = GetOptions {
        range: Some(GetRange::Bounded(range)),
        if_match: seen.e_tag.clone(),
        ..GetOptions::default()
    };
    let answer = bucket.get_opts(&seen.location, options).await;
    let answer = match answer {
        Ok(answer) => answer,
        // It was there when it was opened, and was as long.
        Err(object_store::Error::NotFound { .. }) => return Err(Unread::Changed),
        Err(why) => {
            return match bucket.head(&seen.location).await {
                Ok(now) if !is_same(&now, &seen) => Err(Unread::Changed),
                _ => Err(Unread::Store(why)),
            };
        }
    };
    if !is_same(&answer.meta, &seen) {
        return Err(Unread::Changed);
    }
    let read = bytes(answer, length).await?;
    if read.len() == length { Ok(read) } else { Err(Unread::Length(read.len())) }
}

fn is_same(now: &ObjectMeta, seen: &ObjectMeta) -> bool {
    now.size == seen.size && now.e_tag == seen.e_tag && now.last_modified == seen.last_modified
}

/// The bytes of an answer, and no more than were asked for.
async fn bytes(answer: object_store::GetResult, length: usize) -> Result<Vec<u8>, Unread> {
    let mut read = Vec::with_capacity(length.min(BEGINNING as usize));
    let mut stream = answer.into_stream();
    while let Some(piece) = stream.next().await {
        let piece = piece.map_err(Unread::Store)?;
        if piece.len() > length - read.len() {
            return Err(Unread::Length(read.len() + piece.len()));
        }
        read.extend_from_slice(&piece);
    }
    Ok(read)
}

fn explained(why: Unread, address: &Address) -> io::Error {
    match why {
        Unread::Store(why) => error::explained(&why, address),
        Unread::Changed => error::changed(),
        Unread::Length(found) => io::Error::new(
            io::ErrorKind::UnexpectedEof,
            format!("the bucket {} sent a wrong number of bytes ({found}): try again", address.bucket),
        ),
    }
}
