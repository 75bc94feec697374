//! Real files.

use std::{fs, os::unix::fs::PermissionsExt as _};

use tokio_util::sync::CancellationToken;

use super::*;
use crate::file::LARGEST_FILE;

struct Bench {
    directory: tempfile::TempDir,
    tool: FileEditorTool,
}

impl Bench {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let tool = FileEditorTool::new(directory.path(), true);
        Self { directory, tool }
    }

    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        fs::write(self.directory.path().join(name), bytes).unwrap();
        self.path(name)
    }

    fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.directory.path().join(name)).unwrap()
    }

    async fn call(&self, arguments: Value) -> Value {
        let context = ToolContext {
            working_dir: self.directory.path().to_owned(),
            observations_dir: None,
            environment: std::collections::BTreeMap::default(),
            cancel: CancellationToken::new(),
            secrets: Arc::new(crate::NoSecrets),
            models: None,
        };
        let action = self.tool.action(arguments).unwrap();
        self.tool.run(&action, &context).await.unwrap().body
    }

    async fn text(&self, arguments: Value) -> String {
        let body = self.call(arguments).await;
        assert_eq!(body["is_error"], false, "{body}");
        self.short(body["content"][0]["text"].as_str().unwrap())
    }

    async fn refusal(&self, arguments: Value) -> String {
        let body = self.call(arguments).await;
        assert_eq!(body["is_error"], true, "{body}");
        self.short(body["content"][0]["text"].as_str().unwrap())
    }

    fn short(&self, text: &str) -> String {
        text.replace(&self.directory.path().display().to_string(), "DIR")
    }
}

#[tokio::test]
async fn create_view_replace_insert_undo() {
    let bench = Bench::new();
    let path = bench.path("new/deep/hello.txt");
    let body = bench.call(json!({"command": "create", "path": path, "file_text": "one\ntwo\nthree\n"})).await;
    assert_eq!(
        body,
        json!({
            "content": [{"type": "text", "cache_prompt": false, "text": format!("{path} was created with 3 lines.")}],
            "is_error": false, "command": "create", "path": path, "prev_exist": false, "new_content": "one\ntwo\nthree\n",
            "kind": "FileEditorObservation"})
    );
    let view = json!({"command": "view", "path": path});
    assert_eq!(
        bench.text(view.clone()).await,
        "DIR/new/deep/hello.txt (3 lines):\n     1\tone\n     2\ttwo\n     3\tthree\n"
    );
    let body = bench.call(json!({"command": "str_replace", "path": path, "old_str": "two", "new_str": "TWO"})).await;
    assert_eq!(
        (&body["old_content"], &body["new_content"]),
        (&json!("one\ntwo\nthree\n"), &json!("one\nTWO\nthree\n"))
    );
    assert_eq!(body["prev_exist"], true);
    assert_eq!(
        bench.short(body["content"][0]["text"].as_str().unwrap()),
        "DIR/new/deep/hello.txt was edited. Around the change it now reads:\n     1\tone\n     2\tTWO\n     3\tthree\nCheck that this is what you meant."
    );
    bench.text(json!({"command": "insert", "path": path, "insert_line": 0, "new_str": "zero"})).await;
    bench.text(json!({"command": "insert", "path": path, "insert_line": 4, "new_str": "four\nfive\n"})).await;
    assert_eq!(bench.read("new/deep/hello.txt"), b"zero\none\nTWO\nthree\nfour\nfive\n");
    for expected in ["zero\none\nTWO\nthree\n", "one\nTWO\nthree\n", "one\ntwo\nthree\n"] {
        let body = bench.call(json!({"command": "undo_edit", "path": path})).await;
        assert_eq!(body["new_content"], expected);
        assert_eq!(bench.read("new/deep/hello.txt"), expected.as_bytes());
    }
    assert_eq!(
        bench.refusal(json!({"command": "undo_edit", "path": path})).await,
        "there is no edit of DIR/new/deep/hello.txt to take back"
    );
}

