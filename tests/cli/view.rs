//! `ulpscope view`: the server of a page.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use ulpscope_report::page::inflate;

use crate::compare::wrong_mul;
use crate::page::{has_page, reported};
use crate::workspace::Workspace;

/// A server, ended with the test.
struct Viewed {
    process: Child,
    port: u16,
    token: String,
}

impl Drop for Viewed {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Viewed {
    fn of(place: &Workspace, source: &str) -> Viewed {
        let mut command = place.command(&["view", source, "--dumps"]);
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.strip_prefix("http://127.0.0.1:").unwrap().split(' ').next().unwrap();
        let (port, token) = address.split_once('/').unwrap();
        Viewed { process, port: port.parse().unwrap(), token: token.trim_end_matches('/').to_owned() }
    }

    /// Status and body of the answer to a request as it is sent.
    fn ask(&self, request: &str) -> (u16, Vec<u8>) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
        let head = String::from_utf8(answer[..end].to_vec()).unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), answer[end + 4..].to_vec())
    }

    fn get(&self, path: &str) -> (u16, Vec<u8>) {
        let port = self.port;
        self.ask(&format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n"))
    }
}

#[test]
fn a_server_answers_whoever_knows_its_address() {
    if !has_page() {
        return;
    }
    let place = wrong_mul();
    place.run(&["compare", "t", "g", "-o", "out"]);
    let viewed = Viewed::of(&place, "out");
    let token = &viewed.token;
    assert_eq!(token.len(), 32);
    let (status, html) = viewed.get(&format!("/{token}/"));
    assert_eq!(status, 200);
    assert!(String::from_utf8(html).unwrap().contains("<meta name=\"ulpscope-parts\" content=\"parts/\">"));
    let (status, part) = viewed.get(&format!("/{token}/parts/manifest"));
    let manifest: Json = serde_json::from_slice(&inflate(&part).unwrap()).unwrap();
    assert_eq!((status, &manifest["details_on_demand"]), (200, &json!(true)));
    let (status, part) = viewed.get(&format!("/{token}/parts/detail/0/1"));
    let detail: Json = serde_json::from_slice(&inflate(&part).unwrap()).unwrap();
    assert_eq!((status, &detail["entries"][1]["worst"][0]["abs"]), (200, &json!(8.0)));
    // A column without values.
    assert_eq!(viewed.get(&format!("/{token}/parts/calls/0/region")).0, 200);
    assert_eq!(viewed.get(&format!("/{token}/parts/rows/0/999/0")), (204, Vec::new()));
    for path in [
        "/".to_owned(),
        format!("/{token}"),
        format!("/{}/", "0".repeat(32)),
        format!("/{}/parts/manifest", &token[1..]),
        format!("/{token}/parts/"),
        format!("/{token}/parts/../../out/result.json"),
        format!("/{token}/parts/..%2f..%2fout%2fresult.json"),
        format!("/{token}//etc/passwd"),
        format!("/{token}/result.json"),
        format!("/{token}/parts/detail/0/99"),
        format!("/{token}/parts/detail/0/1/../2"),
        format!("/{token}/parts/manifest?x"),
    ] {
        assert_eq!(viewed.get(&path).0, 404, "{path}");
    }
}

#[test]
fn a_server_refuses_other_hosts_and_methods() {
    if !has_page() {
        return;
    }
    let place = wrong_mul();
    place.run(&["compare", "t", "g", "-o", "out"]);
    let viewed = Viewed::of(&place, "out");
    let Viewed { port, token, .. } = &viewed;
    let with_host =
        |host: &str| viewed.ask(&format!("GET /{token}/ HTTP/1.1\r\n{host}Connection: close\r\n\r\n")).0;
    assert_eq!(with_host(&format!("Host: localhost:{port}\r\n")), 200);
    for host in ["", "Host: evil.example\r\n", "Host: 127.0.0.1\r\n", "Host: 127.0.0.1:1\r\n"] {
        assert_eq!(with_host(host), 403, "{host}");
    }
    let rebound = format!("Host: evil.example:{port}\r\n");
    assert_eq!(with_host(&rebound), 403);
    let twice = format!("Host: 127.0.0.1:{port}\r\nHost: evil.example\r\n");
    assert_eq!(with_host(&twice), 400);
    for method in ["POST", "PUT", "DELETE", "HEAD", "OPTIONS"] {
        let request =
            format!("{method} /{token}/ HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: 0\r\n\r\n");
        assert_eq!(viewed.ask(&request).0, 405, "{method}");
    }
    assert_eq!(viewed.ask("nonsense\r\n\r\n").0, 400);
    let long =
        format!("GET /{} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nX: {}\r\n\r\n", token, "x".repeat(20_000));
    assert_eq!(viewed.ask(&long).0, 431);
    // It still answers.
    assert_eq!(viewed.get(&format!("/{token}/parts/manifest")).0, 200);
}

