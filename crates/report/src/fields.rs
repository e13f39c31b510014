//! The names of the results' fields, the same in every interface: JSON, Python, tables, documentation.
//!
//! Code that fills in a result has a test that it has exactly these fields in this order.

/// A field's name and its meaning.
pub type Field = (&'static str, &'static str);

/// Fields of the result for one tensor.
pub const STATS: [Field; 13] = [
    ("shape", "dimensions, outermost first"),
    ("dtype", "element type, by torch's name"),
    ("max", "largest element; NaN if there is any NaN"),
    ("min", "smallest element; NaN if there is any NaN"),
    ("mean", "arithmetic mean; of the moduli for complex tensors"),
    ("norm", "square root of the sum of squares (L2)"),
    ("nan", "how many elements are NaN"),
    ("pos_inf", "how many elements are +Inf"),
    ("neg_inf", "how many elements are -Inf"),
    ("zeros", "how many elements are zero, of either sign"),
    ("subnormals", "how many elements are subnormal in their dtype"),
    ("finite_max", "largest finite element"),
    ("finite_min", "smallest finite element"),
];

/// Fields of the result for a pair of tensors.
pub const DIFF: [Field; 27] = [
    ("target", "shape and dtype of the side under suspicion"),
    ("golden", "shape and dtype of the trusted side"),
    ("count", "elements of each side"),
    ("finite", "pairs finite on both sides: the distances are taken over these"),
    ("equal", "whether both sides are equal bit by bit"),
    ("cosine", "cosine of the angle between the two; 1 when both are all zeros"),
    ("euclid", "Euclidean distance"),
    ("rel_l2", "Euclidean distance over the golden's norm"),
    ("rmse", "root of the mean squared error"),
    ("mape", "mean relative error, in percent"),
    ("max_abs", "largest absolute error"),
    ("mean_abs", "mean absolute error"),
    ("max_rel", "largest relative error, where golden is not zero"),
    ("mean_rel", "mean relative error, over the pairs that have one"),
    ("accumulated_rel", "sum of the relative errors"),
    ("kl", "Kullback-Leibler divergence of the two as distributions"),
    ("under_1e3", "share of elements with a relative error under 1/1000"),
    ("under_5e3", "share of elements with a relative error under 5/1000"),
    ("max_ulp", "largest distance in units in the last place (same dtype only)"),
    ("mean_ulp", "mean distance in units in the last place (same dtype only)"),
    ("zero_golden", "elements where golden is zero and target is not: no relative error exists there"),
    ("non_finite", "NaN and Inf: counts on either side and at the same place; `mismatched` disagree"),
    ("over_tolerance", "elements beyond atol + rtol * |golden|, non-finite disagreements included"),
    ("needed_atol", "the atol that would have been enough with the rtol given"),
    ("needed_rtol", "the rtol that would have been enough with the atol given"),
    ("worst_index", "position of the largest error: row-major for programs, coordinates for people"),
    ("exponents", "histogram of the errors by power of two"),
];

/// Fields of the result for one element of a pair.
pub const ELEMENT: [Field; 5] = [
    ("index", "where it is: one number per dimension"),
    ("target", "the element of the side under suspicion"),
    ("golden", "the element of the trusted side"),
    ("abs", "absolute error; NaN when one of the two is not finite"),
    ("rel", "relative error, where golden is not zero"),
];

/// The meaning of a column: of elements, which share names with a pair of tensors, or of results.
pub(crate) fn column_meaning(name: &str) -> Option<&'static str> {
    let element = ELEMENT.iter().find(|(field, _)| *field == name).map(|(_, meaning)| *meaning);
    element.or_else(|| meaning(name))
}

/// The meaning of a field of either result.
pub fn meaning(name: &str) -> Option<&'static str> {
    STATS.iter().chain(&DIFF).find(|(field, _)| *field == name).map(|(_, meaning)| *meaning)
}
