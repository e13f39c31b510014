//! Selects calls by the user's text, in any tool's spelling.

use ulpscope_dump::{CallKind, Rank};
use ulpscope_formats::names::{CallName, Direction};

/// Which calls of a dump the user wants.
#[derive(Debug)]
pub(crate) enum Wanted {
    /// All of them.
    All,
    /// Those with this in their name.
    Part(String),
    /// Those whose whole name matches this.
    Pattern(String),
}

/// The name of a call as typed: complete, with the name of an entry, or partial.
#[derive(Debug)]
pub(crate) struct TypedName {
    text: String,
    lower: String,
}

/// How well the name of a call matches the typed text, best first. Only the best matches count: `linear.1` does not
/// match `linear.10`, unless there is nothing better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fit {
    /// One of the two begins with the other, up to the end of a word.
    Words,
    /// The name begins with it.
    Beginning,
    /// The name begins with it, ignoring case.
    AnyCase,
    /// The name contains it, ignoring case.
    Part,
}

impl TypedName {
    pub(crate) fn new(call: &str) -> TypedName {
        let text = plain(call);
        TypedName { lower: text.to_lowercase(), text }
    }

    /// How well a call matches, in any tool's spelling.
    pub(crate) fn fit(&self, rank: &Rank, call: usize) -> Option<Fit> {
        let mut closest: Option<Fit> = None;
        any_spelling(rank, call, |name| {
            closest = closest.into_iter().chain(self.fit_of(name)).min();
            closest == Some(Fit::Words)
        });
        closest
    }

    fn fit_of(&self, name: &str) -> Option<Fit> {
        let at_word = |name: &str, text: &str| begins_at_word(name, text) || begins_at_word(text, name);
        if at_word(name, &self.text) {
            return Some(Fit::Words);
        }
        if name.starts_with(&self.text) {
            return Some(Fit::Beginning);
        }
        let name = name.to_lowercase();
        if at_word(&name, &self.lower) || name.starts_with(&self.lower) {
            return Some(Fit::AnyCase);
        }
        name.contains(&self.lower).then_some(Fit::Part)
    }
}

/// The number of suggested names if nothing matches.
const SUGGESTED: usize = 8;

impl Wanted {
    /// The selection of `--filter`.
    pub(crate) fn of_filter(filter: Option<&str>) -> Wanted {
        match filter.map(plain) {
            None => Wanted::All,
            Some(text) if text.contains(['*', '?']) => Wanted::Pattern(text),
            Some(text) => Wanted::Part(text),
        }
    }

    /// The numbers of a rank's selected calls, in order.
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
        }
    }
}

/// Existing names to suggest if nothing matches: those that contain the text, or else the first.
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
fn any_spelling(rank: &Rank, number: usize, mut test: impl FnMut(&str) -> bool) -> bool {
    if test(&plain(&rank.name(number))) {
        return true;
    }
    let call = &rank.calls()[number];
    let direction = match call.kind {
        CallKind::Forward => Direction::Forward,
        CallKind::Backward => Direction::Backward,
        CallKind::ParametersGrad | CallKind::StepEnd | CallKind::Saved => return false,
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

/// Whether a text matches a pattern, in which `*` matches anything and `?` one character.
fn is_like(text: &[u8], pattern: &[u8]) -> bool {
    let (mut at, mut next) = (0, 0);
    // The position of the last star, and how much it matches so far.
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
    use super::{Fit, TypedName, begins_at_word, is_like};

    #[test]
    fn the_closest_is_meant() {
        let fit = |typed: &str, name: &str| TypedName::new(typed).fit_of(name);
        assert_eq!(fit("Functional.linear.1", "Functional_linear_1_forward"), Some(Fit::Words));
        assert_eq!(
            fit("Functional.linear.1.forward.input.0", "Functional_linear_1_forward"),
            Some(Fit::Words)
        );
        assert_eq!(fit("Functional.linear.1", "Functional_linear_10_forward"), Some(Fit::Beginning));
        assert_eq!(fit("functional.LINEAR", "Functional_linear_10_forward"), Some(Fit::AnyCase));
        assert_eq!(fit("linear.10", "Functional_linear_10_forward"), Some(Fit::Part));
        assert_eq!(fit("softmax", "Functional_linear_10_forward"), None);
    }

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
