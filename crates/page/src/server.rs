//! Serves a page on loopback: to whoever knows the token, from this machine, and nothing but the page and its parts.
//!
//! ```text
//! GET /TOKEN/             the page
//! GET /TOKEN/parts/NAME   a part, as raw deflate
//! ```
//! A page of a different site in the user's browser can send requests here, too. It does not know the token, and a name
//! that it lets resolve to this machine is a wrong `Host`.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ulpscope_report::page::Template;

use crate::connections::{Admission, Connections};
use crate::error::PageError;
use crate::page::Page;

/// Bytes of a request line and its headers.
const MAX_REQUEST: u64 = 16 << 10;

/// A connection without a whole request is closed, and one that takes nothing of its answer.
const IDLE: Duration = Duration::from_secs(60);

/// What is read of a request that is refused, at most.
const MAX_DRAINED: u64 = 1 << 20;
const DRAINING: Duration = Duration::from_secs(1);

/// After a connection that the system could not make, such as for lack of file handles.
const PAUSE: Duration = Duration::from_millis(50);

/// Headers of every answer. Nothing is loaded from elsewhere, framed, cached or told to others.
const HEADERS: &str = "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY\r\n\
     Referrer-Policy: no-referrer\r\nCross-Origin-Resource-Policy: same-origin\r\n\
     Content-Security-Policy: default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; \
     img-src data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'\r\n";

/// A server of one page.
pub struct Server {
    listener: TcpListener,
    served: Arc<Served>,
    address: SocketAddr,
}

/// What connections share.
struct Served {
    page: Page,
    html: String,
    token: String,
    hosts: [String; 2],
    connections: Arc<Connections>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Server {
    /// Listens on loopback; at a free port, if 0.
    pub fn of(page: Page, port: u16) -> Result<Server, PageError> {
        let template = Template::built()?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
            .map_err(|cause| PageError::Port { port, cause })?;
        let address = listener.local_addr()?;
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(io::Error::other)?;
        let token: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let port = address.port();
        let served = Served {
            html: template.served(page.first_screen(), "parts/"),
            page,
            token,
            hosts: [format!("127.0.0.1:{port}"), format!("localhost:{port}")],
            connections: Arc::default(),
        };
        Ok(Server { listener, served: Arc::new(served), address })
    }

    /// Where the page is.
    pub fn address(&self) -> String {
        format!("http://{}/{}/", self.address, self.served.token)
    }

    /// Answers requests, on threads of its own, until the process ends.
    pub fn start(self) {
        std::thread::spawn(move || {
            for stream in self.listener.incoming() {
                let Ok(stream) = stream else {
                    std::thread::sleep(PAUSE);
                    continue;
                };
                let served = Arc::clone(&self.served);
                let Ok(admission) = Connections::admit(&served.connections, &stream) else { continue };
                let answering = std::thread::Builder::new().spawn(move || {
                    // A connection that breaks concerns nobody else.
                    let _ = served.converse(&stream, &admission);
                });
                if answering.is_err() {
                    std::thread::sleep(PAUSE);
                }
            }
        });
    }
}

/// A request, as far as it matters here.
#[derive(Debug, PartialEq, Eq)]
struct HttpRequest {
    method: String,
    path: String,
    host: Option<String>,
    closes: bool,
}

/// An answer.
struct HttpAnswer {
    status: &'static str,
    kind: &'static str,
    body: Vec<u8>,
}

impl HttpAnswer {
    fn refusal(status: &'static str) -> HttpAnswer {
        HttpAnswer { status, kind: "text/plain; charset=utf-8", body: format!("{status}\n").into_bytes() }
    }
}

impl Served {
    /// Answers the requests of a connection.
    fn converse(&self, stream: &TcpStream, admission: &Admission) -> io::Result<()> {
        stream.set_write_timeout(Some(IDLE))?;
        stream.set_nodelay(true)?;
        let mut reader = BufReader::new(TimedReader { stream, until: Instant::now() + IDLE });
        loop {
            admission.answers(false);
            reader.get_mut().until = Instant::now() + IDLE;
            let request = match read_request(&mut reader)? {
                None => return Ok(()),
                Some(Err(status)) => {
                    send(stream, &HttpAnswer::refusal(status), true)?;
                    return drain(stream);
                }
                Some(Ok(request)) => request,
            };
            admission.answers(true);
            let closes = request.closes || request.method != "GET";
            send(stream, &self.answer(&request), closes)?;
            if closes {
                return drain(stream);
            }
        }
    }

