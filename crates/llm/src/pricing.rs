//! What a call cost (F1-LLM-23): by the configuration's prices, else what the provider says, else nothing.

use openhands_protocol::{LlmConfig, metrics::TokenUsage};

/// US dollars. `reported` is the provider's own figure.
#[expect(clippy::cast_precision_loss, reason = "token counts stay far below 2^52")]
pub(crate) fn cost(config: &LlmConfig, usage: &TokenUsage, reported: Option<f64>) -> f64 {
    let configured = match (config.input_cost_per_token, config.output_cost_per_token) {
        (None, None) => None,
        (input, output) => Some(
            input.unwrap_or(0.0) * usage.prompt_tokens as f64 + output.unwrap_or(0.0) * usage.completion_tokens as f64,
        ),
    };
    configured.or(reported).filter(|cost| cost.is_finite() && *cost >= 0.0).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_comes_first() {
        let usage = TokenUsage { prompt_tokens: 100, completion_tokens: 10, ..TokenUsage::default() };
        let mut config = LlmConfig::default();
        let near = |cost: f64, expected: f64| assert!((cost - expected).abs() < 1e-12, "{cost}");
        near(cost(&config, &usage, None), 0.0);
        near(cost(&config, &usage, Some(0.5)), 0.5);
        near(cost(&config, &usage, Some(-1.0)), 0.0);
        near(cost(&config, &usage, Some(f64::NAN)), 0.0);
        config.input_cost_per_token = Some(0.001);
        near(cost(&config, &usage, Some(0.5)), 0.1);
        config.output_cost_per_token = Some(0.01);
        near(cost(&config, &usage, None), 0.2);
    }
}
