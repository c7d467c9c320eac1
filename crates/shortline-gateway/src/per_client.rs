//! How many connections one client address has open, and what happens beyond the limit.
//!
//! Who is turned away is told so: a complete 503, then the connection closes. What the client has sent by then, or
//! sends within [`PATIENCE`], is read first; closing over unread bytes would reset the connection and lose the answer.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::StatusCode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;

use crate::errors::{ErrorBody, ErrorObject, json_response};

/// How long a client that is turned away may take to send what it wanted to, and then to read the answer.
const PATIENCE: Duration = Duration::from_millis(500);

/// Open connections by client address.
#[derive(Clone, Default, Debug)]
pub(crate) struct PerClient(Arc<Mutex<HashMap<IpAddr, u32>>>);

/// One connection of a client; its drop makes room for another.
#[derive(Debug)]
pub(crate) struct Entered {
    clients: Option<PerClient>,
    address: IpAddr,
}

impl PerClient {
    /// One more connection; `None`: there are `most` already. Without a limit nothing is counted.
    pub(crate) fn enter(&self, address: IpAddr, most: Option<u32>) -> Option<Entered> {
        let address = address.to_canonical();
        let Some(most) = most else { return Some(Entered { clients: None, address }) };
        let mut open = self.lock();
        let count = open.entry(address).or_default();
        if *count >= most {
            return None;
        }
        *count += 1;
        drop(open);
        Some(Entered { clients: Some(self.clone()), address })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<IpAddr, u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let Some(clients) = &self.clients else { return };
        let mut open = clients.lock();
        if let Some(count) = open.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.address);
            }
        }
    }
}

/// Tells a client that it has too many connections.
pub(crate) async fn turn_away(mut stream: TcpStream, socket: Option<OwnedSemaphorePermit>) {
    let said = async {
        let mut thrown = [0; 4096];
        if stream.read(&mut thrown).await? == 0 {
            return Ok(());
        }
        stream.write_all(&answer()).await?;
        stream.shutdown().await?;
        while stream.read(&mut thrown).await? > 0 {}
        Ok::<_, std::io::Error>(())
    };
    match tokio::time::timeout(2 * PATIENCE, said).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "a client that was turned away has gone"),
        Err(_) => tracing::debug!("a client that was turned away does not go"),
    }
    drop((stream, socket));
}

fn answer() -> Vec<u8> {
    let error = ErrorObject {
        code: "too_many_connections",
        message: "this client has as many connections as it may have; use one of them",
        kind: "overloaded_error",
    };
    let body = json_response(StatusCode::SERVICE_UNAVAILABLE, &ErrorBody { error }).into_body();
    let mut answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: 1\r\n\
         connection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    )
    .into_bytes();
    answer.extend_from_slice(&body);
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_address_has_its_own_count_and_those_that_leave_are_forgotten() {
        let clients = PerClient::default();
        let [a, b] = ["10.0.0.1", "10.0.0.2"].map(|ip| ip.parse::<IpAddr>().unwrap());
        let first = clients.enter(a, Some(2)).unwrap();
        let _second = clients.enter("::ffff:10.0.0.1".parse().unwrap(), Some(2)).unwrap();
        assert!(clients.enter(a, Some(2)).is_none(), "the same address, written as IPv6");
        drop(clients.enter(b, Some(2)).unwrap());
        drop(first);
        drop(clients.enter(a, Some(2)).unwrap());
        assert_eq!(clients.lock().len(), 1);
    }
}
