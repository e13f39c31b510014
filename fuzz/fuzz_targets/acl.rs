//! Any bytes are read as tensors that can be accessed and written, or are an error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ulpscope_formats::{Bytes, acl};

fuzz_target!(|data: &[u8]| {
    let _ = acl::read_statistics(&Bytes::from(data.to_vec()));
    let _ = acl::read_op_debug(data);
    if let Ok(dump) = acl::read(&Bytes::from(data.to_vec())) {
        for (_, tensor) in dump.to_value().tensors() {
            let view = tensor.view();
            if !view.is_empty() {
                view.get(0);
                view.get(view.len() - 1);
            }
        }
        for layout in ["NCHW", "ND", "FRACTAL_NZ", "FRACTAL_Z"].into_iter().filter_map(acl::Format::from_name)
        {
            for part in dump.parts(Some(layout), true) {
                if let acl::PartContent::Tensor(tensor) = part.content {
                    assert_eq!(tensor.view().len(), tensor.shape().iter().product::<usize>());
                }
            }
        }
        let mut file = Vec::new();
        acl::write(&dump, &mut file).expect("what was read can be written");
        // A dump without any content has an empty header, which is refused as an empty file.
        if file[..8] != [0; 8] {
            let again = acl::read(&file.into()).expect("what was written can be read");
            assert_eq!(format!("{again:?}"), format!("{dump:?}"));
        }
    }
});
