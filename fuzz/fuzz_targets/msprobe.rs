//! Any bytes as any of msprobe's files: read, every tensor accessed, rewritten, converted.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ulpscope_formats::msprobe::{
    ConstructJson, ConstructWriter, DumpJson, DumpWriter, Item, StackJson, StackWriter,
};
use ulpscope_formats::records::{self, PklStyle};
use ulpscope_formats::{Bytes, json};

fn look(item: &Item) {
    match item {
        Item::Tensor(tensor) => {
            let _ =
                (tensor.shape(), tensor.max(), tensor.requires_grad(), tensor.digest(), tensor.data_name());
        }
        Item::List(items) => items.iter().for_each(look),
        Item::Dict(pairs) => pairs.iter().for_each(|(_, item)| look(item)),
        _ => {}
    }
}

fuzz_target!(|data: &[u8]| {
    let bytes = Bytes::from(data.to_vec());
    if let Ok(mut dump) = DumpJson::new(&bytes) {
        let mut text = Vec::new();
        let mut writer = DumpWriter::new(&mut text, dump.before()).expect("memory takes everything");
        while let Some(Ok(call)) = dump.next() {
            look(&call.body);
            writer.call(&call).expect("memory takes everything");
        }
        writer.finish(dump.after()).expect("memory takes everything");
        json::read(&text).expect("what was written can be read");
    }
    if let Ok(stacks) = StackJson::new(&bytes) {
        let mut text = Vec::new();
        let mut writer = StackWriter::new(&mut text).expect("memory takes everything");
        for stack in stacks.flatten() {
            writer.stack(&stack).expect("memory takes everything");
        }
        writer.finish().expect("memory takes everything");
        json::read(&text).expect("what was written can be read");
    }
    if let Ok(links) = ConstructJson::new(&bytes) {
        let mut text = Vec::new();
        let mut writer = ConstructWriter::new(&mut text).expect("memory takes everything");
        for link in links.flatten() {
            writer.link(&link).expect("memory takes everything");
        }
        writer.finish().expect("memory takes everything");
        json::read(&text).expect("what was written can be read");
    }
    for style in [PklStyle::Hooks, PklStyle::Ptdbg4, PklStyle::Ptdbg6] {
        let _ = records::msprobe_to_pkl(&bytes, Some(&bytes), style, &mut Vec::new());
    }
});
