//! TLS to servers: who is trusted, under which name, in which HTTP.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd};
use shortline_core::fleet::settings::{Address, Protocol, Settings};
use shortline_gateway::{Gateway, Options, StartError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

use crate::support::{PATIENCE, Plan, Running, call, get};

/// An authority, and the folder in which it is published as `ca.pem`.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: tempfile::TempDir,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("ca.pem"), issuer.pem()).unwrap();
        Self { issuer, folder }
    }

    /// A certificate for this name and its key.
    fn issue(&self, name: &str, change: impl FnOnce(&mut CertificateParams)) -> (rcgen::Certificate, KeyPair) {
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &self.issuer).unwrap(), key)
    }
}

/// A server over TLS that says what it is asked in.
struct Tls {
    address: SocketAddr,
    /// Names that were asked for.
    names: Arc<Mutex<Vec<Option<String>>>>,
}

impl Tls {
    async fn serving(
        (certificate, key): (rcgen::Certificate, KeyPair),
        protocols: &[&str],
        clients: Option<&Authority>,
    ) -> Self {
        let builder = ServerConfig::builder();
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(authority) => {
                let mut roots = RootCertStore::empty();
                roots.add(authority.issuer.der().clone()).unwrap();
                builder.with_client_cert_verifier(WebPkiClientVerifier::builder(Arc::new(roots)).build().unwrap())
            }
        };
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let mut config = builder.with_single_cert(vec![certificate.der().clone()], key).unwrap();
        config.alpn_protocols = protocols.iter().map(|p| p.as_bytes().to_vec()).collect();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let names = Arc::<Mutex<Vec<Option<String>>>>::default();
        let seen = Arc::clone(&names);
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (acceptor, seen) = (acceptor.clone(), Arc::clone(&seen));
                tokio::spawn(async move {
                    let Ok(mut stream) = acceptor.accept(stream).await else { return };
                    let session = stream.get_ref().1;
                    seen.lock().unwrap().push(session.server_name().map(str::to_owned));
                    if session.alpn_protocol() == Some(b"h2") {
                        let service = hyper::service::service_fn(|request: http::Request<_>| async move {
                            let text = format!("{:?} {}", request.version(), request.uri());
                            Ok::<_, std::convert::Infallible>(crate::http2::text(text))
                        });
                        let executor = hyper_util::rt::TokioExecutor::new();
                        let stream = hyper_util::rt::TokioIo::new(stream);
                        let serving =
                            hyper::server::conn::http2::Builder::new(executor).serve_connection(stream, service);
                        return drop(serving.await);
                    }
                    let mut byte = [0];
                    let mut head = Vec::new();
                    while stream.read_exact(&mut byte).await.is_ok() {
                        head.push(byte[0]);
                        if head.ends_with(b"\r\n\r\n") {
                            let line = String::from_utf8(std::mem::take(&mut head)).unwrap();
                            let line = line.lines().next().unwrap();
                            let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{line}", line.len());
                            stream.write_all(answer.as_bytes()).await.unwrap();
                            stream.flush().await.unwrap();
                        }
                    }
                });
            }
        });
        Self { address, names }
    }
}

fn options(server: SocketAddr, host: &str, folder: &Path, change: impl FnOnce(&mut Settings, &mut Address)) -> Options {
    let mut address = Address::new(true, host, server.port());
    let mut wishes = address.clone();
    let plan = Plan::new(&[("m", &[0])]).server("s", 1.0, None, server).settings(|settings| {
        settings.tls.ca_file = Some("ca.pem".into());
        change(settings, &mut wishes);
    });
    address.clone_from(&wishes);
    let policy = Some("jfsq".parse().unwrap());
    Options { policy, addresses: Some(vec![address]), folder: folder.to_owned(), ..Options::new(plan.fleet()) }
}

async fn asked(options: Options) -> (u16, String) {
    let running = Running::start(Gateway::new(options).unwrap(), PATIENCE).await;
    let answers = [call(running.address, get("m")).await, call(running.address, get("m")).await];
    running.settled().await;
    running.stop().await;
    let [first, second] = answers.map(|a| (a.status(), if a.status() == 200 { a.text() } else { a.error_code() }));
    assert_eq!(first, second);
    first
}

#[tokio::test]
async fn a_server_with_a_certificate_of_the_authority_is_spoken_to_in_what_both_can() {
    let authority = Authority::new();
    let folder = authority.folder.path();
    for (offered, wanted, spoken) in [
        (&["h2", "http/1.1"][..], Protocol::Auto, "HTTP/2.0 https://test/"),
        (&["http/1.1"], Protocol::Auto, "GET / HTTP/1.1"),
        (&[], Protocol::Auto, "GET / HTTP/1.1"),
        (&["h2", "http/1.1"], Protocol::Http1, "GET / HTTP/1.1"),
        (&["h2"], Protocol::Http2, "HTTP/2.0 https://test/"),
    ] {
        let server = Tls::serving(authority.issue("localhost", |_| ()), offered, None).await;
        let options = options(server.address, "localhost", folder, |_, address| address.protocol = wanted);
        assert_eq!(asked(options).await, (200, spoken.to_owned()), "{offered:?} {wanted:?}");
        let names = server.names.lock().unwrap().clone();
        assert_eq!(names, [Some("localhost".to_owned())], "one handshake, one connection for both requests");
    }
}

