//! msprobe's files: small dumps made by msprobe itself (tests/golden/msprobe), and the formats of older releases.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use ulpscope_formats::json::Json;
use ulpscope_formats::msprobe::{
    Call, ConstructJson, ConstructWriter, DumpJson, DumpWriter, Item, Link, Parent, StackForm, StackJson,
    StackWriter, TensorItem, plain_file_name,
};
use ulpscope_formats::{Access, Bytes};

const DUMPS: [&str; 5] =
    ["debug/debug.json", "md5_L1/dump.json", "stat_mix/dump.json", "tensor_L0/dump.json", "xor_L1/dump.json"];

fn golden(name: &str) -> Bytes {
    let folder: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/msprobe");
    Bytes::map(&folder.join(name), Access::ReadOnly).unwrap()
}

fn bytes(text: &str) -> Bytes {
    Bytes::from(text.as_bytes().to_vec())
}

fn calls(name: &str) -> Vec<Call> {
    DumpJson::new(&golden(name)).unwrap().map(Result::unwrap).collect()
}

fn rewritten_dump(source: &Bytes) -> String {
    let mut out = Vec::new();
    let mut dump = DumpJson::new(source).unwrap();
    let mut writer = DumpWriter::new(&mut out, dump.before()).unwrap();
    for call in &mut dump {
        writer.call(&call.unwrap()).unwrap();
    }
    writer.finish(dump.after()).unwrap();
    String::from_utf8(out).unwrap()
}

fn rewritten_stack(source: &Bytes) -> String {
    let mut out = Vec::new();
    let mut writer = StackWriter::new(&mut out).unwrap();
    for stack in StackJson::new(source).unwrap() {
        writer.stack(&stack.unwrap()).unwrap();
    }
    writer.finish().unwrap();
    String::from_utf8(out).unwrap()
}

fn rewritten_construct(source: &Bytes) -> String {
    let mut out = Vec::new();
    let mut writer = ConstructWriter::new(&mut out).unwrap();
    for link in ConstructJson::new(source).unwrap() {
        writer.link(&link.unwrap()).unwrap();
    }
    writer.finish().unwrap();
    String::from_utf8(out).unwrap()
}

fn text(source: &Bytes) -> String {
    String::from_utf8(source.to_vec()).unwrap()
}

fn tensor(item: &Item) -> &TensorItem {
    match item {
        Item::Tensor(tensor) => tensor,
        other => panic!("{other:?}"),
    }
}

fn items(item: Option<&Item>) -> &[Item] {
    match item {
        Some(Item::List(items)) => items,
        other => panic!("{other:?}"),
    }
}

#[test]
fn rewriting_gives_the_same_bytes() {
    for name in DUMPS {
        let source = golden(name);
        assert_eq!(rewritten_dump(&source), text(&source), "{name}");
    }
    for folder in ["md5_L1", "stat_mix", "tensor_L0", "xor_L1"] {
        let source = golden(&format!("{folder}/stack.json"));
        assert_eq!(rewritten_stack(&source), text(&source), "{folder}");
        let source = golden(&format!("{folder}/construct.json"));
        assert_eq!(rewritten_construct(&source), text(&source), "{folder}");
    }
}

#[test]
fn the_words_about_the_run() {
    let source = golden("tensor_L0/dump.json");
    let dump = DumpJson::new(&source).unwrap();
    assert_eq!(
        (dump.task(), dump.level(), dump.framework(), dump.dump_data_dir()),
        (Some("tensor"), Some("L0"), Some("pytorch"), Some("/case/dump/step0/proc1000/dump_tensor_data"))
    );
}

#[test]
fn calls_come_in_file_order() {
    let keys: Vec<String> = calls("stat_mix/dump.json").into_iter().map(|call| call.key).collect();
    assert_eq!(keys.len(), 33);
    assert_eq!(keys[0], "Functional.linear.0.forward");
    assert_eq!(keys[1], "Module.fc.Linear.forward.0");
    assert_eq!(keys[32], "Module.fc.Linear.parameters_grad.0");
}

#[test]
fn a_tensor_is_described() {
    let calls = calls("tensor_L0/dump.json");
    let sections: Vec<&str> = calls[0].sections().iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(sections, ["input_args", "input_kwargs", "output", "parameters"]);
    let input = tensor(&items(calls[0].section("input_args"))[0]);
    assert_eq!((input.class(), input.dtype()), (Some("torch.Tensor"), Some("torch.float32")));
    assert_eq!(input.shape(), Some(vec![2, 4]));
    assert_eq!((input.max(), input.min()), (Some(&Json::Float(2.0)), Some(&Json::Float(-2.0))));
    assert_eq!(input.norm(), Some(&Json::Float(3.703280210494995)));
    assert_eq!(input.requires_grad(), Some(false));
    assert_eq!(input.data_name().unwrap(), Some("Module.fc.Linear.forward.0.input.0.pt"));
    assert_eq!(input.digest(), None);
    let Some(Item::Dict(parameters)) = calls[0].section("parameters") else { panic!("{:?}", calls[0]) };
    assert_eq!(parameters.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["weight", "bias"]);
}

