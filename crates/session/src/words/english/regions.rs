//! Where two programs part, in English.

use ulpscope_report::{format_ratio, format_short};

use super::super::level;
use super::{calls, spoken};
use crate::region::{Edge, FirstCall, RegionStatement, lines};

pub(super) fn sentence(said: &RegionStatement) -> String {
    match said {
        RegionStatement::Edge { edge, target, golden } => {
            let (word, what) = match edge {
                Edge::After => ("after  ", "agrees"),
                Edge::Before => ("before ", "differs"),
            };
            let golden = if golden == target { String::new() } else { format!("; in the golden: {golden}") };
            format!("{word} {target} ({what}{golden})")
        }
        RegionStatement::FromStart => "after   the inputs and parameters of the run".to_owned(),
        RegionStatement::MayBeginEarlier => {
            "Only statistics were compared. They hardly show single elements, so the difference may arise earlier. \
             Record tensors to see."
                .to_owned()
        }
        RegionStatement::MoreBefore(1) => "1 more call before it agrees.".to_owned(),
        RegionStatement::MoreBefore(count) => format!("{count} more calls before it agree."),
        RegionStatement::CodeOf { side, code } => format!("{}  {code}", side.word()),
        RegionStatement::Call(call) => lines(&[call]).concat(),
        RegionStatement::NoCalls => "no call".to_owned(),
        RegionStatement::NotListed { computing, others: 0 } => {
            format!("Not listed: {} that compute.", more(*computing))
        }
        RegionStatement::NotListed { computing: 0, others } => format!("Not listed: {}.", moving(*others)),
        RegionStatement::NotListed { computing, others } => {
            format!("Not listed: {} that compute, and {}.", more(*computing), moving(*others))
        }
        RegionStatement::OthersMarked => "- only moves elements, or is computed from no parameter".to_owned(),
        RegionStatement::Excess { call, distance, allowed } => format!(
            "The results of {} differ by a relative distance of {}: {} × what accumulated rounding allows ({}).",
            spoken(call),
            format_short(*distance),
            format_ratio(distance / allowed),
            format_short(*allowed)
        ),
        RegionStatement::Confidence { region, first } => {
            let words = ["very high", "high", "moderate", "low"];
            let region =
                format!("{} ({region:.2}) that the difference arises between", words[level(*region)]);
            match first {
                None => region,
                Some(FirstCall { call, confidence }) => format!(
                    "{region}; {} ({confidence:.2}) that {} makes it",
                    words[level(*confidence)],
                    spoken(call)
                ),
            }
        }
    }
}

fn more(count: u64) -> String {
    if count == 1 { "1 more call".to_owned() } else { format!("{count} more calls") }
}

fn moving(count: u64) -> String {
    format!("{} that only move elements or are computed from no parameter", calls(count))
}
