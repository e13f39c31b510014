//! Dumps truncated at every byte, and with every byte replaced: they open or are refused, and never end the program.
#![allow(clippy::unwrap_used, missing_docs)]

mod dumps;

use std::fs;
use std::path::Path;

use dumps::{Scratch, call, dump_json, open};
use ulpscope_dump::Content;

/// Bytes that change the structure of a text, and some that are not valid text.
const REPLACEMENTS: &[u8] = b"\"[]{},:\\\n 9-.e\x00\x1f\xff";

/// Reads everything. Returns the number of entries and the number of problems.
fn read_all(path: &Path) -> Option<(usize, u64)> {
    let dump = open(path).ok()?;
    let rank = dump.steps[0].ranks[0].open().ok()?;
    let mut entries = 0;
    let mut failures = 0;
    for number in 0..rank.calls().len() {
        rank.name(number);
        rank.parent(number);
        assert_eq!(
            rank.stack(number).map(|stack| stack.len()),
            rank.frames(number).map(|frames| frames.len())
        );
        match rank.entries(number) {
            Ok(read) => {
                entries += read.len();
                for entry in &read {
                    if let Content::Tensor(tensor) = &entry.content {
                        let _ = rank.tensor(tensor);
                    }
                }
            }
            Err(_) => failures += 1,
        }
    }
    Some((entries, rank.problems().count() + failures))
}

/// Tries every mutation of a text under a name; `whole` is its number of entries if undamaged.
fn mutate(name: &str, text: &str, whole: usize) {
    let scratch = Scratch::new();
    let path = scratch.file(name, text);
    assert_eq!(read_all(&path), Some((whole, 0)));
    for cut in 0..text.len() {
        fs::write(&path, &text.as_bytes()[..cut]).unwrap();
        if let Some((entries, problems)) = read_all(&path) {
            assert!(entries <= whole);
            // Every loss must be reported, except white space and the end of a line.
            let complete = text[cut..].trim().is_empty();
            let lines = entries == whole || text[..cut].ends_with('\n') || text[cut..].starts_with('\n');
            assert!(complete || problems > 0 || lines, "cut at {cut}: {entries} entries, no problem");
        }
    }
    for at in 0..text.len() {
        for &byte in REPLACEMENTS {
            let mut bytes = text.as_bytes().to_vec();
            bytes[at] = byte;
            fs::write(&path, bytes).unwrap();
            read_all(&path);
        }
    }
}

#[test]
fn a_dump_json() {
    let body = call("", "x.pt");
    mutate("dump.json", &dump_json("tensor", &[("Functional.relu.0.forward", &body)]), 2);
}

#[test]
fn lines_of_ptdbg() {
    let text = "[\"Tensor_add_0_forward_input.0\", 0, [], \"torch.float32\", [2, 3], [2.0, NaN, 1.5]]\n\
                [\"Tensor_add_0_forward_input.1\", 0, [], \"<class 'int'>\", \"[]\", [3, 3, 3]]\n\
                [\"Tensor_add_0_forward_stack_info\", [[\"net.py\", \"7\", \"f\", \"x + 1\"]]]\n";
    mutate("dump.pkl", text, 2);
}

#[test]
fn lines_of_torch_npu_hooks() {
    let text = "[\"0_Torch_relu_forward_input.0\", [1.0, 2.0], \"torch.float32\", [2]]\n\
                [\"1_Torch_relu_forward_output\", [1.0, Infinity], \"torch.float32\", [2]]\n";
    mutate("full.pkl", text, 2);
}
