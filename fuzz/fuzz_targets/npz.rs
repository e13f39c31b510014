//! Any bytes are read as arrays that can be accessed and written, or are an error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ulpscope_formats::{Bytes, npz};

fuzz_target!(|data: &[u8]| {
    if let Ok(value) = npz::read(&Bytes::from(data.to_vec())) {
        let tensors = value.tensors();
        for (_, tensor) in &tensors {
            let view = tensor.view();
            if !view.is_empty() {
                view.get(0);
                view.get(view.len() - 1);
            }
        }
        let mut file = Vec::new();
        // An array that cannot be read is replaced by the reason, which an archive cannot contain.
        if npz::write(&value, &mut file).is_ok() {
            let again = npz::read(&file.into()).expect("what was written can be read");
            let again = again.tensors();
            assert_eq!(again.len(), tensors.len());
            for ((name, tensor), (name_again, tensor_again)) in tensors.iter().zip(&again) {
                assert_eq!(name_again, name);
                assert_eq!((tensor_again.dtype(), tensor_again.shape()), (tensor.dtype(), tensor.shape()));
                assert_eq!(tensor_again.view().to_packed(), tensor.view().to_packed());
            }
        } else {
            let not_carried = value.opaque().len() + value.unread().len();
            assert!(not_carried > 0, "only what is not carried cannot be written");
        }
    }
});
