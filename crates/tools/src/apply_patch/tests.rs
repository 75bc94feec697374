//! Real files.

use std::{fs, os::unix::fs::PermissionsExt as _};

use tokio_util::sync::CancellationToken;

use super::*;

struct Bench {
    directory: tempfile::TempDir,
    tool: ApplyPatchTool,
}

impl Bench {
    fn new(files: &[(&str, &str)]) -> Self {
        let bench = Self { directory: tempfile::tempdir().unwrap(), tool: ApplyPatchTool::new() };
        fs::create_dir(bench.workspace()).unwrap();
        for (name, text) in files {
            fs::write(bench.workspace().join(name), text).unwrap();
        }
        bench
    }

    fn workspace(&self) -> std::path::PathBuf {
        self.directory.path().join("workspace")
    }

    async fn patch(&self, body: &str) -> Value {
        let patch = format!("*** Begin Patch\n{body}\n*** End Patch\n");
        let action = self.tool.action(json!({ "patch": patch })).unwrap();
        let context = ToolContext {
            working_dir: self.workspace(),
            observations_dir: None,
            environment: std::collections::BTreeMap::new(),
            cancel: CancellationToken::new(),
            secrets: Arc::new(crate::NoSecrets),
            models: None,
        };
        self.tool.run(&action, &context).await.unwrap().body
    }

    async fn refused(&self, body: &str) -> String {
        let before = self.files();
        let body = self.patch(body).await;
        assert_eq!(body["is_error"], true, "{body}");
        assert_eq!(self.files(), before, "a refused patch changes nothing");
        body["message"].as_str().unwrap().to_owned()
    }

    fn files(&self) -> Vec<(String, String)> {
        let entries = fs::read_dir(self.workspace()).unwrap().map(|entry| entry.unwrap().path());
        let mut files: Vec<(String, String)> = entries
            .filter(|path| path.is_file())
            .map(|path| {
                (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read_to_string(path).unwrap_or_default())
            })
            .collect();
        files.sort();
        files
    }
}

fn pairs(files: &[(&str, &str)]) -> Vec<(String, String)> {
    files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
}

#[tokio::test]
async fn a_patch_adds_updates_moves_and_deletes() {
    let bench = Bench::new(&[("a", "1\n2\n3\n"), ("b", "x\n"), ("c", "gone\n"), ("d", "same\n")]);
    fs::set_permissions(bench.workspace().join("b"), fs::Permissions::from_mode(0o755)).unwrap();
    let body = bench
        .patch(
            "*** Update File: a\n 1\n-2\n+two\n*** Update File: b\n*** Move to: sub/e\n-x\n+y\n*** Delete File: c\n\
             *** Add File: n\n+new\n*** Update File: d\n*** Move to: f",
        )
        .await;
    let told = "Done: a updated, b updated and moved to sub/e, c deleted, n added, d moved to f.";
    let expected = json!({
        "content": [{"type": "text", "cache_prompt": false, "text": told}],
        "is_error": false,
        "message": told,
        "fuzz": 0,
        "commit": {"changes": {
            "a": {"type": "update", "old_content": "1\n2\n3\n", "new_content": "1\ntwo\n3\n"},
            "b": {"type": "update", "old_content": "x\n", "new_content": "y\n", "move_path": "sub/e"},
            "c": {"type": "delete", "old_content": "gone\n"},
            "n": {"type": "add", "new_content": "new\n"},
            "d": {"type": "update", "old_content": "same\n", "new_content": "same\n", "move_path": "f"},
        }},
        "kind": "ApplyPatchObservation",
    });
    assert_eq!(body, expected);
    assert_eq!(bench.files(), pairs(&[("a", "1\ntwo\n3\n"), ("f", "same\n"), ("n", "new\n")]));
    let moved = bench.workspace().join("sub/e");
    assert_eq!(fs::read_to_string(&moved).unwrap(), "y\n");
    assert_eq!(moved.metadata().unwrap().permissions().mode() & 0o777, 0o755);
}