    fn answer(&self, request: &HttpRequest) -> HttpAnswer {
        // Before anything else: other names of this machine, and other methods, learn nothing.
        if !request.host.as_ref().is_some_and(|host| self.hosts.contains(host)) {
            return HttpAnswer::refusal("403 Forbidden");
        }
        if request.method != "GET" {
            return HttpAnswer::refusal("405 Method Not Allowed");
        }
        let path = request.path.strip_prefix('/').and_then(|path| path.split_once('/'));
        let Some((_, rest)) = path.filter(|(token, _)| is_same(token, &self.token)) else {
            return HttpAnswer::refusal("404 Not Found");
        };
        if rest.is_empty() {
            return HttpAnswer {
                status: "200 OK",
                kind: "text/html; charset=utf-8",
                body: self.html.clone().into_bytes(),
            };
        }
        let Some(name) = rest.strip_prefix("parts/") else { return HttpAnswer::refusal("404 Not Found") };
        let kind = "application/octet-stream";
        match self.page.part(name) {
            Ok(Some(body)) => HttpAnswer { status: "200 OK", kind, body },
            // A column without any value. Browsers report 404 as an error.
            Ok(None) if is_column(name) => HttpAnswer { status: "204 No Content", kind, body: Vec::new() },
            Ok(None) => HttpAnswer::refusal("404 Not Found"),
            // The page shows why.
            Err(why) => HttpAnswer {
                status: "503 Service Unavailable",
                kind: "text/plain; charset=utf-8",
                body: why.into_bytes(),
            },
        }
    }
}

/// Reads until a moment: a request that comes byte by byte has no more time than one that does not come.
struct TimedReader<'a> {
    stream: &'a TcpStream,
    until: Instant,
}

impl Read for TimedReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        let mut stream = self.stream;
        stream.read(buffer)
    }
}

/// Whether a name is that of a column, which is left out if all its values are missing.
fn is_column(name: &str) -> bool {
    let words: Vec<&str> = name.split('/').collect();
    let is_number = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    let is_word =
        |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    match words.as_slice() {
        ["rows", rank, column, chunk] => [rank, column, chunk].iter().all(|word| is_number(word)),
        ["calls", rank, field] => is_number(rank) && is_word(field),
        _ => false,
    }
}

/// Whether two tokens are the same, in a time that does not depend on where they differ.
fn is_same(one: &str, other: &str) -> bool {
    let differing =
        one.bytes().zip(other.bytes()).fold(0, |differing, (one, other)| differing | (one ^ other));
    one.len() == other.len() && differing == 0
}

/// Reads a request. Nothing if the connection ended; the status of the answer if it is none.
fn read_request(reader: &mut impl BufRead) -> io::Result<Option<Result<HttpRequest, &'static str>>> {
    let mut limited = reader.by_ref().take(MAX_REQUEST);
    let line = |limited: &mut io::Take<_>| -> io::Result<Option<String>> {
        let mut bytes = Vec::new();
        BufRead::read_until(limited, b'\n', &mut bytes)?;
        let is_whole = bytes.last() == Some(&b'\n');
        Ok(is_whole.then(|| String::from_utf8_lossy(&bytes).trim_end().to_owned()))
    };
    let Some(first) = line(&mut limited)? else { return Ok(None) };
    let mut words = first.split(' ');
    let (Some(method), Some(path), Some("HTTP/1.1" | "HTTP/1.0"), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Ok(Some(Err("400 Bad Request")));
    };
    let closes = first.ends_with("1.0");
    let mut request = HttpRequest { method: method.to_owned(), path: path.to_owned(), host: None, closes };
    let mut hosts = 0;
    loop {
        let Some(header) = line(&mut limited)? else {
            return Ok(Some(Err("431 Request Header Fields Too Large")));
        };
        if header.is_empty() {
            break;
        }
        let Some((name, value)) = header.split_once(':') else { return Ok(Some(Err("400 Bad Request"))) };
        let value = value.trim();
        match name.to_ascii_lowercase().as_str() {
            "host" => {
                hosts += 1;
                request.host = Some(value.to_ascii_lowercase());
            }
            "connection" => request.closes |= value.eq_ignore_ascii_case("close"),
            // A body would be read as the next request.
            "content-length" | "transfer-encoding" => request.closes = true,
            _ => {}
        }
    }
    if hosts > 1 {
        return Ok(Some(Err("400 Bad Request")));
    }
    Ok(Some(Ok(request)))
}

/// Reads what is left of a request: a connection that is closed before is reset, and its answer may be lost.
fn drain(stream: &TcpStream) -> io::Result<()> {
    stream.shutdown(Shutdown::Write)?;
    stream.set_read_timeout(Some(DRAINING))?;
    io::copy(&mut stream.take(MAX_DRAINED), &mut io::sink())?;
    Ok(())
}

fn send(mut stream: &TcpStream, answer: &HttpAnswer, closes: bool) -> io::Result<()> {
    let HttpAnswer { status, kind, body } = answer;
    let connection = if closes { "close" } else { "keep-alive" };
    // 204 must not have a length.
    let length = if body.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\n{length}Connection: {connection}\r\n{HEADERS}\r\n"
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body)?;
    stream.flush()
}
