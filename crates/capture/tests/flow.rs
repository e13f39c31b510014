//! The producers of tensors that are only simulated memory.
#![allow(clippy::unwrap_used, missing_docs)]

use std::convert::Infallible;
use std::ops::Range;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use ulpscope_capture::{Flow, Initialised, Plan, Recording, Settings, StepId, Storage, TensorObject};
use ulpscope_tensor::Region;

/// A tensor of bytes.
struct Bytes {
    storage: usize,
    range: Range<usize>,
    base: Option<Tensor>,
    is_parameter: bool,
}

#[derive(Clone)]
struct Tensor(Rc<Bytes>);

impl Tensor {
    fn new(storage: usize, length: usize) -> Tensor {
        Tensor(Rc::new(Bytes { storage, range: 0..length, base: None, is_parameter: false }))
    }

    fn view(&self, range: Range<usize>) -> Tensor {
        let bytes = Bytes { storage: self.0.storage, range, base: Some(self.clone()), is_parameter: false };
        Tensor(Rc::new(bytes))
    }

    fn parameter(&self) -> Tensor {
        let Bytes { storage, range, .. } = &*self.0;
        Tensor(Rc::new(Bytes { storage: *storage, range: range.clone(), base: None, is_parameter: true }))
    }
}

impl TensorObject for Tensor {
    type Weak = Weak<Bytes>;
    type Error = Infallible;

    fn address(&self) -> usize {
        Rc::as_ptr(&self.0) as usize
    }

    fn weak(&self) -> Result<Weak<Bytes>, Infallible> {
        Ok(Rc::downgrade(&self.0))
    }

    fn another(&self, reference: &Weak<Bytes>) -> Weak<Bytes> {
        Weak::clone(reference)
    }

    fn is(&self, reference: &Weak<Bytes>) -> bool {
        reference.upgrade().is_some_and(|found| Rc::ptr_eq(&found, &self.0))
    }

    fn upgrade(&self, reference: &Weak<Bytes>) -> Option<Tensor> {
        reference.upgrade().map(Tensor)
    }

    fn is_parameter(&self) -> bool {
        self.0.is_parameter
    }

    fn base(&self) -> Result<Option<Tensor>, Infallible> {
        Ok(self.0.base.clone())
    }

    fn storage(&self) -> Option<Storage> {
        Some(Storage::new(self.0.storage, self.0.storage + self.0.range.start))
    }

    fn region(&self, storage: Storage) -> Option<Region> {
        Region::new(storage.first_element(), 1, &[self.0.range.len()], &[1])
    }
}

struct Program {
    flow: Flow<Weak<Bytes>>,
    step: StepId,
}

impl Program {
    fn new() -> Program {
        Program { flow: Flow::default(), step: StepId::default() }
    }

    fn made(&self, tensor: &Tensor, source: &str) {
        self.flow.note(self.step, tensor, Arc::from(source)).unwrap();
    }

    /// A call writes to a tensor in place.
    fn changed(&self, tensor: &Tensor, source: &str) {
        self.flow.fill_blank(tensor);
        let change = self.flow.add_change(self.step, tensor, Arc::from(source));
        self.flow.note_changed(self.step, tensor, Arc::from(source), change).unwrap();
        if let Some(base) = tensor.base().unwrap() {
            self.flow.note_changed(self.step, &base, Arc::from(source), change).unwrap();
        }
    }

    fn source(&self, tensor: &Tensor) -> Option<String> {
        self.flow.source(tensor).unwrap().map(|source| source.to_string())
    }
}

#[test]
fn a_tensor_is_known_by_its_object_and_not_by_its_address() {
    let program = Program::new();
    let tensor = Tensor::new(1000, 8);
    assert_eq!(program.source(&tensor), None);
    program.made(&tensor, "a");
    assert_eq!(program.source(&tensor).as_deref(), Some("a"));
    program.made(&tensor, "b");
    assert_eq!(program.source(&tensor).as_deref(), Some("b"));
    let address = tensor.address();
    drop(tensor);
    // The allocator may reuse the address; the new tensor has no producer.
    let others: Vec<Tensor> = (0..64).map(|_| Tensor::new(1000, 8)).collect();
    assert!(others.iter().all(|other| program.source(other).is_none()), "{address}");
}

#[test]
fn a_view_made_before_a_change_shows_it_where_it_overlaps() {
    let program = Program::new();
    let base = Tensor::new(1000, 16);
    program.made(&base, "made");
    let (first, second) = (base.view(0..8), base.view(8..16));
    program.made(&first, "first");
    program.made(&second, "second");
    program.changed(&base.view(4..6), "changed");
    assert_eq!(program.source(&first).as_deref(), Some("changed"));
    assert_eq!(program.source(&second).as_deref(), Some("second"));
    assert_eq!(program.source(&base).as_deref(), Some("changed"));
    // An unnoted view has the producer of its base, from before the change where the change did not touch it.
    assert_eq!(program.source(&base.view(10..12)).as_deref(), Some("made"));
    assert_eq!(program.source(&base.view(5..7)).as_deref(), Some("changed"));
    // Different memory is not affected.
    let other = Tensor::new(5000, 16);
    program.made(&other, "other");
    assert_eq!(program.source(&other).as_deref(), Some("other"));
}

