//! Keeps one conversation alive: mailbox, driver, pause, subscribers
