//! The bash, file and git routes and the bash socket, over the whole router with real processes, files and repositories.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking; the helpers of an integration test are not recognised as tests"
)]

use std::{path::Path, process::Command, sync::Arc, time::Duration};

use axum::{
    Router,
    body::Body,
    http::{HeaderMap, Request, StatusCode, header},
};
use bytes::Bytes;
use futures::{SinkExt as _, StreamExt as _};
use http_body_util::BodyExt as _;
use openhands_agent_server::{app::App, config::Config, router, server, state::AppState};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_tungstenite::tungstenite::Message;
use tokio_util::sync::{CancellationToken, DropGuard};
use tower::ServiceExt as _;

struct Server {
    directory: TempDir,
    state: AppState,
    router: Router,
}

struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {:?}", self.body))
    }

    fn problem(&self) -> (u16, Value) {
        (self.status.as_u16(), self.json()["detail"].clone())
    }

    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

impl Server {
    async fn start() -> Self {
        let directory = TempDir::new().unwrap();
        let config = Config {
            conversations_path: directory.path().join("conversations").display().to_string(),
            bash_events_dir: directory.path().join("bash_events").display().to_string(),
            ..Config::default()
        };
        let state = AppState::dormant(config.clone(), None);
        let app = App::set_up(config, [("GREETING".to_owned(), "hello".to_owned())].into()).await.unwrap();
        state.begin_init().unwrap().succeed(Arc::clone(&app));
        std::fs::create_dir(directory.path().join("work")).unwrap();
        Self { directory, router: router::build(state.clone()), state }
    }

    /// A path in the working directory of the test.
    fn path(&self, name: &str) -> String {
        self.directory.path().canonicalize().unwrap().join("work").join(name).display().to_string()
    }

    async fn send(&self, request: Request<Body>) -> Answer {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (status, headers) = (response.status(), response.headers().clone());
        Answer { status, headers, body: response.into_body().collect().await.unwrap().to_bytes() }
    }

    async fn get(&self, address: &str) -> Answer {
        self.send(Request::get(address).body(Body::empty()).unwrap()).await
    }

    async fn post(&self, address: &str, body: Value) -> Answer {
        self.send(Request::post(address).body(Body::from(body.to_string())).unwrap()).await
    }

    async fn upload(&self, path: &str, part: &str, file_name: Option<&str>, bytes: &[u8]) -> Answer {
        let file_name = file_name.map(|name| format!("; filename=\"{name}\"")).unwrap_or_default();
        let mut body =
            format!("--X\r\nContent-Disposition: form-data; name=\"{part}\"{file_name}\r\n\r\n").into_bytes();
        body.extend_from_slice(bytes);
        body.extend_from_slice(b"\r\n--X--\r\n");
        let request = Request::post(format!("/api/file/upload{path}"))
            .header(header::CONTENT_TYPE, "multipart/form-data; boundary=X")
            .body(Body::from(body));
        self.send(request.unwrap()).await
    }

    async fn execute(&self, command: &str) -> Value {
        let answer = self.post("/api/bash/execute_bash_command", json!({ "command": command })).await;
        assert_eq!(answer.status, StatusCode::OK);
        answer.json()
    }

    /// Listens on a free port until the guard is dropped.
    async fn listen(&self) -> (String, DropGuard) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("ws://{}", listener.local_addr().unwrap());
        let stop = CancellationToken::new();
        tokio::spawn(server::serve(listener, self.router.clone(), self.state.clone(), stop.clone()));
        (address, stop.drop_guard())
    }
}

fn missing(name: &str) -> Value {
    json!([{"type": "missing", "loc": ["query", name], "msg": "Field required", "input": null}])
}

fn git(directory: &str, arguments: &[&str]) {
    let status = Command::new("git")
        .args(["-c", "user.name=Ada", "-c", "user.email=ada@example.org"])
        .args(arguments)
        .current_dir(directory)
        .status()
        .unwrap();
    assert!(status.success(), "git {arguments:?}");
}

