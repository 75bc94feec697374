//! The watches that keep the world current.

use std::{collections::HashSet, fmt::Debug, sync::Arc, time::Duration};

use futures::{Stream, StreamExt, pin_mut};
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, Client, Resource,
    core::PartialObjectMeta,
    runtime::{
        WatchStreamExt,
        watcher::{self, Event},
    },
};
use openhands_crds::{CONVERSATION_SECRET_LABEL, Conversation, WarmPool};
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use super::{Change, ConversationView, Key, PodObject, PodView, PoolView, World};
use crate::names;

/// What a watch saw. Whoever listens decides what has to be looked at again.
#[derive(Clone, Debug)]
pub enum Watched {
    /// A Conversation is new, changed or gone.
    Conversation(Key),
    /// A WarmPool is new, changed or gone.
    Pool(Key),
    /// A pod is new, changed or gone: before and after.
    Pod(Option<Arc<PodView>>, Option<Arc<PodView>>),
    /// A Secret with the label is new or changed.
    Secret(Key),
}

/// Watches until the process ends. `synced` counts the watches that have seen everything once (4 in all).
pub async fn run(
    client: Client,
    namespace: Option<String>,
    world: Arc<World>,
    synced: watch::Sender<usize>,
    told: impl Fn(Watched) + Send + Sync + Clone + 'static,
) {
    let managed = format!("{}={}", names::MANAGED_BY, names::MANAGER);
    let conversations = follow(
        api::<Conversation>(&client, namespace.as_deref()),
        None,
        Conversations { world: Arc::clone(&world), told: told.clone() },
        synced.clone(),
    );
    let pools = follow(
        api::<WarmPool>(&client, namespace.as_deref()),
        None,
        Pools { world: Arc::clone(&world), told: told.clone() },
        synced.clone(),
    );
    let pods = follow(
        api::<PodObject>(&client, namespace.as_deref()),
        Some(managed),
        Pods { world, told: told.clone() },
        synced.clone(),
    );
    let secrets = follow(
        api::<PartialObjectMeta<Secret>>(&client, namespace.as_deref()),
        Some(format!("{CONVERSATION_SECRET_LABEL}=true")),
        Secrets { told },
        synced,
    );
    tokio::join!(conversations, pools, pods, secrets);
}

fn api<K>(client: &Client, namespace: Option<&str>) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
{
    namespace.map_or_else(|| Api::all(client.clone()), |namespace| Api::namespaced(client.clone(), namespace))
}

/// What is done with the objects of one kind.
trait Taker<K>: Send {
    fn put(&mut self, object: K);
    fn gone(&mut self, key: &Key, uid: Option<&str>);
    /// Every key that is known, for finding what went away while nobody watched.
    fn known(&self) -> Vec<Key>;
}

async fn follow<K, T>(api: Api<K>, selector: Option<String>, mut taker: T, synced: watch::Sender<usize>)
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
    T: Taker<K>,
{
    let mut config = watcher::Config::default().timeout(60);
    config.label_selector = selector;
    let stream = watcher::watcher(api, config).default_backoff();
    drain(stream, &mut taker, &synced).await;
}

async fn drain<K, T>(
    stream: impl Stream<Item = Result<Event<K>, watcher::Error>> + Send,
    taker: &mut T,
    synced: &watch::Sender<usize>,
) where
    K: Resource<DynamicType = ()>,
    T: Taker<K>,
{
    pin_mut!(stream);
    let mut first = true;
    let mut seen: HashSet<Key> = HashSet::new();
    while let Some(event) = stream.next().await {
        match event {
            Ok(Event::Apply(object)) => taker.put(object),
            Ok(Event::Delete(object)) => taker.gone(&Key::of(object.meta()), object.meta().uid.as_deref()),
            Ok(Event::Init) => seen.clear(),
            Ok(Event::InitApply(object)) => {
                seen.insert(Key::of(object.meta()));
                taker.put(object);
            }
            Ok(Event::InitDone) => {
                for key in taker.known() {
                    if !seen.contains(&key) {
                        taker.gone(&key, None);
                    }
                }
                seen = HashSet::new();
                if std::mem::take(&mut first) {
                    synced.send_modify(|count| *count += 1);
                }
            }
            Err(error) => {
                tracing::warn!(kind = %K::kind(&()), %error, "watch failed, trying again");
                // The stream has its own back-off; this one holds for errors that it passes on at once.
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

struct Conversations<F> {
    world: Arc<World>,
    told: F,
}

impl<F: Fn(Watched) + Send> Taker<Conversation> for Conversations<F> {
    fn put(&mut self, object: Conversation) {
        let key = Key::of(&object.metadata);
        if self.world.put_conversation(ConversationView::from(object)) != Change::Nothing {
            (self.told)(Watched::Conversation(key));
        }
    }

    fn gone(&mut self, key: &Key, uid: Option<&str>) {
        if self.world.remove_conversation(key, uid).is_some() {
            (self.told)(Watched::Conversation(key.clone()));
        }
    }

    fn known(&self) -> Vec<Key> {
        self.world.conversation_keys()
    }
}

struct Pools<F> {
    world: Arc<World>,
    told: F,
}

impl<F: Fn(Watched) + Send> Taker<WarmPool> for Pools<F> {
    fn put(&mut self, object: WarmPool) {
        let key = Key::of(&object.metadata);
        if self.world.put_pool(PoolView::from(object)) != Change::Nothing {
            (self.told)(Watched::Pool(key));
        }
    }

    fn gone(&mut self, key: &Key, _: Option<&str>) {
        self.world.remove_pool(key);
        (self.told)(Watched::Pool(key.clone()));
    }

    fn known(&self) -> Vec<Key> {
        self.world.pool_keys()
    }
}

struct Pods<F> {
    world: Arc<World>,
    told: F,
}

impl<F: Fn(Watched) + Send> Taker<PodObject> for Pods<F> {
    fn put(&mut self, object: PodObject) {
        let view = PodView::from(object);
        let key = view.key.clone();
        if let Change::Changed(before) = self.world.put_pod(view) {
            (self.told)(Watched::Pod(before, self.world.pod(&key)));
        }
    }

    fn gone(&mut self, key: &Key, uid: Option<&str>) {
        if let Some(before) = self.world.remove_pod(key, uid) {
            (self.told)(Watched::Pod(Some(before), None));
        }
    }

    fn known(&self) -> Vec<Key> {
        self.world.pod_keys()
    }
}

struct Secrets<F> {
    told: F,
}

impl<F: Fn(Watched) + Send> Taker<PartialObjectMeta<Secret>> for Secrets<F> {
    fn put(&mut self, object: PartialObjectMeta<Secret>) {
        (self.told)(Watched::Secret(Key::of(&object.metadata)));
    }

    fn gone(&mut self, _: &Key, _: Option<&str>) {}

    fn known(&self) -> Vec<Key> {
        Vec::new()
    }
}
