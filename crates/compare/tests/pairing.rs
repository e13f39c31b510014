//! How calls of two programs are paired, method by method.

#![allow(clippy::unwrap_used)]

mod pairing_programs;

use pairing_programs::{Program, pair_programs};
use ulpscope_compare::{How, Matching};

const ADD: &str = "Tensor.__add__";
const LINEAR: &str = "Functional.linear";

/// Layers of a linear and two additions, forward and backward. An extra addition comes before `extra_before`.
fn layers(count: u64, extra_before: Option<u64>) -> Program {
    let mut program = Program::new();
    let mut adds = Vec::new();
    let mut number = 0;
    for layer in 0..count {
        if extra_before == Some(layer) {
            program = program.api(ADD, &[2, 8]);
            number += 1;
        }
        program =
            program.api(LINEAR, &[2, 8]).api(ADD, &[2, 8]).api("Functional.gelu", &[2, 8]).api(ADD, &[2, 8]);
        adds.push(number);
        adds.push(number + 1);
        number += 2;
    }
    for layer in (0..count).rev() {
        let at = layer as usize * 2;
        program = program
            .backward(ADD, adds[at + 1], &[2, 8])
            .backward("Functional.gelu", layer as u32, &[2, 8])
            .backward(ADD, adds[at], &[2, 8])
            .backward(LINEAR, layer as u32, &[2, 8]);
    }
    program
}

#[test]
fn words_are_read_and_written() {
    for word in ["auto", "exact", "shape", "fuzzy", "align"] {
        assert_eq!(word.parse::<Matching>().unwrap().to_string(), word);
    }
    let error = "near".parse::<Matching>().unwrap_err();
    assert_eq!(error.to_string(), "expected one of auto, exact, shape, fuzzy, align, found \"near\"");
}

#[test]
fn identical_programs_pair_by_name_whatever_the_method() {
    let program = layers(5, Some(2));
    for matching in [Matching::Auto, Matching::Exact, Matching::Align, Matching::Fuzzy] {
        assert!(pair_programs(&program, &program, matching).all_are(How::Exact), "{matching}");
    }
    assert!(pair_programs(&program, &program, Matching::Shape).all_are(How::Shape));
}

#[test]
fn an_extra_call_is_skipped_and_its_successors_lock_on_again() {
    let golden = layers(4, None);
    for layer in 0..4 {
        let paired = pair_programs(&layers(4, Some(layer)), &golden, Matching::Auto);
        let shift = layer as u32 * 2;
        let remarkable = paired.remarkable();
        let only: Vec<_> = remarkable.iter().filter(|line| line.contains("only")).collect();
        assert_eq!(only.len(), 1, "{remarkable:#?}");
        assert!(remarkable.iter().any(|line| line.starts_with("target only: Tensor.__add__.")));
        // Every addition after the extra one, forward and backward.
        assert_eq!(paired.pairing.counts.aligned, u64::from(8 - shift) * 2, "{remarkable:#?}");
        assert_eq!(paired.pairing.counts.golden_only, 0);
        for number in shift..8 {
            for direction in ["forward", "backward"] {
                let later = number + 1;
                let line = format!("aligned: {ADD}.{later}.{direction} = {ADD}.{number}.{direction}");
                assert!(remarkable.contains(&line), "{line} in {remarkable:#?}");
            }
        }
    }
}

#[test]
fn the_reason_for_an_extra_call_counts_calls() {
    let paired = pair_programs(&layers(1, Some(0)), &layers(1, None), Matching::Auto);
    assert_eq!(
        paired.remarkable()[0],
        "target only: Tensor.__add__.0.forward: golden makes this call 2 times, target 3; at this place golden does not"
    );
}

#[test]
fn a_missing_call_is_listed_where_it_stands_in_the_golden() {
    let golden = Program::new().api(LINEAR, &[2]).api("Torch.tanh", &[2]).api(ADD, &[2]).api(LINEAR, &[3]);
    let target = Program::new().api(LINEAR, &[2]).api(ADD, &[2]).api(LINEAR, &[3]);
    assert_eq!(
        pair_programs(&target, &golden, Matching::Auto).lines(),
        [
            "exact: Functional.linear.0.forward = Functional.linear.0.forward",
            "golden only: Torch.tanh.0.forward: target never makes a call of this name in this direction",
            "exact: Tensor.__add__.0.forward = Tensor.__add__.0.forward",
            "exact: Functional.linear.1.forward = Functional.linear.1.forward",
        ]
    );
}