/// Waits for an answer that may take long for others.
fn answered_soon(viewed: &Viewed) {
    let begin = Instant::now();
    assert_eq!(viewed.get(&format!("/{}/parts/manifest", viewed.token)).0, 200);
    assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
}

#[test]
fn idle_and_slow_clients_lock_no_other_out() {
    if !has_page() {
        return;
    }
    let place = wrong_mul();
    place.run(&["compare", "t", "g", "-o", "out"]);
    let viewed = Viewed::of(&place, "out");
    let connect = || TcpStream::connect(("127.0.0.1", viewed.port)).unwrap();
    let idle: Vec<TcpStream> = (0..300).map(|_| connect()).collect();
    answered_soon(&viewed);
    // A part of a request, and no more.
    let begun: Vec<TcpStream> = (0..300)
        .map(|_| {
            let mut stream = connect();
            stream.write_all(b"GET / HTTP/1.1\r\nHost: ").unwrap();
            stream
        })
        .collect();
    answered_soon(&viewed);
    // Requests for the page whose answers nobody reads.
    let unread: Vec<TcpStream> = (0..100)
        .map(|_| {
            let mut stream = connect();
            let request =
                format!("GET /{}/ HTTP/1.1\r\nHost: 127.0.0.1:{}\r\n\r\n", viewed.token, viewed.port);
            for _ in 0..200 {
                if stream.write_all(request.as_bytes()).is_err() {
                    break;
                }
            }
            stream
        })
        .collect();
    answered_soon(&viewed);
    drop((idle, begun, unread));
    answered_soon(&viewed);
}

#[test]
fn a_port_in_use_is_reported_with_what_to_do() {
    if !has_page() {
        return;
    }
    let place = wrong_mul();
    place.run(&["compare", "t", "g", "-o", "out"]);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let ran = place.run(&["view", "out", "--port", &port]);
    assert_eq!(ran.code, 2);
    assert!(
        ran.err.contains(&format!("cannot listen on 127.0.0.1:{port}: "))
            && ran.err.contains("choose a different --port, or leave it out for a free one"),
        "{}",
        ran.err
    );
}

#[test]
fn a_dump_that_moves_while_it_is_served_is_reported() {
    if !has_page() {
        return;
    }
    let place = wrong_mul();
    place.run(&["compare", "t", "g", "-o", "out"]);
    let viewed = Viewed::of(&place, "out");
    let token = &viewed.token;
    assert_eq!(viewed.get(&format!("/{token}/parts/detail/0/1")).0, 200);
    std::fs::rename(place.path("t"), place.path("moved")).unwrap();
    for part in ["detail/0/0", "flow/0", "calls/0/stack"] {
        let (status, why) = viewed.get(&format!("/{token}/parts/{part}"));
        let why = String::from_utf8(why).unwrap();
        assert_eq!(status, 503, "{part}");
        assert!(why.starts_with("the target is not at ") && why.contains("with --target DIR"), "{why}");
    }
    // Everything else is still there.
    for part in ["manifest", "calls/0/name", "rows/0/0/0"] {
        assert_eq!(viewed.get(&format!("/{token}/parts/{part}")).0, 200, "{part}");
    }
}

#[test]
fn rows_that_are_read_on_request_are_those_of_a_file() {
    if !has_page() {
        return;
    }
    let place = wrong_mul();
    place.run(&["compare", "t", "g", "-o", "out"]);
    let sheet = place.files().into_iter().find(|name| name.ends_with(".csv")).unwrap();
    let text = place.text(&sheet);
    let (header, rows) = text.split_once('\n').unwrap();
    let row = rows.lines().last().unwrap();
    // Several chunks, with texts that were quoted and disarmed.
    let mut many = format!("{header}\n");
    for number in 0..70_000 {
        let name =
            if number % 1000 == 7 { format!("'=output, {number}") } else { format!("output.{number}") };
        let name = if name.contains(',') { format!("\"{name}\"") } else { name };
        many += &row.replacen("output.0", &name, 1);
        many.push('\n');
    }
    place.put_text(&sheet, &many);
    let (ran, parts) = reported(&place, &["out"]);
    assert!(ran.err.contains("has 70,000 rows, and the result counts 4"), "{}", ran.err);
    let viewed = Viewed::of(&place, "out");
    let mut compared = 0;
    for (name, part) in
        parts.iter().filter(|(name, _)| name.starts_with("rows/") || name.starts_with("calls/"))
    {
        let (status, served) = viewed.get(&format!("/{}/parts/{name}", viewed.token));
        assert_eq!(status, 200, "{name}");
        if name != "calls/0/detail" {
            assert!(inflate(&served).unwrap() == *part, "{name}");
        }
        compared += 1;
    }
    assert!(compared > 60, "{compared} parts");
    assert_eq!(viewed.get(&format!("/{}/parts/rows/0/0/3", viewed.token)), (204, Vec::new()));
}
