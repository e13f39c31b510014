//! Explanations as they are kept in `result.json`.

#![allow(clippy::unwrap_used)]

use serde_json::json;
use ulpscope_session::Language;
use ulpscope_session::explanation::Explanation;

#[test]
fn the_headline_is_the_cause_where_one_is_known() {
    let unjudged = json!({ "most_not_judged": { "calls": 122, "of": 178 } });
    let headline = |statements: serde_json::Value| {
        let sections = json!([{ "heading": "what_broke", "statements": statements }]);
        let explanation: Explanation = serde_json::from_value(sections).unwrap();
        explanation.headline(Language::English.words()).unwrap()
    };
    let both = headline(json!([unjudged, "runs_agree"]));
    assert_eq!(both.sentence, "The two runs agree.");
    assert_eq!(both.more.len(), 1);
    assert!(both.more[0].starts_with("Most calls (122 of 178) could not be judged"), "{both:?}");
    let alone = headline(json!([unjudged]));
    assert_eq!((alone.sentence, alone.more), (both.more[0].clone(), Vec::new()));
    assert_eq!(Explanation::default().headline(Language::English.words()), None);
}
