//! Executes the steps of the probe. How they are written in a team file is defined in `steps`.

use crate::misbehaviour;
use crate::steps::{Config, ItineraryHop, Operation, PlannedTask};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use strata_action::environment::{Emission, emit};
use strata_action::{
    Failure, Hop, Message, Output, Part, clock, env, files, http, human, llm, mcp, memory, random,
    secrets, state, tools,
};

/// The call for which steps are executed.
#[derive(Clone, Copy, Debug)]
pub struct CallContext<'a> {
    /// The action's name.
    pub action: &'a str,
    /// The number of the attempt.
    pub attempt: u32,
    /// The messages being handled.
    pub news: &'a [Message],
    /// The arguments of a tool call.
    pub arguments: Option<&'a str>,
}

/// The results of the steps.
#[derive(Debug, Default)]
pub struct StepResults {
    /// The last output that was set.
    pub output: Option<Output<Value>>,
    /// The choices of a thinker, by round.
    pub choices: Option<Vec<i32>>,
    /// The tasks of a planner.
    pub plan: Option<Vec<PlannedTask>>,
    /// The values read so far, as text.
    reads: Vec<String>,
    /// The images for the next request to a model.
    images: Vec<Part>,
}

/// Executes the steps that apply to this attempt, in order.
///
/// # Errors
/// Returns the failure of the first step that fails.
pub fn run_steps(config: &Config, scene: &CallContext<'_>) -> Result<StepResults, Failure> {
    let mut deeds = StepResults::default();
    for step in config
        .steps
        .iter()
        .filter(|step| step.applies_to(scene.attempt))
    {
        if let Operation::Fail { fail } = step.operation {
            if let Some(output) = misbehaviour::misbehave(fail, scene.action)? {
                return Ok(StepResults {
                    output: Some(output),
                    ..deeds
                });
            }
        } else {
            deeds.run_step(&step.operation, scene)?;
        }
    }
    Ok(deeds)
}

/// Returns what a guard answers about the tool call in these arguments.
fn guard_output(
    answers: &BTreeMap<String, String>,
    arguments: Option<&str>,
) -> Result<Output<Value>, Failure> {
    let call: Value = serde_json::from_str(arguments.unwrap_or("null"))?;
    let answer = call["tool"].as_str().and_then(|tool| answers.get(tool));
    Ok(Output::new(answer.map_or("allow", String::as_str)))
}

/// Returns the recipients that a step names: none if it has no `to`, and nobody if its `to` is empty.
fn recipients(to: Option<&[String]>) -> Vec<String> {
    match to {
        None => Vec::new(),
        Some([]) => vec!["<nobody>".into()],
        Some(names) => names.to_vec(),
    }
}

impl StepResults {
    fn run_step(&mut self, deed: &Operation, scene: &CallContext<'_>) -> Result<(), Failure> {
        match deed {
            Operation::Say {
                say,
                data,
                to,
                route,
            } => {
                self.output = Some(Output {
                    data: data.clone(),
                    to: recipients(to.as_deref()),
                    route: route.iter().map(hop).collect(),
                    ..Output::new(self.replace_placeholders(say, scene)?)
                });
            }
            Operation::Emit {
                emit: text,
                data,
                to,
                cause,
            } => {
                let mut emission = Emission::new(text);
                if let Some(data) = data {
                    emission = emission.data(data)?;
                }
                emit(&Emission {
                    to: recipients(to.as_deref()),
                    cause_by: cause.clone(),
                    ..emission
                })?;
            }
            Operation::Set { set, value, scope } => state::scope(scope).set(set, value)?,
            Operation::Get { get, scope } => {
                self.reads.push(
                    state::scope(scope)
                        .get(get)?
                        .map_or(String::new(), format_value),
                );
            }
            Operation::Delete { delete, scope } => state::scope(scope).delete(delete)?,
            Operation::Llm { llm, model, schema } => {
                let read = self.ask_model(llm, model.as_deref(), schema.as_ref())?;
                self.reads.push(read);
            }
            Operation::Embed {
                embed,
                model,
                dimensions,
            } => {
                let mut request = llm::EmbedRequest::new(embed);
                request.model.clone_from(model);
                request.dimensions = *dimensions;
                let vectors = request.send()?.vectors;
                self.reads.push(serde_json::to_string(&vectors)?);
            }
            Operation::Memory { memory, up_to } => memory::replace(*up_to, memory)?,
            Operation::Image { image } => self.images.push(read_image(image)?),
            Operation::Now { now } if *now => {
                self.reads.push(format!("{:.0}", clock::unix_time_ms()))
            }
            Operation::Count { count } if *count => self.reads.push(count_calls().to_string()),
            Operation::Now { .. } | Operation::Count { .. } | Operation::Fail { .. } => {}
            Operation::Random { random: length } => self.reads.push(hex(&random::bytes(*length)?)),
            Operation::Sleep { sleep } => clock::sleep(*sleep),
            Operation::Read { read } => self.reads.push(files::read_text(read)?),
            Operation::Write { write, text } => files::write(write, text)?,
            Operation::Remove { remove } => files::remove(remove)?,
            Operation::Http { .. } => self.reads.push(fetch(deed)?),
            Operation::Tool { tool, arguments } => {
                self.reads.push(format_value(tools::call(tool, arguments)?));
            }
            Operation::Mcp { mcp, arguments } => self.reads.push(call_tool(mcp, arguments)?),
            Operation::GetEnv { getenv } => self.reads.push(env::var(getenv)?.unwrap_or_default()),
            Operation::Secret { secret } => self.reads.push(secrets::named(secret)?.to_string()),
            Operation::Guard { guard } => self.output = Some(guard_output(guard, scene.arguments)?),
            Operation::Choose { choose } => self.choices = Some(choose.clone()),
            Operation::Plan { plan } => self.plan = Some(plan.clone()),
            Operation::Ask { .. } => self.reads.push(format_value(ask_person(deed)?)),
        }
        Ok(())
    }

