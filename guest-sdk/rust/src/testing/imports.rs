//! The host's functions as the component imports them, implemented by the [`Host`] of the current
//! thread.
//!
//! Names and signatures are the same as those of the generated bindings, which they replace in
//! tests.

use super::Host;
use std::cell::RefCell;

thread_local! {
    static CURRENT_HOST: RefCell<Option<Host>> = const { RefCell::new(None) };
}

/// Runs `function` with `host` as the host of this thread.
pub fn serve<R>(host: &mut Host, function: impl FnOnce() -> R) -> R {
    let outer = CURRENT_HOST.replace(Some(std::mem::take(host)));
    // The host is returned to its owner even if the function panics, so that the owner can inspect
    // it.
    struct Return<'a> {
        owner: &'a mut Host,
        outer: Option<Host>,
    }
    impl Drop for Return<'_> {
        fn drop(&mut self) {
            if let Some(host) = CURRENT_HOST.replace(self.outer.take()) {
                *self.owner = host;
            }
        }
    }
    let _return = Return { owner: host, outer };
    function()
}

fn with_host<R>(function: impl FnOnce(&mut Host) -> R) -> R {
    CURRENT_HOST.with_borrow_mut(|host| match host {
        Some(host) => function(host),
        None => panic!("a host function was called outside of `strata_action::testing::Host`"),
    })
}

fn denied(message: String) -> crate::HostError {
    crate::HostError {
        kind: crate::HostErrorKind::Denied,
        message,
    }
}

fn invalid(message: String) -> crate::HostError {
    crate::HostError {
        kind: crate::HostErrorKind::Invalid,
        message,
    }
}

/// Fails if a thinker is running, since it may not change anything.
fn check_may_change() -> Result<(), crate::HostError> {
    if with_host(|host| host.choosing) {
        return Err(invalid(
            "nothing can be emitted or written here: a choice changes nothing".into(),
        ));
    }
    Ok(())
}

pub mod environment {
    use super::{check_may_change, with_host};
    use crate::HostError;
    use crate::environment::Emission;

    pub fn emit(emission: &Emission) -> Result<(), HostError> {
        check_may_change()?;
        with_host(|host| host.emitted.push(emission.clone()));
        Ok(())
    }
}

pub mod state {
    use super::{check_may_change, invalid, with_host};
    use crate::HostError;
    use std::collections::BTreeMap;

    fn scope<R>(
        name: &str,
        function: impl FnOnce(&mut BTreeMap<String, String>) -> R,
    ) -> Result<R, HostError> {
        with_host(|host| match host.scopes.get_mut(name) {
            Some(scope) => Ok(function(scope)),
            None => Err(invalid(format!(
                "using scope `{name}`: the team declares no such scope"
            ))),
        })
    }

    pub fn get(name: &str, key: &str) -> Result<Option<String>, HostError> {
        scope(name, |scope| scope.get(key).cloned())
    }

    pub fn set(name: &str, key: &str, value: &str) -> Result<(), HostError> {
        check_may_change()?;
        scope(name, |scope| {
            scope.insert(key.to_owned(), value.to_owned());
        })
    }

    pub fn delete(name: &str, key: &str) -> Result<(), HostError> {
        check_may_change()?;
        scope(name, |scope| {
            scope.remove(key);
        })
    }

    pub fn keys(name: &str) -> Result<Vec<String>, HostError> {
        scope(name, |scope| scope.keys().cloned().collect())
    }
}

pub mod memory {
    use super::{check_may_change, invalid, with_host};
    use crate::memory::Bounds;
    use crate::{HostError, Message};

    pub fn recent(bounds: Bounds) -> Vec<Message> {
        newest(bounds, |_| true)
    }

    pub fn by_label(label: &str, bounds: Bounds) -> Vec<Message> {
        newest(bounds, |message| message.cause_by == label)
    }

    pub fn replace(up_to: u32, summary: &str) -> Result<(), HostError> {
        check_may_change()?;
        if up_to == 0 || summary.trim().is_empty() {
            let message = "replacing messages: there is nothing to replace, or no text";
            return Err(invalid(message.into()));
        }
        with_host(|host| host.replaced.push((up_to, summary.to_owned())));
        Ok(())
    }

