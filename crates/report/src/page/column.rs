//! A column of values as bytes: numbers packed with their bytes transposed, which compresses better; anything else as a
//! dictionary. `web/src/payload.ts` describes the layout.

use std::collections::HashMap;

use serde_json::Value as Json;

/// Kinds of columns.
const DICTIONARY: u8 = 0;
const FLOAT64: u8 = 1;
const FLOAT32: u8 = 2;

/// A value of a column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ColumnValue<'a> {
    /// There is none.
    Missing,
    /// Text.
    Text(&'a str),
    /// A number.
    Number(f64),
}

/// Collects the values of a column.
#[derive(Clone, Debug, Default)]
pub struct ColumnBuilder {
    /// Different texts, in order.
    texts: Vec<String>,
    known: HashMap<String, u32>,
    values: Vec<Stored>,
}

#[derive(Clone, Copy, Debug)]
enum Stored {
    Missing,
    Text(u32),
    Number(f64),
}

impl ColumnBuilder {
    /// Adds a value.
    pub fn push(&mut self, value: ColumnValue<'_>) {
        let stored = match value {
            ColumnValue::Missing => Stored::Missing,
            ColumnValue::Number(number) => Stored::Number(number),
            ColumnValue::Text(text) => Stored::Text(match self.known.get(text) {
                Some(&code) => code,
                None => {
                    let code = self.texts.len() as u32;
                    self.texts.push(text.to_owned());
                    self.known.insert(text.to_owned(), code);
                    code
                }
            }),
        };
        self.values.push(stored);
    }

    /// Adds a text, or nothing.
    pub fn push_text(&mut self, text: Option<&str>) {
        self.push(text.map_or(ColumnValue::Missing, ColumnValue::Text));
    }

    /// Adds a number, or nothing.
    pub fn push_number(&mut self, number: Option<f64>) {
        self.push(number.map_or(ColumnValue::Missing, ColumnValue::Number));
    }

    /// How many values there are.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Whether every value is missing.
    pub fn is_blank(&self) -> bool {
        self.values.iter().all(|value| matches!(value, Stored::Missing))
    }

    /// The bytes of the column. The builder is empty afterwards.
    pub fn take_bytes(&mut self) -> Vec<u8> {
        let ColumnBuilder { texts, values, .. } = std::mem::take(self);
        let has_number = values.iter().any(|value| matches!(value, Stored::Number(_)));
        if !texts.is_empty() || !has_number {
            return dictionary(texts, &values);
        }
        let is_single = values.iter().all(|value| match value {
            Stored::Number(number) => f64::from(*number as f32).to_bits() == number.to_bits(),
            _ => true,
        });
        let number = |value: &Stored| if let Stored::Number(number) = value { *number } else { 0.0 };
        let is_full = values.iter().all(|value| matches!(value, Stored::Number(_)));
        let mut bytes = header(if is_single { FLOAT32 } else { FLOAT64 }, !is_full, values.len());
        if !is_full {
            for eight in values.chunks(8) {
                let bits = eight.iter().enumerate();
                let bit = |(at, value): (usize, &Stored)| u8::from(matches!(value, Stored::Number(_))) << at;
                bytes.push(bits.map(bit).sum());
            }
        }
        if is_single {
            transpose(values.iter().map(|value| (number(value) as f32).to_le_bytes()), &mut bytes);
        } else {
            transpose(values.iter().map(|value| number(value).to_le_bytes()), &mut bytes);
        }
        bytes
    }
}

fn header(kind: u8, has_bitmap: bool, count: usize) -> Vec<u8> {
    let mut bytes = vec![kind, u8::from(has_bitmap), 0, 0];
    bytes.extend((count as u32).to_le_bytes());
    bytes
}

fn transpose<const N: usize>(numbers: impl Iterator<Item = [u8; N]> + Clone, bytes: &mut Vec<u8>) {
    for at in 0..N {
        bytes.extend(numbers.clone().map(|number| number[at]));
    }
}