    /// Asks a model, with the images that were added since the last request. Returns the text of
    /// the reply, or its data if it has to match a schema.
    fn ask_model(
        &mut self,
        prompt: &str,
        model: Option<&str>,
        schema: Option<&Value>,
    ) -> Result<String, Failure> {
        let mut request = llm::Request::new(prompt);
        request.model = model.map(str::to_owned);
        for image in self.images.drain(..) {
            request = request.part(image);
        }
        if let Some(schema) = schema {
            request = request.output_schema(schema)?;
        }
        let reply = request.send()?;
        match schema {
            Some(_) => Ok(reply.parse::<Value>()?.to_string()),
            None => Ok(reply.text),
        }
    }

    /// Replaces `{inputs}`, `{reads}` and `{arguments}`. Replaced text is not searched for
    /// placeholders again.
    fn replace_placeholders(&self, text: &str, scene: &CallContext<'_>) -> Result<String, Failure> {
        let mut filled = String::new();
        let mut rest = text;
        while let Some(at) = rest.find('{') {
            filled.push_str(&rest[..at]);
            rest = &rest[at..];
            if let Some(after) = rest.strip_prefix("{inputs}") {
                let contents: Vec<&str> = scene.news.iter().map(|m| m.content.as_str()).collect();
                filled.push_str(&contents.join(","));
                rest = after;
            } else if let Some(after) = rest.strip_prefix("{reads}") {
                filled.push_str(&self.reads.join(","));
                rest = after;
            } else if let Some(after) = rest.strip_prefix("{arguments}") {
                filled.push_str(&format_arguments(scene.arguments)?);
                rest = after;
            } else {
                filled.push('{');
                rest = &rest[1..];
            }
        }
        Ok(filled + rest)
    }
}

/// Formats the arguments of a tool call as JSON with sorted keys and without spaces. Without
/// arguments the text is empty.
fn format_arguments(arguments: Option<&str>) -> Result<String, Failure> {
    let Some(arguments) = arguments else {
        return Ok(String::new());
    };
    Ok(serde_json::from_str::<Value>(arguments)?.to_string())
}

/// Reads an image. Its media type follows from the extension of its name.
fn read_image(path: &str) -> Result<Part, Failure> {
    let extension = path.rsplit_once('.').map_or("", |(_, extension)| extension);
    let media_type = match extension {
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        _ => "image/png",
    };
    Ok(Part::image(media_type, files::read(path)?))
}

/// Asks a person and returns the answer.
fn ask_person(deed: &Operation) -> Result<Value, Failure> {
    let Operation::Ask {
        ask,
        schema,
        choices,
        expires,
        default,
    } = deed
    else {
        return Ok(Value::Null);
    };
    let mut question = human::Question::new(ask).choices(choices);
    if let Some(schema) = schema {
        question = question.schema(schema)?;
    }
    if let Some(time) = expires {
        question = question.expires_in(*time);
    }
    if let Some(default) = default {
        question = question.default(default)?;
    }
    question.ask()?.parse()
}

/// Makes a request and returns the body of the response, whatever its status.
fn fetch(deed: &Operation) -> Result<String, Failure> {
    let Operation::Http {
        http: url,
        method,
        body,
        key,
        secret,
    } = deed
    else {
        return Ok(String::new());
    };
    let mut request = http::Request::new(method, url);
    if let Some(body) = body {
        request = request.body(body.as_str());
    }
    if let Some(key) = key {
        request = request.idempotency_key(key);
    }
    if let Some(name) = secret {
        request = request.bearer(&secrets::named(name)?);
    }
    Ok(request.send()?.text())
}

/// Calls a tool of a server, which `name` names as `SERVER/TOOL`, and returns the text of its result.
fn call_tool(name: &str, arguments: &Map<String, Value>) -> Result<String, Failure> {
    let (server, tool) = name.split_once('/').unwrap_or((name, ""));
    Ok(mcp::call(server, tool, arguments)?.text)
}

/// Formats a value for `{reads}`: strings without quotes, null as an empty text, everything else as
/// compact JSON.
fn format_value(value: Value) -> String {
    match value {
        Value::String(text) => text,
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// Returns how many times this instance has counted. The result is always 1 unless an instance is
/// used for more than one call.
fn count_calls() -> u32 {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    CALLS.fetch_add(1, Ordering::Relaxed) + 1
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn hop(leg: &ItineraryHop) -> Hop {
    Hop {
        from: leg.from.clone(),
        to: leg.to.clone(),
    }
}
