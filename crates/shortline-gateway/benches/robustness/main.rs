//! What the gateway does when servers die or hang, when too much comes in, and when clients are many, slow or silent.
//!
//! `cargo bench -p shortline-gateway --bench robustness [-- [--short] [SCENARIO...]]`: each scenario starts a gateway
//! and servers as processes of their own (this program in other roles), sends requests from here, and prints its
//! figures and `pass` or `FAIL`; the program ends with 1 if one fails. `cargo test` runs it as `--short`: the same in
//! small, in which only what must be exact on any machine is judged (answers, counts, memory), and times are printed.
//!
//! `answered` means: a status and the whole, right body. No answer within [`client::PATIENCE`], a connection closed
//! before the end of the answer, or another body than the server's or the gateway's own is `lost`.
//!
//! All the while a thread asks the admin address, see [`poller`].

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a measuring program reports by printing and panicking")]

mod client;
mod poller;
mod processes;
mod report;
mod roles;
mod scenarios;
mod slow;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["server", listen, kind] => roles::server(listen, kind),
        ["gateway", listen, admin, fleet] => roles::gateway(listen, admin, fleet),
        _ => {
            let (flags, names): (Vec<&str>, Vec<&str>) = words.into_iter().partition(|word| word.starts_with("--"));
            // `cargo bench` says so, `cargo test` does not; its names are parts of names, of this program's tests or not.
            let is_test = !flags.contains(&"--bench");
            if !is_test {
                scenarios::assert_exist(&names);
            }
            return scenarios::run(&names, is_test || flags.contains(&"--short"));
        }
    }
    ExitCode::SUCCESS
}
