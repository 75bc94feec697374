//! What parent and child say to each other: a tag, a length, bytes. Bounded, because the child runs beside tools.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Longest payload, bytes.
pub(super) const MAX_PAYLOAD: usize = 2 * 1024 * 1024;

/// A message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// Child: I serve requests.
    Serving,
    /// Child: keep this init payload. Parent, once, right after the start: this is the payload of your predecessor.
    Payload(Vec<u8>),
    /// Parent, once, right after the start: there is no payload.
    Nothing,
    /// Parent: the payload is kept.
    Kept,
}

impl Frame {
    const fn tag(&self) -> u8 {
        match self {
            Self::Serving => b'S',
            Self::Payload(_) => b'P',
            Self::Nothing => b'N',
            Self::Kept => b'K',
        }
    }

    /// Writes one.
    pub(super) async fn write(&self, to: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        let payload: &[u8] = match self {
            Self::Payload(bytes) => bytes,
            Self::Serving | Self::Nothing | Self::Kept => &[],
        };
        if payload.len() > MAX_PAYLOAD {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the payload is too large"));
        }
        let length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
        to.write_u8(self.tag()).await?;
        to.write_u32(length).await?;
        to.write_all(payload).await?;
        to.flush().await
    }

    /// Reads one.
    pub(super) async fn read(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Self> {
        let tag = from.read_u8().await?;
        let length = from.read_u32().await? as usize;
        if length > MAX_PAYLOAD {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the payload is too large"));
        }
        let mut payload = vec![0; length];
        from.read_exact(&mut payload).await?;
        match tag {
            b'S' => Ok(Self::Serving),
            b'P' => Ok(Self::Payload(payload)),
            b'N' => Ok(Self::Nothing),
            b'K' => Ok(Self::Kept),
            _ => Err(io::Error::new(io::ErrorKind::InvalidData, "unknown message")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn frames_survive_the_way_and_large_ones_are_refused() {
        let (mut left, mut right) = tokio::io::duplex(64);
        let sent = tokio::spawn(async move {
            for frame in [Frame::Serving, Frame::Payload(vec![7; 1000]), Frame::Nothing, Frame::Kept] {
                frame.write(&mut left).await.unwrap();
            }
            left.write_all(&[b'P', 0xff, 0xff, 0xff, 0xff]).await.unwrap();
        });
        assert_eq!(Frame::read(&mut right).await.unwrap(), Frame::Serving);
        assert_eq!(Frame::read(&mut right).await.unwrap(), Frame::Payload(vec![7; 1000]));
        assert_eq!(Frame::read(&mut right).await.unwrap(), Frame::Nothing);
        assert_eq!(Frame::read(&mut right).await.unwrap(), Frame::Kept);
        assert!(Frame::read(&mut right).await.is_err());
        sent.await.unwrap();
    }
}