#[test]
fn unpaired_calls_at_either_end_are_reported() {
    let middle = |program: Program| program.api(LINEAR, &[4]).api(ADD, &[4]).api(LINEAR, &[5]);
    let target = middle(Program::new().api(ADD, &[1])).api(ADD, &[9]);
    let paired = pair_programs(&target, &middle(Program::new()), Matching::Auto);
    let only: Vec<_> = paired.lines().into_iter().filter(|line| line.starts_with("target only")).collect();
    assert!(only[0].starts_with("target only: Tensor.__add__.0.forward"), "{only:#?}");
    assert!(only[1].starts_with("target only: Tensor.__add__.2.forward"), "{only:#?}");
    assert!(
        paired.lines().contains(&"aligned: Tensor.__add__.1.forward = Tensor.__add__.0.forward".to_owned())
    );
}

#[test]
fn shapes_tell_which_of_equal_calls_is_extra() {
    let target = Program::new().api(ADD, &[1]).api(ADD, &[2]).api(ADD, &[3]).api(LINEAR, &[1]);
    let golden = Program::new().api(ADD, &[1]).api(ADD, &[3]).api(LINEAR, &[1]);
    assert_eq!(
        pair_programs(&target, &golden, Matching::Auto).remarkable(),
        [
            "target only: Tensor.__add__.1.forward: golden makes this call 2 times, target 3; at this place golden does not",
            "aligned: Tensor.__add__.2.forward = Tensor.__add__.1.forward",
        ]
    );
}

#[test]
fn names_decide_where_shapes_cannot() {
    // The second run of the target has one call more, the first one less.
    let run = |program: Program, count: u32| (0..count).fold(program, |program, _| program.api(ADD, &[2]));
    let target = run(run(Program::new(), 2).api(LINEAR, &[2]), 3).api("Torch.tanh", &[2]);
    let golden = run(run(Program::new(), 3).api(LINEAR, &[2]), 2).api("Torch.tanh", &[2]);
    let paired = pair_programs(&target, &golden, Matching::Align);
    assert_eq!(
        paired.remarkable(),
        [
            "golden only: Tensor.__add__.2.forward: target makes this call too, but not at this place in the order of calls",
            "target only: Tensor.__add__.2.forward: golden makes this call too, but not at this place in the order of calls",
        ]
    );
}

#[test]
fn equal_names_with_shifted_shapes_are_aligned() {
    // The same names in the same order, but the target left out the [2] and added a [9] at the end.
    let run =
        |shapes: &[u64]| shapes.iter().fold(Program::new(), |program, &shape| program.api(ADD, &[shape]));
    let paired = pair_programs(&run(&[1, 3, 4, 5, 6, 9]), &run(&[1, 2, 3, 4, 5, 6]), Matching::Auto);
    assert_eq!(paired.pairing.counts.exact, 1);
    assert_eq!(paired.pairing.counts.aligned, 4);
    assert_eq!((paired.pairing.counts.target_only, paired.pairing.counts.golden_only), (1, 1));
}

#[test]
fn two_calls_fused_into_one_stay_alone() {
    let golden = Program::new().api(LINEAR, &[2]).api("Torch.matmul", &[4]).api(ADD, &[4]).api(LINEAR, &[3]);
    let target = Program::new().api(LINEAR, &[2]).api("Torch.addmm", &[4]).api(LINEAR, &[3]);
    let paired = pair_programs(&target, &golden, Matching::Auto);
    let alone: Vec<_> =
        paired.remarkable().iter().map(|line| line.split(": ").nth(1).unwrap().to_owned()).collect();
    assert_eq!(alone, ["Torch.matmul.0.forward", "Tensor.__add__.0.forward", "Torch.addmm.0.forward"]);
}

