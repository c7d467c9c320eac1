//! TLS to servers at `https://` addresses, as `[tls]` says (rustls over ring, TLS 1.2 and 1.3).
//!
//! Whom to trust: the authorities in `ca_file`, else the system's (read when the first such server is made, so that
//! fleets without TLS need none). Which HTTP: the server chooses between HTTP/2 and HTTP/1.1 (ALPN), unless its
//! `protocol` says. The name that the certificate has to bear: `tls_name`, else the host of the address.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use shortline_core::fleet::settings::{Address, Protocol, Tls};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::client::{ClientConfig, WantsClientCert};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio_rustls::rustls::{self, ConfigBuilder, DigitallySignedStruct, RootCertStore, SignatureScheme};

use crate::regular_file::open_regular_file;

/// Why TLS cannot be set up; with the place and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A PEM file that cannot be read.
    #[error("cannot read `[tls] {key}`, {}: {why}", .path.display())]
    File {
        /// Which one.
        key: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// The system trusts nobody.
    #[error(
        "this system has no certificate authorities ({0}), but servers are at https:// addresses; name a PEM file with theirs in `[tls] ca_file`"
    )]
    NoAuthorities(String),
    /// Certificate and key do not make an identity.
    #[error("`[tls] certificate_file` and `key_file` do not fit together: {0}")]
    Identity(#[source] rustls::Error),
    /// A name that no certificate can bear.
    #[error("`{name}` is no name for TLS; give the server a `tls_name`")]
    Name {
        /// It.
        name: String,
    },
    /// The library refuses.
    #[error("TLS cannot be set up: {0}")]
    Library(#[source] rustls::Error),
}

/// The client's side of TLS, shared by all servers of a fleet.
#[derive(Debug)]
pub(crate) struct TlsClient(ClientConfig);

/// How TLS begins with one server.
#[derive(Clone)]
pub(super) struct Handshake {
    pub(super) connector: TlsConnector,
    pub(super) name: ServerName<'static>,
}

impl Handshake {
    /// Whether it is the same one, not only an equal one.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(self.connector.config(), other.connector.config())
    }
}

impl std::fmt::Debug for Handshake {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handshake").field("name", &self.name).finish_non_exhaustive()
    }
}

impl TlsClient {
    /// As `[tls]` says; paths are relative to `folder`.
    ///
    /// # Errors
    /// [`TlsError`] if a file, or what is in it, is of no use.
    pub(crate) fn new(tls: &Tls, folder: &Path) -> Result<Self, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Library)?;
        let builder = if tls.verify {
            builder.with_root_certificates(authorities(tls, folder)?)
        } else {
            tracing::warn!("[tls] verify = false: servers are not asked to prove who they are");
            builder.dangerous().with_custom_certificate_verifier(Arc::new(Unverified(provider)))
        };
        identity(tls, folder, builder).map(Self)
    }

    /// The handshake with the server at `address`.
    ///
    /// # Errors
    /// If it has no name.
    pub(super) fn handshake(&self, address: &Address) -> Result<Handshake, TlsError> {
        let mut config = self.0.clone();
        config.alpn_protocols = match address.protocol {
            Protocol::Auto => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
            Protocol::Http1 => vec![b"http/1.1".to_vec()],
            Protocol::Http2 => vec![b"h2".to_vec()],
        };
        let name = address.tls_name.as_ref().unwrap_or(&address.host);
        let name = ServerName::try_from(name.clone()).map_err(|_| TlsError::Name { name: name.clone() })?;
        Ok(Handshake { connector: TlsConnector::from(Arc::new(config)), name })
    }
}

fn authorities(tls: &Tls, folder: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    match &tls.ca_file {
        Some(file) => {
            for certificate in certificates("ca_file", folder.join(file))? {
                let refused = |why: rustls::Error| file_error("ca_file", folder.join(file), why);
                roots.add(certificate).map_err(refused)?;
            }
        }
        None => {
            let system = rustls_native_certs::load_native_certs();
            let (trusted, _) = roots.add_parsable_certificates(system.certs);
            if trusted == 0 {
                let why = system.errors.first().map_or_else(|| "the store is empty".to_owned(), ToString::to_string);
                return Err(TlsError::NoAuthorities(why));
            }
        }
    }
    Ok(roots)
}

fn identity(
    tls: &Tls,
    folder: &Path,
    builder: ConfigBuilder<ClientConfig, WantsClientCert>,
) -> Result<ClientConfig, TlsError> {
    let Some((certificate, key)) = &tls.identity else { return Ok(builder.with_no_client_auth()) };
    let chain = certificates("certificate_file", folder.join(certificate))?;
    let path = folder.join(key);
    let read = open_regular_file(&path).map_err(|why| file_error("key_file", path.clone(), why))?;
    let key = PrivateKeyDer::from_pem_reader(read).map_err(|why| file_error("key_file", path, why))?;
    builder.with_client_auth_cert(chain, key).map_err(TlsError::Identity)
}

/// The certificates of a PEM file, at least one.
fn certificates(key: &'static str, path: PathBuf) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let file = open_regular_file(&path).map_err(|why| file_error(key, path.clone(), why))?;
    match CertificateDer::pem_reader_iter(file).collect::<Result<Vec<_>, _>>() {
        Ok(certificates) if certificates.is_empty() => {
            Err(file_error(key, path, "there is no certificate in it (PEM, `BEGIN CERTIFICATE`)"))
        }
        Ok(certificates) => Ok(certificates),
        Err(why) => Err(file_error(key, path, why)),
    }
}

fn file_error(key: &'static str, path: PathBuf, why: impl ToString) -> TlsError {
    TlsError::File { key, path, why: why.to_string() }
}

/// Takes every certificate (`verify = false`); signatures are checked all the same.
#[derive(Debug)]
struct Unverified(Arc<CryptoProvider>);

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
