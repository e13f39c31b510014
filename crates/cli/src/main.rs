//! The command `ulpscope`. Everything it does is in the library beside it, which the Python package calls too.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(ulpscope_cli::run(std::env::args_os(), None))
}
