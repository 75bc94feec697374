//! Ids of traces and spans. A conversation's spans are one trace, also over restarts: its id is the trace's id, unless a caller
//! brought a trace of its own.

use std::cell::Cell;

use opentelemetry::trace::{SpanId, TraceId};
use opentelemetry_sdk::trace::{IdGenerator, RandomIdGenerator};

thread_local! {
    /// The id of the next trace that is begun on this thread.
    static NEXT: Cell<Option<TraceId>> = const { Cell::new(None) };
}

/// Random ids, but for traces whose id was chosen.
#[derive(Debug, Default)]
pub(super) struct Ids(RandomIdGenerator);

impl IdGenerator for Ids {
    fn new_trace_id(&self) -> TraceId {
        NEXT.take().unwrap_or_else(|| self.0.new_trace_id())
    }

    fn new_span_id(&self) -> SpanId {
        self.0.new_span_id()
    }
}

/// Begins spans so that a new trace gets this id.
pub(super) fn with_trace<T>(id: TraceId, begin: impl FnOnce() -> T) -> T {
    NEXT.set(Some(id));
    let begun = begin();
    NEXT.set(None);
    begun
}
