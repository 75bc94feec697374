//! All projections, indexed by the questions that are asked of them. Sections are short and never wait.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use jiff::Timestamp;

use super::{ConversationView, Key, PodView, PoolView};

/// What an update of the world was about.
#[derive(Clone, Debug, PartialEq)]
pub enum Change<T> {
    /// It was older than what is known, or the same.
    Nothing,
    /// It is new or changed; what was known before comes with it.
    Changed(Option<Arc<T>>),
}

/// All projections.
#[derive(Default)]
pub struct World {
    inner: RwLock<Inner>,
}

#[derive(Default)]
struct Inner {
    conversations: HashMap<Key, Arc<ConversationView>>,
    by_uid: HashMap<Arc<str>, Key>,
    pools: HashMap<Key, Arc<PoolView>>,
    pods: HashMap<Key, Arc<PodView>>,
    pods_of_pool: HashMap<Key, BTreeSet<Key>>,
    pods_of_conversation: HashMap<Arc<str>, BTreeSet<Key>>,
    /// Members on their way to a Conversation: uid of the pod to uid of the Conversation.
    reserved: HashMap<Arc<str>, Arc<str>>,
    /// Conversations that wait for a free member, oldest first.
    waiting_for_member: HashMap<Key, BTreeSet<(Timestamp, Key)>>,
    /// Conversations that are not bound yet, by the pool they name.
    unbound_of_pool: HashMap<Key, BTreeSet<Key>>,
    /// Conversations that miss a Secret.
    waiting_for_secret: HashMap<Key, BTreeSet<Key>>,
}