    fn newest(bounds: Bounds, wanted: impl Fn(&Message) -> bool) -> Vec<Message> {
        let messages = usize::try_from(bounds.messages).unwrap_or(usize::MAX);
        let mut bytes = usize::try_from(bounds.bytes).unwrap_or(usize::MAX);
        let mut fits = |message: &&Message| {
            let data = message.data.as_ref().map_or(0, String::len);
            let left = bytes.checked_sub(message.content.len() + data);
            bytes = left.unwrap_or(bytes);
            left.is_some()
        };
        let mut found: Vec<Message> = with_host(|host| {
            let newest_first = host.memory.iter().rev().filter(|message| wanted(message));
            let newest = newest_first.take(messages).take_while(&mut fits);
            newest.cloned().collect()
        });
        found.reverse();
        found
    }
}

pub mod media {
    use super::with_host;
    use crate::{HostError, HostErrorKind};

    pub fn load(digest: &str) -> Result<Vec<u8>, HostError> {
        with_host(|host| host.blobs.get(digest).cloned()).ok_or_else(|| HostError {
            kind: HostErrorKind::NotFound,
            message: format!("loading `{digest}`: no part with this digest was received"),
        })
    }
}

pub mod log {
    use super::with_host;
    use crate::log::Level;

    pub fn write(level: Level, message: &str) {
        with_host(|host| host.log.push((level, message.to_owned())));
    }
}

pub mod clock {
    use super::with_host;

    pub fn unix_time_ms() -> f64 {
        with_host(|host| host.now_ms)
    }

    pub fn sleep(duration_ms: u32) {
        with_host(|host| {
            host.now_ms += f64::from(duration_ms);
            host.slept_ms += f64::from(duration_ms);
        });
    }
}

pub mod random {
    use super::{invalid, with_host};
    use crate::HostError;

    pub fn bytes(length: u32) -> Result<Vec<u8>, HostError> {
        if length > 65_536 {
            return Err(invalid(format!(
                "getting `{length}` random bytes: more than 65536"
            )));
        }
        Ok(with_host(|host| {
            (0..length)
                .map(|_| next_byte(&mut host.random_state))
                .collect()
        }))
    }

    /// Returns one byte of SplitMix64: random enough for tests, and the same in every run.
    fn next_byte(state: &mut u64) -> u8 {
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed >> 56) as u8
    }
}

pub mod llm {
    use super::with_host;
    use crate::llm::{EmbedRequest, Embeddings, Reply, Request};
    use crate::{HostError, HostErrorKind};

    fn error(kind: HostErrorKind, message: &str) -> HostError {
        HostError {
            kind,
            message: message.to_owned(),
        }
    }

    pub fn complete(request: &Request) -> Result<Reply, HostError> {
        with_host(|host| {
            host.requests.push(request.clone());
            let Some(replies) = &mut host.llm else {
                return Err(error(HostErrorKind::Denied, "asking the llm: not granted"));
            };
            replies.pop_front().unwrap_or_else(|| {
                let message = "asking the llm: no reply is left";
                Err(error(HostErrorKind::Upstream, message))
            })
        })
    }

    pub fn embed(request: &EmbedRequest) -> Result<Embeddings, HostError> {
        with_host(|host| {
            host.embed_requests.push(request.clone());
            if host.llm.is_none() {
                return Err(error(HostErrorKind::Denied, "asking the llm: not granted"));
            }
            host.embeddings.pop_front().ok_or_else(|| {
                let message = "asking for embeddings: no vectors are left";
                error(HostErrorKind::Upstream, message)
            })
        })
    }

    pub fn complete_many(requests: &[Request]) -> Vec<Result<Reply, HostError>> {
        requests.iter().map(complete).collect()
    }
}

pub mod human {
    use super::with_host;
    use crate::human::{Answer, Question, Source};
    use crate::{HostError, HostErrorKind};

    pub fn ask(question: &Question) -> Result<Answer, HostError> {
        with_host(|host| {
            host.questions.push(question.clone());
            match (host.answers.pop_front(), &question.default) {
                (Some(Err(error)), Some(default)) if error.kind == HostErrorKind::Expired => {
                    Ok(Answer {
                        value: default.clone(),
                        source: Source::Default,
                    })
                }
                (Some(answer), _) => answer,
                (None, _) => panic!("nobody answers `{}`; add `Host::answer`", question.text),
            }
        })
    }
}

pub mod http {
    use super::{denied, with_host};
    use crate::http::{Request, Response};
    use crate::{HostError, HostErrorKind};