#[test]
fn numbers_keep_their_kind() {
    let calls = calls("stat_mix/dump.json");
    let max = calls.iter().find(|call| call.key == "Torch.max.0.forward").unwrap();
    assert_eq!(
        max.section("input_kwargs"),
        Some(&Item::Dict(vec![(
            "dim".to_owned(),
            Item::Scalar { kind: "int".to_owned(), value: Json::Int(1) },
        )]))
    );
    let [values, index] = items(max.section("output")) else { panic!("{max:?}") };
    assert_eq!(tensor(values).max(), Some(&Json::Float(f64::INFINITY)));
    assert_eq!(tensor(index).max(), Some(&Json::Int(2)));
    assert_eq!(tensor(index).mean(), None);
    let flags = calls.iter().find(|call| call.key == "Torch.isfinite.0.forward").unwrap();
    assert_eq!(tensor(&items(flags.section("output"))[0]).max(), Some(&Json::Bool(true)));
}

#[test]
fn items_of_every_kind() {
    let find = |key: &str| calls("stat_mix/dump.json").into_iter().find(|call| call.key == key).unwrap();
    assert!(
        matches!(items(find("Torch.cat.0.forward").section("input_args")), [Item::List(parts)] if parts.len() == 2)
    );
    let clamp = find("Torch.clamp.0.forward");
    assert!(
        matches!(clamp.section("input_kwargs"), Some(Item::Dict(pairs)) if pairs[1] == ("max".to_owned(), Item::None))
    );
    // A dtype passed by position is an empty object: msprobe did not record its description.
    assert_eq!(items(find("Tensor.to.0.forward").section("input_args"))[1], Item::Dict(vec![]));
    assert_eq!(
        find("Torch.full.0.forward").section("input_args").map(|args| items(Some(args)).len()),
        Some(2)
    );
}

#[test]
fn digests_of_both_kinds() {
    let digest = |name: &str| {
        let calls = calls(name);
        tensor(&items(calls[0].section("input_args"))[0]).digest().unwrap().to_owned()
    };
    assert_eq!(digest("md5_L1/dump.json").len(), 8);
    assert!(digest("xor_L1/dump.json").starts_with("0x") && digest("xor_L1/dump.json").len() == 18);
}

#[test]
fn saved_variables_are_items() {
    let calls = calls("debug/debug.json");
    assert_eq!(calls[0].key, "saved.0.debug");
    assert_eq!(calls[0].sections().len(), 2);
    assert_eq!(tensor(&calls[2].body).dtype(), Some("torch.bfloat16"));
    assert!(calls[2].sections().is_empty());
}

#[test]
fn objects_of_other_kinds_stay_as_they_are() {
    let source = bytes(
        "{\n \"task\": \"statistics\",\n \"data\": {\n  \"Distributed.send.0.forward\": {\n   \"input_args\": [\n    {\n     \"type\": \"torch.ProcessGroup\",\n     \"group_ranks\": [\n      0\n     ]\n    },\n    {\n     \"class_type\": \"torch.distributed.P2POp\",\n     \"peer\": 1\n    },\n    {\n     \"type\": {\n      \"type\": \"str\",\n      \"value\": \"a key of the user's\"\n     }\n    },\n    {\n     \"value\": 1,\n     \"type\": \"int\"\n    }\n   ],\n   \"is_nan\": 0\n  }\n }\n}",
    );
    assert_eq!(rewritten_dump(&source), text(&source));
    let call = DumpJson::new(&source).unwrap().next().unwrap().unwrap();
    let [group, op, dict, swapped] = items(call.section("input_args")) else { panic!("{call:?}") };
    assert!(
        matches!(group, Item::Other(_)) && matches!(op, Item::Other(_)) && matches!(swapped, Item::Other(_))
    );
    assert!(matches!(dict, Item::Dict(pairs) if matches!(&pairs[0].1, Item::Scalar { .. })));
    assert_eq!(call.section("is_nan"), Some(&Item::Other(Json::Int(0))));
}

#[test]
fn the_statistics_of_1_1_are_kept() {
    let source = bytes(
        "{\n \"task\": \"statistics\",\n \"level\": \"L1\",\n \"dump_data_dir\": null,\n \"data\": {\n  \"Torch.a.0.forward\": {\n   \"output\": [\n    {\n     \"type\": \"torch.Tensor\",\n     \"dtype\": \"torch.int64\",\n     \"shape\": [],\n     \"Max\": 63.0,\n     \"Min\": NaN,\n     \"Max_except_inf_nan\": 2.0\n    }\n   ]\n  }\n }\n}",
    );
    assert_eq!(rewritten_dump(&source), text(&source));
    let mut dump = DumpJson::new(&source).unwrap();
    assert_eq!((dump.framework(), dump.dump_data_dir()), (None, None));
    let call = dump.next().unwrap().unwrap();
    let output = tensor(&items(call.section("output"))[0]);
    assert_eq!(output.max(), Some(&Json::Float(63.0)));
    assert_eq!(output.stat("Max_except_inf_nan"), Some(&Json::Float(2.0)));
    assert_eq!(output.shape(), Some(vec![]));
}

