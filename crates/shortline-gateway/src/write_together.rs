//! Head and body of a small message in one plain write.
//!
//! The HTTP library hands them over as two pieces. To gather a few hundred bytes here and send them as one piece is
//! cheaper than to have the kernel gather them; from [`MOST_BYTES`] on it is not.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::AsyncWrite;
use tokio::net::TcpStream;

/// Most bytes that are gathered.
const MOST_BYTES: usize = 2048;

/// Writes of the pieces as much as goes; whether they were gathered makes no difference.
pub(crate) fn poll_write(
    stream: &mut TcpStream,
    cx: &mut Context<'_>,
    pieces: &[IoSlice<'_>],
) -> Poll<io::Result<usize>> {
    let mut gathered = [0; MOST_BYTES];
    let mut room = &mut gathered[..];
    for piece in pieces {
        let Some((here, rest)) = std::mem::take(&mut room).split_at_mut_checked(piece.len()) else {
            return Pin::new(stream).poll_write_vectored(cx, pieces);
        };
        here.copy_from_slice(piece);
        room = rest;
    }
    let left = room.len();
    Pin::new(stream).poll_write(cx, &gathered[..MOST_BYTES - left])
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::AsyncReadExt;
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn pieces_arrive_in_their_order_whatever_their_size() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (mut other_end, _) = listener.accept().await.unwrap();
        for sizes in [[0, 0, 0], [3, 0, 5], [1000, 1000, 48], [1000, 1000, 49], [MOST_BYTES, 0, 0], [5000, 1, 1]] {
            let pieces: Vec<Vec<u8>> = sizes.iter().zip(1..).map(|(&size, byte)| vec![byte; size]).collect();
            let slices: Vec<IoSlice<'_>> = pieces.iter().map(|piece| IoSlice::new(piece)).collect();
            let written = poll_fn(|cx| poll_write(&mut stream, cx, &slices)).await.unwrap();
            assert_eq!(written, sizes.iter().sum::<usize>(), "an empty socket takes so little at once");
            let mut read = vec![0; written];
            other_end.read_exact(&mut read).await.unwrap();
            assert_eq!(read, pieces.concat(), "{sizes:?}");
        }
    }
}
