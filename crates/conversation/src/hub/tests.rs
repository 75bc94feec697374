use super::{stage::MAX_HELD_BYTES, *};

fn frame(seq: u64, size: usize) -> Published {
    Published { bytes: Bytes::from(vec![b'1'; size]), seq: Some(seq), kind: "K".into() }
}

fn text(frame: &Published) -> &str {
    std::str::from_utf8(&frame.bytes).unwrap()
}

fn all(subscription: &mut Subscription) -> Vec<String> {
    std::iter::from_fn(|| subscription.waiting()).map(|frame| text(&frame).to_owned()).collect()
}

#[tokio::test]
async fn frames_arrive_in_order_and_the_close_is_seen() {
    let hub = Hub::new(100);
    assert!(!hub.is_heard());
    let mut subscription = hub.subscribe(Audience::Events, 1).unwrap();
    assert!(hub.is_heard());
    assert_eq!(hub.subscribe(Audience::Session, 1).unwrap_err(), TooManySubscribers);
    hub.publish(frame(0, 1));
    hub.publish(frame(1, 1));
    hub.close();
    assert_eq!(subscription.recv().await, Ok(frame(0, 1)));
    assert_eq!(subscription.recv().await, Ok(frame(1, 1)));
    assert_eq!(subscription.recv().await, Err(SubscriptionEnded::Closed));
    assert_eq!(hub.subscribe(Audience::Events, 1).unwrap().recv().await, Err(SubscriptionEnded::Closed));
}

#[tokio::test]
async fn a_slow_subscriber_is_ended_and_frees_its_place() {
    let hub = Hub::new(100);
    let mut slow = hub.subscribe(Audience::Events, 1).unwrap();
    hub.publish(frame(0, MAX_WAITING_BYTES + 1));
    hub.publish(frame(1, 1));
    assert_eq!(slow.recv().await.map(|frame| frame.seq), Ok(Some(0)));
    assert_eq!(slow.recv().await, Err(SubscriptionEnded::Lagged));
    assert!(hub.subscribe(Audience::Events, 1).is_ok());
}

#[tokio::test]
async fn small_frames_count_with_what_they_cost() {
    let hub = Hub::new(100);
    let mut slow = hub.subscribe(Audience::Events, 1).unwrap();
    let fitting = MAX_WAITING_BYTES / (FRAME_COST + 1);
    for seq in 0..=fitting as u64 {
        hub.publish(frame(seq, 1));
    }
    assert_eq!(all(&mut slow).len(), fitting);
    assert_eq!(slow.recv().await, Err(SubscriptionEnded::Lagged));
}

#[tokio::test]
async fn a_dropped_subscription_is_forgotten() {
    let hub = Hub::new(100);
    drop(hub.subscribe(Audience::Events, 1).unwrap());
    assert!(!hub.is_heard());
    assert!(hub.subscribe(Audience::Events, 1).is_ok());
}

