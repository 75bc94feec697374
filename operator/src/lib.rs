//! Makes pods, claims and status follow the resources
