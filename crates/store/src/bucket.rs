//! Buckets and their clients. Credentials, region and endpoint come from the usual variables.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use object_store::aws::AmazonS3Builder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::list::PaginatedListStore;
use object_store::{BackoffConfig, ObjectStore, RetryConfig};

use crate::address::{Address, Provider};
use crate::error;

/// What a client can do.
pub(crate) trait Bucket: ObjectStore + PaginatedListStore {}

impl<T: ObjectStore + PaginatedListStore> Bucket for T {}

/// How often a request is made before it fails, if `AWS_MAX_ATTEMPTS` does not say so.
const ATTEMPTS: usize = 8;

/// After this time no request is made again.
const PATIENCE: Duration = Duration::from_secs(90);

/// Makes sense of a client.
#[derive(PartialEq, Eq, Hash)]
struct Known {
    provider: Provider,
    bucket: String,
    /// A process that was forked off cannot use the connections of the first one.
    process: u32,
    /// The variables that the client was made from: a program may change them.
    variables: Vec<(String, String)>,
}

/// The client of a bucket.
pub(crate) fn open(address: &Address) -> io::Result<Arc<dyn Bucket>> {
    static CLIENTS: Mutex<Option<HashMap<Known, Arc<dyn Bucket>>>> = Mutex::new(None);
    let known = Known {
        provider: address.provider,
        bucket: address.bucket.clone(),
        process: std::process::id(),
        variables: variables(address.provider),
    };
    let mut clients = CLIENTS.lock().unwrap_or_else(PoisonError::into_inner);
    let clients = clients.get_or_insert_default();
    if let Some(client) = clients.get(&known) {
        return Ok(Arc::clone(client));
    }
    let client = connect(address, &known.variables)?;
    clients.insert(known, Arc::clone(&client));
    Ok(client)
}

fn connect(address: &Address, variables: &[(String, String)]) -> io::Result<Arc<dyn Bucket>> {
    let value =
        |name: &str| variables.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
    let attempts = value("AWS_MAX_ATTEMPTS").and_then(|text| text.parse().ok()).unwrap_or(ATTEMPTS);
    let retry = RetryConfig {
        backoff: BackoffConfig {
            init_backoff: Duration::from_millis(100),
            max_backoff: Duration::from_secs(10),
            base: 2.,
        },
        max_retries: attempts.max(1) - 1,
        retry_timeout: PATIENCE,
    };
    // Who installed one before has a reason; ours is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let explained = |why: object_store::Error| error::explained(&why, address);
    match address.provider {
        Provider::S3 => {
            let endpoint =
                value("AWS_ENDPOINT_URL_S3").or(value("AWS_ENDPOINT_URL")).or(value("AWS_ENDPOINT"));
            let allows = value("AWS_ALLOW_HTTP").is_some_and(|text| text.eq_ignore_ascii_case("true"));
            if let Some(endpoint) = endpoint.filter(|endpoint| endpoint.starts_with("http://") && !allows) {
                let message = format!(
                    "the endpoint {endpoint} is not encrypted: set AWS_ALLOW_HTTP=true if that is intended, or use https"
                );
                return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
            }
            let builder = AmazonS3Builder::from_env().with_bucket_name(&address.bucket).with_retry(retry);
            Ok(Arc::new(builder.build().map_err(explained)?))
        }
        Provider::Google => {
            let builder =
                GoogleCloudStorageBuilder::from_env().with_bucket_name(&address.bucket).with_retry(retry);
            Ok(Arc::new(builder.build().map_err(explained)?))
        }
    }
}

/// The variables that clients are made from, sorted.
fn variables(provider: Provider) -> Vec<(String, String)> {
    let is_its = |name: &str| match provider {
        Provider::S3 => name.starts_with("AWS_"),
        Provider::Google => {
            name.starts_with("GOOGLE_") || name == "SERVICE_ACCOUNT" || name == "AWS_MAX_ATTEMPTS"
        }
    };
    let all = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let mut found: Vec<(String, String)> = all.filter(|(name, _)| is_its(name)).collect();
    found.sort();
    found
}
