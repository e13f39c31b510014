//! Names of dump files, files of statistics, and op-debug files.
#![allow(clippy::unwrap_used)]

use ulpscope_formats::acl::{DataType, FileName, Format, Thread, UnitState, read_op_debug, read_statistics};
use ulpscope_formats::json::{self, Layout};

#[test]
fn every_form_of_a_name() {
    let name = FileName::parse("Conv2D.LeNet_conv1.14.5.1767261601009597").unwrap();
    assert_eq!((name.op_type.as_str(), name.op_name.as_str()), ("Conv2D", "LeNet_conv1"));
    assert_eq!((name.task_id, name.stream_id, name.timestamp), (14, Some(5), 1_767_261_601_009_597));
    let old = FileName::parse("Add.X.323.1619494134703053").unwrap();
    assert_eq!((old.task_id, old.stream_id, old.timestamp), (323, None, 1_619_494_134_703_053));
    let short = FileName::parse("MatMulV2.LeNet_conv1_Matmul.17.6.16160712863169").unwrap();
    assert_eq!(short.timestamp, 16_160_712_863_169, "fourteen digits, as in the guide");
    let sliced = FileName::parse("Conv2D.a_lxslice0.14.5.1767261601009597.4.65535.3.0").unwrap();
    assert_eq!(sliced.thread, Some(Thread { task_type: 4, context_id: 65535, thread_id: 3, device_id: 0 }));
    assert_eq!(sliced.operator(), "Conv2D.a_lxslice0.thread3");
    let whole = FileName::parse("Opdebug.Node_OpDebug.36.5.1767261601094599.2.65535.65535.0").unwrap();
    assert_eq!((whole.operator().as_str(), whole.is_op_debug()), ("Opdebug.Node_OpDebug", true));
    assert_eq!(FileName::parse_statistics("Add.x.1.2.1767261601009597.csv").unwrap().operator(), "Add.x");
}

#[test]
fn other_names_are_none() {
    for name in [
        "",
        "a.b",
        "Add.x.1.2",
        "Add.x.1.2.3.1767261601009597",
        "Add..1.2.1767261601009597",
        ".x.1.2.1767261601009597",
        "Add.x.-1.2.1767261601009597",
        "Add.x.1.2.1767261601009597.npy",
        "Add.x.1.2.1767261601009597.1",
        "Add.x.1.2.99999999999999999999999",
        "Add.x.1.2.1767261601009597.1.2.3.4.5",
        "16839245201148",
    ] {
        assert_eq!(FileName::parse(name), None, "{name}");
    }
    assert_eq!(FileName::parse_statistics("Add.x.1.2.1767261601009597"), None);
}

#[test]
fn statistics_by_the_names_of_their_columns() {
    let text = "Input/Output,Index,Data Size,Data Type,Format,Shape,Max Value,Min Value,Avg Value,Count,Nan Count,\
                Negative Inf Count,Positive Inf Count\n\
                Input,0,3200,DT_FLOAT16,NC1HWC0,4x50x50x16,1.5,-2,0.25,160000,3,1,2\n\
                Output,1,4,DT_INT32,ND,,7,7,7,1,0,0,0\n";
    let rows = read_statistics(&text.as_bytes().to_vec().into()).unwrap();
    assert_eq!((rows[0].is_input, rows[0].index, rows[0].format.as_str()), (true, 0, "NC1HWC0"));
    assert_eq!(rows[0].shape, Some(vec![4, 50, 50, 16]));
    assert_eq!(rows[0].data_type, DataType::from_name("FLOAT16"));
    assert_eq!((rows[0].max, rows[0].min, rows[0].mean), (Some(1.5), Some(-2.0), Some(0.25)));
    assert_eq!((rows[0].count, rows[0].nan, rows[0].inf), (Some(160_000), Some(3), Some(3)));
    assert_eq!((rows[1].is_input, rows[1].index, rows[1].shape.as_deref()), (false, 1, Some(&[][..])));
    // Newer devices choose the statistics, and their order.
    let text = "Index,Input/Output,Min Value\n2,Output,-1\n";
    let rows = read_statistics(&text.as_bytes().to_vec().into()).unwrap();
    assert_eq!((rows[0].index, rows[0].min, rows[0].max, rows[0].nan), (2, Some(-1.0), None, None));
}

#[test]
fn hostile_statistics_are_refused_by_name() {
    let many = format!("Input/Output,Index\n{}", "Input,0\n".repeat(20_000));
    let deep = format!("Input/Output,Index,Shape\nInput,0,{}1\n", "1x".repeat(1 << 16));
    for (text, message) in [
        ("", "expected a line of column names, found an empty file"),
        ("a,b\n", "line 1: expected a column Input/Output of ACL statistics, found \"a,b\""),
        ("Input/Output,Index\nInput,x\n", "line 2: expected the number of a tensor, found \"x\""),
        ("Input/Output,Index\n\u{1b}[2J,0\n", "line 2: expected Input or Output, found \"\\u{1b}[2j\""),
        (many.as_str(), "line 16386: number of tensors of 16385 exceeds the limit of 16384"),
    ] {
        let error = read_statistics(&text.as_bytes().to_vec().into()).unwrap_err();
        assert_eq!(error.to_string(), message);
    }
    let rows = read_statistics(&deep.into_bytes().into()).unwrap();
    assert_eq!(rows[0].shape, None, "more dimensions than any tensor has");
    let error = read_statistics(&b"\xff\xfe"[..].to_vec().into()).unwrap_err();
    assert_eq!(error.to_string(), "byte 0: expected text in UTF-8, found other bytes");
}

