//! REST and WebSocket in front of conversations
