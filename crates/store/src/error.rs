//! What went wrong at a store, and what to do.

use std::io;

use object_store::Error;

use crate::address::{Address, Provider};

/// Characters of a server's answer that a message shows.
const SHOWN: usize = 300;

/// Nothing has this name.
pub(crate) fn nothing_there(address: &Address) -> io::Error {
    let message = format!(
        "there is no object or folder of this name in the bucket {}: list the bucket for the right one",
        address.bucket
    );
    io::Error::new(io::ErrorKind::NotFound, message)
}

/// The object is not the one that was opened.
pub(crate) fn changed() -> io::Error {
    io::Error::other(
        "changed while it was read: another program writes to it; read it again when that is done",
    )
}

/// The error of a client, for people.
pub(crate) fn explained(why: &Error, address: &Address) -> io::Error {
    let bucket = &address.bucket;
    let said = said(why);
    let (kind, message) = match why {
        Error::NotFound { .. } if is_no_bucket(&said) => (
            io::ErrorKind::NotFound,
            format!("there is no bucket {bucket}: check its name{}", endpoint(address.provider)),
        ),
        Error::NotFound { .. } => return nothing_there(address),
        Error::Precondition { .. } => return changed(),
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => (
            io::ErrorKind::PermissionDenied,
            format!("the bucket {bucket} refuses to be read: {} ({said})", credentials(address.provider)),
        ),
        Error::InvalidPath { .. } => (
            io::ErrorKind::InvalidData,
            format!(
                "a key of the bucket {bucket} has a control character or a part that is empty, '.' or '..', and names no file: move that \
                 object elsewhere ({said})"
            ),
        ),
        _ => (
            io::ErrorKind::Other,
            format!(
                "the bucket {bucket} could not be read: check the network{} and the credentials, then try again ({said})",
                endpoint(address.provider)
            ),
        ),
    };
    io::Error::new(kind, message)
}

fn is_no_bucket(said: &str) -> bool {
    said.contains("NoSuchBucket") || said.contains("The specified bucket does not exist")
}

fn credentials(provider: Provider) -> &'static str {
    match provider {
        Provider::S3 => {
            "set AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION to those of an account that may list and read it"
        }
        Provider::Google => {
            "set GOOGLE_APPLICATION_CREDENTIALS to the credentials of an account that may list and read it"
        }
    }
}

fn endpoint(provider: Provider) -> &'static str {
    match provider {
        Provider::S3 => ", AWS_REGION, AWS_ENDPOINT_URL",
        Provider::Google => "",
    }
}

/// What the client said, in one line without control characters: a part of it comes from the server.
fn said(why: &Error) -> String {
    let mut innermost: &dyn std::error::Error = why;
    let mut all = why.to_string();
    while let Some(source) = innermost.source() {
        innermost = source;
        let text = source.to_string();
        if !all.contains(&text) {
            all.push_str(": ");
            all.push_str(&text);
        }
    }
    let plain: String =
        all.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).take(SHOWN).collect();
    if all.chars().nth(SHOWN).is_some() { format!("{plain}…") } else { plain }
}
