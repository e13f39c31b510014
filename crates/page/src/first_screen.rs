//! The first screen as html without a script: the verdict, the first divergence, what to do next, a small chart. For
//! notebooks, and for readers of a page that run no script.

use std::fmt::Write;

use serde_json::Value as Json;
use ulpscope_report::{escape, format_short};

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

/// Sections of the explanation that are shown.
const SECTIONS: [&str; 5] = ["where", "how_large", "confidence", "rule", "next"];

/// The first screen.
pub(crate) fn html(manifest: &Json, points: &[ChartPoint]) -> String {
    let mut html =
        String::from("<div class=\"ulpscope-first-screen\" style=\"font-family: system-ui, sans-serif\">");
    let headline = &manifest["headline"];
    let answer = headline["answer"].as_str().unwrap_or_default();
    html.push_str("<p style=\"font-size: 1.2em\"><strong>");
    push(answer, &mut html);
    html.push_str("</strong>: ");
    push(headline["sentence"].as_str().unwrap_or_default(), &mut html);
    html.push_str("</p>");
    for section in manifest["sections"].as_array().into_iter().flatten() {
        let key = section["key"].as_str().unwrap_or_default();
        if !SECTIONS.contains(&key) {
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
    chart(points, manifest["error_label"].as_str().unwrap_or_default(), &mut html);
    html.push_str("</div>");
    html
}

fn push(text: &str, html: &mut String) {
    escape::html(text, html);
}

/// Errors by order of execution, on a logarithmic scale.
fn chart(points: &[ChartPoint], label: &str, html: &mut String) {
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
         aria-label=\"{label} by order of execution\"><g fill=\"currentColor\" font-size=\"10\">",
    );
    for power in (low as i32..=high as i32).step_by(3) {
        let at = y(10f64.powi(power));
        let _ = write!(html, "<text x=\"0\" y=\"{:.1}\">1e{power}</text>", at.max(8.0));
    }
    let _ = write!(html, "<text x=\"{LEFT}\" y=\"{}\">", HEIGHT - 3.0);
    push(&format!("{label} by order of execution, {calls} calls"), html);
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
             <text x=\"{:.1}\" y=\"9\" font-size=\"10\" fill=\"#d55e00\">first divergence, {}</text>",
            HEIGHT - BOTTOM,
            if at > WIDTH / 2.0 { at - 150.0 } else { at + 4.0 },
            format_short(first.error),
        );
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
