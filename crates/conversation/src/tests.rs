//! Tests of whole conversations.