#[tokio::test]
async fn refusals_say_what_to_do() {
    let bench = Bench::new();
    let path = bench.write("a.py", "def f():\n    return 1\n\ndef g():\n    return 1\n");
    let replace =
        |old: &str, new: &str| json!({"command": "str_replace", "path": path, "old_str": old, "new_str": new});
    let cases = [
        (
            replace("    return 1", "x"),
            "`old_str` is in DIR/a.py 2 times, at lines 2, 5; add neighbouring lines to make it unique",
        ),
        (
            replace("def f():\n  return 1", "x"),
            "`old_str` is not in DIR/a.py; line 1 and what follows differ from it in white space only; view the file and copy the text exactly",
        ),
        (
            replace("def f():\n    return 2", "x"),
            "`old_str` is not in DIR/a.py; its first line is at line 1, but the rest differs; view the file and copy the text exactly",
        ),
        (replace("nowhere", "x"), "`old_str` is not in DIR/a.py; view the file and copy the text exactly"),
        (replace("", "x"), "`old_str` is empty; add text with `insert`"),
        (replace("def", "def"), "`old_str` and `new_str` are the same, so nothing would change"),
        (json!({"command": "str_replace", "path": path}), "`old_str` is missing; `str_replace` needs it"),
        (
            json!({"command": "create", "path": path, "file_text": ""}),
            "DIR/a.py exists already and `create` never overwrites; change it with `str_replace` or `insert`",
        ),
        (
            json!({"command": "insert", "path": path, "insert_line": 6, "new_str": "x"}),
            "`insert_line` is 6, but DIR/a.py has 5 lines",
        ),
        (
            json!({"command": "view", "path": path, "view_range": [6, 7]}),
            "`view_range` begins at line 6, but the file has 5 lines",
        ),
        (
            json!({"command": "view", "path": path, "view_range": [3, 2]}),
            "`view_range` ends at line 2, before its beginning 3; -1 is the end of the file",
        ),
        (
            json!({"command": "view", "path": path, "view_range": [1]}),
            "`view_range` [1] must have two numbers, the first and the last line",
        ),
        (json!({"command": "view", "path": bench.path("A.PY")}), "DIR/A.PY does not exist; did you mean DIR/a.py?"),
        (
            json!({"command": "view", "path": bench.path("no/x")}),
            "DIR/no/x does not exist; there is no directory DIR/no",
        ),
        (
            json!({"command": "view", "path": "a.py"}),
            "`path` a.py is not absolute (it must begin with /); did you mean DIR/a.py?",
        ),
        (
            json!({"command": "insert", "path": bench.path(""), "insert_line": 0, "new_str": "x"}),
            "DIR/ is a directory; only `view` works on directories",
        ),
    ];
    for (arguments, expected) in cases {
        assert_eq!(bench.refusal(arguments.clone()).await, expected, "{arguments}");
    }
    let wrong = bench.tool.action(json!({"command": "delete", "path": path})).unwrap_err().0;
    assert!(wrong.contains("unknown variant `delete`"), "{wrong}");
    assert!(bench.tool.action(json!({"command": "insert", "path": path, "insert_line": -1})).is_err());
}

#[tokio::test]
async fn line_ends_encodings_and_modes_stay() {
    let bench = Bench::new();
    let path = bench.write("dos.txt", "eins\r\nzwei\r\ndrei\r\n");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o751)).unwrap();
    bench.text(json!({"command": "str_replace", "path": path, "old_str": "eins\nzwei\n", "new_str": "1\n2\n"})).await;
    bench.text(json!({"command": "insert", "path": path, "insert_line": 3, "new_str": "vier\nfünf"})).await;
    assert_eq!(bench.read("dos.txt"), "1\r\n2\r\ndrei\r\nvier\r\nfünf\r\n".as_bytes());
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o751);
    assert_eq!(
        bench.text(json!({"command": "view", "path": path, "view_range": [4, 9]})).await,
        "DIR/dos.txt, lines 4 to 5 (the file has 5 lines):\n     4\tvier\n     5\tfünf\n"
    );

    let path = bench.write("latin.txt", b"Gr\xfc\xdfe aus M\xfcnchen, sch\xf6ne Tage\n");
    bench.text(json!({"command": "str_replace", "path": path, "old_str": "München", "new_str": "Köln"})).await;
    assert_eq!(bench.read("latin.txt"), b"Gr\xfc\xdfe aus K\xf6ln, sch\xf6ne Tage\n");
    let answer = bench.text(json!({"command": "str_replace", "path": path, "old_str": "Köln", "new_str": "→"})).await;
    assert!(answer.contains("It is UTF-8 now"), "{answer}");
    assert_eq!(bench.read("latin.txt"), "Grüße aus →, schöne Tage\n".as_bytes());

    let path = bench.write("mixed.txt", "a\nb\r\nc\n");
    bench.text(json!({"command": "str_replace", "path": path, "old_str": "b\nc", "new_str": "B\nC"})).await;
    assert_eq!(bench.read("mixed.txt"), b"a\nB\r\nC\n");

    let path = bench.write("noend.txt", "a");
    bench.text(json!({"command": "insert", "path": path, "insert_line": 1, "new_str": "b"})).await;
    assert_eq!(bench.read("noend.txt"), b"a\nb\n");
    let path = bench.write("edges.txt", "a\nb\nc\n");
    bench.text(json!({"command": "str_replace", "path": path, "old_str": "\n\nb\n\n", "new_str": "\n\nB\n\n"})).await;
    assert_eq!(bench.read("edges.txt"), b"a\nB\nc\n");
    let path = bench.write("all.txt", "x\n");
    bench.text(json!({"command": "str_replace", "path": path, "old_str": "x\n"})).await;
    assert_eq!(bench.read("all.txt"), b"");
}

