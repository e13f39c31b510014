//! Tensors of TensorFlow's debugger in every way that it stores elements, and what names say.
#![allow(clippy::unwrap_used)]

use ulpscope_formats::protobuf::{put_bytes, put_number, put_text, put_varint};
use ulpscope_formats::tensorflow::{
    DebugFileName, NpyName, argument_name, graph_range, read_debug_tensor, write_debug_tensor,
};
use ulpscope_formats::{Bytes, Tensor};
use ulpscope_tensor::DType;

/// A tensor of a type and shape, with its elements in a field.
fn proto(data_type: u64, dims: &[u64], field: u64, elements: &[u8]) -> Vec<u8> {
    let mut shape = Vec::new();
    for &dim in dims {
        let mut size = Vec::new();
        put_number(&mut size, 1, dim);
        put_bytes(&mut shape, 2, &size);
    }
    let mut tensor = Vec::new();
    put_number(&mut tensor, 1, data_type);
    put_bytes(&mut tensor, 2, &shape);
    if field > 0 {
        put_bytes(&mut tensor, field, elements);
    }
    tensor
}

fn event(tensor: &[u8]) -> Vec<u8> {
    let mut value = Vec::new();
    put_text(&mut value, 7, "a/b:1:DebugIdentity");
    put_bytes(&mut value, 8, tensor);
    let mut summary = Vec::new();
    put_bytes(&mut summary, 1, &value);
    let mut event = vec![0x09, 0, 0, 0, 0, 0, 0, 0, 0];
    put_bytes(&mut event, 5, &summary);
    event
}

fn read(tensor: &[u8]) -> Tensor {
    let read = read_debug_tensor(&Bytes::from(event(tensor))).unwrap();
    assert_eq!(read.watched, "a/b:1:DebugIdentity");
    read.tensor.unwrap()
}

fn values(tensor: &Tensor) -> Vec<f64> {
    (0..tensor.view().len()).map(|at| tensor.view().get(at).to_f64()).collect()
}

fn packed(numbers: &[u64]) -> Vec<u8> {
    let mut bytes = Vec::new();
    numbers.iter().for_each(|&number| put_varint(&mut bytes, number));
    bytes
}

#[test]
fn elements_are_bytes_or_numbers_of_which_the_last_is_repeated() {
    let floats: Vec<u8> = [1.5f32, -2.0].iter().flat_map(|value| value.to_le_bytes()).collect();
    let content = read(&proto(1, &[1, 2], 4, &floats));
    assert_eq!(
        (content.dtype(), content.shape(), values(&content)),
        (DType::F32, &[1, 2][..], vec![1.5, -2.0])
    );
    assert_eq!(values(&read(&proto(1, &[4], 5, &floats))), [1.5, -2.0, -2.0, -2.0]);
    assert_eq!(values(&read(&proto(1, &[2], 0, &[]))), [0.0, 0.0], "without numbers they are zero");
    let minus_one = packed(&[(-1i64) as u64, 7]);
    assert_eq!(values(&read(&proto(3, &[3], 7, &minus_one))), [-1.0, 7.0, 7.0]);
    assert_eq!(values(&read(&proto(6, &[2], 7, &minus_one))), [-1.0, 7.0], "int8 as int32");
    assert_eq!(values(&read(&proto(9, &[2], 10, &minus_one))), [-1.0, 7.0]);
    assert_eq!(values(&read(&proto(10, &[2], 11, &packed(&[1, 0])))), [1.0, 0.0]);
    assert_eq!(values(&read(&proto(19, &[1], 13, &packed(&[0x3c00])))), [1.0], "float16 as its bits");
    assert_eq!(values(&read(&proto(14, &[1], 13, &packed(&[0x3f80])))), [1.0], "bfloat16 as its bits");
    assert_eq!(values(&read(&proto(22, &[1], 16, &packed(&[u32::MAX.into()])))), [f64::from(u32::MAX)]);
    let complex = read(&proto(8, &[1], 9, &floats));
    assert_eq!((complex.dtype(), complex.view().len()), (DType::C64, 1));
    let scalar = read(&proto(1, &[], 5, &floats[..4]));
    assert_eq!((scalar.shape(), values(&scalar)), (&[][..], vec![1.5]));
    assert_eq!(read(&proto(1, &[0, 3], 0, &[])).shape(), [0, 3]);
}

