//! What the table of operators says, by the names of calls.

use ulpscope_dump::operators::{
    ApiName, Family, Operator, SumsOver, Trait, is_blank, is_of_blank, rearranges,
};

#[test]
fn functions_are_known_for_what_torch_does_not_report() {
    assert!(is_blank("Torch.empty.0.forward") && is_blank("Tensor.new_empty.12.forward"));
    assert!(!is_blank("Torch.empty.0.backward") && !is_blank("Torch.zeros.0.forward"));
    assert!(is_blank("Aten.empty.memory_format.0.forward"));
    assert!(is_of_blank("Torch.empty.0.forward.output.0") && !is_of_blank("Torch.zeros.0.forward.output.0"));
    assert!(rearranges("Tensor.view.3.forward") && !rearranges("Tensor.view.3.backward"));
    let name = |base| ApiName::of(base);
    assert!(name("Tensor.copy_").overwrites_first() && !name("Tensor.add_").overwrites_first());
    assert!(name("Tensor.__setitem__").overwrites_first() && !name("Torch.normal").overwrites_first());
    assert!(name("Tensor.copy_").may_copy_late() && name("Tensor.set_").replaces_memory());
    assert!(name("Tensor.detach").shares_elements() && !name("Torch.add").shares_elements());
    assert!(name("Functional.linear").has(Trait::KeepsOrder));
}

/// Spellings of one operation, and libraries' variants, are known alike.
#[test]
fn what_is_known_does_not_depend_on_the_spelling() {
    let known = |base: &str| {
        format!("{:?}", Operator { is_in_place: false, is_foreach: false, ..Operator::of(base, false) })
    };
    for (one, others) in [
        ("Torch.add", &["Tensor.__iadd__", "Tensor.add_", "Aten.add.Tensor", "Torch._foreach_add_"][..]),
        ("Torch.clamp", &["Torch.clip", "Tensor.clamp_", "Aten.clamp.default"]),
        ("Torch.cat", &["Torch.concat", "Torch.concatenate", "Aten.cat.default"]),
        ("Functional.softmax", &["Aten._softmax.default"]),
    ] {
        for other in others {
            assert_eq!(known(other), known(one), "{other}");
        }
    }
    assert!(Operator::of("Functional.adaptive_max_pool2d", false).is_gate);
    assert!(Operator::of("NPU.npu_fusion_attention", false).mixes);
    assert!(
        !Operator::of("Tensor.log_normal_", false).mixes && Operator::of("Tensor.log_normal_", false).is_draw
    );
}

#[test]
fn gradients_have_families_of_their_own() {
    let families = |base: &str| [false, true].map(|is_backward| Operator::of(base, is_backward).family);
    assert_eq!(families("Functional.linear"), [Family::Contraction; 2]);
    assert_eq!(families("Functional.softmax"), [Family::Softmax, Family::Mild]);
    assert_eq!(families("Functional.cross_entropy"), [Family::LogSoftmax, Family::ScoreGradient]);
    assert_eq!(families("Functional.layer_norm"), [Family::Norm, Family::Other]);
    assert_eq!(families("Module.fc.linear"), [Family::Other; 2]);
    assert_eq!(Family::Contraction.sums_over(), SumsOver::Inner);
    // What was picked gets all of the gradient.
    assert!(Operator::of("Torch.topk", false).may_hide && !Operator::of("Torch.topk", true).may_hide);
}
