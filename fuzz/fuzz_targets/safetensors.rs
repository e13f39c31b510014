//! Any bytes are read as tensors that can be accessed and written, or are an error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ulpscope_formats::{Bytes, safetensors};

fuzz_target!(|data: &[u8]| {
    if let Ok(value) = safetensors::read(&Bytes::from(data.to_vec())) {
        for (_, tensor) in value.tensors() {
            let view = tensor.view();
            if !view.is_empty() {
                view.get(0);
                view.get(view.len() - 1);
            }
        }
        let mut file = Vec::new();
        // A name that collides with another's dotted path is refused; everything else must be read back.
        if safetensors::write(&value, &mut file).is_ok() {
            let again = safetensors::read(&file.into()).expect("what was written can be read");
            assert_eq!(again.tensors().len(), value.tensors().len());
        }
    }
});
