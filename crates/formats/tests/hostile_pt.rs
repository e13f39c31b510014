//! Files of tests/hostile/pt, by name, with the expected error of each.
#![allow(clippy::unwrap_used)]

mod hostile;

use ulpscope_formats::pt;

const CASES: &[(&str, &str)] = &[
    (
        "bomb_beyond_what_deflate_can_do",
        "archive/data/0: size of the inflated entry of 4294901760 exceeds the limit of 80496",
    ),
    (
        "bomb_larger_than_it_says",
        "archive/data/0: expected 1024 bytes of deflated data, found File is larger than its declared uncompressed size",
    ),
    ("byteorder_unknown", r#"archive/byteorder: expected "little" or "big", found "middle""#),
    (
        "deflated_garbage",
        "archive/data/0: expected 65536 bytes of deflated data, found corrupt deflate stream",
    ),
    ("deflated_smaller_than_it_says", "archive/data/0: expected 65537 bytes of deflated data, found 65536"),
    (
        "deflated_wrong_checksum",
        "archive/data/0: expected 65536 bytes of deflated data, found Invalid checksum",
    ),
    (
        "empty",
        "not a .pt file (a zip archive, or torch's older form): it begins with nothing (the file is empty)",
    ),
    (
        "entries_overlap",
        r#"archive/data.pkl: expected entries that do not overlap, found one within "archive/data/0""#,
    ),
    (
        "entries_without_a_folder",
        r#"expected a torch archive, with its entries in one folder, found "data.pkl""#,
    ),
    (
        "entry_beyond_the_file",
        "archive/data/0: truncated: expected data up to byte 1073742043, found a file of 379 bytes",
    ),
    ("entry_encrypted", "archive/data/0: the entry is encrypted"),
    (
        "entry_of_unknown_compression",
        "archive/data/0: the entry is compressed by Unsupported(97); only stored and deflated ones are read",
    ),
    ("entry_size_lies", "archive/data/0: expected 16 bytes, as many as are stored, found a size of 1048576"),
    ("legacy_cut_after_the_magic_number", "byte 15: truncated: expected an opcode of 1 byte, found 0"),
    (
        "legacy_cut_in_a_count",
        "storage 0, byte 171: truncated: expected an element count of 8 bytes, found 4",
    ),
    (
        "legacy_cut_in_a_storage",
        "storage 0, byte 171: truncated: expected 4 elements of 4 bytes, found 15 bytes",
    ),
    ("legacy_cut_in_the_object", "byte 29: truncated: expected a line, found 4 bytes without a line end"),
    (
        "legacy_huge_count",
        "storage 0, byte 179: truncated: expected 9223372036854775807 elements of 4 bytes, found 0 bytes",
    ),
    ("legacy_key_not_text", "byte 161: expected the key of a storage, found the integer 0"),
    (
        "legacy_key_of_nothing",
        r#"byte 170: expected the key of a storage that the object refers to, found the text "1""#,
    ),
    ("legacy_keys_not_a_list", "byte 158: expected the list of storage keys, found None"),
    ("legacy_storage_not_listed", r#"expected a storage "0", found none among 0"#),
    (
        "legacy_unknown_storage_class",
        "storage 0, byte 170: the element size of torch.EvilStorage is unknown, so later storages cannot be located",
    ),
    ("legacy_wrong_count", "storage 0, byte 171: expected 4 elements, as the object says, found 3"),
    ("legacy_wrong_version", "byte 17: expected torch's file version 1001, found the integer 1002"),
    ("name_absolute", r#""/etc/evil" leads out of its folder; expected a plain relative name"#),
    ("name_with_backslash", r#""archive/x\\evil" leads out of its folder; expected a plain relative name"#),
    ("name_with_nul", r#""archive/x\0evil" leads out of its folder; expected a plain relative name"#),
    ("name_with_parent", r#""archive/../../evil" leads out of its folder; expected a plain relative name"#),
    ("no_data_pkl", r#"expected an archive entry "archive/data.pkl", found none among 1"#),
    ("pickle_append_to_none", "archive/data.pkl, byte 4: expected a list or set to add to, found None"),
    (
        "pickle_array_of_10_to_the_30",
        "archive/data.pkl, byte 55: shape [1000000000000000, 1000000000000000] with strides [4000000000000000, 4] overflows the address space",
    ),
    (
        "pickle_array_of_a_negative_size",
        "archive/data.pkl, byte 60: expected a dimension, found the integer -1",
    ),
    (
        "pickle_array_too_short",
        "archive/data.pkl, byte 55: shape [1000] needs bytes 0..4000, but there are 4",
    ),
    (
        "pickle_array_without_a_state",
        "archive/data.pkl, byte 55: expected a numpy array's (version, shape, dtype, is Fortran, data), found a call of numpy.core.multiarray._reconstruct",
    ),
    (
        "pickle_buffers_elsewhere",
        "archive/data.pkl, byte 2: the pickle keeps buffers outside itself; save it without a buffer callback",
    ),
    (
        "pickle_build_of_a_list",
        "archive/data.pkl, byte 4: expected an object to give a state to, found a list of 0",
    ),
    (
        "pickle_bytes_not_latin_1",
        r#"archive/data.pkl, byte 19: expected text in Latin-1, found the text "漢""#,
    ),
    (
        "pickle_bytes_of_16_eib",
        "archive/data.pkl, byte 2: truncated: expected a byte string of 18446744073709551615 bytes, found 1",
    ),
    ("pickle_contains_itself", "archive/data.pkl, byte 2: nested deeper than 256 levels"),
    (
        "pickle_deflated_lists",
        "archive/data.pkl, byte 1690810: objects of a pickle need 67632996 bytes of memory; the limit for a file of 32757 bytes is 67632976 (16 × its size + 64 MiB): store numbers as tensors, or split the file",
    ),
    (
        "pickle_dictionary_without_a_value",
        "archive/data.pkl, byte 5: expected a value for each key, found 1 objects",
    ),
    (
        "pickle_doubles_sixty_times",
        "archive/data.pkl: number of values a pickle unfolds into of 65537 exceeds the limit of 65536",
    ),
    ("pickle_ends_at_once", "archive/data.pkl, byte 0: truncated: expected an opcode of 1 byte, found 0"),
    (
        "pickle_ends_in_a_line",
        "archive/data.pkl, byte 0: truncated: expected a line, found 2 bytes without a line end",
    ),
    ("pickle_ends_in_a_text", "archive/data.pkl, byte 2: truncated: expected text of 16 bytes, found 4"),
    (
        "pickle_ends_in_an_integer",
        "archive/data.pkl, byte 2: truncated: expected an integer of 4 bytes, found 1",
    ),
    (
        "pickle_ends_without_stop",
        "archive/data.pkl, byte 3: truncated: expected an opcode of 1 byte, found 0",
    ),
    ("pickle_integer_not_decimal", r#"archive/data.pkl, byte 0: expected a decimal integer, found "1x""#),
    ("pickle_memo_unknown", "archive/data.pkl, byte 2: expected a memo number in use, found 5 among 0 memos"),
    (
        "pickle_name_not_text",
        "archive/data.pkl, byte 6: expected the texts of a module and a name, found the integer 1 and the integer 2",
    ),
    (
        "pickle_name_of_2000_letters",
        "archive/data.pkl, byte 2: length of a name of 2000 exceeds the limit of 1024",
    ),
    ("pickle_no_mark", "archive/data.pkl, byte 3: expected a mark on the stack, found none"),
    (
        "pickle_obj_without_a_class",
        "archive/data.pkl, byte 1: expected a class after the mark, found nothing",
    ),
    (
        "pickle_persistent_id_of_another_kind",
        r#"archive/data.pkl, byte 3: expected "storage", found the text "network""#,
    ),
    (
        "pickle_persistent_id_of_text",
        r#"archive/data.pkl, byte 2: expected ("storage", class, key, location, element count), found the text "storage""#,
    ),
    (
        "pickle_repeats_a_text",
        "archive/data.pkl: number of values a pickle unfolds into of 65662 exceeds the limit of 65536",
    ),
    (
        "pickle_set_items_of_a_list",
        "archive/data.pkl, byte 6: expected a dictionary to set items in, found a list of 0",
    ),
    ("pickle_stack_below_a_mark", "archive/data.pkl, byte 4: expected an object on the stack, found nothing"),
    ("pickle_stack_empty", "archive/data.pkl, byte 2: expected an object on the stack, found nothing"),
    ("pickle_string_not_quoted", r#"archive/data.pkl, byte 0: expected a quoted string, found "abc""#),
    (
        "pickle_string_with_a_cut_escape",
        r#"archive/data.pkl, byte 0: expected a quoted string, found "'\\x4'""#,
    ),
    (
        "pickle_text_not_utf8",
        "archive/data.pkl, byte 2: expected text in UTF-8, found a stray byte 1 bytes in",
    ),
    (
        "pickle_text_of_4_gib",
        "archive/data.pkl, byte 2: truncated: expected text of 4294967295 bytes, found 1",
    ),
    ("pickle_unknown_opcode", "archive/data.pkl, byte 2: expected a pickle opcode, found the byte 0xfe"),
    (
        "pickle_unknown_protocol",
        "archive/data.pkl, byte 0: expected a pickle protocol up to 5, found protocol 6",
    ),
    (
        "runs_a_partial",
        "archive/data.pkl, byte 2: the file asks to run functools.partial, which is refused: expected only tensors and plain values",
    ),
    (
        "runs_and_drops_the_result",
        "archive/data.pkl, byte 2: the file asks to run os.system, which is refused: expected only tensors and plain values",
    ),
    (
        "runs_by_inst",
        "archive/data.pkl, byte 15: the file asks to run os.system, which is refused: expected only tensors and plain values",
    ),
    (
        "runs_by_newobj",
        "archive/data.pkl, byte 2: the file asks to run subprocess.Popen, which is refused: expected only tensors and plain values",
    ),
    (
        "runs_by_obj",
        "archive/data.pkl, byte 1: the file asks to run os.system, which is refused: expected only tensors and plain values",
    ),
    (
        "runs_eval",
        "archive/data.pkl, byte 2: the file asks to run builtins.eval, which is refused: expected only tensors and plain values",
    ),
    (
        "runs_exec_of_python_2",
        "byte 29: the file asks to run builtins.execfile, which is refused: expected only tensors and plain values",
    ),
    (
        "runs_getattr",
        "archive/data.pkl, byte 2: the file asks to run builtins.getattr, which is refused: expected only tensors and plain values",
    ),
    (
        "runs_in_the_storage_keys",
        "byte 158: the file asks to run os.system, which is refused: expected only tensors and plain values",
    ),
    (
        "runs_os_system",
        "archive/data.pkl, byte 2: the file asks to run os.system, which is refused: expected only tensors and plain values",
    ),
    (
        "runs_posix_system",
        "archive/data.pkl, byte 2: the file asks to run posix.system, which is refused: expected only tensors and plain values",
    ),
    (
        "runs_subprocess_beside_a_tensor",
        "byte 156: the file asks to run subprocess.Popen, which is refused: expected only tensors and plain values",
    ),
    (
        "runs_through_an_attribute",
        "archive/data.pkl, byte 40: the file asks to run torch.serialization.os.system, which is refused: expected only tensors and plain values",
    ),
    (
        "runs_torch_load",
        "archive/data.pkl, byte 2: the file asks to run torch.storage._load_from_bytes, which is refused: expected only tensors and plain values",
    ),
    ("symlink", r#""archive/data/0" leads out of its folder; expected a plain relative name"#),
    (
        "tensor_beyond_its_storage",
        "archive/data.pkl, byte 127: shape [2] needs bytes 12..20, but there are 16",
    ),
    (
        "tensor_dimension_beyond_everything",
        "archive/data.pkl, byte 138: expected a size within the address space, found [1208925819614629174706176]",
    ),
    (
        "tensor_dimension_negative",
        "archive/data.pkl, byte 130: expected a size within the address space, found [-1]",
    ),
    (
        "tensor_expanded_beyond_belief",
        "archive/data.pkl, byte 134: number of elements of all tensors of 1000000000000000 exceeds the limit of 4294967296",
    ),
    (
        "tensor_larger_than_its_storage",
        "archive/data.pkl, byte 127: shape [5] needs bytes 0..20, but there are 16",
    ),
    (
        "tensor_negative_bit_of_integers",
        "archive/data.pkl, byte 124: expected no negative bit on a tensor of int32, found a dictionary of 1",
    ),
    (
        "tensor_offset_beyond_everything",
        "archive/data.pkl, byte 136: expected an offset within the address space, found [18446744073709551616]",
    ),
    (
        "tensor_offset_negative",
        "archive/data.pkl, byte 130: expected an offset within the address space, found [-1]",
    ),
    (
        "tensor_parameter_of_nothing",
        "archive/data.pkl, byte 36: expected the tensor of a parameter, found a tuple of 0",
    ),
    ("tensor_rank_65", "archive/data.pkl, byte 220: rank of 65 exceeds the limit of 64"),
    ("tensor_rank_mismatch", "archive/data.pkl, byte 129: shape has 2 dimensions, strides have 1"),
    (
        "tensor_shape_not_a_tuple",
        "archive/data.pkl, byte 89: expected a tuple of integers, found the integer 4",
    ),
    ("tensor_shape_not_integers", r#"archive/data.pkl, byte 90: expected an integer, found the text "4""#),
    (
        "tensor_shape_overflows",
        "archive/data.pkl, byte 143: shape [1099511627776, 1099511627776] with strides [0, 0] overflows the address space",
    ),
    (
        "tensor_storage_count_negative",
        "archive/data.pkl, byte 83: expected an element count, found the integer -1",
    ),
    (
        "tensor_storage_count_overflows",
        "storage 0: truncated: expected 9223372036854775807 elements of 4 bytes, found 16 bytes",
    ),
    (
        "tensor_storage_elsewhere",
        r#"archive/data.pkl: expected an archive entry "archive/data/../data.pkl", found none among 2"#,
    ),
    (
        "tensor_storage_missing",
        r#"archive/data.pkl: expected an archive entry "archive/data/7", found none among 2"#,
    ),
    (
        "tensor_storage_part_negative",
        "storage 0: expected a part of its 16 bytes, found 3 elements of 4 bytes from element -1",
    ),
    (
        "tensor_storage_part_outside",
        "storage 0: expected a part of its 16 bytes, found 3 elements of 4 bytes from element 2",
    ),
    ("tensor_storage_too_short", "storage 0: truncated: expected 5 elements of 4 bytes, found 16 bytes"),
    (
        "tensor_stride_beyond_everything",
        "archive/data.pkl, byte 135: expected strides within the address space, found [4611686018427387904]",
    ),
    (
        "tensor_stride_leads_in_front",
        "archive/data.pkl, byte 130: shape [2] needs bytes -4..4, but there are 16",
    ),
    (
        "tensor_stride_overflows",
        "archive/data.pkl, byte 140: expected strides within the address space, found [1267650600228229401496703205376]",
    ),
    (
        "tensor_without_a_dtype",
        "archive/data.pkl, byte 97: expected a dtype as the seventh of the arguments, found a tuple of 4",
    ),
    ("tensor_without_a_storage", "archive/data.pkl, byte 36: expected a reference to a storage, found None"),
    (
        "tensor_without_arguments",
        "archive/data.pkl, byte 36: expected (storage, offset, size, stride, ...), found a tuple of 0",
    ),
    (
        "torchscript",
        "a TorchScript program, not saved tensors; load it with torch.jit.load and torch.save its state_dict()",
    ),
    ("two_entries_of_one_name", "expected one archive entry per name, found two entries of the same name"),
    (
        "wrong_magic",
        r#"not a .pt file (a zip archive, or torch's older form): it begins with "\x89PNG\r\n\x1a\n""#,
    ),
    (
        "zip_cut_in_the_directory",
        "expected a complete zip archive, found a cut or damaged one (invalid Zip archive: Could not find EOCD)",
    ),
    (
        "zip_cut_in_the_middle",
        "expected a complete zip archive, found a cut or damaged one (invalid Zip archive: Could not find EOCD)",
    ),
];

#[test]
fn every_hostile_file_is_refused_for_its_reason() {
    let files = hostile::files("pt", ".pt", CASES.iter().map(|(name, _)| *name));
    for ((name, expected), bytes) in CASES.iter().zip(files) {
        let error = pt::read(&bytes).unwrap_err();
        assert_eq!(error.to_string(), *expected, "{name}");
    }
}