#[tokio::test]
async fn a_command_is_executed_and_its_events_are_found() {
    let server = Server::start().await;
    let output = server.execute("echo $GREETING; echo b >&2; exit 4").await;
    let members: Vec<&str> = output.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(members, ["id", "timestamp", "command_id", "order", "exit_code", "stdout", "stderr", "kind"]);
    assert_eq!(
        json!([output["kind"], output["order"], output["exit_code"], output["stdout"], output["stderr"]]),
        json!(["BashOutput", 0, 4, "hello\n", "b\n"])
    );
    let id = output["command_id"].as_str().unwrap();
    let command = server.get(&format!("/api/bash/bash_events/{id}")).await.json();
    assert_eq!(
        json!([command["kind"], command["id"], command["cwd"], command["timeout"]]),
        json!(["BashCommand", id, null, 300])
    );
    let page = server.get(&format!("/api/bash/bash_events/search?command_id__eq={id}")).await;
    assert_eq!(
        (page.header("content-type"), page.json()),
        ("application/json", json!({"items": [output], "next_page_id": null}))
    );
    let unknown = "5b130258d8324160b504e524900c9684";
    let batch =
        Request::get("/api/bash/bash_events/").body(Body::from(json!([id, unknown, "zz"]).to_string())).unwrap();
    assert_eq!(server.send(batch).await.json(), json!([command, null, null]));
    for id in [unknown, "zz"] {
        assert_eq!(server.get(&format!("/api/bash/bash_events/{id}")).await.problem(), (404, json!("Not Found")));
    }
    let cleared = server.send(Request::delete("/api/bash/bash_events").body(Body::empty()).unwrap()).await;
    assert_eq!(cleared.json(), json!({"cleared_count": 2}));
    assert_eq!(server.get("/api/bash/bash_events/search").await.json(), json!({"items": [], "next_page_id": null}));
}

#[tokio::test]
async fn a_command_is_polled_and_stopped_as_the_client_does_it() {
    let server = Server::start().await;
    let started = server
        .post("/api/bash/start_bash_command", json!({"command": "sleep 60; echo never", "timeout": 30}))
        .await
        .json();
    let id = started["id"].as_str().unwrap();
    let stop = format!("/api/bash/bash_commands/{id}/stop");
    assert_eq!(server.post(&stop, Value::Null).await.json(), json!({"success": true}));
    let address = format!(
        "/api/bash/bash_events/search?kind__eq=BashOutput&sort_order=TIMESTAMP_DESC&limit=1&command_id__eq={id}"
    );
    assert_eq!(server.get(&address).await.json()["items"][0]["exit_code"], -15);
    assert_eq!(server.post(&stop, Value::Null).await.status, StatusCode::OK);
    let unknown = "/api/bash/bash_commands/00000000-0000-4000-8000-000000000000/stop";
    assert_eq!(server.post(unknown, Value::Null).await.problem(), (404, json!("Not Found")));
}

