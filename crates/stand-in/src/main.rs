//! The stand-in as a program, for clients in other languages.

use std::net::SocketAddr;

use clap::Parser;
use stand_in::{Fault, StandIn};

/// Stands in for model providers: enforces their rules, counts tokens, and follows a script.
///
/// `GET /stand-in/report` reports what it has seen, and `GET /stand-in/requests` has the bodies of all requests.
/// `POST /stand-in/faults` makes the next requests fail.
#[derive(Debug, Parser)]
struct Args {
    /// The address to listen on.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// The most tokens of a request.
    #[arg(long)]
    window: Option<u64>,
    /// How to treat the first requests, in order.
    #[arg(long, value_delimiter = ',')]
    faults: Vec<Fault>,
}

fn main() -> std::io::Result<()> {
    let args = Args::parse();
    let stand_in = StandIn::default();
    stand_in.set_window(args.window);
    args.faults.into_iter().for_each(|fault| stand_in.fail_next(fault));
    stand_in.serve(args.listen, |address| eprintln!("listening on http://{address}"))
}
