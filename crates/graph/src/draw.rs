//! The neighbourhood of an operator as an SVG image: producers above, consumers below.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

use crate::model::{Graph, Op};

const WIDTH: usize = 230;
const HEIGHT: usize = 46;
const GAP: usize = 24;
const ROW: usize = 110;

/// Operators that are drawn at most. Beyond this nothing can be read.
const MAX_DRAWN: usize = 400;

/// Letters of a name that fit into a box.
const LETTERS: usize = 30;

/// Operators at which the neighbourhood ends: everything is connected with them.
const ENDS: [&str; 2] = ["AtomicAddrClean", "NetOutput"];

/// Draws an operator and everything up to `depth` edges away.
pub fn draw(graph: &Graph, op: &Op, depth: usize) -> String {
    let by_name: HashMap<&str, usize> =
        graph.ops.iter().enumerate().map(|(at, op)| (op.name.as_str(), at)).collect();
    let mut consumers: HashMap<usize, Vec<usize>> = HashMap::new();
    for (at, one) in graph.ops.iter().enumerate() {
        for producer in one.inputs.iter().filter_map(|edge| by_name.get(edge.source.as_str())) {
            consumers.entry(*producer).or_default().push(at);
        }
    }
    let Some(&root) = by_name.get(op.name.as_str()) else { return String::new() };
    let levels = levels(graph, root, depth, &by_name, &consumers);
    let mut rows: BTreeMap<i64, Vec<usize>> = BTreeMap::new();
    for (&at, &level) in &levels {
        rows.entry(level).or_default().push(at);
    }
    let widest = rows.values().map(Vec::len).max().unwrap_or(1);
    let full = widest * (WIDTH + GAP) + GAP;
    let mut places: HashMap<usize, (usize, usize)> = HashMap::new();
    for (row, ops) in rows.values().enumerate() {
        let start = (full - (ops.len() * (WIDTH + GAP) - GAP)) / 2;
        for (column, &at) in ops.iter().enumerate() {
            places.insert(at, (start + column * (WIDTH + GAP), GAP + row * ROW));
        }
    }
    let tall = rows.len() * ROW + GAP;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{full}\" height=\"{tall}\" \
         font-family=\"sans-serif\" font-size=\"11\">\n"
    );
    edges(graph, &levels, &places, &by_name, &mut svg);
    for &at in levels.keys() {
        node(&graph.ops[at], places[&at], at == root, &mut svg);
    }
    svg.push_str("</svg>\n");
    svg
}

/// Operators by number, with their distance: producers are negative.
fn levels(
    graph: &Graph,
    root: usize,
    depth: usize,
    by_name: &HashMap<&str, usize>,
    consumers: &HashMap<usize, Vec<usize>>,
) -> BTreeMap<usize, i64> {
    let mut levels = BTreeMap::from([(root, 0)]);
    for direction in [-1, 1] {
        let mut edge = vec![root];
        for distance in 1..=depth {
            let mut next = Vec::new();
            for at in edge {
                if ENDS.contains(&graph.ops[at].op_type.as_str()) {
                    continue;
                }
                let around: Vec<usize> = if direction < 0 {
                    let sources = graph.ops[at].inputs.iter().map(|edge| edge.source.as_str());
                    sources.filter_map(|source| by_name.get(source).copied()).collect()
                } else {
                    consumers.get(&at).cloned().unwrap_or_default()
                };
                for one in around {
                    if levels.len() < MAX_DRAWN && !levels.contains_key(&one) {
                        levels.insert(one, direction * distance as i64);
                        next.push(one);
                    }
                }
            }
            edge = next;
        }
    }
    levels
}

fn edges(
    graph: &Graph,
    levels: &BTreeMap<usize, i64>,
    places: &HashMap<usize, (usize, usize)>,
    by_name: &HashMap<&str, usize>,
    svg: &mut String,
) {
    for &at in levels.keys() {
        for edge in &graph.ops[at].inputs {
            let source = by_name.get(edge.source.as_str()).and_then(|source| places.get(source));
            let (Some(from), Some(to)) = (source, places.get(&at)) else { continue };
            let dashes = if edge.is_control() { " stroke-dasharray=\"4\"" } else { "" };
            // Writing to a text cannot fail.
            let _ = writeln!(
                svg,
                "<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" stroke=\"#888\"{dashes}/>",
                from.0 + WIDTH / 2,
                from.1 + HEIGHT,
                to.0 + WIDTH / 2,
                to.1
            );
        }
    }
}

fn node(op: &Op, (x, y): (usize, usize), is_root: bool, svg: &mut String) {
    let (fill, stroke) = if is_root { ("#fdd", "#c00") } else { ("#eef", "#447") };
    let shown = |text: &str| match text.char_indices().rev().nth(LETTERS - 1) {
        Some((start, _)) if start > 0 => escaped(&format!("…{}", &text[start..])),
        _ => escaped(text),
    };
    let output = op.output_descs.first().map(|desc| {
        let sizes: Vec<String> = desc.shape.iter().map(i64::to_string).collect();
        format!("{} {} [{}]", desc.dtype, desc.layout, sizes.join(","))
    });
    let name = escaped(&op.name);
    // Writing to a text cannot fail.
    let _ = write!(
        svg,
        "<g><title>{name}</title><rect x=\"{x}\" y=\"{y}\" width=\"{WIDTH}\" height=\"{HEIGHT}\""
    );
    let _ = write!(svg, " rx=\"5\" fill=\"{fill}\" stroke=\"{stroke}\"/>");
    let lines = [
        (14, " font-weight=\"bold\"", shown(&op.op_type)),
        (28, "", shown(&op.name)),
        (41, " fill=\"#555\"", shown(&output.unwrap_or_default())),
    ];
    for (below, style, text) in lines {
        let _ = write!(svg, "<text x=\"{}\" y=\"{}\"{style}>{text}</text>", x + 8, y + below);
    }
    svg.push_str("</g>\n");
}

/// Text for XML, without characters that XML does not have.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            letter if letter.is_control() => safe.push('\u{fffd}'),
            letter => safe.push(letter),
        }
    }
    safe
}
