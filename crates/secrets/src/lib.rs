//! Registry, masking and cipher of secrets
