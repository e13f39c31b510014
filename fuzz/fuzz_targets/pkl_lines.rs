//! Any bytes: lines, kinds, tensors and the conversion to `dump.json` never panic, and lines are rewritten unchanged.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ulpscope_formats::records::{self, ToMsprobe};
use ulpscope_formats::{Bytes, pkl_lines};

fuzz_target!(|data: &[u8]| {
    let bytes = Bytes::from(data.to_vec());
    for (_, line) in pkl_lines::Lines::new(&bytes).flatten() {
        let mut text = Vec::new();
        let mut writer = pkl_lines::LineWriter::new(&mut text);
        writer.line(&line).expect("memory takes everything");
        writer.finish().expect("memory takes everything");
        let again = Bytes::from(text.clone());
        let (_, line) =
            pkl_lines::Lines::new(&again).next().expect("one line").expect("what was written can be read");
        let mut text_again = Vec::new();
        let mut writer = pkl_lines::LineWriter::new(&mut text_again);
        writer.line(&line).expect("memory takes everything");
        writer.finish().expect("memory takes everything");
        assert_eq!(text, text_again);
    }
    if let Ok(value) = pkl_lines::to_value(&bytes) {
        for (_, tensor) in value.tensors() {
            let view = tensor.view();
            if let Some(last) = view.len().checked_sub(1) {
                let _ = (view.get(0), view.get(last));
            }
        }
    }
    let options = ToMsprobe { dump_data_dir: Some("dump".to_owned()) };
    let (mut dump, mut stack) = (Vec::new(), Vec::new());
    if records::pkl_to_msprobe(&bytes, &options, &mut dump, &mut stack).is_ok() {
        ulpscope_formats::json::read(&dump).expect("a dump.json");
        ulpscope_formats::json::read(&stack).expect("a stack.json");
    }
});
