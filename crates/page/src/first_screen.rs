//! The first screen as html without a script: the verdict, the first divergence, what to do next, a small chart. For
//! notebooks, and for readers of a page that run no script.

use std::fmt::Write;

use serde_json::Value as Json;
use ulpscope_report::{escape, format_count, format_ratio, format_short};

/// Width and height of the chart, and its margins.
const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 120.0;
const LEFT: f64 = 44.0;
const BOTTOM: f64 = 16.0;

/// Points of the chart: the largest of neighbours is drawn.
const MAX_POINTS: usize = 600;

/// The smallest error that the chart distinguishes from zero.
const LEAST: f64 = 1e-9;

/// A call in the chart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChartPoint {
    /// Its number.
    pub(crate) at: u64,
    pub(crate) error: f64,
    pub(crate) expected: Option<f64>,
    pub(crate) is_backward: bool,
    pub(crate) is_first: bool,
}

/// Sections of the explanation that are shown beside the first divergence, and those that stand for it where there is none.
const WITH_FIRST: [&str; 3] = ["how_large", "rule", "next"];
const WITHOUT_FIRST: [&str; 6] = ["where", "how_large", "confidence", "findings", "rule", "next"];

/// The first screen of the page, from its manifest: the verdict, the first divergence with its numbers, the confidence,
/// what to do next, the classes.
pub(crate) fn html(manifest: &Json, points: &[ChartPoint]) -> String {
    let mut html =
        String::from("<div class=\"ulpscope-first-screen\" style=\"font-family: system-ui, sans-serif\">");
    let headline = &manifest["headline"];
    let answer = headline["answer"].as_str().unwrap_or_default();
    html.push_str("<p style=\"font-size: 1.2em\"><strong>");
    push(word(manifest, answer_key(answer)), &mut html);
    html.push_str("</strong>: ");
    let sentence = headline["sentence"].as_str().unwrap_or_default();
    push(sentence, &mut html);
    html.push_str("</p>");
    for line in headline["more"].as_array().into_iter().flatten().filter_map(Json::as_str) {
        paragraph(line, &mut html);
    }
    let first = &manifest["first"];
    if first.is_object() {
        divergence(manifest, first, &mut html);
    }
    let shown: &[&str] = if first.is_object() { &WITH_FIRST } else { &WITHOUT_FIRST };
    for section in manifest["sections"].as_array().into_iter().flatten() {
        let key = section["key"].as_str().unwrap_or_default();
        if !shown.contains(&key) {
            continue;
        }
        html.push_str("<p><strong>");
        push(section["heading"].as_str().unwrap_or_default(), &mut html);
        html.push_str("</strong>");
        for line in section["lines"].as_array().into_iter().flatten() {
            let tag = if line["verbatim"] == true || key == "where" { "code" } else { "span" };
            let _ = write!(html, "<br/><{tag}>");
            push(line["text"].as_str().unwrap_or_default(), &mut html);
            let _ = write!(html, "</{tag}>");
        }
        html.push_str("</p>");
    }
    classes(manifest, &mut html);
    chart(points, manifest, &mut html);
    html.push_str("</div>");
    html
}

/// A word of the manifest's language.
fn word<'a>(manifest: &'a Json, key: &str) -> &'a str {
    manifest["words"][key].as_str().unwrap_or_default()
}

fn answer_key(answer: &str) -> &str {
    match answer {
        "run" => "one_run",
        "agree" | "differ" => answer,
        _ => "inconclusive",
    }
}

/// A class or finding in the manifest's language.
fn class<'a>(manifest: &'a Json, name: &'a str) -> &'a str {
    manifest["words"]["classes"][name]["name"].as_str().unwrap_or(name)
}