#[test]
fn calls_that_changed_places_pair_by_name() {
    let golden =
        Program::new().api(LINEAR, &[2]).api("Torch.tanh", &[2]).api("Torch.exp", &[2]).api(LINEAR, &[3]);
    let target =
        Program::new().api(LINEAR, &[2]).api("Torch.exp", &[2]).api("Torch.tanh", &[2]).api(LINEAR, &[3]);
    assert!(pair_programs(&target, &golden, Matching::Auto).all_are(How::Exact));
}

#[test]
fn half_precision_pairs_like_any_other() {
    let program = |dtype, extra: bool| {
        let mut program =
            Program::new().dtype(dtype).api(LINEAR, &[2, 8]).api(ADD, &[2, 8]).api(ADD, &[2, 9]);
        if extra {
            program = program.api(ADD, &[2, 10]);
        }
        program.api(ADD, &[2, 11]).api(LINEAR, &[2, 8])
    };
    let golden = program("torch.float32", false);
    for half in ["torch.bfloat16", "torch.float16"] {
        assert!(pair_programs(&program(half, false), &golden, Matching::Shape).all_are(How::Shape));
        assert!(pair_programs(&program(half, false), &golden, Matching::Auto).all_are(How::Exact));
        let paired = pair_programs(&program(half, true), &golden, Matching::Auto);
        assert_eq!((paired.pairing.counts.exact, paired.pairing.counts.aligned), (4, 1));
        assert!(paired.remarkable()[0].starts_with("target only: Tensor.__add__.2.forward"));
    }
}

#[test]
fn a_different_batch_size_pairs_by_name_and_order() {
    let program = |batch: u64, extra: bool| {
        let mut program = Program::new();
        for layer in 0..6 {
            if extra && layer == 3 {
                program = program.api(ADD, &[batch, 8]);
            }
            program =
                program.api(LINEAR, &[batch, 8]).api("Functional.gelu", &[batch, 8]).api(ADD, &[batch, 8]);
        }
        program
    };
    assert!(pair_programs(&program(2, false), &program(4, false), Matching::Auto).all_are(How::Exact));
    let paired = pair_programs(&program(2, true), &program(4, false), Matching::Auto);
    assert_eq!(paired.pairing.counts.target_only, 1);
    assert_eq!(paired.pairing.counts.golden_only, 0);
    assert!(
        paired.lines().contains(&"aligned: Tensor.__add__.6.forward = Tensor.__add__.5.forward".to_owned())
    );
}

#[test]
fn spellings_of_one_operation_pair_when_shapes_agree() {
    let golden =
        Program::new().api(LINEAR, &[2]).api(ADD, &[4]).api("Tensor.__truediv__", &[4]).api(LINEAR, &[3]);
    let target = Program::new()
        .api(LINEAR, &[2])
        .api("Aten.add.Tensor", &[4])
        .api("Aten.div.Tensor", &[5])
        .api(LINEAR, &[3]);
    let paired = pair_programs(&target, &golden, Matching::Auto);
    assert_eq!(paired.remarkable()[0], "aligned: Aten.add.Tensor.0.forward = Tensor.__add__.0.forward");
    assert_eq!((paired.pairing.counts.target_only, paired.pairing.counts.golden_only), (1, 1));
}

#[test]
fn underscores_and_dots_are_one_spelling() {
    let target = Program::new().api("Module.conv_1.Conv2d", &[2]).api(LINEAR, &[2]);
    let golden = Program::new().api("Module.conv.1.Conv2d", &[2]).api(LINEAR, &[2]);
    assert_eq!(pair_programs(&target, &golden, Matching::Exact).pairing.counts.exact, 2);
}

#[test]
fn a_wrapper_on_one_side_is_looked_through() {
    let program = |prefix: &str| {
        let mut program = Program::new();
        for block in 0..3 {
            let path = format!("{prefix}blocks.{block}");
            program = program
                .inside(&format!("Module.{path}.fc.Linear.forward.0"))
                .api(LINEAR, &[2])
                .inside(&format!("Module.{path}.Block.forward.0"))
                .module(&format!("{path}.fc.Linear"), &[2])
                .inside("")
                .module(&format!("{path}.Block"), &[2]);
        }
        program
    };
    let wrapped = program("module._orig_mod.").module("module.GPT", &[2]);
    let paired = pair_programs(&wrapped, &program(""), Matching::Auto);
    assert_eq!(paired.pairing.counts.exact, 9);
    assert_eq!(
        paired.remarkable(),
        [
            "target only: Module.module.GPT.forward.0: golden never makes a call of this name in this direction"
        ]
    );
    assert_eq!(pair_programs(&wrapped, &program(""), Matching::Exact).pairing.counts.exact, 3);
}

