//! A team in the middle of a step, for tests of the components.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use strata_core::machine::effect::{Effect, Invocation};
use strata_core::machine::stepper::Stepper;
use strata_core::record::conversation::ToolChoice;
use strata_core::record::id::{Digest, Slot};
use strata_core::state::environment::Environment;
use strata_core::team::RetryPolicy;
use strata_core::team::tools::{CallOrder, Summariser, ToolFaults, ToolLoop};
use strata_manifest::Definition;
use strata_sandbox::{Directories, ScriptedSandbox};
use strata_services::http::HttpClient;
use strata_services::http::secrets::Secrets;
use strata_services::tools::{HistoryUse, ModelTimeout, ToolRole};

use crate::HostServices;

/// A role with one action, in the notation of team files.
pub(crate) const ROLE: &str = "[[role]]\nname = \"A\"\nwatch = [\"UserRequirement\"]\n\
                               [[role.action]]\nname = \"One\"\ncomponent = \"one.wasm\"\n";

/// A team whose attempts have begun.
pub(crate) struct RunningTeam {
    pub(crate) stepper: Stepper,
    /// The attempts of the first step.
    pub(crate) invocations: Vec<Invocation>,
    /// Services whose sandbox has no scripts: each action returns its name.
    pub(crate) services: HostServices,
}

impl RunningTeam {
    /// Starts the team that a team file defines below the name in its `[team]` table, until its
    /// first attempts have begun.
    pub(crate) fn start(team_file: &str) -> Self {
        let text = format!("schema = \"strata.team/1\"\n[team]\nname = \"team\"\n{team_file}");
        let definition = Definition::parse_without_files(&text, "team.toml", Path::new("/teams"))
            .unwrap_or_else(|error| panic!("{error}"));
        let component = |slot: &Slot| (*slot, Digest::from("d"));
        let components = definition.plugins.keys().map(component).collect();
        let plugins = definition.plugins.into_iter();
        let tool_roles = definition.tool_roles.into_iter();
        let secrets = Secrets::new(BTreeMap::new());
        let services = HostServices {
            sandbox: Arc::new(ScriptedSandbox::new()),
            plugins: plugins
                .map(|(slot, plugin)| (slot, Arc::new(plugin)))
                .collect(),
            descriptions: BTreeMap::new(),
            tool_roles: tool_roles.map(|(id, role)| (id, Arc::new(role))).collect(),
            choice_timeout: None,
            models: None,
            http: Arc::new(HttpClient::new(secrets).expect("a client")),
            external: None,
            mcp: None,
            directories: Directories::new(Path::new("/teams"), std::iter::empty()),
        };
        let team = Arc::new(definition.team);
        let mut stepper = Stepper::new(team.clone(), Environment::new(&team));
        let started = stepper.run_started_event("run".into(), "idea".into(), components);
        stepper.apply(&started).expect("the start of a run");
        let mut invocations = Vec::new();
        loop {
            let event = match stepper.next() {
                Effect::Record(event) => event,
                Effect::Call(call) => {
                    let started = stepper.call_started_event(&call);
                    invocations.push(call);
                    started
                }
                Effect::Wait | Effect::Halt(_) => break,
            };
            stepper.apply(&event).expect("an event of the stepper");
        }
        Self {
            stepper,
            invocations,
            services,
        }
    }
}

/// Returns a role without tools.
pub(crate) fn empty_role() -> (ToolLoop, ToolRole) {
    let tools = ToolLoop {
        max_turns: 9,
        max_calls: 9,
        repeat: None,
        order: CallOrder::Parallel,
        faults: ToolFaults::Auto,
        retry: RetryPolicy {
            retries: 0,
            backoff_ms: 0,
        },
        summariser: Summariser::Model,
        tools: Vec::new(),
        reviews_results: false,
        server_limits: Vec::new(),
    };
    let settings = ToolRole {
        instructions: String::new(),
        history: HistoryUse::Role,
        tool_choice: ToolChoice::Auto,
        output_schema: None,
        timeout: ModelTimeout::new(Duration::from_secs(1)),
        role_result_bytes: 1000,
        memory: None,
        tools: Vec::new(),
        skills: Vec::new(),
        servers: Vec::new(),
        code_only: Vec::new(),
        code: Vec::new(),
    };
    (tools, settings)
}
