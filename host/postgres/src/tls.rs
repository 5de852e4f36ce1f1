//! TLS for connections to PostgreSQL, by rustls.

use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use strata_records::database_url::{DatabaseUrl, Encryption};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;

/// Makes encrypted connections.
#[derive(Clone)]
pub(super) struct RustlsConnector {
    config: Arc<ClientConfig>,
}

impl RustlsConnector {
    /// Returns a connector that trusts what a URL says. Fails with a description.
    pub(super) fn new(url: &DatabaseUrl) -> Result<Self, String> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?;
        let config = match url.encryption {
            Encryption::Unverified => builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(AnyCertificate { provider }))
                .with_no_client_auth(),
            Encryption::Verified | Encryption::None => builder
                .with_root_certificates(root_certificates(url.root_certificates.as_deref())?)
                .with_no_client_auth(),
        };
        Ok(Self {
            config: Arc::new(config),
        })
    }
}

/// Returns the certificates in a file, or those that the system trusts.
fn root_certificates(file: Option<&Path>) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    let Some(file) = file else {
        for certificate in rustls_native_certs::load_native_certs().certs {
            // Systems have certificates that are not valid any more.
            let _ = roots.add(certificate);
        }
        return if roots.is_empty() {
            Err("this machine trusts no certificates; name a file with `sslrootcert=`".into())
        } else {
            Ok(roots)
        };
    };
    let fail = |what: String| format!("the certificates in `{}`: {what}", file.display());
    let certificates = CertificateDer::pem_file_iter(file).map_err(|e| fail(e.to_string()))?;
    for certificate in certificates {
        let certificate = certificate.map_err(|e| fail(e.to_string()))?;
        roots.add(certificate).map_err(|e| fail(e.to_string()))?;
    }
    if roots.is_empty() {
        Err(fail("there are none".into()))
    } else {
        Ok(roots)
    }
}

/// Accepts any certificate: the connection is encrypted, but may be with somebody else.
#[derive(Debug)]
struct AnyCertificate {
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

impl<S> MakeTlsConnect<S> for RustlsConnector
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = EncryptedStream<S>;
    type TlsConnect = HostConnector;
    type Error = rustls::pki_types::InvalidDnsNameError;

    fn make_tls_connect(&mut self, host: &str) -> Result<HostConnector, Self::Error> {
        Ok(HostConnector {
            connector: TlsConnector::from(self.config.clone()),
            host: ServerName::try_from(host.to_owned())?,
        })
    }
}

/// Makes encrypted connections to a host.
pub(super) struct HostConnector {
    connector: TlsConnector,
    host: ServerName<'static>,
}

impl<S> TlsConnect<S> for HostConnector
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = EncryptedStream<S>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<EncryptedStream<S>>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        Box::pin(async move {
            let stream = self.connector.connect(self.host, stream).await?;
            Ok(EncryptedStream { stream })
        })
    }
}

/// An encrypted connection.
pub(super) struct EncryptedStream<S> {
    stream: tokio_rustls::client::TlsStream<S>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for EncryptedStream<S> {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for EncryptedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for EncryptedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