#[test]
fn the_calls_may_come_first() {
    let source = bytes(
        "{\n \"data\": {\n  \"a.0.forward\": {\n   \"output\": []\n  }\n },\n \"level\": \"L1\",\n \"task\": \"tensor\"\n}",
    );
    let dump = DumpJson::new(&source).unwrap();
    assert_eq!((dump.task(), dump.level()), (Some("tensor"), Some("L1")));
    assert_eq!(rewritten_dump(&source), text(&source));
    // Truncated after the calls: the calls are still read, and the error is returned once.
    let cut = bytes("{\"data\": {\"a.0.forward\": {}}, \"level\": ");
    let seen: Vec<_> = DumpJson::new(&cut).unwrap().collect();
    assert_eq!(seen.len(), 2);
    assert!(seen[0].is_ok());
}

#[test]
fn a_dump_cut_anywhere_gives_its_complete_calls_and_one_error() {
    let whole = text(&golden("tensor_L0/dump.json"));
    let complete = calls("tensor_L0/dump.json");
    let data = whole.find("\"data\": {").unwrap() + "\"data\": {".len();
    for cut in data..whole.len() {
        let source = bytes(&whole[..cut]);
        let seen: Vec<_> = DumpJson::new(&source).unwrap().collect();
        let (last, calls) = seen.split_last().unwrap();
        let message = last.as_ref().unwrap_err().to_string();
        assert!(message.contains(&format!("byte {cut}: truncated: ")), "{cut}: {message}");
        assert!(calls.iter().map(|call| call.as_ref().unwrap()).eq(&complete[..calls.len()]), "{cut}");
    }
}

#[test]
fn stacks_of_both_forms() {
    let source = golden("stat_mix/stack.json");
    let first = StackJson::new(&source).unwrap().next().unwrap().unwrap();
    assert_eq!((first.key.as_str(), first.form), ("0", StackForm::Grouped));
    assert_eq!(first.names, ["Module.fc.Linear.forward.0", "Module.act.GELU.forward.0"]);
    assert!(first.lines[0].starts_with("File /env/site-packages/torch/nn/modules/module.py, line "));
    let old = bytes(
        "{\n \"Torch.a.0.forward\": [\n  \"File a.py, line 1, in f, \\n g()\"\n ],\n \"Torch.b.0.forward\": []\n}",
    );
    assert_eq!(rewritten_stack(&old), text(&old));
    let stacks: Vec<_> = StackJson::new(&old).unwrap().map(Result::unwrap).collect();
    assert_eq!(
        (stacks[0].names.as_slice(), stacks[0].form),
        (&["Torch.a.0.forward".to_owned()][..], StackForm::ByName)
    );
    assert_eq!(rewritten_stack(&bytes("{}")), "{}");
}

#[test]
fn parents_of_every_form() {
    let source = bytes(
        "{\n \"a\": \"Module.m.Linear.forward.0\",\n \"optimizer\": null,\n \"b\": [\n  \"a\",\n  3\n ],\n \"c\": [\n  null,\n  0\n ],\n \"megatron_micro_step_number\": 4\n}",
    );
    assert_eq!(rewritten_construct(&source), text(&source));
    let links: Vec<Link> = ConstructJson::new(&source).unwrap().map(Result::unwrap).collect();
    let parents: Vec<Parent> = links.into_iter().map(|link| link.parent).collect();
    assert_eq!(
        parents,
        [
            Parent::Name("Module.m.Linear.forward.0".to_owned()),
            Parent::None,
            Parent::MicroStep(Some("a".to_owned()), 3),
            Parent::MicroStep(None, 0),
            Parent::Other(Json::Int(4)),
        ]
    );
}

#[test]
fn file_names_stay_in_their_folder() {
    for name in ["a.pt", "Torch.a..0.pt", "..pt", "a b.pt", "aten::add.0.pt", ".hidden"] {
        assert_eq!(plain_file_name(name).unwrap(), name);
    }
    for name in ["", ".", "..", "../a.pt", "a/b.pt", "/etc/passwd", "a\\b.pt", "C:a.pt", "c:\\a.pt", "a\0.pt"]
    {
        assert_eq!(
            plain_file_name(name).unwrap_err().to_string(),
            format!("data_name: {name:?} leads out of its folder; expected a plain relative name")
        );
    }
    let named = |value: Json| TensorItem::new().with("data_name", value);
    assert_eq!(named(Json::Null).data_name().unwrap(), None);
    assert!(named(Json::Str("../x.pt".to_owned())).data_name().is_err());
    assert_eq!(
        named(Json::Int(3)).data_name().unwrap_err().to_string(),
        "data_name: expected the name of a file, found the integer 3"
    );
}