fn dictionary(texts: Vec<String>, values: &[Stored]) -> Vec<u8> {
    let mut entries: Vec<Json> = texts.into_iter().map(Json::String).collect();
    let mut numbers: HashMap<Option<u64>, usize> = HashMap::new();
    let mut codes = Vec::with_capacity(values.len());
    for value in values {
        let (key, entry) = match value {
            Stored::Text(code) => {
                codes.push(*code as usize);
                continue;
            }
            Stored::Missing => (None, Json::Null),
            Stored::Number(number) => (Some(number.to_bits()), crate::json::number(*number)),
        };
        let code = *numbers.entry(key).or_insert_with(|| {
            entries.push(entry);
            entries.len() - 1
        });
        codes.push(code);
    }
    let mut bytes = header(DICTIONARY, false, values.len());
    // Not as one value: a code of each of a million calls would be one.
    bytes.extend(b"{\"values\":");
    bytes.extend(Json::Array(entries).to_string().into_bytes());
    bytes.extend(b",\"codes\":[");
    for (at, code) in codes.into_iter().enumerate() {
        if at > 0 {
            bytes.push(b',');
        }
        push_digits(code, &mut bytes);
    }
    bytes.extend(b"]}");
    bytes
}

fn push_digits(mut number: usize, bytes: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    bytes.extend(&digits[at..]);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    fn column(values: &[ColumnValue<'_>]) -> Vec<u8> {
        let mut builder = ColumnBuilder::default();
        values.iter().for_each(|value| builder.push(*value));
        builder.take_bytes()
    }

    #[test]
    fn texts_are_a_dictionary() {
        let bytes = column(&[
            ColumnValue::Text("a"),
            ColumnValue::Missing,
            ColumnValue::Text("</script>"),
            ColumnValue::Text("a"),
        ]);
        assert_eq!(bytes[..8], [DICTIONARY, 0, 0, 0, 4, 0, 0, 0]);
        let json: Json = serde_json::from_slice(&bytes[8..]).unwrap();
        assert_eq!(json, json!({ "values": ["a", "</script>", null], "codes": [0, 2, 1, 0] }));
    }

    #[test]
    fn numbers_are_transposed_and_missing_ones_are_marked() {
        let bytes =
            column(&[ColumnValue::Number(1.5), ColumnValue::Missing, ColumnValue::Number(f64::INFINITY)]);
        assert_eq!(bytes[..9], [FLOAT32, 1, 0, 0, 3, 0, 0, 0, 0b101]);
        let numbers = [1.5f32, 0.0, f32::INFINITY].map(f32::to_le_bytes);
        let expected: Vec<u8> = (0..4).flat_map(|at| numbers.map(|number| number[at])).collect();
        assert_eq!(bytes[9..], expected);
    }

    #[test]
    fn numbers_keep_every_digit() {
        let bytes = column(&[ColumnValue::Number(0.1), ColumnValue::Number(-0.0)]);
        assert_eq!(bytes[..2], [FLOAT64, 0]);
        let back = |row: usize| f64::from_le_bytes(std::array::from_fn(|at| bytes[8 + 2 * at + row]));
        assert_eq!([back(0).to_bits(), back(1).to_bits()], [0.1f64.to_bits(), (-0.0f64).to_bits()]);
    }

    #[test]
    fn mixed_values_keep_their_kinds() {
        let bytes = column(&[
            ColumnValue::Number(1.0),
            ColumnValue::Text("N/A"),
            ColumnValue::Number(f64::NAN),
            ColumnValue::Missing,
        ]);
        let json: Json = serde_json::from_slice(&bytes[8..]).unwrap();
        assert_eq!(json, json!({ "values": ["N/A", 1.0, "NaN", null], "codes": [1, 0, 2, 3] }));
    }

    #[test]
    fn an_empty_column_is_a_dictionary() {
        assert_eq!(column(&[])[..8], [DICTIONARY, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(column(&[ColumnValue::Missing])[0], DICTIONARY);
    }
}
