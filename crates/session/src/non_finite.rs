//! Where NaN and infinities come from, by operation.

use ulpscope_dump::parse_key;
use ulpscope_tensor::DType;

use crate::instruction::Hazard;

/// What to look for in the inputs of a call that produced them, in the dtype of its result.
pub(super) fn hazard(call: &str, dtype: &str, in_backward: bool) -> Hazard {
    let operation = operation(call);
    match (operation.as_str(), in_backward) {
        (
            "log" | "log2" | "log10" | "sqrt" | "rsqrt" | "norm" | "pow" | "div" | "truediv" | "reciprocal",
            true,
        ) => Hazard::GradientDivides(operation),
        ("log" | "log2" | "log10", false) => Hazard::Logarithm,
        ("log1p", false) => Hazard::Log1p,
        ("sqrt", false) => Hazard::Root,
        ("rsqrt", false) => Hazard::ReciprocalRoot,
        ("div" | "truediv" | "reciprocal" | "addcdiv" | "rdiv" | "rtruediv", false) => Hazard::Division,
        ("exp2", false) => exponential(operation, dtype, f64::log2),
        ("exp" | "expm1" | "cosh" | "sinh", false) => exponential(operation, dtype, f64::ln),
        ("pow" | "float_power" | "rpow", false) => Hazard::Power,
        ("acos" | "asin" | "arccos" | "arcsin" | "atanh", false) => Hazard::OutsideUnit(operation),
        ("softmax" | "log_softmax" | "scaled_dot_product_attention", _) => Hazard::MaskedRow,
        ("std" | "var" | "std_mean" | "var_mean" | "mean" | "nanmean", _) => {
            Hazard::TooFewElements(operation)
        }
        ("layer_norm" | "batch_norm" | "group_norm" | "rms_norm" | "instance_norm" | "normalize", _) => {
            Hazard::ZeroVariance { largest: largest(dtype) }
        }
        ("cross_entropy" | "nll_loss" | "binary_cross_entropy" | "kl_div", _) => Hazard::ZeroProbability,
        // For other operations we only assume that they add and multiply.
        _ => Hazard::LargeValues { dtype: dtype.to_owned(), largest: largest(dtype), in_backward },
    }
}

/// An operation that overflows from the logarithm of the largest value on.
fn exponential(operation: String, dtype: &str, logarithm: fn(f64) -> f64) -> Hazard {
    let limit = max(dtype).map(|max| format!("{dtype}: {}", (logarithm(max) * 10.0).round() / 10.0));
    Hazard::Exponential { operation, limit }
}

/// The largest value of a dtype, as people know it: 65504, 3.4e38.
fn largest(dtype: &str) -> Option<String> {
    max(dtype).map(|max| if max < 1e6 { max.to_string() } else { format!("{max:.1e}") })
}

/// The largest finite value of a dtype by its name in a dump, unless its values are exact or the name is unknown.
fn max(dtype: &str) -> Option<f64> {
    let dtype: DType = dtype.parse().ok()?;
    dtype.float_limits().map(|limits| limits.max)
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
    fn the_hazard_fits_the_operation() {
        let exponential =
            || Hazard::Exponential { operation: "exp".to_owned(), limit: Some("float32: 88.7".to_owned()) };
        let large = || Hazard::LargeValues {
            dtype: "float32".to_owned(),
            largest: Some("3.4e38".to_owned()),
            in_backward: false,
        };
        for (call, in_backward, expected) in [
            ("Torch.log.0.forward", false, Hazard::Logarithm),
            ("Tensor.log_.3.forward", false, Hazard::Logarithm),
            ("Tensor.__truediv__.1.forward", false, Hazard::Division),
            ("Tensor.__itruediv__.1.forward", false, Hazard::Division),
            ("Torch.exp.0.forward", false, exponential()),
            ("Tensor.sqrt.0.forward", false, Hazard::Root),
            ("Tensor.sqrt.0.backward", true, Hazard::GradientDivides("sqrt".to_owned())),
            ("Functional.softmax.0.forward", false, Hazard::MaskedRow),
            ("Functional.linear.0.forward", false, large()),
        ] {
            assert_eq!(hazard(call, "float32", in_backward), expected, "{call}");
        }
    }

    #[test]
    fn limits_are_those_of_the_dtype() {
        for (dtype, argument, argument_of_two, value) in [
            ("float16", "11.1", "16", "65504"),
            ("bfloat16", "88.7", "128", "3.4e38"),
            ("torch.float32", "88.7", "128", "3.4e38"),
            ("float64", "709.8", "1024", "1.8e308"),
            ("float8_e4m3fn", "6.1", "8.8", "448"),
        ] {
            let limit = |operation: &str| match hazard(&format!("Torch.{operation}.0.forward"), dtype, false)
            {
                Hazard::Exponential { limit, .. } => limit,
                other => panic!("{other:?}"),
            };
            assert_eq!(limit("exp"), Some(format!("{dtype}: {argument}")));
            assert_eq!(limit("exp2"), Some(format!("{dtype}: {argument_of_two}")));
            assert_eq!(largest(dtype).as_deref(), Some(value), "{dtype}");
        }
        assert_eq!((largest("int32"), largest("")), (None, None));
    }
}
