//! Files, git, processes and terminals of the pod
