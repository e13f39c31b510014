//! Any bytes are read as a value that can be written and whose tensors can be accessed, or are an error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ulpscope_formats::{Bytes, Value, pt};

/// Tensors may have more elements than bytes; larger values are not written here.
const MAX_WRITTEN: usize = 1 << 22;

fn written(value: &Value) -> Option<Vec<u8>> {
    let mut file = Vec::new();
    pt::write(value, &mut file).ok().map(|()| file)
}

fuzz_target!(|data: &[u8]| {
    if let Ok(value) = pt::read(&Bytes::from(data.to_vec())) {
        let tensors = value.tensors();
        let mut size = 0usize;
        for (_, tensor) in &tensors {
            let view = tensor.view();
            if !view.is_empty() {
                view.get(0);
                view.get(view.len() - 1);
            }
            size = size.saturating_add(view.packed_size());
        }
        // Opaque values, and keys that Python does not allow, cannot be written.
        if size <= MAX_WRITTEN
            && let Some(file) = written(&value)
        {
            let again = pt::read(&file.into()).expect("what was written can be read");
            let again = again.tensors();
            assert_eq!(again.len(), tensors.len());
            for ((name, tensor), (name_again, tensor_again)) in tensors.iter().zip(&again) {
                assert_eq!(name_again, name);
                assert_eq!((tensor_again.dtype(), tensor_again.shape()), (tensor.dtype(), tensor.shape()));
                assert_eq!(tensor_again.view().to_packed(), tensor.view().to_packed());
            }
        }
    }
});
