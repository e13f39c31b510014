//! The zip form: `archive/data.pkl` and one entry per storage, below a folder of any name.

use super::objects::Objects;
use super::storage::Storages;
use crate::budget::Budget;
use crate::bytes::Bytes;
use crate::error::{Error, Fault, Place, shortened};
use crate::pickle;
use crate::value::Value;
use crate::zip_entries::Archive;

pub(super) fn read(bytes: &Bytes) -> Result<Value, Error> {
    let budget = Budget::of_file(bytes.len());
    let mut archive = Archive::open(bytes, &budget)?;
    let Some((root, _)) = archive.names().next().and_then(|name| name.split_once('/')) else {
        let found = match archive.names().next() {
            Some(name) => format!("{:?}", shortened(name)),
            None => "no entries".to_owned(),
        };
        return Err(Error::whole(Fault::malformed("a torch archive, with its entries in one folder", found)));
    };
    let root = root.to_owned();
    let code = format!("{root}/code/");
    if archive.contains(&format!("{root}/constants.pkl"))
        || archive.names().any(|name| name.starts_with(&code))
    {
        return Err(Error::whole(Fault::Unsupported(
            "a TorchScript program, not saved tensors; load it with torch.jit.load and torch.save its state_dict()"
                .to_owned(),
        )));
    }
    let order_name = format!("{root}/byteorder");
    let big_endian = if archive.contains(&order_name) {
        match &archive.read(&order_name)?[..] {
            b"little" => false,
            b"big" => true,
            other => {
                let found = format!("{:?}", shortened(&String::from_utf8_lossy(other)));
                let fault = Fault::malformed("\"little\" or \"big\"", found);
                return Err(Error::whole(fault).in_part(&order_name));
            }
        }
    } else {
        false
    };
    let pickle_name = format!("{root}/data.pkl");
    let pickle_bytes = archive.read(&pickle_name)?;
    // A fault in a different entry already names that entry.
    let within = |error: Error| match error.place {
        Place::Part(_) => error,
        _ => error.in_part(&pickle_name),
    };
    let pickle = pickle::read(&pickle_bytes, 0, &budget).map_err(within)?;
    let storages = Storages::zip(archive, format!("{root}/data/"), big_endian, &budget);
    Objects::new(&pickle, storages, bytes.len(), &budget).root().map_err(within)
}
