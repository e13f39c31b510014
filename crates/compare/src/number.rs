//! Numbers in JSON, which has none for NaN and infinities: these are written as text.

use std::fmt;

use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};

/// A number that may be NaN or infinite.
#[derive(Clone, Copy)]
struct Number(f64);

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            finite if finite.is_finite() => serializer.serialize_f64(finite),
            other => serializer.serialize_str(&other.to_string()),
        }
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Number, D::Error> {
        deserializer.deserialize_any(AnyNumber)
    }
}

struct AnyNumber;

impl Visitor<'_> for AnyNumber {
    type Value = Number;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number, \"NaN\", \"inf\" or \"-inf\"")
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Number, E> {
        Ok(Number(value))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Number, E> {
        Ok(Number(value as f64))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Number, E> {
        Ok(Number(value as f64))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Number, E> {
        text.parse().map(Number).map_err(|_| E::invalid_value(de::Unexpected::Str(text), &self))
    }
}

/// For `#[serde(serialize_with)]`.
#[allow(clippy::trivially_copy_pass_by_ref)]
pub fn serialize<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    Number(*value).serialize(serializer)
}

/// For `#[serde(deserialize_with)]`.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Number::deserialize(deserializer).map(|number| number.0)
}

/// The same for a number that may be missing.
pub mod optional {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::Number;

    /// For `#[serde(serialize_with)]`.
    #[allow(clippy::trivially_copy_pass_by_ref)]
    pub fn serialize<S: Serializer>(value: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
        value.map(Number).serialize(serializer)
    }

    /// For `#[serde(deserialize_with)]`.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
        Option::<Number>::deserialize(deserializer).map(|number| number.map(|number| number.0))
    }
}

/// The same for a number with a value before it.
pub mod second {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::Number;

    /// For `#[serde(serialize_with)]`.
    pub fn serialize<S: Serializer, T: Serialize>(
        value: &(T, f64),
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        (&value.0, Number(value.1)).serialize(serializer)
    }

    /// For `#[serde(deserialize_with)]`.
    pub fn deserialize<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
        deserializer: D,
    ) -> Result<(T, f64), D::Error> {
        <(T, Number)>::deserialize(deserializer).map(|(first, number)| (first, number.0))
    }
}

/// The same for a list of numbers of which some may be missing.
pub mod list {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::Number;

    /// For `#[serde(serialize_with)]`.
    pub fn serialize<S: Serializer, const N: usize>(
        values: &[Option<f64>; N],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        values.map(|value| value.map(Number)).to_vec().serialize(serializer)
    }

    /// For `#[serde(deserialize_with)]`.
    pub fn deserialize<'de, D: Deserializer<'de>, const N: usize>(
        deserializer: D,
    ) -> Result<[Option<f64>; N], D::Error> {
        let values = Vec::<Option<Number>>::deserialize(deserializer)?;
        let mut values = values.into_iter().map(|value| value.map(|number| number.0));
        Ok([(); N].map(|()| values.next().flatten()))
    }
}
