//! `pt`: one tensor, its statistics, and its values as text.

use ulpscope_kernels::{Threads, stats};
use ulpscope_report::{heavy_table, panel};

use super::find;
use crate::numpy_text::{self, Digits};
use crate::options::Options;
use crate::reply::Reply;
use crate::session::Session;
use crate::tensor_text::{NamedTensor, extrema, spec};

/// Rows of the table, and values in a row.
const ROWS: usize = 16;
const VALUES: usize = 8;

/// As the guide of precision_tool prints it: the array, and a line for each fact.
pub(crate) fn precision_tool(session: &Session, options: &Options) -> Reply {
    let name = options.text("-n").or(options.words.first().map(String::as_str));
    let Some(name) = name else { return Reply::failed("pt: say which file, as in: pt x.npy") };
    show_found(session, name, |one, reply| {
        let view = one.tensor.view();
        let stats = stats(&view, Threads::All);
        let [max, min, mean] = extrema(one.tensor.dtype(), &stats);
        // A blank where the other one may have a minus sign.
        let aligned = |text: String| if text.starts_with('-') { text } else { format!(" {text}") };
        for line in format!("Array: {}", numpy_text::array(&view)).lines() {
            reply.line(line);
        }
        reply.line("=============");
        reply.line(&format!("Shape: {}", numpy_text::shape(one.tensor.shape())));
        reply.line(&format!("Dtype: {}", one.tensor.dtype()));
        reply.line(&format!("Max: {}", aligned(max)));
        reply.line(&format!("Min: {}", aligned(min)));
        reply.line(&format!("Mean: {mean}"));
        reply.line(&format!("Path: {}", one.label()));
        if let Some(text) = save(session, one, reply) {
            reply.line(&format!("TxtFile:{text}"));
        }
    })
}

/// As ptdbg_ascend.parse prints it: a panel with the first values.
pub(crate) fn parse(session: &Session, options: &Options) -> Reply {
    let name = options.text("-n").unwrap_or_default();
    show_found(session, name, |one, reply| {
        let view = one.tensor.view();
        let digits = Digits::of(one.tensor.dtype());
        let count = view.len().min(ROWS * VALUES);
        let rows: Vec<Vec<String>> = (0..count)
            .step_by(VALUES)
            .map(|start| {
                let values = (start..count.min(start + VALUES)).map(|index| digits.scalar(view.get(index)));
                vec![start.to_string(), values.collect::<Vec<_>>().join(" ")]
            })
            .collect();
        let mut lines = heavy_table("", &["Index", "Data"], &rows);
        lines.push(spec(&one.tensor, &stats(&view, Threads::All)));
        lines.push(format!("Path: {}", one.label()));
        lines.extend(save(session, one, reply).map(|text| format!("TextFile: {text}")));
        reply.block(&panel(Some(&one.label()), &lines));
    })
}

/// Shows every tensor of every file that a name stands for.
fn show_found(session: &Session, name: &str, show: impl Fn(&NamedTensor, &mut Reply)) -> Reply {
    let mut reply = Reply::default();
    let paths = match find::tensor_files(session, name, &mut reply) {
        Ok(paths) => paths,
        Err(problem) => {
            reply.error(format!("pt: {problem}"));
            return reply;
        }
    };
    for path in paths {
        match NamedTensor::read(&path) {
            Ok((tensors, unread)) => {
                if tensors.is_empty() && unread.is_empty() {
                    reply.error(format!("pt: {}: holds no tensors", path.display()));
                }
                for one in &tensors {
                    let mut shown = Reply::default();
                    show(one, &mut shown);
                    // Numbers of a file that was being shortened mean nothing.
                    match one.tensor.check() {
                        Ok(()) => reply.add(shown),
                        Err(error) => reply.error(format!("pt: {error}")),
                    }
                }
                unread.into_iter().for_each(|problem| reply.error(format!("pt: {problem}")));
            }
            Err(error) => reply.error(format!("pt: {error}")),
        }
    }
    reply
}

/// Writes the text file; a folder that cannot be written to does not lose the numbers.
fn save(session: &Session, one: &NamedTensor, reply: &mut Reply) -> Option<String> {
    match one.save_text(&session.cancel) {
        Ok(path) => Some(path.display().to_string()),
        Err(error) => {
            reply.warning(format!("the text file was not written: {error}"));
            None
        }
    }
}
