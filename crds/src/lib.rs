//! The Conversation and WarmPool resources, and the YAML made from them
