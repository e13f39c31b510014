//! Any bytes: events without end or panic; what reads as a value is written and read again as the same value.
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
            // Text instead of values: NaN is not equal to itself.
            let mut text_again = Vec::new();
            json::write(&again, layout, &mut text_again).expect("memory takes everything");
            assert_eq!(text, text_again);
        }
    }
});
