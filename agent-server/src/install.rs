//! Copies this very program to a path: how an image that holds nothing else hands the server to a pod of any image.

use std::{
    fs,
    io::{self, Error},
    os::unix::fs::PermissionsExt,
    path::Path,
};

/// Copies the running program to `target`, executable for everybody. A reader never sees half of it.
///
/// # Errors
/// When the folder of `target` does not exist or cannot be written.
pub fn install(target: &Path) -> io::Result<()> {
    let named = |error: Error| Error::new(error.kind(), format!("install to {}: {error}", target.display()));
    let mut part = target.as_os_str().to_owned();
    part.push(".part");
    fs::copy("/proc/self/exe", &part).map_err(named)?;
    fs::set_permissions(&part, fs::Permissions::from_mode(0o555)).map_err(named)?;
    fs::rename(&part, target).map_err(named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_copy_is_the_program_and_can_be_run() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("server");
        install(&target).unwrap();
        assert_eq!(fs::read(&target).unwrap(), fs::read("/proc/self/exe").unwrap());
        assert_eq!(fs::metadata(&target).unwrap().permissions().mode() & 0o777, 0o555);
        let error = install(&dir.path().join("missing/server")).unwrap_err().to_string();
        assert!(error.contains("missing/server"), "{error}");
    }
}