    pub fn fetch(request: &Request) -> Result<Response, HostError> {
        with_host(|host| {
            host.fetched.push(request.clone());
            let Some(responses) = &mut host.http else {
                return Err(denied("making a request: not granted".to_owned()));
            };
            if let Some(name) = request
                .secrets
                .iter()
                .find(|name| !host.secrets.contains(*name))
            {
                return Err(denied(format!("sending the secret `{name}`: not granted")));
            }
            let message = "making a request: no response is left".to_owned();
            responses.pop_front().unwrap_or(Err(HostError {
                kind: HostErrorKind::Upstream,
                message,
            }))
        })
    }

    pub fn fetch_many(requests: &[Request]) -> Vec<Result<Response, HostError>> {
        requests.iter().map(fetch).collect()
    }
}

pub mod mcp {
    use super::{denied, with_host};
    use crate::mcp::ToolResult;
    use crate::{HostError, HostErrorKind};

    pub fn call_tool(server: &str, tool: &str, arguments: &str) -> Result<ToolResult, HostError> {
        with_host(|host| {
            let called = (server.to_owned(), tool.to_owned(), arguments.to_owned());
            host.mcp_calls.push(called);
            let Some(results) = &mut host.mcp_results else {
                return Err(denied(format!("calling `{server}/{tool}`: not granted")));
            };
            let message = format!("calling `{server}/{tool}`: no result is left");
            results.pop_front().unwrap_or(Err(HostError {
                kind: HostErrorKind::Upstream,
                message,
            }))
        })
    }
}

pub mod secrets {
    use super::{denied, with_host};
    use crate::HostError;

    pub fn placeholder(name: &str) -> Result<String, HostError> {
        if with_host(|host| host.secrets.contains(name)) {
            Ok(format!("{{{{secret:{name}}}}}"))
        } else {
            Err(denied(format!("naming the secret `{name}`: not granted")))
        }
    }
}

pub mod env {
    use super::{denied, with_host};
    use crate::HostError;

    pub fn get(name: &str) -> Result<Option<String>, HostError> {
        let value = with_host(|host| host.variables.get(name).cloned());
        value
            .map(Some)
            .ok_or_else(|| denied(format!("reading the variable `{name}`: not granted")))
    }
}

pub mod files {
    use super::{check_may_change, with_host};
    use crate::HostError;

    pub fn read(path: &str) -> Result<Vec<u8>, HostError> {
        with_host(|host| host.directories.read(path))
    }

    pub fn write(path: &str, content: &[u8]) -> Result<(), HostError> {
        check_may_change()?;
        with_host(|host| host.directories.write(path, content))
    }

    pub fn remove(path: &str) -> Result<(), HostError> {
        check_may_change()?;
        with_host(|host| host.directories.remove(path))
    }

    pub fn list(path: &str) -> Result<Vec<String>, HostError> {
        with_host(|host| host.directories.list(path))
    }
}

pub mod tools {
    use super::{denied, with_host};
    use crate::tools::{Tool, ToolCall};
    use crate::{HostError, HostErrorKind};

    pub fn list() -> Result<Vec<Tool>, HostError> {
        with_host(|host| {
            let mut names: Vec<&String> = host.tools.keys().collect();
            names.sort();
            names.dedup();
            if names.is_empty() {
                return Err(denied("no tool is granted".to_owned()));
            }
            let tools = names.into_iter().map(|name| Tool {
                name: name.clone(),
                description: String::new(),
                input_schema: "{\"type\":\"object\"}".to_owned(),
            });
            Ok(tools.collect())
        })
    }

    pub fn call(call: &ToolCall) -> Result<String, HostError> {
        with_host(|host| {
            let granted = host.tools.iter_mut().find(|(name, _)| **name == call.name);
            let Some((_, results)) = granted else {
                let name = &call.name;
                return Err(denied(format!("the tool `{name}` is not granted")));
            };
            host.tool_calls.push(call.clone());
            results.pop_front().unwrap_or_else(|| {
                Err(HostError {
                    kind: HostErrorKind::Failed,
                    message: format!("the test has no result of `{}` left", call.name),
                })
            })
        })
    }

    pub fn call_many(calls: &[ToolCall]) -> Vec<Result<String, HostError>> {
        calls.iter().map(call).collect()
    }
}