#[tokio::test]
async fn links_are_followed_and_nothing_is_left_behind() {
    let bench = Bench::new();
    bench.write("target", "old\n");
    let link = bench.path("link");
    std::os::unix::fs::symlink("target", &link).unwrap();
    bench.text(json!({"command": "str_replace", "path": link, "old_str": "old", "new_str": "new"})).await;
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(bench.read("target"), b"new\n");
    let dangling = bench.path("dangling");
    std::os::unix::fs::symlink("nowhere", &dangling).unwrap();
    let refusal = bench.refusal(json!({"command": "create", "path": dangling, "file_text": "x"})).await;
    assert!(refusal.contains("exists already"), "{refusal}");
    let mut names: Vec<_> =
        fs::read_dir(bench.directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["dangling", "link", "target"]);
}

#[tokio::test]
async fn a_foreign_change_is_named_when_undone() {
    let bench = Bench::new();
    let path = bench.write("f", "a\n");
    bench.text(json!({"command": "str_replace", "path": path, "old_str": "a", "new_str": "b"})).await;
    bench.write("f", "formatted\n");
    let answer = bench.text(json!({"command": "undo_edit", "path": path})).await;
    assert!(answer.contains("changed by something else"), "{answer}");
    assert_eq!(bench.read("f"), b"a\n");
}

#[tokio::test]
async fn directories_images_binaries_and_special_files() {
    let bench = Bench::new();
    for name in ["src/deep", ".git", "empty"] {
        fs::create_dir_all(bench.directory.path().join(name)).unwrap();
    }
    bench.write("src/main.rs", "");
    bench.write("src/deep/x", "");
    bench.write("a.txt", "");
    let listing = bench.text(json!({"command": "view", "path": bench.directory.path()})).await;
    assert_eq!(
        listing,
        "Two levels of DIR:\nDIR/\nDIR/a.txt\nDIR/empty/\nDIR/src/\nDIR/src/deep/\nDIR/src/main.rs\n1 hidden entries of DIR are not shown (`ls -A` lists them).\n"
    );
    assert_eq!(bench.text(json!({"command": "view", "path": bench.path("a.txt")})).await, "DIR/a.txt is empty.\n");

    let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0";
    let body = bench.call(json!({"command": "view", "path": bench.write("dot.PNG", png)})).await;
    let url = body["content"][1]["image_urls"][0].as_str().unwrap();
    assert!(url.starts_with("data:image/png;base64,iVBORw0KGgo"), "{body}");
    let refusal = bench.refusal(json!({"command": "view", "path": bench.write("no.png", "text")})).await;
    assert_eq!(refusal, "DIR/no.png is called an image but its content is none");

    let refusal = bench
        .refusal(
            json!({"command": "view", "path": bench.write("data", b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0")}),
        )
        .await;
    assert!(refusal.contains("binary file"), "{refusal}");
    assert_eq!(bench.refusal(json!({"command": "view", "path": "/dev/zero"})).await, "/dev/zero is no regular file");
    let large = bench.path("large");
    fs::File::create(&large).unwrap().set_len(LARGEST_FILE + 1).unwrap();
    assert!(bench.refusal(json!({"command": "view", "path": large})).await.contains("more than the 10 MiB"));
    let version = bench.text(json!({"command": "view", "path": "/proc/version"})).await;
    assert!(version.contains("Linux"), "{version}");
}

#[tokio::test]
async fn changes_at_the_same_time_are_all_made() {
    let bench = Arc::new(Bench::new());
    let path = bench.write("f", (0..50).map(|n| format!("<{n}>\n")).collect::<String>());
    let tasks: Vec<_> = (0..50)
        .map(|n| {
            let (bench, path) = (Arc::clone(&bench), path.clone());
            tokio::spawn(async move {
                bench.text(json!({"command": "str_replace", "path": path, "old_str": format!("<{n}>"), "new_str": format!("[{n}]")})).await
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(bench.read("f"), (0..50).map(|n| format!("[{n}]\n")).collect::<String>().into_bytes());
}

#[tokio::test]
async fn other_names_and_large_contents() {
    let bench = Bench::new();
    let path = bench.write("one", "a\n");
    fs::hard_link(&path, bench.path("two")).unwrap();
    bench.text(json!({"command": "str_replace", "path": path, "old_str": "a", "new_str": "b"})).await;
    assert_eq!(bench.read("two"), b"b\n");
    let large = bench.write("large", format!("start\n{}", "x\n".repeat(LARGEST_CONTENT)));
    let body =
        bench.call(json!({"command": "str_replace", "path": large, "old_str": "start", "new_str": "begin"})).await;
    assert_eq!(
        (&body["is_error"], body["old_content"].is_null(), body["new_content"].is_null()),
        (&json!(false), true, true)
    );
    assert!(bench.read("large").starts_with(b"begin\nx\n"));
    let text = bench.text(json!({"command": "view", "path": large})).await;
    assert!(text.chars().count() < 16_500, "{}", text.chars().count());
}
