//! Hostile msprobe files (tests/hostile/make_msprobe.py): each is refused with this message, after its complete
//! entries.
#![allow(clippy::unwrap_used)]

mod hostile;

use ulpscope_formats::msprobe::{ConstructJson, DumpJson, DumpWriter, Item, StackJson};
use ulpscope_formats::records::{self, PklStyle};
use ulpscope_formats::{Bytes, Error, json};

/// File, entries read before the error (none if the file is refused at once), the error.
const REFUSED: [(&str, Option<usize>, &str); 29] = [
    ("construct.a_list", None, "line 1, byte 1: expected an object of calls and their parents, found a list"),
    ("construct.cut", Some(2), "c, line 1, byte 31: truncated: expected \",\" or \"]\", found the end"),
    ("construct.text_after_end", Some(1), "line 1, byte 12: expected nothing after the value, found '{'"),
    ("dump.a_list", None, "line 1, byte 1: expected an object, found a list"),
    ("dump.a_second_data", Some(2), "line 33, byte 477: expected one key \"data\", found a second"),
    ("dump.a_stack_json", None, "line 1, byte 67: expected a key \"data\", found the end of the object"),
    (
        "dump.cut_after_data",
        Some(0),
        "line 5, byte 71: truncated: expected a key in double quotes or \"}\", found the end",
    ),
    (
        "dump.cut_after_data_in_front",
        Some(1),
        "task, line 1, byte 48: truncated: expected the closing quote of a string, found the end",
    ),
    (
        "dump.cut_after_first_call",
        Some(1),
        "line 18, byte 268: truncated: expected a key in double quotes, found the end",
    ),
    (
        "dump.cut_after_last_call",
        Some(2),
        "line 32, byte 465: truncated: expected \",\" or \"}\", found the end",
    ),
    ("dump.cut_before_data", None, "line 1, byte 25: truncated: expected \":\" after a key, found the end"),
    ("dump.cut_before_end", Some(2), "line 33, byte 468: truncated: expected \",\" or \"}\", found the end"),
    (
        "dump.cut_in_first_call",
        Some(0),
        "Torch.a.0.forward, line 11, byte 197: truncated: expected a value or \"]\", found the end",
    ),
    (
        "dump.cut_in_first_key",
        Some(0),
        "line 6, byte 82: truncated: expected the closing quote of a string, found the end",
    ),
    (
        "dump.cut_in_header",
        None,
        "line 1, byte 23: truncated: expected the closing quote of a string, found the end",
    ),
    (
        "dump.cut_in_second_call",
        Some(1),
        "Torch.b.0.forward, line 23, byte 362: truncated: expected a value, found the end",
    ),
    (
        "dump.data_is_a_list",
        None,
        "line 1, byte 28: expected an object of calls after the key \"data\", found a list",
    ),
    (
        "dump.data_is_null",
        None,
        "line 1, byte 31: expected an object of calls after the key \"data\", found null",
    ),
    ("dump.deep_call", Some(1), "deep, line 1, byte 1065: nested deeper than 1024 levels"),
    ("dump.empty", None, "line 1, byte 0: truncated: expected a value, found the end"),
    (
        "dump.many_header_keys",
        None,
        "line 1, byte 11187: the number of keys beside \"data\" of 1025 exceeds the limit of 1024",
    ),
    ("dump.no_data", None, "line 1, byte 33: expected a key \"data\", found the end of the object"),
    ("dump.text_after_end", Some(2), "line 33, byte 469: expected nothing after the value, found 'x'"),
    ("stack.a_list", None, "line 1, byte 1: expected an object of stacks, found a list"),
    (
        "stack.cut",
        Some(1),
        "b, line 1, byte 21: truncated: expected the closing quote of a string, found the end",
    ),
    (
        "stack.lines_are_null",
        Some(1),
        "b, line 1, byte 22: expected a list of stack lines, or of names and stack lines, found null",
    ),
    ("stack.lines_are_numbers", Some(0), "0, line 1, byte 21: expected a line of text, found the integer 1"),
    ("stack.names_are_lists", Some(0), "0, line 1, byte 22: expected a line of text, found a list of 1"),
    ("stack.three_parts", Some(0), "0, line 1, byte 27: expected a line of text, found a list of 1"),
];

