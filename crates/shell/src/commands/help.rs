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
        reply.line(row.description(session.is_chinese));
        return reply;
    }
    for row in session.dialect.commands() {
        reply.line(&format!("{:<5} {}", row.name, row.description(session.is_chinese)));
        reply.line(&format!("      {}", row.usage()));
    }
    if let Some(word) = session.dialect.run_word() {
        let about = if session.is_chinese {
            "不退出交互命令环境执行shell命令，与内置命令不冲突的可以直接执行，否则需要加run前缀"
        } else {
            "run a program"
        };
        reply.line(&format!("{word:<5} {about}, as in: {word} vim cli.py"));
    }
    reply.line("Any other line is a program of yours. Ctrl-D, exit or quit leaves.");
    reply
}
