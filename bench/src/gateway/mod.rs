//! Compares the gateway with no proxy, nginx and LiteLLM, all in front of the same model, which answers at once.

mod load;
mod model;
mod proxies;
mod recorded;

use std::time::{Duration, Instant};

use self::load::{Conversation, Size};
use self::model::Model;
use self::proxies::{Proxy, litellm, lookback, nginx};
use crate::median;

pub use self::recorded::run as recorded;

/// The number of concurrent conversations when requests are counted.
const AT_ONCE: usize = 16;
/// The time in which requests are counted, in seconds.
const SECONDS: f64 = 6.0;

pub fn run(part: Option<&str>) {
    let is_asked = |name| part.is_none_or(|part| part == name);
    let model = Model::start();
    let proxies: Vec<Proxy> =
        [Some(Proxy::none(&model)), Some(nginx(&model)), Some(lookback(&model, &[])), litellm(&model)]
            .into_iter()
            .flatten()
            .collect();
    if is_asked("times") {
        println!("Chat requests of one conversation through each proxy, one after the other: the whole time\n");
        times(&proxies, Size::SMALL, 600, Duration::ZERO);
        times(&proxies, Size::LARGE, 60, Duration::ZERO);
        println!("Streams: the time to the first byte\n");
        first_bytes(&proxies, 400);
    }
    if is_asked("lines") {
        // LiteLLM is left out. It takes more than a second for a request of many messages, and in that time all caches
        // become cold.
        let proxies = proxies.get(..3).expect("nothing, nginx and Lookback");
        for (pause, rounds) in [(Duration::ZERO, 100), (Duration::from_secs(1), 40)] {
            println!(
                "Requests with few long messages and with many short ones, {pause:?} after the previous request\n"
            );
            times(proxies, Size::FEW, rounds, pause);
            times(proxies, Size::MANY, rounds, pause);
        }
    }
    if is_asked("throughput") {
        println!("Requests per second, with {AT_ONCE} conversations at once\n");
        for size in [Size::SMALL, Size::LARGE] {
            throughput(&proxies, size);
        }
    }
}

/// Prints the times of many slow streams at once, and the memory of the proxies.
pub fn streams() {
    const PAUSE: Duration = Duration::from_millis(50);
    let model = Model::with_pause(PAUSE);
    println!("Streams of 22 pieces, {} ms apart: the time of a whole stream\n", PAUSE.as_millis());
    println!("{:>16} {:>8} {:>10} {:>10} {:>10} {:>12}", "", "at once", "p50", "p99", "longest", "memory");
    for proxy in [Proxy::none(&model), nginx(&model), lookback(&model, &[])] {
        for at_once in [1, 100, 1_000] {
            let mut times: Vec<f64> = std::thread::scope(|scope| {
                let talk = |number: u64| {
                    let base = &proxy.base;
                    let talk = move || {
                        // The clients connect one after the other, because a listener queues only a few of them.
                        std::thread::sleep(Duration::from_micros(number * 500));
                        let mut talk = Conversation::new(base, Size::TINY);
                        let begun = Instant::now();
                        talk.say(true);
                        begun.elapsed().as_secs_f64() * 1e3
                    };
                    let thread = std::thread::Builder::new().stack_size(256 << 10);
                    thread.spawn_scoped(scope, talk).expect("a thread")
                };
                let threads: Vec<_> = (0..at_once).map(talk).collect();
                threads.into_iter().map(|thread| thread.join().expect("a client")).collect()
            });
            times.sort_by(f64::total_cmp);
            let at = |share: usize| times[(times.len() - 1) * share / 100];
            let memory = proxy.megabytes().map_or_else(String::new, |memory| format!("{memory:.1} MB"));
            let (p50, p99, longest) = (at(50), at(99), at(100));
            println!("{:>16} {at_once:>8} {p50:>7.0} ms {p99:>7.0} ms {longest:>7.0} ms {memory:>12}", proxy.name);
        }
    }
}

/// Prints the times of the first and the tenth answer of a gateway that has just started to listen. Each answer is the
/// first of a new client.
pub fn first() {
    const ANSWERS: usize = 10;
    const GATEWAYS: usize = 20;
    let model = Model::start();
    // This call is a warm-up of the model and of this program.
    Conversation::new(&Proxy::none(&model).base, Size::TINY).say(false);
    let mut times = [const { Vec::new() }; ANSWERS];
    for _ in 0..GATEWAYS {
        let proxy = lookback(&model, &[]);
        for times in &mut times {
            let mut talk = Conversation::new(&proxy.base, Size::TINY);
            let begun = Instant::now();
            talk.say(false);
            times.push(begun.elapsed().as_secs_f64() * 1e3);
        }
    }
    let [first, tenth] = [0, ANSWERS - 1].map(|at| median(times[at].iter().copied()));
    println!("{GATEWAYS} gateways that have just started to listen, requests of 1 KB\n");
    println!("first answer {first:.2} ms, tenth answer {tenth:.2} ms: {:.2} times as long", first / tenth);
}

