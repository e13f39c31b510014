//! Mapping files in msprobe's formats: what they do to names, and what is reported of lines that do nothing.

#![allow(clippy::unwrap_used)]

mod pairing_programs;

use std::fs;
use std::path::PathBuf;

use pairing_programs::{Program, pair_with};
use proptest::prelude::*;
use tempfile::TempDir;
use ulpscope_compare::{EntryHow, EntryUnit, Mapping, Matching, PairOptions, pair_entries};

struct MappingFile {
    path: PathBuf,
    _folder: TempDir,
}

fn file(text: impl AsRef<[u8]>) -> MappingFile {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("mapping.yaml");
    fs::write(&path, text).unwrap();
    MappingFile { path, _folder: folder }
}

fn options(matching: Matching, mapping: Mapping) -> PairOptions {
    PairOptions { matching, mapping }
}

/// The notes without the folder they are in.
fn notes(notes: &[String]) -> Vec<&str> {
    notes.iter().map(|note| note.split_once("mapping.yaml: ").unwrap().1).collect()
}

#[test]
fn a_data_mapping_pairs_calls_and_their_rows() {
    let fused = r#"{"input_args":[{"type":"torch.Tensor","dtype":"torch.float32","shape":[2],"Max":1,"Min":1,"Mean":1,"Norm":1,"requires_grad":false},{"type":"torch.Tensor","dtype":"torch.float32","shape":[3],"Max":1,"Min":1,"Mean":1,"Norm":1,"requires_grad":false}],"input_kwargs":{},"output":[]}"#;
    let target = Program::new()
        .api("Functional.linear", &[2])
        .raw("Functional.flash_attention_score.4.forward", fused);
    let golden =
        Program::new().raw("NPU.npu_fusion_attention.4.forward", fused).api("Functional.linear", &[2]);
    let yaml = file(
        "# attention\n\
         Functional.flash_attention_score.4.forward.input.0: 'NPU.npu_fusion_attention.4.forward.input.1'\n\
         \"Functional.flash_attention_score.4.forward.input.9\": NPU.npu_fusion_attention.4.forward.input.0 # no such row\n\
         Functional.linear.7.forward: Functional.linear.0.forward\n\
         Functional.linear.0.forward: NPU.npu_fusion_attention.4.forward\n",
    );
    let mapping = Mapping::default().with_data(&yaml.path).unwrap();
    let paired = pair_with(&target, &golden, &options(Matching::Auto, mapping.clone()));
    assert!(paired.lines().contains(
        &"mapped: Functional.flash_attention_score.4.forward = NPU.npu_fusion_attention.4.forward".to_owned()
    ));
    assert_eq!((paired.pairing.counts.mapped, paired.pairing.counts.exact), (1, 1));
    assert_eq!(
        notes(&paired.pairing.notes),
        [
            "line 3: the target has no call or row \"Functional.flash_attention_score.4.forward.input.9\"; the line has no effect",
            "line 4: the target has no call or row \"Functional.linear.7.forward\"; the line has no effect",
            "line 5: \"NPU.npu_fusion_attention.4.forward\" goes with \"Functional.flash_attention_score.4.forward\" by an earlier line, and a call has one counterpart; the line has no effect",
        ]
    );
    let (ours, theirs) = (paired.target.rank.entries(1).unwrap(), paired.golden.rank.entries(0).unwrap());
    let units = pair_entries(&ours, &theirs, &mapping);
    let pairs: Vec<_> = units
        .iter()
        .filter_map(|unit| match unit {
            EntryUnit::Pair(pair) => Some((pair.how, pair.target.path.as_str(), pair.golden.path.as_str())),
            _ => None,
        })
        .collect();
    assert_eq!(pairs, [(EntryHow::Mapped, "0", "1")]);
    assert_eq!(units.len(), 3);
}

#[test]
fn a_data_mapping_knows_saved_variables_by_name_and_by_key() {
    let saved = r#"{"type":"torch.Tensor","dtype":"torch.float32","shape":[2],"Max":1,"Min":1,"Mean":1,"Norm":1,"requires_grad":false}"#;
    let target = Program::new().raw("a.0.debug", saved).raw("b.0.debug", saved).raw("c.007.debug", saved);
    let golden = Program::new().raw("x.0.debug", saved).raw("y.0.debug", saved).raw("z.0.debug", saved);
    let yaml = file("a.0: x.0\nb.0.debug: y.0.debug\nc.007.debug: z.0\nc.7.debug: z.0\n");
    let mapping = Mapping::default().with_data(&yaml.path).unwrap();
    let paired = pair_with(&target, &golden, &options(Matching::Exact, mapping));
    assert_eq!(paired.pairing.counts.mapped, 3, "{:#?}", paired.lines());
    assert_eq!(
        notes(&paired.pairing.notes),
        ["line 4: the target has no call or row \"c.7.debug\"; the line has no effect"]
    );
}

