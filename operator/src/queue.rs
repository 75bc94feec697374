//! A work queue of keys: a key is worked on by one worker at a time, a key that changes meanwhile is worked on again, and a
//! key can be put off. It knows nothing of what the keys stand for.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    hash::Hash,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In the line.
    Ready,
    /// With a worker.
    Running,
    /// With a worker, and to be worked on again.
    Dirty,
}

struct State<K> {
    line: VecDeque<K>,
    places: HashMap<K, Place>,
    later: BTreeSet<(Instant, K)>,
    due: HashMap<K, Instant>,
}

/// The queue; cheap to clone.
pub struct Queue<K> {
    state: Arc<Mutex<State<K>>>,
    wake: Arc<Notify>,
}

impl<K> Clone for Queue<K> {
    fn clone(&self) -> Self {
        Self { state: Arc::clone(&self.state), wake: Arc::clone(&self.wake) }
    }
}

impl<K: Clone + Eq + Hash + Ord> Default for Queue<K> {
    fn default() -> Self {
        let state =
            State { line: VecDeque::new(), places: HashMap::new(), later: BTreeSet::new(), due: HashMap::new() };
        Self { state: Arc::new(Mutex::new(state)), wake: Arc::new(Notify::new()) }
    }
}

impl<K: Clone + Eq + Hash + Ord> Queue<K> {
    fn state(&self) -> MutexGuard<'_, State<K>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a key in line now.
    pub fn add(&self, key: K) {
        self.state().add(key);
        self.wake.notify_one();
    }

    /// Puts a key in line after a while; an earlier appointment stays.
    pub fn add_after(&self, key: K, delay: Duration) {
        if delay.is_zero() {
            return self.add(key);
        }
        let at = Instant::now() + delay;
        let mut state = self.state();
        if let Some(old) = state.due.get(&key).copied() {
            if old <= at {
                return;
            }
            state.later.remove(&(old, key.clone()));
        }
        state.later.insert((at, key.clone()));
        state.due.insert(key, at);
        drop(state);
        self.wake.notify_one();
    }

    /// The next key, which belongs to the caller until [`Queue::done`].
    pub async fn next(&self) -> K {
        loop {
            let woken = self.wake.notified();
            let appointment = {
                let mut state = self.state();
                state.bring_due(Instant::now());
                if let Some(key) = state.line.pop_front() {
                    state.places.insert(key.clone(), Place::Running);
                    if !state.line.is_empty() {
                        self.wake.notify_one();
                    }
                    return key;
                }
                state.later.first().map(|(at, _)| *at)
            };
            match appointment {
                None => woken.await,
                Some(at) => {
                    tokio::select! {
                        () = woken => {}
                        () = tokio::time::sleep_until(at) => {}
                    }
                }
            }
        }
    }

    /// Gives a key back; it is worked on again at once when it was added meanwhile, or after `again`.
    pub fn done(&self, key: K, again: Option<Duration>) {
        let mut state = self.state();
        if state.places.remove(&key) == Some(Place::Dirty) {
            state.add(key.clone());
            self.wake.notify_one();
        }
        drop(state);
        if let Some(again) = again {
            self.add_after(key, again);
        }
    }

    /// Keys in line.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.state().line.len()
    }
}

impl<K: Clone + Eq + Hash + Ord> State<K> {
    fn add(&mut self, key: K) {
        if let Some(at) = self.due.remove(&key) {
            self.later.remove(&(at, key.clone()));
        }
        match self.places.get(&key) {
            Some(Place::Ready | Place::Dirty) => {}
            Some(Place::Running) => {
                self.places.insert(key, Place::Dirty);
            }
            None => {
                self.places.insert(key.clone(), Place::Ready);
                self.line.push_back(key);
            }
        }
    }

    fn bring_due(&mut self, now: Instant) {
        while let Some((at, key)) = self.later.first().cloned() {
            if at > now {
                break;
            }
            self.add(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_key_is_with_one_worker_and_comes_back_when_added_meanwhile() {
        let queue = Queue::default();
        queue.add("a");
        queue.add("a");
        assert_eq!(queue.next().await, "a");
        queue.add("a");
        assert_eq!(queue.waiting(), 0);
        queue.done("a", None);
        assert_eq!(queue.next().await, "a");
        queue.done("a", Some(Duration::from_secs(5)));
        let begun = Instant::now();
        assert_eq!(queue.next().await, "a");
        assert_eq!(begun.elapsed().as_secs(), 5);
    }

    #[tokio::test(start_paused = true)]
    async fn the_earlier_appointment_stays_and_adding_cancels_it() {
        let queue = Queue::default();
        queue.add_after(1, Duration::from_secs(1));
        queue.add_after(1, Duration::from_secs(9));
        let begun = Instant::now();
        assert_eq!(queue.next().await, 1);
        assert_eq!(begun.elapsed().as_secs(), 1);
        queue.done(1, None);
        queue.add_after(1, Duration::from_secs(9));
        queue.add(1);
        assert_eq!(queue.next().await, 1);
        queue.done(1, None);
        assert!(tokio::time::timeout(Duration::from_secs(60), queue.next()).await.is_err());
    }

    #[tokio::test]
    async fn all_workers_wake() {
        let queue: Queue<u32> = Queue::default();
        let workers: Vec<_> = (0..4)
            .map(|_| {
                let queue = queue.clone();
                tokio::spawn(async move { queue.next().await })
            })
            .collect();
        (0..4).for_each(|key| queue.add(key));
        let mut got = Vec::new();
        for worker in workers {
            got.push(worker.await.unwrap());
        }
        got.sort_unstable();
        assert_eq!(got, [0, 1, 2, 3]);
    }
}
