//! Reads the body of a call straight into items, without a JSON tree of the whole.
//!
//! A dump has millions of tensors, and a tree of each is a dozen small allocations. Whatever is unusual here (deep nesting, a
//! `type` that is not the first key, an error) is left to the way over the tree, which knows all of it and says what is wrong.

use std::borrow::Cow;

use super::item::Item;
use crate::budget::Budget;
use crate::error::Error;
use crate::json::tree::{ITEM_SIZE, TREE};
use crate::json::{Event, Json, Reader};

/// Containers within containers that are read here; deeper ones would need too much stack.
const MAX_DEPTH: usize = 48;

/// Fields of a tensor, as a tool typically writes them.
const TYPICAL_FIELDS: usize = 12;

/// A key and its value in the description of a tensor.
type Field = (Cow<'static, str>, Json);

/// The item that a text describes; nothing if the text is to be read over the tree.
pub(super) fn read(text: &[u8]) -> Option<Item> {
    let mut reader = Reader::new(text);
    let budget = reader.budget();
    let first = reader.expect_event().ok()?;
    Body { reader, budget }.item(first).ok().flatten()
}

struct Body<'a> {
    reader: Reader<'a>,
    budget: Budget,
}

/// Nothing if it is to be read over the tree.
type Read<T> = Result<Option<T>, Error>;

impl<'a> Body<'a> {
    fn item(&mut self, first: Event<'a>) -> Read<Item> {
        if self.reader.depth() > MAX_DEPTH {
            return Ok(None);
        }
        Ok(Some(match first {
            Event::Null => Item::None,
            Event::ListStart => {
                let mut items = Vec::new();
                loop {
                    match self.reader.expect_event()? {
                        Event::ListEnd => break,
                        first => {
                            self.charge(items.len(), ITEM_SIZE)?;
                            let Some(item) = self.item(first)? else { return Ok(None) };
                            items.push(item);
                        }
                    }
                }
                Item::List(items)
            }
            Event::ObjectStart => return self.object(),
            first => Item::Other(self.value(first)?),
        }))
    }

    fn object(&mut self) -> Read<Item> {
        let mut pairs = Vec::new();
        loop {
            let key = match self.reader.expect_event()? {
                Event::Key(key) => key,
                _ => return Ok(Some(Item::Dict(pairs))),
            };
            self.charge_text(&key)?;
            let first = self.reader.expect_event()?;
            if is_type(&key) && matches!(first, Event::Str(_)) {
                // A description begins with its type.
                return if pairs.is_empty() { self.described(key, first) } else { Ok(None) };
            }
            self.charge(pairs.len(), size_of::<(String, Item)>())?;
            let Some(item) = self.item(first)? else { return Ok(None) };
            pairs.push((key.into_owned(), item));
        }
    }

    /// The rest of an object whose first key is its type.
    fn described(&mut self, key: Cow<'a, str>, first: Event<'a>) -> Read<Item> {
        let of_type = (known(key), self.value(first)?);
        let Some(second) = self.field()? else { return Ok(Some(Item::described(vec![of_type]))) };
        // Most descriptions of plain values have no more keys.
        if second.0 == "value" {
            let Some(third) = self.field()? else {
                return Ok(Some(Item::described(vec![of_type, second])));
            };
            return self.fields(vec![of_type, second, third]);
        }
        self.budget
            .charge(TREE, TYPICAL_FIELDS * size_of::<Field>())
            .map_err(|fault| self.reader.error(fault))?;
        let mut fields = Vec::with_capacity(TYPICAL_FIELDS);
        fields.extend([of_type, second]);
        self.fields(fields)
    }

    /// Adds the other fields.
    fn fields(&mut self, mut fields: Vec<Field>) -> Read<Item> {
        while let Some(field) = self.field()? {
            self.charge(fields.len(), size_of::<Field>())?;
            fields.push(field);
        }
        Ok(Some(Item::described(fields)))
    }

    /// The next field, unless the object ends.
    fn field(&mut self) -> Read<Field> {
        if let Some((key, value)) = self.reader.plain_field() {
            self.charge_text(key)?;
            match &value {
                Json::Str(text) => self.charge_text(text)?,
                Json::List(items) => self.charge_list(items.len())?,
                _ => {}
            }
            return Ok(Some((known(Cow::Borrowed(key)), value)));
        }
        let Event::Key(key) = self.reader.expect_event()? else { return Ok(None) };
        self.charge_text(&key)?;
        let first = self.reader.expect_event()?;
        Ok(Some((known(key), self.value(first)?)))
    }

