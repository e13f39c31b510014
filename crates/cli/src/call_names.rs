//! Calls by what the user types, in any tool's spelling.

use ulpscope_dump::{CallKind, Rank};
use ulpscope_formats::names::{CallName, Direction};

/// What the user wants of the calls of a dump.
#[derive(Debug)]
pub(crate) enum Wanted {
    /// All of them.
    All,
    /// Those with this in their name.
    Part(String),
    /// Those whose whole name is like this.
    Pattern(String),
    /// Those whose name begins with this, or with whose name this begins.
    Beginning(String),
}

/// The number of bases named to somebody who asked for something else.
const SUGGESTED: usize = 8;

impl Wanted {
    /// What `--filter` asks for.
    pub(crate) fn of_filter(filter: Option<&str>) -> Wanted {
        match filter.map(plain) {
            None => Wanted::All,
            Some(text) if text.contains(['*', '?']) => Wanted::Pattern(text),
            Some(text) => Wanted::Part(text),
        }
    }

    /// What the name of a call, or the beginning of one, asks for.
    pub(crate) fn of_call(call: &str) -> Wanted {
        Wanted::Beginning(plain(call))
    }

    /// The numbers of the calls of a rank that are wanted, in order.
    pub(crate) fn calls<'a>(&'a self, rank: &'a Rank) -> Box<dyn Iterator<Item = usize> + 'a> {
        let all = 0..rank.calls().len();
        match self {
            Wanted::All => Box::new(all),
            Wanted::Part(part) => Box::new(
                all.filter(move |&call| any_spelling(rank, call, |name| name.contains(part.as_str()))),
            ),
            Wanted::Pattern(pattern) => Box::new(all.filter(move |&call| {
                any_spelling(rank, call, |name| is_like(name.as_bytes(), pattern.as_bytes()))
            })),
            Wanted::Beginning(text) => {
                // `linear.1` is not the beginning of `linear.10`, unless there is nothing else it could be.
                let whole = |name: &str| begins_at_word(name, text) || begins_at_word(text, name);
                let calls: Vec<usize> = all.clone().filter(|&call| any_spelling(rank, call, whole)).collect();
                if !calls.is_empty() {
                    return Box::new(calls.into_iter());
                }
                Box::new(all.filter(move |&call| any_spelling(rank, call, |name| name.starts_with(text))))
            }
        }
    }
}

/// Names of calls that there are, for somebody who asked for one that is not: those with the text in them, or else
/// the first.
pub(crate) fn suggestions(rank: &Rank, asked: &str) -> String {
    let asked = plain(asked).to_lowercase();
    let near = bases(rank, |base| plain(base).to_lowercase().contains(&asked));
    let (bases, more) = if near.0.is_empty() { bases(rank, |_| true) } else { near };
    format!("{}{}", bases.join(", "), if more { ", …" } else { "" })
}

/// The first bases that pass a test, and whether there are more.
fn bases(rank: &Rank, test: impl Fn(&str) -> bool) -> (Vec<&str>, bool) {
    let mut bases: Vec<&str> = Vec::new();
    for call in rank.calls() {
        let base = rank.base(call.base);
        if bases.contains(&base) || !test(base) {
            continue;
        }
        if bases.len() == SUGGESTED {
            return (bases, true);
        }
        bases.push(base);
    }
    (bases, false)
}

/// One spelling for names with dots and names with underscores.
fn plain(name: &str) -> String {
    name.replace('.', "_")
}

/// Whether a test holds for a call's name in the spelling of any tool.
fn any_spelling(rank: &Rank, number: usize, test: impl Fn(&str) -> bool) -> bool {
    if test(&plain(&rank.name(number))) {
        return true;
    }
    let call = &rank.calls()[number];
    let direction = match call.kind {
        CallKind::Forward => Direction::Forward,
        CallKind::Backward => Direction::Backward,
        CallKind::ParametersGrad | CallKind::Saved => return false,
    };
    let base = rank.base(call.base).to_owned();
    let name = CallName { base, index: call.index.unwrap_or_default().into(), direction };
    // ptdbg_ascend puts the number of a module's call in front of the direction, and 6.0 leaves `Module` out.
    name.is_module() && (test(&plain(&name.to_underscores())) || test(&plain(&name.to_dots())))
}

/// Whether a name begins with a text, and what follows is not part of the same word.
fn begins_at_word(name: &str, text: &str) -> bool {
    let rest = name.strip_prefix(text);
    !text.is_empty()
        && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('_') || text.ends_with('_'))
}

/// Whether a text is like a pattern, in which `*` stands for anything and `?` for one character.
fn is_like(text: &[u8], pattern: &[u8]) -> bool {
    let (mut at, mut next) = (0, 0);
    // Where the last star was, and how much it stands for so far.
    let mut star: Option<(usize, usize)> = None;
    while at < text.len() {
        match pattern.get(next) {
            Some(b'*') => {
                star = Some((next, at));
                next += 1;
            }
            Some(&byte) if byte == b'?' || byte == text[at] => {
                at += 1;
                next += 1;
            }
            _ => match star {
                Some((place, covered)) => {
                    star = Some((place, covered + 1));
                    (at, next) = (covered + 1, place + 1);
                }
                None => return false,
            },
        }
    }
    pattern[next..].iter().all(|&byte| byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::{begins_at_word, is_like};

    #[test]
    fn patterns() {
        let like = |text: &str, pattern: &str| is_like(text.as_bytes(), pattern.as_bytes());
        assert!(like("Module_fc_forward_0", "Module_*_0") && like("abc", "a?c") && like("abc", "*"));
        assert!(like("aXbXc", "a*b*c") && like("", "*") && like("ab", "ab**"));
        assert!(!like("abc", "ab") && !like("abc", "b*") && !like("abc", "a?") && !like("", "?"));
    }

    #[test]
    fn beginnings_end_where_words_do() {
        assert!(begins_at_word("linear_1_forward", "linear_1"));
        assert!(begins_at_word("linear_1_forward", "linear_1_"));
        assert!(!begins_at_word("linear_10_forward", "linear_1"));
        assert!(!begins_at_word("linear", ""));
    }
}