#[test]
fn aliases_lead_to_their_owners_until_one_is_let_go() {
    let program = Program::new();
    let (tensor, alias) = (Tensor::new(1000, 8), Tensor::new(1000, 8));
    program.flow.note_alias(&alias, &tensor).unwrap();
    assert!(program.flow.owner_of(&alias).is_some_and(|owner| Rc::ptr_eq(&owner.0, &tensor.0)));
    assert!(program.flow.owner_of(&tensor).is_none());
    program.made(&tensor, "made");
    program.flow.note_origin(&tensor, "parameter:w".to_owned()).unwrap();
    let [made, origin] = program.flow.let_go(&tensor);
    assert_eq!((made.as_deref(), origin.as_deref()), (Some("made"), Some("parameter:w")));
    assert!(program.flow.owner_of(&alias).is_none());
    assert_eq!((program.source(&tensor), Rc::weak_count(&tensor.0)), (None, 0));
}

#[test]
fn a_parameter_made_of_memory_as_it_was_found_names_who_found_it_until_it_is_written_to() {
    let program = Program::new();
    let found = Tensor::new(1000, 8);
    program.made(&found, "empty");
    program.flow.note_blank(&found, Arc::from("empty"));
    let parameter = found.parameter();
    assert_eq!(program.source(&parameter).as_deref(), Some("empty"));
    program.changed(&found, "fill_");
    assert_eq!(program.source(&parameter).as_deref(), Some("parameter"));
}

#[test]
fn memory_is_uninitialised_until_all_of_it_was_written_to() {
    let program = Program::new();
    let found = Tensor::new(1000, 8);
    program.made(&found, "empty");
    program.flow.note_blank(&found, Arc::from("empty"));
    let (front, back, across) = (found.view(0..4), found.view(4..8), found.view(2..6));
    for view in [&front, &back, &across] {
        program.flow.note_view(program.step, view, Arc::from("view")).unwrap();
    }
    let states = || [&found, &front, &back, &across].map(|tensor| program.flow.initialised(tensor));
    assert_eq!(states(), [Initialised::Not; 4]);
    program.changed(&front, "copy_");
    // Of what is partly written, only the whole is known to be so.
    let halfway = [Initialised::Partly, Initialised::Fully, Initialised::Not, Initialised::Fully];
    assert_eq!(states(), halfway);
    program.changed(&front, "mul_");
    assert_eq!(states(), halfway);
    program.changed(&back, "copy_");
    assert_eq!(states(), [Initialised::Fully; 4]);
    // Freed and used again, it is a result.
    program.flow.note_blank(&found, Arc::from("empty"));
    program.made(&Tensor::new(1000, 8), "add");
    assert_eq!(states(), [Initialised::Fully; 4]);
    // Two parts that overlap: nothing is known any more.
    program.flow.note_blank(&found, Arc::from("empty"));
    program.changed(&front, "copy_");
    program.changed(&across, "copy_");
    assert_eq!(states(), [Initialised::Fully; 4]);
}

#[test]
fn with_its_step_goes_what_a_step_has_made_and_parameters_stay() {
    let mut program = Program::new();
    let (tensor, parameter) = (Tensor::new(1000, 8), Tensor::new(2000, 8).parameter());
    program.made(&tensor, "made");
    program.flow.note_origin(&parameter, "parameter:w".to_owned()).unwrap();
    program.flow.note_up_to_date(&tensor, 2).unwrap();
    assert!(program.flow.is_up_to_date(&tensor, 2) && !program.flow.is_up_to_date(&tensor, 3));
    let recording = Recording::new(Plan::new(Settings::default()).unwrap());
    let next = recording.locked(|state| {
        state.turn(None);
        state.id
    });
    drop(program.flow.turn(next));
    assert_eq!(program.source(&tensor), None);
    assert!(!program.flow.is_up_to_date(&tensor, 2));
    assert_eq!(program.source(&parameter).as_deref(), Some("parameter:w"));
    // A call of the step before that ends late does not count for this one.
    program.made(&tensor, "late");
    assert_eq!(program.source(&tensor), None);
    program.step = next;
    program.made(&tensor, "now");
    assert_eq!(program.source(&tensor).as_deref(), Some("now"));
    program.flow.clear();
    assert_eq!(program.source(&parameter).as_deref(), Some("parameter"));
}
