//! `ulpscope check`: the calls of a dump, made again. Only torch can make them, so Python does.

use std::ffi::OsString;

use crate::args::CheckArgs;
use crate::python::run_in_python;

/// The request of `check`: its arguments, as typed.
pub(crate) struct Check {
    arguments: Vec<OsString>,
}

impl From<CheckArgs> for Check {
    fn from(args: CheckArgs) -> Self {
        Self { arguments: args.arguments }
    }
}

impl Check {
    pub(crate) fn run(self) -> anyhow::Result<u8> {
        let words = std::iter::once(OsString::from("check")).chain(self.arguments);
        run_in_python("check", words.collect())
    }
}
