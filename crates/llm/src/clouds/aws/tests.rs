//! Keys from every source, against stubs of AWS's services on real sockets.

use openhands_protocol::{Content, Message, Role};
use openhands_testkit::{ScriptedModel, SeenRequest, Turn};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::{profiles::Profiles, source::Source, *};
use crate::{LlmRequest, client_for};

const ROLE: &str = "arn:aws:iam::123456789012:role/agents";

fn root(server: &ScriptedModel) -> String {
    server.base_url().trim_end_matches("/v1").to_owned()
}

fn environment(pairs: &[(&str, &str)]) -> Environment {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn config() -> LlmConfig {
    LlmConfig { model: "bedrock/eu-west-1/anthropic.claude-x".to_owned(), ..LlmConfig::default() }
}

fn in_seconds(seconds: i64) -> String {
    (Timestamp::now() + jiff::SignedDuration::from_secs(seconds)).strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// As the token service answers.
fn issued(action: &str, number: u32, lives: i64) -> Turn {
    let expires = in_seconds(lives);
    Turn::raw(
        200,
        &format!(
            "<{action}Response xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><{action}Result><Credentials>\
             <AccessKeyId>ASIA{number}</AccessKeyId><SecretAccessKey>a&amp;b{number}</SecretAccessKey>\
             <SessionToken>session{number}</SessionToken><Expiration>{expires}</Expiration></Credentials>\
             </{action}Result></{action}Response>"
        ),
    )
}

fn form(seen: &SeenRequest) -> Vec<(String, String)> {
    url::form_urlencoded::parse(&seen.bytes).into_owned().collect()
}

fn shown(credentials: Credentials) -> (String, String, Option<String>) {
    let keys = Keys::of(&credentials).unwrap();
    (keys.id, keys.secret.expose().to_owned(), keys.session.map(|session| session.expose().to_owned()))
}

async fn current(config: &LlmConfig, pairs: &[(&str, &str)]) -> Result<(String, String, Option<String>), LlmError> {
    keys_for(config, &environment(pairs), "eu-west-1")?.current().await.map(shown)
}

fn temporary(number: u32) -> (String, String, Option<String>) {
    (format!("ASIA{number}"), format!("a&b{number}"), Some(format!("session{number}")))
}

#[tokio::test]
async fn a_role_is_taken_on_with_keys_and_kept() {
    let sts = ScriptedModel::start([issued("AssumeRole", 1, 3600)]).await;
    let mut config = config();
    (config.aws_role_name, config.aws_session_name) = (Some(ROLE.to_owned()), Some("my session".to_owned()));
    let address = root(&sts);
    let pairs = [
        ("AWS_ENDPOINT_URL_STS", address.as_str()),
        ("AWS_ACCESS_KEY_ID", "AKID"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
        ("AWS_EXTERNAL_ID", "ext"),
    ];
    let source = keys_for(&config, &environment(&pairs), "eu-west-1").unwrap();
    for _ in 0..3 {
        assert_eq!(shown(source.current().await.unwrap()), temporary(1));
    }
    let [seen] = &sts.requests()[..] else { panic!("one question") };
    let expected = [
        ("Action", "AssumeRole"),
        ("Version", "2011-06-15"),
        ("RoleArn", ROLE),
        ("RoleSessionName", "my-session"),
        ("ExternalId", "ext"),
    ];
    assert_eq!(form(seen), expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    let signature = seen.headers["authorization"].to_str().unwrap();
    assert!(signature.contains("Credential=AKID/") && signature.contains("/eu-west-1/sts/aws4_request"), "{signature}");
}

#[tokio::test]
async fn a_web_identity_is_enough() {
    let sts = ScriptedModel::start([
        issued("AssumeRoleWithWebIdentity", 1, 3600),
        issued("AssumeRoleWithWebIdentity", 2, 3600),
        issued("AssumeRoleWithWebIdentity", 3, 3600),
        issued("AssumeRole", 4, 3600),
    ])
    .await;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("token");
    std::fs::write(&file, "signed.token\n").unwrap();
    let (address, file) = (root(&sts), file.to_str().unwrap().to_owned());
    let pairs = [
        ("AWS_ENDPOINT_URL_STS", address.as_str()),
        ("AWS_WEB_IDENTITY_TOKEN_FILE", &file),
        ("AWS_ROLE_ARN", ROLE),
        ("AWS_ROLE_SESSION_NAME", "pod"),
    ];
    let mut config = config();
    assert_eq!(current(&config, &pairs).await.unwrap(), temporary(1));
    config.aws_role_name = Some(ROLE.to_owned());
    assert_eq!(current(&config, &pairs).await.unwrap(), temporary(2), "the same role, once");
    config.aws_role_name = Some(format!("{ROLE}-other"));
    assert_eq!(current(&config, &pairs).await.unwrap(), temporary(4), "another role on top");
    let seen = sts.requests();
    assert!(!seen[0].headers.contains_key("authorization"));
    let first = form(&seen[0]);
    assert!(first.contains(&("WebIdentityToken".to_owned(), "signed.token".to_owned())), "{first:?}");
    assert!(first.contains(&("RoleSessionName".to_owned(), "pod".to_owned())), "{first:?}");
    assert!(seen[3].headers["authorization"].to_str().unwrap().contains("Credential=ASIA3/"));
    assert_eq!(seen[3].headers["x-amz-security-token"], "session3");
}

#[tokio::test]
async fn profiles_stand_on_each_other() {
    let sts = ScriptedModel::start([issued("AssumeRole", 1, 3600), issued("AssumeRole", 2, 3600)]).await;
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(home.path().join(".aws")).unwrap();
    let write = |name: &str, text: &str| std::fs::write(home.path().join(".aws").join(name), text).unwrap();
    write(
        "credentials",
        "[default]\naws_access_key_id=D\naws_secret_access_key=d\n[base]\naws_access_key_id=B\naws_secret_access_key=b\n",
    );
    write(
        "config",
        &format!(
            "[default]\nregion=eu-south-1\n[profile one]\nrole_arn={ROLE}-1\nsource_profile=base\nendpoint_url=http://evil\n\
             [profile two]\nrole_arn={ROLE}-2\nsource_profile=one\nexternal_id=e\nrole_session_name=s2\n\
             [profile loop]\nrole_arn={ROLE}\nsource_profile=pool\n[profile pool]\nrole_arn={ROLE}\nsource_profile=loop\n\
             [profile sso]\nsso_session=x\n[profile process]\ncredential_process=/bin/x\n\
             [profile mfa]\nrole_arn={ROLE}\nmfa_serial=x\nsource_profile=base\n"
        ),
    );
    let (address, home) = (root(&sts), home.path().to_str().unwrap().to_owned());
    let pairs = [("AWS_ENDPOINT_URL_STS", address.as_str()), ("HOME", &home)];
    let of = |name: &str| LlmConfig { aws_profile_name: Some(name.to_owned()), ..config() };
    assert_eq!(current(&of("base"), &pairs).await.unwrap(), ("B".to_owned(), "b".to_owned(), None));
    assert_eq!(current(&config(), &pairs).await.unwrap().0, "D");
    assert_eq!(current(&of("two"), &pairs).await.unwrap(), temporary(2));
    let seen = sts.requests();
    assert!(seen[0].headers["authorization"].to_str().unwrap().contains("Credential=B/"));
    assert!(seen[1].headers["authorization"].to_str().unwrap().contains("Credential=ASIA1/"));
    assert!(form(&seen[1]).contains(&("ExternalId".to_owned(), "e".to_owned())));
    for (name, part) in [
        ("none", "is in neither of the shared files"),
        ("loop", "or on itself"),
        ("sso", "sso_session of AWS profile \"sso\""),
        ("process", "credential_process"),
        ("mfa", "mfa_serial"),
    ] {
        let error = current(&of(name), &pairs).await.unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
    }
    assert_eq!(profiled_region(&config(), &environment(&pairs)).unwrap().as_deref(), Some("eu-south-1"));
    let chosen = [pairs[1], ("AWS_PROFILE", "base")];
    assert_eq!(current(&config(), &chosen).await.unwrap().0, "B");
}

#[tokio::test]
async fn a_containers_endpoint_is_asked_with_its_token() {
    let keys = |id: &str| {
        let keys = json!({"AccessKeyId": id, "SecretAccessKey": "s", "Token": "t", "Expiration": in_seconds(10)});
        Turn::raw(200, &keys.to_string())
    };
    let endpoint = ScriptedModel::start([keys("one"), keys("two"), Turn::raw(400, r#"{"message": "no role"}"#)]).await;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("token");
    std::fs::write(&file, "first").unwrap();
    let (address, path) = (format!("{}/v1/credentials", root(&endpoint)), file.to_str().unwrap().to_owned());
    let pairs = [
        ("AWS_CONTAINER_CREDENTIALS_FULL_URI", address.as_str()),
        ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", path.as_str()),
    ];
    let source = keys_for(&config(), &environment(&pairs), "eu-west-1").unwrap();
    assert_eq!(shown(source.current().await.unwrap()).0, "one");
    // They end in a moment, and the platform has renewed its token.
    std::fs::write(&file, "second").unwrap();
    assert_eq!(shown(source.current().await.unwrap()).0, "two");
    let error = source.current().await.unwrap_err();
    assert_eq!(error.code(), "LLMAuthenticationError");
    assert!(error.to_string().contains("no role"), "{error}");
    let sent: Vec<_> = endpoint.requests().into_iter().map(|seen| seen.headers["authorization"].clone()).collect();
    assert_eq!(sent, ["first", "second", "second"]);
    assert_eq!(endpoint.requests()[0].path, "/v1/credentials");
}

#[tokio::test]
async fn a_machines_metadata_are_asked_in_three_steps() {
    let keys = json!({
        "Code": "Success", "Type": "AWS-HMAC", "AccessKeyId": "M", "SecretAccessKey": "s", "Token": "t", "Expiration": in_seconds(3600),
    });
    let turns = [Turn::raw(200, "imds token"), Turn::raw(200, "my role\n"), Turn::raw(200, &keys.to_string())];
    let metadata = ScriptedModel::start(turns).await;
    let address = root(&metadata);
    let pairs = [("AWS_EC2_METADATA_SERVICE_ENDPOINT", address.as_str())];
    let source = keys_for(&config(), &environment(&pairs), "eu-west-1").unwrap();
    assert_eq!(shown(source.current().await.unwrap()), ("M".to_owned(), "s".to_owned(), Some("t".to_owned())));
    source.current().await.unwrap();
    let seen = metadata.requests();
    let paths: Vec<_> = seen.iter().map(|seen| seen.path.as_str()).collect();
    let roles = "/latest/meta-data/iam/security-credentials/";
    assert_eq!(paths, ["/latest/api/token", roles, &format!("{roles}my%20role")]);
    assert_eq!(seen[0].headers["x-aws-ec2-metadata-token-ttl-seconds"], "21600");
    assert!(seen[1..].iter().all(|seen| seen.headers["x-aws-ec2-metadata-token"] == "imds token"));
}

#[tokio::test]
async fn a_machine_without_metadata_is_told_so() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let error = current(&config(), &[("AWS_EC2_METADATA_SERVICE_ENDPOINT", &address)]).await.unwrap_err();
    assert_eq!(error.code(), "LLMAuthenticationError");
    assert!(error.to_string().contains("AWS_BEARER_TOKEN_BEDROCK"), "{error}");
    let error = current(&config(), &[("AWS_EC2_METADATA_DISABLED", "true")]).await.unwrap_err();
    assert!(error.to_string().contains("no key for bedrock/"), "{error}");
}

#[tokio::test]
async fn refused_keys_are_renewed_within_the_call() {
    let expired = json!({"message": "The security token included in the request is expired"}).to_string();
    let model = ScriptedModel::start([Turn::raw(403, &expired), Turn::text("after")]).await;
    let sts = ScriptedModel::start([issued("AssumeRole", 1, 3600), issued("AssumeRole", 2, 3600)]).await;
    let (address, models) = (root(&sts), model.base_url());
    let pairs = [
        ("AWS_ENDPOINT_URL_STS", address.as_str()),
        ("AWS_ENDPOINT_URL_BEDROCK_RUNTIME", &models),
        ("AWS_ACCESS_KEY_ID", "AKID"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
    ];
    let config = LlmConfig { aws_role_name: Some(ROLE.to_owned()), num_retries: 1, ..config() };
    let client = client_for(&config, &environment(&pairs)).unwrap();
    let request = LlmRequest { messages: vec![Message::new(Role::User, vec![Content::text("hi")])], tools: Vec::new() };
    let response = client.complete(&request, None, &CancellationToken::new()).await.unwrap();
    assert_eq!(response.message.joined_text(), "after");
    let seen = model.requests();
    let signed = |seen: &SeenRequest| seen.headers["authorization"].to_str().unwrap().to_owned();
    assert!(signed(&seen[0]).contains("Credential=ASIA1/") && signed(&seen[1]).contains("Credential=ASIA2/"));
    assert!(signed(&seen[0]).contains("/eu-west-1/bedrock/aws4_request"));
}

#[tokio::test]
async fn a_token_service_that_is_down_is_asked_again_by_the_call() {
    let sts = ScriptedModel::start([Turn::raw(503, "busy"), issued("AssumeRole", 1, 3600)]).await;
    let model = ScriptedModel::start([Turn::text("after")]).await;
    let (address, models) = (root(&sts), model.base_url());
    let pairs = [
        ("AWS_ENDPOINT_URL_STS", address.as_str()),
        ("AWS_ENDPOINT_URL_BEDROCK_RUNTIME", &models),
        ("AWS_ACCESS_KEY_ID", "AKID"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
    ];
    let (retry_min_wait, retry_max_wait) = (0, 0);
    let config =
        LlmConfig { aws_role_name: Some(ROLE.to_owned()), num_retries: 2, retry_min_wait, retry_max_wait, ..config() };
    let client = client_for(&config, &environment(&pairs)).unwrap();
    let response = client.complete(&LlmRequest::default(), None, &CancellationToken::new()).await.unwrap();
    assert_eq!((response.message.joined_text().as_str(), sts.requests().len()), ("after", 2));
}

#[test]
fn sources_have_an_order() {
    let named = |change: fn(&mut Wish), pairs: &[(&str, &str)]| {
        let mut wish = Wish { region: "x".to_owned(), ..Wish::default() };
        change(&mut wish);
        match Source::of(&wish, &Surroundings::of(&environment(pairs))).unwrap() {
            None => "nothing".to_owned(),
            Some(Source::Keys(keys)) => keys.id,
            Some(Source::Web(..)) => "web".to_owned(),
            Some(Source::Container(_)) => "container".to_owned(),
            Some(Source::Machine(_)) => "machine".to_owned(),
            Some(Source::Role(_, base)) => format!("role on {}", matches!(*base, Source::Keys(_))),
        }
    };
    let own =
        |wish: &mut Wish| wish.keys = Some(Keys { id: "own".to_owned(), secret: SecretText::new("s"), session: None });
    let variables = [("AWS_ACCESS_KEY_ID", "variable"), ("AWS_SECRET_ACCESS_KEY", "s")];
    let web = [("AWS_WEB_IDENTITY_TOKEN_FILE", "/f"), ("AWS_ROLE_ARN", ROLE)];
    let container = [("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/x")];
    let all = [&variables[..], &web, &container].concat();
    assert_eq!(named(own, &all), "own");
    assert_eq!(named(|_| {}, &all), "variable");
    assert_eq!(named(|_| {}, &[&web[..], &container].concat()), "web");
    assert_eq!(named(|_| {}, &container), "container");
    assert_eq!(named(|_| {}, &[]), "machine");
    assert_eq!(named(|_| {}, &[("AWS_EC2_METADATA_DISABLED", "1")]), "nothing");
    assert_eq!(named(|wish| wish.role = Some(ROLE.to_owned()), &variables), "role on true");
    assert_eq!(named(|wish| wish.role = Some(ROLE.to_owned()), &web), "web");
    assert!(Profiles::of("", "").get("default").is_none());
}
