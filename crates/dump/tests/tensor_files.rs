//! Tensor files, checkpoints, and the asynchronous dump.
#![allow(clippy::unwrap_used, missing_docs)]

mod dumps;

use dumps::{Scratch, calls, described, elements, entries, is_refused, places, rank, tensor};
use ulpscope_dump::{Content, Task, Tool};
use ulpscope_formats::Value;
use ulpscope_formats::json::Json;

fn dict(pairs: &[(&str, Value)]) -> Value {
    Value::Dict(pairs.iter().map(|(key, value)| (Value::Str((*key).to_owned()), value.clone())).collect())
}

fn one(value: f32) -> Value {
    Value::Tensor(tensor(&[value]))
}

#[test]
fn two_files_of_one_tensor_are_a_pair_whatever_they_are_called() {
    let scratch = Scratch::new();
    let npu = rank(&scratch.tensor("npu.pt", &[1.0, 2.0]));
    let cpu = rank(&scratch.tensor("cpu.npy", &[1.0, 2.0]));
    assert_eq!((npu.tool, npu.task), (Tool::Files, Task::Tensor));
    assert_eq!(npu.base(npu.calls()[0].base), cpu.base(cpu.calls()[0].base));
    assert_eq!(places(&npu), ["npu saved "]);
    assert_eq!(elements(&cpu, &entries(&cpu)[0]), [1.0, 2.0]);
    assert_eq!(described(&entries(&cpu)[0]).dtype, "torch.float32");
}

#[test]
fn a_checkpoint_gives_tensors_and_plain_values_by_their_paths() {
    let scratch = Scratch::new();
    let step = Value::Int(7);
    let model = dict(&[("fc.weight", one(1.0)), ("fc.bias", one(2.0))]);
    let path = scratch.value("last.pt", &dict(&[("model", model), ("step", step), ("none", Value::None)]));
    let rank = rank(&path);
    assert_eq!(calls(&rank), ["model.fc.weight", "model.fc.bias", "step", "none"]);
    let entries = entries(&rank);
    assert_eq!(elements(&rank, &entries[1]), [2.0]);
    assert!(matches!(&entries[2].content, Content::Scalar { kind, value: Json::Int(7) } if kind == "int"));
    assert!(matches!(entries[3].content, Content::None));
    assert_eq!(rank.describe(), "tensor files, 4 values");
}

#[test]
fn the_shards_of_a_checkpoint_are_one() {
    let scratch = Scratch::new();
    for (shard, name) in [(1, "a"), (2, "b"), (10, "c")] {
        scratch.value(&format!("model-{shard:05}-of-00010.safetensors"), &dict(&[(name, one(shard as f32))]));
    }
    scratch.file("config.json", "{}");
    let rank = scratch.rank();
    assert_eq!(calls(&rank), ["a", "b", "c"]);
    assert_eq!(elements(&rank, &entries(&rank)[2]), [10.0]);
}

#[test]
fn files_that_use_the_same_names_are_distinguished() {
    let scratch = Scratch::new();
    scratch.value("mp_rank_00.pt", &dict(&[("w", one(1.0))]));
    scratch.value("mp_rank_01.pt", &dict(&[("w", one(2.0))]));
    let rank = scratch.rank();
    assert_eq!(calls(&rank), ["mp_rank_00.w", "mp_rank_01.w"]);
    assert_eq!(elements(&rank, &entries(&rank)[1]), [2.0]);
}

#[test]
fn arrays_of_a_folder_are_named_by_relative_paths() {
    let scratch = Scratch::new();
    scratch.tensor("layer10/out.npy", &[10.0]);
    scratch.tensor("layer2/out.pt", &[2.0]);
    scratch.value("z.npz", &dict(&[("x", one(3.0)), ("y", one(4.0))]));
    scratch.file("readme.txt", "");
    let rank = scratch.rank();
    assert_eq!(calls(&rank), ["layer2/out", "layer10/out", "x", "y"]);
    let all: Vec<f32> = entries(&rank).iter().flat_map(|entry| elements(&rank, entry)).collect();
    assert_eq!(all, [2.0, 10.0, 3.0, 4.0]);
    assert!(rank.problems().is_empty());
}

