//! A final result that differs by more than rounding, although no call was found that introduced an error.

use std::fmt;

use serde::{Deserialize, Serialize};
use ulpscope_report::format_short;

/// The result, and the least explained call on the way to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FinalResult {
    /// The entry, by its name in the target.
    pub entry: String,
    /// Its error, relative to its size.
    #[serde(with = "crate::number")]
    pub error: f64,
    /// What accumulated rounding allows, likewise.
    #[serde(with = "crate::number")]
    pub allowed: f64,
    /// The call on the way to it that adds most to the error; `None` if no such call is known.
    pub step: Option<UnexplainedStep>,
    /// In which way.
    #[serde(default, skip_serializing_if = "EndDifference::is_of_numbers")]
    pub difference: EndDifference,
    /// Its place in what the models return; `None` if they return one tensor, or for other final results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
}

/// In which way final results differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndDifference {
    /// By their numbers.
    #[default]
    Numbers,
    /// The models return results of different calls, which both programs make, or different parameters.
    Variable,
    /// Their elements may be in different places, which statistics do not show.
    Places,
    /// They may differ at positions of padding alone, which statistics do not show.
    Padding,
}

impl EndDifference {
    fn is_of_numbers(&self) -> bool {
        *self == EndDifference::Numbers
    }
}

/// A call whose results differ by more than its inputs do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UnexplainedStep {
    /// Its name in the target.
    pub call: String,
    /// The relative error of its output.
    #[serde(with = "crate::number")]
    pub error: f64,
    /// The largest relative error among its inputs.
    #[serde(with = "crate::number")]
    pub inputs: f64,
    /// The module it was made in.
    pub module: Option<String>,
    /// The line of the user's code that made it.
    pub code: Option<String>,
    /// The innermost line outside of torch, if it is a different one: that of a library.
    #[serde(default)]
    pub inner_code: Option<String>,
}

impl fmt::Display for FinalResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = self.place.as_ref().map_or_else(String::new, |place| format!(" at place {place}"));
        match self.difference {
            EndDifference::Numbers | EndDifference::Padding => {}
            EndDifference::Variable => {
                return write!(f, "the models return different results{place}: {}", self.entry);
            }
            EndDifference::Places => {
                let places =
                    format!("the results of the models{place} may have their elements in different places");
                return write!(f, "{places}, which statistics do not show: {}", self.entry);
            }
        }
        if self.error.is_infinite() {
            return write!(f, "{} has no counterpart among the final results of the other run", self.entry);
        }
        let (error, allowed) = (percent(self.error), percent(self.allowed));
        write!(f, "{} differs by {error} (accumulated rounding allows {allowed})", self.entry)?;
        if self.difference == EndDifference::Padding {
            f.write_str(", perhaps at positions of padding alone: no gradient differs, and statistics do not show where")?;
        }
        Ok(())
    }
}

impl UnexplainedStep {
    /// The call and its numbers, in words.
    pub fn words(&self) -> String {
        let (error, inputs) = (percent(self.error), percent(self.inputs));
        format!("{}: its inputs differ by {inputs}, its output by {error}", self.call)
    }
}

/// A share in percent, with a readable number of digits.
fn percent(share: f64) -> String {
    format!("{} %", format_short(share * 100.0))
}
