//! The module of a call, the graph nodes it created, and the properties of functions.
#![allow(clippy::unwrap_used, missing_docs)]

use std::sync::Arc;

use ulpscope_capture::modules::{enter, innermost, is_outermost, leave};
use ulpscope_capture::{CallingThreads, ModuleLevel, ModuleName, Modules, Passes};

fn level(recorder: usize, name: &str) -> ModuleLevel {
    ModuleLevel {
        recorder,
        name: Arc::from(name),
        is_listed: false,
        is_backward_listed: false,
        is_backward_first: false,
        is_selected: false,
        is_muted: false,
    }
}

#[test]
fn leaving_a_module_leaves_whatever_never_came_back_within_it() {
    assert!(is_outermost(1));
    for name in ["a", "b", "c"] {
        enter(level(1, name));
    }
    leave(1, "b");
    assert_eq!(&*innermost(1).unwrap().name, "a");
    // A different recorder is in no module of this one.
    assert!(is_outermost(2));
    leave(1, "unknown");
    assert_eq!(&*innermost(1).unwrap().name, "a");
    leave(1, "a");
    assert!(is_outermost(1));
}

#[test]
fn a_module_keeps_its_name_until_it_is_gone() {
    let modules = Modules::default();
    let name = |base: &str| Some(ModuleName { base: Arc::from(base), is_muted: false, is_selected: false });
    assert!(modules.name(1).is_none());
    modules.add(1, None);
    assert!(modules.name(1).unwrap().is_none());
    modules.add(1, name("Module.fc.Linear"));
    modules.add(1, None);
    assert_eq!(&*modules.name(1).unwrap().unwrap().base, "Module.fc.Linear");
    modules.forget(1);
    assert!(modules.name(1).is_none());
}

#[test]
fn the_innermost_call_made_a_node_unless_threads_make_that_unsure() {
    let modules = Arc::new(Modules::default());
    modules.add_span(2..4, &Arc::from("inner"));
    modules.add_span(1..6, &Arc::from("outer"));
    assert_eq!(modules.with_node(3, true).as_deref(), Some("inner"));
    assert_eq!(modules.with_node(5, true).as_deref(), Some("outer"));
    assert_eq!(modules.with_node(6, true), None);
    let others = Arc::clone(&modules);
    std::thread::spawn(move || others.add_span(3..4, &Arc::from("elsewhere"))).join().unwrap();
    assert_eq!(modules.with_node(3, true), None);
    assert_eq!(modules.with_node(3, false).as_deref(), Some("inner"));
    modules.forget_spans();
    assert_eq!(modules.with_node(5, false), None);
}

#[test]
fn a_call_on_another_thread_is_met_once_and_for_all() {
    let threads = CallingThreads::from_here();
    threads.meet();
    assert!(!threads.are_several());
    std::thread::scope(|scope| scope.spawn(|| threads.meet()).join().unwrap());
    assert!(threads.are_several());
}

#[test]
fn a_sum_that_a_pass_has_made_has_no_owner() {
    let passes = Passes::default();
    let (maker, other): (Arc<str>, Arc<str>) = (Arc::from("maker"), Arc::from("other"));
    // Outside of a pass nothing is read.
    passes.note(|| panic!("asked"), &maker);
    assert!(!passes.have_changed(|| panic!("asked"), &maker));
    passes.begin();
    passes.note(|| Some((1, 0)), &maker);
    assert!(!passes.have_changed(|| Some((1, 0)), &maker));
    assert!(passes.have_changed(|| Some((1, 1)), &maker));
    assert!(!passes.have_changed(|| Some((1, 1)), &other));
    passes.end();
    passes.begin();
    assert!(!passes.have_changed(|| Some((1, 1)), &maker));
    passes.end();
}
