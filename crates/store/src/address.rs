//! Paths of buckets.

use std::io;
use std::path::{Path, PathBuf};

use object_store::path::Path as Key;

/// How paths of buckets begin.
pub(crate) const SCHEMES: [&str; 2] = ["s3://", "gs://"];

/// A kind of store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Provider {
    S3,
    Google,
}

/// A bucket, and a key or the beginning of keys in it.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    pub(crate) provider: Provider,
    pub(crate) bucket: String,
    /// Empty for the bucket as a whole.
    pub(crate) key: Key,
}

impl Address {
    /// Reads a path. A key with a part that is empty, `.` or `..` is refused: as a path it would mean a different one.
    pub(crate) fn of(path: &Path) -> io::Result<Address> {
        let refused = |why: &str| io::Error::new(io::ErrorKind::InvalidInput, why.to_owned());
        let text = path.to_str().ok_or_else(|| refused("expected a path that is valid text"))?;
        let (provider, rest) = match (text.strip_prefix(SCHEMES[0]), text.strip_prefix(SCHEMES[1])) {
            (Some(rest), _) => (Provider::S3, rest),
            (_, Some(rest)) => (Provider::Google, rest),
            _ => return Err(refused("expected s3://BUCKET/KEY or gs://BUCKET/KEY")),
        };
        let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        if bucket.is_empty() || !bucket.bytes().all(is_plain) {
            return Err(refused(
                "expected the name of a bucket after the scheme: letters, digits, dots, hyphens and underscores",
            ));
        }
        if key.starts_with('/') {
            return Err(refused(EMPTY_PART));
        }
        let key = Key::parse(key).map_err(|_| refused(EMPTY_PART))?;
        Ok(Address { provider, bucket: bucket.to_owned(), key })
    }

    /// The address as a path.
    pub(crate) fn path(&self) -> PathBuf {
        let scheme = match self.provider {
            Provider::S3 => SCHEMES[0],
            Provider::Google => SCHEMES[1],
        };
        match self.key.as_ref() {
            "" => format!("{scheme}{}", self.bucket).into(),
            key => format!("{scheme}{}/{key}", self.bucket).into(),
        }
    }

    /// How the keys of what is in this folder begin.
    pub(crate) fn prefix(&self) -> String {
        match self.key.as_ref() {
            "" => String::new(),
            key => format!("{key}/"),
        }
    }
}

const EMPTY_PART: &str =
    "a key with a part that is empty, '.' or '..' names no file: copy the object to a plain key";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_a_bucket_and_a_key() {
        let address = Address::of(Path::new("gs://bucket/run/step0/")).expect("an address");
        assert_eq!((address.provider, address.bucket.as_str()), (Provider::Google, "bucket"));
        assert_eq!(address.path(), PathBuf::from("gs://bucket/run/step0"));
        assert_eq!(address.prefix(), "run/step0/");
        let whole = Address::of(Path::new("s3://bucket")).expect("an address");
        assert_eq!((whole.path(), whole.prefix()), (PathBuf::from("s3://bucket"), String::new()));
    }

    #[test]
    fn a_path_that_could_mean_a_different_key_is_refused() {
        for path in
            ["s3://", "s3:///key", "s3://a b/key", "s3://b/../c", "s3://b//c", "s3://b/c//d", "s3://b/./c"]
        {
            assert!(Address::of(Path::new(path)).is_err(), "{path}");
        }
    }
}