#[tokio::test]
async fn the_name_that_is_asked_for_is_the_host_unless_another_is_given() {
    let authority = Authority::new();
    let server = Tls::serving(authority.issue("gpu.internal", |_| ()), &[], None).await;
    let named = options(server.address, "127.0.0.1", authority.folder.path(), |_, address| {
        address.tls_name = Some("gpu.internal".into());
    });
    assert_eq!(asked(named).await.0, 200);
    assert_eq!(server.names.lock().unwrap()[0].as_deref(), Some("gpu.internal"));
    let by_address = Tls::serving(authority.issue("127.0.0.1", |_| ()), &[], None).await;
    assert_eq!(asked(options(by_address.address, "127.0.0.1", authority.folder.path(), |_, _| ())).await.0, 200);
}

#[tokio::test]
async fn a_server_that_cannot_prove_who_it_is_is_not_spoken_to() {
    let (authority, other) = (Authority::new(), Authority::new());
    let folder = authority.folder.path();
    let refused = (502, "upstream_connect".to_owned());
    let expired = |params: &mut CertificateParams| {
        (params.not_before, params.not_after) = (date_time_ymd(2001, 1, 1), date_time_ymd(2002, 1, 1));
    };
    for (what, certificate) in [
        ("another authority", other.issue("localhost", |_| ())),
        ("another name", authority.issue("else.where", |_| ())),
        ("expired", authority.issue("localhost", expired)),
    ] {
        let server = Tls::serving(certificate, &["h2"], None).await;
        assert_eq!(asked(options(server.address, "localhost", folder, |_, _| ())).await, refused, "{what}");
        assert!(server.names.lock().unwrap().is_empty(), "{what}");
        let unverified = options(server.address, "localhost", folder, |settings, _| settings.tls.verify = false);
        assert_eq!(asked(unverified).await.0, 200, "{what}, but nobody looks");
    }
    let http1 = Tls::serving(authority.issue("localhost", |_| ()), &["http/1.1"], None).await;
    let wants_http2 = options(http1.address, "localhost", folder, |_, address| address.protocol = Protocol::Http2);
    assert_eq!(asked(wants_http2).await, refused);
}

#[tokio::test]
async fn a_server_that_asks_for_the_gateways_certificate_gets_it() {
    let authority = Authority::new();
    let folder = authority.folder.path();
    let (certificate, key) = authority.issue("gateway", |_| ());
    std::fs::write(folder.join("own.pem"), certificate.pem()).unwrap();
    std::fs::write(folder.join("own.key"), key.serialize_pem()).unwrap();
    let server = Tls::serving(authority.issue("localhost", |_| ()), &[], Some(&authority)).await;
    let with = options(server.address, "localhost", folder, |settings, _| {
        settings.tls.identity = Some(("own.pem".into(), "own.key".into()));
    });
    assert_eq!(asked(with).await.0, 200);
    let without = options(server.address, "localhost", folder, |_, _| ());
    assert_eq!(asked(without).await.0, 502);
}

#[test]
fn what_is_wrong_with_the_files_is_said_at_the_start() {
    let authority = Authority::new();
    let folder = authority.folder.path();
    std::fs::write(folder.join("empty.pem"), "nothing").unwrap();
    // Nobody ever writes to it.
    assert!(std::process::Command::new("mkfifo").arg(folder.join("pipe.pem")).status().unwrap().success());
    let nowhere = "127.0.0.1:1".parse().unwrap();
    for (file, expected) in [
        ("missing.pem", "missing.pem"),
        ("empty.pem", "there is no certificate in it"),
        ("pipe.pem", "it is a pipe, and only regular files are read"),
    ] {
        let bad = options(nowhere, "localhost", folder, |settings, _| settings.tls.ca_file = Some(file.into()));
        let error = Gateway::new(bad).unwrap_err();
        assert!(matches!(error, StartError::Tls { .. }));
        let said = error.to_string();
        assert!(said.contains("[tls] ca_file") && said.contains(expected), "{said}");
    }
}

/// A handshake that never ends is a connection that cannot be made in time.
#[tokio::test]
async fn the_handshake_is_part_of_the_time_to_connect() {
    let authority = Authority::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent = options(listener.local_addr().unwrap(), "localhost", authority.folder.path(), |settings, _| {
        settings.timeouts.connect_s = 0.2;
    });
    let began = std::time::Instant::now();
    assert_eq!(asked(silent).await, (502, "upstream_connect".to_owned()));
    assert!(began.elapsed() < std::time::Duration::from_secs(5));
}
