//! A scripted model over HTTP, builders and redactions for tests
