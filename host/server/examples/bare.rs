//! A server that sends the content of a file to each request, and does nothing else. `bench/server` compares the lists of
//! the API with it.
//!
//! ```console
//! bare FILE
//! ```
//!
//! Prints the port on which it listens.

use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::routing::any;
use bytes::Bytes;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let file = std::env::args_os().nth(1).ok_or("name a file")?;
    let body = Bytes::from(std::fs::read(file)?);
    let answer = move || async move { ([(CONTENT_TYPE, "application/json")], body) };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        println!("{}", listener.local_addr()?.port());
        let router = Router::new().fallback(any(answer));
        loop {
            let (stream, _) = listener.accept().await?;
            let service = TowerToHyperService::new(router.clone());
            let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
            tokio::spawn(connection);
        }
    })
}
