//! The words of the first screen, in all languages: of the page, which gets them in its manifest, and of the plain html
//! for notebooks. Sentences of explanations are in `session`; names, rows and errors are the same in all languages.

mod chinese;
mod english;

use serde_json::{Map, Value as Json, json};
use ulpscope_compare::Class;
use ulpscope_session::Language;

/// Makes the struct and its JSON, so that neither can lack a word that the other has.
macro_rules! screen_words {
    ($($word:ident)+) => {
        /// Words of a language. `{count}` stands for a count, `{noun}` and `{nouns}` for what a page is about.
        pub(crate) struct ScreenWords {
            $(pub(crate) $word: &'static str,)+
            /// What calls, parameters and tensors are called: one, many.
            nouns: [[&'static str; 2]; 3],
            /// Class or finding, its name and its meaning.
            classes: &'static [(&'static str, &'static str, &'static str)],
        }

        impl ScreenWords {
            fn fields(&self) -> Map<String, Json> {
                Map::from_iter([$((stringify!($word).to_owned(), json!(self.$word)),)+])
            }
        }
    };
}

screen_words! {
    agree differ inconclusive one_run
    target golden run step rank part not_compared
    first_divergence first_failing forward_pass backward_pass in_golden place module code golden_code entry why
    relative_errors found allowed inputs times_allowed
    confidence very_high high moderate low
    inherits inherit replay wrong_in
    explanation by_class introduced introduce fails fail_many differs_one differ_many finding findings
    show_all show_fewer listed
    glance glance_saved model model_saved chosen every_row every_entry
    relative_error norm noise_floor forward backward in_order in_order_saved drag whole_run first_finding by_order
    findings_heading nothing_found unmeasured counted in_ranks in_steps nothing nothing_measured something comma
    checkpoint first_divergence_saved times_allowed_saved noise_floor_saved whole_run_saved
    saved_differs saved_differs_meaning saved_on_one_side saved_on_one_side_meaning
}

/// What a "call" of a page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Noun {
    /// A call.
    Call,
    /// A tensor of a checkpoint.
    Parameter,
    /// A tensor of a folder or a file of tensors.
    Tensor,
}

/// How the name of a word ends that takes the place of another where a page is about tensors that no call made.
const OF_SAVED: &str = "_saved";

/// Extensions of files that hold the parameters of a model.
const CHECKPOINTS: [&str; 6] = ["pt", "pth", "bin", "ckpt", "safetensors", "npz"];

/// How the names of parameters end.
const PARAMETERS: [&str; 4] = ["weight", "bias", "running_mean", "running_var"];

impl Noun {
    /// What tensors without calls are, by the path that holds them and by their names.
    pub(crate) fn of_saved<'a>(path: &str, names: impl Iterator<Item = &'a str>) -> Noun {
        let extension = path.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase());
        let is_file = extension.is_some_and(|extension| CHECKPOINTS.contains(&extension.as_str()));
        let mut last_words = names.filter_map(|name| name.rsplit('.').next());
        let has_parameters = last_words.any(|last| PARAMETERS.contains(&last));
        if is_file || has_parameters { Noun::Parameter } else { Noun::Tensor }
    }

    /// The word in the manifest.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Noun::Call => "call",
            Noun::Parameter => "parameter",
            Noun::Tensor => "tensor",
        }
    }
}

impl ScreenWords {
    /// The words of a language.
    pub(crate) fn of(language: Language) -> &'static ScreenWords {
        match language {
            Language::English => &english::WORDS,
            Language::Chinese => &chinese::WORDS,
        }
    }

    /// What one "call" of a page is called, and what many are.
    pub(crate) fn noun(&self, noun: Noun) -> [&'static str; 2] {
        self.nouns[noun as usize]
    }

    /// A class or finding.
    pub(crate) fn class<'a>(&self, name: &'a str) -> &'a str {
        self.classes.iter().find(|(known, ..)| *known == name).map_or(name, |(_, name, _)| *name)
    }

    /// All words, for the manifest.
    pub(crate) fn to_json(&self, noun: Noun, language: Language) -> Json {
        let [one, many] = self.noun(noun);
        let (saved, mut words): (Map<_, _>, Map<_, _>) =
            self.fields().into_iter().partition(|(key, _)| key.ends_with(OF_SAVED));
        if noun != Noun::Call {
            let what = if noun == Noun::Parameter { self.checkpoint } else { many };
            words.insert("run".to_owned(), json!(what));
            words.insert("one_run".to_owned(), json!(what.to_uppercase()));
            words.extend(
                saved.into_iter().map(|(key, word)| (key.trim_end_matches(OF_SAVED).to_owned(), word)),
            );
        }
        for word in words.values_mut() {
            *word = json!(word.as_str().unwrap_or_default().replace("{nouns}", many).replace("{noun}", one));
        }
        words.insert("noun".to_owned(), json!(one));
        words.insert("nouns".to_owned(), json!(many));
        let classes = self.classes.iter().map(|(class, name, meaning)| {
            let known = Class::ALL.into_iter().find(|known| known.words() == *class);
            let name = known.map_or(*name, |known| language.words().class(known));
            // A tensor that no call made has no inputs.
            let (name, meaning) = match known.filter(|_| noun != Noun::Call) {
                Some(Class::OriginDiffers | Class::DivergedHere) => {
                    (self.saved_differs, self.saved_differs_meaning)
                }
                Some(Class::DifferentProgram) => (self.saved_on_one_side, self.saved_on_one_side_meaning),
                _ => (name, *meaning),
            };
            ((*class).to_owned(), json!({ "name": name, "meaning": meaning }))
        });
        words.insert("classes".to_owned(), Json::Object(classes.collect()));
        Json::Object(words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_of_checkpoints_are_parameters() {
        let none = std::iter::empty;
        assert_eq!(Noun::of_saved("model.safetensors", none()), Noun::Parameter);
        assert_eq!(Noun::of_saved("shards/", ["model.norm.weight"].into_iter()), Noun::Parameter);
        assert_eq!(Noun::of_saved("activations/", ["conv1", "conv2.out"].into_iter()), Noun::Tensor);
    }
}
