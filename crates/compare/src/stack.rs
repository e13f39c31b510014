//! The frame of a stack that belongs to the user.

/// Parts of paths outside of the user's code: the framework, installed packages, the interpreter, the capture tools.
const FOREIGN: [&str; 5] = ["site-packages", "dist-packages", "/torch/", "<frozen ", "<string>"];

/// The innermost line of a stack in the user's code, as `file:line function: code`; the innermost of all if there is
/// none.
pub fn own_line(stack: &[String]) -> Option<String> {
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