#[tokio::test]
async fn bad_requests_for_commands_are_told_like_the_reference_tells_them() {
    let server = Server::start().await;
    for (query, expected) in [
        (
            "kind__eq=Foo",
            json!({"type": "literal_error", "loc": ["query", "kind__eq"], "msg": "Input should be 'BashCommand' or 'BashOutput'", "input": "Foo", "ctx": {"expected": "'BashCommand' or 'BashOutput'"}}),
        ),
        (
            "command_id__eq=zz",
            json!({"type": "uuid_parsing", "loc": ["query", "command_id__eq"], "msg": "Input should be a valid UUID, invalid character: found `z` at 0", "input": "zz", "ctx": {"error": "invalid character: found `z` at 0"}}),
        ),
        (
            "limit=0",
            json!({"type": "greater_than", "loc": ["query", "limit"], "msg": "Input should be greater than 0", "input": "0", "ctx": {"gt": 0}}),
        ),
        (
            "sort_order=UP",
            json!({"type": "enum", "loc": ["query", "sort_order"], "msg": "Input should be 'TIMESTAMP' or 'TIMESTAMP_DESC'", "input": "UP", "ctx": {"expected": "'TIMESTAMP' or 'TIMESTAMP_DESC'"}}),
        ),
        (
            "timestamp__gte=yesterday",
            json!({"type": "datetime_from_date_parsing", "loc": ["query", "timestamp__gte"], "msg": "Input should be a valid datetime or date, input is too short", "input": "yesterday", "ctx": {"error": "input is too short"}}),
        ),
        (
            "order__gt=1.5",
            json!({"type": "int_parsing", "loc": ["query", "order__gt"], "msg": "Input should be a valid integer, unable to parse string as an integer", "input": "1.5"}),
        ),
    ] {
        let answer = server.get(&format!("/api/bash/bash_events/search?{query}")).await;
        assert_eq!(answer.problem(), (422, json!([expected])), "{query}");
    }
    let answer = server.post("/api/bash/start_bash_command", json!({})).await;
    let expected = json!([{"type": "missing", "loc": ["body", "command"], "msg": "Field required", "input": {}}]);
    assert_eq!(answer.problem(), (422, expected));
    let answer = server.send(Request::post("/api/bash/start_bash_command").body(Body::empty()).unwrap()).await;
    assert_eq!(
        answer.problem(),
        (422, json!([{"type": "missing", "loc": ["body"], "msg": "Field required", "input": null}]))
    );
    let answer = server.post("/api/bash/bash_commands/zz/stop", Value::Null).await;
    assert_eq!(answer.problem().1[0]["loc"], json!(["path", "command_id"]));
    assert_eq!(server.get("/api/bash/bash_events").await.problem(), (405, json!("Method Not Allowed")));
}

#[tokio::test]
async fn long_output_is_joined() {
    let server = Server::start().await;
    let output = server.execute("head -c 3000000 /dev/zero | tr '\\0' x").await;
    assert_eq!((output["stdout"].as_str().map(str::len), &output["order"]), (Some(3_000_000), &json!(2)));
}

