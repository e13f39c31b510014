//! Any bytes under any file name: a format reads them or there is an error, and the tensors can be accessed.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use ulpscope_formats::Bytes;
use ulpscope_formats::file::{self, Format};

/// The first byte of the input chooses a name.
const NAMES: [&str; 10] = [
    "x",
    "x.npy",
    "x.npz",
    "x.pt",
    "x.pkl",
    "x.safetensors",
    "x.json",
    "dump.json",
    "stack.json",
    "Add.add.1.2.1767261601226215",
];

fuzz_target!(|data: &[u8]| {
    let Some((&choice, content)) = data.split_first() else { return };
    let name = NAMES[usize::from(choice) % NAMES.len()];
    let bytes = Bytes::from(content.to_vec());
    if let Ok(format) = Format::detect(Path::new(name), &bytes)
        && let Ok(value) = file::decode(format, &bytes)
    {
        for (_, tensor) in value.tensors() {
            let view = tensor.view();
            if !view.is_empty() {
                view.get(0);
                view.get(view.len() - 1);
            }
        }
        value.opaque();
    }
});