/// The first divergence: where it is, the numbers behind it, and how sure it is.
fn divergence(manifest: &Json, first: &Json, html: &mut String) {
    let said = |key: &str| word(manifest, key);
    let text = |field: &str| first[field].as_str().filter(|text| !text.is_empty());
    let kind = text("kind").unwrap_or_default();
    let is_rule = kind == "failed";
    html.push_str("<p style=\"margin-bottom: 0\"><strong>");
    push(said(if is_rule { "first_failing" } else { "first_divergence" }), html);
    html.push_str("</strong>");
    if !is_rule && manifest["kind"] == "comparison" {
        html.push_str(" (");
        push(class(manifest, kind), html);
        html.push(')');
    }
    html.push_str("</p><table>");
    let rank = first["rank"].as_u64().unwrap_or(0) as usize;
    let other = |field: &str, than: &str| text(field).filter(|value| Some(*value) != text(than));
    let pass = first["call"].as_u64().is_some() && manifest["kind"] == "comparison";
    let pass = match text("direction").filter(|_| pass) {
        Some("backward") => format!(" ({})", said("backward_pass")),
        Some(_) => format!(" ({})", said("forward_pass")),
        None => String::new(),
    };
    let name = text("name").map(|name| format!("{name}{pass}"));
    // Rows are in English, and so is why.
    let is_english = manifest["language"] == "en";
    let places = [
        (said("noun"), name.as_deref()),
        (said("in_golden"), other("golden", "name")),
        (said("place"), manifest["ranks"][rank]["label"].as_str().filter(|label| !label.is_empty())),
        (said("module"), text("module")),
        (said("code"), text("code")),
        (said("golden_code"), other("golden_code", "code")),
        (said("entry"), other("entry", "name")),
        (said("why"), text("why").filter(|_| is_english)),
    ];
    for (label, value) in places {
        if let Some(value) = value {
            row(label, value, html);
        }
    }
    let number = |field: &str| first[field].as_f64().map(format_short).or(text(field).map(str::to_owned));
    for (label, field) in [("found", "error"), ("allowed", "expected"), ("inputs", "inputs")] {
        if let Some(value) = number(field) {
            row(said(label), &value, html);
        }
    }
    html.push_str("</table>");
    let ratio =
        first["error"].as_f64().zip(first["expected"].as_f64()).map(|(error, allowed)| error / allowed);
    if let Some(ratio) = ratio.filter(|ratio| ratio.is_finite() && *ratio > 1.0) {
        paragraph(&said("times_allowed").replace("{count}", &format_ratio(ratio)), html);
    }
    if let Some(confidence) = confidence(manifest, first).filter(|_| !is_rule) {
        paragraph(&format!("{}: {confidence}", said("confidence")), html);
    }
    if let Some(calls) = first["downstream"].as_u64().filter(|calls| *calls > 0) {
        let text = said(if calls == 1 { "inherits" } else { "inherit" });
        paragraph(&text.replace("{count}", &format_count(calls)), html);
    }
    if let Some(verdict) = first["proof"]["verdict"].as_str() {
        let side = first["proof"]["wrong_side"].as_str();
        let side = side.map(|side| format!(", {} {side}", said("wrong_in"))).unwrap_or_default();
        paragraph(&format!("{}: {verdict}{side}", said("replay")), html);
    }
}

/// The lines of a section of the explanation.
fn lines_of<'a>(manifest: &'a Json, key: &str) -> impl Iterator<Item = &'a str> {
    let sections = manifest["sections"].as_array().into_iter().flatten();
    let lines = sections
        .filter(move |section| section["key"] == key)
        .filter_map(|section| section["lines"].as_array());
    lines.flatten().filter_map(|line| line["text"].as_str())
}

/// How sure it is: as the explanation says, which may tell apart where an error arises and which call makes it.
fn confidence(manifest: &Json, first: &Json) -> Option<String> {
    if let Some(text) = lines_of(manifest, "confidence").next() {
        return Some(text.to_owned());
    }
    let confidence = first["confidence"].as_f64()?;
    let level = match confidence {
        0.9.. => "very_high",
        0.7.. => "high",
        0.5.. => "moderate",
        _ => "low",
    };
    Some(format!("{} ({confidence:.2})", word(manifest, level)))
}

fn row(label: &str, value: &str, html: &mut String) {
    html.push_str("<tr><td style=\"text-align: left\">");
    push(label, html);
    html.push_str("</td><td style=\"text-align: left\"><code>");
    push(value, html);
    html.push_str("</code></td></tr>");
}

fn paragraph(text: &str, html: &mut String) {
    html.push_str("<p style=\"margin: 0\">");
    push(text, html);
    html.push_str("</p>");
}

/// Calls by class.
fn classes(manifest: &Json, html: &mut String) {
    let Some(classes) = manifest["classes"].as_object() else { return };
    let counted = classes.iter().filter_map(|(name, calls)| {
        let calls = calls.as_u64().filter(|calls| *calls > 0)?;
        Some(format!("{} {}", format_count(calls), class(manifest, name)))
    });
    let counted: Vec<String> = counted.collect();
    if !counted.is_empty() {
        paragraph(&format!("{}: {}", word(manifest, "by_class"), counted.join(", ")), html);
    }
}

