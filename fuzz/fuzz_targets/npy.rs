//! Any bytes are read as a tensor that can be accessed and written, or are an error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ulpscope_formats::{Bytes, npy};

fuzz_target!(|data: &[u8]| {
    if let Ok(tensor) = npy::read(&Bytes::from(data.to_vec())) {
        let view = tensor.view();
        if !view.is_empty() {
            view.get(0);
            view.get(view.len() - 1);
        }
        let mut file = Vec::new();
        npy::write(&view, &mut file).expect("what was read can be written");
        let again = npy::read(&file.into()).expect("what was written can be read");
        assert_eq!((again.dtype(), again.shape()), (tensor.dtype(), tensor.shape()));
        assert_eq!(again.view().to_packed(), view.to_packed());
    }
});
