//! A scripted server in the simulator: it gives one answer per connection, by a script that sees
//! the time. Hosts are addresses, so that no name server is needed.

#![allow(dead_code)] // each test file uses its part
use nephila::base::Time;
use nephila::io::sim::Sim;
use nephila::io::{Clock, Listener, Net, Spawn, Stream};
use std::cell::RefCell;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

/// What the server saw of a request.
#[derive(Clone, Debug)]
pub struct Asked {
    pub at: Time,
    pub to: IpAddr,
    pub path: String,
    pub head: String,
}

impl Asked {
    /// The whole seconds since the first of all requests.
    pub fn second(&self, first: &Asked) -> u64 {
        self.at.since(first.at).as_secs()
    }
}

pub type Seen = Rc<RefCell<Vec<Asked>>>;

/// What the server does.
pub enum Act {
    /// Sends this after a while, and closes the connection.
    Say(String, Duration),
    /// Sends this, keeps the connection, and closes it without an answer at the next request.
    Keep(String),
    /// Sends this and nothing more, and keeps the connection open until the client closes it.
    Stall(Vec<u8>),
    /// Closes the connection at once.
    Hang,
}

pub fn say(text: impl Into<String>) -> Act {
    Act::Say(text.into(), Duration::ZERO)
}

/// Returns a response with a body.
pub fn body(status: &str, body: &str) -> Act {
    let length = body.len();
    say(format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"))
}

/// Returns a page with these links.
pub fn page(links: &[&str]) -> Act {
    let html: String = links.iter().map(|href| format!("<a href=\"{href}\">x</a> ")).collect();
    body("200 OK\r\nContent-Type: text/html", &html)
}

/// Answers at every address on port 80.
pub fn serve(sim: &Sim, script: impl Fn(&Asked) -> Act + 'static) -> Seen {
    let seen = Seen::default();
    let script: Rc<dyn Fn(&Asked) -> Act> = Rc::new(script);
    for anywhere in [IpAddr::from([0; 4]), IpAddr::from([0u16; 8])] {
        serve_at(sim, anywhere, seen.clone(), script.clone());
    }
    seen
}

fn serve_at(sim: &Sim, at: IpAddr, log: Seen, script: Rc<dyn Fn(&Asked) -> Act>) {
    let world = sim.world(1_000);
    let listener = world.listen(SocketAddr::new(at, 80)).expect("a free port");
    let host = world.clone();
    world.spawn(async move {
        while let Ok(mut stream) = listener.accept().await {
            let (log, script, world) = (log.clone(), script.clone(), host.clone());
            host.spawn(async move {
                let Some(asked) = next(&mut stream, &world).await else { return };
                log.borrow_mut().push(asked.clone());
                // A client that has closed the connection does not need the rest.
                match script(&asked) {
                    Act::Say(text, after) => {
                        world.sleep_until(asked.at + after).await;
                        let _ = stream.send(text.into_bytes(), Time::NEVER).await;
                    }
                    Act::Keep(text) => {
                        let _ = stream.send(text.into_bytes(), Time::NEVER).await;
                        let asked = next(&mut stream, &world).await;
                        log.borrow_mut().extend(asked);
                    }
                    Act::Stall(bytes) => {
                        let _ = stream.send(bytes, Time::NEVER).await;
                        while let Ok(Some(_)) = stream.receive(Time::NEVER).await {}
                    }
                    Act::Hang => {}
                }
            });
        }
    });
}

/// The next request of a connection, if one comes.
async fn next<S: Stream>(stream: &mut S, clock: &impl Clock) -> Option<Asked> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.receive(Time::NEVER).await {
            Ok(Some(chunk)) => head.extend_from_slice(&chunk),
            _ => return None,
        }
    }
    let head = String::from_utf8(head).expect("text");
    let path = head.split(' ').nth(1).expect("a target").to_owned();
    Some(Asked { at: clock.now(), to: stream.local().ip(), path, head })
}
