//! Many calls at once lose nothing of their streams.

use std::time::Duration;

use futures::future::join_all;
use openhands_testkit::{ScriptedModel, Turn};
use tokio_util::sync::CancellationToken;

use super::{answers::asked, cases};
use crate::{Delta, client_for};

/// Two descriptors each, and the customary limit is 1,024.
const CALLS: usize = 400;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_at_once_lose_no_piece() {
    let text: String = (0..60).map(|word| format!("word{word} ")).collect();
    for case in [cases::chat(), cases::anthropic()] {
        let turns = (0..CALLS).map(|_| Turn::text(&text).pieces(400, Duration::from_millis(5)));
        let model = ScriptedModel::start(turns).await;
        let client = client_for(&case.config(&model), &Default::default()).unwrap();
        let (request, cancel) = (asked(), CancellationToken::new());
        let calls = (0..CALLS).map(|_| async {
            let mut said = String::new();
            let mut pieces = 0usize;
            let mut sink = |delta| {
                if let Delta::Text(text) = delta {
                    said.push_str(&text);
                    pieces += 1;
                }
            };
            let response = client.complete(&request, Some(&mut sink), &cancel).await.unwrap();
            assert_eq!((said.as_str(), response.message.joined_text().as_str()), (text.as_str(), text.as_str()));
            pieces
        });
        let pieces: usize = join_all(calls).await.into_iter().sum();
        assert!(pieces > CALLS * 50, "{pieces} pieces");
        assert_eq!(model.requests().len(), CALLS, "no call was made twice");
    }
}
