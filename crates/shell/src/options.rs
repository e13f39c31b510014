//! The options of a command of the shell: `-n`, `--name`, `--name=X`, and those with one dash and several letters (`-al`).

/// One option.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OptionRow {
    /// As the guide writes it: `-al`.
    pub(crate) short: &'static str,
    /// The long form: `--atol`.
    pub(crate) long: &'static str,
    /// The name of its value; nothing for a switch.
    pub(crate) value: Option<&'static str>,
    /// Whether the command needs it.
    pub(crate) required: bool,
}

/// What was typed after the name of a command.
#[derive(Debug, Default)]
pub(crate) struct Options {
    given: Vec<(&'static str, String)>,
    /// Words that belong to no option.
    pub(crate) words: Vec<String>,
}

impl Options {
    /// Reads words by the rows of a command. The error is a sentence for the user.
    pub(crate) fn read(words: &[String], rows: &[OptionRow]) -> Result<Options, String> {
        let mut options = Options::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let (name, joined) = match word.split_once('=') {
                Some((name, value)) if name.starts_with("--") => (name, Some(value.to_owned())),
                _ => (word.as_str(), None),
            };
            let Some(row) = rows.iter().find(|row| row.short == name || row.long == name) else {
                if word.starts_with('-') && word.len() > 1 {
                    return Err(format!("unrecognized arguments: {word}"));
                }
                options.words.push(word.clone());
                continue;
            };
            let value = match (row.value, joined) {
                (None, None) => String::new(),
                (None, Some(_)) => return Err(format!("argument {}: takes no value", row.names())),
                (Some(_), Some(value)) => value,
                (Some(_), None) => words
                    .next()
                    .cloned()
                    .ok_or_else(|| format!("argument {}: expected one argument", row.names()))?,
            };
            options.given.push((row.short, value));
        }
        Ok(options)
    }

    /// Checks that everything a command needs was given.
    pub(crate) fn require(&self, rows: &[OptionRow]) -> Result<(), String> {
        let missing: Vec<String> = (rows.iter().filter(|row| row.required && self.text(row.short).is_none()))
            .map(OptionRow::names)
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        Err(format!("the following arguments are required: {}", missing.join(", ")))
    }

    /// The value of an option; the last one, if it was given twice.
    pub(crate) fn text(&self, short: &str) -> Option<&str> {
        self.given.iter().rev().find(|(name, _)| *name == short).map(|(_, value)| value.as_str())
    }

    /// Whether a switch was given.
    pub(crate) fn has(&self, short: &str) -> bool {
        self.text(short).is_some()
    }

    /// A tolerance.
    pub(crate) fn tolerance(&self, short: &str, default: f64) -> Result<f64, String> {
        match self.text(short).map(|text| (text, text.parse::<f64>())) {
            None => Ok(default),
            Some((_, Ok(value))) if value.is_finite() && value >= 0.0 => Ok(value),
            Some((text, _)) => Err(format!(
                "argument {short}: expected a finite number that is not negative, found {text:?}"
            )),
        }
    }

    /// A number of rows.
    pub(crate) fn count(&self, short: &str, default: usize) -> Result<usize, String> {
        let Some(text) = self.text(short) else { return Ok(default) };
        text.parse().map_err(|_| format!("argument {short}: expected a number of rows, found {text:?}"))
    }
}

impl OptionRow {
    pub(crate) const fn value(short: &'static str, long: &'static str, value: &'static str) -> OptionRow {
        OptionRow { short, long, value: Some(value), required: false }
    }

    pub(crate) const fn required(short: &'static str, long: &'static str, value: &'static str) -> OptionRow {
        OptionRow { short, long, value: Some(value), required: true }
    }

    pub(crate) const fn switch(short: &'static str, long: &'static str) -> OptionRow {
        OptionRow { short, long, value: None, required: false }
    }

    /// `-al/--atol`.
    fn names(&self) -> String {
        format!("{}/{}", self.short, self.long)
    }

    /// As a usage line shows it: `[-al ATOL]`.
    pub(crate) fn usage(&self) -> String {
        let text = match self.value {
            Some(value) => format!("{} {value}", self.short),
            None => self.short.to_owned(),
        };
        if self.required { text } else { format!("[{text}]") }
    }
}
