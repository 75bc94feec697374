//! Turn-taking, for interfaces that insist on it: the sides alternate, and the user begins and ends.

use serde_json::Value;

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    User,
    Model,
}

/// Turns in the making.
#[derive(Debug)]
pub(crate) struct Sides {
    turns: Vec<(Side, Vec<Value>)>,
    go_on: Value,
}

impl Sides {
    /// `go_on` stands where the user has to speak and has not.
    pub(crate) const fn new(go_on: Value) -> Self {
        Self { turns: Vec::new(), go_on }
    }

    /// Adds parts; none are no turn.
    pub(crate) fn say(&mut self, side: Side, mut parts: Vec<Value>) {
        if parts.is_empty() {
            return;
        }
        if self.turns.is_empty() && side == Side::Model {
            self.turns.push((Side::User, vec![self.go_on.clone()]));
        }
        match self.turns.last_mut() {
            Some((last, content)) if *last == side => content.append(&mut parts),
            _ => self.turns.push((side, parts)),
        }
    }

    pub(crate) fn finish(mut self) -> Vec<(Side, Vec<Value>)> {
        if self.turns.last().is_none_or(|(side, _)| *side == Side::Model) {
            self.turns.push((Side::User, vec![self.go_on]));
        }
        self.turns
    }
}
