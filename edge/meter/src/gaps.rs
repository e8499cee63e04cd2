//! Tells Redis when the journal has gaps.

use std::sync::{Mutex, PoisonError};

use live::{Redis, RedisError};

/// The note in Redis that this edge's journal lacks some completions that were sent to providers.
pub(super) struct GapNote {
    /// The [number](Redis::memory_number) of the Redis memory that has the note.
    noted_in: Mutex<Option<u64>>,
}

impl GapNote {
    pub(super) fn new() -> Self {
        Self { noted_in: Mutex::default() }
    }

    /// Notes in Redis that the journal of `edge` has gaps, before another completion is admitted: an edge that adopts
    /// the journal relies on what it lacks. A Redis whose memory has changed gets the note again.
    pub(super) async fn ensure(&self, redis: &Redis, edge: &str) -> Result<(), RedisError> {
        let noted_in = || self.noted_in.lock().unwrap_or_else(PoisonError::into_inner);
        // Read before the note is sent: if Redis loses its memory meanwhile, the note is sent again next time.
        let memory = redis.memory_number();
        if *noted_in() != Some(memory) {
            redis.note_gaps(edge).await?;
            *noted_in() = Some(memory);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use tokio::{
        io::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
        net::{TcpListener, TcpStream},
    };

    use super::*;

    /// A Redis that reports which memory it has, and counts the notes.
    #[derive(Clone, Default)]
    struct NotedGaps {
        memory: Arc<AtomicUsize>,
        notes: Arc<AtomicUsize>,
    }

    impl NotedGaps {
        async fn start(&self) -> Redis {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let url = format!("redis://{}", listener.local_addr().unwrap());
            let redis = self.clone();
            tokio::spawn(async move {
                while let Ok((client, _)) = listener.accept().await {
                    tokio::spawn(redis.clone().answer(client));
                }
            });
            Redis::connect(&url).unwrap()
        }

        async fn answer(self, mut client: TcpStream) -> Option<()> {
            let (reader, mut writer) = client.split();
            let mut reader = BufReader::new(reader);
            loop {
                let mut command = Vec::new();
                for _ in 0..number(&mut reader).await? {
                    let mut word = vec![0; number(&mut reader).await? + 2];
                    reader.read_exact(&mut word).await.ok()?;
                    command.push(String::from_utf8_lossy(&word).trim_end().to_owned());
                }
                let answer = match &*command[0] {
                    "EVALSHA" => {
                        format!("*3\r\n+run {}\r\n:0\r\n:1790000000000\r\n", self.memory.load(Ordering::SeqCst))
                    }
                    "PSETEX" => {
                        assert!(command[1].contains("gaps") && command[1].contains("edge-1"), "{command:?}");
                        self.notes.fetch_add(1, Ordering::SeqCst);
                        "+OK\r\n".to_owned()
                    }
                    _ => "+OK\r\n".to_owned(),
                };
                writer.write_all(answer.as_bytes()).await.ok()?;
            }
        }
    }

    /// Parses the number in a line that announces how much follows.
    async fn number(reader: &mut (impl AsyncBufRead + Unpin)) -> Option<usize> {
        let mut line = String::new();
        reader.read_line(&mut line).await.ok()?;
        line.trim_end().get(1..)?.parse().ok()
    }

    #[tokio::test]
    async fn a_redis_that_has_forgotten_the_gaps_is_told_again() {
        let noted = NotedGaps::default();
        let redis = noted.start().await;
        let note = GapNote::new();
        for memory in 1..=3 {
            noted.memory.store(memory, Ordering::SeqCst);
            redis.epoch().await.unwrap();
            for _ in 0..2 {
                note.ensure(&redis, "edge-1").await.unwrap();
            }
            assert_eq!(noted.notes.load(Ordering::SeqCst), memory);
        }
    }
}
