//! Dump files compared with bytes encoded by hand (tests/golden/make_acl.py).
#![allow(clippy::unwrap_used)]

use std::path::PathBuf;

use ulpscope_formats::acl::{self, DataType, DumpFile, DumpTensor, Format, OriginalOp};
use ulpscope_formats::{Bytes, Tensor, Value};
use ulpscope_tensor::{DType, Scalar};

fn golden(name: &str) -> Bytes {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/acl");
    std::fs::read(folder.join(format!("{name}.dump"))).unwrap().into()
}

fn read(name: &str) -> DumpFile {
    acl::read(&golden(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn written(dump: &DumpFile) -> Vec<u8> {
    let mut out = Vec::new();
    acl::write(dump, &mut out).unwrap();
    out
}

fn numbers(tensor: &DumpTensor) -> Vec<f64> {
    let tensor = tensor.tensor().unwrap();
    let view = tensor.view();
    (0..view.len()).map(|index| view.get(index).to_f64()).collect()
}

#[test]
fn every_field_of_the_header() {
    let dump = read("full");
    assert!(!dump.nano);
    assert_eq!(
        (dump.version.as_str(), dump.dump_time, dump.op_name.as_str()),
        ("2.0", 1_767_261_601_000_000, "作用域/Add")
    );
    assert_eq!(dump.attrs, [("slice".to_owned(), r#"{"threadMode":1}"#.to_owned())]);

    let [x, y] = dump.inputs.as_slice() else { panic!("two inputs") };
    assert_eq!(
        (x.data_type.to_string(), x.format.to_string(), &x.shape[..]),
        ("FLOAT".into(), "ND".into(), &[2, 3][..])
    );
    assert_eq!((&x.original_shape[..], x.sub_format, x.address, x.offset), (&[6][..], -1, 1 << 40, 5));
    assert_eq!(numbers(x), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    assert_eq!(y.tensor().unwrap().shape(), [0; 0], "no dimensions are a scalar");
    assert_eq!(numbers(y), [-7.0]);

    let [out] = dump.outputs.as_slice() else { panic!("one output") };
    assert_eq!(
        (out.data_type, out.format.name(), &out.shape[..]),
        (DataType::from_header(2), Some("NC1HWC0"), &[1, 1, 2, 1, 2][..])
    );
    assert_eq!((&out.original_shape[..], out.sub_format, out.address), (&[1, 2, 1, 2][..], 2, 4096));
    assert_eq!((out.offset, &out.dim_range[..]), (64, &[(2, 9), (0, 0)][..]));
    assert_eq!(
        out.original_op,
        Some(OriginalOp {
            name: "scope/add".into(),
            output_index: 3,
            data_type: DataType::from_header(1),
            format: Format(1)
        })
    );
    assert_eq!(numbers(out), [0.5, 1.5, 2.5, 3.5]);

    assert_eq!((dump.buffers[0].kind, &dump.buffers[0].data[..]), (0, &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9][..]));
    assert_eq!((dump.spaces[0].kind, &dump.spaces[0].data[..]), (1, &b"workspace log"[..]));
}

#[test]
fn elements_are_not_copied() {
    for name in ["full", "nano", "bare"] {
        let bytes = golden(name);
        let dump = acl::read(&bytes).unwrap();
        let file = bytes.as_ptr_range();
        for tensor in dump.inputs.iter().chain(&dump.outputs) {
            assert!(file.contains(&tensor.tensor().unwrap().storage().as_ptr()), "{name}");
        }
    }
}

#[test]
fn writing_what_was_read_gives_the_same_bytes() {
    for name in ["full", "every_type", "nano", "nano_every_type"] {
        assert!(written(&read(name)) == golden(name)[..], "{name}");
    }
}

/// By header number: the name, and the dtype it is read as.
const TYPES: [(&str, Option<DType>); 41] = [
    ("UNDEFINED", Some(DType::I8)),
    ("FLOAT", Some(DType::F32)),
    ("FLOAT16", Some(DType::F16)),
    ("INT8", Some(DType::I8)),
    ("UINT8", Some(DType::U8)),
    ("INT16", Some(DType::I16)),
    ("UINT16", Some(DType::U16)),
    ("INT32", Some(DType::I32)),
    ("INT64", Some(DType::I64)),
    ("UINT32", Some(DType::U32)),
    ("UINT64", Some(DType::U64)),
    ("BOOL", Some(DType::Bool)),
    ("DOUBLE", Some(DType::F64)),
    ("STRING", None),
    ("DUAL_SUB_INT8", None),
    ("DUAL_SUB_UINT8", None),
    ("COMPLEX64", Some(DType::C64)),
    ("COMPLEX128", Some(DType::C128)),
    ("QINT8", None),
    ("QINT16", None),
    ("QINT32", None),
    ("QUINT8", None),
    ("QUINT16", None),
    ("RESOURCE", Some(DType::I64)),
    ("STRING_REF", None),
    ("DUAL", None),
    ("VARIANT", None),
    ("BF16", Some(DType::BF16)),
    ("INT4", Some(DType::I8)),
    ("UINT1", Some(DType::U8)),
    ("INT2", Some(DType::I8)),
    ("UINT2", Some(DType::U8)),
    ("COMPLEX32", Some(DType::C64)),
    ("HIFLOAT8", Some(DType::HiF8)),
    ("FLOAT8_E5M2", Some(DType::F8E5M2)),
    ("FLOAT8_E4M3FN", Some(DType::F8E4M3FN)),
    ("FLOAT8_E8M0", Some(DType::F8E8M0)),
    ("FLOAT6_E3M2", None),
    ("FLOAT6_E2M3", None),
    ("FLOAT4_E2M1", Some(DType::F32)),
    ("FLOAT4_E1M2", None),
];

#[test]
fn every_type_of_the_header_numbering() {
    let dump = read("every_type");
    for (number, (name, dtype)) in TYPES.into_iter().enumerate() {
        let output = &dump.outputs[number];
        assert_eq!(output.data_type.to_string(), name, "number {number}");
        assert_eq!(output.data_type.header_number(), number as i32);
        assert_eq!(output.tensor().ok().map(|tensor| tensor.dtype()), dtype, "{name}");
        assert_eq!(output.data.len(), 32, "{name}: the raw bytes stay");
    }
    assert_eq!(dump.outputs[0].tensor().unwrap().shape(), [32], "no type: as many bytes as there are");
    assert_eq!(dump.outputs[7].tensor().unwrap().view().get(1), Scalar::Int(0x0706_0504));
    assert_eq!(
        dump.outputs[40].tensor().unwrap_err().to_string(),
        "elements of type FLOAT4_E1M2 (several elements to a byte) are not read; 32 raw bytes are kept"
    );
    assert_eq!(
        dump.outputs[41].tensor().unwrap_err().to_string(),
        "elements of type number 41 (a type this version does not know) are not read; 32 raw bytes are kept"
    );
}

/// A tensor of a type by header number.
fn packed(number: i32, shape: &[u64], bytes: &[u8]) -> DumpTensor {
    DumpTensor {
        data_type: DataType::from_header(number),
        shape: shape.to_vec(),
        data: bytes.to_vec().into(),
        ..DumpTensor::default()
    }
}

#[test]
fn packed_elements_are_unpacked() {
    assert_eq!(numbers(&packed(29, &[10], &[0b1011_0001, 0x80])), [1., 0., 1., 1., 0., 0., 0., 1., 1., 0.]);
    assert_eq!(numbers(&packed(28, &[3], &[0xf1, 0x08])), [1.0, -1.0, -8.0], "the lower half first");
    assert_eq!(numbers(&packed(30, &[4], &[0b10_01_11_00])), [0.0, -1.0, 1.0, -2.0]);
    assert_eq!(numbers(&packed(31, &[4], &[0b10_01_11_00])), [0.0, 3.0, 1.0, 2.0]);
    assert_eq!(numbers(&packed(39, &[4], &[0x9_1, 0xf_7])), [0.5, -0.5, 6.0, -6.0]);
    let complex = packed(32, &[2], &[0x00, 0x3c, 0x00, 0xc0, 0x00, 0x7c, 0x00, 0x00]).tensor().unwrap();
    assert_eq!(complex.view().get(0), Scalar::Complex(1.0, -2.0));
    assert_eq!(complex.view().get(1), Scalar::Complex(f64::INFINITY, 0.0));
    assert_eq!(
        packed(28, &[5], &[1, 2]).tensor().unwrap_err().to_string(),
        "truncated: expected 3 bytes of packed elements of shape [5], found 2"
    );
    let refused = packed(29, &[1 << 40, 1 << 30], &[]).tensor().unwrap_err().to_string();
    assert!(refused.contains("a shape that fits the address space"), "{refused}");
}

#[test]
fn the_runtime_numbering_of_nano_files() {
    let dump = read("nano_every_type");
    let names: Vec<String> = dump.outputs.iter().map(|output| output.data_type.to_string()).collect();
    let first = [
        "FLOAT", "FLOAT16", "INT8", "INT32", "UINT8", "number 5", "INT16", "UINT16", "UINT32", "INT64",
        "UINT64", "DOUBLE", "BOOL",
    ];
    assert_eq!(names[..13], first);
    let same: Vec<&str> = TYPES[13..28].iter().map(|(name, _)| *name).collect();
    assert_eq!(names[13..28], same, "both numberings agree from STRING to BF16");
    assert_eq!(names[28], "UNDEFINED");
    let shifted: Vec<&str> = TYPES[28..].iter().map(|(name, _)| *name).collect();
    assert_eq!(names[29..42], shifted, "from INT4 on the runtime counts one more");
    assert_eq!(names[42], "number 42");
}

#[test]
fn a_nano_file() {
    let dump = read("nano");
    assert!(dump.nano);
    assert_eq!(dump.version, "1");
    let (x, out) = (&dump.inputs[0], &dump.outputs[0]);
    assert_eq!((&x.shape[..], &x.original_shape[..]), (&[2, 3][..], &[6][..]));
    assert_eq!((x.address_type, x.address, x.offset), (1, 4096, 8));
    assert_eq!(numbers(x), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    assert_eq!((out.format.name(), out.address), (Some("NC1HWC0"), 8192));
    assert_eq!(
        out.original_op,
        Some(OriginalOp {
            name: "orig_op".into(),
            output_index: 2,
            data_type: DataType::from_header(1),
            format: Format(1)
        })
    );
    assert_eq!(numbers(out), [0.5, 1.5, 2.5, 3.5]);
}

#[test]
fn unknown_fields_padding_and_odd_shapes_are_accepted() {
    let dump = read("lenient");
    let [padded, empty, scalar] = dump.outputs.as_slice() else { panic!("three outputs") };
    assert_eq!((padded.tensor().unwrap().shape(), padded.data.len()), ([1, 2].as_slice(), 64));
    assert_eq!(numbers(padded), [1.0, 2.0]);
    assert_eq!(empty.tensor().unwrap().shape(), [0, 1 << 62, 1 << 62]);
    assert_eq!(numbers(empty), [0.0; 0]);
    assert_eq!((scalar.tensor().unwrap().shape(), numbers(scalar)), ([].as_slice(), vec![3.0]));
}

#[test]
fn a_message_with_inline_elements_is_written_in_the_current_form() {
    let dump = read("bare");
    assert_eq!((dump.version.as_str(), dump.op_name.as_str()), ("1.0", "old/op"));
    assert_eq!(numbers(&dump.outputs[0]), [1.0, 2.0, 3.0]);
    assert_eq!(dump.inputs[0].tensor().unwrap().view().get(1), Scalar::Bool(false));
    assert_eq!((&dump.buffers[0].data[..], &dump.spaces[0].data[..]), (&b"L1"[..], &b"log"[..]));

    let file = written(&dump);
    let floats = [1.0f32, 2.0, 3.0].map(f32::to_le_bytes).concat();
    assert!(file.ends_with(&[&[1, 0], &floats[..], b"L1log"].concat()), "inputs come first");
    assert_eq!(format!("{:?}", acl::read(&file.into()).unwrap()), format!("{dump:?}"));
}

#[test]
fn a_dump_becomes_a_value_and_a_value_becomes_a_dump() {
    let value = read("full").to_value();
    let named: Vec<_> = value.tensors().iter().map(|(name, tensor)| (name.clone(), tensor.dtype())).collect();
    let expected = [
        ("input.0", DType::F32),
        ("input.1", DType::I32),
        ("output.0", DType::F16),
        ("l1buffer.0", DType::U8),
        ("space.0", DType::U8),
    ];
    assert_eq!(named, expected.map(|(name, dtype)| (name.to_owned(), dtype)));

    let dump = DumpFile::from_value(&value, "Add").unwrap();
    assert_eq!((dump.inputs.len(), dump.outputs.len(), dump.buffers.len(), dump.spaces.len()), (2, 1, 1, 1));
    let back = acl::read(&written(&dump).into()).unwrap();
    assert_eq!((back.version.as_str(), back.op_name.as_str()), ("2.0", "Add"));
    assert_eq!(numbers(&back.inputs[0]), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    assert_eq!((back.outputs[0].format, &back.outputs[0].shape[..]), (Format::ND, &[1, 1, 2, 1, 2][..]));
    assert_eq!(numbers(&back.outputs[0]), [0.5, 1.5, 2.5, 3.5]);
    assert_eq!(&back.spaces[0].data[..], b"workspace log");
}

#[test]
fn one_unreadable_tensor_does_not_lose_the_file() {
    let value = read("every_type").to_value();
    assert_eq!((value.tensors().len(), value.unread().len()), (27, 15));
    let (name, reason) = &value.unread()[0];
    assert_eq!(name, "output.13");
    assert_eq!(*reason, "elements of type STRING (text) are not read; 32 raw bytes are kept");
}

#[test]
fn tensors_of_other_formats_become_outputs_packed_and_named() {
    let bytes: Vec<u8> = (0..6).collect();
    let columns = Tensor::strided(DType::U8, vec![2, 3], vec![1, 2], bytes.into(), 0).unwrap();
    let value = Value::Dict(vec![(Value::Str("layer.weight".into()), Value::Tensor(columns))]);
    let dump = DumpFile::from_value(&value, "").unwrap();
    assert_eq!(dump.outputs[0].original_op.as_ref().unwrap().name, "layer.weight");
    assert_eq!(dump.outputs[0].data[..], [0, 2, 4, 1, 3, 5]);

    for dtype in DType::ALL {
        let tensor = Tensor::contiguous(dtype, vec![2], vec![1; 32].into()).unwrap();
        let made = DumpFile::from_value(&Value::Tensor(tensor), "");
        if matches!(dtype, DType::F8E4M3FNUZ | DType::F8E5M2FNUZ) {
            assert_eq!(
                made.unwrap_err().to_string(),
                format!("a dump file has no type for {dtype}; convert it to float16 first")
            );
        } else {
            let back = acl::read(&written(&made.unwrap()).into()).unwrap();
            assert_eq!(back.outputs[0].tensor().unwrap().dtype(), dtype);
        }
    }
}

#[test]
fn content_that_nano_cannot_hold_is_refused() {
    let refused = |dump: &DumpFile| acl::write(dump, &mut Vec::new()).unwrap_err().to_string();
    let mut dump = DumpFile { nano: true, ..read("full") };
    assert_eq!(
        refused(&dump),
        "a nano dump has no place for buffers, workspaces or attributes; write the protobuf form"
    );
    (dump.buffers, dump.spaces, dump.attrs) = Default::default();
    assert_eq!(refused(&dump), "a nano dump has no place for the version \"2.0\"; expected a number");
    dump.version = "1".into();
    assert_eq!(
        refused(&dump),
        "input.0: a nano dump has no place for groups or slices; write the protobuf form"
    );
}

#[test]
fn formats_by_number_and_name() {
    for (number, name) in
        [(0, "NCHW"), (2, "ND"), (16, "HWCN"), (29, "FRACTAL_NZ"), (46, "YUV_A"), (255, "MAX")]
    {
        assert_eq!(Format(number).to_string(), name);
    }
    assert_eq!((Format(47).name(), Format(-1).name()), (None, None));
    assert_eq!(Format(99).to_string(), "number 99");
}

#[test]
fn a_short_file_loses_the_tensors_at_its_end_alone() {
    let whole = golden("full");
    let complete = acl::read(&whole).unwrap();
    let after: usize = complete.buffers.iter().chain(&complete.spaces).map(|region| region.data.len()).sum();
    let end = whole.len() - after;
    let cut: Bytes = whole[..end - 1].to_vec().into();
    let dump = acl::read(&cut).unwrap();
    assert_eq!(numbers(&dump.inputs[0]), numbers(&complete.inputs[0]));
    assert_eq!(numbers(&dump.inputs[1]), numbers(&complete.inputs[1]));
    let size = complete.outputs[0].data.len();
    assert_eq!(
        dump.outputs[0].tensor().unwrap_err().to_string(),
        format!("truncated: expected {size} bytes from byte {}, found {}", end - size, size - 1)
    );
    // Without a buffer, the tensors before it are read, and the value says which part is missing.
    let cut: Bytes = whole[..whole.len() - 1].to_vec().into();
    let dump = acl::read(&cut).unwrap();
    assert_eq!(dump.cut_regions().count(), 1);
    assert!(dump.outputs[0].tensor().is_ok());
    let Value::Dict(pairs) = dump.to_value() else { panic!("parts by name") };
    assert_eq!(pairs.iter().filter(|(_, value)| matches!(value, Value::Unread(_))).count(), 1);
}
