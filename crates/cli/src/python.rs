//! Commands that need Python: found, and this process replaced with it.
//!
//! `python3 -m ulpscope` would search the current folder first, and run the contents of any folder `ulpscope` there. So
//! a line of Python removes the current folder from the path before any import. The rest of Python's search path
//! (PYTHONPATH, the user's packages) stays.

use std::ffi::OsString;
use std::io::Write;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use ulpscope_report::escape;

/// Names of Python executables, the most likely first.
const PYTHONS: [&str; 2] = ["python3", "python"];

/// Removes the current folder from the path. For a program given by `-c`, Python puts it first, as an empty string,
/// unless told not to. It is replaced by a path without modules, until the package puts the script's own folder there.
const WITHOUT_CURRENT_FOLDER: &str = "import sys; sys.path[:1] = [p or '/dev/null' for p in sys.path[:1]]; ";

/// Prints which Python this is; exits with 0 if the package exists, without loading it.
const HAS_ULPSCOPE: &str =
    "import importlib.util as u; print(sys.executable); sys.exit(u.find_spec('ulpscope') is None)";

/// The command of the package.
const COMMAND: &str = "from ulpscope._cli import main; sys.exit(main())";

/// Replaces this process with Python, which runs the package with these arguments; where that is impossible, waits for it
/// and returns its exit code. `command` is named in messages.
pub(crate) fn run_in_python(command: &str, arguments: Vec<OsString>) -> anyhow::Result<u8> {
    let python = python_with_ulpscope(command)?;
    // What Python prints begins after this.
    let _ = writeln!(std::io::stderr(), "ulpscope: {command} uses {}", escape::terminal(&python.place));
    let mut process = Command::new(python.name);
    process.arg("-c").arg(format!("{WITHOUT_CURRENT_FOLDER}{COMMAND}")).args(arguments);
    hand_over(process).with_context(|| format!("cannot start {}", python.name))
}

/// A Python that has the package.
struct Python {
    /// Its command name.
    name: &'static str,
    /// Where it is.
    place: String,
}

fn python_with_ulpscope(needed_by: &str) -> anyhow::Result<Python> {
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
        bail!("{needed_by} needs Python, and neither python3 nor python is on the PATH");
    }
    bail!(
        "{needed_by} needs a Python that has the package ulpscope, and {} on the PATH does not have it: install it there with \
         pip install ulpscope, or activate the environment that has it",
        found.join(" and ")
    )
}

#[cfg(unix)]
fn hand_over(mut command: Command) -> std::io::Result<u8> {
    use std::os::unix::process::CommandExt;

    // Signals and the exit status are then the script's own. Returns only on failure.
    Err(command.exec())
}

#[cfg(not(unix))]
fn hand_over(mut command: Command) -> std::io::Result<u8> {
    let code = command.status()?.code();
    Ok(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}
