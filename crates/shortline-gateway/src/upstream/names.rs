//! Servers that are named, when the name has moved.
//!
//! A new connection looks the name up anew, so that it goes to where the server is now. Open connections would go on being
//! used as long as there is traffic: so names are looked up every [`EVERY`] as well, and connections that nobody uses to
//! addresses which the name no longer has are closed (those of HTTP/2 take no more requests). Requests under way run on.
//! A lookup that fails, or finds nothing, closes nothing: the name may be as good as before.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use super::{Target, Upstream};
use crate::dispatch::Dispatch;

/// How often names are looked up.
const EVERY: Duration = Duration::from_secs(30);

/// Most time for one lookup.
const LOOKUP: Duration = Duration::from_secs(5);

/// Looks the names of the servers in service up every [`EVERY`], one after the other, for ever.
pub(crate) async fn follow(dispatch: &Dispatch, resolve: &impl AsyncFn(&str, u16) -> io::Result<Vec<SocketAddr>>) {
    loop {
        tokio::time::sleep(EVERY).await;
        let epoch = dispatch.epoch();
        for server in epoch.servers() {
            server.upstream().follow(resolve).await;
        }
    }
}

/// The system's resolver.
pub(crate) async fn system(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    Ok(tokio::net::lookup_host((host, port)).await?.collect())
}

impl Upstream {
    /// Looks its name up, if it has one, and closes what leads elsewhere.
    async fn follow(&self, resolve: &impl AsyncFn(&str, u16) -> io::Result<Vec<SocketAddr>>) {
        let Target::Name(host, port) = &self.target else { return };
        match tokio::time::timeout(LOOKUP, resolve(host, *port)).await {
            Ok(Ok(found)) if !found.is_empty() => self.keep_only(&found),
            Ok(Ok(_)) => tracing::debug!(host, "a server's name has no address"),
            Ok(Err(error)) => tracing::debug!(host, %error, "cannot look a server's name up"),
            Err(_) => tracing::debug!(host, "looking a server's name up takes too long"),
        }
    }

    fn keep_only(&self, addresses: &[SocketAddr]) {
        let leads_elsewhere = |peer: IpAddr| addresses.iter().all(|address| address.ip() != peer);
        let closed = {
            let mut pool = self.lock();
            let idle: Vec<_> = pool.idle.extract_if(.., |connection| leads_elsewhere(connection.peer())).collect();
            pool.unused = pool.unused.min(pool.idle.len());
            let shared: Vec<_> = pool.shared.extract_if(.., |shared| leads_elsewhere(shared.peer())).collect();
            (idle, shared)
        };
        drop(closed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use shortline_core::fleet::settings::Address;
    use tokio::io::AsyncReadExt;
    use tokio::net::TcpListener;
    use tokio::sync::Semaphore;

    use super::*;
    use crate::gateway::{Gateway, Options};
    use crate::put_server::PutServer;
    use crate::testing::{fleet, server, server_type};
    use crate::upstream::Endpoint;

    /// `a` at the name `gpu-a`, `b` at an address, `c` (put later) at the name `gpu-c`; a look-up of `gpu-a` hangs.
    #[tokio::test(start_paused = true)]
    async fn names_are_looked_up_every_half_minute_in_whatever_fleet_is_in_service() {
        let at = |host: &str| Address::new(false, host, 8000);
        let mut parts = fleet(
            vec![server_type("t", 1.0)],
            vec![server("a", 0, None), server("b", 0, None)],
            &[&[0, 1]],
            Default::default(),
        );
        parts.servers[0].addresses = vec![at("gpu-a")];
        parts.servers[1].addresses = vec![at("10.0.0.1")];
        let gateway = Gateway::new(Options::new(Arc::new(shortline_core::Fleet::new(parts).unwrap()))).unwrap();
        let (began, asked) = (tokio::time::Instant::now(), std::sync::Mutex::new(Vec::new()));
        let resolve = async |host: &str, _: u16| {
            asked.lock().unwrap().push((began.elapsed().as_secs(), host.to_owned()));
            match host {
                "gpu-a" => std::future::pending().await,
                _ => Err(io::Error::other("no resolver")),
            }
        };
        let exchange = async {
            tokio::time::sleep(Duration::from_secs(70)).await;
            let (name, server_type) = ("c".to_owned(), "t".to_owned());
            let put = PutServer { name, server_type, address: at("gpu-c"), serves: vec!["*".into()], buffer: None };
            gateway.put_server(put).unwrap();
            tokio::time::sleep(Duration::from_secs(40)).await;
        };
        tokio::select! {
            () = follow(&gateway.dispatch, &resolve) => unreachable!("for ever"),
            () = exchange => {}
        }
        let expected = [(30, "gpu-a"), (65, "gpu-a"), (100, "gpu-a"), (105, "gpu-c")];
        assert_eq!(*asked.lock().unwrap(), expected.map(|(at_s, host)| (at_s, host.to_owned())));
    }

    #[tokio::test]
    async fn idle_connections_to_addresses_that_the_name_no_longer_has_are_closed() {
        let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = server.local_addr().unwrap().port();
        let tls = || panic!("an http address needs no TLS");
        let endpoint = Endpoint::new(&Address::new(false, "localhost", port), tls).unwrap();
        let upstream = Arc::new(Upstream::new("a", &endpoint));
        let sockets = Arc::new(Semaphore::new(1));
        let permit = Arc::clone(&sockets).acquire_owned().await.unwrap();
        upstream.connect(Duration::from_secs(5), permit).await.unwrap().give_back();
        let (mut other_end, _) = server.accept().await.unwrap();

        let here = SocketAddr::from(([127, 0, 0, 1], port));
        let elsewhere = SocketAddr::from(([127, 0, 0, 2], port));
        let open = || upstream.lock().idle.len();
        upstream.follow(&async |_, _| Ok(vec![elsewhere, here])).await;
        assert_eq!(open(), 1, "the address is still one of the name's");
        upstream.follow(&async |_, _| Err(io::Error::other("no resolver"))).await;
        upstream.follow(&async |_, _| Ok(Vec::new())).await;
        assert_eq!(open(), 1, "nothing is known");
        upstream
            .follow(&async |host, asked| {
                assert_eq!((host, asked), ("localhost", port));
                Ok(vec![elsewhere])
            })
            .await;
        assert_eq!(open(), 0);
        let end = tokio::time::timeout(Duration::from_secs(5), other_end.read(&mut [0])).await.unwrap();
        assert_eq!(end.unwrap(), 0, "the server sees it close");
    }
}
