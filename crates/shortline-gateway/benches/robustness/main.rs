//! What the gateway does when servers die or hang, when too much comes in, and when clients are many or slow.
//!
//! `cargo bench -p shortline-gateway --bench robustness [-- --short] [-- SCENARIO...]`: each scenario starts a gateway
//! and servers as processes of their own (this program in other roles), sends requests from here, and prints its
//! figures and `pass` or `FAIL`; the program ends with 1 if one fails. `--short` runs the same in small.
//!
//! All the while a thread asks the admin address for `/status`, `/metrics` and `/healthz` every 100 ms. `answered`
//! means: a status came. No answer within [`client::PATIENCE`], or a connection closed before a status, is `lost`.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a measuring program reports by printing and panicking")]

mod client;
mod poller;
mod processes;
mod roles;
mod scenarios;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["server", listen, kind] => roles::server(listen, kind),
        ["gateway", listen, admin, fleet] => roles::gateway(listen, admin, fleet),
        _ => {
            let is_short = words.contains(&"--short");
            let names: Vec<&str> = words.into_iter().filter(|&word| word != "--short").collect();
            return scenarios::run(&names, is_short);
        }
    }
    ExitCode::SUCCESS
}
