//! Which arguments and results of two paired calls belong together.

#![allow(clippy::unwrap_used)]

mod pairing_programs;

use pairing_programs::Program;
use ulpscope_compare::{EntryUnit, Mapping, pair_entries};

const TENSOR: &str = r#"{"type":"torch.Tensor","dtype":"torch.float32","shape":[SHAPE],"Max":1,"Min":1,"Mean":1,"Norm":1,"requires_grad":false}"#;

fn tensor(shape: &str) -> String {
    TENSOR.replace("SHAPE", shape)
}

fn lines(target: &str, golden: &str) -> Vec<String> {
    let open = |body: &str| Program::new().raw("Torch.add.0.forward", body).open();
    let (target, golden) = (open(target), open(golden));
    let (ours, theirs) = (target.rank.entries(0).unwrap(), golden.rank.entries(0).unwrap());
    let line = |unit: &EntryUnit| match unit {
        EntryUnit::Pair(pair) => {
            let place = |role: &str, path: &str| format!("{role}.{path}");
            let ours = place(pair.target.role.word(), &pair.target.path);
            format!("{:?}: {ours} = {}", pair.how, place(pair.golden.role.word(), &pair.golden.path))
        }
        EntryUnit::TargetOnly { entry, reason } => {
            format!("target {}.{}: {reason}", entry.role.word(), entry.path)
        }
        EntryUnit::GoldenOnly { entry, reason } => {
            format!("golden {}.{}: {reason}", entry.role.word(), entry.path)
        }
    };
    pair_entries(&ours, &theirs, &Mapping::default()).iter().map(line).collect()
}

#[test]
fn entries_pair_by_role_and_place() {
    let (two, three) = (tensor("2"), tensor("3"));
    let target = format!(r#"{{"input_args":[{two},[{three},{two}]],"input_kwargs":{{}},"output":[{two}]}}"#);
    assert_eq!(
        lines(&target, &target),
        [
            "Place: input.0 = input.0",
            "Place: input.1.0 = input.1.0",
            "Place: input.1.1 = input.1.1",
            "Place: output.0 = output.0",
        ]
    );
}

#[test]
fn a_different_shape_at_the_same_place_is_still_the_same_argument() {
    let target = format!(r#"{{"input_args":[{}],"output":[]}}"#, tensor("2"));
    let golden = format!(r#"{{"input_args":[{}],"output":[]}}"#, tensor("5"));
    assert_eq!(lines(&target, &golden), ["Place: input.0 = input.0"]);
}

#[test]
fn what_is_passed_by_position_here_and_by_name_there_pairs_by_shape() {
    let (two, three) = (tensor("2"), tensor("3"));
    let target = format!(r#"{{"input_args":[{two},{three}],"input_kwargs":{{}},"output":[]}}"#);
    let golden = format!(r#"{{"input_args":[{two}],"input_kwargs":{{"other":{three}}},"output":[]}}"#);
    assert_eq!(lines(&target, &golden), ["Place: input.0 = input.0", "Order: input.1 = input.other"]);
}

#[test]
fn what_one_side_lacks_is_listed_in_its_place() {
    let (two, three) = (tensor("2"), tensor("3"));
    let value = r#"{"type":"int","value":3}"#;
    let target = format!(r#"{{"input_args":[{two},{three}],"output":[{two},{three}]}}"#);
    let golden = format!(r#"{{"input_args":[{two}],"input_kwargs":{{"alpha":{value}}},"output":[]}}"#);
    assert_eq!(
        lines(&target, &golden),
        [
            "Place: input.0 = input.0",
            "golden input.alpha: none of the 2 inputs of the call in target stands at this place",
            "target input.1: none of the 2 inputs of the call in golden stands at this place",
            "target output.0: the call in golden has no output at all",
            "target output.1: the call in golden has no output at all",
        ]
    );
}