impl World {
    fn read(&self) -> RwLockReadGuard<'_, Inner> {
        self.inner.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Inner> {
        self.inner.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a Conversation in, unless a newer state of it is known.
    pub fn put_conversation(&self, view: ConversationView) -> Change<ConversationView> {
        let mut inner = self.write();
        let old = inner.conversations.get(&view.key).cloned();
        if let Some(old) = &old
            && old.uid == view.uid
            && old.version_number() >= view.version_number()
        {
            return Change::Nothing;
        }
        if let Some(old) = &old {
            inner.forget_conversation(old);
        }
        inner.by_uid.insert(Arc::clone(&view.uid), view.key.clone());
        if let (Some(pool), None) = (&view.pool, &view.status.sandbox) {
            inner.unbound_of_pool.entry(view.key.sibling(pool)).or_default().insert(view.key.clone());
        }
        inner.conversations.insert(view.key.clone(), Arc::new(view));
        Change::Changed(old)
    }

    /// Forgets a Conversation, unless it was replaced by another of the same name; answers what was known of it.
    pub fn remove_conversation(&self, key: &Key, uid: Option<&str>) -> Option<Arc<ConversationView>> {
        let mut inner = self.write();
        let old = inner.conversations.get(key).cloned()?;
        if uid.is_some_and(|uid| *uid != *old.uid) {
            return None;
        }
        inner.conversations.remove(key);
        inner.forget_conversation(&old);
        inner.waiting_for_secret.retain(|_, waiting| {
            waiting.remove(key);
            !waiting.is_empty()
        });
        let uid = Arc::clone(&old.uid);
        inner.reserved.retain(|_, holder| *holder != uid);
        Some(old)
    }

    /// A Conversation.
    pub fn conversation(&self, key: &Key) -> Option<Arc<ConversationView>> {
        self.read().conversations.get(key).cloned()
    }

    /// The Conversation of a uid.
    pub fn conversation_of_uid(&self, uid: &str) -> Option<Arc<ConversationView>> {
        let inner = self.read();
        inner.by_uid.get(uid).and_then(|key| inner.conversations.get(key)).cloned()
    }

    /// Keys of all Conversations.
    pub fn conversation_keys(&self) -> Vec<Key> {
        self.read().conversations.keys().cloned().collect()
    }

    /// Takes a WarmPool in, unless a newer state of it is known.
    pub fn put_pool(&self, view: PoolView) -> Change<PoolView> {
        let mut inner = self.write();
        let old = inner.pools.get(&view.key).cloned();
        if let Some(old) = &old
            && old.uid == view.uid
            && old.version_number() >= view.version_number()
        {
            return Change::Nothing;
        }
        inner.pools.insert(view.key.clone(), Arc::new(view));
        Change::Changed(old)
    }

    /// Forgets a WarmPool.
    pub fn remove_pool(&self, key: &Key) {
        self.write().pools.remove(key);
    }

    /// A WarmPool.
    pub fn pool(&self, key: &Key) -> Option<Arc<PoolView>> {
        self.read().pools.get(key).cloned()
    }

    /// Keys of all WarmPools.
    pub fn pool_keys(&self) -> Vec<Key> {
        self.read().pools.keys().cloned().collect()
    }

    /// Takes a pod in, unless a newer state of it is known.
    pub fn put_pod(&self, view: PodView) -> Change<PodView> {
        let mut inner = self.write();
        let old = inner.pods.get(&view.key).cloned();
        if let Some(old) = &old
            && old.uid == view.uid
            && old.version_number() >= view.version_number()
        {
            return Change::Nothing;
        }
        if let Some(old) = &old {
            inner.forget_pod(old);
        }
        if view.claimed {
            inner.reserved.remove(&view.uid);
        }
        if let Some(pool) = &view.pool {
            inner.pods_of_pool.entry(view.key.sibling(pool)).or_default().insert(view.key.clone());
        }
        if let Some(uid) = &view.conversation_uid {
            inner.pods_of_conversation.entry(Arc::clone(uid)).or_default().insert(view.key.clone());
        }
        inner.pods.insert(view.key.clone(), Arc::new(view));
        Change::Changed(old)
    }

    /// Forgets a pod, unless it was replaced by another of the same name (`uid` given and different).
    pub fn remove_pod(&self, key: &Key, uid: Option<&str>) -> Option<Arc<PodView>> {
        let mut inner = self.write();
        let old = inner.pods.get(key).cloned()?;
        if uid.is_some_and(|uid| *uid != *old.uid) {
            return None;
        }
        inner.pods.remove(key);
        inner.forget_pod(&old);
        inner.reserved.remove(&old.uid);
        Some(old)
    }

    /// Keys of all pods.
    pub fn pod_keys(&self) -> Vec<Key> {
        self.read().pods.keys().cloned().collect()
    }

    /// A pod.
    pub fn pod(&self, key: &Key) -> Option<Arc<PodView>> {
        self.read().pods.get(key).cloned()
    }

    /// All pods of a WarmPool: idle, claimed and terminating ones.
    pub fn pods_of_pool(&self, pool: &Key) -> Vec<Arc<PodView>> {
        let inner = self.read();
        let keys = inner.pods_of_pool.get(pool).into_iter().flatten();
        keys.filter_map(|key| inner.pods.get(key)).cloned().collect()
    }

    /// All pods that carry a Conversation's uid.
    pub fn pods_of_conversation(&self, uid: &str) -> Vec<Arc<PodView>> {
        let inner = self.read();
        let keys = inner.pods_of_conversation.get(uid).into_iter().flatten();
        keys.filter_map(|key| inner.pods.get(key)).cloned().collect()
    }

    /// Reserves the best free member of a pool for a Conversation. `choose` gets the free ones and how many claimed pods of
    /// the pool are on each node.
    pub fn reserve(
        &self,
        pool: &Key,
        conversation_uid: &Arc<str>,
        choose: impl FnOnce(&[Arc<PodView>], &BTreeMap<Arc<str>, usize>) -> Option<Arc<PodView>>,
    ) -> Option<Arc<PodView>> {
        let mut inner = self.write();
        let mut free = Vec::new();
        let mut claimed_on: BTreeMap<Arc<str>, usize> = BTreeMap::new();
        for pod in inner.pods_of_pool.get(pool).into_iter().flatten().filter_map(|key| inner.pods.get(key)) {
            let reserved = inner.reserved.contains_key(&pod.uid);
            if pod.is_free() && !reserved {
                free.push(Arc::clone(pod));
            } else if let (true, Some(node)) = (pod.claimed || reserved, &pod.node) {
                *claimed_on.entry(Arc::clone(node)).or_default() += 1;
            }
        }
        let chosen = choose(&free, &claimed_on)?;
        inner.reserved.insert(Arc::clone(&chosen.uid), Arc::clone(conversation_uid));
        Some(chosen)
    }

    /// Gives a reserved member back.
    pub fn release(&self, pod_uid: &str) {
        self.write().reserved.remove(pod_uid);
    }

    /// Remembers that a Conversation waits for a free member of a pool.
    pub fn wait_for_member(&self, pool: &Key, conversation: &ConversationView) {
        let waiter = (conversation.created, conversation.key.clone());
        self.write().waiting_for_member.entry(pool.clone()).or_default().insert(waiter);
    }

    /// The oldest Conversation that waits for a member of a pool; it is taken off the list.
    pub fn next_waiter(&self, pool: &Key) -> Option<Key> {
        let mut inner = self.write();
        let waiting = inner.waiting_for_member.get_mut(pool)?;
        let first = waiting.pop_first();
        if waiting.is_empty() {
            inner.waiting_for_member.remove(pool);
        }
        first.map(|(_, key)| key)
    }

    /// Conversations that name a pool and are not bound yet.
    pub fn unbound_of_pool(&self, pool: &Key) -> Vec<Key> {
        self.read().unbound_of_pool.get(pool).into_iter().flatten().cloned().collect()
    }

    /// Remembers that a Conversation misses a Secret.
    pub fn wait_for_secret(&self, secret: &Key, conversation: &Key) {
        self.write().waiting_for_secret.entry(secret.clone()).or_default().insert(conversation.clone());
    }

    /// A Conversation misses a Secret no more.
    pub fn stop_waiting_for_secret(&self, secret: &Key, conversation: &Key) {
        let mut inner = self.write();
        if let Some(waiting) = inner.waiting_for_secret.get_mut(secret) {
            waiting.remove(conversation);
            if waiting.is_empty() {
                inner.waiting_for_secret.remove(secret);
            }
        }
    }

    /// Pods of Conversations that are not known (any more).
    pub fn orphans(&self) -> Vec<Arc<PodView>> {
        let inner = self.read();
        let orphaned = |uid: &&Arc<str>| !inner.by_uid.contains_key(*uid);
        let keys =
            inner.pods_of_conversation.keys().filter(orphaned).filter_map(|uid| inner.pods_of_conversation.get(uid));
        keys.flatten().filter_map(|key| inner.pods.get(key)).cloned().collect()
    }

    /// Conversations that miss a Secret; they are taken off the list.
    pub fn waiters_for_secret(&self, secret: &Key) -> Vec<Key> {
        self.write().waiting_for_secret.remove(secret).into_iter().flatten().collect()
    }

    /// How many Conversations, pods and pools are known.
    pub fn sizes(&self) -> (usize, usize, usize) {
        let inner = self.read();
        (inner.conversations.len(), inner.pods.len(), inner.pools.len())
    }
}

impl Inner {
    fn forget_conversation(&mut self, old: &ConversationView) {
        self.by_uid.remove(&old.uid);
        if let Some(pool) = &old.pool {
            let pool = old.key.sibling(pool);
            if let Some(unbound) = self.unbound_of_pool.get_mut(&pool) {
                unbound.remove(&old.key);
                if unbound.is_empty() {
                    self.unbound_of_pool.remove(&pool);
                }
            }
        }
    }

    fn forget_pod(&mut self, old: &PodView) {
        if let Some(pool) = &old.pool {
            remove_from(&mut self.pods_of_pool, &old.key.sibling(pool), &old.key);
        }
        if let Some(uid) = &old.conversation_uid {
            remove_from(&mut self.pods_of_conversation, uid, &old.key);
        }
    }
}

fn remove_from<K: Eq + std::hash::Hash>(index: &mut HashMap<K, BTreeSet<Key>>, entry: &K, key: &Key) {
    if let Some(keys) = index.get_mut(entry) {
        keys.remove(key);
        if keys.is_empty() {
            index.remove(entry);
        }
    }
}
