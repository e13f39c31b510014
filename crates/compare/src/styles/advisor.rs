//! The advice of ptdbg_ascend and msprobe 1: three fields about the first failing row.
//!
//! Scripts read these texts, so they match the tools' exactly. They depend on substrings of the row's name alone. If a
//! tool's constants no longer fit its names (`Functional_batch_norm`, after names got dots), the advice is never given
//! here either.

/// The text if nothing fails.
const ALL_WELL: &str = "All data in comparison result meets the accuracy requirements.";

const FORWARD_INPUT: &str = "1. Analyze the model to view the input source.\n\
    2. Check whether an inplace API causes the output result to overwrite the input result. \
    That is, the fault is actually caused by a computation error.\n\
    3. The fault may be caused by memory corruption and further analysis is required.";

const FORWARD_OUTPUT: &str = "This is a forward API computation error. Check the computation implementation.";

const BACKWARD_INPUT: &str = "Check whether the forward computation result is affected.";

const BACKWARD_OUTPUT: &str =
    "This is a backward API computation error. Check the computation implementation.";

const NONDETERMINISTIC: &str = "This torch api may be uncertainty in the calculation, \
    can seed_all(mode=True) to enable deterministic computing.";

const BATCH_NORM: &str = "Torch API batch_norm input not fixed, the following suggestions may fix it:\n\
    1. If use torch.nn.functional.batch_norm, you can set parameter training=False.\n\
    2. If use torch.nn.BatchNormXXX, you can set parameter affine=False.\n\
    3. Use seed_all(mode=True) to enable deterministic computing.";

/// Results of these may differ from run to run.
const NONDETERMINISTIC_APIS: [&str; 6] = ["conv2d", "conv3d", "matmul", "nll_loss", "layer_norm", "lstm"];

/// The text of an `advisor_{timestamp}.txt`, given the line and the name of the first failing row. The tools count
/// lines in two ways: ptdbg_ascend before 6.0 as an editor does, the header being line 1; later ones from 0 at the
/// first row.
pub(crate) fn advise(first_failing: Option<(u64, &str)>) -> String {
    let (line, node, advice) = match first_failing {
        None => ("NA".to_owned(), "NA", ALL_WELL),
        Some((line, name)) => (line.to_string(), name, advice(name)),
    };
    format!("Line: {line}\nSuspect Nodes: {node}\nExpert Advice: {advice}\n")
}

fn advice(name: &str) -> &'static str {
    if name.contains("Functional_batch_norm") && name.contains("forward_input.1") {
        return BATCH_NORM;
    }
    let (input, output) = if name.contains("forward") {
        (FORWARD_INPUT, FORWARD_OUTPUT)
    } else {
        (BACKWARD_INPUT, BACKWARD_OUTPUT)
    };
    if name.contains("input") {
        return input;
    }
    if NONDETERMINISTIC_APIS.iter().any(|api| name.contains(api)) { NONDETERMINISTIC } else { output }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn advice_for(name: &str) -> String {
        advise(Some((60, name)))
    }

    #[test]
    fn nothing_failing_is_said_so() {
        assert_eq!(
            advise(None),
            "Line: NA\nSuspect Nodes: NA\n\
             Expert Advice: All data in comparison result meets the accuracy requirements.\n"
        );
    }

    #[test]
    fn the_kind_of_row_decides() {
        assert_eq!(
            advice_for("Functional.layer_norm.0.forward.output"),
            "Line: 60\nSuspect Nodes: Functional.layer_norm.0.forward.output\nExpert Advice: This torch api may be \
             uncertainty in the calculation, can seed_all(mode=True) to enable deterministic computing.\n"
        );
        assert!(advice_for("Torch_add_0_forward_output").contains("a forward API computation error"));
        assert!(advice_for("Torch_add_0_backward_output.0").contains("a backward API computation error"));
        assert!(advice_for("Torch_matmul_0_backward_input.0").ends_with("result is affected.\n"));
        let lines = advice_for("Torch_matmul_0_forward_input.0");
        assert_eq!(lines.lines().count(), 5, "{lines}");
        assert!(
            lines.contains(
                "\n2. Check whether an inplace API causes the output result to overwrite the input"
            )
        );
    }

    #[test]
    fn batch_norm_has_advice_of_its_own_where_names_have_underscores() {
        let advice = advice_for("Functional_batch_norm_0_forward_input.1");
        assert!(advice.contains("Torch API batch_norm input not fixed"), "{advice}");
        assert!(
            !advice_for("Functional.batch_norm.0.forward.input.1").contains("batch_norm input not fixed")
        );
    }
}
