//! `pk`: the statistics and stacks of an API in a `.pkl` of ptdbg_ascend, which holds lines of JSON.

use std::path::Path;

use ulpscope_compare::styles::python_text;
use ulpscope_formats::json::{self, Json};
use ulpscope_formats::pkl_lines::Lines;
use ulpscope_formats::{Access, Bytes};

use crate::options::Options;
use crate::reply::Reply;
use crate::session::Session;

pub(crate) fn run(session: &Session, options: &Options) -> Reply {
    let (file, name) = (options.text("-f").unwrap_or_default(), options.text("-n").unwrap_or_default());
    let path = Path::new(file);
    let bytes = match Bytes::map(path, Access::ReadOnly) {
        Ok(bytes) => bytes,
        Err(error) => return Reply::failed(format!("pk: {error}")),
    };
    let mut reply = Reply::default();
    let shown = bytes.reading(|| {
        show(&bytes, file, name, session, &mut reply);
        Ok(())
    });
    if let Err(error) = shown {
        return Reply::failed(format!("pk: {}", error.in_file(path)));
    }
    reply
}

fn show(bytes: &Bytes, file: &str, name: &str, session: &Session, reply: &mut Reply) {
    let mut lines = Lines::new(bytes);
    let (mut has_title, mut is_found) = (false, false);
    while let Some(place) = lines.next_place() {
        if session.cancel.is_asked() {
            return;
        }
        let values = match json::read(&bytes[place]) {
            Ok(Json::List(values)) if !values.is_empty() => values,
            _ => {
                reply.error(format!("pk: {file}, line {}: not a line of a dump", lines.number()));
                continue;
            }
        };
        let Some(entry) = values[0].as_str().filter(|entry| entry.starts_with(name)) else { continue };
        is_found = true;
        match &values[1..] {
            [Json::List(frames)] if entry.contains("stack_info") => show_stack(entry, frames, reply),
            [_, _, dtype, shape, Json::List(figures), ..] if figures.len() >= 3 => {
                if !has_title {
                    reply.line("");
                    reply.line("Statistic Info:");
                    has_title = true;
                }
                let [dtype, shape] = [dtype, shape].map(python_text::text);
                let [max, min, mean] = [&figures[0], &figures[1], &figures[2]].map(python_text::text);
                reply.line(&format!(
                    "  [{entry}][dtype: {dtype}][shape: {shape}][max: {max}][min: {min}][mean: {mean}]"
                ));
            }
            _ => {}
        }
    }
    if !is_found {
        reply.error(format!("pk: {file}: no API whose name begins with {name}"));
    }
}

/// The innermost call comes last, as in a traceback of Python.
fn show_stack(entry: &str, frames: &[Json], reply: &mut Reply) {
    reply.line("");
    reply.line(&format!("Trace back({entry}):"));
    for frame in frames.iter().rev() {
        let Some([file, line, function, code, ..]) = frame.as_list() else { continue };
        let [file, line, function, code] = [file, line, function, code].map(python_text::text);
        reply.line(&format!("  File \"{file}\", line {line}, in {function}"));
        reply.line(&format!("    {code}"));
    }
}
