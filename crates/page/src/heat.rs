//! Ranks by calls: where on which rank something differs, and by how much.

use std::collections::HashMap;

use serde_json::{Value as Json, json};
use ulpscope_report::json::number;

/// Bins of calls: what fits on a wide screen.
const MAX_BINS: usize = 512;

/// What is kept of each call of each rank.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallMark {
    /// Its name, by its number.
    pub(crate) name: u32,
    /// Its class or finding, by its number in a list; gravest first. `NONE` if it has none.
    pub(crate) word: u8,
    pub(crate) error: Option<f64>,
}

/// No class, and no finding.
pub(crate) const NONE: u8 = u8::MAX;

/// The calls of all ranks.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    pub(crate) names: Vec<String>,
    numbers: HashMap<String, u32>,
    /// One list for each rank, in order of its calls.
    pub(crate) ranks: Vec<Vec<CallMark>>,
}

impl Marks {
    /// The number of a name.
    pub(crate) fn name(&mut self, name: &str) -> u32 {
        if let Some(&number) = self.numbers.get(name) {
            return number;
        }
        let number = self.names.len() as u32;
        self.names.push(name.to_owned());
        self.numbers.insert(name.to_owned(), number);
        number
    }

    /// The map, with these words for classes or findings.
    pub(crate) fn heat(&self, words: &[&str]) -> Json {
        let count = self.names.len();
        let bins = count.clamp(1, MAX_BINS);
        let bin_of = |name: u32| name as usize * bins / count.max(1);
        let mut labels: Vec<(&str, usize)> = vec![("", 0); bins];
        for (number, name) in (0..).zip(&self.names) {
            let label = &mut labels[bin_of(number)];
            if label.1 == 0 {
                label.0 = name;
            }
            label.1 += 1;
        }
        let (mut worst, mut errors, mut selected) = (Vec::new(), Vec::new(), Vec::new());
        for calls in &self.ranks {
            let mut cells: Vec<Option<(usize, CallMark)>> = vec![None; bins];
            let mut largest: Vec<Option<f64>> = vec![None; bins];
            for (at, mark) in calls.iter().enumerate() {
                let bin = bin_of(mark.name);
                let gravity = |mark: &CallMark| (mark.word, -mark.error.unwrap_or(-1.0));
                if cells[bin].is_none_or(|(_, known)| gravity(mark) < gravity(&known)) {
                    cells[bin] = Some((at, *mark));
                }
                largest[bin] = largest[bin].into_iter().chain(mark.error).reduce(f64::max);
            }
            worst.push(
                cells
                    .iter()
                    .map(|cell| match cell {
                        Some((_, mark)) if mark.word != NONE => i64::from(mark.word),
                        _ => -1,
                    })
                    .collect::<Vec<i64>>(),
            );
            let shown = |error: &Option<f64>| {
                error.map(|error| if error.is_finite() { number(error) } else { json!(-1) })
            };
            errors.push(largest.iter().map(shown).collect::<Vec<Option<Json>>>());
            selected.push(cells.iter().map(|cell| cell.map(|(at, _)| at)).collect::<Vec<Option<usize>>>());
        }
        let labels = labels.into_iter().map(|(name, count)| json!({ "name": name, "count": count }));
        json!({
            "bins": labels.collect::<Vec<Json>>(),
            "worst": worst,
            "words": words,
            "error": errors,
            "call": selected,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bin_shows_its_worst_call() {
        let mut marks = Marks::default();
        let names: Vec<u32> = ["a", "b"].map(|name| marks.name(name)).to_vec();
        let mark = |name: u32, word, error| CallMark { name, word, error };
        marks.ranks.push(vec![mark(names[0], 1, Some(0.5)), mark(names[1], NONE, None)]);
        marks.ranks.push(vec![mark(names[1], 0, Some(f64::INFINITY))]);
        let heat = marks.heat(&["bad", "good"]);
        assert_eq!(heat["worst"], json!([[1, -1], [-1, 0]]));
        assert_eq!(heat["error"], json!([[0.5, null], [null, -1]]));
        assert_eq!(heat["call"], json!([[0, 1], [null, 0]]));
        assert_eq!(heat["bins"], json!([{ "name": "a", "count": 1 }, { "name": "b", "count": 1 }]));
    }

    #[test]
    fn many_calls_share_bins() {
        let mut marks = Marks::default();
        let calls = (0..5000).map(|number| {
            let name = marks.name(&number.to_string());
            CallMark { name, word: 0, error: Some(f64::from(number)) }
        });
        let calls = calls.collect();
        marks.ranks.push(calls);
        let heat = marks.heat(&["x"]);
        assert_eq!(heat["bins"].as_array().map(Vec::len), Some(MAX_BINS));
        let counted: u64 =
            heat["bins"].as_array().into_iter().flatten().filter_map(|bin| bin["count"].as_u64()).sum();
        assert_eq!(counted, 5000);
    }
}
