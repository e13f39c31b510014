//! Overflow checks: what a call's values mean, and which calls are written.

use std::sync::Arc;

use ulpscope_capture::{Overflow, StepOverflows};
use ulpscope_kernels::{Reach, Survival};

#[test]
fn inputs_decide_where_the_damage_began() {
    use Reach::{AtLimit, InRange, Infinite, Nan};
    let cases = [
        (InRange, InRange, None),
        (InRange, Infinite, Some(Overflow::Born)),
        (AtLimit, Infinite, Some(Overflow::Born)),
        (InRange, Nan, Some(Overflow::Born)),
        (Infinite, Nan, Some(Overflow::Born)),
        (Infinite, Infinite, Some(Overflow::InheritedInfinity)),
        (Nan, Infinite, Some(Overflow::InheritedInfinity)),
        (Nan, Nan, Some(Overflow::InheritedNan)),
        (InRange, AtLimit, Some(Overflow::Saturated)),
        (AtLimit, AtLimit, None),
        (Nan, AtLimit, None),
        (Nan, InRange, None),
    ];
    for (inputs, results, expected) in cases {
        assert_eq!(Overflow::of(inputs, results), expected, "{inputs:?} to {results:?}");
    }
}

#[test]
fn every_origin_is_written_and_of_the_others_what_has_no_origin_before() {
    let call = |name: &str| -> Arc<str> { name.into() };
    let mut step = StepOverflows::default();
    assert!(step.add(Overflow::InheritedNan, &call("a")), "it comes from outside");
    assert!(!step.add(Overflow::InheritedNan, &call("b")));
    assert!(step.add(Overflow::Born, &call("c")));
    assert!(step.add(Overflow::Born, &call("d")));
    assert!(step.add(Overflow::Saturated, &call("e")));
    assert!(!step.add(Overflow::Saturated, &call("f")));
    assert_eq!(
        step.notes(),
        [
            "overflow: 2 calls returned NaN or infinity that their inputs do not have; the first is c",
            "overflow: 2 calls returned NaN that was among their inputs; the first is a",
            "overflow: 2 calls returned the largest number of their dtype; the first is e",
        ]
    );
    let mut step = StepOverflows::default();
    assert!(!step.add(Overflow::InheritedInfinity, &call("mask")));
    assert!(step.is_empty(), "masks have infinities on purpose");
    assert!(step.add(Overflow::Born, &call("c")));
    assert!(!step.add(Overflow::InheritedNan, &call("g")), "its origin is written");
    assert!(!step.is_empty());
}

#[test]
fn the_list_of_lost_values_is_bounded() {
    let mut step = StepOverflows::default();
    let lost = Survival { elements: 4, overflows: 1, underflows: 2 };
    for number in 0..10_005 {
        step.add_survival(&format!("call.{number}").into(), lost);
        step.add_survival(&"harmless".into(), Survival { elements: 4, overflows: 0, underflows: 0 });
    }
    let survivals = step.take_survivals();
    let (name, last) = survivals.last().expect("several");
    assert_eq!((survivals.len(), &**name), (10_001, "others"));
    assert_eq!(*last, Survival { elements: 20, overflows: 5, underflows: 10 });
}

#[test]
fn an_input_that_could_not_be_read_leaves_the_origin_open() {
    use Reach::{AtLimit, InRange, Infinite, Nan};
    for (inputs, results, expected) in [
        (InRange, Infinite, Some(Overflow::Uncertain)),
        (Infinite, Nan, Some(Overflow::Uncertain)),
        (Nan, Nan, Some(Overflow::InheritedNan)),
        (Infinite, Infinite, Some(Overflow::InheritedInfinity)),
        (InRange, AtLimit, Some(Overflow::Saturated)),
        (InRange, InRange, None),
    ] {
        assert_eq!(Overflow::of_partly_read(inputs, results), expected, "{inputs:?} to {results:?}");
    }
    let call = |name: &str| -> Arc<str> { name.into() };
    let mut step = StepOverflows::default();
    assert!(step.add(Overflow::Uncertain, &call("a")));
    assert!(!step.add(Overflow::Uncertain, &call("b")));
    assert_eq!((step.origins(), step.is_empty()), (0, false));
}