/// Prints the memory of Lookback during many requests of many sessions.
pub fn memory() {
    const REQUESTS: usize = 100_000;
    const STEPS: usize = 10;
    let model = Model::start();
    let proxy = lookback(&model, &[]);
    println!("Memory of Lookback during {REQUESTS} requests of {} sessions\n", REQUESTS / STEPS);
    println!("{:>12} {:>12} {:>12}", "requests", "memory", "requests/s");
    let tenth = REQUESTS / 10;
    for part in 0..=10 {
        let begun = Instant::now();
        std::thread::scope(|scope| {
            let talk = || {
                let mut talk = Conversation::new(&proxy.base, Size::TINY).with_steps(STEPS);
                for _ in 0..tenth / AT_ONCE {
                    talk.say(false);
                }
            };
            (0..if part == 0 { 0 } else { AT_ONCE }).for_each(|_| drop(scope.spawn(talk)));
        });
        let rate = if part == 0 { 0.0 } else { tenth as f64 / begun.elapsed().as_secs_f64() };
        println!("{:>12} {:>9.1} MB {rate:>12.0}", part * tenth, proxy.megabytes().unwrap_or(f64::NAN));
    }
}

/// Prints the times of requests, each sent after a pause.
fn times(proxies: &[Proxy], size: Size, rounds: usize, pause: Duration) {
    let mut talks: Vec<(Conversation, Vec<f64>)> =
        proxies.iter().map(|proxy| (Conversation::new(&proxy.base, size), Vec::new())).collect();
    for round in 0..rounds {
        for (talk, times) in &mut talks {
            std::thread::sleep(pause);
            let begun = Instant::now();
            talk.say(false);
            // The first tenth of the requests is a warm-up of the connections and programs.
            if round >= rounds / 10 {
                times.push(begun.elapsed().as_secs_f64() * 1e3);
            }
        }
    }
    table(proxies, &talks, size);
}

/// Prints the times to the first byte of streams.
fn first_bytes(proxies: &[Proxy], rounds: usize) {
    let mut talks: Vec<(Conversation, Vec<f64>)> =
        proxies.iter().map(|proxy| (Conversation::new(&proxy.base, Size::SMALL), Vec::new())).collect();
    for round in 0..rounds {
        for (talk, times) in &mut talks {
            let first = talk.say(true);
            if round >= rounds / 10 {
                times.push(first * 1e3);
            }
        }
    }
    table(proxies, &talks, Size::SMALL);
}

fn table(proxies: &[Proxy], talks: &[(Conversation, Vec<f64>)], size: Size) {
    println!("{:>24} {:>12} {:>12} {:>12}", size.name, "p50", "p99", "beside nginx");
    let nginx = talks.get(1).map_or(f64::NAN, |(_, times)| median(times.iter().copied()));
    for (proxy, (_, times)) in proxies.iter().zip(talks) {
        let mut sorted = times.clone();
        sorted.sort_by(f64::total_cmp);
        let p99 = sorted[sorted.len() * 99 / 100];
        let p50 = median(sorted);
        println!("{:>24} {p50:>9.3} ms {p99:>9.3} ms {:>12.2}", proxy.name, p50 / nginx);
    }
    println!();
}

/// Prints the requests per second.
fn throughput(proxies: &[Proxy], size: Size) {
    println!("{:>24} {:>12} {:>12}", size.name, "requests/s", "beside nginx");
    let mut counts = Vec::new();
    for proxy in proxies {
        let begun = Instant::now();
        let counted: usize = std::thread::scope(|scope| {
            let talk = |_| {
                scope.spawn(|| {
                    let mut count = 0;
                    let mut talk = Conversation::new(&proxy.base, size);
                    while begun.elapsed().as_secs_f64() < SECONDS {
                        talk.say(false);
                        count += 1;
                    }
                    count
                })
            };
            let threads: Vec<_> = (0..AT_ONCE).map(talk).collect();
            threads.into_iter().map(|thread| thread.join().expect("a client")).sum()
        });
        counts.push(counted as f64 / begun.elapsed().as_secs_f64());
    }
    for (proxy, count) in proxies.iter().zip(&counts) {
        println!("{:>24} {count:>12.0} {:>12.2}", proxy.name, count / counts[1]);
    }
    println!();
}
