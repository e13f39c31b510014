//! Groups lines into operations, as torch_npu.hooks does: up to and including the next line whose name says `output`.
//!
//! So the second output of a call is a separate operation, and a call without outputs is part of the next.

use ulpscope_dump::{Content, Entry, Rank};

use super::super::fingerprint::Fingerprint;
use super::super::lines::{LinePlace, Met, is_tensor, walk};
use super::super::queues::Queued;

/// One operation. A call that cannot be read has no lines: it stays in the queues, so that later ones keep their
/// places, and matches nothing.
pub(super) struct Op {
    pub(super) start: LinePlace,
    pub(super) lines: u32,
    pub(super) bytes: u64,
    key: u128,
}

impl Queued for Op {
    fn key(&self) -> u128 {
        self.key
    }
}

/// The operations of a rank, and what belongs to none.
#[derive(Default)]
pub(super) struct Ops {
    pub(super) ops: Vec<Op>,
    /// Where lines begin that no output follows, and how many they are.
    pub(super) trailing: Option<(LinePlace, u32)>,
    /// Why calls cannot be read, in words.
    pub(super) unread: Vec<String>,
}

/// An operation that lines are still added to.
struct Open {
    start: LinePlace,
    lines: u32,
    bytes: u64,
    key: Fingerprint,
}

/// Groups the lines of a rank. With `shapes`, operations are alike only if dtypes and shapes are.
pub(super) fn group(rank: &Rank, shapes: bool) -> Ops {
    let mut ops = Ops::default();
    let mut open: Option<Open> = None;
    walk(rank, is_tensor, |met| match met {
        Met::Line(place, entry) => {
            let mut op = open.take().unwrap_or_else(|| Open {
                start: place,
                lines: 0,
                bytes: 0,
                key: Fingerprint::new(),
            });
            op.take(entry, shapes);
            if entry.name.contains("output") {
                let Open { start, lines, bytes, key } = op;
                ops.ops.push(Op { start, lines, bytes, key: key.finish() });
            } else {
                open = Some(op);
            }
        }
        Met::CallEnd(_) => {}
        Met::Unread(start, error) => {
            ops.ops.push(Op { start, lines: 0, bytes: 0, key: 0 });
            ops.unread.push(error.to_string());
        }
    });
    ops.trailing = open.map(|open| (open.start, open.lines));
    ops
}

impl Open {
    fn take(&mut self, entry: &Entry, shapes: bool) {
        self.key.take(without_number(&entry.name));
        if let Content::Tensor(tensor) = &entry.content {
            self.bytes = self.bytes.saturating_add(tensor.size());
            if shapes {
                self.key.take((&tensor.dtype, &tensor.shape));
            }
        }
        self.lines += 1;
    }
}

/// The name without the running number of its line: `Functional_conv2d_forward_input.0`.
fn without_number(name: &str) -> &str {
    match name.split_once('_') {
        Some((number, rest)) if number.bytes().all(|byte| byte.is_ascii_digit()) => rest,
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn running_numbers_are_no_part_of_a_name() {
        assert_eq!(without_number("12_Torch_relu_forward_output"), "Torch_relu_forward_output");
        assert_eq!(without_number("Torch_relu_forward_output"), "Torch_relu_forward_output");
    }
}
