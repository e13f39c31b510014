//! What is known of operations by their names: for capture, for pairing and for judging.
//!
//! ```text
//! `Aten.add_.Tensor.3.forward` ──► ApiName: namespace, function, operation `add`, in place ──► its row in the table
//! ```

mod name;
mod table;

pub use name::ApiName;
use table::{row_of, traits_by_name};

use crate::call::CallKind;

/// Operations that hand errors on in the same way: the slope or the condition of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Copies, views and sums: their gradients do not depend on their arguments.
    Sum,
    /// Functions by element whose slope is nowhere much above 1.
    Mild,
    /// Products by element.
    Product,
    /// Products of matrices, and convolutions.
    Contraction,
    /// Sine and cosine.
    Periodic,
    /// Exponentials.
    Exponential,
    /// Softmax.
    Softmax,
    /// Logarithms of a softmax or of a sum of exponentials, and losses made of them.
    LogSoftmax,
    /// Gradients of the scores in these.
    ScoreGradient,
    /// Logarithms.
    Logarithm,
    /// Powers.
    Power,
    /// Variances.
    Variance,
    /// Standard deviations.
    Deviation,
    /// Normalisations that take away the mean and divide by the deviation.
    Norm,
    /// Normalisations that divide by the size.
    Rescaling,
    /// Anything else.
    Other,
}

/// Over what the sums inside an operation go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SumsOver {
    /// What a product of matrices has in common: of `m × k` and `k × n` elements, `k`.
    Inner,
    /// Some dimension: most sums are over one, or over all but one.
    Dimension,
}

impl Family {
    /// That of the gradients. Those of most functions are products of what arrives and what the forward call took or returned,
    /// which is what relative sizes say.
    pub fn in_backward(self) -> Family {
        match self {
            Family::Sum | Family::Mild | Family::Product | Family::Contraction | Family::Periodic => self,
            // A difference of gradients, each times a probability.
            Family::Softmax => Family::Mild,
            Family::LogSoftmax | Family::ScoreGradient => Family::ScoreGradient,
            Family::Exponential
            | Family::Logarithm
            | Family::Power
            | Family::Variance
            | Family::Deviation
            | Family::Norm
            | Family::Rescaling
            | Family::Other => Family::Other,
        }
    }

    /// Over what its sums go.
    pub fn sums_over(self) -> SumsOver {
        if self == Family::Contraction { SumsOver::Inner } else { SumsOver::Dimension }
    }
}

/// A property of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trait {
    /// Its derivative jumps: an error next to nothing lets a gradient pass or not.
    Gates,
    /// Of many values one comes out.
    Picks,
    /// Of a range of values one comes out.
    Rounds,
    /// Puts something else in the place of elements.
    Covers,
    /// Draws random numbers.
    Draws,
    /// Puts values in order: where two change places, all between them move.
    Ranks,
    /// The step of an optimizer that divides by the root of what may be next to nothing.
    Steep,
    /// Computes step after step, each from the one before.
    Loops,
    /// Makes one number, or few, of many.
    Reduces,
    /// Each result comes from elements at many places, so that statistics tell when they changed places before.
    Mixes,
    /// Takes of its argument only what kind of tensor it is.
    IgnoresValues,
    /// Leaves elements in their places: in a different dtype, on a different device, or as they are.
    KeepsPlaces,
    /// Shows the same elements in a different shape, in the same row-major order.
    Reshapes,
    /// May put elements in a different order.
    Reorders,
    /// Shows the same elements in a different shape, some of them several times.
    Repeats,
    /// Normalises, scales by one tensor and adds another, the last it takes.
    Normalises,
    /// A collective that writes its result into its arguments.
    Exchanges,
    /// Shows the elements of its first argument in a different arrangement, or copies them where that is not possible.
    Rearranges,
    /// Returns uninitialised memory: its contents differ from run to run, and are no result. (`new` may be given
    /// elements, and `resize_` may keep some: calls that use these show their numbers.)
    ReturnsBlank,
    /// In place, writes to its first argument without reading it.
    Overwrites,
    /// May return before a copy from another device is done (`non_blocking`): the elements arrive after the call.
    CopiesLate,
    /// Its result shares the elements of its first argument, and torch does not report that.
    SharesElements,
    /// In place, gives its first argument different memory, and writes to none.
    ReplacesMemory,
    /// Creates several graph nodes that lead to its arguments in their order: `linear` passes its input, and the
    /// transpose of its weight, to one matrix product.
    KeepsOrder,
}

impl ApiName<'_> {
    /// Whether the operation has a property, in place or not.
    pub fn has(&self, wanted: Trait) -> bool {
        if self.is_module() {
            return false;
        }
        let word = self.word();
        match row_of(word) {
            Some(row) => row.traits.contains(&wanted),
            None => traits_by_name(word).any(|found| found == wanted),
        }
    }

    /// Whether its results are uninitialised memory.
    pub fn returns_blank(&self) -> bool {
        self.has(Trait::ReturnsBlank)
    }

    /// Whether it writes to its first argument without reading it.
    pub fn overwrites_first(&self) -> bool {
        (self.is_in_place() || self.function == "__setitem__") && self.has(Trait::Overwrites)
    }

    /// Whether it gives its first argument different memory.
    pub fn replaces_memory(&self) -> bool {
        self.is_in_place() && self.has(Trait::ReplacesMemory)
    }

    /// Whether its result shares the elements of its first argument, and torch does not report that.
    pub fn shares_elements(&self) -> bool {
        !self.is_in_place() && self.has(Trait::SharesElements)
    }

    /// Whether it may return before a copy from another device is done.
    pub fn may_copy_late(&self) -> bool {
        self.has(Trait::CopiesLate)
    }
}

