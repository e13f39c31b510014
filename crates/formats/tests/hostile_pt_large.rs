//! Hostile `.pt` files that are too large to store, and every truncation of a good file.
#![allow(clippy::unwrap_used)]

use std::path::PathBuf;

use ulpscope_formats::{Bytes, Tensor, Value, pt};
use ulpscope_tensor::DType;

fn refusal(bytes: Vec<u8>) -> String {
    match pt::read(&bytes.into()) {
        Ok(value) => panic!("read as {value:?}"),
        Err(error) => error.to_string(),
    }
}

/// A file of the older format with this object and no storages.
fn legacy(object: &[u8]) -> Vec<u8> {
    let mut file = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.\x80\x02}.".to_vec();
    file.extend_from_slice(object);
    file.extend_from_slice(b"].");
    file
}

#[test]
fn the_older_format_is_built_correctly_by_this_test() {
    assert!(matches!(pt::read(&legacy(b"\x80\x02N.").into()), Ok(Value::None)));
}

#[test]
fn nesting_as_deep_as_the_file_is_long_is_refused() {
    const LEVELS: usize = 500_000;
    let lists = [vec![b']'; LEVELS], vec![b'a'; LEVELS - 1], vec![b'.']].concat();
    assert_eq!(refusal(legacy(&lists)), "byte 281: nested deeper than 256 levels");
    let tuples = [vec![b'N'], vec![0x85; LEVELS], vec![b'.']].concat();
    assert_eq!(refusal(legacy(&tuples)), "byte 499769: nested deeper than 256 levels");
    // A parameter of a parameter of a parameter ...
    let name = b"ctorch._utils\n_rebuild_parameter\nq\x00";
    let calls = [&name[..], &b"h\x00".repeat(LEVELS), b"N", &b"\x85R".repeat(LEVELS), b"."].concat();
    assert_eq!(refusal(legacy(&calls)), "byte 1999548: nested deeper than 256 levels");
}

#[test]
fn a_name_cannot_be_repeated_into_memory() {
    // 100,000 names of a megabyte each would be 100 GB.
    let text = [b"X\x00\x00\x10\x00", &[b'x'; 1 << 20][..], b"q\x00"].concat();
    let names = [b"\x80\x04", &text[..], &b"h\x00h\x00\x93".repeat(100_000), b"."].concat();
    assert_eq!(
        refusal(legacy(&names)),
        "byte 1048614: length of a name of 1048576 exceeds the limit of 1024"
    );
}

fn text(text: &str) -> Vec<u8> {
    [b"X", &(text.len() as u32).to_le_bytes()[..], text.as_bytes()].concat()
}

#[test]
fn a_long_key_cannot_be_repeated_into_every_name_below_it() {
    // 30,000 names of half a megabyte each would be 15 GB.
    let values = [&b"](cpackage\nClass\nq\x00"[..], &b"h\x00".repeat(29_999), b"e"].concat();
    let flat = [&b"\x80\x02}"[..], &text(&"k".repeat(500_000)), &values, b"s."].concat();
    assert_eq!(
        refusal(legacy(&flat)),
        "length of all dotted names of 15000168890 exceeds the limit of 35841792"
    );
    // The same for short keys nested in each other.
    let key = [&b"}"[..], &text(&"k".repeat(2_500))].concat();
    let nested = [&b"\x80\x02"[..], &key.repeat(200), &values, &b"s".repeat(200), b"."].concat();
    assert_eq!(
        refusal(legacy(&nested)),
        "length of all dotted names of 15006138890 exceeds the limit of 35930944"
    );
}

/// A file of the older format with one storage of one float, `0`.
fn with_storage(object: &[u8]) -> Vec<u8> {
    let mut file = legacy(object);
    file.truncate(file.len() - 2);
    file.extend([b"](", &text("0")[..], b"e.", &1u64.to_le_bytes(), &1f32.to_le_bytes()].concat());
    file
}

#[test]
fn all_elements_of_a_file_count() {
    let dims = |dim: i32| [b"J", &dim.to_le_bytes()[..]].concat().repeat(2);
    let storage =
        [b"((", &text("storage")[..], b"ctorch\nFloatStorage\n", &text("0"), &text("cpu"), b"K\x01tQ"]
            .concat();
    let tensor = |dim: i32| {
        let parts = [&storage[..], b"K\x00(", &dims(dim), b"t(", &dims(0), b"ttRq\x00"].concat();
        [b"ctorch._utils\n_rebuild_tensor\n", &parts[..]].concat()
    };
    let repeated = |dim: i32, times: usize| {
        with_storage(&[b"](", &tensor(dim)[..], &b"h\x00".repeat(times - 1), b"e."].concat())
    };
    assert_eq!(pt::read(&repeated(1 << 16, 1).into()).unwrap().tensors().len(), 1);
    assert_eq!(pt::read(&repeated(1 << 15, 4).into()).unwrap().tensors().len(), 4);
    for (dim, times) in [(1 << 16, 2), (1 << 15, 10_000)] {
        let said = refusal(repeated(dim, times));
        let expected = "number of elements of all tensors of ";
        assert!(said.contains(expected) && said.ends_with("exceeds the limit of 4294967296"), "{said}");
    }
}