#[test]
fn a_shard_that_cannot_be_read_is_a_problem() {
    let scratch = Scratch::new();
    scratch.value("pytorch_model-00001-of-00002.pt", &dict(&[("a", one(1.0)), ("b", one(2.0))]));
    let empty = scratch.file("pytorch_model-00002-of-00002.bin", "");
    let other = scratch.file("weights.bin", "not a checkpoint");
    scratch.file("config.json", "{}");
    scratch.file("readme.txt", "not a checkpoint");
    let rank = scratch.rank();
    assert_eq!(calls(&rank), ["a", "b"]);
    assert_eq!(
        rank.problems().listed(),
        [
            format!("{}: of no known format: it begins with nothing: it is empty", empty.display()),
            format!("{}: of no known format: it begins with not a ch", other.display()),
        ]
    );
}

#[test]
fn a_damaged_file_does_not_lose_the_others() {
    let scratch = Scratch::new();
    scratch.tensor("good.npy", &[1.0]);
    scratch.file("bad.npy", "\u{93}NUMPY but no more");
    scratch.file("bad.safetensors", "short");
    let rank = scratch.rank();
    assert_eq!(calls(&rank), ["bad", "good"]);
    let problems = rank.problems();
    assert_eq!(problems.count(), 1);
    assert!(problems.listed()[0].contains("bad.safetensors"), "{problems:?}");
    let entries = entries(&rank);
    assert!(is_refused(&entries[0]));
    let error = rank.tensor(described(&entries[0])).unwrap_err().to_string();
    assert!(error.contains("bad.npy"), "{error}");
    assert_eq!(elements(&rank, &entries[1]), [1.0]);
}

#[test]
fn a_tensor_of_an_unknown_dtype_is_a_problem_and_an_entry() {
    let scratch = Scratch::new();
    let header = "{\"a\":{\"dtype\":\"F4\",\"shape\":[2],\"data_offsets\":[0,1]}}";
    let path = scratch.file("m/x.safetensors", "");
    let bytes = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &[0]].concat();
    std::fs::write(&path, bytes).unwrap();
    let rank = scratch.rank();
    assert_eq!(calls(&rank), ["a"]);
    assert!(is_refused(&entries(&rank)[0]));
    let problems = rank.problems();
    assert!(problems.listed()[0].starts_with(&format!("{}: a: ", path.display())), "{problems:?}");
}

#[test]
fn the_names_of_an_asynchronous_dump_contain_all_metadata() {
    let scratch = Scratch::new();
    let file = |name: &str, values: &[f32]| {
        let layout = format!("_shape[{}]_stride[1]_offset[0]_format[2].npy", values.len());
        scratch.tensor(&format!("{name}{layout}"), values);
    };
    file("0_Functional_linear_forward_input0", &[1.0]);
    file("0_Functional_linear_forward_input1", &[2.0]);
    file("1_Functional_linear_forward_output0", &[3.0, 4.0]);
    file("2_Functional_linear_forward_input0", &[5.0]);
    file("10_Functional_linear_backward_input0", &[6.0]);
    file("9_Functional_linear_backward_output0", &[7.0]);
    let rank = scratch.rank();
    assert_eq!((rank.tool, rank.task), (Tool::AsyncNpy, Task::Tensor));
    assert_eq!(
        calls(&rank),
        [
            "Functional.linear.0.forward",
            "Functional.linear.1.forward",
            "Functional.linear.1.backward",
            "Functional.linear.0.backward",
        ]
    );
    assert_eq!(
        places(&rank),
        [
            "0_Functional_linear_forward_input0 input 0",
            "0_Functional_linear_forward_input1 input 1",
            "1_Functional_linear_forward_output0 output 0",
            "2_Functional_linear_forward_input0 input 0",
            "9_Functional_linear_backward_output0 input 0",
            "10_Functional_linear_backward_input0 output 0",
        ]
    );
    let all: Vec<f32> = entries(&rank).iter().flat_map(|entry| elements(&rank, entry)).collect();
    assert_eq!(all, [1.0, 2.0, 3.0, 4.0, 5.0, 7.0, 6.0]);
    let first = entries(&rank).remove(2);
    assert_eq!(
        (described(&first).dtype.as_str(), described(&first).shape.as_deref()),
        ("torch.float32", Some(&[2][..]))
    );
}
