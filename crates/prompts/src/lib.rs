//! Prompt templates and the context they are rendered with