/// Complete dumps, and the error about the name of their tensor's file.
const NAMES: [(&str, &str); 7] = [
    (
        "dump.name_climbs",
        "data_name: \"../../etc/passwd\" leads out of its folder; expected a plain relative name",
    ),
    ("dump.name_has_nul", "data_name: \"a\\0.pt\" leads out of its folder; expected a plain relative name"),
    (
        "dump.name_is_a_drive",
        "data_name: \"C:\\\\windows\\\\win.ini\" leads out of its folder; expected a plain relative name",
    ),
    ("dump.name_is_a_number", "data_name: expected the name of a file, found the integer 7"),
    (
        "dump.name_is_absolute",
        "data_name: \"/etc/passwd\" leads out of its folder; expected a plain relative name",
    ),
    ("dump.name_is_empty", "data_name: \"\" leads out of its folder; expected a plain relative name"),
    ("dump.name_is_up", "data_name: \"..\" leads out of its folder; expected a plain relative name"),
];

/// A dump with the maximum nesting depth.
const DEEP: &str = "dump.deep_call_at_the_limit";

/// One of the files. Each of them has a row in one of the tables.
fn file(name: &str) -> Bytes {
    let names: Vec<&str> =
        REFUSED.map(|(name, ..)| name).into_iter().chain(NAMES.map(|(name, _)| name)).chain([DEEP]).collect();
    let at = names.iter().position(|&row| row == name).unwrap();
    hostile::files("msprobe", ".json", names).swap_remove(at)
}

/// The number of entries before the error, and the error.
fn refusal<T>(
    entries: Result<impl Iterator<Item = Result<T, Error>>, Error>,
) -> (Option<usize>, Option<String>) {
    let entries = match entries {
        Ok(entries) => entries,
        Err(error) => return (None, Some(error.to_string())),
    };
    let mut whole = 0;
    let mut refused = None;
    for entry in entries {
        assert_eq!(refused, None, "nothing comes after an error");
        match entry {
            Ok(_) => whole += 1,
            Err(error) => refused = Some(error.to_string()),
        }
    }
    (Some(whole), refused)
}

#[test]
fn every_file_is_refused_with_this_message() {
    for (name, whole, expected) in REFUSED {
        let bytes = file(name);
        let seen = match name.split('.').next().unwrap() {
            "dump" => refusal(DumpJson::new(&bytes)),
            "stack" => refusal(StackJson::new(&bytes)),
            _ => refusal(ConstructJson::new(&bytes)),
        };
        assert_eq!(seen, (whole, Some(expected.to_owned())), "{name}");
    }
}

#[test]
fn names_that_lead_out_of_the_folder_are_refused() {
    for (name, expected) in NAMES {
        let bytes = file(name);
        let call = DumpJson::new(&bytes).unwrap().next().unwrap().unwrap();
        let Some(Item::List(items)) = call.section("input_args") else { panic!("{call:?}") };
        let Item::Tensor(tensor) = &items[0] else { panic!("{items:?}") };
        assert_eq!(tensor.data_name().unwrap_err().to_string(), expected, "{name}");
    }
}

#[test]
fn a_call_as_deep_as_is_read_can_be_written_and_converted() {
    let bytes = file(DEEP);
    let mut dump = DumpJson::new(&bytes).unwrap();
    let call = dump.next().unwrap().unwrap();
    let mut out = Vec::new();
    let mut writer = DumpWriter::new(&mut out, dump.before()).unwrap();
    writer.call(&call).unwrap();
    writer.finish(&[]).unwrap();
    assert_eq!(json::read(&out).unwrap(), json::read(&bytes).unwrap());
    let report = records::msprobe_to_pkl(&bytes, None, PklStyle::Ptdbg6, &mut Vec::new()).unwrap();
    assert_eq!((report.calls, report.error_count), (0, 0));
}

#[test]
fn a_million_brackets_are_one_error() {
    let bytes = Bytes::from([b"{\"data\": {\"a\": ".to_vec(), vec![b'['; 1_000_000]].concat());
    let expected = "a, line 1, byte 1037: nested deeper than 1024 levels";
    assert_eq!(refusal(DumpJson::new(&bytes)), (Some(0), Some(expected.to_owned())));
}
