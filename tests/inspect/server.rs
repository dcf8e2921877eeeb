//! A scripted server: its answer is a function of the host, the path and how often that was
//! requested.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;

pub struct Server {
    pub port: u16,
    asked: Receiver<String>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Answers at all addresses of 127/8, each of which is a host.
    pub fn start(answer: impl Fn(&str, &str, usize) -> String + Send + 'static) -> Server {
        let listener = TcpListener::bind("0.0.0.0:0").expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let (tell, asked) = channel();
        let thread = std::thread::spawn(move || {
            let mut counts: BTreeMap<String, usize> = BTreeMap::new();
            for stream in listener.incoming() {
                let mut stream = stream.expect("a connection");
                let (mut request, mut byte) = (Vec::new(), [0]);
                while !request.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap_or(0) == 1 {
                    request.push(byte[0]);
                }
                let text = String::from_utf8_lossy(&request);
                let path = text.split(' ').nth(1).unwrap_or_default().to_owned();
                if path == "/stop" {
                    return;
                }
                let host = stream.local_addr().expect("an address").ip().to_string();
                let count = counts.entry(format!("{host}{path}")).or_default();
                let answer = answer(&host, &path, *count);
                *count += 1;
                // A crawler that was killed reads no answer.
                let _ = stream.write_all(answer.as_bytes());
                let _ = tell.send(format!("{host}{path}"));
            }
        });
        Server { port, asked, thread: Some(thread) }
    }

    pub fn url(&self, host: &str, path: &str) -> String {
        format!("http://{host}:{}{path}", self.port)
    }

    /// Returns what was requested since the last call, in order, without robots.txt.
    pub fn asked(&self) -> Vec<String> {
        self.asked.try_iter().filter(|asked| !asked.ends_with("/robots.txt")).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port)) {
            let _ = stream.write_all(b"GET /stop HTTP/1.1\r\n\r\n");
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

pub fn answer(status: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/html\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{body}"
    )
}

pub fn page(links: &[&str]) -> String {
    let links: String = links.iter().map(|link| format!("<a href=\"{link}\">x</a> ")).collect();
    answer("200 OK", &links)
}
