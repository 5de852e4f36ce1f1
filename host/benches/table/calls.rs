//! Calls that an action makes one after the other, recorded and not synced: of a model whose replies
//! are in a file, of a model behind HTTP, and of a web service. Beside them, the same exchanges by the
//! HTTP client alone. The server is in this process and answers at once.

use std::io::{BufRead, BufReader, Read, Write, copy, sink};
use std::net::{TcpListener, TcpStream};
use std::time::Instant;

use reqwest::{Client, RequestBuilder};
use serde_json::{Value, json};
use strata_host::storage::Durability;

use super::run::{Place, to_its_end};

const REPLIES: &str = "[[reply]]\ntext = \"an answer\"\n";
const ASKED: &str = r#"{"model":"m","messages":[{"role":"user","content":"question"}]}"#;
const ANSWER: &str = r#"{"id":"1","model":"m","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"an answer"}}],"usage":{"prompt_tokens":10,"completion_tokens":2,"total_tokens":12}}"#;

/// Measures `count` calls of each kind.
pub(crate) fn calls(place: &Place, count: usize) -> anyhow::Result<Value> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?.to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || serve(stream));
        }
    });
    let client = Client::builder().no_proxy().tls_certs_only([]);
    let replies = place.dir.join("replies.toml");
    std::fs::write(&replies, REPLIES)?;
    let scripted = format!("provider = \"scripted\"\nreplies = {replies:?}");
    let remote =
        format!("provider = \"openai\"\nbase_url = \"http://{address}/v1\"\nmodel = \"m\"");
    let ask = "llm = \"question\"";
    let fetch = format!("http = \"http://{address}/x\"");
    let ours = |name: &str, llm: &str, call: &str| -> anyhow::Result<f64> {
        let run = |attempt: u32| {
            let step = format!("{{ {call}, attempts = [{attempt}] }}");
            let team = team(place, &address, llm, &vec![step; count].join(", "));
            let driver = place.prepare(
                &format!("{name}-{attempt}"),
                &team,
                Durability::Process,
                || (),
            )?;
            let start = Instant::now();
            to_its_end(driver)?;
            anyhow::Ok(start.elapsed().as_secs_f64() * 1e6)
        };
        // The probe reads its steps in both, and takes none of those for a second attempt.
        let none = run(2)?;
        Ok((run(1)? - none) / count as f64)
    };
    let (scripted, model) = (
        ours("scripted", &scripted, ask)?,
        ours("model", &remote, ask)?,
    );
    let http = ours("http", &remote, &fetch)?;
    // The runs above have chosen what TLS is done with, without which no client can be made.
    let client = client.build()?;
    let url = format!("http://{address}/v1/chat/completions");
    let question = || {
        client
            .post(&url)
            .header("content-type", "application/json")
            .body(ASKED)
    };
    let read = || client.get(format!("http://{address}/x"));
    Ok(json!({
        "scripted_us": scripted, "model_us": model, "bare_model_us": bare(count, question)?,
        "http_us": http, "bare_http_us": bare(count, read)?,
    }))
}

/// Returns a team with one action, which makes these calls.
fn team(place: &Place, address: &str, llm: &str, calls: &str) -> String {
    let (head, probe) = (place.head(10, 8), place.probe.display());
    format!(
        "{head}[llm]\n{llm}\n[[role]]\nname = \"A\"\nwatch = [\"UserRequirement\"]\n\
         [[role.action]]\nname = \"Ask\"\ncomponent = \"{probe}\"\nconfig = {{ steps = [{calls}] }}\n\
         [role.action.limits]\nhost_calls = 100000\nhost_bytes = \"256MiB\"\nmemory = \"256MiB\"\ncpu = \"60s\"\n\
         [role.action.allow]\nllm = {{ models = [\"*\"] }}\n\
         http = [{{ host = \"{address}\", methods = [\"GET\"] }}]\n"
    )
}

/// Returns the time of an exchange in microseconds, of `count` on one thread.
fn bare(count: usize, request: impl Fn() -> RequestBuilder) -> anyhow::Result<f64> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let start = Instant::now();
        for _ in 0..count {
            request().send().await?.bytes().await?;
        }
        Ok(start.elapsed().as_secs_f64() * 1e6 / count as f64)
    })
}

/// Answers the requests of a connection.
fn serve(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut requests = BufReader::new(stream.try_clone()?);
    loop {
        let (mut line, mut body) = (String::new(), 0);
        while line != "\r\n" {
            line.clear();
            if requests.read_line(&mut line)? == 0 {
                return Ok(());
            }
            if let Some(length) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                body = length.trim().parse().unwrap_or(0);
            }
        }
        copy(&mut requests.by_ref().take(body), &mut sink())?;
        let length = ANSWER.len();
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
        );
        stream.write_all((head + ANSWER).as_bytes())?;
    }
}
