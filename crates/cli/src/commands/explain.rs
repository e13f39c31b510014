//! `ulpscope explain`: what a comparison found, from its `result.json`.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde_json::{Value, json};
use ulpscope_formats::{Access, Bytes};
use ulpscope_session::explanation::Explanation;
use ulpscope_session::region::OpenedRegion;
use ulpscope_session::{Language, bounded_json, quoted};

use crate::args::{ExplainArgs, language};
use crate::exit::Exit;
use crate::output::{Output, unless_broken_pipe};
use crate::result_document::{RESULT, result_at};

/// The common prefix of all schema versions.
const SCHEMA: &str = "ulpscope.compare/";

/// The request of `explain`.
pub(crate) struct Explain {
    result: PathBuf,
    /// The region to list.
    region: Option<NonZeroUsize>,
    json: bool,
    language: Language,
}

impl TryFrom<ExplainArgs> for Explain {
    type Error = anyhow::Error;

    fn try_from(args: ExplainArgs) -> anyhow::Result<Explain> {
        let language = language(args.lang)?;
        Ok(Explain { result: args.result, region: args.region, json: args.json, language })
    }
}

impl Explain {
    pub(crate) fn run(self, output: &mut Output) -> anyhow::Result<Exit> {
        let path = result_at(&self.result)?;
        let mut document = read(&path)?;
        if let Some(number) = self.region {
            return self.open_region(&path, &document, number.get(), output);
        }
        let Some(text) = self.text(&mut document, output) else {
            bail!(
                "{}: it was written by ulpscope {}, which wrote no explanation; compare again: {}",
                path.display(),
                document["ulpscope"].as_str().unwrap_or("of an unknown version"),
                compare_again(&document)
            );
        };
        let shown = if self.json {
            document["explanation"] = Value::String(text);
            output.json(&for_programs(&path, &document))
        } else {
            text.lines().try_for_each(|line| output.prose(line))
        };
        unless_broken_pipe(shown)?;
        Ok(Exit::Done)
    }

    /// Shows the calls of a region.
    fn open_region(
        &self,
        path: &Path,
        document: &Value,
        number: usize,
        output: &mut Output,
    ) -> anyhow::Result<Exit> {
        let regions = OpenedRegion::all(document);
        let Some(region) = regions.get(number - 1) else {
            let found = match regions.len() {
                0 => "has no region: it names single calls, or none".to_owned(),
                1 => format!("has 1 region: expected --region 1, found --region {number}"),
                count => {
                    format!("has {count} regions: expected --region 1 to {count}, found --region {number}")
                }
            };
            bail!(
                "{}: {found}; `ulpscope explain {}` shows what it names",
                path.display(),
                quoted(&self.result)
            );
        };
        let shown = if self.json {
            let mut listed = region.document();
            listed["result"] = json!(path.display().to_string());
            listed["region"] = json!(number);
            listed["regions"] = json!(regions.len());
            output.json(&listed)
        } else {
            let text = region.explanation().text(self.language.words());
            text.lines().try_for_each(|line| output.line(line))
        };
        unless_broken_pipe(shown)?;
        Ok(Exit::Done)
    }

    /// The explanation in the requested language; if the result has no statements that we know, its stored text.
    fn text(&self, document: &mut Value, output: &mut Output) -> Option<String> {
        let statements = document["statements"].take();
        if let Ok(explanation) = serde_json::from_value::<Explanation>(statements) {
            return Some(explanation.text(self.language.words()));
        }
        let written = document["explanation"].as_str()?.to_owned();
        let stored = document["language"].as_str().unwrap_or(Language::default().code());
        if stored != self.language.code() {
            let version = document["ulpscope"].as_str().unwrap_or("an unknown version");
            let lang = self.language;
            output.complain(&format!(
                "note: shown in {stored}: this result was written by ulpscope {version}, and can only be shown in {lang} after \
                 comparing again"
            ));
        }
        Some(written)
    }
}

fn read(path: &Path) -> anyhow::Result<Value> {
    let bytes = Bytes::map(path, Access::ReadOnly).context("cannot read the result")?;
    let expected = "the JSON document that ulpscope compare writes";
    let document = bounded_json::read(&bytes, expected).map_err(|error| error.in_file(path))?;
    match document["schema"].as_str() {
        Some(schema) if schema.starts_with(SCHEMA) => Ok(document),
        found => bail!(
            "{}: expected a document of the schema {SCHEMA}1, found {}; name the {RESULT} that `ulpscope compare \
             TARGET GOLDEN -o DIR` writes",
            path.display(),
            found.map_or_else(|| "no schema".to_owned(), |found| format!("{found:?}"))
        ),
    }
}

/// The command that made a document.
fn compare_again(document: &Value) -> String {
    let side = |name: &str| quoted(Path::new(document[name].as_str().unwrap_or(name)));
    // A style's own way of pairing has no name on the command line.
    let options = [("style", "native"), ("match", "style"), ("noise", "")];
    let options = options.into_iter().filter_map(|(name, default)| {
        let value = document[name].as_str().filter(|value| *value != default)?;
        Some(format!(" --{name} {}", quoted(Path::new(value))))
    });
    format!("ulpscope compare {} {}{} -o DIR", side("target"), side("golden"), options.collect::<String>())
}

/// The data of the explanation, for programs.
fn for_programs(path: &Path, document: &Value) -> Value {
    let none = Vec::new();
    let ranks = document["ranks"].as_array().unwrap_or(&none).iter().map(|rank| {
        json!({
            "step": rank["step"],
            "rank": rank["target"],
            "classes": rank["classes"],
            "divergence_count": rank["divergence_count"],
            "divergences": rank["divergences"],
        })
    });
    json!({
        "result": path.display().to_string(),
        "target": document["target"],
        "golden": document["golden"],
        "style": document["style"],
        "agreement": document["agreement"],
        "reason": document["reason"],
        "explanation": document["explanation"],
        "classes": document["summary"]["classes"],
        "first_divergence": document["first_divergence"],
        "ranks": ranks.collect::<Vec<Value>>(),
    })
}