#[test]
fn modules_tell_calls_apart_that_shapes_do_not() {
    // Golden has a third block between the two of the target; all calls look alike except for the module.
    let program = |blocks: &[u32]| {
        let mut program = Program::new();
        for block in blocks {
            program = program.inside(&format!("Module.blocks.{block}.Block.forward.0"));
            program = program.api(LINEAR, &[2]).api(ADD, &[2]).inside("");
            program = program.module(&format!("blocks.{block}.Block"), &[2]);
        }
        program
    };
    let paired = pair_programs(&program(&[0, 2]), &program(&[0, 1, 2]), Matching::Auto);
    assert!(
        paired
            .lines()
            .contains(&"aligned: Functional.linear.1.forward = Functional.linear.2.forward".to_owned())
    );
    assert_eq!(paired.pairing.counts.golden_only, 3);
    assert_eq!(paired.pairing.counts.target_only, 0);
}

#[test]
fn equal_names_in_different_modules_are_not_trusted() {
    let program = |modules: [&str; 4]| {
        let call =
            |program: Program, module| program.inside(&format!("Module.{module}.forward.0")).api(ADD, &[2]);
        modules.into_iter().fold(Program::new(), call)
    };
    let (target, golden) = (program(["a.A", "a.A", "b.B", "c.C"]), program(["a.A", "b.B", "c.C", "c.C"]));
    let lines = pair_programs(&target, &golden, Matching::Auto).lines();
    assert_eq!(lines[0], "exact: Tensor.__add__.0.forward = Tensor.__add__.0.forward");
    assert!(lines[1].starts_with("target only: Tensor.__add__.1.forward"), "{lines:#?}");
    assert_eq!(lines[2], "aligned: Tensor.__add__.2.forward = Tensor.__add__.1.forward");
    assert!(lines[3].starts_with("golden only: Tensor.__add__.2.forward"), "{lines:#?}");
    assert_eq!(lines[4], "exact: Tensor.__add__.3.forward = Tensor.__add__.3.forward");
}

#[test]
fn recomputed_calls_are_reported_and_the_rest_pairs() {
    let shape = &[2, 8];
    let layer = |program: Program| program.api(LINEAR, shape).api("Torch.triu", shape).api(ADD, shape);
    let forward = |program: Program| layer(layer(program));
    let golden = forward(Program::new())
        .backward(ADD, 1, shape)
        .backward(LINEAR, 1, shape)
        .backward(ADD, 0, shape)
        .backward(LINEAR, 0, shape);
    let target = forward(Program::new())
        .backward("Functional.cross_entropy", 0, &[])
        .api(LINEAR, shape)
        .api("Torch.triu", shape)
        .api(ADD, shape)
        .backward(ADD, 1, shape)
        .backward(LINEAR, 1, shape)
        .api(LINEAR, shape)
        .api("Torch.triu", shape)
        .api(ADD, shape)
        .backward(ADD, 0, shape)
        .backward(LINEAR, 0, shape);
    let paired = pair_programs(&target, &golden, Matching::Auto);
    assert_eq!(
        (paired.pairing.counts.exact, paired.pairing.counts.aligned),
        (10, 0),
        "{:#?}",
        paired.lines()
    );
    assert_eq!(paired.pairing.counts.target_only, 7);
    let reason = "computed again during backward (activation checkpointing), which golden does not do";
    let recomputed: Vec<_> = paired.remarkable().into_iter().filter(|line| line.ends_with(reason)).collect();
    assert_eq!(recomputed.len(), 6, "{:#?}", paired.remarkable());
}

