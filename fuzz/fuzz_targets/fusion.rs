//! Any bytes are the results of fusion passes, or are an error.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok(results) = ulpscope_graph::parse_fusion_results(data) {
        assert!(!results.is_empty());
    }
});