fn push(text: &str, html: &mut String) {
    escape::html(text, html);
}

/// Errors by order of execution, on a logarithmic scale.
fn chart(points: &[ChartPoint], manifest: &Json, html: &mut String) {
    let sizes = points.iter().map(|point| point.error).filter(|error| error.is_finite());
    let most = sizes.fold(0.0, f64::max);
    if most < LEAST {
        return;
    }
    let calls = points.iter().map(|point| point.at + 1).max().unwrap_or(1) as f64;
    let (low, high) = (LEAST.log10(), most.log10().max(0.0).ceil());
    let x = |at: u64| LEFT + (WIDTH - LEFT) * (at as f64 + 0.5) / calls;
    let y = |size: f64| {
        let size = if size.is_finite() { size.max(LEAST).log10() } else { high };
        (HEIGHT - BOTTOM) * (high - size) / (high - low)
    };
    let _ = write!(
        html,
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" style=\"max-width: 100%\" role=\"img\" \
         aria-label=\"",
    );
    let title =
        format!("{} {}", manifest["error_label"].as_str().unwrap_or_default(), word(manifest, "by_order"));
    push(&title, html);
    html.push_str("\"><g fill=\"currentColor\" font-size=\"10\">");
    for power in (low as i32..=high as i32).step_by(3) {
        let at = y(10f64.powi(power));
        let _ = write!(html, "<text x=\"0\" y=\"{:.1}\">1e{power}</text>", at.max(8.0));
    }
    let _ = write!(html, "<text x=\"{LEFT}\" y=\"{}\">", HEIGHT - 3.0);
    push(&format!("{title}, {} {}", format_count(calls as u64), word(manifest, "nouns")), html);
    html.push_str("</text></g>");
    let step = points.len().div_ceil(MAX_POINTS).max(1);
    for group in points.chunks(step) {
        let floor = group.iter().filter_map(|point| point.expected).fold(0.0, f64::max);
        if floor > 0.0 {
            let top = y(floor);
            let _ = write!(
                html,
                "<rect x=\"{:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"#8888\" />",
                x(group[0].at) - 0.5,
                ((WIDTH - LEFT) * step as f64 / calls).max(1.0),
                HEIGHT - BOTTOM - top,
            );
        }
        let Some(worst) = group.iter().reduce(|one, other| if other.error > one.error { other } else { one })
        else {
            continue;
        };
        if worst.error > 0.0 {
            let colour = if worst.is_backward { "#0072b2" } else { "#e69f00" };
            let _ = write!(
                html,
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"1.5\" fill=\"{colour}\" />",
                x(worst.at),
                y(worst.error)
            );
        }
    }
    if let Some(first) = points.iter().find(|point| point.is_first) {
        let at = x(first.at);
        let _ = write!(
            html,
            "<line x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"0\" y2=\"{:.1}\" stroke=\"#d55e00\" stroke-dasharray=\"3 2\" />\
             <text x=\"{:.1}\" y=\"9\" font-size=\"10\" fill=\"#d55e00\">",
            HEIGHT - BOTTOM,
            if at > WIDTH / 2.0 { at - 150.0 } else { at + 4.0 },
        );
        let mark = if manifest["kind"] == "run" { "first_finding" } else { "first_divergence" };
        push(&format!("{}, {}", word(manifest, mark), format_short(first.error)), html);
        html.push_str("</text>");
    }
    html.push_str("</svg>");
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_are_text() {
        let manifest = json!({
            "headline": { "answer": "differ", "sentence": "<script>alert(1)</script> & \"x\" differs" },
            "sections": [{ "key": "where", "heading": "Where", "lines": [{ "text": "<b>\u{202e}", "verbatim": false }] }],
            "error_label": "relative error",
            "words": { "differ": "DIFFER", "first_divergence": "first divergence" },
        });
        let point =
            |at, error| ChartPoint { at, error, expected: Some(1e-7), is_backward: false, is_first: at == 1 };
        let html = html(&manifest, &[point(0, 1e-8), point(1, 0.5), point(2, f64::INFINITY)]);
        assert!(html.contains("&lt;script&gt;alert(1)&lt;/script&gt; &amp; &quot;x&quot;"), "{html}");
        assert!(html.contains("&lt;b&gt;\\u{202e}"), "{html}");
        assert!(
            html.contains("first divergence, 0.5") && !html.contains("NaN") && !html.contains("inf"),
            "{html}"
        );
        assert_eq!(html.matches("<circle").count(), 3);
    }
}
