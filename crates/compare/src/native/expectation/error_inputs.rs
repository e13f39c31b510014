//! What a result is made of: the arguments whose errors it may have, each with the other factor where it is one of a product.
//!
//! Asked for every result, so what all results of a call share is looked up once: calls on lists have thousands of both.

use std::collections::HashMap;

use ulpscope_dump::operators::Family;

use crate::native::evidence::call_evidence::{CallEvidence, EntryEvidence};
use crate::native::evidence::operation::Operation;
use crate::native::evidence::tensor_error::TensorError;

/// Arguments that are looked at for one result; of more, those with the largest errors, and at one place of lists the first.
const MOST_ARGUMENTS: usize = 256;

/// An argument, and the other factor of its product.
pub(in crate::native) type ErrorInput<'a> = (&'a TensorError, Option<&'a TensorError>);

/// What the results of a call are made of.
pub(in crate::native) struct ErrorInputs<'a> {
    operation: Operation,
    taken: Arguments<'a>,
    /// Of the backward call of a normalisation: the number of the tensor that is added.
    bias: Option<u32>,
    /// Of a backward call: what its forward call took, and gave.
    forward: Option<(Arguments<'a>, Vec<&'a TensorError>)>,
}

/// Arguments that have numbers.
struct Arguments<'a> {
    all: Vec<Argument<'a>>,
    /// The two largest factors, by number.
    factors: [Option<usize>; 2],
    /// Those that stand at the same place of lists, and those that stand in none.
    elements: HashMap<u32, Vec<usize>>,
    single: Vec<usize>,
}

struct Argument<'a> {
    path: u64,
    element: Option<u32>,
    extent: &'a TensorError,
}

impl<'a> ErrorInputs<'a> {
    pub(in crate::native) fn of(
        unit: &'a CallEvidence,
        forward: Option<&'a CallEvidence>,
        operation: Operation,
    ) -> ErrorInputs<'a> {
        let given = |unit: &'a CallEvidence| {
            let results = unit.entries.iter().filter(|entry| !entry.is_taken());
            results.filter_map(|entry| entry.numbers.as_ref()).take(MOST_ARGUMENTS).collect()
        };
        ErrorInputs {
            operation,
            bias: forward.filter(|_| operation.normalises).and_then(last_of_three),
            taken: Arguments::of(unit, operation),
            forward: forward.map(|forward| (Arguments::of(forward, operation), given(forward))),
        }
    }

    /// Whether a result is the gradient of what was added, and so the sum of what arrives.
    pub(in crate::native) fn is_of_added(&self, result: &EntryEvidence) -> bool {
        self.forward.is_some()
            && (self.operation.is_added(result.path)
                || result.ordinal().is_some() && result.ordinal() == self.bias)
    }

    /// Those of one result.
    pub(in crate::native) fn of_result(&self, result: &EntryEvidence) -> Vec<ErrorInput<'a>> {
        let family = self.operation.family;
        let is_product = matches!(family, Family::Contraction | Family::Product);
        let Some((arguments, given)) = &self.forward else {
            let taken = self.taken.of_element(result.element().filter(|_| self.operation.is_foreach));
            let partner =
                |argument: &Argument<'a>| match is_product && !self.operation.is_added(argument.path) {
                    true if self.operation.is_foreach => largest_other(&taken, argument.path),
                    true => self.taken.factor_beside(argument.path),
                    false => None,
                };
            return taken.iter().map(|argument| (argument.extent, partner(argument))).collect();
        };
        let gradients = || self.taken.all.iter().take(MOST_ARGUMENTS).map(|gradient| gradient.extent);
        let alone = gradients().map(|gradient| (gradient, None));
        if family == Family::Sum || self.is_of_added(result) {
            return alone.collect();
        }
        if is_product {
            let partner = arguments.factor_beside(result.path);
            let through = gradients().map(|gradient| (gradient, partner));
            let back = partner
                .into_iter()
                .flat_map(|partner| gradients().map(move |gradient| (partner, Some(gradient))));
            return through.chain(back).collect();
        }
        let taken = arguments.all.iter().map(|argument| argument.extent);
        alone.chain(taken.chain(given.iter().copied()).map(|extent| (extent, None))).collect()
    }
}

/// The last tensor that a call takes, if there are a weight and a bias beside the first.
fn last_of_three(unit: &CallEvidence) -> Option<u32> {
    let taken = unit.entries.iter().filter(|entry| entry.is_taken());
    taken.filter_map(|entry| entry.ordinal()).max().filter(|&last| last >= 2)
}

impl<'a> Arguments<'a> {
    fn of(unit: &'a CallEvidence, operation: Operation) -> Arguments<'a> {
        let taken = unit.entries.iter().filter(|entry| entry.is_taken());
        let mut all: Vec<Argument<'a>> = taken
            .filter_map(|entry| {
                Some(Argument { path: entry.path, element: entry.element(), extent: entry.numbers.as_ref()? })
            })
            .collect();
        if all.len() > MOST_ARGUMENTS && !operation.is_foreach {
            all.sort_by(|one, other| other.extent.error.total_cmp(&one.extent.error));
            all.truncate(MOST_ARGUMENTS);
        }
        let mut elements: HashMap<u32, Vec<usize>> = HashMap::new();
        let mut single = Vec::new();
        let mut factors: [Option<usize>; 2] = [None; 2];
        for (number, argument) in all.iter().enumerate() {
            match argument.element {
                Some(element) => elements.entry(element).or_default().push(number),
                None => single.push(number),
            }
            let is_larger =
                |than: Option<usize>| than.is_none_or(|than| argument.extent.count > all[than].extent.count);
            if operation.is_added(argument.path) {
                continue;
            }
            if is_larger(factors[0]) {
                factors = [Some(number), factors[0]];
            } else if is_larger(factors[1]) {
                factors[1] = Some(number);
            }
        }
        Arguments { all, factors, elements, single }
    }

    /// Those at one place of their lists, and those that are in none; without a place all of them.
    fn of_element(&self, element: Option<u32>) -> Vec<&Argument<'a>> {
        match element.and_then(|element| self.elements.get(&element)) {
            Some(numbers) => {
                let numbers = numbers.iter().chain(&self.single).take(MOST_ARGUMENTS);
                numbers.map(|&number| &self.all[number]).collect()
            }
            None => self.all.iter().take(MOST_ARGUMENTS).collect(),
        }
    }

    /// The largest factor but the one at a path.
    fn factor_beside(&self, path: u64) -> Option<&'a TensorError> {
        let mut factors = self.factors.into_iter().flatten().map(|number| &self.all[number]);
        factors.find(|factor| factor.path != path).map(|factor| factor.extent)
    }
}

/// The largest by count but the one at a path; of equals the first.
fn largest_other<'a>(arguments: &[&Argument<'a>], path: u64) -> Option<&'a TensorError> {
    let others = arguments.iter().filter(|argument| argument.path != path).map(|argument| argument.extent);
    others.reduce(|most, extent| if extent.count > most.count { extent } else { most })
}
