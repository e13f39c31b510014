//! Splits a line into words.

/// The words of a line, separated by blanks. Quotes keep blanks together, and a backslash takes the next blank, quote or
/// backslash as it is. A quote that is never closed is an error.
pub fn split(line: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut open = None;
    let mut rest = line.chars().peekable();
    while let Some(letter) = rest.next() {
        match (letter, open) {
            (quote, Some(closing)) if quote == closing => open = None,
            ('\\', None | Some('"'))
                if rest.peek().is_some_and(|&next| matches!(next, ' ' | '\\' | '"' | '\'')) =>
            {
                word.get_or_insert_default().extend(rest.next());
            }
            (letter, Some(_)) => word.get_or_insert_default().push(letter),
            (quote @ ('"' | '\''), None) => {
                open = Some(quote);
                word.get_or_insert_default();
            }
            (blank, None) if blank.is_whitespace() => words.extend(word.take()),
            (letter, None) => word.get_or_insert_default().push(letter),
        }
    }
    if let Some(quote) = open {
        return Err(format!("the quote {quote} is not closed"));
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::split;

    #[test]
    fn blanks_separate_and_quotes_keep_together() {
        assert_eq!(split("  cp a.npy\t b.npy -p 5 ").unwrap(), ["cp", "a.npy", "b.npy", "-p", "5"]);
        assert_eq!(split(r#"pt "my file.npy" 'it''s' a\ b"#).unwrap(), ["pt", "my file.npy", "its", "a b"]);
        assert_eq!(split(r#"pt '' 'a'"'"'b' C:\x"#).unwrap(), ["pt", "", "a'b", r"C:\x"]);
        assert_eq!(split("pt 'a").unwrap_err(), "the quote ' is not closed");
        assert!(split("   ").unwrap().is_empty());
    }
}