fn newer(version: u32, unit: u32, words: &[u64]) -> Vec<u8> {
    let halves = [0x5a5a_5a5a, version, 1, unit, 0, words.len() as u32 * 8];
    let mut bytes: Vec<u8> = halves.iter().flat_map(|half: &u32| half.to_le_bytes()).collect();
    bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    bytes
}

fn texts(state: &UnitState) -> Vec<String> {
    state.meanings().iter().map(ToString::to_string).collect()
}

#[test]
fn meanings_are_in_two_languages() {
    let state = read_op_debug(&newer(0, 0, &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x120])).unwrap();
    let chinese: Vec<String> = state.units[0].meanings().iter().map(|meaning| meaning.chinese()).collect();
    assert_eq!(chinese, ["浮点计算有溢出", "FP32转FP16或32符号整数转FP16中出现溢出"]);
    let unknown = read_op_debug(&newer(0, 0, &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x2000])).unwrap();
    assert_eq!(unknown.units[0].meanings()[0].chinese(), "状态位0x2000含义未知");
}

#[test]
fn every_status_has_its_meaning() {
    let meanings = |unit: u32, fields: usize, status: u64| {
        let mut words = vec![0; fields];
        words.push(status);
        texts(&read_op_debug(&newer(0, unit, &words)).unwrap().units[0])
    };
    assert_eq!(
        meanings(0, 10, 0x5b8 | 0x2000),
        [
            "an integer overflowed: the smallest one was negated",
            "an integer overflowed in an addition, subtraction, multiplication or multiply-add",
            "a floating-point computation overflowed",
            "a negative float was converted to an unsigned integer",
            "a conversion of float32 or int32 to float16 overflowed",
            "an accumulation of the cube unit overflowed",
            "bits 0x2000 are set, which have no known meaning",
        ]
    );
    assert!(meanings(2, 7, 1)[0].contains("status 0x1"));
    assert!(meanings(3, 9, 2)[0].contains("status 0x2"));
    let atomic = |dha: u64, l2: u64| {
        let mut bytes = vec![0; 2048];
        bytes[512..520].copy_from_slice(&dha.to_le_bytes());
        bytes[768..776].copy_from_slice(&l2.to_le_bytes());
        let state = read_op_debug(&bytes).unwrap();
        [texts(&state.units[0]), texts(&state.units[1])].concat()
    };
    let words = [
        "an atomic addition overflowed",
        "an atomic addition underflowed",
        "the source of an atomic addition is NaN",
        "the destination of an atomic addition is NaN",
        "source and destination of an atomic addition are NaN",
    ];
    for (number, meaning) in words.into_iter().enumerate() {
        assert_eq!(atomic((0x9 + number as u64) << 8, (1 + number as u64) << 16), [meaning, meaning]);
    }
    assert_eq!(atomic(0, 0), [""; 0]);
    assert_eq!(atomic(0x100, 0), ["status 0x100 has no known meaning"]);
}

#[test]
fn hostile_op_debug_files_are_refused_by_name() {
    for (bytes, message) in [
        (vec![0; 100], "expected 2048 bytes, or the number 0x5a5a5a5a at the start, found 100 bytes"),
        (vec![0x5a; 20], "byte 0: truncated: expected 24 bytes of an op-debug header, found 20"),
        (newer(0, 9, &[0; 20]), "byte 12: expected a unit from 0 (AIC) to 3 (SDMA), found 9"),
        (newer(1, 0, &[0; 11]), "byte 24: truncated: expected 112 bytes of fields, found 88"),
    ] {
        assert_eq!(read_op_debug(&bytes).unwrap_err().to_string(), message);
    }
}

#[test]
fn an_op_debug_file_as_json() {
    let state = read_op_debug(&newer(0, 2, &[1, 5, 16, 0, 65535, 3, 65535, 1])).unwrap();
    let mut text = Vec::new();
    json::write(&state.to_json(), Layout::OneLine, &mut text).unwrap();
    assert_eq!(
        String::from_utf8(text).unwrap(),
        "{\"magic\": \"0x5a5a5a5a\", \"version\": 0, \"acc_list\": {\"valid\": 1, \"acc_type\": \"AICPU\", \
         \"rsv\": 0, \"data_len\": 64, \"data\": {\"model_id\": 1, \"stream_id\": 5, \"task_id\": 16, \"task_type\": 0, \
         \"context_id\": 65535, \"cpu_id\": 3, \"thread_id\": 65535, \"status\": 1}}}"
    );
}

#[test]
fn layouts_by_every_name() {
    assert_eq!(Format::from_name("FORMAT_NC1HWC0"), Some(Format(3)));
    assert_eq!(Format::from_name("DECONV_SP_STRIDE8_TRANS"), Some(Format(15)));
    assert_eq!(Format::from_name("LOOKUP_KEYS"), Some(Format(21)));
    assert_eq!(Format::from_name("NCWH"), None);
}