#[tokio::test]
async fn each_audience_has_its_form() {
    let hub = Hub::new(100);
    let (mut bare, mut session) =
        (hub.subscribe(Audience::Events, 9).unwrap(), hub.subscribe(Audience::Session, 9).unwrap());
    hub.publish_stored(&EventId::from("e"), 3, frame(3, 1));
    hub.publish(Published { seq: None, ..frame(0, 1) });
    assert_eq!(all(&mut bare), ["1", "1"]);
    assert_eq!(all(&mut session), [r#"{"type":"durable","seq":3,"event":1}"#, r#"{"type":"transient","event":1}"#]);
}

#[tokio::test]
async fn an_item_ends_once_with_its_event_or_an_abort() {
    let (hub, id) = (Hub::new(100), EventId::from("e"));
    let mut session = hub.subscribe(Audience::Session, 9).unwrap();
    // Nothing was shown, so nothing is taken back.
    hub.expect(id.clone(), Some(4));
    hub.give_up("cancelled");
    hub.start_attempt(&id, 1);
    assert_eq!(all(&mut session), Vec::<String>::new());

    hub.expect(id.clone(), Some(4));
    hub.start_attempt(&id, 1);
    hub.abort_attempt(&id, "retry");
    hub.start_attempt(&id, 2);
    let mut late = hub.subscribe(Audience::Session, 9).unwrap();
    assert_eq!(late.open_item(), Some(OpenItem { id: id.clone(), attempt: 2, anchor_seq: Some(4) }));
    hub.publish_stored(&id, 5, frame(5, 1));
    hub.give_up("no_durable_event");
    let end = r#"{"type":"durable","seq":5,"event":1}"#;
    assert_eq!(
        all(&mut session),
        [
            r#"{"type":"item_started","item_id":"e","attempt":1,"anchor_seq":4}"#,
            r#"{"type":"item_aborted","item_id":"e","attempt":1,"reason":"retry"}"#,
            r#"{"type":"item_started","item_id":"e","attempt":2,"anchor_seq":4}"#,
            end
        ]
    );
    assert_eq!(all(&mut late), [end]);
    assert_eq!(hub.subscribe(Audience::Session, 9).unwrap().open_item(), None);
}

#[tokio::test]
async fn nothing_is_shown_before_its_event_is_on_disk() {
    let (hub, first, second) = (Hub::new(3), EventId::from("a"), EventId::from("b"));
    let (mut bare, mut session) =
        (hub.subscribe(Audience::Events, 9).unwrap(), hub.subscribe(Audience::Session, 9).unwrap());
    let piece = |audience| (audience == Audience::Session).then(|| Published { seq: None, ..frame(0, 2) });
    hub.expect(first.clone(), None);
    hub.start_attempt(&first, 1);
    hub.publish_stored(&first, 3, frame(3, 1));
    hub.give_up("no_durable_event");
    hub.expect(second.clone(), Some(3));
    hub.start_attempt(&second, 1);
    hub.piece(&second, piece);
    hub.publish_stored(&second, 4, frame(4, 1));
    hub.publish(Published { seq: None, ..frame(0, 3) });
    assert_eq!(all(&mut bare), Vec::<String>::new());
    assert_eq!(all(&mut session), [r#"{"type":"item_started","item_id":"a","attempt":1}"#]);
    // What must be told at once overtakes.
    hub.publish_now(Published { seq: None, ..frame(0, 4) });
    assert_eq!(all(&mut bare), ["1111"]);

    hub.release(4);
    assert_eq!(all(&mut bare), ["1"]);
    assert_eq!(
        all(&mut session),
        [
            r#"{"type":"transient","event":1111}"#,
            r#"{"type":"durable","seq":3,"event":1}"#,
            r#"{"type":"item_started","item_id":"b","attempt":1,"anchor_seq":3}"#,
            "11"
        ]
    );
    let mut late = hub.subscribe(Audience::Session, 9).unwrap();
    assert_eq!(late.open_item().map(|item| item.id), Some(second));
    hub.release(5);
    assert_eq!(all(&mut bare), ["1", "111"]);
    assert_eq!(all(&mut late), [r#"{"type":"durable","seq":4,"event":1}"#, r#"{"type":"transient","event":111}"#]);
}

#[tokio::test]
async fn pieces_behind_a_disk_that_hangs_are_bounded() {
    let (hub, id) = (Hub::new(0), EventId::from("a"));
    let mut session = hub.subscribe(Audience::Session, 9).unwrap();
    hub.publish_stored(&EventId::from("e"), 0, frame(0, 1));
    hub.expect(id.clone(), None);
    let size = 1024 * 1024;
    for _ in 0..20 {
        hub.piece(&id, |_| Some(Published { seq: None, ..frame(0, size) }));
    }
    hub.release(1);
    assert_eq!(all(&mut session).len(), 1 + MAX_HELD_BYTES / (size + FRAME_COST));
}