#[test]
fn backward_calls_renumbered_by_recomputation_pair_by_order() {
    let shape = &[2, 8];
    let golden =
        Program::new().api(LINEAR, shape).api(ADD, shape).backward(ADD, 0, shape).backward(LINEAR, 0, shape);
    let target = Program::new()
        .api(LINEAR, shape)
        .api(ADD, shape)
        .backward("Functional.gelu", 0, shape)
        .api(LINEAR, shape)
        .api(ADD, shape)
        .backward(ADD, 1, shape)
        .backward(LINEAR, 1, shape);
    let lines = pair_programs(&target, &golden, Matching::Auto).lines();
    assert!(
        lines.contains(&"aligned: Tensor.__add__.1.backward = Tensor.__add__.0.backward".to_owned()),
        "{lines:#?}"
    );
    assert!(
        lines.contains(&"exact: Tensor.__add__.0.forward = Tensor.__add__.0.forward".to_owned()),
        "{lines:#?}"
    );
}

#[test]
fn a_backward_call_does_not_leave_its_forward_call() {
    // The golden did not record the backward of addition 0; that of addition 1 must not stand in.
    let shape = &[2, 8];
    let forward = Program::new().api(ADD, shape).api(ADD, shape);
    let target = forward.clone().backward(ADD, 1, shape).backward(ADD, 0, shape);
    let golden = forward.backward(ADD, 1, shape);
    let paired = pair_programs(&target, &golden, Matching::Auto);
    assert_eq!(
        paired.remarkable(),
        [
            "target only: Tensor.__add__.0.backward: its forward call has a counterpart, for which golden recorded no backward"
        ]
    );
}

#[test]
fn shape_refuses_a_call_of_the_same_name_and_a_different_shape() {
    let target = Program::new().api(ADD, &[2]).api(LINEAR, &[2]).api(LINEAR, &[2]);
    let golden = Program::new().api(ADD, &[3]).api(LINEAR, &[2]);
    let paired = pair_programs(&target, &golden, Matching::Shape);
    let shapes = "has different shapes, or a different number of tensors";
    assert_eq!(
        paired.lines(),
        [
            format!("golden only: Tensor.__add__.0.forward: the call of the same name in target {shapes}"),
            format!("target only: Tensor.__add__.0.forward: the call of the same name in golden {shapes}"),
            "shape: Functional.linear.0.forward = Functional.linear.0.forward".to_owned(),
            "target only: Functional.linear.1.forward: the only such call of golden has a different number"
                .to_owned(),
        ]
    );
}

#[test]
fn fuzzy_ignores_numbers_within_a_module() {
    let golden = Program::new()
        .inside("Module.a.A.forward.0")
        .api(ADD, &[2])
        .inside("Module.b.B.forward.0")
        .api(ADD, &[2])
        .api(ADD, &[2]);
    let target = Program::new()
        .inside("Module.a.A.forward.0")
        .api(ADD, &[2])
        .api(ADD, &[2])
        .inside("Module.b.B.forward.0")
        .api(ADD, &[2]);
    let paired = pair_programs(&target, &golden, Matching::Fuzzy);
    assert_eq!(paired.lines()[0], "exact: Tensor.__add__.0.forward = Tensor.__add__.0.forward");
    assert!(
        paired.lines().contains(&"fuzzy: Tensor.__add__.2.forward = Tensor.__add__.1.forward".to_owned())
    );
    assert_eq!((paired.pairing.counts.target_only, paired.pairing.counts.golden_only), (1, 1));
}

#[test]
fn exact_leaves_a_shifted_call_to_the_user() {
    let paired = pair_programs(&layers(2, Some(1)), &layers(2, None), Matching::Exact);
    // Names pair wrong calls here: that is what the method is.
    assert_eq!(paired.pairing.counts.exact, 15);
    assert_eq!((paired.pairing.counts.target_only, paired.pairing.counts.golden_only), (2, 1));
}

#[test]
fn a_call_that_cannot_be_read_still_pairs() {
    let broken = r#"{"input_args": 5, "output": {"type": "torch.Tensor", "shape": "x"}}"#;
    let golden = Program::new().api(LINEAR, &[2]).raw("Torch.tanh.0.forward", broken).api(ADD, &[2]);
    let target = golden.clone().api(ADD, &[2]);
    assert_eq!(pair_programs(&target, &golden, Matching::Auto).pairing.counts.exact, 3);
}
