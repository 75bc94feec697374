//! Other people's model servers as processes.
