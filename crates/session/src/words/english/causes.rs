//! How an error was introduced, in English: one sentence for each cause.

use ulpscope_compare::words::arguments;
use ulpscope_compare::{FindingCause, LeftDetails, Region, RegionCalls};
use ulpscope_dump::parse_key;

use super::{other_side, spoken};
use crate::statement::{Cause, Origin, OriginSource, Producer};

pub(super) fn sentence(said: &Cause) -> String {
    let call = spoken(&said.call);
    let Cause { entry, origin, producers, dtypes, .. } = said;
    match &said.cause {
        FindingCause::Made => format!("{call} returns a different result from matching inputs."),
        FindingCause::Sum => {
            let (module, _, _) = parse_key(&said.call);
            let whose = match &origin.call {
                Some(_) => format!("the parameter {entry} of {module}"),
                None => format!("the parameters of {module}"),
            };
            format!(
                "the gradient of {whose}, summed over its uses, differs between the two runs. No recorded call explains it."
            )
        }
        FindingCause::ArgumentsInBackward(differences) => {
            format!("{call} is called with {}. Only its gradients show it.", arguments(differences))
        }
        FindingCause::Arguments(differences) => format!("{call} is called with {}.", arguments(differences)),
        FindingCause::Cut(side) if matches!(origin.source, OriginSource::Parameter(_)) => {
            format!(
                "{} requires no gradient in the {}, so it is not trained there.",
                named(origin),
                side.word()
            )
        }
        FindingCause::Cut(side) => format!(
            "no gradient passes {call} in the {}: a detach, no_grad, or an input that requires no gradient.",
            side.word()
        ),
        FindingCause::Draw => format!("the random numbers drawn by {call} differ between the two runs."),
        FindingCause::Origin => format!("{} differs between the two runs.", named(origin)),
        FindingCause::Between => {
            format!("{call} gets a different tensor as {entry}, although the call that produced it agrees.")
        }
        FindingCause::Wiring => different_producer(&call, entry, producers),
        FindingCause::Lone(side) | FindingCause::Left(side, _) => {
            let instead = said.instead.as_ref().map(|other| {
                format!("; the {} calls {} at this place", other_side(*side).word(), spoken(other))
            });
            format!("only the {} calls {call}{}.", side.word(), instead.unwrap_or_default())
        }
        FindingCause::Updates(LeftDetails { name, differ, of, calls: [target, golden], region }) => {
            let place = match region {
                Some(_) => "For the first parameter, the cause is among the calls listed below.",
                None => "The cause may be any of them.",
            };
            format!(
                "the update of parameters differs: after this step, {differ} of {of} parameters and gradients that were \
                 compared differ. The first is the {}; the first call to look at is {call}. The two runs make different \
                 calls for the update ({target} in the target, {golden} in the golden). {place}",
                name.replacen(':', " ", 1)
            )
        }
        FindingCause::Cast => {
            let [target, golden] =
                dtypes.each_ref().map(|dtype| dtype.as_deref().unwrap_or("a different dtype"));
            format!(
                "{call} computes in {target} in the target and in {golden} in the golden. Most of both runs is in float32 \
                 or finer."
            )
        }
        FindingCause::Shape => format!("{call} returns a different shape from inputs of the same shapes."),
        FindingCause::GivenShape => {
            format!("{call} gets an input of a different shape than in the golden.")
        }
        FindingCause::NonFinite => {
            format!("{call} returns NaN or infinite values{} that its inputs do not have.", dtype(dtypes))
        }
        FindingCause::BothNonFinite => {
            format!(
                "{call} returns NaN or infinite values{} that its inputs do not have, in both runs.",
                dtype(dtypes)
            )
        }
        FindingCause::Region(region) => region_sentence(&call, region),
        FindingCause::Sharded(fault) => format!("{}.", fault.words()),
        FindingCause::Rule => format!("{call} has the first failing row."),
    }
}

/// The part of two programs that may have made a difference.
fn region_sentence(call: &str, region: &Region) -> String {
    let count = |calls: &RegionCalls| match calls.computing.len() {
        1 => "1 call".to_owned(),
        count => format!("{count} calls"),
    };
    let after = match &region.after[..] {
        [] => String::new(),
        [[one, _], ..] => format!(" up to {}", spoken(&one.name)),
    };
    let partner = region.partner.as_ref().filter(|partner| spoken(partner) != call);
    let partner = partner.map(|partner| format!(" (in the golden: {})", spoken(partner)));
    format!(
        "the two programs make different calls. They compute the same{after}, and no longer at {}. {} of the target and {} of \
         the golden lie between; the first to look at is {call}{}.",
        spoken(&region.before[0].name),
        count(&region.target),
        count(&region.golden),
        partner.unwrap_or_default(),
    )
}

fn dtype([target, _]: &[Option<String>; 2]) -> String {
    target.as_ref().map(|dtype| format!(" ({dtype})")).unwrap_or_default()
}

fn different_producer(call: &str, entry: &str, producers: &[Option<Producer>; 2]) -> String {
    let produced = |producer: &Producer| match producer {
        Producer::Call { name, .. } => spoken(name),
        Producer::Named { kind, name } => format!("the {kind} {name}"),
        Producer::Outside => "outside".to_owned(),
    };
    match producers {
        [
            Some(Producer::Call { name, entry: result }),
            Some(Producer::Call { name: other, entry: other_result }),
        ] if name == other && result != other_result => {
            format!(
                "{call} takes {entry} from {result} of {}; in the golden, from {other_result}.",
                spoken(name)
            )
        }
        [Some(target), Some(golden)] if target != golden => {
            format!(
                "{call} takes {entry} from {}; in the golden, from {}.",
                produced(target),
                produced(golden)
            )
        }
        _ => format!("{call} takes {entry} from a different call than in the golden."),
    }
}

/// A tensor that no recorded call produced.
fn named(origin: &Origin) -> String {
    let place = match &origin.call {
        Some(call) => format!("{} of {}", origin.entry, spoken(call)),
        None => origin.entry.clone(),
    };
    match (&origin.source, &origin.call) {
        (OriginSource::Parameter(name), _) => format!("the parameter {name} ({place})"),
        (OriginSource::Buffer(name), _) => format!("the buffer {name} ({place})"),
        (OriginSource::Gradient(name), _) => format!("the gradient of {name} ({place})"),
        (OriginSource::Argument(name), Some(call)) => {
            format!("the {name} of {} ({})", spoken(call), origin.entry)
        }
        (OriginSource::Input, Some(call)) => format!("the input {} of {}", origin.entry, spoken(call)),
        (OriginSource::Argument(_) | OriginSource::Input, None) => place,
    }
}
