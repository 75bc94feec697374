//! Lists of conversations: filtered and ordered by what the index knows, so that only the page itself is loaded.

use openhands_protocol::{ConversationId, ExecutionStatus};

use super::{
    Service, ServiceError,
    entry::{Live, State},
};

/// The order of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SortOrder {
    /// Oldest first.
    CreatedAt,
    /// Newest first.
    CreatedAtDesc,
    /// Longest unchanged first.
    UpdatedAt,
    /// Latest changed first.
    UpdatedAtDesc,
}

/// A page of a list.
pub struct Page {
    /// The conversations, in order.
    pub items: Vec<Live>,
    /// The first one of the next page.
    pub next: Option<ConversationId>,
}

struct Row {
    id: ConversationId,
    status: ExecutionStatus,
    created_at: String,
    updated_at: String,
}

impl Service {
    /// How many conversations there are, of a status when given.
    #[must_use]
    pub fn count(&self, status: Option<ExecutionStatus>) -> usize {
        self.rows(status).len()
    }

    /// A page of at most `limit`, from the conversation `from` on (from the beginning when it is unknown). Conversations that
    /// cannot be loaded are left out, with a warning.
    pub async fn search(
        &self,
        from: Option<ConversationId>,
        limit: usize,
        status: Option<ExecutionStatus>,
        order: SortOrder,
    ) -> Page {
        let mut rows = self.rows(status);
        rows.sort_by(|left, right| {
            let ordering = match order {
                SortOrder::CreatedAt | SortOrder::CreatedAtDesc => left.created_at.cmp(&right.created_at),
                SortOrder::UpdatedAt | SortOrder::UpdatedAtDesc => left.updated_at.cmp(&right.updated_at),
            }
            .then(left.id.cmp(&right.id));
            match order {
                SortOrder::CreatedAt | SortOrder::UpdatedAt => ordering,
                SortOrder::CreatedAtDesc | SortOrder::UpdatedAtDesc => ordering.reverse(),
            }
        });
        let start = from.and_then(|id| rows.iter().position(|row| row.id == id)).unwrap_or(0);
        let mut rest = rows.into_iter().skip(start).map(|row| row.id);
        let wanted: Vec<_> = rest.by_ref().take(limit).collect();
        let next = rest.next();
        let mut items = Vec::with_capacity(wanted.len());
        for id in wanted {
            match self.get(id).await {
                Ok(live) => items.push(live),
                Err(ServiceError::Unknown) => {}
                Err(error) => tracing::warn!(conversation = %id, %error, "left out of a list"),
            }
        }
        Page { items, next }
    }

    fn rows(&self, status: Option<ExecutionStatus>) -> Vec<Row> {
        self.entries()
            .iter()
            .filter_map(|(id, entry)| match entry.state() {
                State::Gone => None,
                State::Awake(live) => Some(Row {
                    id: *id,
                    status: live.status(),
                    created_at: live.created_at(),
                    updated_at: live.updated_at(),
                }),
                State::Asleep(found) => Some(Row {
                    id: *id,
                    status: found.status,
                    created_at: found.created_at,
                    updated_at: found.updated_at,
                }),
            })
            .filter(|row| status.is_none_or(|status| row.status == status))
            .collect()
    }
}