#[test]
fn a_cell_mapping_renames_whole_modules_first_and_parts_else() {
    let target = Program::new()
        .raw("Cell.fc2.Dense.forward.0", r#"{"input_args":[],"output":[]}"#)
        .raw("Cell.conv1.Conv2d.forward.0", r#"{"input_args":[],"output":[]}"#)
        .raw("Cell.deep.fc2.Dense.backward.0", r#"{"input":[],"output":[]}"#)
        .raw("Cell.same.Linear.forward.0", r#"{"input_args":[],"output":[]}"#);
    let golden = Program::new()
        .raw("Module.fc2.Linear.forward.0", r#"{"input_args":[],"output":[]}"#)
        .raw("Module.conv3.Conv2d.forward.0", r#"{"input_args":[],"output":[]}"#)
        .raw("Module.deep.fc2.Linear.backward.0", r#"{"input":[],"output":[]}"#)
        .raw("Module.same.Linear.forward.0", r#"{"input_args":[],"output":[]}"#);
    let yaml = file("fc2.Dense: fc2.Linear\nconv1.Conv2d: conv3.Conv2d\nfc9.Dense: fc9.Linear\n");
    let mapping = Mapping::default().with_cells(&yaml.path).unwrap();
    let paired = pair_with(&target, &golden, &options(Matching::Exact, mapping));
    assert_eq!((paired.pairing.counts.mapped, paired.pairing.counts.exact), (3, 1), "{:#?}", paired.lines());
    assert_eq!(
        notes(&paired.pairing.notes),
        ["line 3: the target has nothing called \"fc9.Dense\"; the line has no effect"]
    );
}

#[test]
fn of_many_lines_without_effect_the_first_are_named_and_the_others_counted() {
    let target = Program::new().module("fc2.Dense", &[2]);
    let golden = Program::new().module("fc1.Linear", &[2]);
    let lines: String = (0..100_000).map(|line| format!("none{line}: nothing\n")).collect();
    let yaml = file(lines);
    for mapping in [Mapping::default().with_cells(&yaml.path), Mapping::default().with_data(&yaml.path)] {
        let paired = pair_with(&target, &golden, &options(Matching::Exact, mapping.unwrap()));
        let notes = notes(&paired.pairing.notes);
        assert_eq!(notes.len(), 11, "{notes:?}");
        assert!(notes[9].starts_with("line 10: the target has no"), "{notes:?}");
        assert_eq!(notes[10], "99990 more lines have no effect");
    }
}

#[test]
fn a_name_that_the_golden_lacks_is_reported() {
    let target = Program::new().module("fc2.Dense", &[2]);
    let golden = Program::new().module("fc1.Linear", &[2]);
    let yaml = file("fc2.Dense: fc3.Linear\n");
    let mapping = Mapping::default().with_cells(&yaml.path).unwrap();
    let paired = pair_with(&target, &golden, &options(Matching::Exact, mapping));
    assert!(paired.lines().contains(
        &"target only: Module.fc2.Dense.forward.0: the mapping file gives it a name that golden does not have"
            .to_owned()
    ));
}

const LAYERS: &str = "
ParallelAttention:                 # a layer
  qkv_proj: query_key_value
  out_proj: dense(RowParallelLinear)
ParallelTransformerLayer:
  attention: self_attention
layers:
  '5': '0'
  6: 1
Cell:
  network_with_loss.model: module
Unknown:
  a: b
";

#[test]
fn a_layer_mapping_renames_places_from_the_top() {
    let layer = |program: Program, path: &str, classes: [&str; 2], names: [&str; 3], op: &str| {
        let [attention, qkv, out] = names;
        let [linear, class] = classes;
        program
            .inside(&format!("Module.{path}.{attention}.{qkv}.{linear}.forward.0"))
            .api(op, &[2])
            .inside(&format!("Module.{path}.{attention}.ParallelAttention.forward.0"))
            .module(&format!("{path}.{attention}.{qkv}.{linear}"), &[2])
            .module(&format!("{path}.{attention}.{out}.{linear}"), &[2])
            .inside("")
            .module(&format!("{path}.{attention}.ParallelAttention"), &[2])
            .module(&format!("{path}.{class}"), &[2])
    };
    let mut target = Program::new();
    let mut golden = Program::new();
    for number in 0..2 {
        let path = format!("network_with_loss.model.layers.{}", number + 5);
        let classes = ["Dense", "ParallelTransformerLayer"];
        target = layer(target, &path, classes, ["attention", "qkv_proj", "out_proj"], "Mint.linear");
        let path = format!("module.layers.{number}");
        let names = ["self_attention", "query_key_value", "dense"];
        golden = layer(golden, &path, ["Linear", "TransformerLayer"], names, "Functional.linear");
    }
    let yaml = file(LAYERS);
    let mapping = Mapping::default().with_layers(&yaml.path).unwrap();
    for matching in [Matching::Exact, Matching::Auto] {
        let paired = pair_with(&target, &golden, &options(matching, mapping.clone()));
        assert_eq!(paired.pairing.counts.mapped, 10, "{:#?}", paired.lines());
        assert!(
            paired
                .lines()
                .contains(&"mapped: Mint.linear.1.forward = Functional.linear.1.forward".to_owned())
        );
        assert_eq!(
            notes(&paired.pairing.notes),
            ["line 13: the target has nothing called \"a\" inside \"Unknown\"; the line has no effect"]
        );
    }
    // Without it only the APIs could be paired.
    let paired = pair_with(&target, &golden, &options(Matching::Exact, Mapping::default()));
    assert_eq!(paired.pairing.counts.pairs(), 0);
}

#[test]
fn any_style_of_yaml_is_read() {
    let target = Program::new().module("a.A", &[2]).module("b.B", &[2]);
    let golden = Program::new().module("x.A", &[2]).module("y.B", &[2]);
    for text in [
        "a.A: x.A\nb.B: y.B\n",
        "\u{feff}# comment\n---\n'a.A' : \"x.A\"\n\n\"b.B\":   y.B   # behind\n...\n",
        "{a.A: x.A, b.B: y.B}",
        "? a.A\n: x.A\nb.B: >-\n  y.B\n",
        "a.A: wrong\r\na.A: x.A\r\nb.B: y.B\r\n",
    ] {
        let yaml = file(text);
        let mapping = Mapping::default().with_cells(&yaml.path).unwrap();
        let paired = pair_with(&target, &golden, &options(Matching::Exact, mapping));
        assert_eq!(paired.pairing.counts.mapped, 2, "{text:?}");
    }
    for empty in ["", "# nothing\n", "---\n"] {
        assert!(Mapping::default().with_layers(&file(empty).path).is_ok(), "{empty:?}");
    }
}

#[test]
fn what_is_no_mapping_is_refused_with_its_line() {
    let message = |text: &[u8], layers: bool| {
        let yaml = file(text);
        let mapping = Mapping::default();
        let result = if layers { mapping.with_layers(&yaml.path) } else { mapping.with_cells(&yaml.path) };
        let message = result.unwrap_err().to_string();
        message.split_once("mapping.yaml: ").unwrap().1.to_owned()
    };
    assert_eq!(message(b"a: b\nc:\n  - d\n", false), "line 3: expected a name or a map, found a list");
    assert_eq!(message(b"- a\n", false), "line 1: expected lines of `name: name`, found a list");
    assert_eq!(message(b"a: b\nc:\n", false), "line 2: expected a name after the colon, found nothing");
    assert_eq!(message(b"a: b\nc:\n  d: e\n", false), "line 2: expected a name after the colon, found a map");
    assert_eq!(
        message(b"a: &x b\nc: *x\n", false),
        "line 2: expected a name or a map, found a reference (`*name`), which mapping files do not have"
    );
    assert_eq!(message(b"a: {b: {c: d}}\n", true), "line 1: nested deeper than 2 levels");
    assert_eq!(
        message(b"A:\n  b: c\nB: d\n", true),
        "line 3: expected lines of `name: name` below the layer, found \"d\""
    );
    assert_eq!(
        message(b"a: b\n---\nc: d\n", false),
        "line 2: expected the end of the file, found a second document"
    );
    assert_eq!(message(b"a: \xff\n", false), "byte 3: expected text in UTF-8, found other bytes");
    assert!(message(b"a: 'b\n", false).starts_with("line "));
    let missing = Mapping::default().with_data(&PathBuf::from("no/such/file.yaml")).unwrap_err();
    assert!(missing.to_string().starts_with("no/such/file.yaml: "), "{missing}");
}

#[test]
fn deep_and_long_files_end_at_once() {
    let deep = [b"[".repeat(100_000), b"{a: ".repeat(100_000), b"- ".repeat(100_000), b"? ".repeat(100_000)];
    for text in deep {
        assert!(Mapping::default().with_layers(&file(text).path).is_err());
    }
    let mut bomb = String::from("a: &a [x, x]\n");
    for letter in 'b'..='z' {
        let before = (letter as u8 - 1) as char;
        bomb += &format!("{letter}: &{letter} [*{before}, *{before}]\n");
    }
    assert!(Mapping::default().with_cells(&file(bomb).path).is_err());
}

proptest! {
    #[test]
    fn no_file_breaks_the_reader(text in "[a-c:{}\\[\\],&*!|>'\"%@`#?\\- \t\n.~]{0,60}") {
        let yaml = file(&text);
        // Accepted or refused; either way with an answer.
        let _ = Mapping::default().with_layers(&yaml.path).map(|mapping| mapping.with_cells(&yaml.path));
    }
}
