//! Where NaN and infinities come from, by operation: what to look for in the arguments.

use ulpscope_dump::parse_key;

/// What to look for in the arguments of a call that made them, in the dtype of its result.
pub(super) fn advice(call: &str, dtype: &str, in_backward: bool) -> String {
    let operation = operation(call);
    let end = largest(dtype);
    match (operation.as_str(), in_backward) {
        ("log" | "log2" | "log10" | "sqrt" | "rsqrt" | "norm" | "pow" | "div" | "truediv" | "reciprocal", true) => {
            format!(
                "The gradient of {operation} divides by its argument, or by what it gave: look for zeros there, and for what \
                 is nearly zero. A gradient that is infinite becomes NaN where it is multiplied by 0."
            )
        }
        ("log" | "log2" | "log10", false) => "A logarithm is NaN below 0, and minus infinity at 0: look for an argument that \
             is 0 or less, and keep it away from 0 (clamp, or add a small number)."
            .to_owned(),
        ("log1p", false) => "log1p is NaN below -1, and minus infinity at -1: look for such an argument.".to_owned(),
        ("sqrt", false) => "A root is NaN below 0: look for a negative argument, such as a variance that rounding took below 0."
            .to_owned(),
        ("rsqrt", false) => "rsqrt is infinite at 0 and NaN below: look for an argument that is 0 or less, and for a missing eps."
            .to_owned(),
        ("div" | "truediv" | "reciprocal" | "addcdiv" | "rdiv" | "rtruediv", false) => {
            "Look for a divisor that is 0: 0 by 0 is NaN, anything else by 0 infinite. A small number added to it, or a mask, \
             keeps it away from 0."
                .to_owned()
        }
        ("exp" | "exp2" | "expm1" | "cosh" | "sinh", false) => {
            let from = match (operation.as_str(), dtype) {
                ("exp2", "float16") => " (float16: 16)",
                ("exp2", _) => " (float32 and bfloat16: 128)",
                (_, "float16") => " (float16: 11.1)",
                (_, "float64") => " (float64: 709)",
                _ => " (float32 and bfloat16: 88.7)",
            };
            format!(
                "{operation} overflows from a certain argument on{from}: look for a larger one. Subtracting the largest \
                 first, as softmax does, avoids it."
            )
        }
        ("pow" | "float_power" | "rpow", false) => {
            "A negative number to a power that is not whole is NaN, 0 to a negative power infinite: look for an argument \
             that is 0 or less, or for one so large that its power overflows."
                .to_owned()
        }
        ("acos" | "asin" | "arccos" | "arcsin" | "atanh", false) => {
            format!("{operation} is NaN outside -1 to 1: look for an argument that rounding took beyond.")
        }
        ("softmax" | "log_softmax" | "scaled_dot_product_attention", _) => {
            "Look for a row that is masked altogether: with nothing but -inf in it, its softmax is NaN.".to_owned()
        }
        ("std" | "var" | "std_mean" | "var_mean" | "mean" | "nanmean", _) => {
            format!("Look whether {operation} is taken over nothing, or over one element.")
        }
        ("layer_norm" | "batch_norm" | "group_norm" | "rms_norm" | "instance_norm" | "normalize", _) => format!(
            "Look for a variance or norm of 0 with an eps of 0 (or one too small for the dtype), and for arguments whose square \
             overflows.{end}"
        ),
        ("cross_entropy" | "nll_loss" | "binary_cross_entropy" | "kl_div", _) => {
            "Look for a probability of 0 under the logarithm, and for a batch whose labels are all ignored: its mean is 0 by 0."
                .to_owned()
        }
        _ => general(dtype, in_backward, end),
    }
}

/// Where nothing is known of the operation but that it adds and multiplies.
fn general(dtype: &str, in_backward: bool, end: &str) -> String {
    let remedy = match (dtype, in_backward) {
        ("float16", true) => "If they are, use a smaller loss scale, or run this call in float32.",
        ("float16", false) => "If they are, run this call in float32 or bfloat16, or scale its input down.",
        _ => {
            "If they are not, look for a division by zero, or a root or logarithm of what is not positive, inside it."
        }
    };
    format!("Look whether the largest values of its arguments are near the end of the dtype.{end} {remedy}")
}

fn largest(dtype: &str) -> &'static str {
    match dtype {
        "float16" => " float16 ends at 65504.",
        "bfloat16" => " bfloat16 ends near 3.4e38.",
        "float32" => " float32 ends near 3.4e38.",
        _ => "",
    }
}

/// `truediv` for `Tensor.__truediv__.3.forward`, `log` for `Tensor.log_.0.forward`.
fn operation(call: &str) -> String {
    let (base, _, _) = parse_key(call);
    let last = base.rsplit('.').next().unwrap_or(base);
    match last.trim_matches('_') {
        "itruediv" => "truediv".to_owned(),
        plain => plain.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_fits_the_operation() {
        for (call, in_backward, told) in [
            ("Torch.log.0.forward", false, "0 or less"),
            ("Tensor.log_.3.forward", false, "0 or less"),
            ("Tensor.__truediv__.1.forward", false, "divisor that is 0"),
            ("Tensor.__itruediv__.1.forward", false, "divisor that is 0"),
            ("Torch.exp.0.forward", false, "float32 and bfloat16: 88.7"),
            ("Tensor.sqrt.0.forward", false, "negative argument"),
            ("Tensor.sqrt.0.backward", true, "divides by its argument"),
            ("Functional.softmax.0.forward", false, "masked altogether"),
            ("Functional.linear.0.forward", false, "float32 ends near 3.4e38"),
        ] {
            let advice = advice(call, "float32", in_backward);
            assert!(advice.contains(told), "{call}: {advice}");
        }
    }
}
