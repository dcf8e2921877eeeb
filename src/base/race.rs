//! Runs two futures until the first one ends. If both are ready, the left one wins.

use std::future::Future;
use std::pin::pin;
use std::task::Poll;

#[derive(Debug, PartialEq, Eq)]
pub enum First<A, B> {
    Left(A),
    Right(B),
}

/// Resolves to the output of the future that ends first, and drops the other one.
pub async fn race<A, B>(
    left: impl Future<Output = A>,
    right: impl Future<Output = B>,
) -> First<A, B> {
    let (mut left, mut right) = (pin!(left), pin!(right));
    std::future::poll_fn(|context| {
        if let Poll::Ready(value) = left.as_mut().poll(context) {
            return Poll::Ready(First::Left(value));
        }
        right.as_mut().poll(context).map(First::Right)
    })
    .await
}
