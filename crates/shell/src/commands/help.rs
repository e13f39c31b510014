//! `help`: the commands and their options.

use crate::options::Options;
use crate::reply::Reply;
use crate::session::Session;

pub(crate) fn run(session: &Session, options: &Options) -> Reply {
    let mut reply = Reply::default();
    let mut wanted = options.words.iter();
    if let Some(name) = wanted.next() {
        let Some(row) = session.dialect.command(name) else {
            return Reply::failed(format!("help: {name}: no such command; help alone lists them"));
        };
        reply.line(&row.usage());
        reply.line(row.about);
        return reply;
    }
    for row in session.dialect.commands() {
        reply.line(&format!("{:<5} {}", row.name, row.about));
        reply.line(&format!("      {}", row.usage()));
    }
    if let Some(word) = session.dialect.run_word() {
        reply.line(&format!("{word:<5} run a program, as in: {word} vim cli.py"));
    }
    reply.line("Any other line is a program of yours. Ctrl-D, exit or quit leaves.");
    reply
}