/// Whether a call computes nothing but shows the elements of its first argument in a different arrangement.
pub fn rearranges(call: &str) -> bool {
    let (name, kind) = ApiName::of_call(call);
    kind == CallKind::Forward && name.has(Trait::Rearranges)
}

/// Whether the results of a call are uninitialised.
pub fn is_blank(call: &str) -> bool {
    let (name, kind) = ApiName::of_call(call);
    kind == CallKind::Forward && name.returns_blank()
}

/// Whether an entry, `Torch.empty.0.forward.output.0`, is of a call whose results are uninitialised.
pub fn is_of_blank(entry: &str) -> bool {
    let call = entry.rsplit_once(".output.").or_else(|| entry.rsplit_once(".input."));
    call.is_some_and(|(call, _)| is_blank(call))
}

/// What is known of the operation of a call.
#[derive(Clone, Copy, Debug)]
pub struct Operator {
    /// How errors are handed on.
    pub family: Family,
    /// Whether its derivative jumps.
    pub is_gate: bool,
    /// Whether it is the step of an optimizer that divides by the root of what may be next to nothing: no error of a result
    /// is too large then.
    pub is_steep: bool,
    /// Whether it puts values in order.
    pub is_ranking: bool,
    /// Whether it draws random numbers.
    pub is_draw: bool,
    /// Whether it writes its result into an argument, where it stays.
    pub is_in_place: bool,
    /// Whether it writes into an argument and returns nothing: `x[0] = 1`.
    pub assigns: bool,
    /// Whether it exchanges tensors with other ranks.
    pub communicates: bool,
    /// Whether it computes step after step, each from the one before.
    pub is_loop: bool,
    /// Whether it does the same to every element of lists.
    pub is_foreach: bool,
    /// Whether it may return the same for arguments that are not: it picks, cuts off or covers up.
    pub may_hide: bool,
    /// Whether each result comes from elements at many places, so that statistics tell when they changed places before.
    pub mixes: bool,
    /// Whether it takes of its argument only what kind of tensor it is.
    pub ignores_values: bool,
    /// Whether it makes one number, or few, of many.
    pub reduces: bool,
    /// Whether it leaves elements in their places: where it changes none either, it returns its argument.
    pub keeps_places: bool,
    /// Whether it shows the same elements in a different shape, in the same row-major order.
    pub reshapes: bool,
    /// Whether it may put elements in a different order.
    pub reorders: bool,
    /// Whether it shows the same elements in a different shape, some of them several times.
    pub is_view: bool,
    /// Whether it puts something else in the place of elements.
    pub is_cover: bool,
    /// Whether it normalises, scales by one tensor and adds another, the last it takes.
    pub normalises: bool,
    /// The position of the argument that is added to a product of the others.
    pub added: Option<&'static str>,
}

impl Operator {
    /// Of a call by its base: `Functional.linear`, `Tensor.__add__`, `Tensor.mul_`. A module may do anything.
    pub fn of(base: &str, is_backward: bool) -> Operator {
        let name = ApiName::of(base);
        let row = row_of(name.word()).filter(|_| !name.is_module());
        let has = |wanted: Trait| name.has(wanted);
        let family = row.map_or(Family::Other, |row| row.family);
        let communicates = name.namespace == "Distributed";
        let (is_gate, is_ranking, is_draw) = (has(Trait::Gates), has(Trait::Ranks), has(Trait::Draws));
        let is_cover = has(Trait::Covers);
        Operator {
            family: if is_backward { family.in_backward() } else { family },
            is_gate,
            is_steep: has(Trait::Steep),
            is_ranking,
            is_draw: is_draw && !is_backward,
            is_in_place: name.is_in_place() || communicates && has(Trait::Exchanges),
            assigns: name.function == "__setitem__",
            communicates,
            is_loop: has(Trait::Loops),
            is_foreach: name.is_foreach(),
            // What was picked of many gets all of the gradient: nothing of that is lost on the way back.
            may_hide: match is_ranking || has(Trait::Picks) {
                true => !is_backward,
                false => is_gate || is_cover || is_draw && !is_backward || has(Trait::Rounds),
            },
            mixes: family == Family::Contraction || has(Trait::Mixes),
            ignores_values: has(Trait::IgnoresValues) && !is_draw,
            reduces: has(Trait::Reduces),
            keeps_places: has(Trait::KeepsPlaces),
            reshapes: has(Trait::Reshapes),
            reorders: has(Trait::Reorders),
            is_view: has(Trait::Repeats),
            is_cover,
            normalises: has(Trait::Normalises),
            added: row.and_then(|row| row.added),
        }
    }
}
