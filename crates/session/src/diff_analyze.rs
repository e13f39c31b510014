//! `diff_analyze_{timestamp}.json`: the first differing call of each rank, in the layout of msprobe's `-da`.

use serde_json::{Map, Value, json};

use crate::Compared;

/// The document: a list of calls for each rank that has any.
pub(crate) fn document<S>(compared: &Compared<S>) -> Value {
    let mut ranks = Map::new();
    for (position, rank) in compared.ranks.iter().enumerate() {
        let Ok((outcome, _)) = &rank.result else { continue };
        let Some(first) = outcome.first_divergence() else { continue };
        let number = rank.target.trim_start_matches(|c: char| !c.is_ascii_digit());
        let number = if number.is_empty() { position.to_string() } else { number.to_owned() };
        let step = rank.step.filter(|_| compared.ranks.len() > 1).map(|step| format!("step_{step}_"));
        let key = format!("{}rank_{number}", step.unwrap_or_default());
        let construct: Vec<&str> =
            first.module.iter().map(String::as_str).chain([first.call.as_str()]).collect();
        let node = json!({
            "op_name": first.call,
            "data_info": { first.finding.entry.as_str(): first.why() },
            "construct_info": construct,
            "stack_info": first.stack,
        });
        ranks.insert(key, Value::Array(vec![node]));
    }
    Value::Object(ranks)
}