#[tokio::test]
async fn the_socket_runs_commands_and_resends_events() {
    let server = Server::start().await;
    let (address, _guard) = server.listen().await;
    let connect = async |query: &str| {
        tokio_tungstenite::connect_async(format!("{address}/sockets/bash-events{query}")).await.unwrap().0
    };
    let next = async |socket: &mut tokio_tungstenite::WebSocketStream<_>| {
        loop {
            let frame = tokio::time::timeout(Duration::from_secs(20), socket.next()).await.unwrap().unwrap().unwrap();
            if let Message::Text(text) = frame {
                return serde_json::from_str::<Value>(&text).unwrap();
            }
        }
    };
    let mut socket = connect("").await;
    socket.send(Message::text(r#"{"type": "auth", "session_api_key": "x"}"#)).await.unwrap();
    socket.send(Message::text(r#"{"command": "echo over-the-socket"}"#)).await.unwrap();
    let (command, output) = (next(&mut socket).await, next(&mut socket).await);
    assert_eq!(
        json!([command["kind"], command["command"], command["timeout"]]),
        json!(["BashCommand", "echo over-the-socket", 300])
    );
    assert_eq!(
        json!([output["kind"], output["stdout"], output["exit_code"]]),
        json!(["BashOutput", "over-the-socket\n", 0])
    );
    for (frame, code) in [("{nonsense", "JSONDecodeError"), (r#"{"cwd": 1}"#, "ValidationError")] {
        socket.send(Message::text(frame)).await.unwrap();
        let error = next(&mut socket).await;
        assert_eq!(json!([error["kind"], error["code"]]), json!(["BashError", code]));
    }
    for query in ["?resend_mode=all", "?resend_all=true"] {
        let mut again = connect(query).await;
        assert_eq!((next(&mut again).await, next(&mut again).await), (command.clone(), output.clone()));
    }
    assert!(tokio_tungstenite::connect_async(format!("{address}/sockets/bash-events?resend_mode=some")).await.is_err());
}

#[tokio::test]
async fn more_listeners_than_allowed_are_told_to_come_back() {
    let server = Server::start().await;
    let (address, _guard) = server.listen().await;
    let mut sockets = Vec::new();
    let close = loop {
        let (mut socket, _) = tokio_tungstenite::connect_async(format!("{address}/sockets/bash-events")).await.unwrap();
        // A frame that is answered shows that the socket is subscribed.
        socket.send(Message::text("{")).await.unwrap();
        match tokio::time::timeout(Duration::from_secs(20), socket.next()).await.unwrap().unwrap().unwrap() {
            Message::Close(frame) => break frame.unwrap(),
            _ => sockets.push(socket),
        }
        assert!(sockets.len() <= 50);
    };
    assert_eq!((sockets.len(), u16::from(close.code)), (50, 1013));
}

#[tokio::test]
async fn files_are_uploaded_and_downloaded() {
    let server = Server::start().await;
    let path = server.path("deep/er/up.bin");
    let bytes: Vec<u8> = (0..=255).cycle().take(40 * 1024 * 1024).collect();
    let answer = server.upload(&format!("?path={path}"), "file", Some("x"), &bytes).await;
    assert_eq!((answer.status, answer.json()), (StatusCode::OK, json!({"success": true, "file_size": bytes.len()})));
    let answer = server.get(&format!("/api/file/download?path={path}")).await;
    assert_eq!(answer.status, StatusCode::OK);
    assert!(answer.body == bytes);
    assert_eq!(
        [
            answer.header("content-type"),
            answer.header("content-length"),
            answer.header("content-disposition"),
            answer.header("accept-ranges")
        ],
        ["application/octet-stream", "41943040", "attachment; filename=\"up.bin\"", "bytes"]
    );
    let part = |range: &str, known: Option<&str>| {
        let mut request = Request::get(format!("/api/file/download?path={path}")).header(header::RANGE, range);
        if let Some(known) = known {
            request = request.header(header::IF_RANGE, known);
        }
        server.send(request.body(Body::empty()).unwrap())
    };
    let tag = answer.header("etag");
    let some = part("bytes=256-259", Some(tag)).await;
    assert_eq!(
        (some.status.as_u16(), some.header("content-range"), &some.body[..]),
        (206, "bytes 256-259/41943040", &[0, 1, 2, 3][..])
    );
    assert_eq!(part("bytes=0-0", Some("\"other\"")).await.status, StatusCode::OK);
    let behind = part("bytes=41943040-", None).await;
    assert_eq!((behind.status.as_u16(), behind.header("content-range")), (416, "bytes */41943040"));
    assert_eq!(part("lines=1-2", None).await.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn wrong_paths_and_bodies_of_files_are_told_apart() {
    let server = Server::start().await;
    let file = server.path("file");
    std::fs::write(&file, "x").unwrap();
    let work = server.path("");
    let detail = async |address: String| server.get(&address).await.problem();
    assert_eq!(detail("/api/file/download".to_owned()).await, (422, missing("path")));
    assert_eq!(detail("/api/file/download?path=relative/path".to_owned()).await, (400, json!("Path must be absolute")));
    assert_eq!(detail(format!("/api/file/download?path={work}absent")).await, (404, json!("File not found")));
    assert_eq!(detail(format!("/api/file/download?path={work}")).await, (400, json!("Path is not a file")));
    assert_eq!(
        detail(format!("/api/file/search_subdirs?path={work}absent")).await,
        (404, json!("Directory not found"))
    );
    assert_eq!(detail(format!("/api/file/search_subdirs?path={file}")).await, (400, json!("Path is not a directory")));
    assert_eq!(detail(format!("/api/file/archive?path={work}")).await.0, 400);
    assert_eq!(detail(format!("/api/file/archive?path={work}&format=zip")).await.1[0]["type"], "literal_error");
    let create =
        async |query: String| server.post(&format!("/api/file/create_directory{query}"), Value::Null).await.problem();
    assert_eq!(create(String::new()).await, (422, missing("path")));
    assert_eq!(create(format!("?path={file}")).await, (400, json!("Path exists and is not a directory")));

    let upload = async |query: String, part: &str, name| server.upload(&query, part, name, b"hello").await.problem();
    assert_eq!(upload(String::new(), "file", Some("n")).await, (422, missing("path")));
    assert_eq!(upload("?path=relative".to_owned(), "file", Some("n")).await, (400, json!("Path must be absolute")));
    assert_eq!(upload(format!("?path={work}"), "file", Some("n")).await, (400, json!("Path is a directory")));
    assert_eq!(
        upload(format!("?path={file}/x"), "file", Some("n")).await,
        (400, json!("A parent of the path is not a directory"))
    );
    let no_file = json!([{"type": "missing", "loc": ["body", "file"], "msg": "Field required", "input": null}]);
    assert_eq!(upload(format!("?path={file}"), "other", Some("n")).await, (422, no_file.clone()));
    let plain = upload(format!("?path={file}"), "file", None).await;
    assert_eq!((plain.0, &plain.1[0]["type"], &plain.1[0]["input"]), (422, &json!("value_error"), &json!("hello")));
    let answer = server.post(&format!("/api/file/upload?path={file}"), json!({"a": 1})).await;
    assert_eq!(answer.problem(), (422, no_file));
    let garbage = Request::post(format!("/api/file/upload?path={file}"))
        .header(header::CONTENT_TYPE, "multipart/form-data; boundary=X")
        .body(Body::from("garbage"));
    assert_eq!(server.send(garbage.unwrap()).await.problem(), (400, json!("Invalid multipart data.")));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "x");
}

#[tokio::test]
async fn directories_are_made_listed_and_packed() {
    let server = Server::start().await;
    let made = server.path("made/dir");
    for _ in 0..2 {
        let answer = server.post(&format!("/api/file/create_directory?path={made}"), Value::Null).await;
        assert_eq!(answer.json(), json!({"success": true}));
    }
    std::fs::create_dir(server.path("deep")).unwrap();
    std::fs::write(server.path("deep/a.txt"), "a").unwrap();
    let work = server.path("").trim_end_matches('/').to_owned();
    let page = server.get(&format!("/api/file/search_subdirs?path={work}&limit=1")).await.json();
    assert_eq!(page, json!({"items": [{"name": "deep", "path": format!("{work}/deep")}], "next_page_id": "made"}));
    let home = server.get("/api/file/home").await.json();
    assert_eq!(home["locations"], json!([{"label": "/", "path": "/"}]));
    let packed = server.get(&format!("/api/file/archive?path={work}/deep&format=tar.gz")).await;
    assert_eq!(
        [packed.header("content-type"), packed.header("content-disposition"), packed.header("x-archive-repo-root")],
        ["application/gzip", "attachment; filename=\"deep.tar.gz\"", ""]
    );
    std::fs::write(server.path("deep.tar.gz"), &packed.body).unwrap();
    let listed = Command::new("tar").args(["-tzf", &server.path("deep.tar.gz")]).output().unwrap();
    assert_eq!(String::from_utf8(listed.stdout).unwrap(), "deep/\ndeep/a.txt\ndeep/archive_manifest.json\n");
}

#[tokio::test]
async fn a_repository_is_asked() {
    let server = Server::start().await;
    let repository = server.path("repo");
    std::fs::create_dir(&repository).unwrap();
    git(&repository, &["init", "-q", "-b", "main"]);
    let write = |name: &str, text: &str| std::fs::write(Path::new(&repository).join(name), text).unwrap();
    write("kept.txt", "one\ntwo\n");
    write("gone.txt", "x\n");
    git(&repository, &["add", "-A"]);
    git(&repository, &["commit", "-q", "-m", "first commit"]);
    write("kept.txt", "one\nTWO\n");
    write("new.txt", "new\n");
    std::fs::remove_file(Path::new(&repository).join("gone.txt")).unwrap();

    let changes = json!([{"status": "DELETED", "path": "gone.txt"}, {"status": "UPDATED", "path": "kept.txt"}, {"status": "ADDED", "path": "new.txt"}]);
    assert_eq!(server.get(&format!("/api/git/changes?path={repository}")).await.json(), changes);
    let diff = server.get(&format!("/api/git/diff?path={repository}/kept.txt")).await;
    assert_eq!(diff.json(), json!({"modified": "one\nTWO", "original": "one\ntwo"}));
    let commits = server.get(&format!("/api/git/commits?path={repository}")).await.json();
    assert_eq!(
        json!([commits["has_more"], commits["commits"][0]["subject"], commits["commits"][0]["author"]]),
        json!([false, "first commit", "Ada"])
    );
    let sha = commits["commits"][0]["sha"].as_str().unwrap();
    let of_commit = server.get(&format!("/api/git/commits/{sha}/changes?path={repository}")).await.json();
    assert_eq!(of_commit, json!([{"status": "ADDED", "path": "gone.txt"}, {"status": "ADDED", "path": "kept.txt"}]));
    let diff = server.get(&format!("/api/git/diff?path={repository}/gone.txt&commit={sha}")).await;
    assert_eq!(diff.json(), json!({"modified": "x", "original": ""}));
    let patch = server.get(&format!("/api/file/archive?path={repository}&base_ref=HEAD")).await;
    assert_eq!(
        [patch.header("content-type"), patch.header("x-archive-base-commit"), patch.header("x-archive-branch")],
        ["text/x-patch", sha, "main"]
    );
    assert!(String::from_utf8(patch.body.to_vec()).unwrap().contains("-two\n+TWO\n"));

    let refused = server.get(&format!("/api/git/changes?path={repository}&ref=nope")).await;
    assert_eq!(refused.problem(), (400, json!("'nope' does not name a commit of this repository")));
}

#[tokio::test]
async fn outside_a_repository_nothing_has_changed() {
    let server = Server::start().await;
    let work = server.path("");
    std::fs::write(server.path("file"), "x").unwrap();
    for (address, expected) in [
        (format!("/api/git/changes?path={work}"), json!([])),
        (format!("/api/git/diff?path={work}file"), json!({"modified": null, "original": null})),
        (format!("/api/git/commits?path={work}"), json!({"commits": [], "has_more": false})),
        (format!("/api/git/commits/abcd/changes?path={work}"), json!([])),
        (
            "/api/git/repositories/search?provider=github".to_owned(),
            json!({"items": [], "next_page_id": null, "missing_token": true}),
        ),
    ] {
        assert_eq!(server.get(&address).await.json(), expected, "{address}");
    }
    for (address, status) in [
        ("/api/git/diff?path=/x&ref=a&commit=abcd", 400),
        ("/api/git/diff?path=/x&commit=zz", 422),
        ("/api/git/commits?path=/x&limit=201", 422),
        ("/api/git/commits/zz/changes?path=/x", 422),
        ("/api/git/repositories/search?provider=x", 422),
        ("/api/git/repositories/search?provider=gitlab", 400),
        ("/api/git/changes", 422),
    ] {
        assert_eq!(server.get(address).await.status.as_u16(), status, "{address}");
    }
    let answer = server.get(&format!("/api/git/diff?path={work}absent")).await;
    assert_eq!(answer.problem(), (400, json!(format!("File does not exist: {work}absent"))));
}
