//! `ulpscope run`: a Python script under capture. Capture works inside the Python process.

use std::ffi::OsString;

use crate::args::RunArgs;
use crate::python::run_in_python;

/// The request of `run`: flags, script and arguments, as typed.
pub(crate) struct Run {
    arguments: Vec<OsString>,
}

impl From<RunArgs> for Run {
    fn from(args: RunArgs) -> Self {
        Self { arguments: args.arguments }
    }
}

impl Run {
    pub(crate) fn run(self) -> anyhow::Result<u8> {
        let words = std::iter::once(OsString::from("run")).chain(self.arguments);
        run_in_python("run", words.collect())
    }
}
