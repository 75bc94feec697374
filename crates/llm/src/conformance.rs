//! What every provider's adapter must do, on real sockets: one set of tests, run for each. `docs/models.md` names them.

mod answers;
mod cases;
mod histories;
mod many;
mod noise;
mod reference;
mod switching;
mod validity;

macro_rules! provider {
    ($name:ident) => {
        mod $name {
            use crate::conformance::{answers, cases, histories};

            #[tokio::test]
            async fn answers_with_parallel_calls() {
                answers::whole(&cases::$name()).await;
            }

            #[tokio::test]
            async fn counts_tokens() {
                answers::counts(&cases::$name()).await;
            }

            #[tokio::test]
            async fn streams_the_same_answer() {
                answers::streamed(&cases::$name()).await;
            }

            #[test]
            fn streams_the_same_wherever_it_is_split() {
                answers::split_anywhere(&cases::$name());
            }

            #[tokio::test]
            async fn breaks_are_taken_back() {
                answers::broken(&cases::$name()).await;
            }

            #[tokio::test]
            async fn keeps_reasoning_across_turns() {
                answers::replayed(&cases::$name()).await;
            }

            #[tokio::test]
            async fn sends_images() {
                answers::images(&cases::$name()).await;
            }

            #[tokio::test]
            async fn marks_prefixes_for_the_cache() {
                answers::marked(&cases::$name()).await;
            }

            #[tokio::test]
            async fn names_refusals() {
                answers::refused(&cases::$name()).await;
            }

            #[test]
            fn every_history_is_a_valid_request() {
                histories::any_is_valid(&cases::$name());
            }
        }
    };
}

provider!(chat);
provider!(proxied_claude);
provider!(azure);
provider!(responses);
provider!(anthropic);
provider!(gemini);
provider!(bedrock);
