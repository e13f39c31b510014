//! Tables as HTML fragments, for notebooks.

use std::fmt::Write;

use crate::escape;
use crate::fields;
use crate::table::{Align, Emphasis, Table};

impl Table {
    /// The table as one `<table>` element. Every text is escaped; names of known fields have their meaning as
    /// a tooltip.
    pub fn to_html(&self) -> String {
        let mut html = String::from("<table class=\"ulpscope\">");
        if !self.title.is_empty() {
            html.push_str("<caption>");
            escape::html(&self.title, &mut html);
            html.push_str("</caption>");
        }
        if self.has_header() {
            html.push_str("<thead><tr>");
            for column in &self.columns {
                cell("th", column.align, &column.name, fields::column_meaning(&column.name), &mut html);
            }
            html.push_str("</tr></thead>");
        }
        html.push_str("<tbody>");
        for row in &self.rows {
            html.push_str(match row.emphasis {
                Emphasis::Plain => "<tr>",
                Emphasis::Good => "<tr style=\"color: green\">",
                // Plain yellow is not readable on white.
                Emphasis::Warn => "<tr style=\"color: goldenrod\">",
                Emphasis::Bad => "<tr style=\"color: crimson\">",
            });
            for (index, (column, value)) in self.columns.iter().zip(&row.cells).enumerate() {
                let text = value.to_string();
                // Without headings, the first column contains the names.
                let names_a_field = index == 0 && !self.has_header();
                let meaning = if names_a_field { fields::meaning(&text) } else { None };
                cell("td", column.align, &text, meaning, &mut html);
            }
            html.push_str("</tr>");
        }
        html.push_str("</tbody></table>");
        html
    }
}

fn cell(tag: &str, align: Align, text: &str, meaning: Option<&str>, html: &mut String) {
    let side = match align {
        Align::Left => "left",
        Align::Right => "right",
    };
    let _ = write!(html, "<{tag} style=\"text-align: {side}\"");
    if let Some(meaning) = meaning {
        html.push_str(" title=\"");
        escape::html(meaning, html);
        html.push('"');
    }
    html.push('>');
    escape::html(text, html);
    let _ = write!(html, "</{tag}>");
}
