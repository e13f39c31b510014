//! Any bytes: reading events ends without a panic, and a value that is read can be written and read again unchanged.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ulpscope_formats::json::{self, Layout, Reader};

fuzz_target!(|data: &[u8]| {
    let mut reader = Reader::new(data);
    while let Ok(Some(_)) = reader.event() {}
    let mut skipping = Reader::new(data);
    while let Ok(true) = skipping.skip_event() {}
    if let Ok(value) = json::read(data) {
        for layout in [Layout::OneLine, Layout::Indented(1)] {
            let mut text = Vec::new();
            json::write(&value, layout, &mut text).expect("memory takes everything");
            let again = json::read(&text).expect("what was written can be read");
            // Compares text instead of values: NaN is not equal to itself.
            let mut text_again = Vec::new();
            json::write(&again, layout, &mut text_again).expect("memory takes everything");
            assert_eq!(text, text_again);
        }
    }
});
