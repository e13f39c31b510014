//! What a machine has of a dump.

use std::io::ErrorKind;
use std::path::Path;

use serde::{Deserialize, Serialize};
use ulpscope_dump::{Dump, Inputs, Select};
use ulpscope_formats::storage;

/// The steps and ranks that one machine has.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct FoundDump {
    /// The dump.
    pub(crate) dump: Dump,
    /// One for each rank of each step, in order.
    pub(crate) inputs: Vec<Inputs>,
}

impl FoundDump {
    /// Looks for a dump on this machine.
    pub(crate) fn of(dump: Dump) -> FoundDump {
        let places = dump.steps.iter().flat_map(|step| &step.ranks);
        let inputs = places.map(ulpscope_dump::RankPlace::inputs).collect();
        FoundDump { dump, inputs }
    }

    /// Reads what [`find`] returned.
    pub(crate) fn parse(text: &str) -> Result<FoundDump, String> {
        serde_json::from_str(text).map_err(|error| format!("not a listing of ulpscope: {error}"))
    }
}

/// What this machine has of a dump, as JSON; `None` if there is no such path here. An error says what is wrong with it.
pub fn find(path: &Path) -> Result<Option<String>, String> {
    match storage::about(path) {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("{}: {error}", path.display())),
    }
    let dump = Dump::open(path, &Select::default()).map_err(|error| error.to_string())?;
    serde_json::to_string(&FoundDump::of(dump)).map(Some).map_err(|error| error.to_string())
}