#[test]
fn what_is_written_is_read_back() {
    let bytes: Vec<u8> = (0..300u16).flat_map(u16::to_le_bytes).collect();
    let tensor = Tensor::contiguous(DType::BF16, vec![3, 100], Bytes::from(bytes.clone())).unwrap();
    let mut file = Vec::new();
    write_debug_tensor("a/b", &tensor, &mut file).unwrap();
    let read = read_debug_tensor(&Bytes::from(file)).unwrap();
    assert_eq!(read.watched, "a/b:0:DebugIdentity");
    let elements = read.tensor.unwrap();
    assert_eq!((elements.dtype(), elements.shape()), (DType::BF16, &[3, 100][..]));
    assert_eq!(*elements.view().to_packed(), *bytes);
    let lacking = Tensor::contiguous(DType::HiF8, vec![1], Bytes::from(vec![0])).unwrap();
    let error = write_debug_tensor("a", &lacking, &mut Vec::new()).unwrap_err();
    assert_eq!(error.to_string(), "TensorFlow has no type for hifloat8 elements");
}

#[test]
fn the_handle_of_a_variable_has_no_elements() {
    let read = read_debug_tensor(&Bytes::from(event(&proto(20, &[], 14, b"handle")))).unwrap();
    assert!(read.tensor.is_none());
}

#[test]
fn every_prefix_of_an_event_is_an_error_or_a_tensor_and_none_panics() {
    let file = event(&proto(3, &[3], 7, &packed(&[1, 2, 3])));
    for length in 0..file.len() {
        read_debug_tensor(&Bytes::from(file[..length].to_vec())).expect_err("a cut file");
    }
}

#[test]
fn names_say_operator_output_and_time() {
    let name = DebugFileName::parse("LeNet/conv1/Conv2D_0_DebugIdentity_1794722146114779").unwrap();
    assert_eq!(
        (name.node.as_str(), name.output, name.time),
        ("LeNet/conv1/Conv2D", 0, 1_794_722_146_114_779)
    );
    let second = DebugFileName::parse("x_12_DebugIdentity_1794722146114779-1").unwrap();
    assert_eq!((second.node.as_str(), second.output), ("x", 12));
    assert!(DebugFileName::parse("x_0_DebugNumericSummary_1794722146114779").is_none());
    let array = NpyName::parse("LeNet_TopKV2.1.1794722157959644.npy").unwrap();
    assert_eq!((array.node.as_str(), array.output, array.time), ("LeNet_TopKV2", 1, 1_794_722_157_959_644));
    assert!(NpyName::parse("a.0.2.1794722157959644.npy").is_some());
    for other in
        ["a.0.12.npy", "a.b.1794722157959644.npy", ".0.1794722157959644.npy", "a.npy", "a.0.1.2.3.npy"]
    {
        assert!(NpyName::parse(other).is_none(), "{other}");
    }
    assert_eq!(argument_name("_arg_x_0_0"), Some(("x", 0)));
    assert_eq!(argument_name("_arg_scope/in_1_1_12"), Some(("scope/in_1", 1)));
    assert_eq!(argument_name("_recv_x_0"), Some(("x", 0)));
    for other in ["x", "_arg_", "_arg_x", "_arg_x_0", "_arg__0_0"] {
        assert_eq!(argument_name(other), None, "{other}");
    }
}

#[test]
fn graphs_are_found_in_events_records_and_meta_files() {
    let bare = {
        let mut event = vec![0x09, 0, 0, 0, 0, 0, 0, 0, 0];
        put_bytes(&mut event, 4, b"graph");
        event
    };
    assert_eq!(&bare[graph_range(&bare).unwrap().unwrap()], b"graph");
    let record = |event: &[u8]| [&(event.len() as u64).to_le_bytes()[..], &[0; 4], event, &[0; 4]].concat();
    let nothing = vec![0x09, 0, 0, 0, 0, 0, 0, 0, 0];
    let records = [record(&nothing), record(&bare), record(&nothing)].concat();
    assert_eq!(&records[graph_range(&records).unwrap().unwrap()], b"graph");
    let cut = &records[..records.len() - 3];
    assert_eq!(&cut[graph_range(cut).unwrap().unwrap()], b"graph", "the last record is being written");
    let mut meta = Vec::new();
    put_bytes(&mut meta, 1, b"\0");
    put_bytes(&mut meta, 2, b"graph");
    assert_eq!(&meta[graph_range(&meta).unwrap().unwrap()], b"graph");
    assert!(graph_range(b"\x0a\x01a").unwrap().is_none());
}
