//! `ulpscope run`: a Python script under capture.
//!
//! Capture lives inside the Python process it looks at, so there is nothing to do here but to find a Python that
//! has the package `ulpscope`, and to become it: `ulpscope run …` is `python3 -m ulpscope run …`.

use std::ffi::OsString;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

use crate::args::RunArgs;

/// What a Python may be called, the likelier first.
const PYTHONS: [&str; 2] = ["python3", "python"];

/// A program that ends well where the package is, without loading it.
const HAS_ULPSCOPE: &str = "import importlib.util as u, sys; sys.exit(u.find_spec('ulpscope') is None)";

/// What `run` has been asked for: flags, script and arguments, as they were typed.
pub(crate) struct Run {
    arguments: Vec<OsString>,
}

impl From<RunArgs> for Run {
    fn from(args: RunArgs) -> Self {
        Self { arguments: args.arguments }
    }
}

impl Run {
    /// Becomes Python, or where a process cannot become another, waits for it and returns its exit code.
    pub(crate) fn run(self) -> anyhow::Result<u8> {
        let python = python_with_ulpscope()?;
        let mut command = Command::new(python);
        command.args(["-m", "ulpscope", "run"]).args(self.arguments);
        hand_over(command).with_context(|| format!("cannot start {python}"))
    }
}

fn python_with_ulpscope() -> anyhow::Result<&'static str> {
    let mut found = Vec::new();
    for python in PYTHONS {
        let mut command = Command::new(python);
        command.args(["-c", HAS_ULPSCOPE]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        match command.status() {
            Ok(status) if status.success() => return Ok(python),
            Ok(_) => found.push(python),
            Err(_) => {}
        }
    }
    if found.is_empty() {
        bail!("run needs Python, and neither python3 nor python is on the PATH");
    }
    bail!(
        "run needs a Python that has the package ulpscope, and {} on the PATH has not: install it there with \
         pip install ulpscope, or activate the environment that has it",
        found.join(" and ")
    )
}

#[cfg(unix)]
fn hand_over(mut command: Command) -> std::io::Result<u8> {
    use std::os::unix::process::CommandExt;

    // Signals and the exit status then are the script's own. Returns only when it fails.
    Err(command.exec())
}

#[cfg(not(unix))]
fn hand_over(mut command: Command) -> std::io::Result<u8> {
    let code = command.status()?.code();
    Ok(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}
