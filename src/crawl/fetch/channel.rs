//! A connection that carries requests: a plain stream, or a stream under TLS.

use super::tls::TlsChannel;
use crate::base::Time;
use crate::io::{NetError, Stream};
use std::ops::Deref;

pub(super) enum Channel<S: Stream> {
    Plain(S),
    Tls(Box<TlsChannel<S>>),
}

/// Received bytes: the world's own buffer, or bytes that TLS decrypted.
pub(super) enum Piece<S: Stream> {
    Lent(S::Chunk),
    Owned(Vec<u8>),
}

impl<S: Stream> Deref for Piece<S> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Piece::Lent(chunk) => chunk,
            Piece::Owned(bytes) => bytes,
        }
    }
}

impl<S: Stream> Channel<S> {
    pub(super) async fn send(
        &mut self,
        bytes: Vec<u8>,
        deadline: Time,
    ) -> Result<Vec<u8>, NetError> {
        match self {
            Channel::Plain(stream) => stream.send(bytes, deadline).await,
            Channel::Tls(tls) => tls.send(bytes, deadline).await,
        }
    }

    pub(super) async fn receive(&mut self, deadline: Time) -> Result<Option<Piece<S>>, NetError> {
        match self {
            Channel::Plain(stream) => Ok(stream.receive(deadline).await?.map(Piece::Lent)),
            Channel::Tls(tls) => Ok(tls.receive(deadline).await?.map(Piece::Owned)),
        }
    }

    /// Reports whether the peer has neither sent anything nor closed since its last response, so
    /// that a request may be sent. Does not wait.
    pub(super) async fn is_quiet(&mut self, now: Time) -> bool {
        match self {
            Channel::Plain(stream) => stream.is_quiet(),
            Channel::Tls(tls) => tls.is_quiet(now).await,
        }
    }
}