#[tokio::test]
async fn one_section_that_does_not_fit_stops_all() {
    let bench = Bench::new(&[("a", "1\n"), ("b", "2\n")]);
    assert!(
        bench.refused("*** Update File: a\n-1\n+x\n*** Update File: b\n-3\n+x").await.starts_with("b: these lines")
    );
    assert!(bench.refused("*** Add File: n\n+x\n*** Delete File: none").await.contains("no such file"));
    assert!(bench.refused("*** Add File: a\n+x").await.contains("exists already"));
    assert!(bench.refused("*** Update File: a\n*** Move to: b").await.contains("exists already"));
    assert!(bench.refused("*** Update File: a\n-1\n*** Delete File: ./a").await.contains("occurs twice"));
    assert!(bench.refused("*** Add File: n\n+x\n*** Update File: a\n*** Move to: n").await.contains("occurs twice"));
    assert!(bench.refused("*** Frobnicate").await.contains("outside of any file"));
}

#[tokio::test]
async fn patches_stay_in_the_workspace() {
    let bench = Bench::new(&[("a", "1\n")]);
    let secret = bench.directory.path().join("secret");
    fs::write(&secret, "s\n").unwrap();
    let workspace = bench.workspace();
    std::os::unix::fs::symlink(&secret, workspace.join("link")).unwrap();
    std::os::unix::fs::symlink(bench.directory.path(), workspace.join("up")).unwrap();
    std::os::unix::fs::symlink("nowhere", workspace.join("dangling")).unwrap();
    for path in
        ["../secret", "link", "up/secret", "sub/../../secret", &secret.display().to_string(), "up/workspace/../secret"]
    {
        let text = bench.refused(&format!("*** Update File: {path}\n-s\n+x")).await;
        assert!(text.contains("outside of the working directory"), "{path}: {text}");
    }
    for path in ["../new", "up/new", "/tmp/openhands-apply-patch-test/new", "."] {
        let text = bench.refused(&format!("*** Add File: {path}\n+x")).await;
        assert!(text.contains("outside of the working directory"), "{path}: {text}");
    }
    assert!(bench.refused("*** Add File: dangling\n+x").await.contains("link to nowhere"));
    assert!(bench.refused("*** Update File: a\n*** Move to: ../b\n-1\n+2").await.contains("outside"));
    assert_eq!(fs::read_to_string(secret).unwrap(), "s\n");
    let absolute = workspace.canonicalize().unwrap().join("a");
    let body = bench.patch(&format!("*** Update File: {}\n-1\n+2", absolute.display())).await;
    assert_eq!(body["is_error"], false);
    assert_eq!(fs::read_to_string(absolute).unwrap(), "2\n");
}

#[tokio::test]
async fn encodings_and_line_ends_stay() {
    let bench = Bench::new(&[("crlf", "a\r\nb\r\n")]);
    let latin = bench.workspace().join("latin");
    fs::write(&latin, b"Gr\xfc\xdfe aus M\xfcnchen\nzwei\n").unwrap();
    bench.patch("*** Update File: crlf\n-a\n+x\n*** Update File: latin\n-zwei\n+sch\u{f6}n").await;
    assert_eq!(fs::read(latin).unwrap(), b"Gr\xfc\xdfe aus M\xfcnchen\nsch\xf6n\n");
    assert_eq!(fs::read(bench.workspace().join("crlf")).unwrap(), b"x\r\nb\r\n");
}

#[test]
fn patches_have_a_limit() {
    let refused = ApplyPatchTool::new().action(json!({ "patch": "x".repeat(LARGEST_PATCH + 1) })).unwrap_err();
    assert_eq!(refused.0, "apply_patch: patch has more than 4 MiB; make several patches");
    assert!(ApplyPatchTool::new().action(json!({})).unwrap_err().0.contains("patch"));
}
