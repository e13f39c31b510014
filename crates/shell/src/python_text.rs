//! Lists and attributes as Python prints them, which the older tools do.

use ulpscope_graph::Attr;

/// `['a', 'b']`.
pub(crate) fn texts<T: AsRef<str>>(items: &[T]) -> String {
    let items: Vec<String> = items.iter().map(|item| quoted(item.as_ref())).collect();
    format!("[{}]", items.join(", "))
}

/// `[2, 40]`.
pub(crate) fn numbers(items: &[i64]) -> String {
    let items: Vec<String> = items.iter().map(i64::to_string).collect();
    format!("[{}]", items.join(", "))
}

/// A text in the quotes that Python chooses.
fn quoted(text: &str) -> String {
    let text = text.replace('\\', "\\\\");
    if text.contains('\'') && !text.contains('"') {
        return format!("\"{text}\"");
    }
    format!("'{}'", text.replace('\'', "\\'"))
}

/// A list of an attribute: `[2, 40]`, `[]` if there is none.
pub(crate) fn list(attr: Option<&Attr>) -> String {
    attr.map_or_else(|| "[]".to_owned(), value)
}

fn value(attr: &Attr) -> String {
    match attr {
        Attr::Text(text) => quoted(text),
        Attr::Bool(flag) => if *flag { "True" } else { "False" }.to_owned(),
        Attr::List(items) => {
            format!("[{}]", items.iter().map(value).collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

/// An attribute with its key, in the form of the graph's JSON: `{'key': 'pass_name', 'value': {'s': 'X'}}`.
pub(crate) fn attribute(key: &str, attr: &Attr) -> String {
    let inner = match attr {
        Attr::List(items) => {
            let (kind, number) = match items.first() {
                Some(Attr::Text(_)) => ("s", 1),
                Some(Attr::Int(_)) => ("i", 2),
                Some(Attr::Float(_)) => ("f", 3),
                Some(Attr::Bool(_)) => ("b", 4),
                _ => return format!("{{'key': {}, 'value': {{'list': {}}}}}", quoted(key), value(attr)),
            };
            format!("'list': {{'{kind}': {}, 'val_type': {number}}}", value(attr))
        }
        Attr::Text(_) => format!("'s': {}", value(attr)),
        Attr::Int(_) => format!("'i': {}", value(attr)),
        Attr::Float(_) => format!("'f': {}", value(attr)),
        Attr::Bool(_) => format!("'b': {}", value(attr)),
        Attr::Skipped(_) => return format!("{{'key': {}, 'value': {}}}", quoted(key), value(attr)),
    };
    format!("{{'key': {}, 'value': {{{inner}}}}}", quoted(key))
}
