//! `ulpscope run`: a Python script under capture.
//!
//! Capture lives inside the Python process it looks at, so there is nothing to do here but to find a Python that
//! has the package `ulpscope`, and to become it.
//!
//! `python3 -m ulpscope` would look for the package in the current folder first, and run whatever a folder `ulpscope` there
//! holds. So a line of Python takes the current folder from the path before anything is imported. Everything else that
//! Python looks at (PYTHONPATH, the user's packages) stays.

use std::ffi::OsString;
use std::io::Write;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use ulpscope_report::escape;

use crate::args::RunArgs;

/// What a Python may be called, the likelier first.
const PYTHONS: [&str; 2] = ["python3", "python"];

/// Takes the current folder from the path. Python puts it in front for a program given by `-c`, as the empty text,
/// unless it was asked not to. A place that holds nothing stands there instead, until the package puts the script's
/// own folder there.
const WITHOUT_CURRENT_FOLDER: &str = "import sys; sys.path[:1] = [p or '/dev/null' for p in sys.path[:1]]; ";

/// Says which Python this is; ends well where the package is, without loading it.
const HAS_ULPSCOPE: &str =
    "import importlib.util as u; print(sys.executable); sys.exit(u.find_spec('ulpscope') is None)";

/// The command of the package.
const COMMAND: &str = "from ulpscope._cli import main; sys.exit(main())";

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
        // The script's own output begins after this.
        let _ = writeln!(std::io::stderr(), "ulpscope: run uses {}", escape::terminal(&python.place));
        let mut command = Command::new(python.name);
        command.arg("-c").arg(format!("{WITHOUT_CURRENT_FOLDER}{COMMAND}")).arg("run").args(self.arguments);
        hand_over(command).with_context(|| format!("cannot start {}", python.name))
    }
}

/// A Python that has the package.
struct Python {
    /// As it is called.
    name: &'static str,
    /// Where it is.
    place: String,
}

fn python_with_ulpscope() -> anyhow::Result<Python> {
    let mut found = Vec::new();
    for name in PYTHONS {
        let mut command = Command::new(name);
        command.arg("-c").arg(format!("{WITHOUT_CURRENT_FOLDER}{HAS_ULPSCOPE}"));
        command.stdin(Stdio::null()).stderr(Stdio::null());
        let Ok(output) = command.output() else { continue };
        let place = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        if output.status.success() {
            return Ok(Python { name, place });
        }
        found.push(if place.is_empty() { name.to_owned() } else { format!("{name} ({place})") });
    }
    if found.is_empty() {
        bail!("run needs Python, and neither python3 nor python is on the PATH");
    }
    bail!(
        "run needs a Python that has the package ulpscope, and {} on the PATH does not have it: install it there with \
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
