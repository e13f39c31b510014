//! The frame of a stack that belongs to the user.

/// Parts of paths that are not the user's: the framework, installed packages, the interpreter, the tools that
/// captured the run.
const FOREIGN: [&str; 5] = ["site-packages", "dist-packages", "/torch/", "<frozen ", "<string>"];

/// The innermost line of a stack that is the user's own code, as `file:line function: code`; the innermost of all,
/// if none is.
pub(crate) fn own_line(stack: &[String]) -> Option<String> {
    let own = stack.iter().find(|line| !FOREIGN.iter().any(|part| line.contains(part)));
    own.or(stack.first()).map(|line| short(line))
}

/// `File {path}, line {n}, in {function}, \n {code}` on one line.
fn short(line: &str) -> String {
    let parts = || {
        let rest = line.strip_prefix("File ")?;
        let (path, rest) = rest.split_once(", line ")?;
        let (number, rest) = rest.split_once(", in ")?;
        let (function, code) = rest.split_once(", \n").unwrap_or((rest, ""));
        Some(format!("{path}:{number} {function}: {}", code.trim()))
    };
    parts().unwrap_or_else(|| line.split_whitespace().collect::<Vec<_>>().join(" "))
}