    fn value(&mut self, first: Event<'a>) -> Result<Json, Error> {
        Ok(match first {
            Event::Int(number) => Json::Int(number),
            Event::Float(number) => Json::Float(number),
            Event::Bool(flag) => Json::Bool(flag),
            Event::Null => Json::Null,
            Event::Str(text) => {
                self.charge_text(&text)?;
                Json::Str(text.into_owned())
            }
            first => self.reader.value_within(first, &self.budget)?,
        })
    }

    fn charge(&self, count: usize, size: usize) -> Result<(), Error> {
        self.budget.charge_push(TREE, count, size).map_err(|fault| self.reader.error(fault))
    }

    /// Charges a list that was read at once.
    fn charge_list(&self, len: usize) -> Result<(), Error> {
        (0..len).try_for_each(|count| self.charge(count, ITEM_SIZE))
    }

    fn charge_text(&self, text: &str) -> Result<(), Error> {
        self.budget.charge_text(TREE, text).map_err(|fault| self.reader.error(fault))
    }
}

fn is_type(key: &str) -> bool {
    key == "type" || key == "class_type"
}

/// A key that tools write of every tensor needs no memory of its own.
fn known(key: Cow<'_, str>) -> Cow<'static, str> {
    Cow::Borrowed(match &*key {
        "type" => "type",
        "dtype" => "dtype",
        "shape" => "shape",
        "Max" => "Max",
        "Min" => "Min",
        "Mean" => "Mean",
        "Norm" => "Norm",
        "requires_grad" => "requires_grad",
        "source" => "source",
        "value" => "value",
        "md5" => "md5",
        "data_name" => "data_name",
        "data_at" => "data_at",
        "stride" => "stride",
        _ => return Cow::Owned(key.into_owned()),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn over_the_tree(text: &str) -> Item {
        Item::from_json(Reader::new(text.as_bytes()).value().unwrap())
    }

    #[test]
    fn an_item_is_the_same_as_over_the_tree() {
        let tensor = r#"{"type":"torch.Tensor","dtype":"torch.float32","shape":[2,3],"Max":1.5,"Min":null,"Mean":NaN,
            "Norm":Infinity,"requires_grad":true,"source":"a.b","strange":{"a":[1,{"b":null}]},"stride":[3,1],"Max":7}"#;
        let texts = [
            tensor.to_owned(),
            format!(r#"{{"input_args":[{tensor},[{tensor},null]],"input_kwargs":{{"x":{tensor}}},"output":[]}}"#),
            r#"[{"type":"int","value":3},{"type":"slice","value":[0,null,{"a":1}]},{"type":"int","value":1,"more":2}]"#
                .to_owned(),
            // Fields that are read at once, and such as are not.
            r#"{"type":"torch.Tensor" , "dtype": "torch.float32","shape": [ 2 , 30 ] ,"Max":-1e-7,"Min":-Infinity,"Mean":1E+3,
                "Norm":12345678901234567890123,"a":[],"b":[1,-2],"c":[1,2.0],"d":[[1]],"e":true,"f":false,"g":null,
                "h":"\u00e9\n","i":"é","j":{"k":[0]},"l":[999999999999999999,1000000000000000000],"m":0,"shape":[7]}"#
                .to_owned(),
            r#"{"type":"a"}"#.to_owned(),
            r#"{"type":"a","other":1}"#.to_owned(),
            r#"{"class_type":"Group","dtype":"x","shape":"y","type":3}"#.to_owned(),
            r#"{"type":{"type":"int","value":1},"dtype":2}"#.to_owned(),
            r#"{"type":null,"class_type":7}"#.to_owned(),
            "{}".to_owned(),
            "[]".to_owned(),
            " [ 1, \"two\", 3.0, true, null ] ".to_owned(),
            "null".to_owned(),
        ];
        for text in texts {
            assert_eq!(
                format!("{:?}", read(text.as_bytes())),
                format!("{:?}", Some(over_the_tree(&text))),
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_unusual_is_left_to_the_tree() {
        let deep = format!("{}{}", "[".repeat(MAX_DEPTH + 2), "]".repeat(MAX_DEPTH + 2));
        let broken = ["[1,]", "[01]", "[1 2]", "[1", "01", "-", "1.", "tru", "\"a", "", "\"\u{7}\""];
        for value in broken {
            let text = format!(r#"{{"type":"a","dtype":"b","shape":{value}}}"#);
            assert!(read(text.as_bytes()).is_none(), "{text}");
        }
        for text in [r#"{"dtype":1,"type":"late"}"#, &deep, r#"{"type":"a","value":"#, "", r#"{"a":}"#] {
            assert!(read(text.as_bytes()).is_none(), "{text}");
        }
    }
}
