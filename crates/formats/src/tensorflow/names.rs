//! What the names of TensorFlow's dumps say of a tensor.

/// The only debug operator whose file has the elements of the tensor.
const IDENTITY: &str = "_DebugIdentity_";

/// Fewest digits of a time in microseconds; older tools write 14 of them.
const TIME_DIGITS: usize = 14;

/// A file of TensorFlow's debugger, by its path below the folder of its device:
/// `LeNet/conv1/Conv2D_0_DebugIdentity_1794722146114779`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DebugFileName {
    /// `LeNet/conv1/Conv2D`.
    pub node: String,
    /// Which of its outputs.
    pub output: u32,
    /// When it was written, in microseconds.
    pub time: u64,
}

/// A tensor that was saved as an array: `LeNet_conv1_Conv2D.0.1794722157959595.npy`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NpyName {
    /// The operator, with `_` for `/`.
    pub node: String,
    /// Which of its outputs.
    pub output: u32,
    /// When it was written, in microseconds.
    pub time: u64,
}

impl DebugFileName {
    /// The parts of a path; nothing if it is not one of the debugger's.
    pub fn parse(path: &str) -> Option<DebugFileName> {
        let (front, time) = path.rsplit_once(IDENTITY)?;
        // A second file of the same microsecond has a number after it.
        let time = number(time.split_once('-').map_or(time, |(time, _)| time))?;
        let (node, output) = front.rsplit_once('_')?;
        Some(DebugFileName { node: node.to_owned(), output: output.parse().ok()?, time })
    }
}

impl NpyName {
    /// The parts of a name: `name.output.time.npy` or `name.output.execution.time.npy`.
    pub fn parse(name: &str) -> Option<NpyName> {
        let fields: Vec<&str> = name.strip_suffix(".npy")?.split('.').collect();
        let (node, output, time) = match fields.as_slice() {
            [node, output, time] => (node, output, time),
            [node, output, execution, time] => {
                number(execution)?;
                (node, output, time)
            }
            _ => return None,
        };
        if node.is_empty() || time.len() < TIME_DIGITS {
            return None;
        }
        let output = number(output)?.try_into().ok()?;
        Some(NpyName { node: (*node).to_owned(), output, time: number(time)? })
    }
}

/// The tensor that was fed, if a node passes on a feed: `_arg_x_0_1` is output 0 of `x`, the second feed. Sessions replace
/// placeholders by such nodes.
pub fn argument_name(node: &str) -> Option<(&str, u32)> {
    let fed = match node.strip_prefix("_arg_") {
        Some(rest) => {
            let (fed, position) = rest.rsplit_once('_')?;
            number(position)?;
            fed
        }
        None => node.strip_prefix("_recv_")?,
    };
    let (name, output) = fed.rsplit_once('_')?;
    let output = number(output)?.try_into().ok()?;
    (!name.is_empty()).then_some((name, output))
}

fn number(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}
