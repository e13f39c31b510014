//! Any bytes as a .pt file: an error or a value, whose tensors can then be read.

#![no_main]

use libfuzzer_sys::fuzz_target;
use ulpscope_formats::{Bytes, pt};

fuzz_target!(|data: &[u8]| {
    if let Ok(value) = pt::read(&Bytes::from(data.to_vec())) {
        for (_, tensor) in value.tensors() {
            let view = tensor.view();
            if !view.is_empty() {
                view.get(0);
                view.get(view.len() - 1);
            }
        }
    }
});
