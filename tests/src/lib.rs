//! Whole-system checks.