#[test]
fn an_array_of_unknown_byte_order_is_not_guessed_at() {
    let array = |order: &[u8]| {
        let dtype = [b"cnumpy\ndtype\n", &text("f4")[..], b"\x85R(K\x03", order, b"NNNNNK\x00tb"].concat();
        let state = [b"(K\x01K\x01\x85", &dtype[..], b"\x89C\x04\x00\x00\x80?tb."].concat();
        let object = [b"\x80\x04cnumpy.core.multiarray\n_reconstruct\n)R", &state[..]].concat();
        pt::read(&legacy(&object).into()).unwrap()
    };
    let first = |value: Value| value.tensors()[0].1.view().get(0).to_f64();
    assert_eq!(first(array(&text("<"))), 1.0);
    assert_eq!(first(array(&text("="))), 1.0);
    assert_eq!(first(array(&text(">"))), f64::from(f32::from_bits(0x803f)));
    for order in [&b"N"[..], b"K\x01", &text("?"), &text("")] {
        let value = array(order);
        assert!(matches!(&value, Value::Unread(why) if why.starts_with("a numpy array")), "{value:?}");
    }
}

#[test]
fn a_package_may_be_called_like_a_module_that_runs_code() {
    let named = |module: &str, name: &str| legacy(format!("c{module}\n{name}\n.").as_bytes());
    for (module, name) in [
        ("code.model", "Net"),
        ("code", "Net"),
        ("http.model", "Net"),
        ("imp.layers", "Conv"),
        ("profile.run_config", "Config"),
        ("ssl.model", "SimSiam"),
        ("timeit.timeit_model", "Net"),
    ] {
        let value = pt::read(&named(module, name).into()).unwrap_or_else(|error| panic!("{module}: {error}"));
        assert!(matches!(value, Value::Opaque(_)), "{module}.{name}: {value:?}");
    }
    for (module, name) in [
        ("code", "interact"),
        ("code", "InteractiveConsole"),
        ("code", "InteractiveInterpreter.runsource"),
        ("code", "os.system"),
        ("http.client", "HTTPConnection"),
        ("http.server", "test"),
        ("imp", "load_source"),
        ("imp", "load_dynamic"),
        ("_imp", "create_dynamic"),
        ("profile", "run"),
        ("cProfile", "run"),
        ("ssl", "get_server_certificate"),
        ("timeit", "timeit"),
        ("anything", "timeit.timeit"),
    ] {
        let said = refusal(named(module, name));
        assert!(said.contains(&format!("asks to run {module}.{name}, which is refused")), "{said}");
    }
}

#[test]
fn empty_tuples_stay_small_above_a_large_stack() {
    // The stack grows to a million objects once. If each of the following tuples had its capacity, they
    // would take terabytes.
    let grow = [vec![b'('], vec![b'N'; 1_000_000], vec![b'1']].concat();
    let object = [&b"\x80\x02"[..], &grow, &b"(t0".repeat(1_000_000), b"N."].concat();
    assert!(matches!(pt::read(&legacy(&object).into()), Ok(Value::None)));
}

#[test]
fn all_that_is_inflated_counts() {
    // 5 MB that claim to be 4.8 GiB of deflated data: possible for deflate, but still a bomb.
    let size = 5_000_000;
    let tensor = Tensor::contiguous(DType::U8, vec![size], vec![0; size].into()).unwrap();
    let mut file = Vec::new();
    pt::write(&Value::Tensor(tensor), &mut file).unwrap();
    let name = b"archive/data/0";
    let at = file.windows(name.len()).rposition(|window| window == name).unwrap() - 46;
    assert_eq!(file[at..at + 4], *b"PK\x01\x02");
    // Method 8 is deflate. The size is in a 64-bit field after the name.
    let claim = size as u64 * 1000;
    file[at + 10] = 8;
    file[at + 24..at + 28].fill(0xff);
    let extra = [&[1, 0, 8, 0][..], &claim.to_le_bytes()].concat();
    file[at + 30..at + 32].copy_from_slice(&(extra.len() as u16).to_le_bytes());
    file.splice(at + 46 + name.len()..at + 46 + name.len(), extra.iter().copied());
    let end = file.windows(4).rposition(|window| window == b"PK\x05\x06").unwrap();
    let directory_size = u32::from_le_bytes(*file[end + 12..].first_chunk().unwrap()) + extra.len() as u32;
    file[end + 12..end + 16].copy_from_slice(&directory_size.to_le_bytes());
    assert_eq!(
        refusal(file),
        "archive/data/0: size of all inflated entries of 5000000000 exceeds the limit of 4294967296"
    );
}

#[test]
fn no_part_of_a_good_file_is_read_as_a_whole() {
    let golden = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/pt");
    for name in ["strides_protocol_2", "strides_protocol_4_legacy", "every_dtype_legacy", "plain_protocol_5"]
    {
        let file = Bytes::from(std::fs::read(golden.join(format!("{name}.pt"))).unwrap());
        assert!(pt::read(&file).is_ok(), "{name}");
        for end in 0..file.len() {
            assert!(pt::read(&file.slice(0..end)).is_err(), "{name} up to byte {end}");
        }
    }
}
