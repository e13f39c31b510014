//! Any bytes are a tensor of TensorFlow's debugger that can be accessed, a graph, or an error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ulpscope_formats::{Bytes, tensorflow};

fuzz_target!(|data: &[u8]| {
    let file = Bytes::from(data.to_vec());
    if let Ok(Some(range)) = tensorflow::graph_range(&file) {
        assert!(range.end <= file.len());
    }
    if let Ok(tensorflow::DebugTensor { tensor: Some(tensor), .. }) = tensorflow::read_debug_tensor(&file) {
        let view = tensor.view();
        if !view.is_empty() {
            view.get(0);
            view.get(view.len() - 1);
        }
    }
    if let Ok(text) = std::str::from_utf8(data) {
        let _ = tensorflow::DebugFileName::parse(text);
        let _ = tensorflow::NpyName::parse(text);
        let _ = tensorflow::argument_name(text);
    }
});
