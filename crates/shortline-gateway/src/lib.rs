//! Route real requests: the HTTP gateway of Shortline.
//!
//! The path of a request, file by file:
//! 1. `server` accepts the connection (HTTP/1.1 or HTTP/2 without TLS) and hands each request to `proxy`. In front of
//!    it `client_stream` lets nothing pass that could be read in two ways (`framing`, `chunked`), or comes too slowly, and
//!    sees a client's end behind bytes that nobody reads yet (`readable`).
//!    Who asks which `models` there are is answered without a server.
//! 2. `job_type` finds what kind of job it is: header, path, the `model` member of a JSON body (`model_scan` reads
//!    the body piece by piece, `request_body` holds the pieces), host.
//! 3. `dispatch` asks the core's dispatcher, the one the simulator uses, under one mutex. The answer is a guard
//!    (`in_flight`): a place at a server, or in line; whatever happens to the request, the guard's drop gives it back.
//!    Who waits is woken by its place, or when the `supply` of servers for its job type has changed.
//! 4. `headers` makes the request fit for the server, `upstream` sends it on a kept-alive connection (HTTP/1.1 or
//!    HTTP/2, with TLS or without) and waits for the answer as long as `[timeouts]` allows. HTTP/1.1 to servers is the
//!    gateway's own (`upstream::http1`): by way of the HTTP library a request cost 1.3 of a bare proxy's CPU, so 1.1.
//!    `attempts` sends it to another server if that fails and is safe (`retry`, `retry_budget`, `kept_body`).
//!    What it says before its answer passes by way of `hints`.
//! 5. `response_body` passes the answer on as it comes and, with its last byte, gives back place and connection; `paced`
//!    pauses it for a client that reads slowly.
//!    What cannot be served is refused (`errors`) with a complete JSON answer, or in gRPC's words (`grpc`). If the
//!    server switches the protocol, both connections become a `tunnel`
//!    (from clients over HTTP/2 by `websocket`).
//!    Clients gone are seen by `client_stream` (HTTP/1.1) and `streams` (HTTP/2); `alarm` keeps deadlines, `cut_off` the end
//!    of the grace, `write_together` small answers in one piece.
//! 6. `exchange` counts and logs the request once, by one word for its `outcome`.
//!
//! What belongs to one fleet is an `epoch`; what is kept by name from one to the next is a `fleet_server` and the
//! record of a job type (`stats`). `reload` exchanges the fleet, at the word of the file (of `regular_file`s only, `within` a
//! time) or of `orders` (`put_server`).
//!
//! How requests fare says how their server is: `breaker` is the state machine, `health` ties it to the dispatcher,
//! `lost_models` the models a server has lost; `checks` ask it, `operator` has the last word.
//!
//! Beside the traffic, on a thread of its own, `admin` shows `status`, `metrics`, the fleet as it was measured (`fleet_page`,
//! `service_times`) and, for people, the `dashboard`.
//!
//! Behind the feature `lab`: `emulate` plays a fleet's servers, `replay` sends open-loop traffic, `trace` reads
//! recorded requests.
//!
//! The access log is one `tracing` event a request, target `shortline::access`, level INFO; while nobody listens to
//! it, it costs one comparison.

mod admin;
mod alarm;
mod attempts;
mod breaker;
mod checks;
mod chunked;
mod client_stream;
mod cut_off;
mod dashboard;
mod descriptors;
mod dispatch;
#[cfg(feature = "lab")]
pub mod emulate;
mod epoch;
mod errors;
mod exchange;
mod fleet_page;
mod fleet_server;
mod gateway;
mod grpc;
mod headers;
mod health;
mod hints;
mod histogram;
mod in_flight;
mod job_type;
mod kept_body;
mod link;
mod lost_models;
mod metrics;
mod model_lost;
mod model_scan;
mod models;
mod operator;
mod orders;
mod outcome;
mod paced;
mod per_client;
mod proxy;
mod put_server;
mod rates;
mod regular_file;
mod reload;
#[cfg(feature = "lab")]
pub mod replay;
mod request_body;
mod response_body;
mod retry;
mod retry_budget;
mod server;
mod service_times;
mod shutdown;
mod stats;
mod status;
mod streams;
mod supply;
#[cfg(test)]
mod testing;
#[cfg(feature = "lab")]
pub mod trace;
mod tunnel;
mod upstream;
mod websocket;
mod within;
mod write_together;

pub use descriptors::raise_descriptor_limit;
pub use gateway::{Bound, BoundFn, Gateway, Options, StartError};
pub use put_server::PutServer;
pub use regular_file::open_regular_file;
pub use reload::{CompleteFleet, FleetRead, READ_AT_MOST, ReadFleet, ReloadError, Reloaded};
pub use server::Served;
pub use shutdown::{Shutdown, Trigger, shutdown};
pub use status::{JobTypeStatus, ServerStatus, Status};
pub use upstream::TlsError;
