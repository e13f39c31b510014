//! The frames of a stack that a reader looks for: the user's, and the innermost outside of torch.
//!
//! In a model of a library, all calls have the same line of the user. The line of the library tells them apart.

/// Parts of paths of installed packages.
const PACKAGES: [&str; 2] = ["site-packages", "dist-packages"];

/// Parts of paths of the framework, of its plugins, of the capture tools, and of generated code.
const MACHINERY: [&str; 6] = ["/torch/", "/torch_npu/", "/ulpscope/", "/msprobe/", "<frozen ", "<string>"];

/// The folder of the interpreter's own modules, which also has the packages.
const STANDARD_LIBRARY: &str = "/lib/python3";

/// The lines of code that made a call, each as `file:line function: code`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CodeLines {
    /// The innermost line of the user's code; of a library if there is none; then of torch.
    pub own: Option<String>,
    /// The innermost line outside of torch and the capture tools, if it is a different one.
    pub inner: Option<String>,
}

impl CodeLines {
    /// The lines of a stack, innermost frame first.
    pub fn of(stack: &[String]) -> CodeLines {
        let inner = stack.iter().find(|line| !is_machinery(line));
        let own = stack.iter().find(|line| !is_package(line) && !is_machinery(line));
        let own = own.or(inner).or(stack.first());
        let inner = inner.filter(|inner| Some(*inner) != own);
        CodeLines { own: own.map(|line| short(line)), inner: inner.map(|line| short(line)) }
    }
}

fn is_package(line: &str) -> bool {
    PACKAGES.iter().any(|part| path(line).contains(part))
}

/// Whether a frame only passes calls on.
fn is_machinery(line: &str) -> bool {
    let path = path(line);
    MACHINERY.iter().any(|part| path.contains(part)) || path.contains(STANDARD_LIBRARY) && !is_package(line)
}

/// The path of a frame; all of it if it is written in a different way.
fn path(line: &str) -> &str {
    line.split_once(", line ").map_or(line, |(path, _)| path)
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

#[cfg(test)]
mod tests {
    use super::*;

    const LIBRARY: &str =
        "File /env/lib/python3.12/site-packages/transformers/llama.py, line 90, in forward, \n q = self.q(x)";
    const TORCH: &str = "File /env/lib/python3.12/site-packages/torch/nn/linear.py, line 5, in forward, \n return F.linear(x)";
    const USER: &str = "File /home/me/train.py, line 7, in main, \n loss = model(x)";

    fn lines(stack: &[&str]) -> (Option<String>, Option<String>) {
        let stack: Vec<String> = stack.iter().map(|&line| line.to_owned()).collect();
        let CodeLines { own, inner } = CodeLines::of(&stack);
        (own, inner)
    }

    #[test]
    fn a_library_call_has_the_users_line_and_the_librarys() {
        let (own, inner) = lines(&[TORCH, LIBRARY, USER]);
        assert_eq!(own.as_deref(), Some("/home/me/train.py:7 main: loss = model(x)"));
        let library = "/env/lib/python3.12/site-packages/transformers/llama.py:90 forward: q = self.q(x)";
        assert_eq!(inner.as_deref(), Some(library));
    }

    #[test]
    fn one_line_is_enough_where_both_are_the_same() {
        assert_eq!(lines(&[TORCH, USER]).1, None);
        assert_eq!(lines(&[TORCH]).1, None);
        assert_eq!(lines(&[]), (None, None));
        // A library's own program.
        assert_eq!(lines(&[TORCH, LIBRARY]), (lines(&[LIBRARY]).0, None));
    }

    #[test]
    fn decorators_and_text_in_code_are_not_looked_at() {
        let decorator = "File /usr/lib/python3.12/contextlib.py, line 81, in inner, \n return func(*args)";
        assert_eq!(lines(&[decorator, USER]).0, lines(&[USER]).0);
        let opened = "File /home/me/a.py, line 1, in main, \n x = torch.load(\"/torch/x\")";
        assert_eq!(
            lines(&[opened, USER]).0.as_deref(),
            Some("/home/me/a.py:1 main: x = torch.load(\"/torch/x\")")
        );
    }
}
