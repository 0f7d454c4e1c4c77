//! A proxy between a store and its server, which counts round trips, delays answers, and cuts connections.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// When the connection of the next request is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    Never = 0,
    /// Before the request reaches the server.
    Request = 1,
    /// In the middle of the request.
    Midway = 2,
    /// After the server has carried out the request, and before the answer is back.
    Answer = 3,
    /// After the first byte of the answer.
    MidAnswer = 4,
}

#[derive(Default)]
struct State {
    cut: AtomicUsize,
    /// Milliseconds before an answer is forwarded.
    delay: AtomicU64,
    trips: AtomicUsize,
    /// Whether the last bytes went to the server, not to the client.
    asked: AtomicBool,
    /// Whether one byte of the answer is forwarded before the connection is cut.
    begins_answer: AtomicBool,
}

pub(crate) struct Proxy {
    state: Arc<State>,
    pub(crate) port: u16,
}

impl Proxy {
    pub(crate) fn to(server: u16) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(State::default());
        let shared = state.clone();
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let (client, state) = (client.unwrap(), shared.clone());
                if let Ok(server) = TcpStream::connect(("127.0.0.1", server)) {
                    std::thread::spawn(move || forward(client, server, &state));
                }
            }
        });
        Proxy { state, port }
    }

    /// Cuts the connection of the next request.
    pub(crate) fn cut(&self, cut: Cut) {
        self.state.cut.store(cut as usize, Ordering::SeqCst);
    }

    /// Whether the requested cut has happened.
    pub(crate) fn has_cut(&self) -> bool {
        self.state.cut.load(Ordering::SeqCst) == Cut::Never as usize
    }

    pub(crate) fn delay(&self, milliseconds: u64) {
        self.state.delay.store(milliseconds, Ordering::SeqCst);
    }

    /// The round trips since the last call.
    pub(crate) fn trips(&self) -> usize {
        self.state.trips.swap(0, Ordering::SeqCst)
    }
}

fn forward(client: TcpStream, server: TcpStream, state: &Arc<State>) {
    for stream in [&client, &server] {
        stream.set_nodelay(true).unwrap();
    }
    let (mut answers, mut to_client) = (server.try_clone().unwrap(), client.try_clone().unwrap());
    let shared = state.clone();
    let closing = Arc::new(AtomicBool::new(false));
    let closed = closing.clone();
    let back = std::thread::spawn(move || {
        let mut bytes = vec![0; 1 << 16];
        while let Ok(length) = answers.read(&mut bytes) {
            if length == 0 {
                break;
            }
            if closed.load(Ordering::SeqCst) {
                if shared.begins_answer.swap(false, Ordering::SeqCst) {
                    let _ = to_client.write_all(&bytes[..1]);
                }
                break;
            }
            std::thread::sleep(Duration::from_millis(shared.delay.load(Ordering::SeqCst)));
            shared.asked.store(false, Ordering::SeqCst);
            if to_client.write_all(&bytes[..length]).is_err() {
                break;
            }
        }
        let _ = to_client.shutdown(Shutdown::Both);
    });
    let (mut requests, mut to_server) = (client, server);
    let mut bytes = vec![0; 1 << 16];
    while let Ok(length) = requests.read(&mut bytes) {
        if length == 0 {
            break;
        }
        if !state.asked.swap(true, Ordering::SeqCst) {
            state.trips.fetch_add(1, Ordering::SeqCst);
        }
        let cut = state.cut.swap(Cut::Never as usize, Ordering::SeqCst);
        let sent = match cut {
            1 => 0,
            2 => length / 2,
            _ => length,
        };
        let in_answer = cut == Cut::Answer as usize || cut == Cut::MidAnswer as usize;
        if in_answer {
            state.begins_answer.store(cut == Cut::MidAnswer as usize, Ordering::SeqCst);
            closing.store(true, Ordering::SeqCst);
        }
        if to_server.write_all(&bytes[..sent]).is_err() {
            break;
        }
        if in_answer {
            // The server answers when it is done. The thread above reads the answer and discards it.
            let _ = back.join();
            let _ = requests.shutdown(Shutdown::Both);
            let _ = to_server.shutdown(Shutdown::Both);
            return;
        }
        if cut != Cut::Never as usize {
            break;
        }
    }
    let _ = requests.shutdown(Shutdown::Both);
    let _ = to_server.shutdown(Shutdown::Both);
}
