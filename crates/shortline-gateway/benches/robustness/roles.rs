//! The processes beside the one that measures: a server, and the gateway.

use std::sync::Arc;
use std::time::Duration;

use shortline_core::fleet::{Source, read};
use shortline_gateway::{Gateway, Options, raise_descriptor_limit, shutdown};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::client::ANSWER;

/// Client connections the gateway takes: more than a third of the descriptors, since it has few to servers here.
const CONNECTIONS: usize = 12_000;
/// Size of a large answer.
const LARGE: usize = 100 << 20;
/// Connections that a server lets wait: a thousand come at once.
const BACKLOG: i32 = 4096;
/// What the system may hold of an answer that is not read. By itself it takes 2.5 MiB where packets are as large as on
/// loopback; servers of other machines would not take it from the gateway's.
const SEND_BUFFER: usize = 64 << 10;

fn block_on(threads: usize, future: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build().unwrap().block_on(future);
}

/// Serves a fleet file on these addresses until it is killed.
pub(crate) fn gateway(listen: &str, admin: &str, fleet: &str) {
    raise_descriptor_limit().unwrap();
    let text = std::fs::read_to_string(fleet).unwrap();
    let loaded = read(&Source { name: fleet, text: &text }, &|path| std::fs::read_to_string(path)).unwrap();
    block_on(2, async {
        let options = Options { connections: Some(CONNECTIONS), ..Options::new(Arc::new(loaded.fleet)) };
        let gateway = Arc::new(Gateway::new(options).unwrap());
        let (_trigger, shutdown) = shutdown();
        let admin = std::net::TcpListener::bind(admin).unwrap();
        let listener = TcpListener::bind(listen).await.unwrap();
        gateway.serve(listener, Some(admin), shutdown, Duration::ZERO).await.unwrap();
    });
}

/// A server until it is killed: `hang` never answers, `large` answers with 100 MiB, a number is the milliseconds one
/// request takes, one after the other (0: at once).
pub(crate) fn server(listen: &str, kind: &str) {
    raise_descriptor_limit().unwrap();
    block_on(1, async {
        let listener = TcpListener::bind(listen).await.unwrap();
        socket2::SockRef::from(&listener).listen(BACKLOG).unwrap();
        let (slot, kind) = (Arc::new(Semaphore::new(1)), Arc::<str>::from(kind));
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            tokio::spawn(answer(stream, Arc::clone(&slot), Arc::clone(&kind)));
        }
    });
}

async fn answer(mut stream: TcpStream, slot: Arc<Semaphore>, kind: Arc<str>) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    socket2::SockRef::from(&stream).set_send_buffer_size(SEND_BUFFER)?;
    let (mut request, mut read) = (vec![0; 16384], 0);
    loop {
        match stream.read(&mut request[read..]).await? {
            0 => return Ok(()),
            n => read += n,
        }
        if !request[..read].ends_with(b"\r\n\r\n") {
            continue;
        }
        read = 0;
        match &*kind {
            "hang" => std::future::pending().await,
            "large" => {
                stream.write_all(format!("HTTP/1.1 200 OK\r\ncontent-length: {LARGE}\r\n\r\n").as_bytes()).await?;
                let piece = vec![b'x'; 64 << 10];
                for _ in 0..LARGE / piece.len() {
                    stream.write_all(&piece).await?;
                }
            }
            millis => {
                let millis = millis.parse().expect("milliseconds");
                if millis > 0 {
                    let _slot = slot.acquire().await.expect("never closed");
                    tokio::time::sleep(Duration::from_millis(millis)).await;
                }
                let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", ANSWER.len());
                stream.write_all(&[head.as_bytes(), ANSWER].concat()).await?;
            }
        }
    }
}
